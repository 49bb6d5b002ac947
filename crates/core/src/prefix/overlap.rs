//! Who has how much of this prompt?
//!
//! The answer of a look-up: the depths at which some place stops, and which. A step is a set of
//! places, so that a prefix which all share is one step however many they are. Reused between look-ups
//! it allocates nothing once it has grown. It vouches only for coverage that is contiguous from the
//! root; what is stranded behind a hole is not in it.
use std::sync::Arc;

use super::forest::{Forest, Stretch};
use super::held::Held;
use super::set::SlotSet;
use super::{SLOT_BITS, Trust, slot_in};
use crate::block::Chain;
use crate::{Micros, PlaceId};

/// With more steps than this, what each place has is written down instead of looked for.
const FEW_STEPS: usize = 4;

/// The places that hold exactly `blocks` blocks of the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// How many blocks from the root.
    pub blocks: u32,
    /// Their tokens.
    pub tokens: u32,
    places: &'a SlotSet,
    ids: &'a [u32],
}

impl<'a> Step<'a> {
    /// The places that stop here, ascending by when their room was given out first.
    pub fn places(&self) -> impl Iterator<Item = PlaceId> + use<'a> {
        let ids = self.ids;
        self.places
            .iter()
            .map(move |slot| PlaceId(ids[slot as usize] << SLOT_BITS | slot))
    }

    /// How many places stop here.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }
}

/// How much of one prompt each place has.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    /// Only the first `len` are of this answer; the others keep their room.
    steps: Vec<RawStep>,
    len: usize,
    /// By slot: blocks and tokens, valid in the round that wrote them.
    by_slot: Vec<Reached>,
    round: u32,
    /// The generation of each slot, to tell an id from one that had its slot before.
    generations: Arc<Vec<u32>>,
    /// Those that have everything so far.
    active: SlotSet,
    next: SlotSet,
    stops: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Default)]
struct RawStep {
    blocks: u32,
    tokens: u32,
    places: SlotSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    round: u32,
    blocks: u32,
    tokens: u32,
}

impl Overlap {
    /// An answer to nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks of the prompt at `place`, contiguous from the root. O(1).
    #[must_use]
    pub fn blocks_at(&self, place: PlaceId) -> u32 {
        self.reached(place).0
    }

    /// Tokens of the prompt at `place`, contiguous from the root. O(1).
    #[must_use]
    pub fn tokens_at(&self, place: PlaceId) -> u32 {
        self.reached(place).1
    }

