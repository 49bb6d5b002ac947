//! What is waiting to be applied?
//!
//! One queue a stream, each bounded, so that a publisher that floods loses its own and nobody else's.
//! What voids a stream overtakes what is waiting of it, since that is void too; what only casts doubt on
//! it overtakes and leaves it. Whoever owns the index takes a slice of bounded weight, in turn from all
//! streams, and applies it outside of the lock.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use warmpath_core::event::{CacheEvent, Doubt, FeedNotice};
use warmpath_wire::Events;

use crate::objects::ObjectChange;
use crate::reader::Load;
use crate::status::StreamStatus;
use crate::thread::StreamKey;

/// The most that may wait of one stream: an event weighs one more than its blocks.
pub const MAX_PENDING: usize = 1 << 17;
/// The most that one parcel weighs, unless a single event weighs more.
const PARCEL: usize = 2_048;

/// Something of a stream.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Whose.
    pub key: StreamKey,
    /// What.
    pub parcel: Parcel,
}

/// What comes out of an inbox.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// Something about the stream itself.
    Notice(FeedNotice),
    /// Some events of one message.
    Events(Slice),
    /// Some objects of one message, in order.
    Objects(Vec<ObjectChange>),
}

/// Some events of one message.
#[derive(Clone, Debug)]
pub struct Slice {
    events: Arc<Events>,
    from: usize,
    to: usize,
    weight: usize,
}

impl Slice {
    /// The events, in order.
    pub fn iter(&self) -> impl Iterator<Item = CacheEvent<'_>> {
        self.events.iter().skip(self.from).take(self.to - self.from)
    }
}

#[derive(Debug, Default)]
struct Queue {
    urgent: Option<FeedNotice>,
    parcels: VecDeque<Parcel>,
    pending: usize,
    status: StreamStatus,
}

/// What is waiting, by stream.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<StreamKey, Queue>,
    /// Whose turn it is.
    turn: Option<StreamKey>,
}

impl Inbox {
    /// An empty inbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out parcels of about `weight` (never more than one parcel above it), and all that says
    /// that something known is void or in doubt. Returns whether something is left.
    pub fn take(&self, weight: usize, out: &mut Vec<Delivery>) -> bool {
        self.state.lock().take(weight, out)
    }

    /// Each stream as it is.
    #[must_use]
    pub fn status(&self) -> Vec<(StreamKey, StreamStatus)> {
        let state = self.state.lock();
        let all = state.queues.iter().map(|(&key, queue)| {
            let pending = queue.pending;
            let status = queue.status.clone();
            (key, StreamStatus { pending, ..status })
        });
        all.collect()
    }

    pub(crate) fn open(&self, key: StreamKey) {
        self.state.lock().queues.entry(key).or_default();
    }

    pub(crate) fn close(&self, key: StreamKey) {
        self.state.lock().queues.remove(&key);
    }

    /// Whether half of what may wait is free again.
    pub(crate) fn has_room(&self, key: StreamKey) -> bool {
        let state = self.state.lock();
        let queue = state.queues.get(&key);
        queue.is_none_or(|queue| queue.pending <= MAX_PENDING / 2)
    }

    /// Changes what is known of a stream.
    pub(crate) fn note(&self, key: StreamKey, change: impl FnOnce(&mut StreamStatus)) {
        if let Some(queue) = self.state.lock().queues.get_mut(&key) {
            change(&mut queue.status);
        }
    }

    pub(crate) fn notice(&self, key: StreamKey, notice: FeedNotice) {
        if let Some(queue) = self.state.lock().queues.get_mut(&key) {
            queue.notice(notice);
        }
    }

    /// Somebody else than the publisher has found out that what was told is not so: it is void, and what
    /// waits of it too.
    pub fn doubt(&self, key: StreamKey, doubt: Doubt) {
        self.notice(key, FeedNotice::Lost(doubt));
    }

    /// Puts what a message says in; false when there is no room for it, and nothing has changed.
    pub(crate) fn push(&self, key: StreamKey, load: Load) -> bool {
        match (self.state.lock().queues.get_mut(&key), load) {
            (Some(queue), Load::Blocks(events)) => queue.push(events),
            (Some(queue), Load::Objects(changes)) => queue.push_objects(changes),
            (None, _) => true,
        }
    }
}

