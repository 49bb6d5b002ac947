//! What a scheduler hears of its engines: the process's one feed, and this scheduler's inbox.
//!
//! The feed's thread never waits for a scheduler's lock; it wakes one of the scheduler's threads, and
//! whoever calls into the scheduler applies a slice of what is waiting first.
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use napi::bindgen_prelude::Result;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use parking_lot::Mutex;
use serde::Deserialize;

use warmpath_core::scheduler::{FeedOptions, Scheduler};
use warmpath_core::{Micros, WorkerId};
use warmpath_feed::{
    Delivery, Endpoint, EndpointError, Feed, Inbox, Parcel, StreamKey, StreamStatus, Subscription,
};

use crate::error::{Code, invalid, refused};
use crate::handle::Wake;

/// What a decision applies first: tens of microseconds.
pub(crate) const TURN_SLICE: usize = 512;
/// What a call applies that nobody waits for: about a millisecond.
pub(crate) const IDLE_SLICE: usize = 8_192;

/// Where a worker's events are.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KvEvents {
    endpoint: String,
    replay: Option<String>,
    #[serde(default)]
    topic: String,
    ranks: Option<NonZeroU32>,
}

/// The threads that can be woken to apply what is waiting.
pub(crate) type Wakes = Arc<Mutex<BTreeMap<u32, Arc<Wake>>>>;

/// One scheduler's side of the feed.
#[derive(Default)]
pub(crate) struct Ear {
    inbox: Option<Arc<Inbox>>,
    pub(crate) wakes: Wakes,
    deliveries: Vec<Delivery>,
}

static FEED: LazyLock<std::io::Result<Feed>> = LazyLock::new(Feed::start);

impl KvEvents {
    pub(crate) fn options(&self) -> FeedOptions {
        FeedOptions {
            ranks: self.ranks.unwrap_or(NonZeroU32::MIN),
        }
    }

    /// Where the publisher and the replay socket of each rank are.
    pub(crate) fn endpoints(&self) -> Result<Vec<(Endpoint, Option<Endpoint>)>, Code> {
        let parsed = |text: &str| Endpoint::parse(text).map_err(|error| unusable(text, error));
        let events = parsed(&self.endpoint)?;
        let replay = self.replay.as_deref().map(parsed).transpose()?;
        let of_rank = |endpoint: &Endpoint, rank| {
            let own = endpoint.of_rank(rank);
            own.map_err(|error| unusable(&endpoint.to_string(), error))
        };
        (0..self.options().ranks.get())
            .map(|rank| {
                let replay = replay.as_ref().map(|replay| of_rank(replay, rank));
                Ok((of_rank(&events, rank)?, replay.transpose()?))
            })
            .collect()
    }
}

fn unusable(text: &str, error: EndpointError) -> napi::Error<Code> {
    invalid(format!("the endpoint {text} {error}"))
}

impl Ear {
    /// Listens to a worker's engine from now on.
    pub(crate) fn listen(
        &mut self,
        now: Micros,
        core: &mut Scheduler,
        worker: WorkerId,
        events: &KvEvents,
    ) -> Result<(), Code> {
        let endpoints = events.endpoints()?;
        let feed = FEED.as_ref();
        let feed = feed.map_err(|error| invalid(format!("no thread for events: {error}")))?;
        let added = core.add_feed(now, worker, events.options());
        added.map_err(|error| refused(&error))?;
        let inbox = self.inbox.get_or_insert_default();
        for (rank, (events_at, replay)) in (0..).zip(endpoints) {
            let wakes = Arc::clone(&self.wakes);
            feed.subscribe(Subscription {
                key: StreamKey {
                    worker: worker.0,
                    rank,
                },
                events: events_at,
                replay,
                topic: events.topic.clone(),
                inbox: Arc::clone(inbox),
                wake: Box::new(move || wake_one(&wakes)),
            });
        }
        Ok(())
    }

    /// Listens no longer: to one worker, or to all.
    pub(crate) fn deafen(&self, worker: Option<u32>) {
        if let (Some(inbox), Ok(feed)) = (&self.inbox, FEED.as_ref()) {
            feed.unsubscribe(inbox, worker);
        }
    }

    /// Applies what is waiting, up to about `weight`; when there is more, a thread is woken for it.
    pub(crate) fn hear(&mut self, now: Micros, core: &mut Scheduler, weight: usize) {
        let Some(inbox) = &self.inbox else {
            return;
        };
        let is_more = inbox.take(weight, &mut self.deliveries);
        for delivery in self.deliveries.drain(..) {
            let (worker, rank) = (WorkerId(delivery.key.worker), delivery.key.rank);
            match &delivery.parcel {
                Parcel::Notice(notice) => core.feed_notice(now, worker, rank, *notice),
                Parcel::Events(slice) => slice.iter().for_each(|event| {
                    core.apply_event(now, worker, rank, &event);
                }),
            }
        }
        if is_more {
            wake_one(&self.wakes);
        }
    }

    /// The streams of one worker.
    pub(crate) fn status(&self, worker: WorkerId) -> Vec<(u32, StreamStatus)> {
        let all = self.inbox.iter().flat_map(|inbox| inbox.status());
        let own = all.filter(|(key, _)| key.worker == worker.0);
        own.map(|(key, status)| (key.rank, status)).collect()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.deafen(None);
    }
}

/// Any thread will do. One that is going away cannot be woken, and then another call applies it.
fn wake_one(wakes: &Wakes) {
    if let Some(wake) = wakes.lock().values().next() {
        let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
