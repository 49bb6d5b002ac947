//! What does a decision leave behind, and when is it gone?
//!
//! A prompt that was sent to a place leaves its blocks there: predicted from the moment of the
//! decision, so that a burst of turns with one prefix sees it at once. Predictions go by age, by the
//! place's capacity (least recently used first, leaves before what they hang below), and by the
//! engine's own count of cached tokens: engines evict the least recently used too, so a block that
//! is missing tells that everything used no later is missing as well.
use std::cmp::Reverse;

use super::exact::{StoredBlock, seat};
use super::place::{Place, Slot, Trust};
use super::tree::NodeId;
use super::{Coverage, PrefixIndex, Seat};
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
    /// Less than predicted, where the engine's own events vouch for the missing block: they stand.
    Exact,
    /// No such place.
    UnknownPlace,
}

impl PrefixIndex {
    /// Writes down what is believed of `chain` at `place`, for [`PrefixIndex::correct`]. To be called
    /// before the decision that uses it is entered by [`PrefixIndex::predict`]. O(depth held).
    pub fn coverage(&self, place: PlaceId, chain: &Chain, out: &mut Coverage) {
        out.clear();
        let Some(known) = self.place(place) else {
            return;
        };
        let mut node = None;
        for (&hash, &end) in chain.hashes().iter().zip(chain.ends()) {
            node = self.tree.find_below(node, hash);
            let Some(holder) = node.and_then(|n| self.tree.holder(n, place.0)) else {
                return;
            };
            let slot = known.slot(holder.slot);
            out.blocks += 1;
            out.tokens = end;
            match slot.trust {
                Trust::Exact => out.push(out.blocks, None),
                Trust::Predicted => {
                    out.push(out.blocks, Some(slot.used));
                    out.since = Some(out.since.map_or(slot.at, |at| at.min(slot.at)));
                }
            }
        }
    }

    /// A prompt goes to `place` at `now`: all its blocks are there from now on, and are the last to
    /// go. Returns how many blocks are new there; none when the place is unknown. O(depth).
    pub fn predict(&mut self, now: Micros, place: PlaceId, chain: &Chain) -> usize {
        self.now = self.now.max(now);
        if self.place(place).is_none() {
            self.anomalies.unknown_place += 1;
            return 0;
        }
        self.uses += 1;
        let before = self.place(place).map_or(0, Place::blocks);
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        for (i, &hash) in chain.hashes().iter().enumerate() {
            let tokens = chain.block_tokens(i);
            let block = StoredBlock { hash, tokens };
            let above = path.last().map(|seat: &Seat| seat.node);
            let Some(node) = seat(&mut self.tree, above, block, &mut self.anomalies) else {
                break;
            };
            path.extend(self.hold_predicted(place, node));
        }
        self.use_path(place, &path);
        self.path = path;
        let added = self.place(place).map_or(0, Place::blocks) - before;
        self.arm(place);
        self.enforce_capacity(place);
        self.enforce_bound();
        added
    }

    fn hold_predicted(&mut self, place: PlaceId, node: NodeId) -> Option<Seat> {
        let known = self.places.get_mut(place.index())?.as_mut()?;
        let slot = match self.tree.holder(node, place.0) {
            Some(holder) => holder.slot,
            None => {
                let slot = known.add(node, Trust::Predicted, self.tree.tokens(node));
                self.tree.hold(node, place.0, slot);
                slot
            }
        };
        Some(Seat { node, slot })
    }

    /// Leaf to root, so that an ancestor is younger than what hangs below it.
    fn use_path(&mut self, place: PlaceId, path: &[Seat]) {
        let Some(known) = self.places.get_mut(place.index()).and_then(Option::as_mut) else {
            return;
        };
        for &Seat { node, slot } in path.iter().rev() {
            self.tree.touch(node, self.uses);
            if known.slot(slot).trust == Trust::Predicted {
                known.touch(slot, self.uses, self.now);
            }
        }
    }

    /// The engine says that `reported` tokens of `chain` were cached when the turn came that
    /// [`PrefixIndex::predict`] entered after `before` was written down. When fewer than believed
    /// were, everything predicted at the place and used no later than the first missing block (as of
    /// before that turn) is forgotten. O(what is forgotten).
    pub fn correct(
        &mut self,
        place: PlaceId,
        chain: &Chain,
        reported: u32,
        before: &Coverage,
    ) -> Correction {
        if self.place(place).is_none() {
            return Correction::UnknownPlace;
        }
        let present = chain.ends().partition_point(|&end| end <= reported);
        let slack = SLACK_TOKENS.max(chain.block_tokens(present));
        if reported.saturating_add(slack) >= before.tokens {
            return Correction::Agreed;
        }
        let Some(missing) = before.used(present as u32) else {
            return Correction::Exact;
        };
        let mut evicted_tokens = 0;
        while let Some(slot) = self.oldest_if(place, |slot| slot.used <= missing) {
            evicted_tokens += u64::from(self.drop_slot(place, slot));
        }
        Correction::Short { evicted_tokens }
    }

    /// Forgets what is too old at `now`. Amortised O(1) a prediction and O(log places) a place.
    pub fn expire(&mut self, now: Micros) {
        self.now = self.now.max(now);
        let now = self.now;
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            let place = PlaceId(id);
            let Some(known) = self.place_mut(place) else {
                continue;
            };
            known.armed = false;
            if let Some(ttl) = known.options.ttl {
                while let Some(slot) = self.oldest_if(place, |slot| slot.at.plus(ttl) <= now) {
                    self.drop_slot(place, slot);
                }
            }
            self.arm(place);
        }
    }

    /// A time before which [`PrefixIndex::expire`] has nothing to do; absent when nothing ages. It may
    /// be early, when what was due has been used again. O(1).
    #[must_use]
    pub fn next_expiry(&self) -> Option<Micros> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Sees to it that the place's oldest prediction will be looked at.
    fn arm(&mut self, place: PlaceId) {
        let Some(known) = self.place_mut(place) else {
            return;
        };
        let oldest = known.oldest_predicted();
        if let (false, Some(ttl), Some((_, slot))) = (known.armed, known.options.ttl, oldest) {
            known.armed = true;
            self.due.push(Reverse((slot.at.plus(ttl), place.0)));
        }
    }

    pub(super) fn enforce_capacity(&mut self, place: PlaceId) {
        let capacity = self.place(place).and_then(|p| p.options.capacity_tokens);
        let Some(capacity) = capacity else {
            return;
        };
        while self.tokens(place) > capacity {
            let Some(slot) = self.oldest_if(place, |_| true) else {
                return;
            };
            self.drop_slot(place, slot);
        }
    }

    fn oldest_if(&self, place: PlaceId, gone: impl Fn(&Slot) -> bool) -> Option<u32> {
        let (index, slot) = self.place(place)?.oldest_predicted()?;
        gone(&slot).then_some(index)
    }
}
