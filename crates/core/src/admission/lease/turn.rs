//! How a turn gets in, where it goes, and what it leaves behind: the rules of the policy.
use std::cmp::Ordering;

use super::super::{Begin, Release, Waits};
use super::config::{Eviction, Evidence, LeaseConfig, WHOLE, share};
use super::room::Room;
use super::table::{Back, Gate, Left, Program, Run, Turn};
use super::waits::WaitKind;
use super::{Lease, Refusal, Why};
use crate::hint::{Action, Hint};
use crate::receipt::Candidate;
use crate::{Micros, ProgramId, ReservationId, WorkerId};

/// Leases where nobody waits and engines heed them, over theta times the break-even. Basis points.
const AT_EASE: u128 = 20_000;
/// The shortest, however long somebody waits. Basis points.
const IN_HASTE: u128 = 7_000;
/// How much the wait of the head counts beside the break-even.
const HASTE: u128 = 5;

/// Where a turn may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// `None`: anywhere.
    worker: Option<WorkerId>,
    uncached: u32,
    /// Tokens that a slower tier of the worker has.
    fetched: u32,
    /// Tokens that run on the worker with it.
    running: u64,
    is_cold: bool,
    /// Whether it may pass those who wait.
    pub(super) is_free: bool,
}

impl Lease {
    /// Enters a turn's program, and how long that was away; false when the turn cannot be kept account of.
    pub(super) fn enter(&mut self, begin: &Begin) -> bool {
        let programs = &mut self.table.programs;
        let is_full = programs.len() >= self.table.config.max_programs;
        if is_full && !programs.contains_key(&begin.program) {
            return false;
        }
        let program = programs.entry(begin.program).or_default();
        if program.turn.is_some() {
            return false;
        }
        program.turn = Some(begin.ticket);
        program.steps = program.steps.saturating_add(1);
        program.tokens = begin.prompt_tokens;
        program.is_over = false;
        if let Some(context) = program.context {
            let length = self.clock.since(context.since);
            program.was_late = length > context.break_even;
            self.lengths.count(context.kind, length);
            self.counters.waits.count(context.kind, program.was_late);
        }
        true
    }

    /// The worker that may take the turn now, and suits it [best](Fit). Where one of them counts no tokens,
    /// or the prompt is larger than all of them, nothing is known that could hold the turn.
    pub(super) fn choose(&self, begin: &Begin, rows: &[Candidate]) -> Option<Choice> {
        let mut best: Option<Fit<'_>> = None;
        let mut fits_somewhere = false;
        for row in rows {
            let room = self.table.rooms.get(&row.worker);
            let Some((room, capacity)) = room.and_then(|room| Some((room, room.capacity?))) else {
                return Some(self.anywhere(begin, rows));
            };
            fits_somewhere |= u64::from(begin.prompt_tokens) <= capacity;
            if self.refusal(begin, row, room, capacity).is_none() {
                let fit = Fit::of(begin, row, Some(room));
                best = Some(best.map_or(fit, |best| best.or(fit)));
            }
        }
        match fits_somewhere {
            true => Some(self.choice(begin, best?.row)),
            false => Some(self.anywhere(begin, rows)),
        }
    }

    /// The worker that a turn goes to which has waited for too long.
    pub(super) fn force(&mut self, begin: &Begin, rows: &[Candidate]) -> Option<Choice> {
        let rooms = &self.table.rooms;
        let fits = rows
            .iter()
            .map(|row| Fit::of(begin, row, rooms.get(&row.worker)));
        let best = fits.reduce(Fit::or)?;
        self.counters.forced += 1;
        Some(self.choice(begin, best.row))
    }

    fn choice(&self, begin: &Begin, row: &Candidate) -> Choice {
        let uncached = self.work(begin, row);
        let is_cold = uncached > self.table.config.warm_limit(begin.prompt_tokens);
        Choice {
            worker: Some(row.worker),
            uncached,
            fetched: row.host_tokens,
            running: running(row),
            is_cold,
            is_free: !is_cold,
        }
    }

