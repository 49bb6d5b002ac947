//! Which way does each session go, and what do those at one place need together?
//!
//! A path is the way from the root to a session's frontier, at the place where its last turn went. It
//! keeps its blocks alive whoever holds them. The working set of a place is the union of its paths: a
//! system prompt that a thousand of them share is charged once. Paths are kept per run, so that going
//! on costs O(runs that differ), whatever the depth and however many sessions there are.
//!
//! This file knows programs only as numbers; who they are, and when one no longer needs its blocks,
//! is for the caller to say.
use super::PrefixIndex;
use super::forest::Stretch;
use super::run::{Address, Passers, RunId};
use crate::block::Chain;
use crate::{PlaceId, ProgramId};

/// Where a program's path ends. It stands until it is given back to [`PrefixIndex::follow`] or
/// [`PrefixIndex::leave`], which is the only thing to do with it.
#[derive(Debug)]
pub struct Frontier {
    pub(super) slot: u32,
    pub(super) at: Address,
}

impl PrefixIndex {
    /// The path of `program` is that of `chain` from now on, at `place`; it was `before`. Absent when
    /// the place is unknown or nothing of the chain is in the index, which [`PrefixIndex::predict`]
    /// sees to. O(runs of both ways).
    pub fn follow(
        &mut self,
        program: ProgramId,
        place: PlaceId,
        chain: &Chain,
        before: Option<Frontier>,
    ) -> Option<Frontier> {
        let mut path = std::mem::take(&mut self.scratch.path);
        self.forest.walk(chain.hashes(), &mut path);
        let slot = self.slot_of(place).filter(|_| !path.is_empty());
        let old = before.as_ref().map_or_else(Vec::new, |b| self.way(b.at));
        let moved = before.as_ref().is_none_or(|b| Some(b.slot) != slot);
        let same = match moved {
            true => 0,
            false => old.iter().zip(&path).take_while(|(a, b)| a == b).count(),
        };
        // The new way first: what both share must not be dropped in between.
        if let Some(slot) = slot {
            for stretch in &path[same..] {
                self.pass(program, slot, *stretch);
            }
            self.seats[slot as usize].paths += 1;
        }
        if let Some(before) = &before {
            for stretch in old[same..].iter().rev() {
                self.unpass(program, before.slot, *stretch);
            }
            self.seats[before.slot as usize].paths -= 1;
        }
        let at = path.last().and_then(Stretch::last);
        self.scratch.path = path;
        Some(Frontier {
            slot: slot?,
            at: at?,
        })
    }

    /// The program has ended, or needs nothing for now: what only it kept is free. O(runs).
    pub fn leave(&mut self, program: ProgramId, frontier: Frontier) {
        for stretch in self.way(frontier.at).iter().rev() {
            self.unpass(program, frontier.slot, *stretch);
        }
        self.seats[frontier.slot as usize].paths -= 1;
        self.rest();
    }

    /// Whether the path ends at `place`.
    #[must_use]
    pub fn is_at(&self, frontier: &Frontier, place: PlaceId) -> bool {
        self.slot_of(place) == Some(frontier.slot)
    }

    /// Tokens that the programs with a path at `place` need together. O(1).
    #[must_use]
    pub fn working_set(&self, place: PlaceId) -> u64 {
        let slot = self.slot_of(place);
        slot.map_or(0, |slot| self.seats[slot as usize].working_set)
    }

    /// How many blocks of `chain` are on the path of some program other than `program`.
    /// O(runs on the way).
    #[must_use]
    pub fn shared(&self, chain: &Chain, program: Option<ProgramId>) -> u32 {
        let mut shared = 0;
        for stretch in self.forest.along(chain.hashes()) {
            let others = self.longest_of_others(stretch.run, program);
            shared += others.min(stretch.to);
            if others < stretch.to {
                break;
            }
        }
        shared
    }

