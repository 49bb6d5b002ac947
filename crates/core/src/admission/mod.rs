//! Go or hold: may this turn run now, or does it wait?
//!
//! One door, one file per policy. A turn is begun with a ticket (its reservation) and the program
//! (session, or concurrent branch of one) it belongs to. Sooner or later, in this call or in a
//! later one, it comes out as a [`Release`], at most once; or it is cancelled and never does.
//! The policy knows sizes in tokens, workers and their capacity, and nothing of prompts, costs or
//! models: where a released turn really goes is decided outside and told with [`Admission::sent`].
//!
//! Trusts: that a ticket is used once while it lives, and that `now` comes from one clock. A time
//! that goes backwards counts as no time passed; an unknown ticket changes nothing.
//! Costs are stated per policy; none depends on the number of programs by more than a logarithm,
//! except the queries that say so.
mod none;
mod thunderagent;

use crate::{Micros, ProgramId, ReservationId, WorkerId};

pub use none::Passthrough;
pub use thunderagent::{Counters, ThunderAgent, ThunderAgentConfig};

/// Whether more turns of the program are expected after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary turn.
    Turn,
    /// The last turn of its program.
    Final,
}

/// A turn at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The turn's name from here to its end.
    pub ticket: ReservationId,
    /// Whose turn it is. Turns of one program run one after another.
    pub program: ProgramId,
    /// Estimated tokens of the whole prompt; 0 when nothing is known.
    pub prompt_tokens: u32,
    /// Whether more turns follow.
    pub kind: Kind,
    /// The only worker that may serve it, if there is such a one.
    pub pin: Option<WorkerId>,
}

/// A turn that may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The ticket given at [`Admission::begin`].
    pub ticket: ReservationId,
    /// Where admission has found room; `None` when it does not mind.
    pub worker: Option<WorkerId>,
}

/// What a program is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A turn of it runs or waits.
    Reasoning,
    /// Between two turns: tools run, or a person thinks.
    Acting,
}

/// Whether a program may keep room on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It counts on its worker, and its next turn goes at once.
    Active,
    /// It counts nowhere, and its next turn is held.
    Paused,
}

/// What admission knows of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramState {
    /// Whether a turn is under way.
    pub phase: Phase,
    /// Whether it keeps room.
    pub standing: Standing,
    /// Where its context is; a paused program has none.
    pub worker: Option<WorkerId>,
    /// Tokens of its context: exact after a turn, estimated during one.
    pub tokens: u32,
    /// Turns begun, the present one included.
    pub steps: u32,
    /// Will be paused when its present turn ends.
    pub marked: bool,
}

/// The policy in use.
#[derive(Debug)]
pub enum Admission {
    /// Everything goes at once.
    None(Passthrough),
    /// The published ThunderAgent controller.
    ThunderAgent(Box<ThunderAgent>),
}

/// Calls the same method of whichever policy is in use.
macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Self::None($policy) => $call,
            Self::ThunderAgent($policy) => $call,
        }
    };
}

impl Admission {
    /// Everything goes at once.
    #[must_use]
    pub fn none() -> Self {
        Self::None(Passthrough)
    }

    /// The ThunderAgent controller, without workers yet.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when a setting is outside what [`ThunderAgentConfig`] allows.
    pub fn thunderagent(config: ThunderAgentConfig) -> crate::Result<Self> {
        Ok(Self::ThunderAgent(Box::new(ThunderAgent::new(config)?)))
    }

    /// A turn arrives; it is appended to `out` now or by a later call.
    pub fn begin(&mut self, now: Micros, begin: Begin, out: &mut Vec<Release>) {
        each!(self, p => p.begin(now, begin, out));
    }

