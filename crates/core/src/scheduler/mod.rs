//! The one facade: composes the rooms in the order of a turn's way.
//!
//! submit: hash -> find the session -> continuity picks the target -> admission says go or hold ->
//! overlap, load and score pick the worker -> receipt. Every call takes the time, runs the timers
//! that are due before it, and appends the holds that it settled to the caller's list; afterwards
//! [`Scheduler::next_wake`] says when to call [`Scheduler::advance`] if nothing else happens.
//!
//! The facade only sequences. A turn costs O(its blocks + the workers of its group); nothing on its
//! way scans sessions, turns or the blocks of a worker.
mod agreement;
mod choosing;
mod config;
mod departures;
mod events;
mod fan_out;
mod feed;
mod fleet;
mod gate;
mod hashing;
mod homes;
mod listener;
mod pace;
mod paths;
mod place;
mod pools;
mod recall;
mod record;
mod rendered;
mod reroute;
mod reservation;
mod restore;
mod scoring;
mod settle;
mod snapshot;
mod standing;
mod stays;
mod submit;
mod tally;
mod timing;
mod tools;
mod topology;
mod turn;
mod waiting;

use std::collections::VecDeque;

pub use agreement::Disagreement;
pub use config::{
    AdmissionConfig, Config, FanOutConfig, GroupOptions, Limits, UNKNOWN_TTL, WorkerOptions,
};
pub use departures::{Departure, Leaving};
pub use events::FeedOptions;
pub use feed::MAX_RANKS;
pub use gate::Held;
pub use paths::Sharing;
pub use pools::{PoolOptions, PoolStatus};
pub use recall::Recalled;
pub use record::{derived_hash, derived_name};
pub use reroute::Fault;
pub use scoring::recompute;
pub use settle::Found;
pub use snapshot::Snapshot;
pub use tally::{CHURN_STEPS, Churn, HOLD_STEPS, HoldEnd, Tally};

pub use topology::{CacheScope, Health, SharedBy, Target, Topology, Worker};
pub use turn::{
    Behind, Completion, Ids, Outcome, Placement, Prompt, Segment, SegmentKind, Settled, Submitted,
    Turn, TurnKind, Verdict,
};

use crate::admission::{Admission, Gates};
use crate::affinity::Homes;
use crate::block::Chain;
use crate::continuity::{Chooser, IdKind, Owner, Owners};
use crate::error::{Error, Result};
use crate::hint::Hint;
use crate::id::{GroupId, Micros, PlaceId, ProgramId, ReservationId, WorkerId};
use crate::load::LoadLedger;
use crate::prefix::PrefixIndex;
use crate::receipt::{Receipt, Ring};
use crate::rendering::Renderings;
use crate::score::pace::{self as worker_pace, Paces};
use crate::score::{TieBreaker, patience};
use crate::session::SessionRegistry;

use departures::Departures;
use fan_out::FanOut;
use homes::Looks;
use pace::Pace;
use paths::Paths;
use reservation::{Reservations, State};
use scoring::Scratch;

/// Decides where turns run.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    now: Micros,
    topology: Topology,
    admission: Vec<Admission>,
    /// By group; absent where everything is allowed.
    gates: Vec<Option<Box<Gates>>>,
    /// By group.
    paces: Vec<Pace>,
    sessions: SessionRegistry,
    owners: Owners,
    chooser: Chooser,
    prefix: PrefixIndex,
    paths: Paths,
    homes: Homes,
    looks: Looks,
    departures: Departures,
    fan_out: FanOut,
    load: LoadLedger,
    /// What workers' turns have taught of their times.
    learnt: Paces,
    reservations: Reservations,
    deadlines: VecDeque<(Micros, ReservationId)>,
    /// Until when each turn that waits for an owner does so; some may have stopped.
    waits: VecDeque<(Micros, ReservationId)>,
    receipts: Ring,
    renderings: Renderings,
    ties: TieBreaker,
    scratch: Scratch,
    counters: Counters,
    tally: Tally,
    /// What engines should be told since the present call began.
    hints: Vec<Hint>,
    stray_events: u64,
    /// Snapshots begun or read; the last one begun is the only one that can go on.
    snapshots: u64,
}

/// How much earlier a time may be than the latest one without being a step of the clock: threads
/// read the time before they wait for each other.
const LATE_READING: Micros = Micros::from_secs(1);

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns submitted and accepted.
    pub submitted: u64,
    /// Turns that were held first.
    pub held: u64,
    /// Turns that came to their end.
    pub completed: u64,
    /// Turns that were cancelled or failed.
    pub cancelled: u64,
    /// Turns that were sent to another worker after a failure.
    pub rerouted: u64,
    /// Calls about a turn that had ended already.
    pub late_calls: u64,
    /// Times that went backwards by more than threads may overtake each other.
    pub clock_steps_back: u64,
}

