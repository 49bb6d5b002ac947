//! Who has which blocks of this prompt?
//!
//! One radix tree for all places. Two feeds: the router's own decisions, which leave a prompt's
//! blocks behind where it went (predicted: they age, are bounded by the place's capacity, and are
//! corrected by the cached tokens that the engine reports), and engine events (exact: they come and
//! go as the engine says). Credit is contiguous from the root, always.
//!
//! The tree is made of runs (`run`, `forest`): stretches of blocks that follow each other, with their
//! chain hashes side by side, never split. Who holds which part of a run is a bit or an interval
//! (`held`); what engines call the blocks stands beside them (`names`) and is found by a cache of
//! anchors (`anchors`). Nothing is kept per block but its hash and its name. A decision and an event
//! cost O(runs on their way) besides what is new; a place is cleared in O(its runs).
//!
//! The index knows no clock (times are passed in; one that goes backwards is taken as the latest so
//! far), no load and no cost. It trusts chain hashes to vouch for their prefix, and engines for
//! nothing: what cannot be is counted and has no effect.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::block::Chain;
use crate::{Error, Micros, PlaceId, Result, WorkerId};

mod anchors;
mod arena;
mod exact;
mod forest;
mod held;
mod image;
mod ledger;
mod lengths;
mod marks;
mod matching;
mod names;
mod overlap;
mod paths;
mod place;
mod predicted;
mod rebuild;
mod repeats;
mod retract;
mod run;
mod set;
mod sieve;
mod snapshot;
mod stats;

pub use exact::{StoredBlock, StoredBlocks};
pub(crate) use image::{Image, PathImage};
pub use matching::{BreakpointRules, Implicit, Matching, Refresh};
pub use overlap::{Coverage, Overlap, Step};
pub use paths::Frontier;
pub use place::{Dropping, PlaceOptions, Tier, Trust};
pub use predicted::Correction;
pub(crate) use rebuild::Terms;
pub use retract::Entered;
pub use stats::{Anomalies, PlaceStats, PrefixStats};

use anchors::Anchors;
use forest::{Forest, Stretch};
use held::Span;
use ledger::Ledger;
use place::Place;
use repeats::Repeats;
use run::RunId;

/// Places at one time; a bound on what a set of them can cost.
const MAX_PLACES: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;

/// The blocks of all places.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    forest: Forest,
    anchors: Anchors,
    seats: Vec<Seat>,
    /// How many places have had each seat before. An answer to a look-up shares the list, to tell an
    /// id from one that had its slot before; only places that come or go change it.
    generations: Arc<Vec<u32>>,
    /// The seats that have a place, by whose it is.
    taken: HashMap<(WorkerId, u32, Tier), u32>,
    max_blocks: usize,
    /// The most blocks since memory was given back last.
    peak: usize,
    /// When to look at what ages at a place. An entry that is not the one its place waits for counts
    /// for nothing; a place has several only where one of its marks was sooner due than all before.
    due: BinaryHeap<Reverse<(Micros, u32)>>,
    now: Micros,
    /// Numbers the uses of blocks, so that two at the same time can be told apart.
    uses: u64,
    evicted: u64,
    /// Places that have become short of what their engines told of, until somebody asks.
    short: Vec<(WorkerId, u32)>,
    anomalies: Anomalies,
    scratch: Scratch,
}

/// Room for a place. It is given away again after a place has left, under another id.
#[derive(Clone, Debug, Default)]
struct Seat {
    place: Option<Place>,
    /// Paths that end here, and the tokens that they need together.
    paths: usize,
    working_set: u64,
}

/// Room to work in.
#[derive(Clone, Debug, Default)]
struct Scratch {
    path: Vec<Stretch>,
    spans: Vec<Span>,
    computed: Vec<Span>,
    hashes: Vec<u64>,
    repeats: Repeats,
}

impl PrefixIndex {
    /// An index of at most `max_blocks` distinct blocks; beyond, the ends of prefixes that were used
    /// least recently go. What has just been entered stays until [`PrefixIndex::fit`] or the next
    /// call, so that a path can be laid on it.
    #[must_use]
    pub fn new(max_blocks: usize) -> Self {
        Self {
            forest: Forest::default(),
            anchors: Anchors::default(),
            seats: Vec::new(),
            generations: Arc::default(),
            taken: HashMap::new(),
            max_blocks,
            peak: 0,
            due: BinaryHeap::new(),
            now: Micros(0),
            uses: 0,
            evicted: 0,
            short: Vec::new(),
            anomalies: Anomalies::default(),
            scratch: Scratch::default(),
        }
    }