    /// A released turn was really sent to `worker`.
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        each!(self, p => p.sent(now, ticket, worker));
    }

    /// The running turn's context has grown to `context_tokens` (prompt and output so far).
    pub fn progress(&mut self, now: Micros, ticket: ReservationId, context_tokens: u32) {
        each!(self, p => p.progress(now, ticket, context_tokens));
    }

    /// The turn ended well with a context of `context_tokens`, or of unknown size. A turn that is
    /// still held is cancelled instead.
    pub fn complete(
        &mut self,
        now: Micros,
        ticket: ReservationId,
        context_tokens: Option<u32>,
        out: &mut Vec<Release>,
    ) {
        each!(self, p => p.complete(now, ticket, context_tokens, out));
    }

    /// The turn is withdrawn, held or running; its program is as before the turn.
    pub fn cancel(&mut self, now: Micros, ticket: ReservationId, out: &mut Vec<Release>) {
        each!(self, p => p.cancel(now, ticket, out));
    }

    /// Replaces the live set: each worker with its capacity in tokens, `None` for unlimited.
    pub fn set_workers(&mut self, now: Micros, workers: &[(WorkerId, Option<u64>)]) {
        each!(self, p => p.set_workers(now, workers));
    }

    /// Adds one worker to the live set or changes its capacity; `None` is unlimited.
    pub fn set_worker(&mut self, now: Micros, worker: WorkerId, capacity: Option<u64>) {
        each!(self, p => p.set_worker(now, worker, capacity));
    }

    /// Takes one worker out of the live set.
    pub fn remove_worker(&mut self, now: Micros, worker: WorkerId) {
        each!(self, p => p.remove_worker(now, worker));
    }

    /// Does what time has made due. Call it at [`Self::next_wake`], and as often as you like.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Release>) {
        each!(self, p => p.advance(now, out));
    }

    /// Lets the turn that has waited longest go, whatever the load: for a caller that knows that
    /// nothing is running, so that no end will ever set room free. Does nothing when nobody waits.
    pub fn relieve(&mut self, now: Micros, out: &mut Vec<Release>) {
        each!(self, p => p.relieve(now, out));
    }

    /// The turn that [`Self::relieve`] would let go.
    #[must_use]
    pub fn longest_held(&self) -> Option<ReservationId> {
        each!(self, p => p.longest_held())
    }

    /// Whether a further program of `tokens` fits on `worker` beside those that count there.
    #[must_use]
    pub fn has_room(&self, worker: WorkerId, tokens: u32) -> bool {
        each!(self, p => p.has_room(worker, tokens))
    }

    /// When [`Self::advance`] has something to do next; may be in the past.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        each!(self, p => p.next_wake())
    }

    /// The program will not come back. It is forgotten now, or when its last turn ends.
    pub fn end_program(&mut self, now: Micros, program: ProgramId) {
        each!(self, p => p.end_program(now, program));
    }

    /// Tokens that count on `worker`.
    #[must_use]
    pub fn used(&self, worker: WorkerId) -> u64 {
        each!(self, p => p.used(worker))
    }

    /// The 1-based place of a held turn among all that wait for room; for a turn behind a running
    /// one of its own program, its place in that queue. `None` when it is not held. O(held).
    #[must_use]
    pub fn position(&self, ticket: ReservationId) -> Option<usize> {
        each!(self, p => p.position(ticket))
    }

    /// Whether this turn has begun and is not yet released.
    #[must_use]
    pub fn is_held(&self, ticket: ReservationId) -> bool {
        each!(self, p => p.is_held(ticket))
    }

    /// Turns that are held.
    #[must_use]
    pub fn waiting(&self) -> usize {
        each!(self, p => p.waiting())
    }

    /// Appends the programs that were paused since the last call; some may be back by now.
    pub fn take_pauses(&mut self, out: &mut Vec<ProgramId>) {
        each!(self, p => p.take_pauses(out));
    }

    /// Programs that are paused, with or without a held turn.
    #[must_use]
    pub fn paused(&self) -> usize {
        each!(self, p => p.paused())
    }

    /// What is known of one program.
    #[must_use]
    pub fn state(&self, program: ProgramId) -> Option<ProgramState> {
        each!(self, p => p.state(program))
    }

    /// Every program with its state, by id. O(n log n): for reports, not for decisions.
    #[must_use]
    pub fn programs(&self) -> Vec<(ProgramId, ProgramState)> {
        each!(self, p => p.programs())
    }
}
