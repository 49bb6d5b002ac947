//! What changes when a place holds blocks, holds them on better evidence, or loses them?
//!
//! Coverage in the run, the place's predictions and its sums change together, here and nowhere else.
//! A block that a place holds is predicted when one of its segments covers it, and exact otherwise; a
//! place never has two segments for one block. Further copies that an engine says it has are counted,
//! and a removal takes one of them first. Whether the forest still needs the blocks is for the caller
//! to ask (`Forest::settle`). O(intervals and segments of the place in that run).
use super::forest::Forest;
use super::held::Span;
use super::place::{Place, Use};
use super::run::{Claim, Run, RunId};

/// Engines are known to say "stored" again and again for one block and "removed" once; further copies
/// than this are not believed.
pub(super) const MAX_COPIES: u32 = 64;

/// One place's side of the forest.
pub(super) struct Ledger<'a> {
    pub(super) forest: &'a mut Forest,
    pub(super) place: &'a mut Place,
    pub(super) slot: u32,
    /// Room to work in; empty between calls.
    pub(super) spans: &'a mut Vec<Span>,
    /// The same, for predictions that have been computed.
    pub(super) computed: &'a mut Vec<Span>,
}

impl Ledger<'_> {
    /// The engine says that it has these blocks. Returns how many of them it had said so before:
    /// those are copies, from now on.
    pub(super) fn hold_exact(&mut self, id: RunId, span: Span) -> usize {
        self.begin(id);
        let run = &self.forest.runs[id];
        run.held.gaps(self.slot, span, self.spans);
        let new: u32 = self.spans.iter().map(|(from, to)| to - from).sum();
        let mut again = 0;
        if new < span.1 - span.0 {
            let predicted = self.predicted_within(id, span);
            if new + predicted < span.1 - span.0 {
                again = self.count_copies(id, span);
            }
            if predicted > 0 {
                self.cut_claims(id, span);
            }
        }
        self.gain(id, span);
        again
    }

    /// How many of these blocks the place has by its engine's word.
    pub(super) fn has_exact(&mut self, id: RunId, span: Span) -> u32 {
        self.forest.runs[id].held.gaps(self.slot, span, self.spans);
        let lacks: u32 = self.spans.drain(..).map(|(from, to)| to - from).sum();
        span.1 - span.0 - lacks - self.predicted_within(id, span)
    }

    /// The router sends a prompt to the place that leaves the first `to` blocks there. Returns how
    /// many of them it did not hold.
    pub(super) fn hold_predicted(&mut self, id: RunId, to: u32, by: Use) -> usize {
        self.begin(id);
        let run = &mut self.forest.runs[id];
        run.held.gaps(self.slot, (0, to), self.spans);
        let new: u32 = self.spans.iter().map(|(from, to)| to - from).sum();
        self.gather_predicted(id, to, by);
        for list in [&mut *self.spans, &mut *self.computed] {
            list.sort_unstable();
            merge(list);
        }
        // The deepest is entered first, so that it is the oldest.
        loop {
            let (pending, computed) = (self.spans.last(), self.computed.last());
            let (span, pending) = match pending.is_some_and(|span| Some(span) > computed) {
                true => (self.spans.pop(), by.pending),
                false => (self.computed.pop(), 0),
            };
            let Some(span) = span else { break };
            let segment = self.place.predict(id, span, Use { pending, ..by });
            let slot = self.slot;
            self.forest.runs[id].claims.push(Claim { slot, segment });
        }
        if new > 0 {
            self.gain_predicted(id, (0, to));
        }
        new as usize
    }

    /// The first `to` blocks have been computed, as far as they are predicted.
    pub(super) fn confirm(&mut self, id: RunId, to: u32) {
        let slot = self.slot;
        let mut rest = None;
        let claims = &mut self.forest.runs[id].claims;
        for claim in claims.iter().filter(|claim| claim.slot == slot) {
            let segment = *self.place.segment(claim.segment);
            if segment.pending == 0 || segment.from >= to {
                continue;
            }
            if segment.to > to {
                self.place.resize(claim.segment, (segment.from, to));
                rest = Some(self.place.split_off(claim.segment, (to, segment.to)));
            }
            self.place.confirm(claim.segment);
        }
        claims.extend(rest.map(|segment| Claim { slot, segment }));
    }

    /// The place no longer has these blocks, on whatever evidence and in however many copies.
    pub(super) fn lose(&mut self, id: RunId, span: Span) {
        let (slot, run) = (self.slot, &mut self.forest.runs[id]);
        let len = run.len();
        self.spans.clear();
        self.spans.extend(run.held.spans(slot, len));
        let (mut blocks, mut tokens) = (0, 0);
        for &(from, to) in self.spans.iter() {
            let (from, to) = (from.max(span.0), to.min(span.1));
            if from < to {
                blocks += to - from;
                tokens += run.lengths.tokens((from, to));
            }
        }
        self.spans.clear();
        if blocks == 0 {
            return;
        }
        self.place.blocks -= blocks as usize;
        self.place.tokens -= tokens;
        run.held.cut(slot, span, len);
        if run.cold().is_some_and(|cold| !cold.copies.is_empty()) {
            run.change_cold(|cold| {
                let gone = |&(s, at): &(u32, u32)| s == slot && (span.0..span.1).contains(&at);
                cold.copies.retain(|at, _| !gone(at));
            });
        }
        self.cut_claims(id, span);
        self.drop_marks(id, span);
        self.end(id);
    }

    /// The engine dropped one copy of each of these blocks. Returns how many there were to drop.
    pub(super) fn drop_copy(&mut self, id: RunId, span: Span) -> usize {
        let (slot, run) = (self.slot, &mut self.forest.runs[id]);
        let len = run.len();
        if run.cold().is_none_or(|cold| cold.copies.is_empty()) {
            let before = self.place.blocks;
            self.lose(id, span);
            return before - self.place.blocks;
        }
        let mut dropped = 0;
        for at in span.0..span.1 {
            let run = &mut self.forest.runs[id];
            let spare = run.change_cold(|cold| take_copy(&mut cold.copies, (slot, at)));
            if spare {
                dropped += 1;
            } else if run.held.reach(slot, at, len) > at {
                self.lose(id, (at, at + 1));
                dropped += 1;
            }
        }
        dropped
    }

    /// The place holds a block of this run soon; enters the run in its list if it is the first.
    fn begin(&mut self, id: RunId) {
        let run = &self.forest.runs[id];
        if !run.held.holds_any(self.slot) {
            self.place.runs.begin(id);
        } else if run.anchored < run.len() {
            self.place.runs.expose(id);
        }
    }

    /// After a loss: what else goes when it was the last block of the run.
    fn end(&mut self, id: RunId) {
        let run = &mut self.forest.runs[id];
        if !run.held.holds_any(self.slot) {
            run.names.forget(self.slot);
            self.forest.note_blocks(id, 0);
            self.place.runs.end();
            if self.place.runs.is_stale() {
                let (runs, slot) = (&self.forest.runs, self.slot);
                let held = |id| {
                    runs.get(id)
                        .is_some_and(|run: &Run| run.held.holds_any(slot))
                };
                self.place.runs.sweep(held);
            }
        }
    }

    /// Adds the blocks of `self.spans` and leaves it empty.
    fn gain(&mut self, id: RunId, span: Span) {
        let run = &mut self.forest.runs[id];
        for &new in self.spans.iter() {
            self.place.blocks += (new.1 - new.0) as usize;
            self.place.tokens += run.lengths.tokens(new);
        }
        let len = run.len();
        run.held.add(self.slot, span, len);
        self.spans.clear();
    }

    /// As [`Self::gain`], where `self.spans` has been used for the segments already.
    fn gain_predicted(&mut self, id: RunId, span: Span) {
        self.spans.clear();
        self.forest.runs[id].held.gaps(self.slot, span, self.spans);
        self.gain(id, span);
    }

    /// How many blocks of `span` the place is predicted to hold.
    fn predicted_within(&self, id: RunId, span: Span) -> u32 {
        let own = self.forest.runs[id].claims.iter();
        let own = own.filter(|c| c.slot == self.slot);
        let segments = own.map(|c| self.place.segment(c.segment));
        let within = segments.map(|s| s.to.min(span.1).saturating_sub(s.from.max(span.0)));
        within.sum()
    }

    /// Blocks of `span` that are neither in `self.spans`, the gaps, nor predicted have a copy more
    /// from now on. Returns how many those are.
    fn count_copies(&mut self, id: RunId, span: Span) -> usize {
        let (slot, run) = (self.slot, &mut self.forest.runs[id]);
        let own = run.claims.iter().filter(|c| c.slot == slot);
        let predicted = own.map(|c| self.place.segment(c.segment));
        let mut other: Vec<Span> = predicted.map(|s| (s.from, s.to)).collect();
        other.extend_from_slice(self.spans);
        let is_other = |at| other.iter().any(|&(from, to)| (from..to).contains(&at));
        let again: Vec<u32> = (span.0..span.1).filter(|&at| !is_other(at)).collect();
        run.change_cold(|cold| {
            for &at in &again {
                let copies = cold.copies.entry((slot, at)).or_default();
                *copies = (*copies + 1).min(MAX_COPIES);
            }
        });
        again.len()
    }

    /// Appends the place's predictions within the first `to` blocks to `self.computed`, those that
    /// nobody has computed yet to `self.spans` (all, where the decision's own blocks are computed), and
    /// takes them off its segments.
    fn gather_predicted(&mut self, id: RunId, to: u32, by: Use) {
        let (slot, place) = (self.slot, &mut *self.place);
        let (pending, computed) = (&mut *self.spans, &mut *self.computed);
        self.forest.runs[id].claims.retain(|claim| {
            if claim.slot != slot {
                return true;
            }
            let segment = *place.segment(claim.segment);
            if segment.from >= to {
                return true;
            }
            let list = match segment.pending == 0 && by.pending > 0 {
                true => &mut *computed,
                false => &mut *pending,
            };
            list.push((segment.from, segment.to.min(to)));
            if segment.to > to {
                place.resize(claim.segment, (to, segment.to));
                return true;
            }
            place.drop_segment(claim.segment);
            false
        });
    }

    /// The place predicts nothing of `span` any more.
    fn cut_claims(&mut self, id: RunId, span: Span) {
        let (slot, place) = (self.slot, &mut *self.place);
        let mut split = None;
        let claims = &mut self.forest.runs[id].claims;
        claims.retain(|claim| {
            if claim.slot != slot {
                return true;
            }
            let segment = *place.segment(claim.segment);
            if segment.to <= span.0 || segment.from >= span.1 {
                return true;
            }
            let before = (segment.from, span.0);
            let behind = (span.1, segment.to);
            match (before.0 < before.1, behind.0 < behind.1) {
                (false, false) => {
                    place.drop_segment(claim.segment);
                    return false;
                }
                (true, false) => place.resize(claim.segment, before),
                (false, true) => place.resize(claim.segment, behind),
                (true, true) => {
                    place.resize(claim.segment, before);
                    split = Some(place.split_off(claim.segment, behind));
                }
            }
            true
        });
        claims.extend(split.map(|segment| Claim { slot, segment }));
    }
}

/// Takes one further copy away, if there is one.
fn take_copy(copies: &mut std::collections::BTreeMap<(u32, u32), u32>, at: (u32, u32)) -> bool {
    let Some(count) = copies.get_mut(&at) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        copies.remove(&at);
    }
    true
}

/// Joins ascending spans that touch.
fn merge(spans: &mut Vec<Span>) {
    spans.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
}