    /// Registers a place. The same worker, rank and tier may not be registered twice.
    ///
    /// # Errors
    /// `DUPLICATE_ID`; `INVALID_ARGUMENT` beyond 65,536 places at a time. O(places).
    pub fn add_place(
        &mut self,
        worker: WorkerId,
        rank: u32,
        tier: Tier,
        options: PlaceOptions,
    ) -> Result<PlaceId> {
        let owner = (worker, rank, tier);
        if self.taken.contains_key(&owner) {
            let detail = format!("worker {} has rank {rank}, tier {tier:?} already", worker.0);
            return Err(Error::duplicate_id(detail));
        }
        let slot = self.free_slot().unwrap_or(self.seats.len());
        if slot >= MAX_PLACES {
            return Err(Error::invalid_argument("there are 65,536 places already"));
        }
        if slot == self.seats.len() {
            self.seats.push(Seat::default());
            Arc::make_mut(&mut self.generations).push(0);
        }
        self.seats[slot].place = Some(Place::new(worker, rank, tier, options));
        self.taken.insert(owner, slot as u32);
        Ok(self.id_of(slot as u32))
    }

    /// Forgets a place and all that it holds. False when there is no such place. O(its runs + places).
    pub fn remove_place(&mut self, place: PlaceId) -> bool {
        self.clear(place);
        let Some(slot) = self.slot_of(place) else {
            return false;
        };
        Arc::make_mut(&mut self.generations)[slot as usize] += 1;
        if let Some(place) = self.seats[slot as usize].place.take() {
            self.taken.remove(&(place.worker, place.rank, place.tier));
        }
        true
    }

    /// Changes a place's bound; what is too much goes at once. False when there is no such place.
    pub fn set_capacity(&mut self, place: PlaceId, capacity_tokens: Option<u64>) -> bool {
        let Some(slot) = self.slot_of(place) else {
            return false;
        };
        self.place_mut(slot).options.capacity_tokens = capacity_tokens;
        self.enforce_capacity(slot);
        true
    }

    /// Changes how long what a place has been sent counts as cached; what is too old by it goes with the
    /// next [`PrefixIndex::expire`]. False when there is no such place. O(log places).
    pub fn set_ttl(&mut self, place: PlaceId, ttl: Option<Micros>) -> bool {
        let Some(slot) = self.slot_of(place) else {
            return false;
        };
        self.place_mut(slot).options.ttl = ttl;
        self.arm(slot);
        true
    }

    /// How much of `chain` each place has, contiguous from the root. O(runs on the way × the places
    /// that hold parts of them), whatever the depth. No allocation once `out` has grown.
    pub fn find(&self, chain: &Chain, out: &mut Overlap) {
        out.walk(&self.forest, chain, &self.generations);
    }

    /// How many blocks of `chain` the place has without a gap from block `from` on, that many
    /// included: what a farther tier adds where a nearer one stopped. `from` itself when it lacks the
    /// next block, or is not registered. O(runs on the way).
    #[must_use]
    pub fn reach(&self, place: PlaceId, chain: &Chain, from: u32) -> u32 {
        let Some(slot) = self.slot_of(place) else {
            return from;
        };
        let mut reach = from;
        for Stretch { run, to, .. } in self.forest.along(chain.hashes()) {
            let run = &self.forest.runs[run];
            if run.base + to > reach {
                let held = run.held.reach(slot, reach - run.base, run.len());
                reach = run.base + held.min(to);
                if held < to {
                    break;
                }
            }
        }
        reach
    }

    /// Tokens that a place holds, stranded ones included; zero for an unknown place. O(1).
    #[must_use]
    pub fn tokens(&self, place: PlaceId) -> u64 {
        let slot = self.slot_of(place);
        slot.map_or(0, |slot| self.place(slot).tokens)
    }

    /// Tokens that a place has by its engine's own word: without those that were only sent there. Zero for
    /// an unknown place. O(predictions of the place).
    #[must_use]
    pub fn told_tokens(&self, place: PlaceId) -> u64 {
        let Some(slot) = self.slot_of(place) else {
            return 0;
        };
        let place = self.place(slot);
        let sent = place.predictions().map(|segment| {
            let lengths = &self.forest.runs[segment.run].lengths;
            lengths.tokens((segment.from, segment.to))
        });
        place.tokens - sent.sum::<u64>()
    }

    /// The size of everything. O(places + runs).
    #[must_use]
    pub fn stats(&self) -> PrefixStats {
        let places = self.places().map(|(slot, place)| PlaceStats {
            place: self.id_of(slot),
            worker: place.worker,
            rank: place.rank,
            tier: place.tier,
            blocks: place.blocks,
            tokens: place.tokens,
            capacity_tokens: place.options.capacity_tokens,
            marks: place.marks.len(),
        });
        let own: usize = self.places().map(|(_, place)| place.bytes()).sum();
        PrefixStats {
            blocks: self.forest.blocks(),
            runs: self.forest.runs.len(),
            anchors: self.anchors.len(),
            bytes: self.forest.bytes() + self.anchors.bytes() + own,
            evicted: self.evicted,
            places: places.collect(),
            anomalies: self.anomalies,
            now: self.now,
        }
    }

