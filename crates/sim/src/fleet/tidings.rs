//! What a router hears of caches: late, or not at all, as the configuration says.
//!
//! An engine names blocks by their chain hashes; a router is also told what each block holds. So this
//! room remembers which turn each request is, from its arrival at an engine until that engine has let
//! it go, and translates before a message leaves. A message is what one engine changed in one pass; it has
//! a number, and the engine keeps its last ones to tell them again. It also knows what is still on the
//! way or lost, which a router cannot.
use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashMap;

use super::config::{Feed, Recovery};
use super::content::{Content, TurnKey};
use super::report::Events;
use crate::event::{EventKind, Nanos};
use crate::random::Random;
use crate::router::{CacheChange, CacheMessage};

/// Messages that an engine keeps, as the published engines do.
const MOST_KEPT: usize = 10_000;

/// One life of a worker: what an earlier one has sent is not heard any more.
pub(crate) type Life = u32;

/// A message, or several, on the way to the router.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) worker: u32,
    pub(crate) life: Life,
    pub(crate) messages: Vec<Rc<CacheMessage>>,
    /// Whether they were asked for.
    pub(crate) is_replay: bool,
}

/// What an engine publishes.
#[derive(Debug, Default)]
struct Publisher {
    life: Life,
    next: u64,
    /// The last messages, lost ones too; empty where nobody can ask for them.
    kept: VecDeque<Rc<CacheMessage>>,
    /// Messages that are under way.
    in_flight: u64,
    /// The last message that was lost, while none behind it has arrived.
    silent_loss: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Tidings {
    feed: Feed,
    turns: HashMap<u64, TurnKey>,
    publishers: Vec<Publisher>,
    losses: Random,
    counts: Events,
}

impl Tidings {
    pub(crate) fn new(feed: Feed, workers: u32, seed: u64) -> Self {
        let publishers = match feed {
            Feed::None => 0,
            Feed::Events { .. } => workers,
        };
        Self {
            feed,
            turns: HashMap::new(),
            publishers: (0..publishers).map(|_| Publisher::default()).collect(),
            losses: Random::fork(seed, 4),
            counts: Events::default(),
        }
    }

    fn is_on(&self) -> bool {
        matches!(self.feed, Feed::Events { .. })
    }

    /// An engine has got this request.
    pub(crate) fn sent(&mut self, id: u64, key: TurnKey) {
        if self.is_on() {
            self.turns.insert(id, key);
        }
    }

    /// An engine has let this request go.
    pub(crate) fn left(&mut self, id: u64) {
        if self.is_on() {
            self.turns.remove(&id);
        }
    }

    /// The worker is gone, with all that it had to tell.
    pub(crate) fn died(&mut self, worker: u32) {
        if let Some(publisher) = self.publishers.get_mut(worker as usize) {
            *publisher = Publisher {
                life: publisher.life + 1,
                ..Publisher::default()
            };
        }
    }

    /// Translates a change; `None` for what is no change of a cache.
    pub(crate) fn read(&self, kind: EventKind, content: &mut Content<'_>) -> Option<CacheChange> {
        match kind {
            EventKind::Stored {
                id,
                index,
                parent,
                hashes,
            } => {
                let (ids, _) = content.blocks(*self.turns.get(&id)?);
                let from = index as usize;
                let blocks = ids.get(from..from + hashes.len())?.to_vec();
                Some(CacheChange::Stored {
                    parent,
                    names: hashes,
                    blocks,
                })
            }
            EventKind::Removed { hashes } => Some(CacheChange::Removed { names: hashes }),
            _ => None,
        }
    }

    /// A message leaves now; when it arrives, unless it is lost.
    pub(crate) fn publish(
        &mut self,
        now: Nanos,
        worker: u32,
        changes: Vec<CacheChange>,
    ) -> Option<(Nanos, Parcel)> {
        let Feed::Events {
            lag,
            loss,
            recovery,
        } = self.feed
        else {
            return None;
        };
        let publisher = self.publishers.get_mut(worker as usize)?;
        let sequence = publisher.next;
        publisher.next += 1;
        self.counts.messages += 1;
        let message = Rc::new(CacheMessage { sequence, changes });
        if loss > 0.0 {
            if recovery == Recovery::Replay {
                publisher.kept.push_back(Rc::clone(&message));
                let surplus = publisher.kept.len().saturating_sub(MOST_KEPT);
                publisher.kept.drain(..surplus);
            }
            if self.losses.unit() < loss {
                self.counts.lost += 1;
                publisher.silent_loss = Some(sequence);
                return None;
            }
        }
        publisher.in_flight += 1;
        let parcel = Parcel {
            worker,
            life: publisher.life,
            messages: vec![message],
            is_replay: false,
        };
        Some((now.saturating_add(lag), parcel))
    }

    /// The router has asked for everything from a number on: when its question arrives.
    pub(crate) fn asked(&mut self, now: Nanos, worker: u32) -> Option<(Nanos, Life)> {
        self.counts.replays += 1;
        let Feed::Events { lag, .. } = self.feed else {
            return None;
        };
        let publisher = self.publishers.get(worker as usize)?;
        Some((now.saturating_add(lag), publisher.life))
    }

    /// The question has arrived: the answer, and when that arrives.
    pub(crate) fn tell_again(
        &self,
        now: Nanos,
        (worker, life): (u32, Life),
        from: u64,
    ) -> Option<(Nanos, Parcel)> {
        let Feed::Events { lag, .. } = self.feed else {
            return None;
        };
        let publisher = self.publishers.get(worker as usize)?;
        if publisher.life != life {
            return None;
        }
        let messages = publisher.kept.iter().filter(|one| one.sequence >= from);
        let parcel = Parcel {
            worker,
            life,
            messages: messages.cloned().collect(),
            is_replay: true,
        };
        Some((now.saturating_add(lag), parcel))
    }

    /// A parcel has arrived. False when it comes from a life that is over.
    pub(crate) fn arrived(&mut self, parcel: &Parcel) -> bool {
        let publisher = self.publishers.get_mut(parcel.worker as usize);
        let Some(publisher) = publisher.filter(|one| one.life == parcel.life) else {
            return false;
        };
        if !parcel.is_replay {
            publisher.in_flight -= 1;
        }
        let last = parcel.messages.last().map(|message| message.sequence);
        publisher.silent_loss = publisher.silent_loss.filter(|&lost| last < Some(lost));
        true
    }

    /// Whether the engine has published something that the router neither has nor knows to be missing.
    pub(crate) fn is_behind(&self, worker: u32) -> bool {
        let publisher = self.publishers.get(worker as usize);
        publisher.is_some_and(|one| one.in_flight > 0 || one.silent_loss.is_some())
    }

    /// What was published, if anything is.
    pub(crate) fn counts(&self) -> Option<Events> {
        self.is_on().then_some(self.counts)
    }
}
