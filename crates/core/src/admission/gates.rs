//! Has any worker a place for this turn, counted in turns and sessions?
//!
//! Stands before the policy, whichever it is: a turn for which every worker that may take it is shut
//! waits here, in the order of [`super::queue`], and the policy does not hear of it. A worker is shut
//! while it runs as many turns as are allowed, and to a session that it does not keep while it keeps as
//! many as are allowed. What is shut is left out before anybody chooses, and looked at again for each
//! decision: nothing is marked that somebody would have to clear.
//!
//! * A worker **keeps** a session from the first turn that goes there until the session ends, goes
//!   elsewhere, or has been idle for a time while somebody waits for its place. Each branch of a
//!   session that runs beside the others counts, since it has a context of its own.
//! * A session that is kept passes; it waits for a running turn to end at most. It may also go to
//!   another worker that is open to anybody.
//! * A worker whose sessions **leave** counts for the turns that may still go there: those that are
//!   pinned to it, and those of a session that stays on it for now.
//! * A worker that runs nothing of ours takes a turn whatever others do there.
//! * A turn that the policy has let go while everything was shut waits here too, and then goes. One that it
//!   has let go to a worker which runs as many turns as are allowed waits for that one, where its session is
//!   kept from then on.
//!
//! What runs is read from the load ledger. O(log waiting) a call, and O(workers) when a turn waits or
//! somebody is let go. Holds what its turns and kept sessions are, nothing else.
use hashbrown::{HashMap, HashSet};

use super::fair::{Ahead, Claimant, Weights};
use super::queue::{ClassState, Entrant, Queue, QueueConfig};
use super::refusal::Refusal;
use crate::load::LoadLedger;
use crate::{Error, Micros, ProgramId, ReservationId, Result, WorkerId};

mod desks;
mod homebound;

use desks::{Desks, Lane};
use homebound::Homebound;

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// Turns that a worker runs at once. Above 0; `None`: any number.
    pub max_running: Option<u32>,
    /// Sessions that a worker keeps. Above 0; `None`: any number.
    pub max_sessions: Option<u32>,
    /// A session that has been idle for so long gives its place to one that waits. Above 0.
    pub session_idle: Micros,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            max_running: None,
            max_sessions: None,
            session_idle: Micros::from_secs(60),
        }
    }
}

impl GateConfig {
    /// The gates of a group; `None` where everything is allowed.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a setting of 0, and for a queue that [`QueueConfig`] does not allow.
    pub(crate) fn gates(
        &self,
        queue: &QueueConfig,
        weights: &Weights,
    ) -> Result<Option<Box<Gates>>> {
        queue.check()?;
        let is_zero = |most: Option<u32>| most == Some(0);
        if is_zero(self.max_running) || is_zero(self.max_sessions) || self.session_idle == Micros(0)
        {
            return Err(Error::invalid_argument(
                "max_running, max_sessions and session_idle must be above 0",
            ));
        }
        let is_open = self.max_running.is_none() && self.max_sessions.is_none();
        Ok((!is_open).then(|| Box::new(Gates::new(*self, queue.clone(), weights))))
    }
}

/// A turn before the gates.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Whose it is; `None` is of no session that is kept account of.
    pub program: Option<ProgramId>,
    /// The only worker that may take it, if there is such a one.
    pub pin: Option<WorkerId>,
    /// The worker that it waits for as if pinned to it, while that takes it.
    pub home: Option<WorkerId>,
    /// The worker that its session may stay on, though others leave it; `None` without a session.
    pub bound: Option<WorkerId>,
    /// For whom it asks.
    pub claimant: Claimant,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    arrival: Arrival,
    /// Where it runs.
    sent: Option<WorkerId>,
    clearance: Clearance,
    /// When it first waited here.
    held: Option<Micros>,
}

/// What the policy has said of a turn that waits here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearance {
    /// It has not been asked.
    None,
    /// The turn may go.
    Anywhere,
    /// It may go to that worker.
    To(WorkerId),
}

/// Whom the gates would let go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The turn.
    pub ticket: ReservationId,
    /// What has to be computed for it decides its place, and was counted long ago.
    pub is_stale: bool,
}