    /// How many blocks two paths have in common. O(runs of both).
    #[must_use]
    pub fn common(&self, a: &Frontier, b: &Frontier) -> u32 {
        let mut common = 0;
        for (a, b) in self.way(a.at).iter().zip(self.way(b.at)) {
            if a.run != b.run {
                break;
            }
            common += a.to.min(b.to);
            if a.to != b.to {
                break;
            }
        }
        common
    }

    /// How many blocks of `chain` a path goes along with. O(runs of the path).
    #[must_use]
    pub fn along(&self, frontier: &Frontier, chain: &Chain) -> u32 {
        let mut along = 0;
        for stretch in self.way(frontier.at) {
            let rest = &chain.hashes()[along as usize..];
            let run = &self.forest.runs[stretch.run];
            let common = run.matching(0, rest).min(stretch.to);
            along += common;
            if common < stretch.to {
                break;
            }
        }
        along
    }

    /// The one program whose path has the deepest block of `chain` that any path has, and how deep
    /// that is. Absent when several have it. O(runs on the way × log paths).
    #[must_use]
    pub fn nearest(&self, chain: &Chain) -> Option<(ProgramId, u32)> {
        let along = self.forest.along(chain.hashes());
        let passed = along.filter_map(|stretch| {
            let run = &self.forest.runs[stretch.run];
            let paths = run.cold().map(|cold| &cold.paths);
            Some((stretch, run, paths.filter(|paths| !paths.is_empty())?))
        });
        let (stretch, run, paths) = passed.last()?;
        let (program, blocks) = paths.nearest(stretch.to)?;
        Some((ProgramId(program), run.base + blocks))
    }

    /// Replaces `chain` by that of the first `blocks` blocks of a path. False when it has fewer.
    /// O(blocks), at memory speed.
    pub fn retrace(&self, frontier: &Frontier, blocks: usize, chain: &mut Chain) -> bool {
        if (self.forest.depth(frontier.at) as usize) < blocks {
            return false;
        }
        chain.clear();
        for stretch in self.way(frontier.at) {
            let run = &self.forest.runs[stretch.run];
            let more = (blocks - chain.len()).min(stretch.to as usize);
            let tokens = |n| u32::try_from(run.lengths.tokens((0, n))).unwrap_or(u32::MAX);
            chain.append(&run.chain[..more], tokens);
        }
        true
    }

    /// The stretches from the root to `at`.
    pub(super) fn way(&self, at: Address) -> Vec<Stretch> {
        let above = |s: &Stretch| self.forest.runs[s.run].parent.map(to_here);
        let mut way: Vec<Stretch> = std::iter::successors(Some(to_here(at)), above).collect();
        way.reverse();
        way
    }

    fn longest_of_others(&self, run: RunId, program: Option<ProgramId>) -> u32 {
        let cold = self.forest.runs[run].cold();
        cold.map_or(0, |cold| cold.paths.longest_but(program.map(|p| p.0)))
    }

    pub(super) fn pass(&mut self, program: ProgramId, slot: u32, stretch: Stretch) {
        self.change_paths(slot, stretch.run, |paths| {
            paths.insert(slot, stretch.to, program.0);
        });
    }

    fn unpass(&mut self, program: ProgramId, slot: u32, stretch: Stretch) {
        self.change_paths(slot, stretch.run, |paths| {
            paths.remove(slot, stretch.to, program.0);
        });
        self.forest.settle(stretch.run);
    }

    /// Changes the paths of a run, and the working set of the place with them.
    fn change_paths(&mut self, slot: u32, id: RunId, change: impl FnOnce(&mut Passers)) {
        let run = &mut self.forest.runs[id];
        let (before, after) = run.change_cold(|cold| {
            let before = cold.paths.longest_at(slot);
            change(&mut cold.paths);
            (before, cold.paths.longest_at(slot))
        });
        let tokens = |blocks| run.lengths.tokens((0, blocks));
        let set = &mut self.seats[slot as usize].working_set;
        *set = (*set + tokens(after)).saturating_sub(tokens(before));
    }
}

/// The stretch of a run that ends with `at`.
fn to_here(at: Address) -> Stretch {
    Stretch {
        run: at.run,
        from: 0,
        to: at.offset + 1,
    }
}
