//! Which tokens of which sessions are in the cache of an `h100-class` engine?
//!
//! One prefix for each session: as many tokens of its latest prompt and answer as are still there.
//! A running request's tokens stay; of idle sessions the first in the order of eviction loses tokens
//! from its tail. What is not modelled: sessions share nothing, and what a prompt no longer contains
//! is gone with the start of the turn that left it out. A second turn of a session at the same time
//! gets a prefix of its own, which nobody can use later.
//! O(log sessions) for each start, end and eviction of a session.
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::config::Eviction;
use crate::event::Nanos;

/// Orders idle sessions: when they are evicted, then who became idle first.
type Rank = (Nanos, u64);

#[derive(Debug)]
struct Context {
    tokens: u32,
    /// The turn whose prompt and answer they are.
    turn: u32,
    /// Where it stands in the order; `None` while a request runs on it.
    rank: Option<Rank>,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Contexts {
    capacity: u64,
    eviction: Eviction,
    sessions: HashMap<u64, Context>,
    idle: BTreeMap<Rank, u64>,
    /// Tokens of all sessions, and of those that run.
    resident: u64,
    running: u64,
    releases: u64,
}

/// A session's key and the turn of it that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) session: u64,
    pub(crate) turn: u32,
}

impl Contexts {
    pub(crate) fn new(capacity: u64, eviction: Eviction) -> Self {
        Self {
            capacity,
            eviction,
            sessions: HashMap::new(),
            idle: BTreeMap::new(),
            resident: 0,
            running: 0,
            releases: 0,
        }
    }

    /// Tokens that running requests hold.
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// Tokens of all sessions.
    #[cfg(test)]
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// Whether running requests leave room for so many tokens more.
    pub(crate) fn has_room(&self, tokens: u64) -> bool {
        self.running + tokens <= self.capacity
    }

    /// The turn whose tokens an idle session has, and how many there are.
    pub(crate) fn idle(&self, session: u64) -> Option<(u32, u32)> {
        let context = self.sessions.get(&session)?;
        context.rank.map(|_| (context.turn, context.tokens))
    }

    /// Whether a request runs on the session's prefix.
    pub(crate) fn is_running(&self, session: u64) -> bool {
        self.sessions
            .get(&session)
            .is_some_and(|context| context.rank.is_none())
    }

    /// A request starts on `tokens` tokens, of which the session's prefix gives the first `kept`;
    /// the caller has asked [`Contexts::has_room`].
    pub(crate) fn start(&mut self, owner: Owner, tokens: u32, kept: u32) {
        if let Some(context) = self.sessions.remove(&owner.session) {
            debug_assert!(kept <= context.tokens, "kept tokens are there");
            self.resident -= u64::from(context.tokens);
            if let Some(rank) = context.rank {
                self.idle.remove(&rank);
            }
        }
        self.make_room(u64::from(tokens));
        self.resident += u64::from(tokens);
        self.running += u64::from(tokens);
        let context = Context {
            tokens,
            turn: owner.turn,
            rank: None,
        };
        self.sessions.insert(owner.session, context);
    }

    /// Running requests grow by so many tokens together; the caller has asked for room, and says who
    /// grew by how much when it ends them.
    pub(crate) fn grow(&mut self, tokens: u64) {
        self.make_room(tokens);
        self.resident += tokens;
        self.running += tokens;
    }

    /// A request that held `held` tokens leaves `left` of them to its session.
    pub(crate) fn stop(&mut self, now: Nanos, owner: Owner, held: u32, left: u32) {
        self.running -= u64::from(held);
        self.resident -= u64::from(held);
        let Some(context) = self.sessions.get_mut(&owner.session) else {
            return;
        };
        self.releases += 1;
        let rank = (now, self.releases);
        *context = Context {
            tokens: left,
            turn: owner.turn,
            rank: Some(rank),
        };
        self.resident += u64::from(left);
        self.idle.insert(rank, owner.session);
    }

    /// An idle session keeps its tokens until then, if the order of eviction minds.
    pub(crate) fn lease(&mut self, session: u64, until: Nanos) {
        let Some(context) = self.sessions.get_mut(&session) else {
            return;
        };
        if let (Eviction::LeaseEnd, Some(rank)) = (self.eviction, context.rank) {
            self.idle.remove(&rank);
            let rank = (until, rank.1);
            context.rank = Some(rank);
            self.idle.insert(rank, session);
        }
    }

    /// The session ended or its prefix is of no use: its tokens go at once.
    pub(crate) fn forget(&mut self, session: u64) {
        let Some(context) = self.sessions.get(&session) else {
            return;
        };
        if let Some(rank) = context.rank {
            self.resident -= u64::from(context.tokens);
            self.idle.remove(&rank);
            self.sessions.remove(&session);
        }
    }

    fn make_room(&mut self, tokens: u64) {
        let mut missing = (self.resident + tokens).saturating_sub(self.capacity);
        while missing > 0 {
            let Some((&rank, &session)) = self.idle.first_key_value() else {
                debug_assert!(false, "whoever asks has seen that there is room");
                return;
            };
            let Some(context) = self.sessions.get_mut(&session) else {
                self.idle.remove(&rank);
                continue;
            };
            let cut = u64::from(context.tokens).min(missing) as u32;
            context.tokens -= cut;
            missing -= u64::from(cut);
            self.resident -= u64::from(cut);
            if context.tokens == 0 {
                self.idle.remove(&rank);
                self.sessions.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(session: u64) -> Owner {
        Owner { session, turn: 7 }
    }

    #[test]
    fn the_tail_of_the_longest_idle_session_goes_first() {
        let mut contexts = Contexts::new(100, Eviction::Lru);
        for session in 1..=2 {
            contexts.start(owner(session), 40, 0);
            contexts.stop(session, owner(session), 40, 40);
        }
        contexts.start(owner(3), 50, 0);
        assert_eq!(contexts.idle(1), Some((7, 10)));
        assert_eq!(contexts.idle(2), Some((7, 40)));
        contexts.grow(15);
        assert_eq!((contexts.idle(1), contexts.idle(2)), (None, Some((7, 35))));
        assert_eq!((contexts.running(), contexts.resident()), (65, 100));
        contexts.stop(9, owner(3), 65, 65);
        contexts.forget(3);
        assert_eq!((contexts.running(), contexts.resident()), (0, 35));
    }

    #[test]
    fn a_lease_outlives_a_later_use() {
        let mut contexts = Contexts::new(100, Eviction::LeaseEnd);
        for (session, until) in [(1, Some(90)), (2, None)] {
            contexts.start(owner(session), 40, 0);
            contexts.stop(session, owner(session), 40, 40);
            if let Some(until) = until {
                contexts.lease(session, until);
            }
        }
        contexts.start(owner(3), 50, 0);
        assert_eq!(
            (contexts.idle(1), contexts.idle(2)),
            (Some((7, 40)), Some((7, 10)))
        );
    }
}
