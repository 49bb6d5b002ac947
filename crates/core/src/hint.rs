//! What may an engine be told about a session's cache?
//!
//! Soft requests: an engine may take, clip, defer or ignore each, and a decision never depends on it.
//! A hint speaks of what one program has left on one worker; whoever sends it knows how that engine
//! wants to hear it.
use crate::{Micros, ProgramId, WorkerId};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Keep it until then; after that it goes before what others keep.
    Retain {
        /// When it may go.
        until: Micros,
    },
    /// Nobody will come back for it: it goes first.
    Demote,
}

/// One soft request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Whose cache.
    pub program: ProgramId,
    /// Where.
    pub worker: WorkerId,
    /// What is asked for.
    pub action: Action,
}