    /// Tokens that have to be computed; those that come back from the host tier count as what that costs.
    fn work(&self, begin: &Begin, row: &Candidate) -> u32 {
        let uncached = begin.prompt_tokens.saturating_sub(row.overlap_tokens);
        let fetched = row.host_tokens.min(uncached);
        uncached - fetched + share(fetched.into(), self.table.config.fetch_share) as u32
    }

    /// Nothing is known that could hold the turn; the cost decides where it goes.
    fn anywhere(&self, begin: &Begin, rows: &[Candidate]) -> Choice {
        let most = rows.iter().map(|row| row.overlap_tokens).max().unwrap_or(0);
        Choice {
            worker: begin.pin,
            uncached: begin.prompt_tokens.saturating_sub(most),
            fetched: 0,
            running: 0,
            is_cold: false,
            is_free: true,
        }
    }

    /// Why the turn may not go to this worker now, if so.
    #[inline]
    fn refusal(&self, begin: &Begin, row: &Candidate, room: &Room, capacity: u64) -> Option<Why> {
        let need = u64::from(row.additional_tokens);
        // What others do there may never end.
        if room.turns == 0 && need <= capacity {
            return None;
        }
        let running = running(row);
        if running > capacity {
            return Some(Why::Running {
                have: capacity.saturating_sub(row.active_tokens),
                need,
            });
        }
        if self.work(begin, row) <= self.table.config.warm_limit(begin.prompt_tokens) {
            return None;
        }
        let needed = running + room.claimed() - self.own_claim(begin.program, row.worker);
        if needed > capacity {
            return Some(Why::Leases {
                have: capacity.saturating_sub(needed - need),
                need,
                next_end: room.next_end(),
            });
        }
        let is_calm = needed <= share(capacity, self.table.config.calm_share);
        (room.refills > 0 && !is_calm).then_some(Why::Refill)
    }

    /// Why each worker does not take the turn now.
    pub(super) fn refusals(&self, begin: &Begin, rows: &[Candidate], out: &mut Vec<Refusal>) {
        let refused = rows.iter().filter_map(|row| {
            let room = self.table.rooms.get(&row.worker)?;
            Some(Refusal {
                worker: row.worker,
                why: self.refusal(begin, row, room, room.capacity?)?,
            })
        });
        out.extend(refused);
    }

    /// What of a worker's claimed room the program itself has.
    fn own_claim(&self, program: ProgramId, worker: WorkerId) -> u64 {
        let record = self.table.programs.get(&program);
        let context = record.and_then(|record| record.context);
        match (context, self.table.rooms.get(&worker)) {
            (Some(context), Some(room)) if context.worker == worker => {
                room.claimed_by(context.rank)
            }
            _ => 0,
        }
    }

    /// Lets a turn go.
    pub(super) fn go(&mut self, begin: Begin, choice: Choice, out: &mut Vec<Release>) {
        match choice.is_cold {
            true => self.counters.cold += 1,
            false => self.counters.warm += 1,
        }
        let run = Run {
            worker: choice.worker,
            since: self.clock,
            uncached: choice.uncached,
            tokens: begin.prompt_tokens,
            is_refill: choice.is_cold,
            has_token: false,
        };
        let gate = Gate::Running(run);
        self.table.turns.insert(begin.ticket, Turn { begin, gate });
        match choice.worker {
            Some(worker) => self.settle_on(begin.program, worker, &run, choice),
            None => self.forget_context(begin.program),
        }
        // A context that is used again may have kept others behind it from going.
        self.is_news = true;
        out.push(Release {
            ticket: begin.ticket,
            worker: choice.worker,
        });
    }

    /// A turn runs on `worker` from now on, on what its program has left there.
    fn settle_on(&mut self, program: ProgramId, worker: WorkerId, run: &Run, choice: Choice) {
        let record = self.table.programs.get_mut(&program);
        let context = record.and_then(|record| record.context.take());
        let back = context.filter(|context| context.worker == worker);
        if let (Some(context), None) = (context, back) {
            self.table.give_up(context);
        }
        let back = back.map(|context| Back {
            context,
            found: choice.fetched,
        });
        let surrendered = self.table.seat(worker, run, back, choice.running);
        self.counters.surrendered += surrendered as u64;
    }

