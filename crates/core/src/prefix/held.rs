//! Which blocks of one run does each place hold?
//!
//! A place that holds the whole run is one bit; any other is a short list of intervals. So a long
//! stretch that many share costs a bit each, and a hole costs an interval, never a split of the run.
//! The run's length is passed in: this file knows nothing of what the blocks are.
//! O(intervals of the run) an operation; most runs have none.
//!
//! Canonical: intervals are ordered by (slot, from), neither touch nor overlap within a slot, are
//! never empty, and never are the whole run.
use super::set::SlotSet;

/// Blocks `from..to` at one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    slot: u32,
    from: u32,
    to: u32,
}

/// Who holds what of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    full: SlotSet,
    parts: Vec<Part>,
}

/// A stretch of a run.
pub(super) type Span = (u32, u32);

impl Held {
    /// The places that hold the whole run.
    pub(super) fn full(&self) -> &SlotSet {
        &self.full
    }

    /// Where the last block that anybody holds ends.
    pub(super) fn end(&self, len: u32) -> u32 {
        match self.full.is_empty() {
            false => len,
            true => self.parts.iter().map(|p| p.to).max().unwrap_or(0),
        }
    }

    pub(super) fn holds_any(&self, slot: u32) -> bool {
        self.full.contains(slot) || self.parts.iter().any(|p| p.slot == slot)
    }

    /// How far `slot` holds everything from block `from` on; `from` when it does not hold that block.
    pub(super) fn reach(&self, slot: u32, from: u32, len: u32) -> u32 {
        if self.full.contains(slot) {
            return len;
        }
        let part = self.of(slot).find(|p| p.from <= from && from < p.to);
        part.map_or(from, |p| p.to)
    }

    /// The slots that hold a head of the run but not all of it, and how far.
    pub(super) fn heads(&self) -> impl Iterator<Item = (u32, u32)> {
        let heads = self.parts.iter().filter(|p| p.from == 0);
        heads.map(|p| (p.slot, p.to))
    }

    /// What those hold who do not hold the whole run, by slot and ascending.
    pub(super) fn parts(&self) -> impl ExactSizeIterator<Item = (u32, Span)> {
        self.parts.iter().map(|p| (p.slot, (p.from, p.to)))
    }

