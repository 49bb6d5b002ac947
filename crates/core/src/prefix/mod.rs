//! Who has which blocks of this prompt?
//!
//! One tree of blocks for all places. Two feeds: the router's own decisions, which leave a prompt's
//! blocks behind where it went (predicted: they age, are bounded by the place's capacity, and are
//! corrected by the cached tokens that the engine reports), and engine events (exact: they come and
//! go as the engine says). Credit is contiguous from the root, always.
//!
//! A decision costs O(depth) for its own path; a look-up O(changes × log depth) plus the places that
//! stop at each change, whatever the number of places and blocks; an event O(its blocks). Memory is
//! about 160 bytes a block at one place and 56 for each further one. The index knows no clock (times are
//! passed in; one that goes backwards is taken as the latest so far), no load and no cost.
//! It trusts chain hashes to vouch for their prefix, and engines for nothing: what cannot be is
//! counted and has no effect.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::block::Chain;
use crate::{Error, Micros, PlaceId, Result, WorkerId};

mod exact;
mod overlap;
mod place;
mod predicted;
mod stats;
mod tree;

pub use exact::StoredBlock;
pub use overlap::{Coverage, Overlap, Step};
pub use place::{PlaceOptions, Tier, Trust};
pub use predicted::Correction;
pub use stats::{Anomalies, PlaceStats, PrefixStats};
pub(crate) use tree::ByHash;

use place::Place;
use tree::{NodeId, Tree};

/// The blocks of all places.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    tree: Tree,
    /// By [`PlaceId`]; an id is never used again.
    places: Vec<Option<Place>>,
    max_blocks: usize,
    /// When to look at a place's oldest prediction; at most one entry a place.
    due: BinaryHeap<Reverse<(Micros, u32)>>,
    now: Micros,
    /// Numbers the uses of blocks, so that two at the same time can be told apart.
    uses: u64,
    evicted: u64,
    anomalies: Anomalies,
    path: Vec<Seat>,
}

/// A block of a path and where the place at hand keeps it.
#[derive(Clone, Copy, Debug)]
struct Seat {
    node: NodeId,
    slot: u32,
}

impl PrefixIndex {
    /// An index of at most `max_blocks` distinct blocks; beyond, the leaves that were used least
    /// recently go.
    #[must_use]
    pub fn new(max_blocks: usize) -> Self {
        Self {
            tree: Tree::default(),
            places: Vec::new(),
            max_blocks,
            due: BinaryHeap::new(),
            now: Micros(0),
            uses: 0,
            evicted: 0,
            anomalies: Anomalies::default(),
            path: Vec::new(),
        }
    }

    /// Registers a place. The same worker, rank and tier may not be registered twice.
    ///
    /// # Errors
    /// `DUPLICATE_ID`. O(places).
    pub fn add_place(
        &mut self,
        worker: WorkerId,
        rank: u32,
        tier: Tier,
        options: PlaceOptions,
    ) -> Result<PlaceId> {
        let same = |p: &Place| (p.worker, p.rank, p.tier) == (worker, rank, tier);
        if self.places.iter().flatten().any(same) {
            let detail = format!("worker {} has rank {rank}, tier {tier:?} already", worker.0);
            return Err(Error::duplicate_id(detail));
        }
        let id = PlaceId(self.places.len() as u32);
        let place = Place::new(worker, rank, tier, options);
        self.places.push(Some(place));
        Ok(id)
    }

    /// Forgets a place and all that it holds. False when there is no such place.
    pub fn remove_place(&mut self, place: PlaceId) -> bool {
        self.clear(place);
        let known = self.places.get_mut(place.index());
        known.is_some_and(|p| p.take().is_some())
    }

    /// Changes a place's bound; what is too much goes at once. False when there is no such place.
    pub fn set_capacity(&mut self, place: PlaceId, capacity_tokens: Option<u64>) -> bool {
        let Some(known) = self.place_mut(place) else {
            return false;
        };
        known.options.capacity_tokens = capacity_tokens;
        self.enforce_capacity(place);
        true
    }

    /// How much of `chain` each place has, contiguous from the root. No allocation once `out` has
    /// grown to the number of places and the depth of prompts.
    pub fn find(&self, chain: &Chain, out: &mut Overlap) {
        out.walk(&self.tree, chain);
    }

    /// Whether some place holds the block at all, and on what evidence `place` does. O(1).
    #[must_use]
    pub fn trust(&self, place: PlaceId, hash: u64) -> Option<Trust> {
        let holder = self.tree.holder(self.tree.find(hash)?, place.0)?;
        Some(self.place(place)?.slot(holder.slot).trust)
    }

    /// Tokens that a place holds, stranded ones included; zero for an unknown place. O(1).
    #[must_use]
    pub fn tokens(&self, place: PlaceId) -> u64 {
        self.place(place).map_or(0, |p| p.tokens)
    }

    /// The size of everything. O(places + blocks).
    #[must_use]
    pub fn stats(&self) -> PrefixStats {
        let registered = (0..).zip(&self.places);
        let places = registered.filter_map(|(id, place)| {
            let place = place.as_ref()?;
            Some(PlaceStats {
                place: PlaceId(id),
                worker: place.worker,
                rank: place.rank,
                tier: place.tier,
                blocks: place.blocks(),
                tokens: place.tokens,
                capacity_tokens: place.options.capacity_tokens,
            })
        });
        let slots: usize = self.places.iter().flatten().map(Place::bytes).sum();
        PrefixStats {
            blocks: self.tree.len(),
            bytes: self.tree.bytes() + slots,
            evicted: self.evicted,
            places: places.collect(),
            anomalies: self.anomalies,
            now: self.now,
        }
    }

    fn place(&self, place: PlaceId) -> Option<&Place> {
        self.places.get(place.index())?.as_ref()
    }

    fn place_mut(&mut self, place: PlaceId) -> Option<&mut Place> {
        self.places.get_mut(place.index())?.as_mut()
    }

    /// Lets `place` no longer hold the block in `slot`.
    fn drop_slot(&mut self, place: PlaceId, slot: u32) -> u32 {
        let Some(known) = self.places.get_mut(place.index()).and_then(Option::as_mut) else {
            return 0;
        };
        let node = known.slot(slot).node;
        let tokens = self.tree.tokens(node);
        known.take(slot, tokens);
        self.tree.release(node, place.0);
        tokens
    }

    /// Keeps the whole index within its bound.
    fn enforce_bound(&mut self) {
        while self.tree.len() > self.max_blocks {
            let Some(leaf) = self.tree.oldest_leaf() else {
                return;
            };
            self.evicted += 1;
            while let Some(holder) = self.tree.any_holder(leaf) {
                self.drop_slot(PlaceId(holder.place), holder.slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
