//! The one facade: composes the rooms in the order of a turn's way.
//!
//! submit: hash -> find the session -> continuity picks the target -> admission says go or hold ->
//! overlap, load and score pick the worker -> receipt. Every call takes the time, runs the timers
//! that are due before it, and appends the holds that it settled to the caller's list; afterwards
//! [`Scheduler::next_wake`] says when to call [`Scheduler::advance`] if nothing else happens.
//!
//! The facade only sequences. A turn costs O(its blocks + the workers of its group); nothing on its
//! way scans sessions, turns or the blocks of a worker.
mod config;
mod place;
mod reservation;
mod settle;
mod topology;
mod turn;

use std::collections::VecDeque;

pub use config::{AdmissionConfig, Config, GroupOptions, Limits, UNKNOWN_TTL, WorkerOptions};
pub use place::{derived_name, recompute};
pub use settle::Found;
pub use topology::{Health, Target, Topology, Worker};
pub use turn::{
    Completion, Ids, Outcome, Placement, Prompt, Segment, SegmentKind, Settled, Submitted, Turn,
    TurnKind, Verdict,
};

use crate::admission::{self, Admission, Release};
use crate::block::{self, Chain, Seed};
use crate::continuity::{self, Evidence, IdKind, Owner, Owners};
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, PlaceId, ProgramId, ReservationId, TargetId, WorkerId};
use crate::load::LoadLedger;
use crate::prefix::{PlaceOptions, PrefixIndex, Tier};
use crate::receipt::{Candidate, Receipt, Ring, Volatile};
use crate::score::TieBreaker;
use crate::session::{Claim, SessionId, SessionName, SessionRegistry};

use place::Scratch;
use reservation::{Notes, Reservation, Reservations, State};