    /// Everybody who holds something.
    pub(super) fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = self.parts.iter().map(|p| p.slot).collect();
        slots.dedup();
        slots.extend(self.full.iter());
        slots
    }

    /// What `slot` holds, ascending.
    pub(super) fn spans(&self, slot: u32, len: u32) -> impl Iterator<Item = Span> {
        let whole = self.full.contains(slot).then_some((0, len));
        whole
            .into_iter()
            .chain(self.of(slot).map(|p| (p.from, p.to)))
    }

    /// Appends what `slot` lacks of `span`, ascending.
    pub(super) fn gaps(&self, slot: u32, (from, to): Span, out: &mut Vec<Span>) {
        if self.full.contains(slot) {
            return;
        }
        let mut at = from;
        for part in self.of(slot) {
            if part.to <= at {
                continue;
            }
            if part.from >= to {
                break;
            }
            if part.from > at {
                out.push((at, part.from));
            }
            at = part.to;
        }
        if at < to {
            out.push((at, to));
        }
    }

    /// `slot` holds `span` from now on, whatever it held of it before.
    pub(super) fn add(&mut self, slot: u32, (from, to): Span, len: u32) {
        if from >= to || self.full.contains(slot) {
            return;
        }
        let range = self.range(slot, |p| p.to < from, |p| p.from <= to);
        let touched = &self.parts[range.clone()];
        let merged = Part {
            slot,
            from: touched.first().map_or(from, |p| p.from.min(from)),
            to: touched.last().map_or(to, |p| p.to.max(to)),
        };
        let rest = (merged.from, merged.to) != (0, len);
        self.parts.splice(range, rest.then_some(merged));
        if !rest {
            self.full.insert(slot);
        }
    }

    /// `slot` no longer holds `span`, whatever it held of it before.
    pub(super) fn cut(&mut self, slot: u32, (from, to): Span, len: u32) {
        if from >= to {
            return;
        }
        if self.full.contains(slot) {
            self.full.remove(slot);
            let at = self.parts.partition_point(|p| p.slot < slot);
            let whole = Part {
                slot,
                from: 0,
                to: len,
            };
            self.parts.insert(at, whole);
        }
        let range = self.range(slot, |p| p.to <= from, |p| p.from < to);
        let touched = &self.parts[range.clone()];
        let before = touched.first().map(|p| Part { to: from, ..*p });
        let behind = touched.last().map(|p| Part { from: to, ..*p });
        let rest = [before, behind];
        let rest = rest.into_iter().flatten().filter(|p| p.from < p.to);
        self.parts.splice(range, rest);
    }

    /// `slot` holds nothing any more.
    pub(super) fn forget(&mut self, slot: u32) {
        self.full.remove(slot);
        let range = self.range(slot, |_| false, |_| true);
        self.parts.drain(range);
    }

    /// The run is about to get longer than `len`: whoever holds all of it will hold only a part.
    pub(super) fn grow(&mut self, len: u32) {
        let full = std::mem::take(&mut self.full);
        if self.parts.capacity() == 0 {
            self.parts.reserve_exact(full.len());
        }
        for slot in full.iter().filter(|_| len > 0) {
            let at = self.parts.partition_point(|p| p.slot < slot);
            let whole = Part {
                slot,
                from: 0,
                to: len,
            };
            self.parts.insert(at, whole);
        }
    }

    /// The run got shorter, down to `len`; nobody held what went.
    pub(super) fn shorten(&mut self, len: u32) {
        let full = &mut self.full;
        self.parts.retain(|p| {
            let whole = (p.from, p.to) == (0, len);
            if whole {
                full.insert(p.slot);
            }
            !whole
        });
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.full.heap_bytes() + self.parts.capacity() * size_of::<Part>()
    }

    fn of(&self, slot: u32) -> impl Iterator<Item = &Part> {
        let first = self.parts.partition_point(|p| p.slot < slot);
        let own = self.parts[first..].iter();
        own.take_while(move |p| p.slot == slot)
    }

    /// Those of `slot`'s intervals that come after the ones that are `before` and are `touched`.
    fn range(
        &self,
        slot: u32,
        before: impl Fn(&Part) -> bool,
        touched: impl Fn(&Part) -> bool,
    ) -> std::ops::Range<usize> {
        let first = self.parts.partition_point(|p| p.slot < slot);
        let own = |p: &&Part| p.slot == slot;
        let own_from = |from: usize| self.parts[from..].iter().take_while(own);
        let from = first + own_from(first).take_while(|p| before(p)).count();
        from..from + own_from(from).take_while(|p| touched(p)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 3;

    #[derive(Clone, Debug)]
    enum Op {
        Add(u32, Span),
        Cut(u32, Span),
        Forget(u32),
        /// So many more blocks, of which the slot holds all.
        Grow(u32, u32),
        Shorten,
    }

    fn op() -> impl Strategy<Value = Op> {
        let span = || (0_u32..12, 1_u32..8).prop_map(|(from, n)| (from, from + n));
        prop_oneof![
            6 => (0..SLOTS, span()).prop_map(|(s, span)| Op::Add(s, span)),
            5 => (0..SLOTS, span()).prop_map(|(s, span)| Op::Cut(s, span)),
            1 => (0..SLOTS).prop_map(Op::Forget),
            2 => (0..SLOTS, 1_u32..4).prop_map(|(s, n)| Op::Grow(s, n)),
            2 => Just(Op::Shorten),
        ]
    }

    fn clamp((from, to): Span, len: u32) -> Span {
        (from.min(len), to.min(len))
    }

    fn check(held: &Held, naive: &[BTreeSet<u32>], len: u32) {
        for (slot, blocks) in (0..).zip(naive) {
            let spans: Vec<Span> = held.spans(slot, len).collect();
            let listed = spans.iter().flat_map(|&(from, to)| from..to);
            assert!(listed.eq(blocks.iter().copied()), "{held:?} {naive:?}");
            assert!(spans.windows(2).all(|w| w[0].1 < w[1].0));
            let whole = blocks.len() as u32 == len && len > 0;
            assert_eq!(held.full().contains(slot), whole, "{held:?} {len}");
            assert_eq!(held.holds_any(slot), !blocks.is_empty());
            for from in 0..len {
                let reach = (from..len).find(|b| !blocks.contains(b)).unwrap_or(len);
                assert_eq!(held.reach(slot, from, len), reach);
                let mut gaps = Vec::new();
                held.gaps(slot, (from, len), &mut gaps);
                let lacks = gaps.iter().flat_map(|&(from, to)| from..to);
                assert!(lacks.eq((from..len).filter(|b| !blocks.contains(b))));
            }
        }
        let end = naive.iter().filter_map(BTreeSet::last).max();
        assert_eq!(held.end(len), end.map_or(0, |last| last + 1));
    }

    proptest! {
        #[test]
        fn intervals_are_sets_of_blocks(ops in prop::collection::vec(op(), 1..50)) {
            let mut held = Held::default();
            let mut naive = vec![BTreeSet::new(); SLOTS as usize];
            let mut len = 10;
            for op in ops {
                match op {
                    Op::Add(slot, span) => {
                        let (from, to) = clamp(span, len);
                        held.add(slot, (from, to), len);
                        naive[slot as usize].extend(from..to);
                    }
                    Op::Cut(slot, span) => {
                        let (from, to) = clamp(span, len);
                        held.cut(slot, (from, to), len);
                        naive[slot as usize].retain(|b| !(from..to).contains(b));
                    }
                    Op::Forget(slot) => {
                        held.forget(slot);
                        naive[slot as usize].clear();
                    }
                    Op::Grow(slot, by) => {
                        held.grow(len);
                        held.add(slot, (len, len + by), len + by);
                        naive[slot as usize].extend(len..len + by);
                        len += by;
                    }
                    Op::Shorten => {
                        len = held.end(len).max(1);
                        held.shorten(len);
                    }
                }
                check(&held, &naive, len);
            }
        }
    }
}