impl Counters {
    fn list(&self) -> [u64; 7] {
        [
            self.submitted,
            self.held,
            self.completed,
            self.cancelled,
            self.rerouted,
            self.late_calls,
            self.clock_steps_back,
        ]
    }

    fn of(list: [u64; 7]) -> Self {
        let [
            submitted,
            held,
            completed,
            cancelled,
            rerouted,
            late_calls,
            clock_steps_back,
        ] = list;
        Self {
            submitted,
            held,
            completed,
            cancelled,
            rerouted,
            late_calls,
            clock_steps_back,
        }
    }
}

impl Scheduler {
    /// A scheduler without workers.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the setting and what is allowed.
    pub fn new(config: Config) -> Result<Self> {
        if !config.temperature.is_finite() || config.temperature < 0.0 {
            return Err(Error::invalid_argument(
                "temperature must be a finite number of at least 0",
            ));
        }
        config.score.validate()?;
        config.admission.policy(&config.weights)?;
        config.gates.gates(&config.queue, &config.weights)?;
        patience::validate(config.patience)?;
        worker_pace::validate(config.pace)?;
        if let Some(fan_out) = &config.fan_out {
            fan_out.validate()?;
        }
        Ok(Self {
            now: Micros::default(),
            topology: Topology::default(),
            admission: Vec::new(),
            gates: Vec::new(),
            paces: Vec::new(),
            sessions: SessionRegistry::new(config.limits.sessions),
            owners: Owners::new(config.limits.owners),
            chooser: Chooser::new(config.continuity)?,
            prefix: PrefixIndex::new(config.limits.blocks),
            paths: Paths::default(),
            homes: Homes::default(),
            looks: Looks::default(),
            departures: Departures::default(),
            fan_out: FanOut::default(),
            load: LoadLedger::default(),
            learnt: Paces::new(config.pace),
            reservations: Reservations::default(),
            deadlines: VecDeque::new(),
            waits: VecDeque::new(),
            receipts: Ring::new(config.limits.receipts),
            renderings: Renderings::new(config.limits.answer_tokens),
            ties: TieBreaker::new(config.seed),
            scratch: Scratch::default(),
            counters: Counters::default(),
            tally: Tally::default(),
            hints: Vec::new(),
            stray_events: 0,
            snapshots: 0,
            config,
        })
    }

    /// Forgets a session by its name, or by what [`derived_name`] calls it: it has ended. A turn of
    /// it in flight goes on.
    pub fn end_session(
        &mut self,
        now: Micros,
        tenant: &str,
        name: &str,
        settled: &mut Vec<Settled>,
    ) {
        self.advance(now, settled);
        let named = self.sessions.by_name(tenant, name);
        let derived = || self.sessions.by_derived(tenant, derived_hash(name)?);
        if let Some(id) = named.or_else(derived) {
            let mut left = Vec::new();
            self.sessions.remove(id, &mut left);
            self.forget_programs(&left);
            for group in 0..self.admission.len() {
                self.release(group, Vec::new(), settled);
            }
        }
    }

    /// Runs the timers that are due.
    pub fn advance(&mut self, now: Micros, settled: &mut Vec<Settled>) {
        self.set_time(now);
        self.hints.clear();
        self.prefix.expire(self.now);
        self.forget_idle();
        for group in 0..self.admission.len() {
            let due = self.admission[group].next_wake();
            let gates = self.gates[group].as_ref();
            let opens = gates.and_then(|gates| gates.next_wake());
            if due.into_iter().chain(opens).any(|due| due <= self.now) {
                let mut releases = Vec::new();
                self.pass_time(group);
                self.admission[group].advance(self.now, &mut releases);
                self.release(group, releases, settled);
            }
        }
        self.look_at_homes(settled);
        self.end_departures(settled);
        self.expire_follows(settled);
        self.expire_holds(settled);
        self.expire_waits(settled);
    }

