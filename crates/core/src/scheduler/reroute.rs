//! A turn that its worker has failed, before the first byte of an answer: who else may take it.

use crate::error::{Error, Result};
use crate::id::{Micros, ReservationId, TargetId};
use crate::receipt::Ending;

use super::Scheduler;
use super::reservation::State;
use super::turn::{Placement, Settled};

impl Scheduler {
    /// Moves a turn that its worker has failed, before the first byte of an answer, to the next
    /// candidate: another worker of its target, else another target that the client asked for.
    ///
    /// # Errors
    /// `OWNER_UNAVAILABLE` when only that worker may take it, `NO_WORKER` when nobody else can,
    /// `UNKNOWN_ID` when the turn has ended or is held. The reservation still stands; cancel it.
    pub fn reroute(
        &mut self,
        now: Micros,
        id: ReservationId,
        settled: &mut Vec<Settled>,
    ) -> Result<Placement> {
        self.advance(now, settled);
        let Some(turn) = self.reservations.get_mut(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let State::Running { worker, receipt } = turn.state else {
            return Err(Error::unknown_id("the turn is held"));
        };
        if turn.pin.is_some() {
            return Err(Error::owner_unavailable(
                "only the worker that failed may take the turn",
            ));
        }
        if !turn.excluded.contains(&worker) {
            turn.excluded.push(worker);
        }
        self.load.end(id);
        if let Some(receipt) = self.receipts.get_mut(receipt) {
            receipt.ending = Ending::Rerouted;
        }
        self.counters.rerouted += 1;
        match self.place(id, None) {
            Ok(placement) => Ok(placement),
            Err(error) => self.detour(id, settled).ok_or(error),
        }
    }

    /// The other targets that the client asked for, in order; the first whose admission lets the
    /// turn go at once and that has a worker takes it.
    fn detour(&mut self, id: ReservationId, settled: &mut Vec<Settled>) -> Option<Placement> {
        let alternatives = std::mem::take(&mut self.reservations.get_mut(id)?.alternatives);
        alternatives
            .into_iter()
            .find_map(|target| self.detour_to(id, target, settled))
    }

    fn detour_to(
        &mut self,
        id: ReservationId,
        target: TargetId,
        settled: &mut Vec<Settled>,
    ) -> Option<Placement> {
        let group = self.topology.target(target).ok()?.group;
        let turn = self.reservations.get_mut(id)?;
        let previous = turn.group;
        (turn.target, turn.group, turn.is_detour) = (target, group, true);
        let mut releases = Vec::new();
        if group != previous {
            if turn.program.is_some() {
                self.admission[previous.index()].cancel(self.now, id, &mut releases);
                self.release(previous.index(), std::mem::take(&mut releases), settled);
            }
            self.begin_admission(id, &mut releases);
            let own = releases.iter().position(|release| release.ticket == id)?;
            releases.remove(own);
        }
        let placed = self.place(id, None).ok();
        self.release(group.index(), releases, settled);
        placed
    }
}