/// Decides where turns run.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    now: Micros,
    topology: Topology,
    admission: Vec<Admission>,
    sessions: SessionRegistry,
    owners: Owners,
    prefix: PrefixIndex,
    load: LoadLedger,
    reservations: Reservations,
    deadlines: VecDeque<(Micros, ReservationId)>,
    receipts: Ring,
    ties: TieBreaker,
    scratch: Scratch,
    counters: Counters,
}

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
    /// Times that went backwards.
    pub clock_steps_back: u64,
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
        config.admission.policy()?;
        Ok(Self {
            now: Micros::default(),
            topology: Topology::default(),
            admission: Vec::new(),
            sessions: SessionRegistry::new(config.limits.sessions),
            owners: Owners::new(config.limits.owners),
            prefix: PrefixIndex::new(config.limits.blocks),
            load: LoadLedger::default(),
            reservations: Reservations::default(),
            deadlines: VecDeque::new(),
            receipts: Ring::new(config.limits.receipts),
            ties: TieBreaker::new(config.seed),
            scratch: Scratch::default(),
            counters: Counters::default(),
            config,
        })
    }

    /// Adds an empty group.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a block of no tokens.
    pub fn add_group(&mut self, now: Micros, options: GroupOptions) -> Result<GroupId> {
        self.set_time(now);
        let id = self.topology.add_group(options)?;
        self.admission.push(self.config.admission.policy()?);
        Ok(id)
    }

    /// Adds a target that `group` serves.
    ///
    /// # Errors
    /// `DUPLICATE_ID`, `UNKNOWN_ID`, `INVALID_ARGUMENT`.
    pub fn add_target(&mut self, name: &str, group: GroupId) -> Result<TargetId> {
        self.topology.add_target(name, group)
    }

    /// Adds a worker; turns may go to it at once.
    ///
    /// # Errors
    /// `DUPLICATE_ID`, `UNKNOWN_ID`, `INVALID_ARGUMENT`.
    pub fn add_worker(
        &mut self,
        now: Micros,
        options: WorkerOptions,
        settled: &mut Vec<Settled>,
    ) -> Result<WorkerId> {
        self.advance(now, settled);
        let worker = Worker {
            name: options.name,
            group: options.group,
            health: Health::Up,
            capacity_tokens: options.capacity_tokens,
            place: PlaceId::default(),
        };
        let ttl = self
            .topology
            .groups
            .get(options.group.index())
            .and_then(|group| group.ttl)
            .or(options.capacity_tokens.is_none().then_some(UNKNOWN_TTL));
        let prefix = &mut self.prefix;
        let id = self.topology.add_worker(worker, |id| {
            let place = PlaceOptions {
                capacity_tokens: options.capacity_tokens,
                ttl,
            };
            prefix.add_place(id, 0, Tier::Device, place)
        })?;
        self.load.add_worker(id);
        self.fleet_changed(options.group, settled);
        Ok(id)
    }

    /// Says whether a worker takes turns. `Removed` forgets its cache and its load as well; turns
    /// that it still answers end as usual.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more).
    pub fn set_health(
        &mut self,
        now: Micros,
        id: WorkerId,
        health: Health,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        self.advance(now, settled);
        self.topology.set_health(id, health)?;
        let (group, place) = {
            let worker = self.topology.worker(id)?;
            (worker.group, worker.place)
        };
        if health == Health::Removed {
            self.prefix.remove_place(place);
            self.load.remove_worker(id);
        }
        self.fleet_changed(group, settled);
        Ok(())
    }

    /// Takes a turn in and decides between go and hold.
    ///
    /// # Errors
    /// `NO_WORKER`, `OWNER_UNAVAILABLE`, `TOO_MANY_RESERVATIONS`, `INVALID_ARGUMENT`, `UNKNOWN_ID`.
    /// The turn then occupies nothing.
    pub fn submit(
        &mut self,
        now: Micros,
        turn: &Turn<'_>,
        settled: &mut Vec<Settled>,
    ) -> Result<Submitted> {
        self.advance(now, settled);
        self.check(turn)?;
        let mut chain = self.reservations.spare_chain();
        let hashed = self.hash(turn, &mut chain);
        let admitted = hashed.and_then(|volatile| self.admit(turn, &mut chain, volatile, settled));
        if admitted.is_err() {
            self.reservations.recycle_chain(chain);
        }
        admitted
    }

    /// Every worker that could take the turn now, the cheapest first, without taking it. Costs what
    /// a submit costs.
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    pub fn candidates(
        &mut self,
        now: Micros,
        turn: &Turn<'_>,
        settled: &mut Vec<Settled>,
    ) -> Result<(TargetId, Vec<Candidate>)> {
        self.advance(now, settled);
        self.check(turn)?;
        let mut chain = self.reservations.spare_chain();
        let found = self.hash(turn, &mut chain).and_then(|_| {
            let session = self.known_session(turn, chain.hashes());
            let choice = self.choose(turn, session)?;
            let group = self.topology.target(choice.target)?.group;
            self.score(
                group,
                &chain,
                &place::Wanted::pinned(choice.pin.or(turn.pin)),
            );
            let mut rows = self.scratch.candidates().to_vec();
            rows.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.worker.cmp(&b.worker)));
            Ok((choice.target, rows))
        });
        self.reservations.recycle_chain(chain);
        found
    }

    /// Forgets a session: it has ended. A turn of it in flight goes on.
    pub fn end_session(
        &mut self,
        now: Micros,
        tenant: &str,
        name: &str,
        settled: &mut Vec<Settled>,
    ) {
        self.advance(now, settled);
        if let Some(id) = self.sessions.by_name(tenant, name) {
            let mut left = Vec::new();
            self.sessions.remove(id, &mut left);
            self.forget_programs(&left);
        }
    }

    /// Runs the timers that are due.
    pub fn advance(&mut self, now: Micros, settled: &mut Vec<Settled>) {
        self.set_time(now);
        self.prefix.expire(self.now);
        let mut left = Vec::new();
        self.sessions
            .expire(self.now, self.config.limits.session_idle, &mut left);
        self.forget_programs(&left);
        for group in 0..self.admission.len() {
            let due = self.admission[group].next_wake();
            if due.is_some_and(|due| due <= self.now) {
                let mut releases = Vec::new();
                self.admission[group].advance(self.now, &mut releases);
                self.release(group, releases, settled);
            }
        }
        self.expire_holds(settled);
    }

    /// When [`Scheduler::advance`] has something to do; `None` when only another call can change
    /// anything.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        let policies = self.admission.iter().filter_map(Admission::next_wake).min();
        let deadline = self.deadlines.front().map(|&(at, _)| at);
        policies.into_iter().chain(deadline).min()
    }

    /// The receipt with this number, unless it has left the ring.
    #[must_use]
    pub fn receipt(&self, id: u64) -> Option<&Receipt> {
        self.receipts.get(id)
    }

    /// Who keeps this piece of provider state.
    #[must_use]
    pub fn state_owner(&self, tenant: &str, state: &[u8]) -> Option<Owner> {
        self.owners.find(tenant, IdKind::State, state)
    }

    /// The fleet.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The place of a held turn in the order in which it would go, from 1. O(turns held).
    #[must_use]
    pub fn hold_position(&self, id: ReservationId) -> Option<usize> {
        let reservation = self.reservations.get(id)?;
        self.admission[reservation.group.index()].position(id)
    }

    /// Whether the turn waits for admission.
    #[must_use]
    pub fn is_held(&self, id: ReservationId) -> bool {
        let turn = self.reservations.get(id);
        turn.is_some_and(|turn| turn.state == State::Held)
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

    /// The sessions, for a look.
    #[must_use]
    pub fn sessions(&self) -> &SessionRegistry {
        &self.sessions
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
            receipts: self.receipts.len(),
            counters: self.counters,
        }
    }

    fn set_time(&mut self, now: Micros) {
        if now < self.now {
            self.counters.clock_steps_back += 1;
        }
        self.now = self.now.max(now);
    }

    fn check(&self, turn: &Turn<'_>) -> Result<()> {
        if turn.targets.is_empty() {
            return Err(Error::invalid_argument("the turn names no target"));
        }
        for &target in turn.targets {
            self.topology.target(target)?;
        }
        if self.reservations.len() >= self.config.limits.reservations {
            return Err(Error::too_many_reservations(format!(
                "{} turns are in flight or held, which is the limit",
                self.reservations.len()
            )));
        }
        Ok(())
    }

    /// Cuts the prompt into blocks as the first target asked for would; the hashes do not depend on
    /// the target, only the estimated lengths do.
    fn hash(&mut self, turn: &Turn<'_>, chain: &mut Chain) -> Result<Option<Volatile>> {
        let group = self.topology.target(turn.targets[0])?.group;
        let group = &self.topology.groups[group.index()];
        let seed = Seed::default();
        match turn.prompt {
            Prompt::Tokens(ids) => block::hash_tokens(ids, group.block_tokens, seed, chain),
            Prompt::Hashes { hashes, tokens } => {
                block::hash_content(hashes, group.block_tokens, tokens, seed, chain);
            }
            Prompt::Text { bytes, segments } => {
                let total = segments.iter().map(|s| s.bytes as usize).sum();
                let covered = bytes.get(..total).ok_or_else(|| {
                    Error::invalid_argument("the segments are longer than the text")
                })?;
                let lengths = &mut self.scratch.lengths;
                lengths.clear();
                lengths.extend(segments.iter().map(|s| s.bytes));
                block::hash_text(covered, lengths, group.rate, seed, chain);
                return Ok(place::first_volatile(segments, group.rate));
            }
        }
        Ok(None)
    }

    fn admit(
        &mut self,
        turn: &Turn<'_>,
        chain: &mut Chain,
        volatile: Option<Volatile>,
        settled: &mut Vec<Settled>,
    ) -> Result<Submitted> {
        let known = self.known_session(turn, chain.hashes());
        let choice = self.choose(turn, known)?;
        let target = self.topology.target(choice.target)?;
        let group = target.group;
        let pin = choice.pin.or(turn.pin);
        if let Some(pin) = pin
            && !continuity::Fleet::worker_can_serve(&self.topology, choice.target, pin)
        {
            return Err(Error::no_worker("the worker asked for cannot take turns"));
        }
        let membership = self.join(turn, chain.hashes(), &choice);
        let id = self.reservations.next_id();
        let coverage = self.reservations.spare_coverage();
        let prompt_tokens = chain.tokens();
        let is_locked = choice.note.lock != continuity::Lock::Free;
        self.reservations.insert(
            id,
            Reservation {
                session: membership.session,
                program: membership.program,
                kind: turn.kind,
                target: choice.target,
                group,
                alternatives: alternatives(turn, choice.target, is_locked),
                pin,
                excluded: Vec::new(),
                chain: std::mem::take(chain),
                coverage,
                text_bytes: text_bytes(turn),
                since: self.now,
                notes: Notes {
                    lock: choice.note,
                    is_detour: choice.is_detour,
                    was_held: false,
                    volatile,
                },
                state: State::Held,
            },
        );
        self.counters.submitted += 1;
        let verdict = self.ask_admission(id, settled)?;
        let derived = self.sessions.get(membership.session).map(|s| s.name());
        Ok(Submitted {
            reservation: id,
            target: choice.target,
            lock: choice.note.lock,
            prompt_tokens,
            derived: match derived {
                Some(&SessionName::Derived(hash)) => Some(hash),
                _ => None,
            },
            program: membership.program.map(|program| program.0),
            verdict,
        })
    }

    /// Hands a turn that has been taken in to its group's admission.
    fn ask_admission(&mut self, id: ReservationId, settled: &mut Vec<Settled>) -> Result<Verdict> {
        let mut releases = Vec::new();
        self.begin_admission(id, &mut releases);
        let own = releases.iter().position(|release| release.ticket == id);
        let own = own.map(|index| releases.remove(index));
        let verdict = match own {
            Some(release) => match self.place(id, release.worker) {
                Ok(placement) => Ok(Verdict::Go(placement)),
                Err(error) => {
                    self.abandon(id, settled);
                    Err(error)
                }
            },
            None => {
                self.counters.held += 1;
                if let Some(turn) = self.reservations.get_mut(id) {
                    turn.notes.was_held = true;
                }
                if let Some(limit) = self.config.hold_limit {
                    self.deadlines.push_back((self.now.plus(limit), id));
                }
                Ok(Verdict::Hold)
            }
        };
        let group = self.reservations.get(id).map(|r| r.group.index());
        if let Some(group) = group {
            self.release(group, releases, settled);
        }
        verdict
    }

    fn begin_admission(&mut self, id: ReservationId, releases: &mut Vec<Release>) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let Some(program) = reservation.program else {
            releases.push(Release {
                ticket: id,
                worker: reservation.pin,
            });
            return;
        };
        let begin = admission::Begin {
            ticket: id,
            program,
            prompt_tokens: reservation.chain.tokens(),
            kind: match reservation.kind {
                TurnKind::Ordinary => admission::Kind::Turn,
                TurnKind::Final => admission::Kind::Final,
            },
            pin: reservation.pin,
        };
        self.admission[reservation.group.index()].begin(self.now, begin, releases);
    }

    fn known_session(&mut self, turn: &Turn<'_>, chain: &[u64]) -> Option<SessionId> {
        let identity = self.scratch.identity_chain(turn, chain);
        self.sessions.find(claim(turn), identity)
    }

    fn choose(&self, turn: &Turn<'_>, session: Option<SessionId>) -> Result<continuity::Choice> {
        let mut evidence = Evidence::default();
        for id in turn.tool_results.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::ToolCall, id);
            evidence.tool_result(owner, turn.targets);
        }
        for id in turn.state.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::State, id);
            evidence.state(owner, turn.targets);
        }
        let binding = session
            .and_then(|id| self.sessions.get(id))
            .and_then(|session| session.binding);
        continuity::choose(turn.targets, evidence, binding, &self.topology)
    }

    /// Counts the turn in its session and binds the session to its target.
    fn join(
        &mut self,
        turn: &Turn<'_>,
        chain: &[u64],
        choice: &continuity::Choice,
    ) -> crate::session::Membership {
        let mut left = Vec::new();
        let identity = self.scratch.identity_chain(turn, chain);
        let membership = self
            .sessions
            .begin(self.now, claim(turn), identity, &mut left);
        left.extend(membership.replaced);
        self.forget_programs(&left);
        if !choice.is_detour
            && let Some(session) = self.sessions.get_mut(membership.session)
        {
            session.binding = Some(choice.target);
        }
        membership
    }

    fn forget_programs(&mut self, programs: &[ProgramId]) {
        for &program in programs {
            for admission in &mut self.admission {
                admission.end_program(self.now, program);
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
    /// Receipts kept.
    pub receipts: usize,
    /// What has happened so far.
    pub counters: Counters,
}

/// How the turn says who it belongs to.
fn claim<'a>(turn: &Turn<'a>) -> Claim<'a> {
    Claim {
        tenant: turn.tenant,
        session: turn.session,
        parent: turn.parent,
    }
}

/// The targets that may take over from the one chosen.
fn alternatives(turn: &Turn<'_>, chosen: TargetId, is_locked: bool) -> Vec<TargetId> {
    if is_locked || turn.targets.len() < 2 {
        return Vec::new();
    }
    let others = turn.targets.iter().copied();
    others.filter(|&target| target != chosen).collect()
}

/// Bytes of canonical text in the prompt; 0 where the caller brought tokens or hashes.
fn text_bytes(turn: &Turn<'_>) -> u32 {
    match turn.prompt {
        Prompt::Text { segments, .. } => segments
            .iter()
            .fold(0u32, |sum, segment| sum.saturating_add(segment.bytes)),
        Prompt::Tokens(_) | Prompt::Hashes { .. } => 0,
    }
}

#[cfg(test)]
mod tests;
