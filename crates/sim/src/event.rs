//! What the engine reports while its clock moves.
//!
//! Everything a pass makes becomes visible at the end of that pass, cache changes first, as on a
//! real engine that publishes them with the pass's output. An admission is reported at its start.

use crate::pool::Change;

/// Time of the virtual clock: nanoseconds since it started.
pub type Nanos = u64;

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineEvent {
    /// When it became visible.
    pub at: Nanos,
    /// What it was.
    pub kind: EventKind,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of its output was made.
    Complete,
    /// It outgrew the whole cache; what was made so far is its output.
    CacheFull,
    /// Its prompt can never run: larger than the cache, or than a pass when prompts are not split.
    Rejected,
    /// The caller gave it up.
    Cancelled,
}

/// What happened. `id` is the request's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It began to run; this many of its tokens were found in the cache. Once for each admission,
    /// so again after a pre-emption.
    Admitted { id: u64, cached_tokens: u32 },
    /// Its first token was made.
    FirstToken { id: u64 },
    /// A later token was made; `produced` counts all of them so far.
    Token { id: u64, produced: u32 },
    /// It lost its blocks and waits again; tokens already made stay made.
    Preempted { id: u64 },
    /// It left the engine with this many tokens made.
    Ended { id: u64, end: End, produced: u32 },
    /// These blocks can be found from now on, one after the other behind `parent`. They are the
    /// blocks of request `id` from its block `index` on.
    Stored {
        id: u64,
        index: u32,
        parent: Option<u64>,
        hashes: Vec<u64>,
    },
    /// These blocks are gone.
    Removed { hashes: Vec<u64> },
}

impl From<Change> for EventKind {
    fn from(change: Change) -> Self {
        match change {
            Change::Stored {
                parent,
                hash,
                origin,
            } => Self::Stored {
                id: origin.id,
                index: origin.index,
                parent,
                hashes: vec![hash],
            },
            Change::Removed { hash } => Self::Removed { hashes: vec![hash] },
        }
    }
}
