//! What does a decision leave behind, and when is it gone?
//!
//! A prompt that was sent to a place leaves its blocks there: predicted from the moment of the
//! decision, so that a burst of turns with one prefix sees it at once. Predictions go by age, by the
//! place's capacity (least recently used first, ends before what they hang below), and by the
//! engine's own count of cached tokens: engines evict the least recently used too, so a block that
//! is missing tells that everything used no later is missing as well.
//!
//! A decision costs O(runs on its way) besides the blocks that are new to the index.
use std::cmp::Reverse;

use super::forest::Stretch;
use super::held::Span;
use super::lengths::NewLengths;
use super::place::{Dropping, Segment, Use};
use super::run::Address;
use super::{Coverage, PrefixIndex};
use crate::block::Chain;
use crate::{Micros, PlaceId};

/// A report may fall short by so many tokens, or by one block, before anything is concluded: engines
/// cache whole blocks of their own size and always compute the last token.
const SLACK_TOKENS: u32 = 64;

/// What a report of cached tokens told about the predictions of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// As much as predicted, or more, or so little less that it means nothing.
    Agreed,
    /// Less than predicted: so many tokens of the place are taken to be gone.
    Short {
        /// Tokens no longer predicted there.
        evicted_tokens: u64,
    },
    /// Less than predicted, where what is missing had been counted on before anybody had computed it:
    /// turns that run side by side each compute what they share.
    Pending,
    /// Less than predicted, where the engine's own events vouch for the missing block: they stand.
    Exact,
    /// No such place.
    UnknownPlace,
}

impl PrefixIndex {
    /// Writes down what is believed of `chain` at `place`, for [`PrefixIndex::correct`]. To be called
    /// before the decision that uses it is entered by [`PrefixIndex::predict`]. O(runs on the way).
    pub fn coverage(&self, place: PlaceId, chain: &Chain, out: &mut Coverage) {
        out.clear();
        let Some(slot) = self.slot_of(place) else {
            return;
        };
        let limit = self.limit(slot, chain);
        out.decided = limit.map_or(0, |_| self.uses);
        let most = limit.map_or(chain.len(), |most| chain.len().min(most as usize));
        for stretch in self.forest.along(&chain.hashes()[..most]) {
            if self.cover(slot, stretch, out) < stretch.to {
                break;
            }
        }
        out.tokens = self.worth(slot, chain, out.blocks);
        if out.tokens == 0 {
            out.clear();
        }
    }

    /// Appends what the place has of one run. Returns how far that goes.
    fn cover(&self, slot: u32, stretch: Stretch, out: &mut Coverage) -> u32 {
        let run = &self.forest.runs[stretch.run];
        let reach = run.held.reach(slot, 0, run.len()).min(stretch.to);
        let mut at = 0;
        while at < reach {
            let (end, segment) = self.next_piece(slot, stretch, at);
            let from = at;
            at = end.min(reach);
            out.push(run.base + at, segment.map(|s| s.used));
            if segment.is_none_or(|s| s.pending == 0) && out.computed == run.base + from {
                out.computed = run.base + at;
            }
            if let Some(segment) = segment {
                out.since = Some(out.since.map_or(segment.at, |since| since.min(segment.at)));
            }
        }
        reach
    }

    /// Where what is known of block `at` ends, and the prediction that it is part of. O(segments).
    fn next_piece(&self, slot: u32, stretch: Stretch, at: u32) -> (u32, Option<&Segment>) {
        let place = self.place(slot);
        let mut end = stretch.to;
        for claim in &self.forest.runs[stretch.run].claims {
            if claim.slot != slot {
                continue;
            }
            let segment = place.segment(claim.segment);
            if (segment.from..segment.to).contains(&at) {
                return (segment.to, Some(segment));
            }
            if segment.from > at {
                end = end.min(segment.from);
            }
        }
        (end, None)
    }

    /// A prompt is computed at `place` at `now`: all its blocks are there from now on, and are the last to
    /// go. Returns how many blocks are new there; none when the place is unknown.
    pub fn predict(&mut self, now: Micros, place: PlaceId, chain: &Chain) -> usize {
        self.foresee(now, place, chain, false)
    }

    /// The same, of a prompt that is computed or `is_pending`.
    pub(super) fn foresee(
        &mut self,
        now: Micros,
        place: PlaceId,
        chain: &Chain,
        is_pending: bool,
    ) -> usize {
        self.now = self.now.max(now);
        let Some(slot) = self.slot_of(place) else {
            self.anomalies.unknown_place += 1;
            return 0;
        };
        let read = self.mark_to_read(slot, chain);
        self.uses += 1;
        let mut path = std::mem::take(&mut self.scratch.path);
        self.lay_path(slot, chain, &mut path);
        self.anchor_end(slot, &path);
        let used = self.uses;
        let by = Use {
            used,
            at: self.now,
            pending: if is_pending { used } else { 0 },
        };
        let mut added = 0;
        for stretch in path.iter().rev() {
            let mut ledger = self.ledger(slot);
            added += ledger.hold_predicted(stretch.run, stretch.to, by);
        }
        self.forest.touch(&path, used);
        self.mark_path(slot, chain, &path, read);
        self.scratch.path = path;
        self.arm(slot);
        self.enforce_capacity(slot);
        self.enforce_bound(used);
        added
    }

