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
use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::fair::{Ahead, Claimant, Weights};
use super::queue::{ClassState, Entrant, Queue, QueueConfig};
use super::refusal::{Refusal, Why};
use crate::load::LoadLedger;
use crate::{Error, Micros, ProgramId, ReservationId, Result, WorkerId};

mod homebound;

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

/// What turns wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// A worker that is open to anybody, or one of these.
    Free {
        /// That one keeps the session.
        kept: Option<WorkerId>,
        /// Others leave that one, and it does not keep the session.
        staying: Option<WorkerId>,
    },
    /// A worker that may run one more turn: it is of no session that would be kept.
    Loose,
    /// That worker alone, which does not keep the session.
    Pinned(WorkerId),
    /// That worker alone, which keeps the session.
    Bound(WorkerId),
}

/// A worker that takes turns.
#[derive(Debug, Default)]
struct Desk {
    /// Whether it takes only those that may stay.
    is_leaving: bool,
    sessions: u32,
    /// Those without a turn, by since when.
    idle: BTreeSet<(Micros, ProgramId)>,
}

/// A session's place.
#[derive(Clone, Copy, Debug)]
struct Seat {
    worker: WorkerId,
    /// Turns that run or wait.
    turns: u32,
    idle_since: Micros,
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
    config: GateConfig,
    desks: BTreeMap<WorkerId, Desk>,
    seats: HashMap<ProgramId, Seat>,
    turns: HashMap<ReservationId, Turn>,
    queue: Queue<Lane>,
    /// Those in the queue that wait for their home as long as it is one.
    homebound: Homebound,
    clock: Micros,
    /// No worker was open to the turn that the policy wanted to look at last.
    is_policy_blocked: bool,
}

impl Gates {
    /// Gates before no worker.
    #[must_use]
    pub fn new(config: GateConfig, queue: QueueConfig, weights: &Weights) -> Self {
        Self {
            config,
            desks: BTreeMap::new(),
            seats: HashMap::new(),
            turns: HashMap::new(),
            queue: Queue::new(queue, weights),
            homebound: Homebound::default(),
            clock: Micros(0),
            is_policy_blocked: false,
        }
    }

    /// Notes the time, which never goes back.
    pub fn advance(&mut self, now: Micros) {
        self.clock = self.clock.max(now);
        self.queue.age(self.clock);
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
        let seat = arrival
            .program
            .and_then(|p| Some((p, self.seats.get_mut(&p)?)));
        if let Some((program, seat)) = seat {
            seat.turns += 1;
            if let Some(desk) = self.desks.get_mut(&seat.worker) {
                desk.idle.remove(&(seat.idle_since, program));
            }
        }
    }

    /// The worker that the turn's session may stay on is this one now.
    pub fn rebind(&mut self, ticket: ReservationId, bound: Option<WorkerId>) {
        let Some(turn) = self.turns.get_mut(&ticket) else {
            return;
        };
        turn.arrival.bound = bound;
        let arrival = turn.arrival;
        self.queue.move_to(ticket, self.lane(&arrival));
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
            self.queue.move_to(ticket, self.lane(&turn.arrival));
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
        let lane = self.lane(&turn.arrival);
        self.queue.has(lane) || !self.is_lane_open(lane, load)
    }

