//! Which worker keeps which session, and which of them take a turn?
//!
//! A worker has a [`Desk`], a session that is kept there a [`Seat`]. What turns wait for are [`Lane`]s: those
//! of one lane pass, or do not, for the same reasons. Knows no queue. O(log idle sessions) a call, and
//! O(workers) where it is asked whether a lane is open.
use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::{Arrival, GateConfig};
use crate::admission::refusal::{Refusal, Why};
use crate::load::LoadLedger;
use crate::{Micros, ProgramId, WorkerId};

/// What turns wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
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

/// The workers of a group, and the sessions that they keep.
#[derive(Debug)]
pub(super) struct Desks {
    config: GateConfig,
    by_worker: BTreeMap<WorkerId, Desk>,
    seats: HashMap<ProgramId, Seat>,
    clock: Micros,
}

impl Desks {
    pub(super) fn new(config: GateConfig) -> Self {
        Self {
            config,
            by_worker: BTreeMap::new(),
            seats: HashMap::new(),
            clock: Micros(0),
        }
    }

    /// Notes the time, which never goes back. Returns it.
    pub(super) fn advance(&mut self, now: Micros) -> Micros {
        self.clock = self.clock.max(now);
        self.clock
    }

    pub(super) fn clock(&self) -> Micros {
        self.clock
    }

    /// A turn of the session has come.
    pub(super) fn come(&mut self, program: ProgramId) {
        let Some(seat) = self.seats.get_mut(&program) else {
            return;
        };
        seat.turns += 1;
        if let Some(desk) = self.by_worker.get_mut(&seat.worker) {
            desk.idle.remove(&(seat.idle_since, program));
        }
    }

    /// A turn of the session is over.
    pub(super) fn end(&mut self, program: ProgramId) {
        let Some(seat) = self.seats.get_mut(&program) else {
            return;
        };
        seat.turns = seat.turns.saturating_sub(1);
        if seat.turns == 0 {
            seat.idle_since = self.clock;
            match self.by_worker.get_mut(&seat.worker) {
                Some(desk) => _ = desk.idle.insert((self.clock, program)),
                None => _ = self.seats.remove(&program),
            }
        }
    }

    /// The session counts as idle from now on.
    pub(super) fn refresh(&mut self, program: ProgramId) {
        let Some(seat) = self.seats.get_mut(&program) else {
            return;
        };
        if let Some(desk) = self.by_worker.get_mut(&seat.worker)
            && desk.idle.remove(&(seat.idle_since, program))
        {
            seat.idle_since = self.clock;
            desk.idle.insert((self.clock, program));
        }
    }

    /// The session is kept by that worker, where that is counted; another one gives way where need be.
    pub(super) fn keep(&mut self, program: ProgramId, worker: WorkerId) {
        let Some(most) = self.config.max_sessions else {
            return;
        };
        if self.keeper(program) == Some(worker) {
            return;
        }
        let turns = self.seats.get(&program).map_or(1, |seat| seat.turns);
        self.leave_seat(program);
        let expired = self.expired(worker);
        if let Some(desk) = self.by_worker.get(&worker) {
            let is_full = desk.sessions >= most;
            if let Some(oldest) = expired.filter(|_| is_full) {
                self.leave_seat(oldest);
            }
        }
        if let Some(desk) = self.by_worker.get_mut(&worker) {
            desk.sessions += 1;
            let seat = Seat {
                worker,
                turns,
                idle_since: self.clock,
            };
            self.seats.insert(program, seat);
        }
    }

    /// Replaces the live set. A worker that leaves it keeps only the sessions in `run`, which have a turn
    /// running there, until that ends. O(sessions).
    pub(super) fn set_workers(
        &mut self,
        live: &HashSet<WorkerId>,
        run: &HashSet<(ProgramId, WorkerId)>,
    ) {
        self.by_worker.retain(|id, _| live.contains(id));
        self.seats.retain(|&program, seat| {
            live.contains(&seat.worker) || run.contains(&(program, seat.worker))
        });
        for &id in live {
            self.by_worker.entry(id).or_insert_with(|| {
                let kept = self.seats.values().filter(|seat| seat.worker == id).count();
                Desk {
                    sessions: u32::try_from(kept).unwrap_or(u32::MAX),
                    ..Desk::default()
                }
            });
        }
    }

    /// These workers take only those that may stay there. Returns whether that is news.
    pub(super) fn set_leaving(&mut self, leaving: &[WorkerId]) -> bool {
        let mut is_news = false;
        for (id, desk) in &mut self.by_worker {
            let before = std::mem::replace(&mut desk.is_leaving, leaving.contains(id));
            is_news |= before != desk.is_leaving;
        }
        is_news
    }

    /// When the next session has been idle for so long that it gives way, where that is counted.
    pub(super) fn next_end(&self) -> Option<Micros> {
        self.config.max_sessions?;
        let ends = self.by_worker.values().filter_map(|desk| {
            let ends = desk
                .idle
                .iter()
                .map(|(since, _)| since.plus(self.config.session_idle));
            ends.into_iter().find(|&end| end > self.clock)
        });
        ends.min()
    }

