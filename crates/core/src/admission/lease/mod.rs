//! The lease policy: warm turns pass, cold turns queue, idle contexts keep their room for as long as
//! a refill is worth.
//!
//! A pause happens because another turn waits, never because of a clock or a threshold alone, and ends
//! because somebody else's lease does:
//! * a **warm** turn, of which next to nothing has to be computed, goes at once: to where its prefix is
//!   when most of the prompt is there, else to the cheapest worker;
//! * a **cold** one waits in one queue of its group ([`super::fair`]), whose head nobody passes, until some worker computes no
//!   other cold prompt and has room beside what runs there and the leases that run;
//! * a session that has ended a turn keeps its room for `theta × refill time × capacity / context`:
//!   then the room has cost the others as much as computing the context again costs (ski rental).
//!   twice as long where nobody waits (and engines heed it), and the shorter the longer the head of the queue has waited,
//!   down to seven tenths. After that, and when the session has ended, the room is anybody's who
//!   needs it;
//! * a turn that some worker without other turns of the policy can take always goes, so nobody waits while
//!   nothing runs, whatever others do there; one that no worker could ever take goes too, for the engine to
//!   refuse.
//!
//! Where a host tier takes what caches give up ([`shelf`], or by the engines' word), a turn is as cold as
//! what it costs to fetch and to compute, goes back to where its context is, and leases are the shorter the
//! more comes back.
//!
//! The policy keeps an account of what each session has left where ([`room`]), because what a hint
//! keeps or an engine drops is not what the prefix index predicts. The rows that come with a turn say
//! what each worker has of its prompt and what runs there; they are right about turns that the policy
//! does not know (those without a session), which count as load and are never held.
//!
//! O(log n) for each call, and O(workers of the group) for each turn that is looked at. See
//! [`super`] for what is trusted. A second turn of a program that has one under way passes uncounted.
mod config;
#[cfg(test)]
mod proptests;
mod query;
mod refill;
mod room;
mod shelf;
mod table;
#[cfg(test)]
mod tests;
mod tool;
mod turn;
mod waits;

use hashbrown::HashSet;

use super::{Begin, End, Release};
use crate::hint::Hint;
use crate::receipt::Candidate;
use crate::{Micros, ProgramId, ReservationId, Result, WorkerId};
use table::{Gate, Run, Table, Turn};

pub(super) use super::refusal::{Refusal, Why};
pub use config::{Eviction, Evidence, LeaseConfig};
pub use query::RoomUse;
use waits::WaitLengths;
pub use waits::{WaitCount, WaitCounts};

/// What the policy has done since it was made. Only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounters {
    /// Turns that went at once because next to nothing had to be computed.
    pub warm: u64,
    /// Turns that had much to compute and went, at once or after a hold.
    pub cold: u64,
    /// Turns that were held first.
    pub held: u64,
    /// Turns that went because they had waited for as long as is allowed.
    pub forced: u64,
    /// Contexts that gave all their room to others.
    pub surrendered: u64,
    /// Turns let through uncounted: a second one of its program, or one beyond the bound.
    pub untracked: u64,
    /// Tickets begun while they were in use; ignored.
    pub duplicates: u64,
    /// How waits between turns compared with leases.
    pub waits: WaitCounts,
}

/// The policy and all its state.
#[derive(Debug)]
pub struct Lease {
    table: Table,
    clock: Micros,
    counters: LeaseCounters,
    /// Something has changed since the head of the queue was looked at.
    is_news: bool,
    hints: Vec<Hint>,
    lengths: WaitLengths,
}