    /// Whether some worker is open to a turn that has passed.
    #[must_use]
    pub fn is_open(&self, ticket: ReservationId, load: &LoadLedger) -> bool {
        let turn = self.turns.get(&ticket);
        turn.is_none_or(|turn| self.is_lane_open(self.lane(&turn.arrival), load))
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
            since: *turn.held.get_or_insert(self.clock),
        };
        let turn = *turn;
        self.queue.push(ticket, entrant, self.lane(&turn.arrival));
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
            if !self.queue.move_to(ticket, self.lane(&turn.arrival)) {
                let is_stale = self.queue.is_stale(ticket, self.clock);
                return Some(Next { ticket, is_stale });
            }
        }
    }

    /// So many tokens have to be computed for a turn that waits, as is known now.
    pub fn count_anew(&mut self, ticket: ReservationId, tokens: u32) {
        self.queue.count_anew(ticket, tokens, self.clock);
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
        let is_there = self.desks.contains_key(&worker) && self.takes(worker, &arrival);
        if !is_there || self.crowd(worker, load).is_none() {
            return false;
        }
        if let Some(program) = arrival.program {
            let seat = self.seats.get(&program);
            let is_kept = seat.is_some_and(|seat| seat.worker == worker);
            if !is_kept && self.no_seat(worker).is_some() {
                return false;
            }
            self.keep(program, worker);
        }
        self.set_home(ticket, Some(worker));
        true
    }

    /// What somebody waits for and is there.
    fn open(&self, load: &LoadLedger) -> Vec<Lane> {
        let lanes = self.queue.lanes().into_iter();
        lanes
            .filter(|&lane| self.is_lane_open(lane, load))
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
            self.keep(program, worker);
        }
    }

    /// The session is kept by that worker, where that is counted; another one gives way where need be.
    fn keep(&mut self, program: ProgramId, worker: WorkerId) {
        let Some(most) = self.config.max_sessions else {
            return;
        };
        if self
            .seats
            .get(&program)
            .is_some_and(|seat| seat.worker == worker)
        {
            return;
        }
        let turns = self.seats.get(&program).map_or(1, |seat| seat.turns);
        self.leave_seat(program);
        let expired = self.expired(worker);
        if let Some(desk) = self.desks.get(&worker) {
            let is_full = desk.sessions >= most;
            if let Some(oldest) = expired.filter(|_| is_full) {
                self.leave_seat(oldest);
            }
        }
        if let Some(desk) = self.desks.get_mut(&worker) {
            desk.sessions += 1;
            let seat = Seat {
                worker,
                turns,
                idle_since: self.clock,
            };
            self.seats.insert(program, seat);
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
        let Some(program) = turn.arrival.program else {
            return;
        };
        let Some(seat) = self.seats.get_mut(&program) else {
            return;
        };
        seat.turns = seat.turns.saturating_sub(1);
        if seat.turns == 0 {
            seat.idle_since = self.clock;
            match self.desks.get_mut(&seat.worker) {
                Some(desk) => _ = desk.idle.insert((self.clock, program)),
                None => _ = self.seats.remove(&program),
            }
        }
    }

    /// The session is about to come back: it counts as idle from now on.
    pub fn refresh(&mut self, now: Micros, program: ProgramId) {
        self.advance(now);
        let Some(seat) = self.seats.get_mut(&program) else {
            return;
        };
        if let Some(desk) = self.desks.get_mut(&seat.worker)
            && desk.idle.remove(&(seat.idle_since, program))
        {
            seat.idle_since = self.clock;
            desk.idle.insert((self.clock, program));
        }
    }

    /// The session is over. A turn of it that is under way goes on.
    pub fn end_program(&mut self, program: ProgramId) {
        self.leave_seat(program);
    }

    /// Replaces the live set. A worker that leaves it keeps only the sessions that have a turn running
    /// there, until that ends. O(sessions + turns).
    pub fn set_workers(&mut self, now: Micros, live: impl Iterator<Item = WorkerId>) {
        self.advance(now);
        let live: HashSet<WorkerId> = live.collect();
        self.desks.retain(|id, _| live.contains(id));
        let lost = |worker: &WorkerId| !live.contains(worker);
        let run = self.turns.values().filter_map(|turn| {
            let worker = turn.sent.filter(lost)?;
            Some((turn.arrival.program?, worker))
        });
        let run: HashSet<(ProgramId, WorkerId)> = run.collect();
        self.seats
            .retain(|&program, seat| !lost(&seat.worker) || run.contains(&(program, seat.worker)));
        for id in live {
            self.desks.entry(id).or_insert_with(|| {
                let kept = self.seats.values().filter(|seat| seat.worker == id).count();
                Desk {
                    sessions: u32::try_from(kept).unwrap_or(u32::MAX),
                    ..Desk::default()
                }
            });
        }
    }

    /// These workers of the live set take only those that may stay there. O(turns).
    pub fn set_leaving(&mut self, leaving: &[WorkerId]) {
        let mut is_news = false;
        for (id, desk) in &mut self.desks {
            let before = std::mem::replace(&mut desk.is_leaving, leaving.contains(id));
            is_news |= before != desk.is_leaving;
        }
        if is_news {
            let waiting = self.turns.iter().map(|(&id, turn)| (id, turn.arrival));
            let mut lanes: Vec<_> = waiting.map(|(id, a)| (id, self.lane(&a))).collect();
            lanes.sort_unstable();
            for (ticket, lane) in lanes {
                self.queue.move_to(ticket, lane);
            }
        }
    }

    /// When time alone may open a worker to somebody who waits.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        self.config.max_sessions?;
        if self.queue.is_empty() && !self.is_policy_blocked {
            return None;
        }
        let ends = self.desks.values().filter_map(|desk| {
            let ends = desk
                .idle
                .iter()
                .map(|(since, _)| since.plus(self.config.session_idle));
            ends.into_iter().find(|&end| end > self.clock)
        });
        ends.min()
    }

    /// Whether a worker may take the turn now.
    #[must_use]
    pub fn admits(&self, ticket: ReservationId, worker: WorkerId, load: &LoadLedger) -> bool {
        let arrival = self.turns.get(&ticket).map(|turn| turn.arrival);
        let takes = arrival.is_none_or(|arrival| self.takes(worker, &arrival));
        let program = arrival.and_then(|arrival| arrival.program);
        takes && self.shut(program, worker, load).is_none()
    }

    /// Why each worker does not take the turn now.
    pub fn refusals(&self, ticket: ReservationId, load: &LoadLedger, out: &mut Vec<Refusal>) {
        let Some(turn) = self.turns.get(&ticket) else {
            return;
        };
        let arrival = &turn.arrival;
        let only = self.only(arrival);
        let may = self.desks.keys().filter(|&&id| {
            let is_asked = only.is_none_or(|only| only == id);
            is_asked && self.takes(id, arrival)
        });
        out.extend(may.filter_map(|&worker| {
            let why = self.shut(arrival.program, worker, load)?;
            Some(Refusal { worker, why })
        }));
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
        self.desks.get(&worker).map_or(0, |desk| desk.sessions)
    }

    fn lane(&self, arrival: &Arrival) -> Lane {
        let Some(program) = arrival.program else {
            return arrival.pin.map_or(Lane::Loose, Lane::Bound);
        };
        let seat = self.seats.get(&program).map(|seat| seat.worker);
        match (self.only(arrival), seat) {
            (None, seat) => Lane::Free {
                kept: seat.filter(|&kept| self.takes(kept, arrival)),
                staying: arrival
                    .bound
                    .filter(|&id| seat != Some(id) && self.is_leaving(id)),
            },
            (Some(pin), Some(kept)) if kept == pin => Lane::Bound(pin),
            (Some(pin), _) => Lane::Pinned(pin),
        }
    }

    /// The only worker that the turn waits for, if there is such a one.
    fn only(&self, arrival: &Arrival) -> Option<WorkerId> {
        let takes = |home: &WorkerId| self.desks.contains_key(home) && self.takes(*home, arrival);
        arrival.pin.or(arrival.home.filter(takes))
    }

    fn is_leaving(&self, worker: WorkerId) -> bool {
        self.desks.get(&worker).is_some_and(|desk| desk.is_leaving)
    }

    /// Whether the worker would take the turn if it had a place for it.
    fn takes(&self, worker: WorkerId, arrival: &Arrival) -> bool {
        let stays = arrival.pin == Some(worker) || arrival.bound == Some(worker);
        stays || !self.is_leaving(worker)
    }

    fn is_lane_open(&self, lane: Lane, load: &LoadLedger) -> bool {
        let newcomers = || {
            let desks = self.desks.iter().filter(|(_, desk)| !desk.is_leaving);
            desks.map(|(&id, _)| id)
        };
        let is_any =
            || self.desks.is_empty() || newcomers().any(|id| self.is_open_to_anybody(id, load));
        // Nobody is left to wait for where a worker has gone.
        let has_left = |id: WorkerId| !self.desks.contains_key(&id);
        match lane {
            Lane::Free { kept, staying } => {
                let is_kept = |id| !has_left(id) && self.crowd(id, load).is_none();
                let stays = |id| !has_left(id) && self.is_open_to_anybody(id, load);
                kept.is_some_and(is_kept) || staying.is_some_and(stays) || is_any()
            }
            Lane::Loose => {
                let is_free = |id| self.crowd(id, load).is_none();
                self.desks.is_empty() || newcomers().any(is_free)
            }
            Lane::Pinned(id) => has_left(id) || self.is_open_to_anybody(id, load),
            Lane::Bound(id) => has_left(id) || self.crowd(id, load).is_none(),
        }
    }

    fn is_open_to_anybody(&self, worker: WorkerId, load: &LoadLedger) -> bool {
        self.crowd(worker, load).is_none() && self.no_seat(worker).is_none()
    }

    /// Why the worker does not take a turn of this session, if it is shut to it.
    fn shut(&self, program: Option<ProgramId>, worker: WorkerId, load: &LoadLedger) -> Option<Why> {
        let seat = program.map(|program| self.seats.get(&program));
        let is_kept = match seat {
            None => true,
            Some(seat) => seat.is_some_and(|seat| seat.worker == worker),
        };
        let crowd = self.crowd(worker, load);
        crowd.or_else(|| if is_kept { None } else { self.no_seat(worker) })
    }

    /// It runs as many turns as are allowed.
    fn crowd(&self, worker: WorkerId, load: &LoadLedger) -> Option<Why> {
        let most = self.config.max_running?;
        let own = load.load(worker).unwrap_or_default().requests;
        let turns = own.saturating_add(load.untracked(worker).requests);
        (own > 0 && turns >= most).then_some(Why::MaxRunning { turns, most })
    }

    /// It keeps as many sessions as are allowed, and none that may go.
    fn no_seat(&self, worker: WorkerId) -> Option<Why> {
        let most = self.config.max_sessions?;
        let desk = self.desks.get(&worker)?;
        let is_full = desk.sessions >= most && self.expired(worker).is_none();
        let first = desk.idle.first();
        is_full.then(|| Why::MaxSessions {
            sessions: desk.sessions,
            most,
            next_end: first.map(|(since, _)| since.plus(self.config.session_idle)),
        })
    }

    /// The session that has been idle longest there, if for long enough.
    fn expired(&self, worker: WorkerId) -> Option<ProgramId> {
        let &(since, program) = self.desks.get(&worker)?.idle.first()?;
        (since.plus(self.config.session_idle) <= self.clock).then_some(program)
    }

    fn leave_seat(&mut self, program: ProgramId) {
        let Some(seat) = self.seats.remove(&program) else {
            return;
        };
        if let Some(desk) = self.desks.get_mut(&seat.worker) {
            desk.sessions -= 1;
            desk.idle.remove(&(seat.idle_since, program));
        }
    }
}

#[cfg(test)]
mod proptests;