/// The gates of one group.
#[derive(Debug)]
pub struct Gates {
    desks: Desks,
    turns: HashMap<ReservationId, Turn>,
    queue: Queue<Lane>,
    /// Those in the queue that wait for their home as long as it is one.
    homebound: Homebound,
    /// No worker was open to the turn that the policy wanted to look at last.
    is_policy_blocked: bool,
}

impl Gates {
    /// Gates before no worker.
    #[must_use]
    pub fn new(config: GateConfig, queue: QueueConfig, weights: &Weights) -> Self {
        Self {
            desks: Desks::new(config),
            turns: HashMap::new(),
            queue: Queue::new(queue, weights),
            homebound: Homebound::default(),
            is_policy_blocked: false,
        }
    }

    /// Notes the time, which never goes back.
    pub fn advance(&mut self, now: Micros) {
        let now = self.desks.advance(now);
        self.queue.age(now);
    }

    /// A turn has come. Of a ticket that is known already only where it may stay can be new.
    pub fn begin(&mut self, now: Micros, ticket: ReservationId, arrival: Arrival) {
        self.advance(now);
        if self.turns.contains_key(&ticket) {
            return self.rebind(ticket, arrival.bound);
        }
        let turn = Turn {
            arrival,
            sent: None,
            clearance: Clearance::None,
            held: None,
        };
        self.turns.insert(ticket, turn);
        if let Some(program) = arrival.program {
            self.desks.come(program);
        }
    }

    /// The worker that the turn's session may stay on is this one now.
    pub fn rebind(&mut self, ticket: ReservationId, bound: Option<WorkerId>) {
        let Some(turn) = self.turns.get_mut(&ticket) else {
            return;
        };
        turn.arrival.bound = bound;
        let arrival = turn.arrival;
        self.queue.move_to(ticket, self.desks.lane(&arrival));
    }

    /// The turn waits for this worker as if it were pinned to it, for as long as that takes it; `None`: for
    /// any, as long as it has waited.
    pub fn set_home(&mut self, ticket: ReservationId, home: Option<WorkerId>) {
        let Some(turn) = self.turns.get_mut(&ticket) else {
            return;
        };
        let before = std::mem::replace(&mut turn.arrival.home, home);
        let turn = *turn;
        if let Some(before) = before {
            self.homebound.remove(before, ticket);
        }
        if self.queue.contains(ticket) {
            self.note_home(ticket, &turn);
            self.queue.move_to(ticket, self.desks.lane(&turn.arrival));
        }
    }

    /// Notes that a turn in the queue waits for its home. One that the policy has sent to a worker waits for
    /// that, whatever its cache has.
    fn note_home(&mut self, ticket: ReservationId, turn: &Turn) {
        match (turn.arrival.home, turn.clearance) {
            (Some(home), Clearance::To(_)) => self.homebound.remove(home, ticket),
            (Some(home), _) => self.homebound.insert(home, ticket),
            (None, _) => {}
        }
    }

    /// The worker's cache may have nothing any more: those that wait for it as their home are to be
    /// [looked at](Self::homebound) first.
    pub fn doubt_home(&mut self, home: WorkerId) {
        self.homebound.doubt(home);
    }

    /// At most `most` turns that wait for their home, to be looked at whether it still is one: those of homes
    /// in doubt, then the others in turn.
    #[must_use]
    pub fn homebound(&mut self, most: usize) -> Vec<ReservationId> {
        self.homebound.take(most)
    }

    /// Whether somebody waits for a home here.
    #[must_use]
    pub fn has_homebound(&self) -> bool {
        !self.homebound.is_empty()
    }

    /// Whether somebody waits for a home that is in doubt, and has not been looked at since.
    #[must_use]
    pub fn doubts_homes(&self) -> bool {
        self.homebound.is_doubting()
    }

    /// The worker that the turn waits for as if it were pinned to it.
    #[must_use]
    pub fn home(&self, ticket: ReservationId) -> Option<WorkerId> {
        self.turns.get(&ticket)?.arrival.home
    }

    /// Whether the turn has to wait here.
    #[must_use]
    pub fn must_wait(&self, ticket: ReservationId, load: &LoadLedger) -> bool {
        let Some(turn) = self.turns.get(&ticket) else {
            return false;
        };
        let lane = self.desks.lane(&turn.arrival);
        self.queue.has(lane) || !self.desks.is_lane_open(lane, load)
    }

