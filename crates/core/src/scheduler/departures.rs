//! Workers that give their sessions away, each at a boundary where that breaks nothing, by a deadline.
//!
//! Such a worker takes no turn of others any more. A session that is there stays for as long as something
//! of it is open: a loop of tool calls, or the lease that admission has given its context. Its next turn
//! without that goes elsewhere. At the deadline a worker that drains takes nothing at all, and one that
//! only sheds is as before; it also is when as many sessions have left as were to. Where nobody else is
//! up, they still take turns until the deadline: to leave is no reason to refuse.
//!
//! Costs nothing where nobody leaves; else O(those that leave) a row.

use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, ProgramId, WorkerId};

use crate::admission::Admission;
use crate::prefix::PrefixIndex;

use super::Scheduler;
use super::paths::Paths;
use super::place::Placer;
use super::reservation::Reservation;
use super::stays::Whose;
use super::topology::{Health, Topology};
use super::turn::Settled;

/// What a worker does with its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// All leave; at the deadline it takes nothing any more ([`Health::Draining`]).
    Drain,
    /// So many leave, at least 1; at the deadline, or when they have left, it is as before.
    Shed(u32),
}

/// A worker whose sessions leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The worker.
    pub worker: WorkerId,
    /// What it does.
    pub departure: Departure,
    /// The deadline.
    pub until: Micros,
    /// Sessions that have left.
    pub moved: u32,
}

/// The workers whose sessions leave, in the order in which they began to.
#[derive(Debug, Default)]
pub(super) struct Departures {
    all: Vec<Leaving>,
}

impl Departures {
    /// Whether the worker's sessions leave.
    pub(super) fn has(&self, worker: WorkerId) -> bool {
        self.of(worker).is_some()
    }

    fn of(&self, worker: WorkerId) -> Option<&Leaving> {
        self.all.iter().find(|leaving| leaving.worker == worker)
    }

    /// Whether nobody leaves.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.all.retain(|leaving| leaving.worker != worker);
    }

    /// A session of this worker has gone elsewhere. Returns whether enough have by that.
    fn count(&mut self, worker: WorkerId) -> bool {
        for leaving in self.all.iter_mut().filter(|l| l.worker == worker) {
            leaving.moved = leaving.moved.saturating_add(1);
        }
        let is_over = |l: &Leaving| match l.departure {
            Departure::Drain => false,
            Departure::Shed(sessions) => l.moved >= sessions,
        };
        self.all.retain(|leaving| !is_over(leaving));
        !self.has(worker)
    }
}

/// What says which sessions stay where for now.
pub(super) struct Boundaries<'a> {
    now: Micros,
    departures: &'a Departures,
    topology: &'a Topology,
    prefix: &'a PrefixIndex,
    paths: &'a Paths,
    admission: &'a [Admission],
}

impl Boundaries<'_> {
    /// The leaving worker that a session may stay on for now.
    fn bound_to(&self, whose: Option<&Whose>, group: GroupId) -> Option<WorkerId> {
        if self.departures.is_empty() {
            return None;
        }
        let whose = whose?;
        let caller = whose
            .answers_to
            .filter(|&worker| self.departures.has(worker));
        caller.or_else(|| {
            let worker = self.left_behind(whose.program)?;
            let has_lease = self.admission[group.index()].has_lease(self.now, whose.program);
            (whose.is_in_loop || has_lease).then_some(worker)
        })
    }

    /// The leaving worker that a program's last turn went to.
    fn left_behind(&self, program: ProgramId) -> Option<WorkerId> {
        let frontier = self.paths.frontier(program)?;
        let leaving = self.departures.all.iter().map(|leaving| leaving.worker);
        let mut here = leaving.filter(|&worker| {
            let place = self.topology.worker(worker).map(|worker| worker.place);
            place.is_ok_and(|place| self.prefix.is_at(frontier, place))
        });
        here.next()
    }
}

