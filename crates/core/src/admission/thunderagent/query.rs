//! What can be asked of the policy without changing it.
//!
//! For status pages, snapshots and tests; no decision depends on anything here.
use super::program::Gate;
use super::{Counters, ThunderAgent};
use crate::admission::{Ahead, Behind, COUNTED, ProgramState};
use crate::{ProgramId, ReservationId, WorkerId};

impl ThunderAgent {
    /// Tokens charged to `worker`. Growth told by `progress` is in it from the next begin, sent,
    /// complete, cancel or tick on.
    #[must_use]
    pub fn used(&self, worker: WorkerId) -> u64 {
        self.table.orders.ledger.used(worker)
    }

    /// Whose turn this is; `None` when it has not begun or has ended.
    #[must_use]
    pub fn program_of(&self, ticket: ReservationId) -> Option<ProgramId> {
        self.table.turn(ticket).map(|turn| turn.begin.program)
    }

    /// Every worker that an active program is on, with its charge, by id.
    pub fn charges(&self) -> impl Iterator<Item = (WorkerId, u64)> {
        self.table.orders.ledger.charged()
    }

    /// See [`Admission::ahead`](crate::admission::Admission::ahead). Looks at [`COUNTED`] paused
    /// programs at most.
    #[must_use]
    pub fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        let turn = self.table.turn(ticket)?;
        if turn.gate != Gate::Held {
            return None;
        }
        let id = turn.begin.program;
        let own = self.table.queue(id).position(|queued| queued == ticket)?;
        let paused = self.table.program(id).is_some_and(|p| p.is_paused());
        let turns = match paused {
            true => {
                let order = self.table.orders.resume.iter().take(COUNTED);
                let ahead = order.take_while(|&&(_, _, other)| other != id);
                let held = ahead.map(|&(_, _, p)| self.table.queue(p).count());
                held.sum::<usize>() + own
            }
            // The first of its program runs.
            false => own.saturating_sub(1),
        };
        let behind = Behind::Earlier;
        Some(Ahead { turns, behind })
    }

    /// See [`Admission::is_held`](crate::admission::Admission::is_held).
    #[must_use]
    pub fn is_held(&self, ticket: ReservationId) -> bool {
        let turn = self.table.turn(ticket);
        turn.is_some_and(|turn| turn.gate == Gate::Held)
    }

    /// Turns that are held: for room, or behind another turn of their program.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Turns that have begun and not ended, held or running.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.table.tracked()
    }

    /// Appends the programs that were paused since the last call; some may be back by now.
    pub fn take_pauses(&mut self, out: &mut Vec<ProgramId>) {
        out.append(&mut self.table.pauses);
    }

    /// Programs that are paused.
    #[must_use]
    pub fn paused(&self) -> usize {
        self.table.orders.resume.len()
    }

    /// Programs that will be paused when their turn ends.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.table.orders.marked
    }

    /// What is known of one program.
    #[must_use]
    pub fn state(&self, program: ProgramId) -> Option<ProgramState> {
        self.table.program(program).map(|program| program.state)
    }

    /// Every program with its state, by id. O(n log n).
    #[must_use]
    pub fn programs(&self) -> Vec<(ProgramId, ProgramState)> {
        let all = self.table.programs();
        let mut all: Vec<_> = all.map(|(id, program)| (id, program.state)).collect();
        all.sort_unstable_by_key(|&(id, _)| id);
        all
    }

    /// Every released turn that has not ended, with the worker chosen for it, by ticket.
    /// O(n log n).
    #[must_use]
    pub fn released(&self) -> Vec<(ReservationId, Option<WorkerId>)> {
        let turns = self.table.turns().filter_map(|turn| match turn.gate {
            Gate::Released(worker) => Some((turn.begin.ticket, worker)),
            Gate::Held => None,
        });
        let mut turns: Vec<_> = turns.collect();
        turns.sort_unstable_by_key(|&(ticket, _)| ticket);
        turns
    }

    /// What the policy has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
