//! The policy's records: programs, turns, workers, who waits, and which leases end when.
//!
//! Changes come in a few kinds, each of which keeps sums and orders in step; no rule of the policy is
//! here. O(log n) each.
use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::super::Begin;
use super::super::fair::FairQueue;
use super::config::{Eviction, LeaseConfig};
use super::room::{Claim, Idle, Rank, Room};
use super::waits::WaitKind;
use crate::{Micros, ProgramId, ReservationId, WorkerId};

impl Idle {
    /// When its lease ends, or the start of time when it has.
    pub(super) fn end(&self) -> Micros {
        match self.claim {
            Claim::Leased(end) => end,
            Claim::Spent => Micros(0),
        }
    }
}

/// What a program has left behind on a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) worker: WorkerId,
    pub(super) rank: Rank,
    /// When its last turn ended.
    pub(super) since: Micros,
    /// Its size then.
    pub(super) tokens: u32,
    pub(super) kind: WaitKind,
    /// How long its room could be kept for the price of a refill.
    pub(super) break_even: Micros,
}

/// One chain of turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) context: Option<Context>,
    pub(super) turn: Option<ReservationId>,
    pub(super) tokens: u32,
    pub(super) steps: u32,
    /// Whether its last wait had outlasted the break-even of its room.
    pub(super) was_late: bool,
    /// Nobody will come back after its present turn.
    pub(super) is_over: bool,
}

/// A turn that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// `None`: it went anywhere, and nobody has said where.
    pub(super) worker: Option<WorkerId>,
    pub(super) since: Micros,
    pub(super) uncached: u32,
    /// Tokens charged: the prompt and what was reported since.
    pub(super) tokens: u32,
    /// Whether it occupies its worker's refill.
    pub(super) is_refill: bool,
    pub(super) has_token: bool,
}

/// Whether a turn may run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gate {
    /// It waits since then.
    Held(Micros),
    /// It runs.
    Running(Run),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) begin: Begin,
    pub(super) gate: Gate,
}

/// Everything that the policy knows.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) config: LeaseConfig,
    pub(super) programs: HashMap<ProgramId, Program>,
    pub(super) turns: HashMap<ReservationId, Turn>,
    pub(super) rooms: BTreeMap<WorkerId, Room>,
    /// Who waits.
    pub(super) queue: FairQueue<()>,
    /// When each worker's next lease ends.
    timers: BTreeSet<(Micros, WorkerId)>,
    /// Numbers contexts that are left.
    next: u64,
    /// Programs of which nothing is left on any worker, since somebody asked.
    pub(super) gone: Vec<ProgramId>,
}

