//! What every index must be able to do to be measured.
//!
//! One trait, one adapter a system. Every operation is in two parts: `ready_*` converts the harness's
//! words into the system's own and is never timed; `find`, `predict` and `apply` do the work and are.
//! An answer is summed and dropped outside the timer ([`Index::answer`]).
//!
//! Dynamo's `PositionalIndexer` is not among them: it takes an engine's block hash for a hash of a
//! form that it can compute itself and finds nothing when engines name their blocks otherwise, as
//! they do here and in the field.
mod crtc;
mod hasher;
mod ours;
mod radix;
mod smg;
mod upkeep;

pub(crate) use hasher::SessionHasher;
pub(crate) use ours::OURS;

use crate::measure::CpuClock;

/// Which session: the one that began it all, or a sub-agent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionName {
    /// Sessions that sprang from the same one.
    pub(crate) family: u32,
    /// Zero for the first.
    pub(crate) member: u32,
}

/// One prompt: per block, root first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) session: SessionName,
    /// What the trace calls the content.
    pub(crate) contents: &'a [u64],
    /// Hash of the content.
    pub(crate) locals: &'a [u64],
    /// Hash of the content and all before it.
    pub(crate) chains: &'a [u64],
}

/// Blocks that an engine has stored, one below the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    /// The name of the block above the first; absent at the root.
    pub(crate) parent: Option<u64>,
    /// What the engine calls them.
    pub(crate) names: &'a [u64],
    /// Hashes of their contents.
    pub(crate) locals: &'a [u64],
}

/// A prefix index under measurement. Workers are numbered from 0.
pub(crate) trait Index {
    fn name(&self) -> &'static str;

    /// Takes the next prompt to look up. Not timed.
    fn ready_find(&mut self, prompt: &Prompt<'_>);

    /// Makes the prompt at hand ready once more. Not timed.
    fn ready_again(&mut self) {}

    /// Looks up the prompt that was made ready, once.
    fn find(&mut self);

    /// The blocks that the last look-up credited, summed over workers; drops the answer. Not timed.
    fn answer(&mut self) -> u64;

    /// Writes down that the prompt at hand goes to `worker`, where a system does so.
    fn predict(&mut self, _worker: usize) {}

    /// Queues an engine's event. Not timed.
    fn ready_store(&mut self, worker: usize, stored: &Stretch<'_>);

    /// Queues an engine's event. Not timed.
    fn ready_remove(&mut self, worker: usize, names: &[u64]);

    /// Queues the end of everything that `worker` has. Not timed.
    fn ready_clear(&mut self, worker: usize);

    /// Applies the queue in order.
    fn apply(&mut self);

    /// The clock of the thread that applies.
    fn clock(&self) -> CpuClock {
        CpuClock::CALLER
    }

    /// Whether that is the calling thread; another one cannot be timed turn by turn.
    fn applies_here(&self) -> bool {
        true
    }

    /// Gives the room of `ready_*` back, so that only the index itself is counted.
    fn rest(&mut self);
}

/// A way to make an index of one system.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) create: fn(workers: usize) -> Box<dyn Index>,
}

pub(crate) const SMG: &str = "smg";
pub(crate) const RADIX: &str = "dynamo-radix";
pub(crate) const CRTC: &str = "dynamo-crtc";
pub(crate) const DYNAMO: &str = "dynamo";

/// Our index and sessions on top, under our name.
pub(crate) const WITH_SESSIONS: System = System {
    name: OURS,
    create: |workers| Box::new(upkeep::Upkeep::new(workers)),
};

/// The same without sessions, where it is what the other is held against.
pub(crate) const ALONE: System = System {
    name: "warmpath-alone",
    create: |workers| Box::new(ours::Ours::new(workers)),
};

/// All of them, ours last.
pub(crate) const ALL: [System; 4] = [
    System {
        name: SMG,
        create: |workers| Box::new(smg::Smg::new(workers)),
    },
    System {
        name: RADIX,
        create: |_| Box::new(radix::Radix::new()),
    },
    System {
        name: CRTC,
        create: |_| Box::new(crtc::Crtc::new()),
    },
    System {
        name: OURS,
        create: |workers| Box::new(ours::Ours::new(workers)),
    },
];