    /// What the program has left somewhere is of no use any more.
    fn forget_context(&mut self, program: ProgramId) {
        let record = self.table.programs.get_mut(&program);
        if let Some(context) = record.and_then(|record| record.context.take()) {
            self.table.give_up(context);
        }
    }

    /// The turn waits.
    pub(super) fn hold(&mut self, begin: Begin, rows: &[Candidate]) {
        self.counters.held += 1;
        let cached = rows.iter().map(|row| row.overlap_tokens).max();
        let uncached = begin.prompt_tokens.saturating_sub(cached.unwrap_or(0));
        let queue = &mut self.table.queue;
        queue.push(begin.ticket, begin.claimant, (), uncached);
        let gate = Gate::Held(self.clock);
        self.table.turns.insert(begin.ticket, Turn { begin, gate });
    }

    /// Changes a running turn and what it occupies.
    pub(super) fn move_run(&mut self, ticket: ReservationId, change: impl FnOnce(Run) -> Run) {
        let Some(turn) = self.table.turns.get_mut(&ticket) else {
            return;
        };
        let Gate::Running(before) = turn.gate else {
            return;
        };
        let after = change(before);
        turn.gate = Gate::Running(after);
        self.table.vacate(&before);
        self.table.occupy(&after);
    }

    /// A cold turn has its first token: what computing its prompt took.
    pub(super) fn learn(&mut self, ticket: ReservationId) {
        let Some(turn) = self.table.turns.get(&ticket) else {
            return;
        };
        let Gate::Running(run) = turn.gate else {
            return;
        };
        if !run.is_refill || run.has_token {
            return;
        }
        let before = turn.begin.prompt_tokens - run.uncached;
        let time = self.clock.since(run.since);
        let room = run.worker.and_then(|id| self.table.rooms.get_mut(&id));
        if let Some(room) = room {
            room.refill.observe(run.uncached, before, time);
        }
    }

    /// The program has ended a turn and keeps its room for a lease.
    pub(super) fn leave(&mut self, program: ProgramId, run: &Run, tokens: u32, waits: Waits) {
        let Some(record) = self.table.programs.get_mut(&program) else {
            return;
        };
        record.tokens = tokens;
        let (is_over, was_late) = (record.is_over, record.was_late);
        if let Some(worker) = run.worker {
            let kind = WaitKind { waits, was_late };
            let room = self.table.rooms.get(&worker);
            let waited = self.head_waits();
            let worth = room.map(|room| worth(room, &self.table.config, tokens, waited));
            let break_even = worth.unwrap_or_default();
            let length = match is_over {
                true => Micros(0),
                false => self.lengths.lease(kind, break_even),
            };
            let left = Left {
                program,
                worker,
                tokens,
                kind,
                break_even,
                lease_end: self.clock.plus(length),
            };
            let context = self.table.leave(self.clock, left);
            if let Some(record) = self.table.programs.get_mut(&program) {
                record.context = context;
            }
            self.hint(program, worker, (!is_over).then_some(left.lease_end));
        }
        self.tidy(program);
    }

    /// Tells an engine that listens.
    pub(super) fn hint(&mut self, program: ProgramId, worker: WorkerId, until: Option<Micros>) {
        if self.table.config.eviction == Eviction::LeaseEnd {
            let action = match until {
                Some(until) => Action::Retain { until },
                None => Action::Demote,
            };
            self.hints.push(Hint {
                program,
                worker,
                action,
            });
        }
    }

    /// Forgets a program that is over once its last turn is.
    pub(super) fn tidy(&mut self, program: ProgramId) {
        let Some(record) = self.table.programs.get(&program) else {
            return;
        };
        if !record.is_over || record.turn.is_some() {
            return;
        }
        let context = record.context;
        self.table.programs.remove(&program);
        if let Some(context) = context {
            let is_there = self.table.rooms.get(&context.worker);
            let is_there = is_there.is_some_and(|room| room.idle(context.rank).is_some());
            self.table.give_up(context);
            if is_there {
                self.hint(program, context.worker, None);
            }
        }
    }