    /// When [`Scheduler::advance`] has something to do; `None` when only another call can change
    /// anything.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        let policies = self.admission.iter().filter_map(Admission::next_wake);
        let gates = self.gates.iter().flatten();
        let opens = gates.filter_map(|gates| gates.next_wake());
        let policies = policies.chain(opens).min();
        let deadline = self.deadlines.front().map(|&(at, _)| at);
        let wait = self.next_wait();
        let departure = self.next_departure();
        let follow = self.next_follow();
        let own = deadline
            .into_iter()
            .chain(wait)
            .chain(departure)
            .chain(follow)
            .chain(self.looks.due());
        policies.into_iter().chain(own).min()
    }

    /// The receipt with this number, unless it has left the ring.
    #[must_use]
    pub fn receipt(&self, id: u64) -> Option<&Receipt> {
        self.receipts.get(id)
    }

    /// What engines should be told of their caches after the last call; nobody has to.
    #[must_use]
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// Who was given this piece of provider state to keep; the worker or the target may have been
    /// removed meanwhile.
    #[must_use]
    pub fn state_owner(&self, tenant: &str, state: &[u8]) -> Option<Owner> {
        self.owners.find(tenant, IdKind::State, state)
    }

    /// Who issued a tool call.
    #[must_use]
    pub fn tool_owner(&self, tenant: &str, call: &[u8]) -> Option<Owner> {
        self.owners.find(tenant, IdKind::ToolCall, call)
    }

    /// The fleet.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Admission's number for the branch that a turn belongs to, while the turn lives.
    #[must_use]
    pub fn program_of(&self, id: ReservationId) -> Option<ProgramId> {
        self.reservations.get(id)?.program
    }

    /// Whether the turn waits for admission.
    #[must_use]
    pub fn is_held(&self, id: ReservationId) -> bool {
        let turn = self.reservations.get(id);
        turn.is_some_and(|turn| turn.state == State::Held)
    }

    /// The blocks of a turn that is in flight or held.
    #[must_use]
    pub fn chain(&self, id: ReservationId) -> Option<&Chain> {
        self.reservations.get(id).map(|turn| &turn.chain)
    }

    /// The group's admission, for a look.
    #[must_use]
    pub fn admission(&self, group: GroupId) -> Option<&Admission> {
        self.admission.get(group.index())
    }

    /// The prefix index, for a look.
    #[must_use]
    pub fn prefix(&self) -> &PrefixIndex {
        &self.prefix
    }

    /// What is in flight, for a look.
    #[must_use]
    pub fn load(&self) -> &LoadLedger {
        &self.load
    }

    /// The place of a worker's device cache in the prefix index.
    #[must_use]
    pub fn place_of(&self, worker: WorkerId) -> Option<PlaceId> {
        self.topology.worker(worker).ok().map(|worker| worker.place)
    }

    /// Figures for an operator.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            now: self.now,
            sessions: self.sessions.len(),
            sessions_evicted: self.sessions.evicted(),
            reservations: self.reservations.len(),
            holds: self.reservations.held(),
            paused: self.admission.iter().map(Admission::paused).sum(),
            owners: self.owners.len(),
            owners_forgotten: self.owners.forgotten(),
            receipts: self.receipts.len(),
            idle: self.sessions.idle(),
            counters: self.counters,
            stray_events: self.stray_events,
        }
    }

    fn set_time(&mut self, now: Micros) {
        if now.plus(LATE_READING) < self.now {
            self.counters.clock_steps_back += 1;
        }
        self.now = self.now.max(now);
        self.listener().note_evicted();
    }

    fn forget_idle(&mut self) {
        let mut left = Vec::new();
        self.sessions
            .expire(self.now, self.config.limits.session_idle, &mut left);
        self.forget_programs(&left);
    }

    fn forget_programs(&mut self, programs: &[ProgramId]) {
        for &program in programs {
            self.paths.leave(&mut self.prefix, program);
            self.homes.leave(program);
            self.chooser.end(program);
            self.tally.forget(program);
            for gates in self.gates.iter_mut().flatten() {
                gates.end_program(program);
            }
            for admission in &mut self.admission {
                admission.end_program(self.now, program);
                admission.take_hints(&mut self.hints);
            }
        }
    }
}

/// Figures for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The scheduler's time.
    pub now: Micros,
    /// Live sessions.
    pub sessions: usize,
    /// Of these, without a turn that runs or waits.
    pub idle: usize,
    /// Sessions forgotten because there were too many.
    pub sessions_evicted: u64,
    /// Turns in flight and held.
    pub reservations: usize,
    /// Of these, held.
    pub holds: usize,
    /// Programs that admission has paused.
    pub paused: usize,
    /// Ids whose owner is known.
    pub owners: usize,
    /// Ids forgotten because there were too many.
    pub owners_forgotten: u64,
    /// Receipts kept.
    pub receipts: usize,
    /// What has happened so far.
    pub counters: Counters,
    /// Events of a worker or rank that is not told of by events (any more).
    pub stray_events: u64,
}

#[cfg(test)]
mod tests;