    /// Whether some worker is open to a turn that has passed.
    #[must_use]
    pub fn is_open(&self, ticket: ReservationId, load: &LoadLedger) -> bool {
        let turn = self.turns.get(&ticket);
        turn.is_none_or(|turn| {
            self.desks
                .is_lane_open(self.desks.lane(&turn.arrival), load)
        })
    }

    /// The policy wants to look at a turn that it holds, and that a worker is open to, or none.
    pub fn note_policy(&mut self, is_open: bool) {
        self.is_policy_blocked = !is_open;
    }

    /// Whether the class that a new turn would wait in has room for it; that it has not is counted.
    #[must_use]
    pub fn has_room(&mut self, ticket: ReservationId, tokens: u32) -> bool {
        let turn = self.turns.get(&ticket);
        turn.is_none_or(|turn| self.queue.has_room(turn.arrival.claimant, tokens))
    }

    /// The turn waits; `tokens` are what has to be computed for it.
    pub fn hold(&mut self, ticket: ReservationId, tokens: u32, clearance: Clearance) {
        let Some(turn) = self.turns.get_mut(&ticket) else {
            return;
        };
        turn.clearance = clearance;
        let entrant = Entrant {
            claimant: turn.arrival.claimant,
            tokens,
            since: *turn.held.get_or_insert(self.desks.clock()),
        };
        let turn = *turn;
        self.queue
            .push(ticket, entrant, self.desks.lane(&turn.arrival));
        self.note_home(ticket, &turn);
    }

    /// The next turn that may go. `bound` tells which worker a turn's session may stay on by now.
    pub fn next(
        &mut self,
        load: &LoadLedger,
        bound: impl Fn(ReservationId) -> Option<WorkerId>,
    ) -> Option<Next> {
        if self.queue.is_empty() {
            return None;
        }
        loop {
            let ticket = self.queue.first(&self.open(load))?;
            let turn = self.turns.get_mut(&ticket)?;
            turn.arrival.bound = bound(ticket);
            let turn = *turn;
            // Its session may have lost its place meanwhile, once.
            if !self.queue.move_to(ticket, self.desks.lane(&turn.arrival)) {
                let is_stale = self.queue.is_stale(ticket, self.desks.clock());
                return Some(Next { ticket, is_stale });
            }
        }
    }

    /// So many tokens have to be computed for a turn that waits, as is known now.
    pub fn count_anew(&mut self, ticket: ReservationId, tokens: u32) {
        self.queue.count_anew(ticket, tokens, self.desks.clock());
    }

    /// Takes the [next](Self::next) turn out of the queue, and says whether the policy has let it go.
    pub fn take(&mut self, ticket: ReservationId, load: &LoadLedger) -> Clearance {
        let open = self.open(load);
        self.queue.serve(ticket, &open);
        let Some(turn) = self.turns.get(&ticket) else {
            return Clearance::None;
        };
        if let Some(home) = turn.arrival.home {
            self.homebound.remove(home, ticket);
        }
        turn.clearance
    }

    /// Whether the worker runs as many turns as are allowed and would take this one but for that. The turn
    /// waits for it from now on as if it were pinned to it, and its session is kept there.
    pub fn wait_for(&mut self, ticket: ReservationId, worker: WorkerId, load: &LoadLedger) -> bool {
        let Some(arrival) = self.turns.get(&ticket).map(|turn| turn.arrival) else {
            return false;
        };
        if !self.desks.is_only_crowded(worker, &arrival, load) {
            return false;
        }
        if let Some(program) = arrival.program {
            self.desks.keep(program, worker);
        }
        self.set_home(ticket, Some(worker));
        true
    }

    /// What somebody waits for and is there.
    fn open(&self, load: &LoadLedger) -> Vec<Lane> {
        let lanes = self.queue.lanes().into_iter();
        lanes
            .filter(|&lane| self.desks.is_lane_open(lane, load))
            .collect()
    }