    /// Drops what it may to get within its bound, what was used last included. False when paths need
    /// more than that. O(what goes); O(1) when nothing has to.
    pub fn fit(&mut self) -> bool {
        self.enforce_bound(u64::MAX);
        self.forest.blocks() <= self.max_blocks
    }

    /// A worker and its rank of whose events something has been forgotten for want of room, each said once
    /// until the place is cleared. O(1).
    pub fn take_short(&mut self) -> Option<(WorkerId, u32)> {
        self.short.pop()
    }

    /// These blocks are about to be forgotten, and not because the engine said so.
    fn note_short(&mut self, slot: u32, run: RunId, span: Span) {
        let place = self.place(slot);
        let (whose, is_known) = ((place.worker, place.rank), place.is_short);
        if !place.options.is_told || is_known || self.ledger(slot).has_exact(run, span) == 0 {
            return;
        }
        self.place_mut(slot).is_short = true;
        if !self.short.contains(&whose) {
            self.short.push(whose);
        }
    }

    /// A seat that a place may have. None that so many have had that an id would come again.
    fn free_slot(&self) -> Option<usize> {
        if self.taken.len() == self.seats.len() {
            return None;
        }
        let ids = 1 << (u32::BITS - SLOT_BITS);
        let is_free = |seat: &Seat| seat.place.is_none() && seat.paths == 0;
        let mut seats = self.seats.iter().zip(&*self.generations);
        seats.position(|(seat, &generation)| is_free(seat) && generation < ids)
    }

    fn places(&self) -> impl Iterator<Item = (u32, &Place)> {
        let seats = (0..).zip(&self.seats);
        seats.filter_map(|(slot, seat)| Some((slot, seat.place.as_ref()?)))
    }

    fn id_of(&self, slot: u32) -> PlaceId {
        PlaceId(self.generations[slot as usize] << SLOT_BITS | slot)
    }

    /// The slot of a place that is registered.
    fn slot_of(&self, place: PlaceId) -> Option<u32> {
        let slot = slot_in(place);
        let is_taken = self.seats.get(slot as usize)?.place.is_some();
        let is_it = self.generations[slot as usize] == place.0 >> SLOT_BITS;
        (is_taken && is_it).then_some(slot)
    }

    /// The place at a slot that [`Self::slot_of`] gave.
    fn place(&self, slot: u32) -> &Place {
        let place = self.seats[slot as usize].place.as_ref();
        place.expect("the slot is taken")
    }

    fn place_mut(&mut self, slot: u32) -> &mut Place {
        let place = self.seats[slot as usize].place.as_mut();
        place.expect("the slot is taken")
    }

    fn ledger(&mut self, slot: u32) -> Ledger<'_> {
        let place = self.seats[slot as usize].place.as_mut();
        Ledger {
            forest: &mut self.forest,
            place: place.expect("the slot is taken"),
            slot,
            spans: &mut self.scratch.spans,
            computed: &mut self.scratch.computed,
        }
    }

    /// Lets the place lose blocks that nobody may need any more.
    fn release(&mut self, slot: u32, run: RunId, span: Span) {
        self.ledger(slot).lose(run, span);
        self.forest.settle(run);
        self.rest();
    }

    /// Gives back what an empty index does not need.
    fn rest(&mut self) {
        if self.forest.blocks() == 0 {
            self.anchors.reset();
            self.scratch = Scratch::default();
        }
    }

    /// Gives back what was needed when there was much more.
    fn shrink(&mut self) {
        if self.forest.blocks() < self.peak / 4 {
            // Anchors are a cache: those that are needed come back.
            self.forest.shrink();
            self.anchors.reset();
            let places = self.seats.iter_mut().filter_map(|seat| seat.place.as_mut());
            places.for_each(|place| place.runs.unsettle());
            self.peak = self.forest.blocks();
        }
    }

    /// Keeps the whole index within its bound, by what was used before use number `used`.
    fn enforce_bound(&mut self, used: u64) {
        while self.forest.blocks() > self.max_blocks {
            let Some(id) = self.forest.oldest_end() else {
                return;
            };
            let run = &self.forest.runs[id];
            if run.recency.end >= used {
                self.forest.queue(id);
                return;
            }
            let floor = run.pinned().max(run.recency.head());
            let excess = self.forest.blocks() - self.max_blocks;
            let excess = u32::try_from(excess).unwrap_or(u32::MAX);
            let cut = excess.min(run.len() - floor).max(1);
            let span = (run.len() - cut, run.len());
            self.evicted += u64::from(cut);
            for slot in run.held.slots() {
                self.note_short(slot, id, span);
                self.ledger(slot).lose(id, span);
            }
            self.forest.settle(id);
        }
        self.rest();
    }
}

/// The slot that an id speaks of.
fn slot_in(place: PlaceId) -> u32 {
    place.0 & (MAX_PLACES as u32 - 1)
}

#[cfg(test)]
mod tests;
