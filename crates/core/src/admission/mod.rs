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
mod fair;
mod gates;
mod lease;
mod none;
mod queue;
mod refusal;
mod thunderagent;

use crate::hint::Hint;
use crate::receipt::Candidate;
use crate::{Micros, ProgramId, ReservationId, WorkerId};

pub use fair::{Ahead, Behind, COUNTED, Claimant, PASSES, TenantKey, Weights};
pub use gates::{Arrival, Clearance, GateConfig, Gates};
pub use lease::{
    Eviction, Evidence, Lease, LeaseConfig, LeaseCounters, RoomUse, WaitCount, WaitCounts,
};
pub use none::Passthrough;
pub use queue::{ClassConfig, ClassState, MAX_CLASSES, Order, Priorities, QueueConfig};
pub use refusal::{Refusal, Why};
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
    /// For whom it asks.
    pub claimant: Claimant,
}

/// What a program waits for between two turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// Tools run.
    Tool,
    /// The model has ended its turn: a person reads and answers, or nobody does.
    Person,
    /// The answer did not say.
    #[default]
    Unknown,
}

/// How a turn ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Tokens of the context that it leaves; `None` when that is not known.
    pub context_tokens: Option<u32>,
    /// What the program does now.
    pub waits: Waits,
}

/// What a harness tells of a tool that a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// It runs.
    Started {
        /// For how long it should; `None`: nobody knows.
        expected: Option<Micros>,
    },
    /// It has ended: the next turn comes at once.
    Ended,
}

/// What policies have done. Only ever grows; what a policy does not do stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyCounts {
    /// Programs that lost their room, or found none.
    pub pauses: u64,
    /// Programs brought back because there was room.
    pub resumes: u64,
    /// Turns that went because they had waited for as long as is allowed.
    pub forced: u64,
    /// Programs marked to be paused.
    pub marks: u64,
    /// Contexts that gave all their room to others.
    pub surrendered: u64,
    /// Turns that went because next to nothing had to be computed.
    pub warm: u64,
    /// Turns that had much to compute, and went.
    pub cold: u64,
    /// Turns let through uncounted.
    pub untracked: u64,
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

/// What is left of an idle program's context, by a policy's own account. Tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Where it is, or was.
    pub worker: WorkerId,
    /// In the worker's cache.
    pub tokens: u32,
    /// Behind those, in the host tier beside it.
    pub host_tokens: u32,
}

/// The policy in use.
#[derive(Debug)]
pub enum Admission {
    /// Everything goes at once.
    None(Passthrough),
    /// The published ThunderAgent controller.
    ThunderAgent(Box<ThunderAgent>),
    /// Warm turns pass, cold ones queue, idle contexts keep a lease.
    Lease(Box<Lease>),
}

