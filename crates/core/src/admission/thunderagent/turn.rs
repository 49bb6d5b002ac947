//! How a turn starts and ends: the part of the policy that looks at one program.
//!
//! Whether the program may go, wait or must move is decided here, from its own record and the sums
//! of the workers. Knows nothing of ticks. O(log programs), plus O(workers) for a new place.
use super::Step;
use super::program::{Program, Undo};
use crate::admission::{Begin, Kind, ProgramState, Standing};
use crate::{Micros, ProgramId, ReservationId, WorkerId};

impl Step<'_> {
    /// The first turn of a lane becomes its current one.
    pub(super) fn start(&mut self, turn: Begin) {
        let (ticket, id) = (turn.ticket, turn.program);
        let known = self.table.program(id).map(|program| program.state);
        if turn.kind == Kind::Final {
            let worker = turn.pin.or(known.and_then(|state| state.worker));
            self.table.forget(id);
            return self.table.release(ticket, worker, self.out);
        }
        let Some(state) = known else {
            return self.start_new(turn);
        };
        self.table.edit(id, |p| p.step(turn.prompt_tokens));
        if state.standing == Standing::Paused {
            self.hold(id);
        } else if self.may_stay(state.worker, turn.pin) {
            self.table.release(ticket, state.worker, self.out);
        } else {
            self.place(turn);
        }
    }

    /// The first turn of a program waits behind whoever is paused.
    fn start_new(&mut self, turn: Begin) {
        let program = Program::new(turn.prompt_tokens);
        self.table.create(turn.program, program);
        if self.table.orders.resume.is_empty() {
            self.place(turn);
        } else {
            self.hold(turn.program);
        }
    }

    /// Whether an active program's next turn goes where the last one went, whatever the load.
    fn may_stay(&self, worker: Option<WorkerId>, pin: Option<WorkerId>) -> bool {
        let ledger = &self.table.orders.ledger;
        worker.is_some_and(|w| ledger.may_serve(w) && pin.is_none_or(|pin| pin == w))
    }

    /// Finds an active program a worker within its whole capacity, or pauses it.
    fn place(&mut self, turn: Begin) {
        let id = turn.program;
        self.table.edit(id, |p| p.state.worker = None);
        let need = self.table.need(id);
        let ledger = &self.table.orders.ledger;
        let worker = ledger.place(need, turn.pin);
        if worker.is_none() && !ledger.is_blind() {
            return self.hold(id);
        }
        self.table.edit(id, |p| p.state.worker = worker);
        let target = worker.or(turn.pin);
        self.table.release(turn.ticket, target, self.out);
    }

    /// A program waits, paused, with its current turn.
    pub(super) fn hold(&mut self, id: ProgramId) {
        let now = self.now;
        let pauses = &mut self.counters.pauses;
        self.table.edit(id, |program| {
            *pauses += u64::from(!program.is_paused());
            program.pause();
            program.held_since = Some(now);
        });
    }

    /// A running turn has ended well.
    pub(super) fn finish(&mut self, id: ProgramId, context_tokens: Option<u32>) {
        let now = self.now;
        let pauses = &mut self.counters.pauses;
        self.table.edit(id, |program| {
            *pauses += u64::from(program.state.marked);
            program.finish(now, context_tokens);
        });
    }

    /// Puts a program back to before its current turn, but never onto a dead worker.
    pub(super) fn restore(&mut self, id: ProgramId, before: ProgramState, idle: Option<Micros>) {
        let ledger = &self.table.orders.ledger;
        let worker = before.worker.filter(|&w| ledger.may_serve(w));
        self.table.edit(id, |program| {
            program.state = ProgramState { worker, ..before };
            program.idle_since = idle;
            program.held_since = None;
            program.undo = Undo::Nothing;
        });
    }

    /// Takes a current turn away and starts the next of its program.
    pub(super) fn end_turn(&mut self, ticket: ReservationId) {
        let Some(id) = self.table.turn(ticket).map(|turn| turn.begin.program) else {
            return;
        };
        self.table.dequeue(ticket);
        match self.table.current(id).map(|turn| turn.begin) {
            Some(next) => self.start(next),
            None => self.table.tidy(id),
        }
    }
}
