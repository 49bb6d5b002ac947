//! What may a decision count of a cache that is written and read at breakpoints only?
//!
//! Some hosted caches do not match the longest common head: a request writes where its breakpoints
//! stand, and a later one reads at the deepest such position that one of its own breakpoints looks
//! back to. So a place of that family has marks: positions where a request wrote, each with the
//! lifetime that the request asked for. Who holds which blocks is kept as for any other place; the
//! marks tell how much of that a prompt can read. Look-back, minimum size and lifetimes are the
//! place's options. This file knows no provider.
//!
//! A mark belongs to a block that its place holds and leaves with it, or at its own time, which is
//! looked at when it comes up: O(log marks) a mark written, read or expired. What a prompt can read
//! costs O(runs on its way), and in each its own breakpoints × log marks.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::forest::Stretch;
use super::held::Span;
use super::ledger::Ledger;
use super::matching::{BreakpointRules, Reach, Reader, Refresh};
use super::run::{Address, Run, RunId};
use super::{Correction, Coverage, Overlap, PrefixIndex};
use crate::block::Chain;
use crate::{Micros, PlaceId};

/// More marks of one place than this are not kept; the ones that expire first go.
pub(super) const MAX_MARKS: usize = 65_536;
/// The same for one place in one run, where a conversation leaves one each turn.
const MAX_MARKS_OF_RUN: usize = 256;

/// A position where a request wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) ttl: Micros,
    pub(super) until: Micros,
    /// The number of the decision that wrote it last.
    pub(super) written: u64,
    /// The time under which it waits in its place's queue; never after `until`.
    pub(super) queued: Micros,
}

impl Mark {
    fn lives(&self, now: Micros) -> bool {
        self.until > now
    }
}

/// The marks of one place, by when to look at them. Entries of marks that are gone may be among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    due: BinaryHeap<Reverse<(Micros, RunId, u32)>>,
    pub(super) live: usize,
    /// The longest lifetime that any of them was given.
    pub(super) longest: Micros,
}

impl Marks {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// How long blocks have to be held for the marks' sake.
    pub(super) fn longest(&self) -> Micros {
        self.longest
    }

    /// A time before which no mark expires; it may be early.
    pub(super) fn next(&self) -> Option<Micros> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn queue(&mut self, at: Address, time: Micros) {
        self.due.push(Reverse((time, at.run, at.offset)));
    }

    pub(super) fn bytes(&self) -> usize {
        self.due.capacity() * size_of::<Reverse<(Micros, RunId, u32)>>()
    }
}

/// One decision that reads and writes marks.
#[derive(Clone, Copy, Debug)]
struct Request {
    now: Micros,
    number: u64,
    refresh: Refresh,
}

impl PrefixIndex {
    /// Tokens of `chain` that a decision may count at `place`, of which `overlap` says how much it
    /// has. O(1) where the cache has the longest common head, else O(runs on the way).
    #[must_use]
    pub fn credit(&self, place: PlaceId, chain: &Chain, overlap: &Overlap) -> u32 {
        let Some(slot) = self.slot_of(place) else {
            return 0;
        };
        let matching = &self.place(slot).options.matching;
        match matching.rules() {
            None => matching.round(overlap.tokens_at(place)),
            Some(rules) => chain.tokens_of(self.readable(slot, chain, rules) as usize),
        }
    }

    /// Blocks of `chain` beyond which nothing at the slot may be counted; absent where all may.
    pub(super) fn limit(&self, slot: u32, chain: &Chain) -> Option<u32> {
        let rules = self.place(slot).options.matching.rules()?;
        Some(self.readable(slot, chain, rules))
    }

    /// What the first blocks of `chain` that a place has are worth to it.
    pub(super) fn worth(&self, slot: u32, chain: &Chain, blocks: u32) -> u32 {
        let matching = &self.place(slot).options.matching;
        matching.round(chain.tokens_of(blocks as usize))
    }

    /// How many blocks of `chain` there are before the deepest mark that it can read, of those that
    /// the place has without a gap.
    fn readable(&self, slot: u32, chain: &Chain, rules: &BreakpointRules) -> u32 {
        let (reader, now) = (Reader { chain, rules }, self.now);
        let mut deepest = 0;
        for Stretch { run, to, .. } in self.forest.along(chain.hashes()) {
            let run = &self.forest.runs[run];
            let held = run.held.reach(slot, 0, run.len()).min(to);
            let own = run.last_readable(slot, held, now, &reader);
            deepest = own.map_or(deepest, |offset| run.base + offset + 1);
            if held < to {
                break;
            }
        }
        deepest
    }