/// Calls the same method of whichever policy is in use.
macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Self::None($policy) => $call,
            Self::ThunderAgent($policy) => $call,
            Self::Lease($policy) => $call,
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

    /// The lease policy, without workers yet.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when a setting is outside what [`LeaseConfig`] allows.
    pub fn lease(config: LeaseConfig) -> crate::Result<Self> {
        Ok(Self::Lease(Box::new(Lease::new(config)?)))
    }

    /// Whether turns must come with rows: what each worker has of the prompt, and what runs there.
    #[must_use]
    pub fn wants_rows(&self) -> bool {
        matches!(self, Self::Lease(_))
    }

    /// A turn arrives; it is appended to `out` now or by a later call. `rows` are the workers that
    /// may take it, where the policy wants them.
    pub fn begin(&mut self, now: Micros, begin: Begin, rows: &[Candidate], out: &mut Vec<Release>) {
        match self {
            Self::None(p) => p.begin(now, begin, out),
            Self::ThunderAgent(p) => p.begin(now, begin, out),
            Self::Lease(p) => p.begin(now, begin, rows, out),
        }
    }

    /// The held turn that wants to be looked at again with fresh rows, because something has changed.
    /// Asked until there is none, it gives each change once.
    pub fn head(&mut self) -> Option<ReservationId> {
        match self {
            Self::None(_) | Self::ThunderAgent(_) => None,
            Self::Lease(p) => p.head(),
        }
    }

    /// Another worker than the one that a turn was let go to, with room for it and `open`: where the policy
    /// has found that one for want of a better, and it may not be waited for. O(workers).
    #[must_use]
    pub fn room_elsewhere(
        &self,
        ticket: ReservationId,
        open: impl Fn(WorkerId) -> bool,
    ) -> Option<WorkerId> {
        match self {
            // The rows of leases are those of open workers.
            Self::None(_) | Self::Lease(_) => None,
            Self::ThunderAgent(p) => p.room_elsewhere(ticket, open),
        }
    }

    /// Looks at a held turn again; it is appended to `out` if it may go now.
    pub fn offer(
        &mut self,
        now: Micros,
        ticket: ReservationId,
        rows: &[Candidate],
        out: &mut Vec<Release>,
    ) {
        if let Self::Lease(p) = self {
            p.offer(now, ticket, rows, out);
        }
    }

    /// Why each worker does not take a held turn now, where the policy says.
    pub fn refusals(&self, ticket: ReservationId, rows: &[Candidate], out: &mut Vec<Refusal>) {
        if let Self::Lease(p) = self {
            p.refusals_of(ticket, rows, out);
        }
    }

    /// Where a program's context is, and how much of it is believed to be there, by the policy's own
    /// account; `None` where the prefix index knows better.
    #[must_use]
    pub fn account(&self, program: ProgramId) -> Option<Account> {
        match self {
            Self::None(_) | Self::ThunderAgent(_) => None,
            Self::Lease(p) => p.account(program),
        }
    }

    /// Whether a program's context keeps its room for a lease that still runs. O(log contexts).
    #[must_use]
    pub fn has_lease(&self, now: Micros, program: ProgramId) -> bool {
        match self {
            Self::None(_) | Self::ThunderAgent(_) => false,
            Self::Lease(p) => p.has_lease(now, program),
        }
    }

    /// The load of a worker has changed by a turn that the policy does not know.
    pub fn load_changed(&mut self) {
        if let Self::Lease(p) = self {
            p.load_changed();
        }
    }

    /// The worker's cache has been emptied: no idle program has a context there any more. Those that run go
    /// on. O(contexts of the worker).
    pub fn cache_lost(&mut self, worker: WorkerId) {
        if let Self::Lease(p) = self {
            p.cache_lost(worker);
        }
    }

    /// The first token of a turn has come.
    pub fn first_token(&mut self, now: Micros, ticket: ReservationId) {
        if let Self::Lease(p) = self {
            p.first_token(now, ticket);
        }
    }

    /// A tool that an idle program waits for has begun or ended.
    pub fn tool(&mut self, now: Micros, program: ProgramId, tool: Tool) {
        if let Self::Lease(p) = self {
            p.tool(now, program, tool);
        }
    }

    /// Adds what the policy has done.
    pub fn add_counts(&self, sum: &mut PolicyCounts) {
        match self {
            Self::None(_) => {}
            Self::ThunderAgent(p) => {
                let counts = p.counters();
                sum.pauses += counts.pauses;
                sum.resumes += counts.resumes;
                sum.forced += counts.forced;
                sum.marks += counts.marks;
                sum.untracked += counts.untracked;
            }
            Self::Lease(p) => {
                let counts = p.counters();
                sum.forced += counts.forced;
                sum.surrendered += counts.surrendered;
                sum.warm += counts.warm;
                sum.cold += counts.cold;
                sum.untracked += counts.untracked;
            }
        }
    }

    /// Appends what engines should be told since the last call.
    pub fn take_hints(&mut self, out: &mut Vec<Hint>) {
        if let Self::Lease(p) = self {
            p.take_hints(out);
        }
    }

    /// A released turn was really sent to `worker`.
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        each!(self, p => p.sent(now, ticket, worker));
    }

    /// The running turn's context has grown to `context_tokens` (prompt and output so far).
    pub fn progress(&mut self, now: Micros, ticket: ReservationId, context_tokens: u32) {
        each!(self, p => p.progress(now, ticket, context_tokens));
    }

    /// The turn ended well. One that is still held is cancelled instead. For the ThunderAgent
    /// controller a program whose loop of tool calls has ended is over: what its session sends next
    /// is a new one, and nobody has to wait for room that this one does not need.
    pub fn complete(
        &mut self,
        now: Micros,
        ticket: ReservationId,
        end: End,
        out: &mut Vec<Release>,
    ) {
        match self {
            Self::None(_) => {}
            Self::ThunderAgent(p) => {
                let over = p.program_of(ticket).filter(|_| end.waits == Waits::Person);
                p.complete(now, ticket, end.context_tokens, out);
                if let Some(program) = over {
                    p.end_program(now, program);
                }
            }
            Self::Lease(p) => p.complete(now, ticket, end),
        }
    }

    /// The turn is withdrawn, held or running; its program is as before the turn.
    pub fn cancel(&mut self, now: Micros, ticket: ReservationId, out: &mut Vec<Release>) {
        match self {
            Self::None(_) => {}
            Self::ThunderAgent(p) => p.cancel(now, ticket, out),
            Self::Lease(p) => p.cancel(now, ticket),
        }
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

    /// Of the live set, these workers take only turns whose session may stay there. O(workers).
    pub fn set_leaving(&mut self, leaving: &[WorkerId]) {
        match self {
            Self::None(_) => {}
            Self::ThunderAgent(p) => p.set_leaving(leaving),
            // Its rows are of the workers that take the turn.
            Self::Lease(p) => p.load_changed(),
        }
    }

    /// A turn of the program is about to begin, which may stay on no leaving worker but `bound`: where it
    /// has its room on another such, it looks for room anew.
    pub fn give_up_seat(&mut self, now: Micros, program: ProgramId, bound: Option<WorkerId>) {
        if let Self::ThunderAgent(p) = self {
            p.give_up_seat(now, program, bound);
        }
    }

    /// Does what time has made due. Call it at [`Self::next_wake`], and as often as you like.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Release>) {
        match self {
            Self::None(_) => {}
            Self::ThunderAgent(p) => p.advance(now, out),
            Self::Lease(p) => p.advance(now),
        }
    }

    /// Lets the turn that has waited longest go, whatever the load: for a caller that knows that
    /// nothing is running, so that no end will ever set room free. Does nothing when nobody waits.
    pub fn relieve(&mut self, now: Micros, out: &mut Vec<Release>) {
        match self {
            Self::ThunderAgent(p) => p.relieve(now, out),
            // A worker without turns takes the next one in any case.
            Self::None(_) | Self::Lease(_) => {}
        }
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

    /// Of the tokens that count on `worker`, those of idle programs that keep their room for a lease.
    #[must_use]
    pub fn leased(&self, worker: WorkerId) -> u64 {
        match self {
            Self::None(_) | Self::ThunderAgent(_) => 0,
            Self::Lease(p) => p.room(worker).leased,
        }
    }

    /// Who goes before a held turn, of all that wait for room; for a turn behind a running one of its
    /// own program, of those in that queue. `None` when it is not held.
    #[must_use]
    pub fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        each!(self, p => p.ahead(ticket))
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
