//! How do engines' events reach the index, and what is a worker's cache known by?
//!
//! The door for whoever carries events ([`crate::event`]): of a worker, a rank, a tier. Whatever may make
//! the index promise too much (a gap, a clear, a restart, a removal) takes effect in the call that tells
//! of it, so that no later decision counts on it. An event costs O(its blocks), and carriers keep these
//! bounded; a clear costs O(runs of the worker).
use std::num::NonZeroU32;

use crate::error::{Error, Result};
use crate::event::{CacheEvent, Cause, Doubt, FeedNotice};
use crate::id::{GroupId, Micros, WorkerId};
use crate::prefix::Tier;
use crate::receipt::{Evidence, Trust};

use super::agreement::Disagreement;
use super::feed::{ANY_RANK, Feed, MAX_RANKS};
use super::topology::Health;
use super::{Scheduler, Worker};

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
        let changed = self.listener().hear(id, rank, event);
        if *event == CacheEvent::Cleared && changed > 0 {
            self.cache_cleared(id);
        }
        changed
    }

    /// An engine has told that it is empty: its policy's account of the worker is void too, unless other
    /// ranks of it still have theirs.
    fn cache_cleared(&mut self, id: WorkerId) {
        if let Ok(worker) = self.topology.worker(id)
            && worker.feed.as_ref().is_some_and(|feed| feed.ranks() == 1)
        {
            self.admission[worker.group.index()].cache_lost(id);
        }
    }

    /// Whoever carries the worker's events says what may be missing from them.
    pub fn feed_notice(&mut self, now: Micros, id: WorkerId, rank: u32, notice: FeedNotice) {
        self.set_time(now);
        self.listener().notice(id, rank, notice);
    }

    /// The gateway has had the worker's cache emptied, and does not wait for the engine to say so. Turns that
    /// wait for it as their home are looked at with the next [`Scheduler::advance`], which is due at once.
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
        self.admission[worker.group.index()].cache_lost(id);
        self.looks.doubt(self.now, id);
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
