//! What an engine's event does to the index and to what is known of its worker.
//!
//! A [`Listener`] borrows the rooms that events reach, and knows nothing of turns that wait or run. What
//! it is told comes through the door in [`super::events`] and [`super::pools`]; at the end of a turn it
//! holds the engine's report against what had been told.
use smallvec::SmallVec;

use crate::event::{CacheEvent, FeedNotice};
use crate::id::{Micros, PlaceId, WorkerId};
use crate::prefix::{self, Coverage, PlaceOptions, PrefixIndex, Tier};
use crate::receipt::Reported;

use super::Scheduler;
use super::agreement::Report;
use super::feed::{Feed, Source};
use super::homes::Looks;
use super::reservation::Reservation;
use super::scoring::Form;
use super::topology::Topology;

/// How long a prompt that was sent counts as cached before the engine has said so: longer than prompts
/// take to be computed, short enough that one that never was does no harm.
const CONFIRMATION: Micros = Micros::from_secs(30);

/// Blocks that an engine must have had, or that it cannot have had, before a report of them means something.
const LEAST_BLOCKS: u32 = 2;

/// The parts of a scheduler that engines' events reach.
pub(super) struct Listener<'a> {
    now: Micros,
    topology: &'a mut Topology,
    prefix: &'a mut PrefixIndex,
    looks: &'a mut Looks,
    /// Events of nobody known.
    stray_events: &'a mut u64,
}

impl Scheduler {
    /// The parts that engines' events reach.
    pub(super) fn listener(&mut self) -> Listener<'_> {
        Listener {
            now: self.now,
            topology: &mut self.topology,
            prefix: &mut self.prefix,
            looks: &mut self.looks,
            stray_events: &mut self.stray_events,
        }
    }
}

