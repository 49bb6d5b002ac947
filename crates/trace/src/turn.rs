//! What is one turn of a workload, and when does it start?
//!
//! Sizes, a start, and what its session does afterwards. Plain data: indices point into the
//! [`Workload`](crate::Workload) that it is of, which was checked when it was made. 40 bytes a turn
//! and 16 a wait.
use warmpath_core::Micros;

/// One model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of its session.
    pub session: u32,
    /// When it starts.
    pub start: Start,
    /// Tokens of the prompt, at least 1. Those beyond the turn's blocks are shared with nobody.
    pub input_tokens: u32,
    /// Tokens of the answer, at least 1.
    pub output_tokens: u32,
    /// What its session does after the answer.
    pub next: Next,
    /// Its prompt in the store of blocks.
    pub(crate) prompt: u32,
}

/// When a turn starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// This long after the replay began, whatever else happens.
    At(Micros),
    /// When the last of its waits is over; see [`Workload::waits`](crate::Workload::waits). There is at least one.
    After(Waits),
}

/// Which waits of the workload are a turn's, and when it started in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    pub(crate) from: u32,
    pub(crate) len: u32,
    pub(crate) not_before: Micros,
}

/// A condition for a turn to start: `delay` after a moment of another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Index of that other turn; always smaller than the index of the turn that waits.
    pub turn: u32,
    /// Which moment of it counts.
    pub moment: Moment,
    /// Time from that moment on: a tool, a person, or what a client did before it spawned a child.
    pub delay: Micros,
}

/// A moment in the life of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When it was handed to the scheduler, before any hold.
    Start,
    /// When its last token came, or when it was refused or given up.
    End,
}

/// What a session does after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It runs a tool, and comes back by itself.
    Tool,
    /// It waits for a person.
    Person,
    /// It comes back, and the trace does not say after what.
    Unknown,
    /// Nothing: this was its last turn.
    End,
}
