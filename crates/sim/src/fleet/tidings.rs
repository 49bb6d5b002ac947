//! What a router hears of caches: late, or not at all, as the configuration says.
//!
//! An engine names blocks by their chain hashes; a router is also told what each block holds. So this
//! room remembers which turn each request is, from its arrival at an engine until that engine has let
//! it go, and translates before a message leaves. A message is what one engine changed in one pass.
use hashbrown::HashMap;

use super::config::Feed;
use super::content::{Content, TurnKey};
use crate::event::{EventKind, Nanos};
use crate::random::Random;
use crate::router::CacheChange;

/// A change on its way to the router.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Stored {
        parent: Option<u64>,
        names: Vec<u64>,
        blocks: Vec<u64>,
    },
    Removed {
        names: Vec<u64>,
    },
}

impl News {
    pub(crate) fn change(&self) -> CacheChange<'_> {
        match self {
            Self::Stored {
                parent,
                names,
                blocks,
            } => CacheChange::Stored {
                parent: *parent,
                names,
                blocks,
            },
            Self::Removed { names } => CacheChange::Removed { names },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tidings {
    feed: Feed,
    turns: HashMap<u64, TurnKey>,
    messages: Random,
}

impl Tidings {
    pub(crate) fn new(feed: Feed, seed: u64) -> Self {
        Self {
            feed,
            turns: HashMap::new(),
            messages: Random::fork(seed, 4),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
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

    /// Translates a change; `None` for what is no change of a cache.
    pub(crate) fn read(&self, kind: EventKind, content: &mut Content<'_>) -> Option<News> {
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
                Some(News::Stored {
                    parent,
                    names: hashes,
                    blocks,
                })
            }
            EventKind::Removed { hashes } => Some(News::Removed { names: hashes }),
            _ => None,
        }
    }

    /// When the next message arrives that leaves now; `None` when it is lost.
    pub(crate) fn arrival(&mut self, now: Nanos) -> Option<Nanos> {
        let Feed::Events { lag, loss } = self.feed else {
            return None;
        };
        let is_lost = loss > 0.0 && self.messages.unit() < loss;
        (!is_lost).then(|| now.saturating_add(lag))
    }
}