impl Table {
    pub(super) fn new(config: LeaseConfig) -> Self {
        Self {
            queue: FairQueue::new(config.weights.clone()),
            config,
            programs: HashMap::new(),
            turns: HashMap::new(),
            rooms: BTreeMap::new(),
            timers: BTreeSet::new(),
            next: 0,
            gone: Vec::new(),
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The context that a program has left, as far as it is still there.
    pub(super) fn idle(&self, program: ProgramId) -> Option<(Context, Idle)> {
        let context = self.programs.get(&program)?.context?;
        let idle = self.rooms.get(&context.worker)?.idle(context.rank)?;
        Some((context, idle))
    }

    /// A program leaves `tokens` on `worker` with a claim until `lease_end`.
    pub(super) fn leave(&mut self, now: Micros, left: Left) -> Option<Context> {
        let number = self.number();
        let is_over = left.lease_end <= now;
        let rank = match self.config.eviction {
            Eviction::Lru => (now, number),
            Eviction::LeaseEnd if is_over => (Micros(0), number),
            Eviction::LeaseEnd => (left.lease_end, number),
        };
        let room = self.rooms.get_mut(&left.worker).filter(|r| r.is_live)?;
        let idle = Idle {
            program: left.program,
            tokens: left.tokens,
            claim: match is_over {
                true => Claim::Spent,
                false => Claim::Leased(left.lease_end),
            },
        };
        room.insert(rank, idle);
        self.arm(left.worker);
        Some(Context {
            worker: left.worker,
            rank,
            since: now,
            tokens: left.tokens,
            kind: left.kind,
            break_even: left.break_even,
        })
    }

    /// An idle program keeps its room until `lease_end` instead.
    pub(super) fn lease_until(
        &mut self,
        now: Micros,
        program: ProgramId,
        context: Context,
        lease_end: Micros,
    ) {
        let number = self.number();
        let Some(room) = self.rooms.get_mut(&context.worker) else {
            return;
        };
        let is_over = lease_end <= now;
        let mut rank = context.rank;
        match self.config.eviction {
            Eviction::Lru if is_over => room.spend(rank),
            Eviction::Lru => room.extend(rank, lease_end),
            Eviction::LeaseEnd => {
                let Some(idle) = room.remove(rank) else {
                    return;
                };
                let claim = match is_over {
                    true => Claim::Spent,
                    false => Claim::Leased(lease_end),
                };
                rank = match is_over {
                    true => (Micros(0), number),
                    false => (lease_end, number),
                };
                room.insert(rank, Idle { claim, ..idle });
            }
        }
        self.arm(context.worker);
        if let Some(record) = self.programs.get_mut(&program) {
            record.context = Some(Context { rank, ..context });
        }
    }

    /// Nobody will come back for this context.
    pub(super) fn give_up(&mut self, context: Context) {
        let number = self.number();
        let Some(room) = self.rooms.get_mut(&context.worker) else {
            return;
        };
        room.shelf.take(context.rank);
        match self.config.eviction {
            Eviction::Lru => room.spend(context.rank),
            Eviction::LeaseEnd => {
                if let Some(idle) = room.remove(context.rank) {
                    let claim = Claim::Spent;
                    room.insert((Micros(0), number), Idle { claim, ..idle });
                }
            }
        }
        self.arm(context.worker);
    }

    /// A turn runs on a worker, on the context that it comes back to, and `running` tokens have to fit
    /// there. Returns how many contexts went for it.
    pub(super) fn seat(
        &mut self,
        worker: WorkerId,
        run: &Run,
        back: Option<Back>,
        running: u64,
    ) -> usize {
        let before = self.gone.len();
        let room = self.rooms.entry(worker).or_default();
        if let Some(Back { context, found }) = back {
            let left = room.remove(context.rank).map_or(0, |idle| idle.tokens);
            room.shelf.take(context.rank);
            room.regain(context.tokens.saturating_sub(left), found);
        }
        room.occupy(run);
        room.make_room(running, &mut self.gone);
        self.arm(worker);
        self.gone.len() - before
    }

    /// Waits for the next end of a lease on this worker.
    fn arm(&mut self, worker: WorkerId) {
        let Some(room) = self.rooms.get_mut(&worker) else {
            return;
        };
        let next = room.next_end();
        if next == room.armed {
            return;
        }
        if let Some(armed) = std::mem::replace(&mut room.armed, next) {
            self.timers.remove(&(armed, worker));
        }
        self.timers.extend(next.map(|end| (end, worker)));
    }

    #[cfg(test)]
    pub(super) fn timers(&self) -> &BTreeSet<(Micros, WorkerId)> {
        &self.timers
    }

    /// When the first lease ends.
    pub(super) fn next_expiry(&self) -> Option<Micros> {
        self.timers.first().map(|&(end, _)| end)
    }

    /// Ends the leases that are due. True when some context has lost its claim.
    pub(super) fn expire(&mut self, now: Micros) -> bool {
        let mut any = false;
        while let Some(&(end, worker)) = self.timers.first()
            && end <= now
        {
            self.timers.pop_first();
            if let Some(room) = self.rooms.get_mut(&worker) {
                any |= room.expire(now);
                room.armed = room.next_end();
                self.timers.extend(room.armed.map(|end| (end, worker)));
            }
        }
        any
    }

    /// Takes a turn out, and out of what it occupies. Returns it.
    pub(super) fn take(&mut self, ticket: ReservationId) -> Option<Turn> {
        let turn = self.turns.remove(&ticket)?;
        match turn.gate {
            Gate::Held(_) => {
                self.queue.remove(ticket);
            }
            Gate::Running(run) => self.vacate(&run),
        }
        if let Some(program) = self.programs.get_mut(&turn.begin.program) {
            program.turn = None;
        }
        Some(turn)
    }

    /// A running turn occupies its worker.
    pub(super) fn occupy(&mut self, run: &Run) {
        let Some(worker) = run.worker else {
            return;
        };
        self.rooms.entry(worker).or_default().occupy(run);
    }

    /// A running turn leaves its worker.
    pub(super) fn vacate(&mut self, run: &Run) {
        let Some(worker) = run.worker else {
            return;
        };
        let Some(room) = self.rooms.get_mut(&worker) else {
            return;
        };
        room.running -= u64::from(run.tokens);
        room.turns -= 1;
        room.refills -= usize::from(run.is_refill);
        if !room.is_live && room.turns == 0 {
            self.rooms.remove(&worker);
        }
    }

    /// Adds a worker to the live set, or changes its capacity.
    pub(super) fn set(&mut self, worker: WorkerId, capacity: Option<u64>) {
        let room = self.rooms.entry(worker).or_default();
        (room.is_live, room.capacity) = (true, capacity);
        room.shelf.resize(self.config.host_tokens);
        let running = room.running;
        room.make_room(running, &mut self.gone);
        self.arm(worker);
    }

    /// Takes the idle contexts off a worker, whose cache is empty.
    pub(super) fn empty(&mut self, worker: WorkerId) {
        if let Some(room) = self.rooms.get_mut(&worker) {
            room.clear(&mut self.gone);
            self.arm(worker);
        }
    }

    /// Takes a worker out of the live set, with the contexts that it has.
    pub(super) fn unset(&mut self, worker: WorkerId) {
        let Some(room) = self.rooms.get_mut(&worker) else {
            return;
        };
        room.is_live = false;
        let turns = room.turns;
        room.clear(&mut self.gone);
        self.arm(worker);
        if turns == 0 {
            self.rooms.remove(&worker);
        }
    }
}

/// What a turn comes back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    pub(super) context: Context,
    /// Tokens that the host tier has of what is gone.
    pub(super) found: u32,
}

/// What a turn leaves behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) program: ProgramId,
    pub(super) worker: WorkerId,
    pub(super) tokens: u32,
    pub(super) kind: WaitKind,
    pub(super) break_even: Micros,
    pub(super) lease_end: Micros,
}
