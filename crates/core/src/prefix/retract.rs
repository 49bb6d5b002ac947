//! What does a decision take back when its prompt has never been computed?
//!
//! A turn that fails before its first token leaves nothing in the cache that it was sent to. Only what
//! the decision itself has added goes: blocks that the place held before stay, and so do blocks that a
//! later decision counts on.
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
    /// Blocks of the prompt that were there before, contiguous from the root.
    blocks: u32,
    /// Those of them that could be read, where marks are.
    readable: u32,
}

impl PrefixIndex {
    /// Does what [`PrefixIndex::predict`] does, and says how to take it back.
    pub fn enter(&mut self, now: Micros, place: PlaceId, chain: &Chain) -> Entered {
        let blocks = self.reach(place, chain, 0);
        let slot = self.slot_of(place);
        let readable = slot
            .and_then(|slot| self.limit(slot, chain))
            .unwrap_or(blocks);
        self.predict(now, place, chain);
        Entered {
            place,
            number: self.uses,
            blocks,
            readable,
        }
    }

    /// The prompt `chain` that `entered` is about was not computed. O(runs on the way, for each of
    /// them that something goes from).
    pub fn retract(&mut self, chain: &Chain, entered: &Entered) {
        let Some(slot) = self.slot_of(entered.place) else {
            return;
        };
        // Runs may be joined when blocks go, so each is looked up anew.
        while let Some((run, span)) = self.deepest_entered(slot, chain, entered) {
            self.release(slot, run, span);
        }
        self.unwrite_marks(slot, chain, (entered.number, entered.readable));
    }

    /// The deepest blocks that the decision added and nobody has used since.
    fn deepest_entered(
        &self,
        slot: u32,
        chain: &Chain,
        entered: &Entered,
    ) -> Option<(RunId, Span)> {
        let mut deepest = None;
        for Stretch { run: id, .. } in self.forest.along(chain.hashes()) {
            let run = &self.forest.runs[id];
            let first = entered.blocks.saturating_sub(run.base);
            let own = run.claims.iter().filter(|claim| claim.slot == slot);
            let segments = own.map(|claim| self.place(slot).segment(claim.segment));
            let added = segments
                .filter(|segment| segment.used == entered.number && segment.to > first)
                .map(|segment| (segment.from.max(first), segment.to))
                .max();
            deepest = added.map(|span| (id, span)).or(deepest);
        }
        deepest
    }
}
