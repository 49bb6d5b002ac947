//! What can be asked of the policy without changing it, and what it has to tell.
use super::super::{Account, Ahead, Phase, ProgramState, Standing};
use super::room::Claim;
use super::table::Gate;
use super::{Lease, LeaseCounters};
use crate::hint::Hint;
use crate::{Micros, ProgramId, ReservationId, WorkerId};

/// What a worker's room is used for. Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomUse {
    /// By turns.
    pub running: u64,
    /// By idle contexts whose lease runs.
    pub leased: u64,
    /// By idle contexts that may go.
    pub spent: u64,
}

impl Lease {
    /// What a worker's room is used for; nothing for an unknown worker. A prefix that contexts share
    /// counts as often as they do. O(1).
    #[must_use]
    pub fn room(&self, worker: WorkerId) -> RoomUse {
        let room = self.table.rooms.get(&worker);
        room.map_or(RoomUse::default(), |room| RoomUse {
            running: room.running,
            leased: room.leased(),
            spent: room.spent(),
        })
    }

    /// Tokens of a worker that turns and leases claim. O(1).
    #[must_use]
    pub fn used(&self, worker: WorkerId) -> u64 {
        let room = self.room(worker);
        room.running + room.leased
    }

    /// Where an idle program's context is, and how much of it is believed to be there. `None` for a
    /// program that is not known; its place is right even when nothing is left. O(log contexts).
    #[must_use]
    pub fn account(&self, program: ProgramId) -> Option<Account> {
        if !self.keeps_account() {
            return None;
        }
        let context = self.table.programs.get(&program)?.context?;
        let room = self.table.rooms.get(&context.worker);
        let idle = room.and_then(|room| room.idle(context.rank));
        Some(Account {
            worker: context.worker,
            tokens: idle.map_or(0, |idle| idle.tokens),
            host_tokens: room.map_or(0, |room| room.shelf.tokens(context.rank)),
        })
    }

    /// See [`Admission::has_lease`](crate::admission::Admission::has_lease).
    #[must_use]
    pub fn has_lease(&self, now: Micros, program: ProgramId) -> bool {
        match self.table.idle(program) {
            // Leases that have run out are looked at when somebody needs their room.
            Some((_, idle)) => matches!(idle.claim, Claim::Leased(end) if end > now),
            None => false,
        }
    }

    /// See [`Admission::ahead`](crate::admission::Admission::ahead).
    #[must_use]
    pub fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        self.table.queue.ahead(ticket)
    }

    /// See [`Admission::is_held`](crate::admission::Admission::is_held).
    #[must_use]
    pub fn is_held(&self, ticket: ReservationId) -> bool {
        let turn = self.table.turns.get(&ticket);
        turn.is_some_and(|turn| matches!(turn.gate, Gate::Held(_)))
    }

    /// Turns that are held.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.table.queue.len()
    }

    /// Programs with a turn that is held.
    #[must_use]
    pub fn paused(&self) -> usize {
        self.table.queue.len()
    }

    /// Appends the programs of which nothing is left on any worker, since the last call; some may be
    /// back by now.
    pub fn take_pauses(&mut self, out: &mut Vec<ProgramId>) {
        out.append(&mut self.table.gone);
    }

    /// Appends what engines should be told since the last call.
    pub fn take_hints(&mut self, out: &mut Vec<Hint>) {
        out.append(&mut self.hints);
    }

    /// What is known of one program.
    #[must_use]
    pub fn state(&self, program: ProgramId) -> Option<ProgramState> {
        let record = self.table.programs.get(&program)?;
        let turn = record.turn.and_then(|ticket| self.table.turns.get(&ticket));
        let idle = self.table.idle(program);
        let running = turn.and_then(|turn| match turn.gate {
            Gate::Running(run) => Some(run),
            Gate::Held(_) => None,
        });
        let is_held = turn.is_some() && running.is_none();
        let is_outside = record.waits_outside(is_held, idle.is_some());
        Some(ProgramState {
            phase: match record.turn {
                Some(_) => Phase::Reasoning,
                None => Phase::Acting,
            },
            standing: match is_outside {
                true => Standing::Paused,
                false => Standing::Active,
            },
            worker: match running {
                Some(run) => run.worker,
                None => idle.map(|(context, _)| context.worker),
            },
            tokens: record.tokens,
            steps: record.steps,
            marked: false,
        })
    }

    /// Every program with its state, by id. O(n log n).
    #[must_use]
    pub fn programs(&self) -> Vec<(ProgramId, ProgramState)> {
        let mut ids: Vec<_> = self.table.programs.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter()
            .filter_map(|id| Some((id, self.state(id)?)))
            .collect()
    }

    /// What the policy has done so far.
    #[must_use]
    pub fn counters(&self) -> LeaseCounters {
        self.counters
    }
}
