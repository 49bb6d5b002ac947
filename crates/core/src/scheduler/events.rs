//! How do engines' events reach the index, and what is a worker's cache known by?
//!
//! The door for whoever carries events ([`crate::event`]): of a worker, a rank, a tier. Whatever may make
//! the index promise too much (a gap, a clear, a restart, a removal) takes effect in the call that tells
//! of it, so that no later decision counts on it. An event costs O(its blocks), and carriers keep these
//! bounded; a clear costs O(runs of the worker).
use std::num::NonZeroU32;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::event::{CacheEvent, Cause, Doubt, FeedNotice};
use crate::id::{GroupId, Micros, PlaceId, WorkerId};
use crate::prefix::{self, Coverage, PlaceOptions, Tier};
use crate::receipt::{Evidence, Reported, Trust};

use super::agreement::{Disagreement, Report};
use super::feed::{ANY_RANK, Feed, MAX_RANKS, Source};
use super::reservation::Reservation;
use super::scoring::Form;
use super::topology::Health;
use super::{Scheduler, Worker};

/// How long a prompt that was sent counts as cached before the engine has said so: longer than prompts
/// take to be computed, short enough that one that never was does no harm.
const CONFIRMATION: Micros = Micros::from_secs(30);

/// Blocks that an engine must have had, or that it cannot have had, before a report of them means something.
const LEAST_BLOCKS: u32 = 2;

/// What is known beforehand of a worker's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOptions {
    /// Its data-parallel ranks, at most [`MAX_RANKS`].
    pub ranks: NonZeroU32,
}

impl Scheduler {
    /// The worker will be told of by events. To be called before its first turn: what the router
    /// itself had predicted of it is forgotten.
    ///
    /// # Errors
    /// `UNKNOWN_ID`; `DUPLICATE_ID` when it has a feed; `INVALID_ARGUMENT` for too many ranks.
    pub fn add_feed(&mut self, now: Micros, id: WorkerId, options: FeedOptions) -> Result<()> {
        self.set_time(now);
        let worker = self.topology.worker(id)?;
        if worker.health == Health::Removed {
            return Err(Error::unknown_id("the worker has been removed"));
        }
        if worker.feed.is_some() {
            return Err(Error::duplicate_id("the worker has a feed already"));
        }
        if options.ranks.get() > MAX_RANKS {
            let detail = format!("a worker has at most {MAX_RANKS} ranks");
            return Err(Error::invalid_argument(detail));
        }
        let (group, place) = (worker.group, worker.place);
        let terms = self.place_options(group, worker.capacity_tokens);
        let block_tokens = self.topology.groups[group.index()].block_tokens.get();
        let any = self.prefix.add_place(id, ANY_RANK, Tier::Device, terms)?;
        self.paths.leave_all(&mut self.prefix, place);
        self.prefix.remove_place(place);
        let feed = Feed::new(self.now, options.ranks.get(), block_tokens);
        if let Some(worker) = self.topology.worker_mut(id) {
            worker.place = any;
            worker.feed = Some(Box::new(feed));
        }
        Ok(())
    }