    /// Why each worker that could take the turn does not.
    pub(super) fn refusals(&self, arrival: &Arrival, load: &LoadLedger, out: &mut Vec<Refusal>) {
        let only = self.only(arrival);
        let may = self.by_worker.keys().filter(|&&id| {
            let is_asked = only.is_none_or(|only| only == id);
            is_asked && self.takes(id, arrival)
        });
        out.extend(may.filter_map(|&worker| {
            let why = self.shut(arrival.program, worker, load)?;
            Some(Refusal { worker, why })
        }));
    }

    /// Whether the worker would take the turn, and would keep its session, but for the turns that it runs.
    pub(super) fn is_only_crowded(
        &self,
        worker: WorkerId,
        arrival: &Arrival,
        load: &LoadLedger,
    ) -> bool {
        let keeps =
            |program| self.keeper(program) == Some(worker) || self.no_seat(worker).is_none();
        self.by_worker.contains_key(&worker)
            && self.takes(worker, arrival)
            && self.crowd(worker, load).is_some()
            && arrival.program.is_none_or(keeps)
    }

    /// The worker that keeps the session.
    fn keeper(&self, program: ProgramId) -> Option<WorkerId> {
        self.seats.get(&program).map(|seat| seat.worker)
    }

    /// Sessions that a worker keeps, as far as they are counted.
    pub(super) fn sessions(&self, worker: WorkerId) -> u32 {
        self.by_worker.get(&worker).map_or(0, |desk| desk.sessions)
    }

    /// Whether nobody is kept.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let is_empty = |desk: &Desk| desk.sessions == 0 && desk.idle.is_empty();
        self.seats.is_empty() && self.by_worker.values().all(is_empty)
    }

    /// Sessions that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.seats.len()
    }

    /// What the turn waits for.
    pub(super) fn lane(&self, arrival: &Arrival) -> Lane {
        let Some(program) = arrival.program else {
            return arrival.pin.map_or(Lane::Loose, Lane::Bound);
        };
        match (self.only(arrival), self.keeper(program)) {
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
        let takes =
            |home: &WorkerId| self.by_worker.contains_key(home) && self.takes(*home, arrival);
        arrival.pin.or(arrival.home.filter(takes))
    }

    fn is_leaving(&self, worker: WorkerId) -> bool {
        self.by_worker
            .get(&worker)
            .is_some_and(|desk| desk.is_leaving)
    }

    /// Whether the worker would take the turn if it had a place for it.
    pub(super) fn takes(&self, worker: WorkerId, arrival: &Arrival) -> bool {
        let stays = arrival.pin == Some(worker) || arrival.bound == Some(worker);
        stays || !self.is_leaving(worker)
    }

    /// Whether what those of the lane wait for is there.
    pub(super) fn is_lane_open(&self, lane: Lane, load: &LoadLedger) -> bool {
        let newcomers = || {
            let desks = self.by_worker.iter().filter(|(_, desk)| !desk.is_leaving);
            desks.map(|(&id, _)| id)
        };
        let is_any =
            || self.by_worker.is_empty() || newcomers().any(|id| self.is_open_to_anybody(id, load));
        // Nobody is left to wait for where a worker has gone.
        let has_left = |id: WorkerId| !self.by_worker.contains_key(&id);
        match lane {
            Lane::Free { kept, staying } => {
                let is_kept = |id| !has_left(id) && self.crowd(id, load).is_none();
                let stays = |id| !has_left(id) && self.is_open_to_anybody(id, load);
                kept.is_some_and(is_kept) || staying.is_some_and(stays) || is_any()
            }
            Lane::Loose => {
                let is_free = |id| self.crowd(id, load).is_none();
                self.by_worker.is_empty() || newcomers().any(is_free)
            }
            Lane::Pinned(id) => has_left(id) || self.is_open_to_anybody(id, load),
            Lane::Bound(id) => has_left(id) || self.crowd(id, load).is_none(),
        }
    }

    fn is_open_to_anybody(&self, worker: WorkerId, load: &LoadLedger) -> bool {
        self.crowd(worker, load).is_none() && self.no_seat(worker).is_none()
    }

    /// Why the worker does not take a turn of this session, if it is shut to it.
    pub(super) fn shut(
        &self,
        program: Option<ProgramId>,
        worker: WorkerId,
        load: &LoadLedger,
    ) -> Option<Why> {
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
        let desk = self.by_worker.get(&worker)?;
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
        let &(since, program) = self.by_worker.get(&worker)?.idle.first()?;
        (since.plus(self.config.session_idle) <= self.clock).then_some(program)
    }

    /// Nobody keeps the session any more.
    pub(super) fn leave_seat(&mut self, program: ProgramId) {
        let Some(seat) = self.seats.remove(&program) else {
            return;
        };
        if let Some(desk) = self.by_worker.get_mut(&seat.worker) {
            desk.sessions -= 1;
            desk.idle.remove(&(seat.idle_since, program));
        }
    }
}