    /// A turn was sent to `worker`, which keeps its session from now on.
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        self.advance(now);
        let turn = self.turns.get_mut(&ticket);
        let program = turn.and_then(|turn| {
            turn.sent = Some(worker);
            turn.arrival.program
        });
        if let Some(program) = program {
            self.desks.keep(program, worker);
        }
    }

    /// The turn is over, however it ended.
    pub fn end(&mut self, now: Micros, ticket: ReservationId) {
        self.advance(now);
        let Some(turn) = self.turns.remove(&ticket) else {
            return;
        };
        self.queue.remove(ticket);
        if let Some(home) = turn.arrival.home {
            self.homebound.remove(home, ticket);
        }
        if let Some(program) = turn.arrival.program {
            self.desks.end(program);
        }
    }

    /// The session is about to come back: it counts as idle from now on.
    pub fn refresh(&mut self, now: Micros, program: ProgramId) {
        self.advance(now);
        self.desks.refresh(program);
    }

    /// The session is over. A turn of it that is under way goes on.
    pub fn end_program(&mut self, program: ProgramId) {
        self.desks.leave_seat(program);
    }

    /// Replaces the live set. A worker that leaves it keeps only the sessions that have a turn running
    /// there, until that ends. O(sessions + turns).
    pub fn set_workers(&mut self, now: Micros, live: impl Iterator<Item = WorkerId>) {
        self.advance(now);
        let live: HashSet<WorkerId> = live.collect();
        let lost = |worker: &WorkerId| !live.contains(worker);
        let run = self.turns.values().filter_map(|turn| {
            let worker = turn.sent.filter(lost)?;
            Some((turn.arrival.program?, worker))
        });
        let run: HashSet<(ProgramId, WorkerId)> = run.collect();
        self.desks.set_workers(&live, &run);
    }

    /// These workers of the live set take only those that may stay there. O(turns).
    pub fn set_leaving(&mut self, leaving: &[WorkerId]) {
        if self.desks.set_leaving(leaving) {
            let waiting = self.turns.iter().map(|(&id, turn)| (id, turn.arrival));
            let mut lanes: Vec<_> = waiting.map(|(id, a)| (id, self.desks.lane(&a))).collect();
            lanes.sort_unstable();
            for (ticket, lane) in lanes {
                self.queue.move_to(ticket, lane);
            }
        }
    }

    /// When time alone may open a worker to somebody who waits.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        if self.queue.is_empty() && !self.is_policy_blocked {
            return None;
        }
        self.desks.next_end()
    }

    /// Whether a worker may take the turn now.
    #[must_use]
    pub fn admits(&self, ticket: ReservationId, worker: WorkerId, load: &LoadLedger) -> bool {
        let arrival = self.turns.get(&ticket).map(|turn| turn.arrival);
        let takes = arrival.is_none_or(|arrival| self.desks.takes(worker, &arrival));
        let program = arrival.and_then(|arrival| arrival.program);
        takes && self.desks.shut(program, worker, load).is_none()
    }

    /// Why each worker does not take the turn now.
    pub fn refusals(&self, ticket: ReservationId, load: &LoadLedger, out: &mut Vec<Refusal>) {
        let Some(turn) = self.turns.get(&ticket) else {
            return;
        };
        self.desks.refusals(&turn.arrival, load, out);
    }

    /// Whether the turn waits here.
    #[must_use]
    pub fn is_waiting(&self, ticket: ReservationId) -> bool {
        self.queue.contains(ticket)
    }

    /// Which class of the queue a turn waits in here, where there are several, from 0.
    #[must_use]
    pub fn class(&self, ticket: ReservationId) -> Option<usize> {
        self.queue.class_of(ticket)
    }

    /// The classes of the queue.
    pub fn classes(&self) -> impl Iterator<Item = ClassState<'_>> {
        self.queue.classes()
    }

    /// Turns that wait in that class of the queue.
    pub(crate) fn waiting_of(&self, class: usize) -> usize {
        self.queue.waiting_of(class)
    }

    /// Who goes before a turn that waits here, of its class.
    #[must_use]
    pub fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        self.queue.ahead(ticket)
    }

    /// Turns that wait here.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Sessions that a worker keeps, as far as they are counted.
    #[must_use]
    pub fn sessions(&self, worker: WorkerId) -> u32 {
        self.desks.sessions(worker)
    }
}

#[cfg(test)]
mod proptests;