impl Scheduler {
    /// Has a worker give its sessions away by `until`. Another call for it replaces the first; a change
    /// of its health ends it. O(turns), as any change of the fleet.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such worker (any more); `INVALID_ARGUMENT` for one that is not up, or
    /// to shed none.
    pub fn depart(
        &mut self,
        now: Micros,
        worker: WorkerId,
        departure: Departure,
        until: Micros,
        settled: &mut Vec<Settled>,
    ) -> Result<()> {
        self.advance(now, settled);
        let known = self.topology.present(worker)?;
        if known.health != Health::Up {
            let why = format!(
                "worker \"{}\" is not up: it has no sessions to give away",
                known.name
            );
            return Err(Error::invalid_argument(why));
        }
        if departure == Departure::Shed(0) {
            return Err(Error::invalid_argument(
                "sessions is 0; it must be at least 1",
            ));
        }
        let group = known.group;
        self.departures.forget(worker);
        self.departures.all.push(Leaving {
            worker,
            departure,
            until,
            moved: 0,
        });
        self.placer().tell_who_leaves(group);
        for id in self
            .reservations
            .held_where(|turn| turn.route.group == group)
        {
            self.rebind_at_gate(id);
        }
        self.end_departures(settled);
        self.release(group.index(), Vec::new(), settled);
        self.end_lost_leads(settled);
        Ok(())
    }

    /// The worker, if its sessions leave.
    #[must_use]
    pub fn leaving(&self, worker: WorkerId) -> Option<Leaving> {
        self.departures.of(worker).copied()
    }

    /// When the first deadline is.
    pub(super) fn next_departure(&self) -> Option<Micros> {
        self.departures
            .all
            .iter()
            .map(|leaving| leaving.until)
            .min()
    }

    /// Does what deadlines have made due.
    pub(super) fn end_departures(&mut self, settled: &mut Vec<Settled>) {
        while let Some(at) = self.departures.all.iter().position(|l| l.until <= self.now) {
            let leaving = self.departures.all.remove(at);
            if leaving.departure == Departure::Drain {
                // A worker that has been removed is no longer among them.
                let drained = self.change_health(leaving.worker, Health::Draining, settled);
                debug_assert!(drained.is_ok(), "a worker that leaves is there");
            } else if let Ok(group) = self.topology.worker(leaving.worker).map(|w| w.group) {
                self.placer().tell_who_leaves(group);
                self.release(group.index(), Vec::new(), settled);
            }
        }
    }

    /// The leaving worker that the session of a turn may stay on for now.
    pub(super) fn bound_to(&self, turn: &Reservation) -> Option<WorkerId> {
        let boundaries = Boundaries {
            now: self.now,
            departures: &self.departures,
            topology: &self.topology,
            prefix: &self.prefix,
            paths: &self.paths,
            admission: &self.admission,
        };
        boundaries.bound_to(turn.whose().as_ref(), turn.route.group)
    }
}

impl Placer<'_> {
    fn boundaries(&self) -> Boundaries<'_> {
        Boundaries {
            now: self.now,
            departures: self.departures,
            topology: self.topology,
            prefix: self.prefix,
            paths: self.paths,
            admission: self.admission,
        }
    }

    /// The leaving worker that a session may stay on for now.
    pub(super) fn bound_to(&self, whose: Option<&Whose>, group: GroupId) -> Option<WorkerId> {
        self.boundaries().bound_to(whose, group)
    }

    /// The gates and the policy of a group hear which workers only those go to that may stay there.
    /// Where nobody else is up, that is none. O(workers of the group + turns).
    pub(super) fn tell_who_leaves(&mut self, group: GroupId) {
        let up = || self.topology.up(group).map(|(id, _)| id);
        let mut leaving: Vec<WorkerId> = up().filter(|&id| self.departures.has(id)).collect();
        if leaving.len() == up().count() {
            leaving.clear();
        }
        if let Some(gates) = &mut self.gates[group.index()] {
            gates.set_leaving(&leaving);
        }
        self.admission[group.index()].set_leaving(&leaving);
    }

    /// The turn is about to go to `worker`: whether its session leaves one by that.
    pub(super) fn count_departure(&mut self, turn: &Reservation, worker: WorkerId) {
        if self.departures.is_empty() {
            return;
        }
        let program = turn.program;
        let from = program.and_then(|program| self.boundaries().left_behind(program));
        if let Some(from) = from.filter(|&from| from != worker)
            && self.departures.count(from)
            && let Ok(group) = self.topology.worker(from).map(|known| known.group)
        {
            self.tell_who_leaves(group);
        }
    }
}