    /// The mark that the prompt is about to read, before its decision changes anything.
    pub(super) fn mark_to_read(&self, slot: u32, chain: &Chain) -> Option<u32> {
        let limit = self.limit(slot, chain)?;
        (limit > 0).then_some(limit)
    }

    /// Enters what the decision reads and writes; `path` is the way of `chain`, whose blocks the place
    /// holds now.
    pub(super) fn mark_path(
        &mut self,
        slot: u32,
        chain: &Chain,
        path: &[Stretch],
        read: Option<u32>,
    ) {
        let Some(&rules) = self.place(slot).options.matching.rules() else {
            return;
        };
        let request = Request {
            now: self.now,
            number: self.uses,
            refresh: rules.refresh,
        };
        let reader = Reader {
            chain,
            rules: &rules,
        };
        let mut ledger = self.ledger(slot);
        if let Some(at) = read.and_then(|depth| ledger.address(path, depth)) {
            ledger.read_mark(at, request);
        }
        for (depth, ttl) in reader.writes() {
            if let Some(at) = ledger.address(path, depth) {
                ledger.write_mark(at, ttl, request);
            }
        }
    }

    /// The provider read less of `chain` than was predicted: marks beyond what it read are not there,
    /// unless a later request than those that `before` knew of has written them. `slack`: how far the
    /// report may be from a mark that it means.
    pub(super) fn void_marks(
        &mut self,
        slot: u32,
        chain: &Chain,
        (reported, slack): (u32, u32),
        before: &Coverage,
    ) -> Correction {
        let mut path = std::mem::take(&mut self.scratch.path);
        self.forest.walk(chain.hashes(), &mut path);
        let mut deepest = reported;
        for &Stretch { run: id, to, .. } in &path {
            let mut void = Vec::new();
            let run = &self.forest.runs[id];
            run.each_mark(slot, (0, to), |offset, mark| {
                let end = chain.tokens_of((run.base + offset + 1) as usize);
                if end > reported.saturating_add(slack) && mark.written <= before.decided {
                    void.push(offset);
                    deepest = end;
                }
            });
            let mut ledger = self.ledger(slot);
            void.iter()
                .for_each(|&at| ledger.drop_marks(id, (at, at + 1)));
        }
        self.scratch.path = path;
        let evicted_tokens = u64::from(deepest.min(before.tokens).saturating_sub(reported));
        Correction::Short { evicted_tokens }
    }

    /// The decision `number` has written nothing: marks of it are gone, but for those within the first
    /// `readable` blocks, which it has found there.
    pub(super) fn unwrite_marks(
        &mut self,
        slot: u32,
        chain: &Chain,
        (number, readable): (u64, u32),
    ) {
        let mut path = std::mem::take(&mut self.scratch.path);
        self.forest.walk(chain.hashes(), &mut path);
        for &Stretch { run: id, to, .. } in &path {
            let mut void = Vec::new();
            let run = &self.forest.runs[id];
            run.each_mark(slot, (0, to), |offset, mark| {
                if mark.written == number && run.base + offset >= readable {
                    void.push(offset);
                }
            });
            let mut ledger = self.ledger(slot);
            void.iter()
                .for_each(|&at| ledger.drop_marks(id, (at, at + 1)));
        }
        self.scratch.path = path;
    }
}

