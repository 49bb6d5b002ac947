//! Which blocks exist, and what hangs below what?
//!
//! A forest of runs. A child is found by the chain hash of its first block, which vouches for
//! everything above it, so one table serves all runs. A run takes the blocks that follow its last one
//! unless many other places hold all of it; then they become a child, so that what many share stays
//! one bit each.
//!
//! Blocks live while somebody holds them, something hangs below them, or a session's path ends there
//! or later. This file knows nothing of time, capacity or trust; the order in which ends were used is
//! kept for the bound on the whole, lazily: a use writes one number.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arena::Arena;
use super::lengths::NewLengths;
use super::run::{Address, Run, RunId};
use crate::snapshot::Watch;
use crate::table::Table;

/// A run grows although so many other places hold all of it; each costs an interval then.
const FEW_OTHERS: usize = 8;

/// Blocks `from..to` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) run: RunId,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Stretch {
    /// Its last block.
    pub(super) fn last(&self) -> Option<Address> {
        let offset = self.to.checked_sub(1)?;
        Some(Address {
            run: self.run,
            offset,
        })
    }
}

/// All runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    pub(super) runs: Arena<Run>,
    /// By the chain hash of their first block.
    pub(super) heads: Table<RunId>,
    pub(super) blocks: usize,
    /// Runs by the use of their end when they were queued; the oldest first.
    ends: BinaryHeap<Reverse<(u64, RunId)>>,
    /// There while a snapshot is being written.
    pub(super) watch: Option<Box<Watch>>,
}

impl Forest {
    /// Distinct blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The run below `above` that begins with `hash`.
    pub(super) fn child(&self, above: Option<Address>, hash: u64) -> Option<RunId> {
        if let Some(above) = above
            && !self.runs[above.run].has_children()
        {
            return None;
        }
        let id = self.heads.get(hash)?;
        (self.runs[id].parent == above).then_some(id)
    }

    /// The way of `hashes` from the root as far as it is known, run by run. A run's base is how many
    /// blocks come before it.
    pub(super) fn along<'a>(&'a self, hashes: &'a [u64]) -> impl Iterator<Item = Stretch> + 'a {
        let (mut rest, mut above) = (hashes, None);
        std::iter::from_fn(move || {
            let run = self.child(above, *rest.first()?)?;
            let to = self.runs[run].matching(0, rest);
            let stretch = Stretch { run, from: 0, to };
            rest = &rest[to as usize..];
            above = stretch.last();
            Some(stretch)
        })
    }

    /// Writes that way down. Returns how many blocks it has.
    pub(super) fn walk(&self, hashes: &[u64], path: &mut Vec<Stretch>) -> usize {
        path.clear();
        path.extend(self.along(hashes));
        path.iter().map(|stretch| stretch.to as usize).sum()
    }

    /// The block above `at`.
    pub(super) fn above(&self, at: Address) -> Option<Address> {
        match at.offset.checked_sub(1) {
            Some(offset) => Some(Address { offset, ..at }),
            None => self.runs.get(at.run)?.parent,
        }
    }

    /// How many blocks there are from the root to `at`, itself included.
    pub(super) fn depth(&self, at: Address) -> u32 {
        self.runs[at.run].base + at.offset + 1
    }

    pub(super) fn is_named(&self, at: Address, domain: u32, name: u64) -> bool {
        let run = self.runs.get(at.run);
        run.is_some_and(|run| run.names.is(domain, at.offset, name))
    }

    /// Lays blocks that are not there yet below `above`, on behalf of `slot`, who is about to hold
    /// them. `None` when a run elsewhere begins with the same chain hash: two prefixes that cannot
    /// be told apart, of which the first keeps the name.
    pub(super) fn lay(
        &mut self,
        slot: u32,
        above: Option<Address>,
        hashes: &[u64],
        lengths: NewLengths<'_>,
    ) -> Option<Stretch> {
        let end = above.filter(|at| {
            let run = &self.runs[at.run];
            at.offset + 1 == run.len()
                && run.held.full().others(slot) <= FEW_OTHERS
                && run.lengths.takes(run.len(), hashes.len(), lengths)
        });
        let id = match end {
            Some(at) => at.run,
            None => self.branch(above, *hashes.first()?)?,
        };
        let run = &mut self.runs[id];
        let from = run.len();
        run.held.grow(from);
        run.push(hashes, lengths);
        self.blocks += hashes.len();
        self.note_blocks(id, from);
        Some(Stretch {
            run: id,
            from,
            to: from + hashes.len() as u32,
        })
    }

