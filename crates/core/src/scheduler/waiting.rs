//! Turns that wait for the owner of their lock to come back.
//!
//! Such a turn is held, but not by admission, which hears of it when the owner is there again. All wait
//! equally long, so the first to come is the first whose time is up. Costs nothing on a turn's way;
//! O(turns) when the fleet changes.

use crate::admission::Release;
use crate::continuity::{Fleet as _, Lock, LockNote, Presence, WhenDown};
use crate::id::{GroupId, Micros, ReservationId};

use super::Scheduler;
use super::reservation::Reservation;
use super::turn::{Outcome, Settled, Verdict};

/// What becomes of a held turn that nobody is left to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stranded {
    /// It waits for its owner to come back.
    Waits,
    /// It ends.
    Ends(Outcome),
}

impl Scheduler {
    /// The turn waits for its owner.
    pub(super) fn wait_for_owner(&mut self, id: ReservationId) -> Verdict {
        if let Some(turn) = self.reservations.get_mut(id) {
            if let Some(leader) = turn.wait.following.take() {
                self.fan_out.leave(leader, id);
            }
            turn.route.is_waiting = true;
        }
        self.note_hold(id);
        let until = self.now.plus(self.chooser.config().owner_wait);
        self.waits.push_back((until, id));
        Verdict::Hold
    }

    /// The fleet of a group has changed: who waited for it goes on, or has waited in vain.
    pub(super) fn owners_changed(&mut self, group: GroupId, settled: &mut Vec<Settled>) {
        let waiting = self
            .reservations
            .held_where(|turn| turn.route.group == group && turn.route.is_waiting);
        for id in waiting {
            match self.reservations.get(id).map(|turn| self.owner_of(turn)) {
                Some(Presence::Here) => self.stop_waiting(id, settled),
                Some(Presence::Gone) => self.fail_hold(id, Outcome::StateLost, settled),
                _ => {}
            }
        }
    }

    /// Nobody is left to take a turn that admission holds.
    pub(super) fn strand(&mut self, id: ReservationId, settled: &mut Vec<Settled>) {
        let Some(group) = self.reservations.get(id).map(|turn| turn.route.group) else {
            return;
        };
        match self.stranded(id) {
            Stranded::Ends(outcome) => self.fail_hold(id, outcome, settled),
            Stranded::Waits => {
                let mut releases = Vec::new();
                self.leave_admission(id, &mut releases);
                self.wait_for_owner(id);
                self.release(group.index(), releases, settled);
            }
        }
    }

    /// What becomes of a held turn that nobody is left to take.
    pub(super) fn stranded(&self, id: ReservationId) -> Stranded {
        let Some(turn) = self.reservations.get(id) else {
            return Stranded::Ends(Outcome::NoWorker);
        };
        let LockNote { lock, .. } = turn.route.lock;
        let outcome = match (lock, self.owner_of(turn)) {
            (Lock::Free, _) | (_, Presence::Here) => Outcome::NoWorker,
            (_, Presence::Gone) => Outcome::StateLost,
            _ => Outcome::OwnerUnavailable,
        };
        let waits = self.chooser.config().when_down(lock) == WhenDown::Wait;
        match waits && outcome == Outcome::OwnerUnavailable {
            true => Stranded::Waits,
            false => Stranded::Ends(outcome),
        }
    }

    /// Admission and the gates hear no more of a turn that is still held.
    pub(super) fn leave_admission(&mut self, id: ReservationId, releases: &mut Vec<Release>) {
        let Some(group) = self.reservations.get(id).map(|turn| turn.route.group) else {
            return;
        };
        self.admission[group.index()].cancel(self.now, id, releases);
        self.leave_gate(group, id);
    }

    /// Fails the turns that have waited long enough.
    pub(super) fn expire_waits(&mut self, settled: &mut Vec<Settled>) {
        while let Some(&(until, id)) = self.waits.front() {
            let turn = self.reservations.get(id);
            let is_waiting = turn.is_some_and(|turn| turn.route.is_waiting);
            if is_waiting && until > self.now {
                return;
            }
            self.waits.pop_front();
            if is_waiting {
                self.fail_hold(id, Outcome::OwnerUnavailable, settled);
            }
        }
    }

    /// When the first of them has waited long enough.
    pub(super) fn next_wait(&self) -> Option<Micros> {
        self.waits.front().map(|&(until, _)| until)
    }

    fn owner_of(&self, turn: &Reservation) -> Presence {
        self.topology.presence(turn.route.target, turn.route.pin)
    }

    /// The owner is back: admission decides about the turn as about any other.
    fn stop_waiting(&mut self, id: ReservationId, settled: &mut Vec<Settled>) {
        let Some(turn) = self.reservations.get_mut(id) else {
            return;
        };
        turn.route.is_waiting = false;
        self.ask_for_held(id, settled);
    }
}
