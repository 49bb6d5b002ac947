//! Which stretches of which prompts are in flight, and on which workers?
//!
//! A radix tree over the chains of all turns in flight. A [`Run`] is a stretch that every turn has
//! from end to end which has any of it, so a turn is known by the run that it ends with, and to begin
//! or end it costs the runs on its way and one copy of what is new in it, not its blocks. Unlike those
//! of the prefix index these runs are split and joined: turns live for seconds, and only a turn's last
//! run must keep its number, which the lower part of a split and of a joint does.
//!
//! Runs are found by their parent and the hash of their first block, so two that collide below
//! different parents are different runs. A block has as many tokens as the turn said that brought it.
//! It knows nothing of reservations, of what a worker's sum is, or of who asks.
//!
//! Invariants, checked by the tests after each event: who holds a run holds its parent; a run without
//! holders is gone; a run that no turn ends with has not exactly one child.
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::WorkerId;
use crate::block::Chain;
use crate::table::spread;

use super::reached::Reached;

/// Room of emptied runs is kept for the next turns, up to so many.
const SPARE_RUNS: usize = 64;

/// The number of a run; [`ROOT`] is the empty prompt.
pub(super) type RunId = u32;

pub(super) const ROOT: RunId = u32::MAX;

/// How many turns of one worker hold a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    worker: u32,
    turns: u32,
}

/// A stretch of blocks that the same turns hold.
#[derive(Clone, Debug)]
struct Run {
    parent: RunId,
    /// Blocks before it.
    start: u32,
    /// Chain hashes of its blocks, at least one.
    hashes: Vec<u64>,
    /// Tokens from its beginning to the end of each block.
    ends: Vec<u32>,
    /// Ascending by worker; one as a rule, and that one costs no allocation.
    holders: SmallVec<[Holder; 1]>,
    /// Turns of all holders.
    turns: u32,
    /// How many runs follow it, and the exclusive or of their numbers: of one it is that one's.
    children: u32,
    children_xor: RunId,
}

impl Run {
    fn tokens(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.start as usize + self.hashes.len()
    }

    /// Blocks that it has in common with `rest`, which follows the same blocks. A chain hash vouches
    /// for all before it: one compare for all of it, O(log blocks) for a part.
    fn common(&self, rest: &[u64]) -> usize {
        let most = self.hashes.len().min(rest.len());
        if most > 0 && self.hashes[most - 1] == rest[most - 1] {
            return most;
        }
        let (mut same, mut other) = (0, most);
        while same < other {
            let middle = same.midpoint(other);
            match self.hashes[middle] == rest[middle] {
                true => same = middle + 1,
                false => other = middle,
            }
        }
        same
    }

    /// Adds a turn of `worker`; whether it is the worker's first.
    fn enter(&mut self, worker: WorkerId) -> bool {
        self.turns += 1;
        match self.holders.binary_search_by_key(&worker.0, |h| h.worker) {
            Ok(at) => {
                self.holders[at].turns += 1;
                false
            }
            Err(at) => {
                let first = Holder {
                    worker: worker.0,
                    turns: 1,
                };
                self.holders.insert(at, first);
                true
            }
        }
    }

    /// Takes a turn of `worker` away; whether it was the worker's last.
    fn leave(&mut self, worker: WorkerId) -> bool {
        let Ok(at) = self.holders.binary_search_by_key(&worker.0, |h| h.worker) else {
            debug_assert!(false, "who leaves has entered");
            return false;
        };
        self.turns -= 1;
        self.holders[at].turns -= 1;
        let is_last = self.holders[at].turns == 0;
        if is_last {
            self.holders.remove(at);
        }
        is_last
    }
}

/// All stretches in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    /// Numbers of runs that are gone, their lists empty.
    free: Vec<RunId>,
    /// Runs by parent and first hash.
    index: HashTable<RunId>,
}

impl Runs {
    /// Whether nothing is in flight.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A turn of `worker` with these blocks begins. Gives its last run, and the tokens of the blocks
    /// that the worker had not in flight.
    pub(super) fn enter(&mut self, worker: WorkerId, chain: &Chain) -> (RunId, u64) {
        let hashes = chain.hashes();
        let (mut at, mut depth, mut added) = (ROOT, 0, 0);
        while depth < hashes.len() {
            let next = match self.child(at, hashes[depth]) {
                Some(run) => self.up_to(run, self.runs[run as usize].common(&hashes[depth..])),
                None => self.add(at, depth, chain),
            };
            let run = &mut self.runs[next as usize];
            if run.enter(worker) {
                added += u64::from(run.tokens());
            }
            (at, depth) = (next, run.end());
        }
        (at, added)
    }