impl Lease {
    /// A policy without workers or programs.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when a setting is out of its range.
    pub fn new(config: LeaseConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            table: Table::new(config),
            clock: Micros(0),
            counters: LeaseCounters::default(),
            is_news: false,
            hints: Vec::new(),
            lengths: WaitLengths::default(),
        })
    }

    /// Notes the time, which never goes back, and ends the leases that are due.
    fn observe(&mut self, now: Micros) {
        self.clock = self.clock.max(now);
        self.is_news |= self.table.expire(self.clock);
    }

    /// See [`Admission::begin`](super::Admission::begin).
    pub fn begin(&mut self, now: Micros, begin: Begin, rows: &[Candidate], out: &mut Vec<Release>) {
        self.observe(now);
        if self.table.turns.contains_key(&begin.ticket) {
            self.counters.duplicates += 1;
            return;
        }
        if !self.enter(&begin) {
            self.counters.untracked += 1;
            out.push(Release {
                ticket: begin.ticket,
                worker: begin.pin,
            });
            return;
        }
        match self.choose(&begin, rows) {
            Some(choice) if choice.is_free || self.table.queue.is_empty() => {
                self.go(begin, choice, out);
            }
            _ => self.hold(begin, rows),
        }
    }

    /// See [`Admission::head`](super::Admission::head).
    pub fn head(&mut self) -> Option<ReservationId> {
        if !std::mem::take(&mut self.is_news) {
            return None;
        }
        let overdue = self.oldest().filter(|&(_, since)| self.is_overdue(since));
        match overdue {
            Some((ticket, _)) => Some(ticket),
            None => self.table.queue.first(&[()]),
        }
    }

    /// See [`Admission::offer`](super::Admission::offer).
    pub fn offer(
        &mut self,
        now: Micros,
        ticket: ReservationId,
        rows: &[Candidate],
        out: &mut Vec<Release>,
    ) {
        self.observe(now);
        let Some(Turn {
            begin,
            gate: Gate::Held(since),
        }) = self.table.turns.get(&ticket).copied()
        else {
            return;
        };
        let mut choice = self.choose(&begin, rows);
        if choice.is_none() && self.is_overdue(since) {
            choice = self.force(&begin, rows);
        }
        if let Some(choice) = choice {
            self.table.queue.serve(ticket, &[()]);
            self.go(begin, choice, out);
        }
    }

    /// See [`Admission::refusals`](super::Admission::refusals).
    pub fn refusals_of(&self, ticket: ReservationId, rows: &[Candidate], out: &mut Vec<Refusal>) {
        if let Some(turn) = self.table.turns.get(&ticket) {
            self.refusals(&turn.begin, rows, out);
        }
    }

    /// See [`Admission::sent`](super::Admission::sent).
    pub fn sent(&mut self, now: Micros, ticket: ReservationId, worker: WorkerId) {
        self.observe(now);
        let turn = self.table.turns.get(&ticket);
        let is_there = turn.is_none_or(|turn| match turn.gate {
            Gate::Running(run) => run.worker == Some(worker),
            Gate::Held(..) => true,
        });
        if is_there {
            return;
        }
        self.move_run(ticket, |run| Run {
            worker: Some(worker),
            ..run
        });
        self.is_news = true;
    }

    /// See [`Admission::first_token`](super::Admission::first_token).
    pub fn first_token(&mut self, now: Micros, ticket: ReservationId) {
        self.observe(now);
        self.learn(ticket);
        self.move_run(ticket, |run| Run {
            is_refill: false,
            has_token: true,
            ..run
        });
        self.is_news = true;
    }

    /// See [`Admission::cache_lost`](super::Admission::cache_lost).
    pub fn cache_lost(&mut self, worker: WorkerId) {
        self.table.empty(worker);
        self.is_news = true;
    }

    /// See [`Admission::load_changed`](super::Admission::load_changed).
    pub fn load_changed(&mut self) {
        self.is_news = true;
    }

    /// See [`Admission::progress`](super::Admission::progress). A context never shrinks by it.
    pub fn progress(&mut self, now: Micros, ticket: ReservationId, context_tokens: u32) {
        self.observe(now);
        self.move_run(ticket, |run| Run {
            tokens: run.tokens.max(context_tokens),
            ..run
        });
    }

    /// See [`Admission::complete`](super::Admission::complete).
    pub fn complete(&mut self, now: Micros, ticket: ReservationId, end: End) {
        self.observe(now);
        // Of a turn that is not kept account of, this is all that is heard.
        self.is_news = true;
        let Some(turn) = self.table.take(ticket) else {
            return;
        };
        match turn.gate {
            Gate::Running(run) => {
                let tokens = end.context_tokens.unwrap_or(run.tokens);
                self.leave(turn.begin.program, &run, tokens, end.waits);
            }
            Gate::Held(_) => self.tidy(turn.begin.program),
        }
    }

    /// See [`Admission::cancel`](super::Admission::cancel).
    pub fn cancel(&mut self, now: Micros, ticket: ReservationId) {
        self.observe(now);
        // Of a turn that is not kept account of, this is all that is heard.
        self.is_news = true;
        let Some(turn) = self.table.take(ticket) else {
            return;
        };
        match turn.gate {
            Gate::Running(run) => {
                let computed = match run.has_token {
                    true => run.tokens,
                    false => turn.begin.prompt_tokens - run.uncached,
                };
                self.leave(turn.begin.program, &run, computed, super::Waits::Unknown);
            }
            Gate::Held(_) => self.tidy(turn.begin.program),
        }
    }

    /// See [`Admission::set_workers`](super::Admission::set_workers). A worker that leaves the live
    /// set is taken to have lost its cache; turns that still run there end as usual.
    pub fn set_workers(&mut self, now: Micros, workers: &[(WorkerId, Option<u64>)]) {
        self.observe(now);
        let live = self.table.rooms.iter().filter(|(_, room)| room.is_live);
        let kept: HashSet<WorkerId> = workers.iter().map(|&(id, _)| id).collect();
        let lost = live.map(|(&id, _)| id).filter(|id| !kept.contains(id));
        let lost: Vec<WorkerId> = lost.collect();
        for id in lost {
            self.table.unset(id);
        }
        for &(id, capacity) in workers {
            self.table.set(id, capacity);
        }
        self.is_news = true;
    }

    /// See [`Admission::set_worker`](super::Admission::set_worker).
    pub fn set_worker(&mut self, now: Micros, worker: WorkerId, capacity: Option<u64>) {
        self.observe(now);
        self.table.set(worker, capacity);
        self.is_news = true;
    }

    /// See [`Admission::remove_worker`](super::Admission::remove_worker).
    pub fn remove_worker(&mut self, now: Micros, worker: WorkerId) {
        self.observe(now);
        self.table.unset(worker);
        self.is_news = true;
    }

    /// See [`Admission::end_program`](super::Admission::end_program).
    pub fn end_program(&mut self, now: Micros, program: ProgramId) {
        self.observe(now);
        let Some(record) = self.table.programs.get_mut(&program) else {
            return;
        };
        record.is_over = true;
        if record.turn.is_none() {
            self.tidy(program);
        }
        self.is_news = true;
    }

    /// See [`Admission::advance`](super::Admission::advance).
    pub fn advance(&mut self, now: Micros) {
        self.observe(now);
        self.is_news |= self.overdue_at().is_some_and(|at| at <= self.clock);
    }

    /// See [`Admission::next_wake`](super::Admission::next_wake). Nobody waits, nothing is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Micros> {
        if self.table.queue.is_empty() {
            return None;
        }
        let expiry = self.table.next_expiry();
        expiry.into_iter().chain(self.overdue_at()).min()
    }

    /// How long the head of the queue has waited.
    fn head_waits(&self) -> Micros {
        let head = self.table.queue.first(&[()]);
        match head.and_then(|ticket| self.table.turns.get(&ticket)) {
            Some(Turn {
                gate: Gate::Held(since),
                ..
            }) => self.clock.since(*since),
            _ => Micros(0),
        }
    }

    /// When the turn that has waited longest goes whatever the load.
    fn overdue_at(&self) -> Option<Micros> {
        let limit = self.table.config.force_after?;
        self.oldest().map(|(_, since)| since.plus(limit))
    }

    /// The turn that has waited longest, and since when.
    fn oldest(&self) -> Option<(ReservationId, Micros)> {
        let ticket = self.table.queue.oldest()?;
        match self.table.turns.get(&ticket)?.gate {
            Gate::Held(since) => Some((ticket, since)),
            Gate::Running(_) => None,
        }
    }

    fn is_overdue(&self, since: Micros) -> bool {
        let limit = self.table.config.force_after;
        limit.is_some_and(|limit| self.clock.since(since) >= limit)
    }
}
