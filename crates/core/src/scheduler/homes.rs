//! Turns that wait for their home, and whether that is still one.
//!
//! With hard affinity a turn waits for its home alone while that is warm. What empties a home's cache says
//! nothing of turns, so they are looked at again: when the cache may have lost everything (it was cleared,
//! its capacity changed, its events are in doubt), at once those that wait for it; and once a second some of
//! all, since blocks also leave one by one, and by time alone. One whose home is cold waits for any worker
//! from then on, for as long as it has. Costs nothing while nobody waits for a home; O(workers) a look, and
//! at most [`MAX_LOOKS`] in a call.
use std::collections::BTreeSet;

use crate::admission::Gates;
use crate::affinity::Mode;
use crate::id::{Micros, ReservationId, WorkerId};

use super::Scheduler;
use super::reservation::Reservation;
use super::turn::Settled;

/// How often turns that wait for a home are looked at.
const EVERY: Micros = Micros::from_secs(1);

/// Turns of a group that are looked at in one call.
const MAX_LOOKS: usize = 64;

/// When turns that wait for their homes are looked at again.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Absent while nobody waits for a home.
    due: Option<Micros>,
    /// Workers whose cache may have nothing any more.
    doubted: BTreeSet<WorkerId>,
}

impl Looks {
    /// Somebody waits, and has a home.
    pub(super) fn begin(&mut self, now: Micros) {
        self.due.get_or_insert(now.plus(EVERY));
    }

    /// The worker's cache may have nothing any more.
    pub(super) fn doubt(&mut self, now: Micros, id: WorkerId) {
        if let Some(due) = &mut self.due {
            *due = now.min(*due);
            self.doubted.insert(id);
        }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Micros> {
        self.due
    }
}

impl Scheduler {
    /// The worker that takes every turn of the session while it is up and warm.
    pub(super) fn hard_home(&self, turn: &Reservation) -> Option<WorkerId> {
        if self.config.affinity.mode != Mode::Hard || turn.route.pin.is_some() {
            return None;
        }
        let home = self.homes.of(turn.program?)?;
        (!turn.route.excluded.contains(&home)).then_some(home)
    }

    /// Whether a turn that cannot go home at once waits for its home alone from now on: others may be open,
    /// but are not what it waits for. `is_shut`: it would have to wait in any case.
    pub(super) fn keeps_to_home(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        is_shut: bool,
    ) -> bool {
        let Some(home) = self.hard_home(turn) else {
            return false;
        };
        let group = turn.route.group.index();
        let goes_home = |gates: &Gates| !is_shut && gates.admits(id, home, &self.load);
        if self.gates[group].as_deref().is_none_or(goes_home) || !self.placer().is_home_warm(turn) {
            return false;
        }
        if let Some(gates) = &mut self.gates[group] {
            gates.set_home(id, Some(home));
        }
        true
    }

    /// Where a turn that the policy holds may go is looked at again.
    pub(super) fn look_at_home(&mut self, id: ReservationId) {
        self.rebind_at_gate(id);
        if self.config.affinity.mode != Mode::Hard {
            return;
        }
        self.leave_cold_home(id);
        if let Some(turn) = self.reservations.remove(id) {
            self.keeps_to_home(id, &turn, false);
            self.reservations.insert(id, turn);
        }
    }

    /// Whether a turn waits for its home no longer, because that is elsewhere now, or could take it and has
    /// nothing of its own. A home that is away for a while stays.
    fn leave_cold_home(&mut self, id: ReservationId) -> bool {
        let Some(turn) = self.reservations.remove(id) else {
            return false;
        };
        let group = turn.route.group.index();
        let waits_for = self.gates[group].as_ref().and_then(|gates| gates.home(id));
        let is_left = waits_for.is_some()
            && (self.hard_home(&turn) != waits_for
                || self.placer().draw_for(&turn).is_some_and(|d| d.is_cold()));
        self.reservations.insert(id, turn);
        if is_left && let Some(gates) = &mut self.gates[group] {
            gates.set_home(id, None);
        }
        is_left
    }

    /// Looks at some of the turns that wait for a home, where that is due. Those whose home is cold go where
    /// there is room, or wait for any.
    pub(super) fn look_at_homes(&mut self, settled: &mut Vec<Settled>) {
        if self.looks.due.is_none_or(|due| due > self.now) {
            return;
        }
        let doubted = std::mem::take(&mut self.looks.doubted);
        for group in 0..self.gates.len() {
            let freed = self.free_from_homes(group, &doubted);
            // The turn that the policy looks at first may wait for room at its home.
            let asks = self.asks_for_homes(group);
            if asks {
                self.admission[group].load_changed();
            }
            if asks || !freed.is_empty() {
                self.release(group, Vec::new(), settled);
            }
            for id in freed {
                if self.gates[group].as_ref().is_some_and(|g| g.is_waiting(id)) {
                    self.note_hold(id);
                }
            }
        }
        let groups = 0..self.gates.len();
        let gates = || self.gates.iter().flatten();
        self.looks.due = if gates().any(|gates| gates.doubts_homes()) {
            Some(self.now)
        } else if gates().any(|gates| gates.has_homebound())
            || groups.into_iter().any(|group| self.asks_for_homes(group))
        {
            Some(self.now.plus(EVERY))
        } else {
            None
        };
    }

    /// Turns of the group that were looked at and wait for their home no longer.
    fn free_from_homes(
        &mut self,
        group: usize,
        doubted: &BTreeSet<WorkerId>,
    ) -> Vec<ReservationId> {
        let Some(gates) = &mut self.gates[group] else {
            return Vec::new();
        };
        doubted.iter().for_each(|&home| gates.doubt_home(home));
        let mut freed = gates.homebound(MAX_LOOKS);
        freed.retain(|&id| self.leave_cold_home(id));
        for &id in &freed {
            self.count_anew(group, id);
        }
        freed
    }

    /// Whether turns wait at a policy that may find no room at a home.
    fn asks_for_homes(&self, group: usize) -> bool {
        let admission = &self.admission[group];
        admission.wants_rows() && admission.waiting() > 0
    }
}