    /// The way of the chain, laid where it was not there.
    fn lay_path(&mut self, slot: u32, chain: &Chain, path: &mut Vec<Stretch>) {
        let depth = self.forest.walk(chain.hashes(), path);
        if depth == chain.len() {
            return;
        }
        let above = path.last().and_then(Stretch::last);
        let lengths = NewLengths::of(chain.tokens_of(depth), &chain.ends()[depth..]);
        let rest = &chain.hashes()[depth..];
        match self.forest.lay(slot, above, rest, lengths) {
            None => self.anomalies.other_parent += 1,
            Some(laid) => match path.last_mut() {
                Some(last) if last.run == laid.run => last.to = laid.to,
                _ => path.push(Stretch { from: 0, ..laid }),
            },
        }
    }

    /// The engine's next event for this prompt begins where what it has of it ends: gives that block
    /// an anchor, if it has a name.
    fn anchor_end(&mut self, slot: u32, path: &[Stretch]) {
        let voice = self.place(slot).voice(slot);
        let mut end = None;
        for stretch in path {
            let run = &self.forest.runs[stretch.run];
            let reach = run.held.reach(slot, 0, run.len()).min(stretch.to);
            if let Some(offset) = reach.checked_sub(1) {
                end = Some(Address {
                    run: stretch.run,
                    offset,
                });
            }
            if reach < stretch.to {
                break;
            }
        }
        let Some(at) = end else { return };
        let run = &self.forest.runs[at.run];
        if at.offset < run.anchored {
            return;
        }
        if let Some(name) = run.names.get(voice, at.offset) {
            self.anchors.insert(&self.forest, voice.domain, name, at);
        }
    }

    /// The engine says that `reported` tokens of `chain` were cached when the turn came that
    /// [`PrefixIndex::predict`] entered after `before` was written down. When fewer than believed
    /// were, everything predicted at the place and used no later than the first missing block (as of
    /// before that turn) is forgotten; where marks are read, those of the prompt that are missing, and
    /// nothing else, since providers do not drop by age alone. Nothing where the order of eviction is
    /// unknown: the turn itself has had its prompt computed again. O(what is forgotten).
    pub fn correct(
        &mut self,
        place: PlaceId,
        chain: &Chain,
        reported: u32,
        before: &Coverage,
    ) -> Correction {
        let Some(slot) = self.slot_of(place) else {
            return Correction::UnknownPlace;
        };
        let present = chain.ends().partition_point(|&end| end <= reported);
        let slack = SLACK_TOKENS.max(chain.block_tokens(present));
        if reported.saturating_add(slack) >= before.tokens {
            return Correction::Agreed;
        }
        if present as u32 >= before.computed {
            return Correction::Pending;
        }
        if self.place(slot).options.matching.rules().is_some() {
            return self.void_marks(slot, chain, (reported, slack), before);
        }
        let Some(missing) = before.used(present as u32) else {
            return Correction::Exact;
        };
        if self.place(slot).options.dropping == Dropping::Unknown {
            return Correction::Short { evicted_tokens: 0 };
        }
        let had = self.place(slot).tokens;
        self.forget_while(slot, |segment| segment.used <= missing);
        let evicted_tokens = had - self.place(slot).tokens;
        Correction::Short { evicted_tokens }
    }

    /// Forgets what is too old at `now`. Amortised O(1) a prediction, O(log marks) a mark and
    /// O(log places) a place.
    pub fn expire(&mut self, now: Micros) {
        self.now = self.now.max(now);
        let now = self.now;
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            let Some(slot) = self.slot_of(PlaceId(id)) else {
                continue;
            };
            let place = self.place_mut(slot);
            if place.armed != Some(at) {
                continue;
            }
            place.armed = None;
            self.ledger(slot).expire_marks(now);
            if let Some(ttl) = self.place(slot).lifetime() {
                self.forget_while(slot, |segment| segment.at.plus(ttl) <= now);
            }
            self.arm(slot);
        }
    }

    /// A time before which [`PrefixIndex::expire`] has nothing to do; absent when nothing ages. It may
    /// be early, when what was due has been used again. O(1).
    #[must_use]
    pub fn next_expiry(&self) -> Option<Micros> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Sees to it that what ages at the place will be looked at in time.
    pub(super) fn arm(&mut self, slot: u32) {
        let id = self.id_of(slot);
        let place = self.place_mut(slot);
        if let Some(next) = place.next_expiry()
            && place.armed.is_none_or(|armed| next < armed)
        {
            place.armed = Some(next);
            self.due.push(Reverse((next, id.0)));
        }
    }

    /// Forgets the oldest predictions as long as `is_gone`.
    fn forget_while(&mut self, slot: u32, is_gone: impl Fn(&Segment) -> bool) {
        while let Some((_, segment)) = self.place(slot).oldest() {
            if !is_gone(&segment) {
                return;
            }
            self.release(slot, segment.run, (segment.from, segment.to));
        }
    }

    pub(super) fn enforce_capacity(&mut self, slot: u32) {
        let Some(capacity) = self.place(slot).options.capacity_tokens else {
            return;
        };
        while self.place(slot).tokens > capacity
            && let Some((_, segment)) = self.place(slot).oldest()
        {
            let excess = self.place(slot).tokens - capacity;
            let span = self.tail(&segment, excess);
            self.release(slot, segment.run, span);
        }
    }

    /// The fewest blocks at the end of the segment that have `tokens`; all, if it has fewer.
    fn tail(&self, segment: &Segment, tokens: u64) -> Span {
        let lengths = &self.forest.runs[segment.run].lengths;
        let mut from = segment.to - 1;
        while from > segment.from && lengths.tokens((from, segment.to)) < tokens {
            from -= 1;
        }
        (from, segment.to)
    }
}