    /// The engine says that something has changed in its cache. Returns how many blocks that changed.
    /// Of a worker or rank without a feed it is counted in [`super::Status::stray_events`].
    pub fn apply_event(
        &mut self,
        now: Micros,
        id: WorkerId,
        rank: u32,
        event: &CacheEvent<'_>,
    ) -> usize {
        self.set_time(now);
        if self.feed_of(id, rank).is_none() {
            self.stray_events += 1;
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
                if let Ok(group) = self.topology.worker(id).map(|worker| worker.group) {
                    self.place_pages(group, blocks);
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

    /// Whoever carries the worker's events says what may be missing from them.
    pub fn feed_notice(&mut self, now: Micros, id: WorkerId, rank: u32, notice: FeedNotice) {
        self.set_time(now);
        let now = self.now;
        let noticed = self.feed_of(id, rank).map(|f| f.notice(now, rank, notice));
        if noticed == Some(true) {
            self.void(id, rank);
        }
    }

    /// The gateway has had the worker's cache emptied, and does not wait for the engine to say so.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more).
    pub fn reset_cache(&mut self, now: Micros, id: WorkerId) -> Result<()> {
        self.set_time(now);
        let worker = self.topology.worker(id)?;
        if worker.health == Health::Removed {
            return Err(Error::unknown_id("the worker has been removed"));
        }
        let ranks = worker.feed.as_ref().map_or(0, |feed| feed.ranks());
        self.prefix.clear(worker.place);
        for rank in 0..ranks {
            self.feed_notice(now, id, rank, FeedNotice::Lost(Doubt::Reset));
        }
        Ok(())
    }

    /// How good what is known of the worker's cache is, and why it is no better.
    #[must_use]
    pub fn evidence(&self, id: WorkerId) -> Option<Evidence> {
        self.topology.worker(id).ok().map(Worker::evidence)
    }

    /// Tokens that the engine says it has on its device, over all ranks, without prompts that were sent to
    /// it and that it has not told of; absent without a feed. O(prompts of the last half minute).
    #[must_use]
    pub fn engine_cached_tokens(&self, id: WorkerId) -> Option<u64> {
        let feed = self.topology.worker(id).ok()?.feed.as_ref()?;
        let places = (0..feed.ranks()).filter_map(|rank| feed.place(rank, Tier::Device));
        Some(places.map(|place| self.prefix.told_tokens(place)).sum())
    }

    /// How many tokens the engine's blocks have, by its own word; absent before it has stored any.
    #[must_use]
    pub fn engine_block_tokens(&self, id: WorkerId) -> Option<u32> {
        let feed = self.topology.worker(id).ok()?.feed.as_ref()?;
        feed.agreement.engine_block_tokens()
    }

    /// How many tokens the blocks of the worker's group have, as its prompts are cut.
    #[must_use]
    pub fn block_tokens(&self, id: WorkerId) -> Option<NonZeroU32> {
        let group = self.topology.worker(id).ok()?.group;
        Some(self.topology.groups.get(group.index())?.block_tokens)
    }

    /// Takes the places of a worker that has been removed off the index.
    pub(super) fn drop_feed(&mut self, id: WorkerId) {
        let feed = self.topology.worker_mut(id).and_then(|w| w.feed.take());
        for place in feed.iter().flat_map(|feed| feed.places()) {
            self.prefix.remove_place(place);
        }
    }

    /// Where the group's prompts and its engines' events differ, if they do: tokens of one engine are
    /// those of all, and a block size is everybody's only if each engine has it. O(workers of the group).
    #[must_use]
    pub fn disagreement(&self, group: GroupId) -> Option<(WorkerId, Disagreement)> {
        let workers = &self.topology.groups.get(group.index())?.workers;
        let feeds = workers.iter().filter_map(|&id| {
            let worker = self.topology.present(id).ok()?;
            Some((id, worker.feed.as_ref()?.agreement.found()))
        });
        let mut of_size = None;
        let mut is_everybodys = true;
        for (id, found) in feeds {
            match found {
                Some(found) if found.cause != Cause::BlockSize => return Some((id, found)),
                Some(found) => of_size = of_size.or(Some((id, found))),
                None => is_everybodys = false,
            }
        }
        of_size.filter(|_| is_everybodys)
    }

    /// Where the worker's prompts and events differ, if they do.
    #[must_use]
    pub fn disagreement_of(&self, id: WorkerId) -> Option<Disagreement> {
        let worker = self.topology.worker(id).ok()?;
        worker.feed.as_ref()?.agreement.found()
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
        let begun = self
            .block_tokens(id)
            .map_or(0, |unit| turn.exact_tokens() / unit);
        let is_told = turn.form == Form::Tokens || begun >= LEAST_BLOCKS;
        let Some(believed) = turn.believed.filter(|_| is_told) else {
            return;
        };
        if believed.pool > 0 {
            self.compare_with_pool(turn.route.group, believed, reported);
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
            self.stray_events += 1;
        }
        let place = made?;
        self.feed_of(id, rank)?.set_place(rank, tier, place);
        Some(place)
    }
}

impl Worker {
    /// How good what is known of its cache is.
    pub(super) fn evidence(&self) -> Evidence {
        match &self.feed {
            Some(feed) => feed.evidence(),
            None => Evidence {
                trust: Trust::Predicted,
                doubt: None,
                cause: None,
                since: self.since,
            },
        }
    }
}
