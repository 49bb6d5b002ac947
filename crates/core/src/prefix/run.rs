//! One stretch of the radix tree: blocks that follow each other.
//!
//! Chain hashes lie side by side; each vouches for the whole prefix up to its block, so two stretches
//! are equal when their last hashes are. Children hang below any block. A run grows and shrinks at its
//! end and is never split, so (run, offset) names a block for as long as the block is there.
use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::held::Held;
use super::lengths::{Lengths, NewLengths};
use super::marks::Mark;
use super::names::Names;

/// What a look at a run costs, and an anchor for one block, in names looked at in a row, which take
/// about half a nanosecond each.
const VISIT: u32 = 48;
const AN_ANCHOR: u32 = 100;
/// Shorter runs are scanned as quickly.
const WORTH_SIFTING: u32 = 64;

/// A run's number; used again after the run is gone.
pub(super) type RunId = u32;

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) run: RunId,
    pub(super) offset: u32,
}

/// A place's prediction for a stretch of the run; the place has the details.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) slot: u32,
    pub(super) segment: u32,
}

/// When the blocks at the end were used last: by the numbers of the uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Recency {
    /// The last use of the end itself.
    pub(super) end: u64,
    /// Later uses that stopped before the end, deepest and earliest first: (blocks, use).
    pub(super) heads: SmallVec<[(u32, u64); 1]>,
    /// With which number the run waits to be looked at, if it does.
    pub(super) queued: Option<u64>,
}

/// More uses that stopped at different depths are not told apart; the shallower ones are taken for
/// one at the depth of the deepest of them.
pub(super) const MAX_HEADS: usize = 16;

impl Recency {
    /// The first `to` of `len` blocks were used.
    pub(super) fn touch(&mut self, to: u32, len: u32, used: u64) {
        while self.heads.last().is_some_and(|&(head, _)| head <= to) {
            self.heads.pop();
        }
        if to == len {
            self.end = used;
        } else if self.heads.len() < MAX_HEADS {
            self.heads.push((to, used));
        } else if let Some(last) = self.heads.last_mut() {
            last.1 = used;
        }
    }

    /// The blocks that were used later than the end.
    pub(super) fn head(&self) -> u32 {
        self.heads.first().map_or(0, |&(to, _)| to)
    }

    /// The run ends with block `len` now.
    fn truncate(&mut self, len: u32) {
        while let Some(&(to, used)) = self.heads.first()
            && to >= len
        {
            self.heads.remove(0);
            self.end = used;
        }
    }
}

/// What few runs have.
#[derive(Clone, Debug, Default)]
pub(super) struct Cold {
    /// How many children hang below a block.
    forks: Forks,
    /// Further copies of a block at one place: (slot, offset) to their number.
    pub(super) copies: BTreeMap<(u32, u32), u32>,
    /// The paths of programs that come by.
    pub(super) paths: Passers,
    /// Where requests wrote, at places that are read only there: behind the block at (slot, offset).
    pub(super) marks: BTreeMap<(u32, u32), Mark>,
}

/// The blocks of a run that children hang below, ascending, and how many hang below each. Most runs
/// with children have one or two such blocks. O(log forks) a look, O(forks) a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Forks {
    counts: SmallVec<[(u32, u32); 2]>,
}

impl Forks {
    fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Blocks up to the deepest child.
    fn end(&self) -> u32 {
        self.counts.last().map_or(0, |&(at, _)| at + 1)
    }

    /// A child more hangs below `offset`.
    fn join(&mut self, offset: u32) {
        match self.counts.binary_search_by_key(&offset, |&(at, _)| at) {
            Ok(found) => self.counts[found].1 += 1,
            Err(place) => self.counts.insert(place, (offset, 1)),
        }
    }

    /// A child less does.
    fn part(&mut self, offset: u32) {
        if let Ok(found) = self.counts.binary_search_by_key(&offset, |&(at, _)| at) {
            self.counts[found].1 -= 1;
            if self.counts[found].1 == 0 {
                self.counts.remove(found);
            }
        }
    }
}

/// The paths that come by a run, each with how many of its blocks it has. A program comes by once.
/// O(log paths) every operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Passers {
    /// (slot, blocks, program)
    by_slot: BTreeSet<(u32, u32, u64)>,
    /// (blocks, program, slot)
    by_blocks: BTreeSet<(u32, u64, u32)>,
}

