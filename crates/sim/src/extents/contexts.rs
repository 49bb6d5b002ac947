//! Which tokens of which sessions are in the cache of an `h100-class` engine?
//!
//! One prefix for each session: as many tokens of its latest prompt and answer as are still there.
//! A running request's tokens stay; of idle sessions the first in the order of eviction loses tokens
//! from its tail. What is not modelled: sessions share nothing (what all of them begin with is
//! counted outside), and what a prompt no longer contains
//! is gone with the start of the turn that left it out. A second turn of a session at the same time
//! gets a prefix of its own, which nobody can use later.
//!
//! With a host tier the tail that is cut goes there and comes back when its session does: a session
//! then has a prefix of which the cache holds the beginning and the tier the rest. The tier cuts tails
//! too, of the session first that it has heard of longest ago.
//! O(log sessions) for each start, end and eviction of a session.
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::config::Eviction;
use crate::event::Nanos;
use crate::tier::HostTier;

/// Orders idle sessions: when they are evicted, then who became idle first.
type Rank = (Nanos, u64);

#[derive(Debug)]
struct Context {
    tokens: u32,
    /// The turn whose prompt and answer they are.
    turn: u32,
    /// Where it stands in the order; `None` while a request runs on it.
    rank: Option<Rank>,
    /// Tokens behind those, in the host tier, and its place in that one's order.
    hosted: u32,
    hosted_rank: u64,
}

impl Context {
    fn running(turn: u32, tokens: u32) -> Self {
        Self {
            tokens,
            turn,
            rank: None,
            hosted: 0,
            hosted_rank: 0,
        }
    }
}

/// What the host tier holds, all sessions together.
#[derive(Debug)]
struct Hosted {
    capacity: u64,
    tokens: u64,
    /// Sessions, in the order in which they lose their tails.
    order: BTreeMap<u64, u64>,
    next: u64,
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
    host: Option<Hosted>,
}

/// A session's key and the turn of it that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) session: u64,
    pub(crate) turn: u32,
}

impl Contexts {
    pub(crate) fn new(capacity: u64, eviction: Eviction, host: Option<HostTier>) -> Self {
        let host = host.map(|tier| Hosted {
            capacity: tier.capacity_tokens,
            tokens: 0,
            order: BTreeMap::new(),
            next: 0,
        });
        Self {
            capacity,
            eviction,
            sessions: HashMap::new(),
            idle: BTreeMap::new(),
            resident: 0,
            running: 0,
            releases: 0,
            host,
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

    /// The turn whose tokens an idle session has, and how many there are, those in the host tier
    /// included.
    pub(crate) fn idle(&self, session: u64) -> Option<(u32, u32)> {
        let context = self.sessions.get(&session)?;
        context
            .rank
            .map(|_| (context.turn, context.tokens + context.hosted))
    }

    /// Whether a request runs on the session's prefix.
    pub(crate) fn is_running(&self, session: u64) -> bool {
        self.sessions
            .get(&session)
            .is_some_and(|context| context.rank.is_none())
    }

    /// A request starts on `tokens` tokens, of which the session's prefix gives the first `kept`;
    /// the caller has asked [`Contexts::has_room`]. Says how many of the kept ones come back from
    /// the host tier.
    pub(crate) fn start(&mut self, owner: Owner, tokens: u32, kept: u32) -> u32 {
        let mut loaded = 0;
        if let Some(context) = self.drop_session(owner.session) {
            let had = context.tokens + context.hosted;
            debug_assert!(kept <= had, "kept tokens are there");
            loaded = kept.saturating_sub(context.tokens);
        }
        self.make_room(u64::from(tokens));
        self.resident += u64::from(tokens);
        self.running += u64::from(tokens);
        let context = Context::running(owner.turn, tokens);
        self.sessions.insert(owner.session, context);
        loaded
    }

    /// Takes an idle session out of all lists.
    fn drop_session(&mut self, session: u64) -> Option<Context> {
        let context = self.sessions.remove(&session)?;
        self.resident -= u64::from(context.tokens);
        if let Some(rank) = context.rank {
            self.idle.remove(&rank);
        }
        if let Some(host) = &mut self.host {
            host.tokens -= u64::from(context.hosted);
            host.order.remove(&context.hosted_rank);
        }
        Some(context)
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
            rank: Some(rank),
            ..Context::running(owner.turn, left)
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
        let is_idle = |context: &Context| context.rank.is_some();
        if self.sessions.get(&session).is_some_and(is_idle) {
            self.drop_session(session);
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
            }
            if let Some(host) = &mut self.host {
                host.take_over(session, context, cut);
            } else if context.tokens == 0 {
                self.sessions.remove(&session);
            }
        }
        self.make_room_behind();
    }

    /// Cuts tails in the host tier until what is there fits.
    fn make_room_behind(&mut self) {
        let Some(host) = &mut self.host else {
            return;
        };
        while host.tokens > host.capacity {
            let Some((&rank, &session)) = host.order.first_key_value() else {
                debug_assert!(false, "tokens belong to sessions");
                return;
            };
            let Some(context) = self.sessions.get_mut(&session) else {
                host.order.remove(&rank);
                continue;
            };
            let too_many = host.tokens - host.capacity;
            let cut = u64::from(context.hosted).min(too_many) as u32;
            context.hosted -= cut;
            host.tokens -= u64::from(cut);
            if context.hosted == 0 {
                host.order.remove(&rank);
                if context.tokens == 0 {
                    self.sessions.remove(&session);
                }
            }
        }
    }
}

impl Hosted {
    /// `cut` tokens from the tail of a session's cache come here.
    fn take_over(&mut self, session: u64, context: &mut Context, cut: u32) {
        self.order.remove(&context.hosted_rank);
        self.next += 1;
        context.hosted += cut;
        context.hosted_rank = self.next;
        self.tokens += u64::from(cut);
        self.order.insert(self.next, session);
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
        let mut contexts = Contexts::new(100, Eviction::Lru, None);
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
        let mut contexts = Contexts::new(100, Eviction::LeaseEnd, None);
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

    #[test]
    fn what_is_cut_waits_in_the_host_tier_and_comes_back() {
        let tier = HostTier {
            capacity_tokens: 60,
            load_ps: 0,
        };
        let mut contexts = Contexts::new(100, Eviction::Lru, Some(tier));
        for session in 1..=2 {
            contexts.start(owner(session), 50, 0);
            contexts.stop(session, owner(session), 50, 50);
        }
        contexts.start(owner(3), 90, 0);
        assert_eq!(
            (contexts.idle(1), contexts.idle(2)),
            (Some((7, 20)), Some((7, 50))),
            "30 of the first did not fit the tier"
        );
        contexts.stop(3, owner(3), 90, 90);
        assert_eq!(contexts.start(owner(2), 55, 45), 35, "10 were never away");
        assert_eq!(contexts.idle(3), Some((7, 90)));
        assert_eq!((contexts.running(), contexts.resident()), (55, 100));
        contexts.forget(3);
        contexts.forget(1);
        assert_eq!((contexts.idle(1), contexts.resident()), (None, 55));
    }
}