impl State {
    fn take(&mut self, weight: usize, out: &mut Vec<Delivery>) -> bool {
        for (&key, queue) in &mut self.queues {
            // What voids a stream has nothing before it. A doubt is younger, and came while it waited.
            while let Some(Parcel::Notice(_)) = queue.parcels.front() {
                let parcel = queue.pop();
                out.extend(parcel.map(|parcel| Delivery { key, parcel }));
            }
            let urgent = queue.urgent.take().map(Parcel::Notice);
            out.extend(urgent.map(|parcel| Delivery { key, parcel }));
        }
        let mut left = weight;
        while left > 0 {
            let Some(key) = self.next() else {
                return false;
            };
            let Some(queue) = self.queues.get_mut(&key) else {
                return false;
            };
            let taken = queue.pop();
            let spent = taken.as_ref().map_or(0, Parcel::weight);
            left = left.saturating_sub(spent.max(1));
            out.extend(taken.map(|parcel| Delivery { key, parcel }));
            self.turn = Some(key);
        }
        self.queues.values().any(|queue| !queue.parcels.is_empty())
    }

    /// The next stream after the last one that has something.
    fn next(&self) -> Option<StreamKey> {
        use std::ops::Bound::{Excluded, Unbounded};
        let waiting =
            |(&key, queue): (&StreamKey, &Queue)| (!queue.parcels.is_empty()).then_some(key);
        let behind = self.turn.and_then(|turn| {
            let mut behind = self.queues.range((Excluded(turn), Unbounded));
            behind.find_map(waiting)
        });
        behind.or_else(|| self.queues.iter().find_map(waiting))
    }
}

impl Queue {
    fn notice(&mut self, notice: FeedNotice) {
        match notice {
            FeedNotice::Begun | FeedNotice::Lost(_) => {
                self.parcels.clear();
                self.pending = 0;
                self.urgent = None;
                self.parcels.push_back(Parcel::Notice(notice));
            }
            FeedNotice::Suspended(_) => {
                // A resumption that still waits was of an earlier doubt.
                let is_stale =
                    |parcel: &Parcel| matches!(parcel, Parcel::Notice(FeedNotice::Resumed));
                self.parcels.retain(|parcel| !is_stale(parcel));
                self.urgent = Some(notice);
            }
            FeedNotice::Resumed => self.parcels.push_back(Parcel::Notice(notice)),
        }
    }

    fn push(&mut self, events: Events) -> bool {
        let weight = events.blocks() + events.len();
        if events.iter().any(|event| event == CacheEvent::Cleared) {
            // Whatever was before is void when this is applied.
            self.parcels
                .retain(|parcel| matches!(parcel, Parcel::Notice(_)));
            self.pending = 0;
        }
        if self.pending > 0 && self.pending + weight > MAX_PENDING {
            return false;
        }
        self.pending += weight;
        let events = Arc::new(events);
        let (mut from, mut gathered) = (0, 0);
        for (index, event) in events.iter().enumerate() {
            gathered += event.blocks() + 1;
            if gathered >= PARCEL || index + 1 == events.len() {
                self.parcels.push_back(Parcel::Events(Slice {
                    events: Arc::clone(&events),
                    from,
                    to: index + 1,
                    weight: gathered,
                }));
                (from, gathered) = (index + 1, 0);
            }
        }
        true
    }

    fn push_objects(&mut self, mut changes: Vec<ObjectChange>) -> bool {
        if self.pending > 0 && self.pending + changes.len() > MAX_PENDING {
            return false;
        }
        self.pending += changes.len();
        while changes.len() > PARCEL {
            let rest = changes.split_off(PARCEL);
            self.parcels.push_back(Parcel::Objects(changes));
            changes = rest;
        }
        self.parcels.push_back(Parcel::Objects(changes));
        true
    }

    fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.parcels.pop_front()?;
        if !matches!(parcel, Parcel::Notice(_)) {
            self.pending = self.pending.saturating_sub(parcel.weight());
        }
        Some(parcel)
    }
}

impl Parcel {
    fn weight(&self) -> usize {
        match self {
            Self::Notice(_) => 1,
            Self::Events(slice) => slice.weight,
            Self::Objects(changes) => changes.len(),
        }
    }
}
