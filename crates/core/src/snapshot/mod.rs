//! What must outlive a restart, and how is it written down?
//!
//! A snapshot is a list of bytes: what the prefix index believes, the sessions with their bindings,
//! branches, paths and homes, who owns which id, what the token rates are, and the counters. What is in
//! flight, held or in admission's hands is not in it: those are connections, and they are gone.
//! Receipts are not either, nor what turns have taught of their workers' times: a worker may come back another.
//!
//! **Written in slices**, between which turns and events go on ([`crate::scheduler::Scheduler::snapshot`]).
//! What a slice has written and what changes later is written again before the end (`watch`), so the
//! whole is the state at the time of the last slice, exactly. A copy of everything at the first slice
//! would be simpler, and takes as long as the index is large.
//!
//! **Read at once**: checked to the last byte first, then built beside what there is, then put in its
//! place; a snapshot that is refused has changed nothing. Workers and targets are found again by their
//! names. Nothing is believed that time has taken meanwhile: ages go on while the gateway is down.
//!
//! The format is in `frame` (what keeps it whole) and `bytes` (numbers); each room writes and reads its
//! own part.
mod bytes;
mod frame;
mod watch;

pub(crate) use bytes::{Encode, Reader, invalid};
pub(crate) use frame::{Frames, Kind, read as read_frames};
pub(crate) use watch::{NO_PART, Watch};

use crate::Micros;

/// Whether a snapshot goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to write.
    More,
    /// That was all: the bytes so far are the snapshot.
    Done,
}

/// What to make of blocks that the engine's own events vouched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exact {
    /// They are forgotten: who knows which events were missed.
    #[default]
    Drop,
    /// They are believed as a decision of the router's own would be, made when the snapshot was taken:
    /// they age, give way when the place is full, and are corrected by what the engine reports.
    AsPredicted,
    /// They stand. Only right when every event since the snapshot will be told.
    Keep,
}

/// How long it has been since the snapshot was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Downtime {
    /// The time of the restore and those in the snapshot are of one clock: as long as they differ.
    #[default]
    SameClock,
    /// So long.
    Known(Micros),
}

/// How a snapshot is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// What to make of the engines' own word.
    pub exact: Exact,
    /// How much older everything has become.
    pub downtime: Downtime,
}

/// What came of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Distinct blocks in the index now.
    pub blocks: usize,
    /// Sessions.
    pub sessions: usize,
    /// Ids whose owner is known.
    pub owners: usize,
    /// What was in the snapshot and is not here.
    pub dropped: Dropped,
}

/// What a restore has left out, because its worker or target is gone, it is too old, there is no room
/// for it, or the options say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Places that held blocks and are not registered any more, or are of the workers below.
    pub places: usize,
    /// Workers that are here, but whose group has blocks of another size: their caches are left out.
    pub resized: usize,
    /// Blocks, each as often as a place held it.
    pub held: u64,
    /// Sessions.
    pub sessions: usize,
    /// Ids.
    pub owners: usize,
}

/// How much a slice may still do. A unit is a byte written; what is only looked at is charged too.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    pub(crate) fn new(units: usize) -> Self {
        Self { left: units.max(1) }
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn charge(&mut self, units: usize) {
        self.left = self.left.saturating_sub(units);
    }
}