    fn branch(&mut self, above: Option<Address>, head: u64) -> Option<RunId> {
        if self.heads.get(head).is_some() {
            return None;
        }
        let base = above.map_or(0, |at| self.depth(at));
        let id = self.runs.insert(Run::new(above, base));
        self.heads.insert(head, id, usize::MAX, |_, _| true);
        if let Some(at) = above {
            self.runs[at.run].fork(at.offset);
        }
        Some(id)
    }

    /// Drops the blocks at the end of a run that nothing keeps, and the run with its ancestors where
    /// that leaves nothing of them.
    pub(super) fn settle(&mut self, id: RunId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            self.note(id);
            let run = &mut self.runs[id];
            let len = run.len();
            let keep = run.held.end(len).max(run.pinned());
            if keep < len {
                self.blocks -= (len - keep) as usize;
                if keep > 0 {
                    run.truncate(keep);
                } else {
                    next = self.unlink(id);
                    continue;
                }
            }
            self.queue(id);
        }
    }

    /// Takes a run out; its parent, which has a child less, is to be settled next.
    fn unlink(&mut self, id: RunId) -> Option<RunId> {
        let run = self.runs.remove(id)?;
        self.note_blocks(id, 0);
        if self.runs.len() == 0 {
            self.heads.reset();
            self.ends = BinaryHeap::new();
            return None;
        }
        self.heads.remove(*run.chain.first()?);
        let at = run.parent?;
        self.runs[at.run].unfork(at.offset);
        Some(at.run)
    }

    /// Use number `used` was made of the blocks of `path`.
    pub(super) fn touch(&mut self, path: &[Stretch], used: u64) {
        for stretch in path {
            let run = &mut self.runs[stretch.run];
            let len = run.len();
            run.recency.touch(stretch.to, len, used);
            self.note(stretch.run);
            self.queue(stretch.run);
        }
    }

    /// Sees to it that the end of the run will be looked at when room is needed. O(1) when it will.
    pub(super) fn queue(&mut self, id: RunId) {
        let recency = &mut self.runs[id].recency;
        if recency.queued.is_none() {
            recency.queued = Some(recency.end);
            self.ends.push(Reverse((recency.end, id)));
            self.sweep();
        }
    }

    /// Entries of runs that are gone must not outnumber the others.
    fn sweep(&mut self) {
        if self.ends.len() > 2 * self.runs.len() + 64 {
            let runs = &self.runs;
            self.ends.retain(|Reverse((used, id))| {
                let run = runs.get(*id);
                run.is_some_and(|run| run.recency.queued == Some(*used))
            });
        }
    }

    /// The run whose end was used least recently, of those whose end may go; it is no longer queued.
    /// Amortised O(log runs) a use.
    pub(super) fn oldest_end(&mut self) -> Option<RunId> {
        while let Some(Reverse((used, id))) = self.ends.pop() {
            let Some(run) = self.runs.get_mut(id) else {
                continue;
            };
            if run.recency.queued != Some(used) {
                continue;
            }
            run.recency.queued = None;
            if run.recency.end > used {
                self.queue(id);
            } else if run.pinned() < run.len() {
                return Some(id);
            }
        }
        None
    }

    /// Gives back what fewer runs do not need, and says that no block has an anchor any more.
    /// O(runs and the room for them).
    pub(super) fn shrink(&mut self) {
        self.runs.iter_mut().for_each(|run| run.anchored = 0);
        self.runs.give_back();
        self.heads.shrink();
        self.ends.shrink_to(2 * self.runs.len());
    }

    pub(super) fn bytes(&self) -> usize {
        let runs = self.runs.iter().map(|(_, run)| run.heap_bytes());
        runs.sum::<usize>()
            + self.runs.bytes()
            + self.heads.bytes()
            + self.ends.capacity() * size_of::<Reverse<(u64, RunId)>>()
    }
}
