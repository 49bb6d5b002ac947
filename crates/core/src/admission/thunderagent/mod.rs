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
//! has died; a live set that changes and changes back counts as a change; an empty one keeps
//! programs where they are and lets new ones through unplaced.
//!
//! Each call is O(log programs), plus O(workers) when a program needs a new place; a tick is
//! O(workers + what it changes). See [`super`] for what is trusted.
mod config;
mod ledger;
mod program;
#[cfg(test)]
mod proptests;
mod query;
mod table;
#[cfg(test)]
mod tests;
mod tick;
mod turn;
mod wake;

use hashbrown::HashSet;

use super::{Begin, Kind, Release};
use crate::{Micros, ProgramId, ReservationId, Result, WorkerId};
use program::{Gate, Turn, Undo};
use table::Table;
use wake::Wake;

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
    wake: Wake,
    counters: Counters,
}

/// One call at work: all that it may change, and where releases go.
struct Step<'a> {
    table: &'a mut Table,
    counters: &'a mut Counters,
    now: Micros,
    out: &'a mut Vec<Release>,
}

impl ThunderAgent {
    /// A policy without workers or programs.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when a setting is out of its range.
    pub fn new(config: ThunderAgentConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            wake: Wake::new(config.interval),
            table: Table::new(config),
            counters: Counters::default(),
        })
    }

    /// Notes the time; time never goes back.
    fn observe(&mut self, now: Micros) {
        self.wake.observe(now, &self.table);
    }

    fn step<'a>(&'a mut self, out: &'a mut Vec<Release>) -> Step<'a> {
        Step {
            table: &mut self.table,
            counters: &mut self.counters,
            now: self.wake.clock(),
            out,
        }
    }

    /// See [`Admission::begin`](super::Admission::begin). Lost workers are noticed here.
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
            self.step(out).start(begin);
        }
    }

    /// See [`Admission::room_elsewhere`](super::Admission::room_elsewhere): as a newcomer would find
    /// it, within a worker's whole capacity.
    pub fn room_elsewhere(
        &self,
        ticket: ReservationId,
        open: impl Fn(WorkerId) -> bool,
    ) -> Option<WorkerId> {
        let id = self.table.running(ticket)?;
        let need = self.table.need(id);
        self.table.orders.ledger.place_among(need, open)
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

    /// See [`Admission::sent`](super::Admission::sent). Only renews the sums when the turn is
    /// final, held or unknown.
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        self.observe(now);
        self.table.renew();
        if let Some(id) = self.table.running(ticket) {
            self.table.edit(id, |p| p.state.worker = Some(worker));
        }
    }

    /// See [`Admission::progress`](super::Admission::progress). A context never shrinks by it.
    pub fn progress(&mut self, now: Micros, ticket: ReservationId, context_tokens: u32) {
        self.observe(now);
        if let Some(id) = self.table.running(ticket) {
            self.table.report(id, context_tokens);
        }
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
        if self.is_held(ticket) {
            return self.cancel(now, ticket, out);
        }
        self.observe(now);
        self.table.renew();
        let mut step = self.step(out);
        if let Some(id) = step.table.running(ticket) {
            step.finish(id, context_tokens);
        }
        step.end_turn(ticket);
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
        if self.table.queue(id).next() != Some(ticket) {
            return self.table.dequeue(ticket);
        }
        let mut step = self.step(out);
        if turn.begin.kind == Kind::Turn {
            match step.table.program(id).map(|program| program.undo) {
                Some(Undo::Restore(state, idle)) => step.restore(id, state, idle),
                Some(Undo::Forget) => step.table.forget(id),
                Some(Undo::Nothing) | None => {}
            }
        }
        step.end_turn(ticket);
    }

    /// See [`Admission::set_workers`](super::Admission::set_workers). Programs on workers that are
    /// gone are noticed at the next begin or tick.
    pub fn set_workers(&mut self, now: Micros, workers: &[(WorkerId, Option<u64>)]) {
        self.observe(now);
        let old: Vec<WorkerId> = self.table.orders.ledger.live().collect();
        let kept: HashSet<WorkerId> = workers.iter().map(|&(id, _)| id).collect();
        for id in old {
            if !kept.contains(&id) {
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

    /// See [`Admission::set_leaving`](super::Admission::set_leaving). Not one of the published rules,
    /// which know no worker that leaves by and by.
    pub fn set_leaving(&mut self, leaving: &[WorkerId]) {
        self.table.orders.ledger.set_leaving(leaving);
    }

    /// See [`Admission::give_up_seat`](super::Admission::give_up_seat).
    pub fn give_up_seat(&mut self, now: Micros, program: ProgramId, bound: Option<WorkerId>) {
        self.observe(now);
        let worker = self.table.program(program).and_then(|p| p.state.worker);
        let ledger = &self.table.orders.ledger;
        if worker.is_some_and(|worker| bound != Some(worker) && ledger.is_leaving(worker)) {
            self.table.edit(program, |p| p.state.worker = None);
        }
    }

    /// See [`Admission::end_program`](super::Admission::end_program).
    pub fn end_program(&mut self, now: Micros, program: ProgramId) {
        self.observe(now);
        self.table.end(program);
    }

    /// See [`Admission::advance`](super::Admission::advance). Late or not, at most one tick runs.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Release>) {
        self.observe(now);
        if self.next_wake().is_some_and(|at| at <= self.wake.clock()) {
            self.tick(now, out);
        }
    }

    /// See [`Admission::next_wake`](super::Admission::next_wake).
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        self.wake.next(&self.table)
    }

    /// See [`Admission::relieve`](super::Admission::relieve). Not one of the published rules: they
    /// let a turn wait for the timeout on a fleet where nothing runs.
    pub fn relieve(&mut self, now: Micros, out: &mut Vec<Release>) {
        self.observe(now);
        self.step(out).relieve();
    }

    /// Runs a tick now, wanted or not.
    pub fn tick(&mut self, now: Micros, out: &mut Vec<Release>) {
        self.observe(now);
        self.step(out).tick();
        self.wake.ticked();
    }
}