impl Ledger<'_> {
    /// The last of the first `depth` blocks of a path.
    fn address(&self, path: &[Stretch], depth: u32) -> Option<Address> {
        let base = |stretch: &Stretch| self.forest.runs[stretch.run].base;
        let after = path.partition_point(|stretch| base(stretch) < depth);
        let stretch = path[..after].last()?;
        let offset = depth - 1 - base(stretch);
        (offset < stretch.to).then_some(Address {
            run: stretch.run,
            offset,
        })
    }

    fn read_mark(&mut self, at: Address, request: Request) {
        let key = (self.slot, at.offset);
        self.forest.runs[at.run].change_cold(|cold| {
            if let Some(mark) = cold.marks.get_mut(&key)
                && request.refresh == Refresh::OnRead
            {
                mark.until = mark.until.max(request.now.plus(mark.ttl));
            }
        });
    }

    /// A request wrote behind this block, or read there what was written before.
    fn write_mark(&mut self, at: Address, ttl: Micros, request: Request) {
        let key = (self.slot, at.offset);
        let until = request.now.plus(ttl);
        let new = Mark {
            ttl,
            until,
            written: request.number,
            queued: until,
        };
        let is_new = self.forest.runs[at.run].change_cold(|cold| {
            let Some(mark) = cold.marks.get_mut(&key) else {
                cold.marks.insert(key, new);
                return true;
            };
            mark.written = request.number;
            if !mark.lives(request.now) {
                (mark.ttl, mark.until) = (ttl, until);
            } else if request.refresh == Refresh::OnRead {
                mark.ttl = mark.ttl.max(ttl);
                mark.until = mark.until.max(request.now.plus(mark.ttl));
            }
            false
        });
        let marks = &mut self.place.marks;
        marks.longest = marks.longest.max(ttl);
        if is_new {
            marks.live += 1;
            marks.queue(at, until);
            self.bound_marks(at.run);
        }
    }

    /// Keeps the marks of the run and of the place within their bounds.
    fn bound_marks(&mut self, id: RunId) {
        let mut own = Vec::new();
        let run = &self.forest.runs[id];
        if run.marks_of(self.slot) > MAX_MARKS_OF_RUN {
            run.each_mark(self.slot, (0, run.len()), |offset, mark| {
                own.push((mark.until, offset));
            });
        }
        if let Some(&(_, offset)) = own.iter().min() {
            self.drop_marks(id, (offset, offset + 1));
        }
        while self.place.marks.live > MAX_MARKS {
            self.drop_first_mark();
        }
        if self.place.marks.due.len() > 2 * self.place.marks.live + 64 {
            let (slot, runs) = (self.slot, &self.forest.runs);
            self.place.marks.due.retain(|Reverse((at, run, offset))| {
                let mark = runs.get(*run).and_then(|run| run.mark(slot, *offset));
                mark.is_some_and(|mark| mark.queued == *at)
            });
        }
    }

    /// Forgets the marks whose time has come.
    pub(super) fn expire_marks(&mut self, now: Micros) {
        while self.place.marks.next().is_some_and(|at| at <= now) {
            self.drop_first_mark();
        }
    }

    /// Takes the first entry off the queue, and its mark with it, unless that lives longer by now: it
    /// then waits for the later time. An entry whose mark is gone just goes.
    fn drop_first_mark(&mut self) {
        let Some(Reverse((time, run, offset))) = self.place.marks.due.pop() else {
            return;
        };
        let known = self.forest.runs.get(run);
        let mark = known.and_then(|run| run.mark(self.slot, offset).copied());
        let Some(mark) = mark.filter(|mark| mark.queued == time) else {
            return;
        };
        if mark.until == time {
            self.drop_marks(run, (offset, offset + 1));
            return;
        }
        let key = (self.slot, offset);
        self.forest.runs[run].change_cold(|cold| {
            cold.marks.entry(key).and_modify(|m| m.queued = mark.until);
        });
        self.place.marks.queue(Address { run, offset }, mark.until);
    }

    /// The place has no marks within `span` any more.
    pub(super) fn drop_marks(&mut self, id: RunId, span: Span) {
        let run = &mut self.forest.runs[id];
        if run.cold().is_none_or(|cold| cold.marks.is_empty()) {
            return;
        }
        let within = (self.slot, span.0)..(self.slot, span.1);
        let dropped = run.change_cold(|cold| {
            let before = cold.marks.len();
            let keys: Vec<_> = cold.marks.range(within).map(|(&key, _)| key).collect();
            for key in keys {
                cold.marks.remove(&key);
            }
            before - cold.marks.len()
        });
        self.place.marks.live -= dropped;
        self.forest.note(id);
    }
}

impl Run {
    fn mark(&self, slot: u32, offset: u32) -> Option<&Mark> {
        self.cold()?.marks.get(&(slot, offset))
    }

    fn marks_of(&self, slot: u32) -> usize {
        let own = (slot, 0)..=(slot, u32::MAX);
        self.cold().map_or(0, |cold| cold.marks.range(own).count())
    }

    /// The last of the slot's marks within the first `to` blocks that the prompt can read. What is out
    /// of its reach is skipped: O(breakpoints × log marks + marks that have died).
    fn last_readable(&self, slot: u32, to: u32, now: Micros, reader: &Reader<'_>) -> Option<u32> {
        let marks = &self.cold()?.marks;
        let mut most = to;
        loop {
            let mut above = marks.range((slot, 0)..(slot, most));
            let (&(_, offset), mark) = above.next_back()?;
            let depth = self.base + offset + 1;
            most = match reader.reach(depth) {
                Reach::Here if mark.lives(now) => return Some(offset),
                Reach::Here => offset,
                Reach::AtMost(depth) => depth.saturating_sub(self.base).min(offset),
            };
        }
    }

    /// Calls `visit` with each of the slot's marks within `span`, ascending.
    fn each_mark(&self, slot: u32, span: Span, mut visit: impl FnMut(u32, &Mark)) {
        let Some(cold) = self.cold() else { return };
        for (&(_, offset), mark) in cold.marks.range((slot, span.0)..(slot, span.1)) {
            visit(offset, mark);
        }
    }
}
