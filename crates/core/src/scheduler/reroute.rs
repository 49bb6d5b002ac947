//! A turn that its worker has failed, before the first byte of an answer: who else may take it.
//!
//! First somebody is found, then the turn moves. When nobody is, nothing has changed: the turn still
//! stands where it was, and its caller may end it there.

use crate::affinity::Mode;
use crate::continuity::Breach;
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, ProgramId, ReservationId};
use crate::receipt::Ending;

use super::Scheduler;
use super::place::{Picked, Seat};
use super::reservation::{Reservation, State};
use super::turn::{Placement, Settled};

/// Why a worker did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It may be well again by the next turn: the session stays bound to its target.
    Passing,
    /// A quota, or our credentials: the session is bound to the target that answers instead.
    Lasting,
}

impl Scheduler {
    /// Moves a turn that its worker has failed, before the first byte of an answer, to the next
    /// candidate: another worker of its target, else another target that the client asked for and
    /// whose admission lets it go at once. A lasting fault takes the session along.
    ///
    /// # Errors
    /// `OWNER_UNAVAILABLE` when only that worker may take it, `NO_WORKER` when nobody else can,
    /// `UNKNOWN_ID` when the turn has ended or is held. Nothing has changed then.
    pub fn reroute(
        &mut self,
        now: Micros,
        id: ReservationId,
        fault: Fault,
        settled: &mut Vec<Settled>,
    ) -> Result<Placement> {
        self.advance(now, settled);
        let Some(mut turn) = self.reservations.remove(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let group = turn.route.group.index();
        let moved = self.move_on(id, &mut turn, fault, settled);
        if moved.is_ok() && fault == Fault::Lasting {
            self.rebind(&turn);
        }
        let has_left = turn.route.group.index() != group;
        if moved.is_ok() {
            self.lead_elsewhere(id, &turn, has_left, settled);
        }
        self.reservations.insert(id, turn);
        self.admission[group].load_changed();
        self.release(group, Vec::new(), settled);
        moved
    }

    fn move_on(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        fault: Fault,
        settled: &mut Vec<Settled>,
    ) -> Result<Placement> {
        let State::Running { worker, .. } = turn.state else {
            return Err(Error::unknown_id("the turn is held"));
        };
        let route = &mut turn.route;
        if route.pin.is_some() && route.may_breach == Breach::Kept {
            return Err(Error::owner_unavailable(
                "only the worker that failed may take the turn",
            ));
        }
        route.excluded.push(worker);
        if route.pin.is_none()
            && let Ok(picked) = self.placer().find_worker(id, turn, Seat::Offered(None))
        {
            return Ok(self.leave_for(id, turn, &picked));
        }
        let before = (turn.route.pin, turn.route.lock);
        turn.route.break_lock();
        let moved = self.detour(id, turn, fault, settled);
        if moved.is_none() {
            (turn.route.pin, turn.route.lock) = before;
            turn.route.excluded.pop();
        }
        moved.ok_or_else(|| Error::no_worker("nobody else can take the turn"))
    }

    /// The session goes where its turn has gone.
    fn rebind(&mut self, turn: &Reservation) {
        let target = turn.route.target;
        if let Some(session) = self.sessions.get_mut(turn.session) {
            session.binding = Some(target);
        }
        if let Some(program) = turn.program {
            self.go_home_to(program, turn);
            self.chooser.rebind(program, target);
        }
    }

    /// Where the turn has gone is where its session lives.
    fn go_home_to(&mut self, program: ProgramId, turn: &Reservation) {
        if let State::Running { worker, .. } = turn.state
            && self.config.affinity.mode != Mode::Off
        {
            self.homes.settle(program, worker);
        }
    }

    /// The other targets that the client asked for, in order; where a lock on one worker is broken,
    /// first the others of the same target.
    fn detour(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        fault: Fault,
        settled: &mut Vec<Settled>,
    ) -> Option<Placement> {
        let route = &turn.route;
        let from = (route.target, route.group, route.is_detour, route.is_moved);
        if turn.route.lock.breach != Breach::Kept
            && let Ok(picked) = self.placer().find_worker(id, turn, Seat::Offered(None))
        {
            return Some(self.leave_for(id, turn, &picked));
        }
        turn.route.is_moved |= fault == Fault::Lasting;
        turn.route.is_detour = !turn.route.is_moved;
        for target in turn.route.alternatives.clone() {
            let known = self.topology.target(target).ok();
            let Some(known) = known.filter(|known| !known.is_removed) else {
                continue;
            };
            (turn.route.target, turn.route.group) = (target, known.group);
            self.go_to(turn);
            let placed = self.enter_group(id, turn, from.1, settled);
            if placed.is_some() {
                return placed;
            }
        }
        let route = &mut turn.route;
        (route.target, route.group, route.is_detour, route.is_moved) = from;
        self.go_to(turn);
        None
    }

    /// Whose cached blocks the prompt is made of follows from its target.
    fn go_to(&mut self, turn: &mut Reservation) {
        let namespace = self.topology.namespace(turn.route.target, turn.route.apart);
        turn.chain.enter(namespace);
        self.begin_again(turn);
    }

    /// Moves the turn to a worker of its new group, if that group's admission lets it go at once;
    /// the old group's admission then forgets it.
    fn enter_group(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        old: GroupId,
        settled: &mut Vec<Settled>,
    ) -> Option<Placement> {
        let new = turn.route.group;
        let mut releases = Vec::new();
        let seat = match new == old {
            true => Some(Seat::Offered(None)),
            false if self.is_shut(id, turn) => None,
            false => self.begin_admission(id, turn, &mut releases),
        };
        let picked = seat.and_then(|seat| self.placer().find_worker(id, turn, seat).ok());
        let placed = picked.map(|picked| self.leave_for(id, turn, &picked));
        if new != old {
            let abandoned = if placed.is_some() { old } else { new };
            let mut freed = Vec::new();
            if turn.program.is_some() {
                self.admission[abandoned.index()].cancel(self.now, id, &mut freed);
            }
            self.leave_gate(abandoned, id);
            self.relieve(abandoned, &mut freed);
            self.release(abandoned.index(), freed, settled);
        }
        self.release(new.index(), releases, settled);
        placed
    }

    /// Ends the stay on the old worker and begins the one that was picked.
    fn leave_for(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        picked: &Picked,
    ) -> Placement {
        self.load.end(id);
        if let State::Running { receipt, .. } = turn.state
            && let Some(receipt) = self.receipts.get_mut(receipt)
        {
            receipt.ending = Ending::Rerouted;
        }
        self.counters.rerouted += 1;
        let mut placer = self.placer();
        placer.take_back(turn);
        placer.settle_on(id, turn, picked)
    }
}