    /// A turn of `worker` that ended with `last` is over. Gives the tokens of the blocks that the
    /// worker has no longer in flight.
    pub(super) fn leave(&mut self, worker: WorkerId, last: RunId) -> u64 {
        let (mut at, mut removed) = (last, 0);
        while at != ROOT {
            let run = &mut self.runs[at as usize];
            let parent = run.parent;
            if run.leave(worker) {
                removed += u64::from(run.tokens());
            }
            match run.turns {
                0 => self.remove(at),
                _ => self.join(at),
            }
            at = parent;
        }
        removed
    }

    /// How many blocks of a chain each worker has in flight. O(runs on its way + holders where their
    /// number changes); `way` is memory to be used again.
    pub(super) fn shared(
        &self,
        hashes: &[u64],
        way: &mut Vec<(RunId, u32)>,
        reached: &mut Reached,
    ) {
        way.clear();
        let (mut at, mut depth) = (ROOT, 0);
        while let Some(&hash) = hashes.get(depth)
            && let Some(next) = self.child(at, hash)
        {
            let run = &self.runs[next as usize];
            depth += run.common(&hashes[depth..]);
            way.push((next, depth as u32));
            if depth < run.end() {
                break;
            }
            at = next;
        }
        reached.clear();
        let mut known = 0;
        for &(run, reach) in way.iter().rev() {
            let holders = &self.runs[run as usize].holders;
            // Who holds a run holds what is above it: equally many are the same.
            if holders.len() > known {
                known = holders.len();
                for holder in holders {
                    reached.note(holder.worker, reach);
                }
            }
        }
    }

    fn child(&self, parent: RunId, first: u64) -> Option<RunId> {
        let is_it = |&id: &RunId| {
            let run = &self.runs[id as usize];
            run.parent == parent && run.hashes[0] == first
        };
        self.index.find(key(parent, first), is_it).copied()
    }

    /// Adds the rest of a chain, from block `depth` on, as a run behind `parent`.
    fn add(&mut self, parent: RunId, depth: usize, chain: &Chain) -> RunId {
        let id = self.number();
        let before = chain.tokens_of(depth);
        let run = &mut self.runs[id as usize];
        (run.parent, run.start) = (parent, depth as u32);
        run.hashes.extend_from_slice(&chain.hashes()[depth..]);
        let ends = chain.ends()[depth..].iter();
        run.ends.extend(ends.map(|end| end - before));
        self.link(id);
        self.adopt(parent, id);
        id
    }

    /// The run that has just the first `blocks` blocks of `lower`, which is split if it has more.
    fn up_to(&mut self, lower: RunId, blocks: usize) -> RunId {
        if blocks == self.runs[lower as usize].hashes.len() {
            return lower;
        }
        let upper = self.number();
        self.unlink(lower);
        let [above, below] = self.both(upper, lower);
        let tokens = below.ends[blocks - 1];
        (above.parent, above.start) = (below.parent, below.start);
        above.hashes.extend(below.hashes.drain(..blocks));
        above.ends.extend(below.ends.drain(..blocks));
        below.ends.iter_mut().for_each(|end| *end -= tokens);
        above.holders.clone_from(&below.holders);
        above.turns = below.turns;
        (above.children, above.children_xor) = (1, lower);
        below.start += blocks as u32;
        let parent = std::mem::replace(&mut below.parent, upper);
        self.link(upper);
        self.link(lower);
        if let Some(parent) = self.runs.get_mut(parent as usize) {
            parent.children_xor ^= lower ^ upper;
        }
        upper
    }

