//! What does one record of any trace say?
//!
//! Readers make a [`TracedTurn`] of each request, in the order of the file. It holds what the record
//! says and nothing that would need other records: sessions and parents by name, blocks by the
//! trace's own ids, times as recorded. [`crate::read()`] makes a workload of them.
use std::num::NonZeroU32;

use warmpath_core::Micros;

use crate::turn::{Moment, Next};

/// A request as a trace tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedTurn {
    /// Where its session stands among those of the file, if the file says; else by its first mention.
    pub rank: Option<u32>,
    /// Its own id, if the trace names one.
    pub id: Option<String>,
    /// Its session; `None` is a request that stands alone.
    pub session: Option<String>,
    /// The session that spawned its session.
    pub parent: Option<String>,
    /// Tokens of the prompt; at least 1.
    pub input_tokens: u32,
    /// Tokens of the answer; at least 1.
    pub output_tokens: u32,
    /// Tokens of a block.
    pub block_tokens: NonZeroU32,
    /// Ids of the blocks of the prompt; those of one scope are comparable.
    pub blocks: Vec<u64>,
    /// Where the ids of the blocks mean the same.
    pub scope: Scope,
    /// When it started.
    pub timing: Timing,
    /// What its session did afterwards.
    pub next: Next,
}

/// Where a block id means the same block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In all traces.
    Global,
    /// In one part of one file; parts are numbered by the reader.
    Part(u32),
}

/// When a request started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// It was measured. What it waited for is inferred from the times of its session's turns.
    Measured {
        /// When it was received.
        start: Micros,
        /// When its last token came; not before `start`.
        end: Micros,
        /// From when on both count.
        clock: Clock,
    },
    /// It arrives at this time, whatever else happens.
    Arrival(Micros),
    /// It comes this long after the end of the previous turn of its session in the file.
    Follows(Micros),
    /// It waits for all of these; without any it starts `at`.
    Depends {
        /// Its time where nothing is waited for.
        at: Micros,
        /// What it waits for.
        on: Vec<Dependency>,
    },
}

/// From when on measured times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From the start of the replay.
    Replay,
    /// From 1970; the earliest one of all files becomes the start of the replay.
    Wall,
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The id of the other request.
    pub id: String,
    /// Why it is waited for.
    pub relation: Relation,
    /// Which moment of it counts.
    pub moment: Moment,
    /// Time from that moment on.
    pub delay: Micros,
}

/// Why a request waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It comes after it.
    Sequence,
    /// The other one spawned its session.
    Spawn,
    /// The other one's result is part of it.
    Join,
}