impl Passers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_blocks.is_empty()
    }

    pub(super) fn insert(&mut self, slot: u32, blocks: u32, program: u64) {
        self.by_slot.insert((slot, blocks, program));
        self.by_blocks.insert((blocks, program, slot));
    }

    pub(super) fn remove(&mut self, slot: u32, blocks: u32, program: u64) {
        self.by_slot.remove(&(slot, blocks, program));
        self.by_blocks.remove(&(blocks, program, slot));
    }

    pub(super) fn longest(&self) -> u32 {
        self.by_blocks.last().map_or(0, |&(blocks, _, _)| blocks)
    }

    pub(super) fn longest_at(&self, slot: u32) -> u32 {
        let own = (slot, 0, 0)..=(slot, u32::MAX, u64::MAX);
        let last = self.by_slot.range(own).next_back();
        last.map_or(0, |&(_, blocks, _)| blocks)
    }

    pub(super) fn longest_but(&self, program: Option<u64>) -> u32 {
        let mut others = self.by_blocks.iter().rev();
        let longest = others.find(|&&(_, p, _)| Some(p) != program);
        longest.map_or(0, |&(blocks, _, _)| blocks)
    }

    /// Who has more of the first `to` blocks than anybody else, and how many; absent when nobody has
    /// one, or several have as many.
    pub(super) fn nearest(&self, to: u32) -> Option<(u64, u32)> {
        let most = self.longest().min(to);
        let mut having = self.by_blocks.range((most, 0, 0)..);
        let &(_, program, _) = having.next()?;
        having.next().is_none().then_some((program, most))
    }
}

impl Cold {
    fn is_empty(&self) -> bool {
        self.forks.is_empty()
            && self.copies.is_empty()
            && self.paths.is_empty()
            && self.marks.is_empty()
    }
}

/// A stretch of blocks.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The block that the first one hangs below.
    pub(super) parent: Option<Address>,
    /// How many blocks there are before it.
    pub(super) base: u32,
    /// Blocks up to the deepest child: a look-up asks, and should not have to look further.
    forked: u32,
    /// From here on blocks have no anchor that could find them.
    pub(super) anchored: u32,
    /// What searches for names have cost since then, in names looked at.
    searched: u32,
    pub(super) chain: Vec<u64>,
    pub(super) held: Held,
    pub(super) lengths: Lengths,
    pub(super) names: Names,
    pub(super) claims: SmallVec<[Claim; 2]>,
    pub(super) recency: Recency,
    cold: Option<Box<Cold>>,
}

