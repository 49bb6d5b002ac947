//! The published ThunderAgent controller: hold turns so that the contexts of active programs fit.
//!
//! Each worker is charged the contexts of its active programs plus a buffer. A tick every few
//! seconds brings paused programs back below one share of the capacity (`resume`), and above
//! another (`pause`) sheds: idle programs lose their room at once, reasoning ones are marked and
//! lose it when their turn ends. A new program is held while anybody is paused.
//!
//! This is a reproduction to compare with, so its faults are kept, on purpose:
//! * room given back is used at the next tick only, and any paused program, even an idle one, sends
//!   every newcomer into the queue, however much is free;
//! * all reasoning programs of a worker are marked where fewer would do, and a mark outlives the
//!   pressure; small contexts come back first, without ageing;
//! * a turn of an active program goes whatever the load; its estimate overwrites the exact size;
//! * a program larger than the ceiling of an empty worker waits for the timeout;
//! * a final turn runs uncharged; cancelling a program's first turn forgets the program although
//!   further turns wait; shared prefixes are charged once for each program;
//! * a lost worker is noticed at the next begin or tick, once: `sent` to a dead worker charges it
//!   until the live set changes again; sums lag behind progress until the next call that renews.
//!
//! Where no recorded run decides: a cancelled turn does not put its program back on a worker that
//! has died; an empty live set keeps programs where they are and lets new ones through unplaced.
//!
//! Each call is O(log programs), plus O(workers) when a program needs a new place; a tick is
//! O(workers + what it changes). See [`super`] for what is trusted.
mod config;
mod ledger;
mod program;
mod query;
mod table;
#[cfg(test)]
mod tests;
mod tick;

use super::{Begin, Kind, ProgramState, Release};
use crate::{Micros, ProgramId, ReservationId, Result, WorkerId};
use program::{Gate, Program, Turn, Undo};
use table::Table;

pub use config::ThunderAgentConfig;

/// What the policy has done since it was made. Only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Programs that lost their room, at a tick or at the end of a marked turn, and new or
    /// displaced ones that found none.
    pub pauses: u64,
    /// Programs brought back because there was room.
    pub resumes: u64,
    /// Programs brought back because a turn had waited too long.
    pub forced: u64,
    /// Programs marked.
    pub marks: u64,
    /// Idle programs forgotten after their retention.
    pub expired: u64,
    /// Idle programs forgotten at the bound.
    pub evicted: u64,
    /// Turns let through uncounted at the bound.
    pub untracked: u64,
    /// Tickets begun while they were in use; ignored.
    pub duplicates: u64,
}

/// The policy and all its state.
#[derive(Debug)]
pub struct ThunderAgent {
    table: Table,
    /// The latest time seen.
    clock: Micros,
    /// The next tick, a multiple of the interval.
    due: Micros,
    counters: Counters,
}

