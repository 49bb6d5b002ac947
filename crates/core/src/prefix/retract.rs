//! What does a decision take back when its prompt has never been computed?
//!
//! A turn that fails before its first token leaves nothing in the cache that it was sent to. Blocks are
//! pending from the decision that enters them until a turn with them has a first token, and belong to
//! the last decision that counts on them meanwhile: when that fails too, they go. What was computed
//! stays.
use super::PrefixIndex;
use super::forest::Stretch;
use super::held::Span;
use super::run::RunId;
use crate::block::Chain;
use crate::{Micros, PlaceId};

/// What one decision has entered at one place, for [`PrefixIndex::retract`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    place: PlaceId,
    /// The number of the decision.
    number: u64,
    /// Blocks of the prompt that could be read before, contiguous from the root.
    readable: u32,
}

impl PrefixIndex {
    /// A prompt goes to `place`: as [`PrefixIndex::predict`], but until [`PrefixIndex::confirm`] says so
    /// nobody has computed what is new of it, and [`PrefixIndex::retract`] takes that back.
    pub fn enter(&mut self, now: Micros, place: PlaceId, chain: &Chain) -> Entered {
        let slot = self.slot_of(place);
        let readable = slot.and_then(|slot| self.limit(slot, chain)).unwrap_or(0);
        self.foresee(now, place, chain, true);
        Entered {
            place,
            number: self.uses,
            readable,
        }
    }

    /// The prompt `chain` that `entered` is about has been computed. What a later decision has taken
    /// with it when it failed is there again, unless others have the room now. O(runs on the way and
    /// their predictions).
    pub fn confirm(&mut self, chain: &Chain, entered: &Entered) {
        let Some(slot) = self.slot_of(entered.place) else {
            return;
        };
        let mut path = std::mem::take(&mut self.scratch.path);
        let depth = self.forest.walk(chain.hashes(), &mut path);
        let is_whole = depth == chain.len() && path.iter().all(|part| self.has_all(slot, part));
        if is_whole || !self.has_room_for_rest(slot, entered.place, chain) {
            for stretch in &path {
                self.ledger(slot).confirm(stretch.run, stretch.to);
            }
            self.scratch.path = path;
        } else {
            self.scratch.path = path;
            self.foresee(self.now, entered.place, chain, false);
        }
    }

    fn has_all(&self, slot: u32, stretch: &Stretch) -> bool {
        let run = &self.forest.runs[stretch.run];
        run.held.reach(slot, 0, run.len()) >= stretch.to
    }

    /// The prompt `chain` that `entered` is about was not computed. O(runs on the way, for each of
    /// them that something goes from).
    pub fn retract(&mut self, chain: &Chain, entered: &Entered) {
        let Some(slot) = self.slot_of(entered.place) else {
            return;
        };
        // Runs may be joined when blocks go, so each is looked up anew.
        while let Some((run, span)) = self.deepest_pending(slot, chain, entered.number) {
            self.release(slot, run, span);
        }
        self.unwrite_marks(slot, chain, (entered.number, entered.readable));
    }

    /// Whether what is not there of the prompt could be. Marks are no matter of room, and where an engine
    /// tells what it has, it has told.
    fn has_room_for_rest(&self, slot: u32, at: PlaceId, chain: &Chain) -> bool {
        let place = self.place(slot);
        if place.options.matching.rules().is_some() || place.options.is_told {
            return false;
        }
        let reach = self.reach(at, chain, 0) as usize;
        let rest = chain.tokens_of(chain.len()) - chain.tokens_of(reach);
        let capacity = place.options.capacity_tokens;
        capacity.is_none_or(|capacity| place.tokens + u64::from(rest) <= capacity)
    }

    /// The deepest blocks that nobody has computed and no later decision counts on.
    fn deepest_pending(&self, slot: u32, chain: &Chain, number: u64) -> Option<(RunId, Span)> {
        let mut deepest = None;
        for Stretch { run: id, .. } in self.forest.along(chain.hashes()) {
            let run = &self.forest.runs[id];
            let own = run.claims.iter().filter(|claim| claim.slot == slot);
            let segments = own.map(|claim| self.place(slot).segment(claim.segment));
            let pending = segments
                .filter(|segment| segment.pending == number)
                .map(|segment| (segment.from, segment.to))
                .max();
            deepest = pending.map(|span| (id, span)).or(deepest);
        }
        deepest
    }
}