    /// Joins a run to its child if that is the only one and no turn ends between the two. The child
    /// keeps its number, since turns end with it.
    fn join(&mut self, upper: RunId) {
        let run = &self.runs[upper as usize];
        let (lower, turns) = (run.children_xor, run.turns);
        if run.children != 1 || self.runs[lower as usize].turns != turns {
            return;
        }
        self.unlink(upper);
        self.unlink(lower);
        let [above, below] = self.both(upper, lower);
        let tokens = above.tokens();
        above
            .ends
            .extend(below.ends.drain(..).map(|end| end + tokens));
        above.hashes.append(&mut below.hashes);
        std::mem::swap(&mut above.ends, &mut below.ends);
        std::mem::swap(&mut above.hashes, &mut below.hashes);
        below.start = above.start;
        below.parent = above.parent;
        let parent = below.parent;
        self.link(lower);
        if let Some(parent) = self.runs.get_mut(parent as usize) {
            parent.children_xor ^= upper ^ lower;
        }
        self.free(upper);
    }

    fn remove(&mut self, id: RunId) {
        debug_assert_eq!(self.runs[id as usize].children, 0, "children have holders");
        self.unlink(id);
        let parent = self.runs[id as usize].parent;
        if let Some(parent) = self.runs.get_mut(parent as usize) {
            parent.children -= 1;
            parent.children_xor ^= id;
        }
        self.free(id);
    }

    fn adopt(&mut self, parent: RunId, child: RunId) {
        if let Some(parent) = self.runs.get_mut(parent as usize) {
            parent.children += 1;
            parent.children_xor ^= child;
        }
    }

    /// The number of an empty run, with memory from one that is gone where there is one.
    fn number(&mut self) -> RunId {
        self.free.pop().unwrap_or_else(|| {
            self.runs.push(Run {
                parent: ROOT,
                start: 0,
                hashes: Vec::new(),
                ends: Vec::new(),
                holders: SmallVec::new(),
                turns: 0,
                children: 0,
                children_xor: 0,
            });
            self.runs.len() as RunId - 1
        })
    }

    fn free(&mut self, id: RunId) {
        let run = &mut self.runs[id as usize];
        run.holders.clear();
        (run.turns, run.children, run.children_xor) = (0, 0, 0);
        if self.free.len() < SPARE_RUNS {
            run.hashes.clear();
            run.ends.clear();
        } else {
            (run.hashes, run.ends) = (Vec::new(), Vec::new());
        }
        self.free.push(id);
    }

    fn both(&mut self, a: RunId, b: RunId) -> [&mut Run; 2] {
        self.runs
            .get_disjoint_mut([a as usize, b as usize])
            .expect("two runs that exist")
    }

    fn link(&mut self, id: RunId) {
        let runs = &self.runs;
        let key_of = |id: &RunId| {
            let run = &runs[*id as usize];
            key(run.parent, run.hashes[0])
        };
        self.index.insert_unique(key_of(&id), id, key_of);
    }

    fn unlink(&mut self, id: RunId) {
        let run = &self.runs[id as usize];
        let entry = key(run.parent, run.hashes[0]);
        if let Ok(entry) = self.index.find_entry(entry, |&other| other == id) {
            entry.remove();
        }
    }

    /// Panics where an invariant of the head is broken.
    #[cfg(test)]
    pub(super) fn validate(&self) {
        let live: Vec<RunId> = self.index.iter().copied().collect();
        assert_eq!(live.len() + self.free.len(), self.runs.len());
        for &id in &live {
            let run = &self.runs[id as usize];
            assert!(!run.hashes.is_empty() && run.hashes.len() == run.ends.len());
            assert_eq!(self.child(run.parent, run.hashes[0]), Some(id));
            assert!(run.holders.is_sorted_by(|a, b| a.worker < b.worker));
            let turns: u32 = run.holders.iter().map(|holder| holder.turns).sum();
            assert!(turns > 0 && turns == run.turns);
            let children = live
                .iter()
                .filter(|&&other| self.runs[other as usize].parent == id);
            let children: Vec<RunId> = children.copied().collect();
            assert_eq!(children.len(), run.children as usize);
            assert_eq!(
                children.iter().fold(0, |xor, &child| xor ^ child),
                run.children_xor
            );
            let below: u32 = children.iter().map(|&c| self.runs[c as usize].turns).sum();
            assert!(below < turns || (below == turns && children.len() > 1));
            for &child in &children {
                assert_eq!(self.runs[child as usize].start as usize, run.end());
            }
        }
    }
}

fn key(parent: RunId, first: u64) -> u64 {
    first ^ spread(parent.into())
}
