//! Who decides where turns go, as the simulator sees it.
//!
//! The simulator tells a [`Router`] what a gateway would tell it, at the times at which a gateway
//! would know, and does what it says. It does not know how a router decides; the routers here are the
//! usual load balancers and the shipped core behind its public door. A router that holds a turn must
//! settle it once, in the list that later calls fill, and says when it wants to be woken.
mod baseline;
mod core;
mod ear;
mod message;
mod options;

use std::rc::Rc;

pub use self::core::CoreRouter;
pub use baseline::{LeastLoaded, RoundRobin};
pub use message::{CacheChange, CacheMessage};
pub use options::{CoreOptions, Farewell};

use crate::event::Nanos;

/// A turn at the door.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its number from here to its end; never used twice.
    pub turn: u64,
    /// What its session is called; equal for all its turns.
    pub session: &'a str,
    /// The session that spawned it.
    pub parent: Option<&'a str>,
    /// Content ids of the complete blocks of the prompt.
    pub blocks: &'a [u64],
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// What the session does after it.
    pub next: warmpath_trace::Next,
}

/// What a router says to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes to this worker now.
    Go(u32),
    /// It waits; a later call settles it, exactly once.
    Hold,
    /// It can go nowhere, and has ended.
    Refused,
}

/// A hold that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Which turn.
    pub turn: u64,
    /// Where it goes; `None` when it can go nowhere and has ended.
    pub worker: Option<u32>,
}

/// What the answer to a turn told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, read from the worker's cache.
    pub cached_tokens: u32,
    /// Tokens of the answer.
    pub completion_tokens: u32,
    /// What the session does now.
    pub next: warmpath_trace::Next,
}

/// What a router believes to be in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Tokens of the prompt, from its beginning.
    pub tokens: u32,
    /// Whether it rests on all that the worker has told, and on nothing else.
    pub is_exact: bool,
}

/// Whether a worker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    Up,
    /// It has died; it may come back.
    Down,
}

/// Figures of a router, sampled over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Turns that wait for it.
    pub held: u64,
    /// Sessions that it has paused.
    pub paused: u64,
}

/// What a router's knowledge costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct IndexCost {
    /// Distinct blocks that it knows of.
    pub blocks: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Calls into it, of any kind.
    pub calls: u64,
}

/// Decides where turns go. Times never go backwards.
pub trait Router {
    /// What a report calls it.
    fn label(&self) -> String;

    /// A turn arrives.
    fn submit(&mut self, now: Nanos, offer: &Offer<'_>, settled: &mut Vec<Settled>) -> Answer;

    /// Its first token has come.
    fn first_token(&mut self, _now: Nanos, _turn: u64, _settled: &mut Vec<Settled>) {}

    /// Its answer is complete.
    fn complete(&mut self, now: Nanos, turn: u64, usage: &Usage, settled: &mut Vec<Settled>);

    /// Its client has left, or its engine has refused it. It may be held or under way.
    fn cancel(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>);

    /// Its worker has failed before the first token: whether it may go elsewhere now. `None` has
    /// ended it.
    fn reroute(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) -> Option<u32>;

    /// A worker comes or goes. All are up at first.
    fn set_presence(
        &mut self,
        now: Nanos,
        worker: u32,
        presence: Presence,
        settled: &mut Vec<Settled>,
    );

    /// A worker tells of its cache. Called only where the simulation has such a feed. Returns the number
    /// from which on it shall tell again, to a router that misses something and can ask.
    fn hear(&mut self, _now: Nanos, _worker: u32, _message: &Rc<CacheMessage>) -> Option<u64> {
        None
    }

    /// What a router has asked for: all that the worker still has from that number on, in order. As
    /// [`Router::hear`] otherwise.
    fn hear_again(
        &mut self,
        _now: Nanos,
        _worker: u32,
        _messages: &[Rc<CacheMessage>],
    ) -> Option<u64> {
        None
    }

    /// What it believes to be in the cache of the worker that it has sent the turn to; `None` for a router that believes nothing. Asked once the turn goes.
    fn promised(&self, _turn: u64) -> Option<Promise> {
        None
    }

    /// When [`Router::advance`] has something to do.
    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    /// Time has passed.
    fn advance(&mut self, _now: Nanos, _settled: &mut Vec<Settled>) {}

    /// Until when the engine should keep the cache of the session whose turn has just completed;
    /// `None` says nothing to it.
    fn keep_until(&self, _turn: u64) -> Option<Nanos> {
        None
    }

    /// Figures of now.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// What its knowledge costs. O(that).
    fn index_cost(&self) -> Option<IndexCost> {
        None
    }
}
