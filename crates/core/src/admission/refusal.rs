//! Why does a worker not take a turn? What a receipt says of those that were held.
use crate::{Micros, WorkerId};

/// Why a worker does not take a turn now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another cold prompt is being computed there.
    Refill,
    /// The prompt does not fit beside the turns that run there. Tokens.
    Running {
        /// Free of running turns.
        have: u64,
        /// What the turn adds.
        need: u64,
    },
    /// The prompt does not fit beside running turns and leases. Tokens.
    Leases {
        /// Free of both.
        have: u64,
        /// What the turn adds.
        need: u64,
        /// When the next of those leases ends.
        next_end: Option<Micros>,
    },
    /// It runs as many turns as are allowed.
    MaxRunning {
        /// Those of others included.
        turns: u32,
        /// What is allowed.
        most: u32,
    },
    /// It keeps as many sessions as are allowed, and this is none of them.
    MaxSessions {
        /// What it keeps.
        sessions: u32,
        /// What is allowed.
        most: u32,
        /// When the one that is idle longest may be given up.
        next_end: Option<Micros>,
    },
}

/// A worker that does not take a turn now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The worker.
    pub worker: WorkerId,
    /// Its reason.
    pub why: Why,
}