impl Run {
    pub(super) fn new(parent: Option<Address>, base: u32) -> Self {
        Self {
            parent,
            base,
            forked: 0,
            anchored: 0,
            searched: 0,
            chain: Vec::new(),
            held: Held::default(),
            lengths: Lengths::new(),
            names: Names::default(),
            claims: SmallVec::new(),
            recency: Recency::default(),
            cold: None,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.chain.len() as u32
    }

    /// How many of `hashes` the run has from block `from` on. One compare when it is all of them,
    /// else a gallop back from the end: O(log of what differs).
    pub(super) fn matching(&self, from: u32, hashes: &[u64]) -> u32 {
        let own = &self.chain[from as usize..];
        let most = own.len().min(hashes.len());
        let same = |n: usize| own[n - 1] == hashes[n - 1];
        if most == 0 || same(most) {
            return most as u32;
        }
        // `high` differs; step back from it until something agrees.
        let (mut low, mut high, mut step) = (0, most, 1);
        while high > 0 {
            let probe = high.saturating_sub(step);
            if probe == 0 || same(probe) {
                low = probe;
                break;
            }
            (high, step) = (probe, step * 2);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match same(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        low as u32
    }

    pub(super) fn push(&mut self, hashes: &[u64], lengths: NewLengths<'_>) {
        self.lengths.push(self.chain.len(), hashes.len(), lengths);
        grow(&mut self.chain, hashes.len());
        self.chain.extend_from_slice(hashes);
    }

    /// Drops the blocks from `len` on; nobody holds them and nothing hangs below them.
    pub(super) fn truncate(&mut self, len: u32) {
        self.chain.truncate(len as usize);
        give_back(&mut self.chain);
        self.lengths.truncate(len as usize);
        self.names.truncate(len);
        self.held.shorten(len);
        self.anchored = self.anchored.min(len);
        self.recency.truncate(len);
    }

    /// The block that `domain` calls `name`, if it is one without an anchor.
    pub(super) fn search(&mut self, domain: u32, name: u64) -> Option<u32> {
        let len = self.len();
        if self.searched >= len && len >= WORTH_SIFTING && !self.names.is_sifted() {
            self.names.sift();
        }
        self.searched = self.searched.saturating_add(VISIT);
        if !self.names.may_have(domain, name) {
            return None;
        }
        self.searched = self.searched.saturating_add(len);
        self.names.scan(domain, (self.anchored, len), name)
    }

    /// Whether searches have cost as much as an anchor for each block would.
    pub(super) fn is_worn(&self) -> bool {
        self.searched >= self.len().saturating_mul(AN_ANCHOR)
    }

    /// Each block has an anchor now.
    pub(super) fn all_anchored(&mut self) {
        (self.anchored, self.searched) = (self.len(), 0);
    }

    /// Blocks that must stay whoever holds them: something hangs below the last of them, or a path
    /// of a session ends there.
    pub(super) fn pinned(&self) -> u32 {
        let paths = self.cold().map_or(0, |cold| cold.paths.longest());
        self.forked.max(paths)
    }

    /// A child more hangs below `offset`.
    pub(super) fn fork(&mut self, offset: u32) {
        self.change_forks(|forks| forks.join(offset));
    }

    /// A child less does.
    pub(super) fn unfork(&mut self, offset: u32) {
        self.change_forks(|forks| forks.part(offset));
    }

    fn change_forks(&mut self, change: impl FnOnce(&mut Forks)) {
        self.forked = self.change_cold(|cold| {
            change(&mut cold.forks);
            cold.forks.end()
        });
    }

    pub(super) fn has_children(&self) -> bool {
        self.forked > 0
    }

    pub(super) fn cold(&self) -> Option<&Cold> {
        self.cold.as_deref()
    }

    /// Changes what few runs have; the room for it is there only while there is something.
    pub(super) fn change_cold<R>(&mut self, change: impl FnOnce(&mut Cold) -> R) -> R {
        let cold = self.cold.get_or_insert_default();
        let result = change(cold);
        if cold.is_empty() {
            self.cold = None;
        }
        result
    }

    /// `slot` holds nothing of the run any more, and predicts and names nothing.
    pub(super) fn forget(&mut self, slot: u32) {
        self.held.forget(slot);
        self.names.forget(slot);
        self.claims.retain(|claim| claim.slot != slot);
        let has_own = |cold: &Cold| !cold.copies.is_empty() || !cold.marks.is_empty();
        if self.cold().is_some_and(has_own) {
            self.change_cold(|cold| {
                cold.copies.retain(|&(s, _), _| s != slot);
                cold.marks.retain(|&(s, _), _| s != slot);
            });
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let cold = self.cold.as_ref().map_or(0, |cold| {
            // A tree node has room for 11 entries and is at least half full as a rule.
            let entries = cold.forks.counts.len() * 8
                + cold.copies.len() * 12
                + cold.paths.by_blocks.len() * 32
                + cold.marks.len() * size_of::<((u32, u32), Mark)>();
            size_of::<Cold>() + entries * 3 / 2
        });
        let claims = match self.claims.spilled() {
            true => self.claims.capacity() * size_of::<Claim>(),
            false => 0,
        };
        self.chain.capacity() * size_of::<u64>()
            + self.held.heap_bytes()
            + self.lengths.heap_bytes()
            + self.names.heap_bytes()
            + claims
            + cold
    }
}

/// Makes room for `more`, with a quarter in reserve once there is something: a conversation grows
/// turn by turn, and doubling would leave up to half of the memory empty.
pub(super) fn grow(values: &mut Vec<u64>, more: usize) {
    let reserve = match values.len() {
        0 => more,
        len => more.max(len / 4),
    };
    if values.capacity() - values.len() < more {
        values.reserve_exact(reserve);
    }
}

/// Gives memory back once most of it is empty.
pub(super) fn give_back<T>(values: &mut Vec<T>) {
    if values.capacity() > 2 * values.len() + 8 {
        values.shrink_to(values.len() + values.len() / 8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::exact::StoredBlock;
    use super::super::names::{Had, Voice};
    use super::*;

    #[test]
    fn a_name_is_found_however_often_others_were_looked_for() {
        let name = |n: u64| StoredBlock { name: n, local: n };
        let voice = Voice { slot: 0, domain: 0 };
        let mut run = Run::new(None, 0);
        for blocks in [0..300_u64, 300..600] {
            let blocks: Vec<_> = blocks.map(name).collect();
            let from = run.len();
            let hashes: Vec<u64> = blocks.iter().map(|block| block.name).collect();
            run.push(&hashes, NewLengths::Uniform(1));
            run.names.give(voice, from, &blocks, Had::Nothing);
            for n in 0..10 {
                assert_eq!(run.search(0, 1_000 + n), None);
                assert_eq!(run.search(0, n), Some(n as u32));
            }
            assert_eq!(run.search(0, 299), Some(299));
            assert!(run.names.is_sifted() && !run.is_worn());
        }
        let searches = (0..).take_while(|&n| run.search(0, 1_000 + n).is_none() && !run.is_worn());
        let scans = 600 * AN_ANCHOR / 600;
        assert!(searches.count() > 5 * scans as usize, "most are one visit");
        run.all_anchored();
        assert!(!run.is_worn());
    }

    proptest! {
        #[test]
        fn a_stretch_matches_up_to_where_it_differs(
            len in 0_usize..70, from in 0_usize..70, asked in 0_usize..70, same in 0_usize..70,
        ) {
            let mut run = Run::new(None, 0);
            let own: Vec<u64> = (1..=len as u64).collect();
            run.push(&own, NewLengths::Uniform(1));
            let from = from.min(len);
            // From the first difference on all hashes differ, as those of chains do.
            let hash = |i: usize| if i < same { (from + i + 1) as u64 } else { 1_000 + i as u64 };
            let hashes: Vec<u64> = (0..asked).map(hash).collect();
            let expected = same.min(asked).min(len - from);
            prop_assert_eq!(run.matching(from as u32, &hashes) as usize, expected);
        }
    }
}
