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
    Delivery, Endpoint, EndpointError, Feed, Inbox, Parcel, Pulled, StreamKey, StreamStatus,
    Subscription,
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
    /// Workers whose events are asked for, by number.
    pulled: BTreeMap<u32, Pulled>,
    deliveries: Vec<Delivery>,
}

static FEED: LazyLock<std::io::Result<Feed>> = LazyLock::new(Feed::start);

impl KvEvents {
    pub(crate) fn options(&self) -> FeedOptions {
        FeedOptions {
            ranks: self.ranks.unwrap_or(NonZeroU32::MIN),
        }
    }

    /// Whether somebody else asks for them, over HTTP.
    fn is_pulled(&self) -> bool {
        self.endpoint.starts_with("http://") || self.endpoint.starts_with("https://")
    }

    /// Where the publisher and the replay socket of each rank are; none for events that are asked for.
    pub(crate) fn endpoints(&self) -> Result<Vec<(Endpoint, Option<Endpoint>)>, Code> {
        if self.is_pulled() {
            return Ok(Vec::new());
        }
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
        if events.is_pulled() {
            let key = StreamKey {
                worker: worker.0,
                rank: 0,
            };
            let size = core.block_tokens(worker).unwrap_or(NonZeroU32::MIN);
            let pulled = Pulled::new(key, Arc::clone(inbox), size);
            self.pulled.insert(worker.0, pulled);
        }
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
    pub(crate) fn deafen(&mut self, worker: Option<u32>) {
        match worker {
            Some(worker) => drop(self.pulled.remove(&worker)),
            None => self.pulled.clear(),
        }
        if let (Some(inbox), Ok(feed)) = (&self.inbox, FEED.as_ref()) {
            feed.unsubscribe(inbox, worker);
        }
    }

    /// A worker whose events are asked for has answered, or could not be asked. Returns how many events
    /// of use that has brought; nothing for a worker that is not asked.
    pub(crate) fn pulled(
        &mut self,
        worker: u32,
        answer: std::result::Result<&[u8], &str>,
    ) -> Option<usize> {
        let pulled = self.pulled.get_mut(&worker)?;
        Some(match answer {
            Ok(text) => pulled.answered(text),
            Err(why) => {
                pulled.failed(why);
                0
            }
        })
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