impl ThunderAgent {
    /// A policy without workers or programs.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when a setting is out of its range.
    pub fn new(config: ThunderAgentConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            clock: Micros(0),
            due: config.interval,
            table: Table::new(config),
            counters: Counters::default(),
        })
    }

    /// See [`Admission::begin`](super::Admission::begin). The live set is compared here.
    pub fn begin(&mut self, now: Micros, begin: Begin, out: &mut Vec<Release>) {
        self.observe(now);
        self.table.look();
        if self.table.turn(begin.ticket).is_some() {
            self.counters.duplicates += 1;
            return;
        }
        if self.table.is_full_for(begin.program) && !self.evict() {
            self.counters.untracked += 1;
            out.push(Release {
                ticket: begin.ticket,
                worker: begin.pin,
            });
            return;
        }
        let gate = Gate::Held;
        if self.table.enqueue(Turn { begin, gate }) {
            self.start(begin, out);
        }
    }

    /// Forgets the program that has been idle longest, if any is.
    fn evict(&mut self) -> bool {
        let Some(&(_, id)) = self.table.orders.idle.first() else {
            return false;
        };
        self.table.forget(id);
        self.counters.evicted += 1;
        true
    }

    /// The first turn of a lane becomes its current one.
    fn start(&mut self, turn: Begin, out: &mut Vec<Release>) {
        let Begin {
            ticket,
            program: id,
            pin,
            ..
        } = turn;
        let known = self.table.program(id).map(|program| program.state);
        if turn.kind == Kind::Final {
            let worker = pin.or(known.and_then(|state| state.worker));
            self.table.forget(id);
            return self.table.release(ticket, worker, out);
        }
        match known {
            None => {
                self.table.create(id, Program::new(turn.prompt_tokens));
                if self.table.orders.resume.is_empty() {
                    self.place(turn, out);
                } else {
                    self.hold(id);
                }
            }
            Some(state) => {
                self.table.edit(id, |p| p.step(turn.prompt_tokens));
                if state.standing == super::Standing::Paused {
                    self.hold(id);
                } else if self.may_stay(state.worker, pin) {
                    self.table.release(ticket, state.worker, out);
                } else {
                    self.place(turn, out);
                }
            }
        }
    }

    /// Whether an active program's next turn goes where the last one went, whatever the load.
    fn may_stay(&self, worker: Option<WorkerId>, pin: Option<WorkerId>) -> bool {
        let ledger = &self.table.orders.ledger;
        worker.is_some_and(|w| {
            (ledger.is_live(w) || ledger.is_blind()) && pin.is_none_or(|pin| pin == w)
        })
    }

    /// Finds an active program a worker within its whole capacity, or pauses it.
    fn place(&mut self, turn: Begin, out: &mut Vec<Release>) {
        let id = turn.program;
        self.table.edit(id, |p| p.state.worker = None);
        let need = self.need(id);
        let ledger = &self.table.orders.ledger;
        let worker = ledger.place(need, turn.pin);
        if worker.is_none() && !ledger.is_blind() {
            return self.hold(id);
        }
        let worker = worker.or(turn.pin);
        self.table.edit(id, |p| p.state.worker = worker);
        self.table.release(turn.ticket, worker, out);
    }

    /// The room a program asks for: its context, unweighted, and the buffer.
    fn need(&self, id: ProgramId) -> u64 {
        let tokens = self.table.program(id).map_or(0, |p| p.charged);
        u64::from(tokens) + u64::from(self.table.config.buffer_tokens)
    }

    /// A program waits, paused, with its current turn.
    fn hold(&mut self, id: ProgramId) {
        let now = self.clock;
        let paused = &mut self.counters.pauses;
        self.table.edit(id, |program| {
            *paused += u64::from(!program.is_paused());
            program.pause();
            program.held_since = Some(now);
        });
    }

    /// See [`Admission::sent`](super::Admission::sent). Only renews the sums when the turn is not
    /// its program's current one, is final, or is held.
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        self.observe(now);
        self.table.renew();
        if let Some(turn) = self.running(ticket) {
            let id = turn.program;
            self.table.edit(id, |p| p.state.worker = Some(worker));
        }
    }

    /// See [`Admission::progress`](super::Admission::progress). A context never shrinks by it.
    pub fn progress(&mut self, now: Micros, ticket: ReservationId, context_tokens: u32) {
        self.observe(now);
        if let Some(turn) = self.running(ticket) {
            self.table.report(turn.program, context_tokens);
        }
    }

    /// The turn behind `ticket` if it is released, not final, and so its program's current one.
    fn running(&self, ticket: ReservationId) -> Option<Begin> {
        let turn = self.table.turn(ticket)?;
        let runs = turn.gate != Gate::Held && turn.begin.kind == Kind::Turn;
        runs.then_some(turn.begin)
    }

    /// See [`Admission::complete`](super::Admission::complete). The next turn of the program
    /// starts in this call.
    pub fn complete(
        &mut self,
        now: Micros,
        ticket: ReservationId,
        context_tokens: Option<u32>,
        out: &mut Vec<Release>,
    ) {
        let held = self.is_held(ticket);
        if held {
            return self.cancel(now, ticket, out);
        }
        self.observe(now);
        self.table.renew();
        if let Some(turn) = self.running(ticket) {
            let now = self.clock;
            let paused = &mut self.counters.pauses;
            self.table.edit(turn.program, |program| {
                *paused += u64::from(program.state.marked);
                program.finish(now, context_tokens);
            });
        }
        self.end_turn(ticket, out);
    }

    /// See [`Admission::cancel`](super::Admission::cancel). A program whose first turn is
    /// cancelled is forgotten; its next turn, if one waits, starts in this call.
    pub fn cancel(&mut self, now: Micros, ticket: ReservationId, out: &mut Vec<Release>) {
        self.observe(now);
        self.table.renew();
        let Some(turn) = self.table.turn(ticket).copied() else {
            return;
        };
        let id = turn.begin.program;
        let current = self.table.queue(id).next() == Some(ticket);
        if !current {
            return self.table.dequeue(ticket);
        }
        if turn.begin.kind == Kind::Turn {
            match self.table.program(id).map(|program| program.undo) {
                Some(Undo::Restore(state, idle)) => self.restore(id, state, idle),
                Some(Undo::Forget) => self.table.forget(id),
                Some(Undo::Nothing) | None => {}
            }
        }
        self.end_turn(ticket, out);
    }

    /// Puts a program back to before its current turn, but never onto a dead worker.
    fn restore(&mut self, id: ProgramId, mut state: ProgramState, idle: Option<Micros>) {
        let ledger = &self.table.orders.ledger;
        state.worker = state
            .worker
            .filter(|&w| ledger.is_live(w) || ledger.is_blind());
        self.table.edit(id, |program| {
            program.state = state;
            program.idle_since = idle;
            program.held_since = None;
            program.undo = Undo::Nothing;
        });
    }

    /// Takes a current turn away and starts the next of its program.
    fn end_turn(&mut self, ticket: ReservationId, out: &mut Vec<Release>) {
        let Some(id) = self.table.turn(ticket).map(|turn| turn.begin.program) else {
            return;
        };
        self.table.dequeue(ticket);
        match self.table.current(id).map(|turn| turn.begin) {
            Some(next) => self.start(next, out),
            None => self.table.tidy(id),
        }
    }

    /// See [`Admission::set_workers`](super::Admission::set_workers). Programs on workers that are
    /// gone are noticed at the next begin or tick.
    pub fn set_workers(&mut self, now: Micros, workers: &[(WorkerId, Option<u64>)]) {
        self.observe(now);
        let old: Vec<WorkerId> = self.table.orders.ledger.live().collect();
        for id in old {
            if !workers.iter().any(|&(kept, _)| kept == id) {
                self.table.orders.ledger.unset(id);
            }
        }
        for &(id, capacity) in workers {
            self.table
                .orders
                .ledger
                .set(&self.table.config, id, capacity);
        }
    }

    /// See [`Admission::set_worker`](super::Admission::set_worker).
    pub fn set_worker(&mut self, now: Micros, worker: WorkerId, capacity: Option<u64>) {
        self.observe(now);
        let ledger = &mut self.table.orders.ledger;
        ledger.set(&self.table.config, worker, capacity);
    }

    /// See [`Admission::remove_worker`](super::Admission::remove_worker).
    pub fn remove_worker(&mut self, now: Micros, worker: WorkerId) {
        self.observe(now);
        self.table.orders.ledger.unset(worker);
    }

    /// See [`Admission::end_program`](super::Admission::end_program).
    pub fn end_program(&mut self, now: Micros, program: ProgramId) {
        self.observe(now);
        self.table.end(program);
    }
}