impl Listener<'_> {
    /// The engine says that something has changed in its cache. Returns how many blocks that changed.
    pub(super) fn hear(&mut self, id: WorkerId, rank: u32, event: &CacheEvent<'_>) -> usize {
        if self.feed_of(id, rank).is_none() {
            *self.stray_events += 1;
            return 0;
        }
        let changed = self.apply(id, rank, event);
        self.note_evicted();
        changed
    }

    fn apply(&mut self, id: WorkerId, rank: u32, event: &CacheEvent<'_>) -> usize {
        match event {
            CacheEvent::Stored { tier, blocks } => {
                let now = self.now;
                if let Some(feed) = self.feed_of(id, rank) {
                    feed.agreement.stored(now, blocks.block_tokens);
                }
                let place = self.event_place(id, rank, *tier);
                let stored = place.map_or(0, |place| self.prefix.store(place, blocks));
                self.look_for_due(id);
                let group = self.topology.worker(id).map(|worker| worker.group);
                let group = group.map(|group| &mut self.topology.groups[group.index()]);
                if let Ok(Some(shared)) = group.map(|group| group.pool.as_mut()) {
                    shared.place_pages(self.prefix, blocks);
                }
                stored
            }
            CacheEvent::Copied { tier, names } => {
                let place = self.event_place(id, rank, *tier);
                place.map_or(0, |place| self.prefix.store_known(place, names))
            }
            CacheEvent::Removed { tier, names } => {
                if let Some(feed) = self.feed_of(id, rank) {
                    feed.lost();
                }
                let place = self.event_place(id, rank, *tier);
                place.map_or(0, |place| self.prefix.remove(place, names))
            }
            CacheEvent::Cleared => {
                let now = self.now;
                self.void(id, rank);
                if let Some(feed) = self.feed_of(id, rank) {
                    feed.cleared(now, rank);
                }
                1
            }
        }
    }

    /// Something may be missing from the rank's events.
    pub(super) fn notice(&mut self, id: WorkerId, rank: u32, notice: FeedNotice) {
        let now = self.now;
        let Some(feed) = self.feed_of(id, rank) else {
            return;
        };
        let is_void = feed.notice(now, rank, notice);
        if feed.is_suspended() {
            self.looks.doubt(now, id);
        }
        if is_void {
            self.void(id, rank);
        }
    }

    /// Holds the report of a turn's end against what the engine's events had said of its prompt.
    pub(super) fn compare_with_events(
        &mut self,
        turn: &Reservation,
        id: WorkerId,
        reported: &Reported,
    ) {
        let now = self.now;
        // Of a text, what is known must be enough to be missed.
        let group = self.topology.worker(id).map(|worker| worker.group);
        let begun = group.map_or(0, |group| {
            turn.exact_tokens() / self.topology.groups[group.index()].block_tokens
        });
        let is_told = turn.form == Form::Tokens || begun >= LEAST_BLOCKS;
        let Some(believed) = turn.believed.filter(|_| is_told) else {
            return;
        };
        if believed.pool > 0 {
            let shared = &mut self.topology.groups[turn.route.group.index()].pool;
            if let (Some(shared), Some(cached)) = (shared, reported.cached_tokens) {
                shared.compare(believed, cached);
            }
        }
        let feed = self.topology.worker_mut(id).and_then(|w| w.feed.as_mut());
        if let Some(feed) = feed.filter(|feed| feed.source() == Source::Engine) {
            let report = Report {
                prompt: turn.counted_tokens,
                reported_prompt: reported.prompt_tokens,
                cached: believed.tokens,
                // Whether the store kept its word says nothing of the engine's.
                reported_cached: reported.cached_tokens.filter(|_| believed.pool == 0),
                offers_tools: turn.offers_tools,
                is_salted: turn.is_salted,
            };
            feed.agreement.compare(now, &report);
            let is_new = report.reported_cached == Some(0) && report.prompt.is_some();
            if is_new && !turn.chain.is_empty() {
                let first = || turn.chain.beginning(1);
                feed.agreement.expect(now, &report, first);
            }
        }
    }

    /// Looks for blocks that the engine must have told of by now among those that it has. O(1) unless
    /// some are due, then O(ranks).
    fn look_for_due(&mut self, id: WorkerId) {
        let now = self.now;
        let Some(feed) = self.topology.worker_mut(id).and_then(|w| w.feed.as_mut()) else {
            return;
        };
        let places: SmallVec<[PlaceId; 4]> = feed.places().collect();
        feed.agreement.look(now, |first| {
            places.iter().any(|&place| {
                let mut coverage = Coverage::new();
                self.prefix.coverage(place, first, &mut coverage);
                coverage.trust() == Some(prefix::Trust::Exact)
            })
        });
    }

    /// Whoever's blocks the index had no room for is not known exactly any more. O(1) when there is nobody.
    pub(super) fn note_evicted(&mut self) {
        while let Some((id, rank)) = self.prefix.take_short() {
            let now = self.now;
            if let Some(feed) = self.feed_of(id, rank) {
                feed.evicted(now, rank);
            }
        }
    }

    /// Nothing is known of the rank's cache any more, nor of what the router had sent to the worker.
    fn void(&mut self, id: WorkerId, rank: u32) {
        let Ok(worker) = self.topology.worker(id) else {
            return;
        };
        let feed = worker.feed.iter().flat_map(|feed| feed.places_of(rank));
        for place in feed.chain([worker.place]) {
            self.prefix.clear(place);
        }
        self.looks.doubt(self.now, id);
    }

    fn feed_of(&mut self, id: WorkerId, rank: u32) -> Option<&mut Feed> {
        let feed = self.topology.worker_mut(id)?.feed.as_mut()?;
        feed.has_rank(rank).then_some(feed)
    }

    /// The place of a rank's tier, made when its first event comes.
    fn event_place(&mut self, id: WorkerId, rank: u32, tier: Tier) -> Option<PlaceId> {
        let worker = self.topology.worker(id).ok()?;
        let known = worker.feed.as_ref()?.place(rank, tier);
        if known.is_some() {
            return known;
        }
        let options = PlaceOptions {
            capacity_tokens: None,
            ttl: Some(CONFIRMATION),
            is_told: true,
            block_tokens: Some(
                self.topology.groups[worker.group.index()]
                    .block_tokens
                    .get(),
            ),
            ..PlaceOptions::default()
        };
        let made = self.prefix.add_place(id, rank, tier, options).ok();
        if made.is_none() {
            *self.stray_events += 1;
        }
        let place = made?;
        self.feed_of(id, rank)?.set_place(rank, tier, place);
        Some(place)
    }
}
