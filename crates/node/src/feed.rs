//! What a scheduler hears of its engines and of what they share: the process's one feed, and this
//! scheduler's inbox.
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

use warmpath_core::event::Doubt;
use warmpath_core::scheduler::{FeedOptions, Scheduler};
use warmpath_core::{GroupId, Micros, WorkerId};
use warmpath_feed::{
    Contents, Delivery, Endpoint, EndpointError, Feed, Inbox, ObjectRules, Parcel, Pulled,
    StreamKey, StreamStatus, Subscription, Whose,
};

use crate::error::{Code, invalid, refused};
use crate::handle::Wake;
use crate::pool::Pools;

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

/// Reads an endpoint.
pub(crate) fn parsed(text: &str) -> Result<Endpoint, Code> {
    Endpoint::parse(text).map_err(|error| unusable(text, error))
}

fn feed() -> Result<&'static Feed, Code> {
    let feed = FEED.as_ref();
    feed.map_err(|error| invalid(format!("no thread for events: {error}")))
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
        let feed = feed()?;
        let added = core.add_feed(now, worker, events.options());
        added.map_err(|error| refused(&error))?;
        let inbox = self.inbox.get_or_insert_default();
        if events.is_pulled() {
            let key = StreamKey::Rank {
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
                key: StreamKey::Rank {
                    worker: worker.0,
                    rank,
                },
                contents: Contents::Blocks,
                events: events_at,
                replay,
                topic: events.topic.clone(),
                inbox: Arc::clone(inbox),
                wake: Box::new(move || wake_one(&wakes)),
            });
        }
        Ok(())
    }

    /// Listens to a store from now on.
    pub(crate) fn listen_to_pool(
        &mut self,
        pool: u32,
        events: Endpoint,
        rules: &ObjectRules,
    ) -> Result<(), Code> {
        let inbox = self.inbox.get_or_insert_default();
        let wakes = Arc::clone(&self.wakes);
        feed()?.subscribe(Subscription {
            key: StreamKey::Pool(pool),
            contents: Contents::Objects(rules.clone()),
            events,
            replay: None,
            topic: String::new(),
            inbox: Arc::clone(inbox),
            wake: Box::new(move || wake_one(&wakes)),
        });
        Ok(())
    }

    /// Listens no longer.
    pub(crate) fn deafen(&mut self, whose: Whose) {
        match whose {
            Whose::Worker(worker) => drop(self.pulled.remove(&worker)),
            Whose::All => self.pulled.clear(),
            Whose::Pool(_) => {}
        }
        if let (Some(inbox), Ok(feed)) = (&self.inbox, FEED.as_ref()) {
            feed.unsubscribe(inbox, whose);
        }
    }

    /// What a stream has told is void, by somebody else's word; what waits of it too.
    pub(crate) fn doubt(&self, key: StreamKey, doubt: Doubt) {
        if let Some(inbox) = &self.inbox {
            inbox.doubt(key, doubt);
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
    pub(crate) fn hear(
        &mut self,
        now: Micros,
        (core, pools): (&mut Scheduler, &Pools),
        weight: usize,
    ) {
        let Some(inbox) = &self.inbox else {
            return;
        };
        let is_more = inbox.take(weight, &mut self.deliveries);
        for delivery in self.deliveries.drain(..) {
            match delivery.key {
                StreamKey::Rank { worker, rank } => {
                    hear_engine(now, core, (WorkerId(worker), rank), &delivery.parcel);
                }
                StreamKey::Pool(number) => {
                    if let Some(group) = pools.group(number) {
                        hear_pool(now, core, group, &delivery.parcel);
                    }
                }
            }
        }
        if is_more {
            wake_one(&self.wakes);
        }
    }

    /// The streams of one worker.
    pub(crate) fn status(&self, of: WorkerId) -> Vec<(u32, StreamStatus)> {
        let all = self.inbox.iter().flat_map(|inbox| inbox.status());
        let own = all.filter_map(|(key, status)| match key {
            StreamKey::Rank { worker, rank } if worker == of.0 => Some((rank, status)),
            _ => None,
        });
        own.collect()
    }

    /// A store's stream, where somebody listens.
    pub(crate) fn pool_stream(&self, pool: u32) -> Option<StreamStatus> {
        let mut all = self.inbox.iter().flat_map(|inbox| inbox.status());
        let own = all.find(|(key, _)| *key == StreamKey::Pool(pool));
        own.map(|(_, status)| status)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.deafen(Whose::All);
    }
}

fn hear_engine(
    now: Micros,
    core: &mut Scheduler,
    (worker, rank): (WorkerId, u32),
    parcel: &Parcel,
) {
    match parcel {
        Parcel::Notice(notice) => core.feed_notice(now, worker, rank, *notice),
        Parcel::Events(slice) => slice.iter().for_each(|event| {
            core.apply_event(now, worker, rank, &event);
        }),
        // No engine tells of objects.
        Parcel::Objects(_) => {}
    }
}

fn hear_pool(now: Micros, core: &mut Scheduler, group: GroupId, parcel: &Parcel) {
    match parcel {
        Parcel::Notice(notice) => core.pool_notice(now, group, *notice),
        Parcel::Objects(changes) => changes.iter().for_each(|change| {
            core.apply_object(now, group, (change.page, &change.part), change.is_there);
        }),
        // No store tells of blocks.
        Parcel::Events(_) => {}
    }
}

/// Any thread will do. One that is going away cannot be woken, and then another call applies it.
fn wake_one(wakes: &Wakes) {
    if let Some(wake) = wakes.lock().values().next() {
        let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