    /// Whether the rows of a turn should speak of the account instead of what the index predicts.
    pub(super) fn keeps_account(&self) -> bool {
        self.table.config.evidence == Evidence::Account
    }
}

/// A worker that a turn may go to, by what suits its prompt.
///
/// Where most of it is cached the turn continues something, and the one with least to compute has it,
/// then the one with the least running. Little in common, such as a system prompt, binds a turn to
/// nobody, however little there is to compute: the cost, which knows the load, decides, then what runs,
/// and then how much room contexts have. The first of equals.
#[derive(Clone, Copy)]
struct Fit<'a> {
    row: &'a Candidate,
    /// Tokens of what it continues.
    continued: u32,
    room: Option<&'a Room>,
}

impl<'a> Fit<'a> {
    fn of(begin: &Begin, row: &'a Candidate, room: Option<&'a Room>) -> Self {
        let kept = row.overlap_tokens.saturating_add(row.host_tokens);
        Self {
            row,
            continued: if kept > begin.prompt_tokens / 2 {
                kept
            } else {
                0
            },
            room,
        }
    }

    /// What runs there, and tokens of contexts that no turn is using.
    fn load(&self) -> (u64, u64, WorkerId) {
        let idle = self.room.map_or(0, |room| room.leased() + room.spent());
        (self.row.active_tokens, idle, self.row.worker)
    }

    fn or(self, other: Self) -> Self {
        let by_prefix = other.continued.cmp(&self.continued);
        let by_cost = || match self.continued {
            0 => self.row.cost.total_cmp(&other.row.cost),
            _ => Ordering::Equal,
        };
        let by_load = || self.load().cmp(&other.load());
        match by_prefix.then_with(by_cost).then_with(by_load) {
            Ordering::Greater => other,
            Ordering::Less | Ordering::Equal => self,
        }
    }
}

/// Tokens that run on the row's worker when the turn does.
fn running(row: &Candidate) -> u64 {
    row.active_tokens
        .saturating_add(u64::from(row.additional_tokens))
}

/// How long a context of `tokens` may keep its room until that has cost as much as a refill, times
/// theta, while the head of the queue has waited for `waited`. A refill costs the less the more of what
/// gives way comes back from the host tier.
///
/// Twice that where nobody waits, once where the head has waited for a fifth of it (at a theta of 1),
/// less the longer it waits, but no less than [`IN_HASTE`]: the longer people wait, the sooner room has
/// to change hands, which keeps waits from swinging; below some length only refills become more. Engines
/// that drop the least recently used keep no context for its lease, so with those it is never above once.
fn worth(room: &Room, config: &LeaseConfig, tokens: u32, waited: Micros) -> Micros {
    let Some(capacity) = room.capacity.filter(|_| tokens > 0) else {
        return Micros(u64::MAX);
    };
    let spared = share(WHOLE - u64::from(config.fetch_share), room.regained);
    let refill = share(room.refill.time(tokens).0, (WHOLE - spared) as u32);
    let even = u128::from(refill) * u128::from(capacity) / u128::from(tokens);
    let haste = even + HASTE * u128::from(waited.0);
    let most = match config.eviction {
        Eviction::LeaseEnd => AT_EASE,
        Eviction::Lru => u128::from(WHOLE),
    };
    let stretch = (AT_EASE * even).checked_div(haste).unwrap_or(most);
    let stretch = stretch.clamp(IN_HASTE, most);
    let length = even * u128::from(config.theta) / u128::from(WHOLE) * stretch;
    Micros(u64::try_from(length / u128::from(WHOLE)).unwrap_or(u64::MAX))
}

impl Program {
    /// Whether nothing of it is on any worker and no turn of it runs.
    pub(super) fn waits_outside(&self, is_held: bool, has_context: bool) -> bool {
        !has_context && (is_held || self.turn.is_none())
    }
}