    /// The depths at which places stop, nearest the root first. Places without a block are absent.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.steps[..self.len].iter().map(|step| Step {
            blocks: step.blocks,
            tokens: step.tokens,
            places: &step.places,
            ids: &self.generations,
        })
    }

    fn reached(&self, place: PlaceId) -> (u32, u32) {
        let slot = slot_in(place);
        if self.generations.get(slot as usize) != Some(&(place.0 >> SLOT_BITS)) {
            return (0, 0);
        }
        if self.len > FEW_STEPS {
            return match self.by_slot.get(slot as usize) {
                Some(at) if at.round == self.round => (at.blocks, at.tokens),
                _ => (0, 0),
            };
        }
        let steps = &self.steps[..self.len];
        let own = steps.iter().find(|step| step.places.contains(slot));
        own.map_or((0, 0), |step| (step.blocks, step.tokens))
    }

    /// Replaces the answer. `generations` are those of the slots at this moment.
    pub(super) fn walk(&mut self, forest: &Forest, chain: &Chain, generations: &Arc<Vec<u32>>) {
        if !Arc::ptr_eq(&self.generations, generations) {
            self.generations = Arc::clone(generations);
        }
        self.len = 0;
        let mut depth = 0;
        for Stretch { run, to, .. } in forest.along(chain.hashes()) {
            self.narrow(&forest.runs[run].held, (depth, to), chain);
            if self.active.is_empty() {
                break;
            }
            depth += to;
        }
        if depth > 0 {
            std::mem::swap(&mut self.next, &mut self.active);
            self.push_next(depth, chain);
            self.active.clear();
        }
        if self.len > FEW_STEPS {
            self.write_down();
        }
    }

    /// `matched` blocks of a run follow after `depth`: who of the active has them all, and where do
    /// the others stop?
    fn narrow(&mut self, held: &Held, (depth, matched): (u32, u32), chain: &Chain) {
        self.stops.clear();
        if depth == 0 {
            // At the root, whoever has something is active.
            self.active.copy_from(held.full());
            for (slot, to) in held.heads() {
                match to >= matched {
                    true => self.active.insert(slot),
                    false => self.stops.push((to, slot)),
                }
            }
            self.stop_in_order(chain);
            return;
        }
        self.next.copy_from(held.full());
        for (slot, to) in held.heads() {
            if self.active.contains(slot) {
                match to >= matched {
                    true => self.next.insert(slot),
                    false => self.stops.push((depth + to, slot)),
                }
            }
        }
        self.next.keep(&self.active);
        // Whoever is in neither stops right where the run begins.
        std::mem::swap(&mut self.active, &mut self.next);
        self.next.take_out(&self.active);
        for &(_, slot) in &self.stops {
            self.next.remove(slot);
        }
        if !self.next.is_empty() {
            self.push_next(depth, chain);
        }
        self.stop_in_order(chain);
    }

    /// Makes steps of `self.stops`.
    fn stop_in_order(&mut self, chain: &Chain) {
        self.stops.sort_unstable();
        let mut i = 0;
        while let Some(&(blocks, _)) = self.stops.get(i) {
            self.next.clear();
            while let Some(&(same, slot)) = self.stops.get(i)
                && same == blocks
            {
                self.next.insert(slot);
                i += 1;
            }
            self.push_next(blocks, chain);
        }
    }

    /// The places of `self.next` stop after `blocks` blocks.
    fn push_next(&mut self, blocks: u32, chain: &Chain) {
        if self.next.is_empty() {
            return;
        }
        if self.steps.len() == self.len {
            self.steps.push(RawStep::default());
        }
        let step = &mut self.steps[self.len];
        (step.blocks, step.tokens) = (blocks, chain.tokens_of(blocks as usize));
        std::mem::swap(&mut step.places, &mut self.next);
        self.next.clear();
        self.len += 1;
    }

    fn write_down(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.by_slot.fill(Reached::default());
            self.round = 1;
        }
        self.by_slot
            .resize(self.generations.len(), Reached::default());
        for step in &self.steps[..self.len] {
            for slot in step.places.iter() {
                self.by_slot[slot as usize] = Reached {
                    round: self.round,
                    blocks: step.blocks,
                    tokens: step.tokens,
                };
            }
        }
    }
}

/// What the index believed of one place and one prompt before a decision used it: what a report of
/// the engine is held against. Reusable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub(super) blocks: u32,
    pub(super) tokens: u32,
    /// Stretches of blocks that the same decision used last: (end block, its number; absent where
    /// the engine's own word stands).
    pub(super) uses: Vec<(u32, Option<u64>)>,
    /// Blocks that had been computed, contiguous from the root.
    pub(super) computed: u32,
    /// The oldest of those uses.
    pub(super) since: Option<Micros>,
    /// The number of the last decision before, where marks are read.
    pub(super) decided: u64,
}

impl Coverage {
    /// Coverage of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks believed to be there, contiguous from the root.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Their tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// When the block of it that was used least recently was used; absent without predictions.
    #[must_use]
    pub fn since(&self) -> Option<Micros> {
        self.since
    }

    /// How good the evidence of the deepest of them is; absent without any.
    #[must_use]
    pub fn trust(&self) -> Option<Trust> {
        self.uses.last().map(|(_, used)| match used {
            Some(_) => Trust::Predicted,
            None => Trust::Exact,
        })
    }

    pub(super) fn clear(&mut self) {
        self.blocks = 0;
        self.tokens = 0;
        self.computed = 0;
        self.since = None;
        self.decided = 0;
        self.uses.clear();
    }

    pub(super) fn push(&mut self, end: u32, used: Option<u64>) {
        self.blocks = end;
        match self.uses.last_mut() {
            Some(last) if last.1 == used => last.0 = end,
            _ => self.uses.push((end, used)),
        }
    }

    /// The decision that last used block `index`, if the block is covered and predicted.
    pub(super) fn used(&self, index: u32) -> Option<u64> {
        let stretch = self.uses.iter().find(|(end, _)| index < *end);
        stretch.and_then(|(_, used)| *used)
    }
}
