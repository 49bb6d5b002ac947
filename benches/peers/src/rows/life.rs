//! What does an index cost a router, from the first turn to the last removal?
//!
//! Every system lives through the same day: each turn is looked up, goes to its worker and has its
//! events applied (what a system writes down about the decision itself counts as part of the store);
//! then past turns are looked up at random; then half of the workers are cleared, the older half of
//! what the others hold is evicted, and single blocks vanish from the middle of what is left. Look-ups
//! in between must credit the same blocks everywhere.
//!
//! A look-up is the first of its session since many others, so it is cold but for its own hashes,
//! which the caller has just made.
use std::num::NonZeroUsize;

use super::{Context, Obstacle};
use crate::measure::{Preemption, Samples, nanos, ticks};
use crate::peers::{self, CRTC, Index, System};
use crate::report::Table;
use crate::workload::{EVENT_BLOCKS, HeldBlock, Path, Route, Shape, Workload, mix};

const SESSIONS_BLOCKS: usize = 1_420_000;
const TEN_MILLION: usize = 10_000_000;
/// Past turns that are looked up, and single blocks that are removed.
const PAST_TURNS: usize = 4_000;
const CHECKED_TURNS: usize = 500;
const PUNCTURES: usize = 2_000;
const AFTER_HOLES: &str = "after single blocks were removed";
/// Bulk work is made ready in slices of this many events.
const SLICE: usize = 512;
/// Of the 10 M blocks, whatever was asked for: a round takes about a minute.
const TEN_MILLION_ROUNDS: usize = 2;

pub(super) fn sessions(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let workload = Workload::new(context.sessions()?, &context.shape(SESSIONS_BLOCKS, 8));
    let held = workload.by_age();
    each_round(context, &peers::ALL, |system| {
        let mut life = Life::new(&workload, system, "sessions");
        let day = life.replay(table);
        table.put(
            "find.cold.next-turn.p50",
            system.name,
            day.finds.quantile(0.5),
        );
        table.put("store.as-a-router", system.name, day.nanos_a_block);
        table.put("apply.turn.p99.9", system.name, day.applies.quantile(0.999));
        let past = life.look_back(context.many(PAST_TURNS), "past turns", table);
        table.put("find.cold.random-past.p50", system.name, past.quantile(0.5));
        table.put(
            "find.cold.random-past.p99",
            system.name,
            past.quantile(0.99),
        );
        let end = life.end(&held, context.many(PUNCTURES), table);
        table.put("clear.worker", system.name, end.clear);
        table.put("remove.lru", system.name, end.evict);
        table.put("remove.middle.sessions", system.name, end.puncture);
    });
    Ok(())
}

pub(super) fn sessions_64(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let workload = Workload::new(context.sessions()?, &context.shape(SESSIONS_BLOCKS, 64));
    each_round(context, &peers::ALL, |system| {
        let day = Life::new(&workload, system, "sessions, 64 workers").replay(table);
        let p50 = day.finds.quantile(0.5);
        table.put("find.cold.next-turn.64-workers.p50", system.name, p50);
        table.put(
            "store.as-a-router.64-workers",
            system.name,
            day.nanos_a_block,
        );
    });
    Ok(())
}

pub(super) fn mooncake(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let shape = Shape {
        // The trace as it is: one copy.
        blocks: 1,
        workers: 8,
        route: Route::ByTurn,
        naming: context.naming,
    };
    let workload = Workload::new(context.mooncake()?, &shape);
    let held = workload.by_age();
    each_round(context, &peers::ALL, |system| {
        let mut life = Life::new(&workload, system, "mooncake");
        let day = life.replay(table);
        table.put(
            "find.cold.mooncake.p50",
            system.name,
            day.finds.quantile(0.5),
        );
        table.put("store.mooncake", system.name, day.nanos_a_block);
        let end = life.end(&held, context.many(PUNCTURES), table);
        table.put("remove.middle.mooncake", system.name, end.puncture);
    });
    Ok(())
}

/// What sessions cost on top of the store: the same day, with and without them.
pub(super) fn upkeep(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let workload = Workload::new(context.sessions()?, &context.shape(SESSIONS_BLOCKS, 8));
    each_round(context, &[peers::ALONE, peers::WITH_SESSIONS], |system| {
        let day = Life::new(&workload, system, "upkeep").replay(table);
        table.put("sessions.upkeep", system.name, day.nanos_a_block);
    });
    Ok(())
}

/// Without the index that must be woken for every turn: its look-ups cost what those of its
/// single-threaded sibling do, and a round takes minutes.
pub(super) fn ten_million(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let workload = Workload::new(context.sessions()?, &context.shape(TEN_MILLION, 64));
    let systems: Vec<System> = peers::ALL.into_iter().filter(|s| s.name != CRTC).collect();
    for _ in 0..context.rounds.min(TEN_MILLION_ROUNDS) {
        for system in &systems {
            let day = Life::new(&workload, system, "ten million").replay(table);
            let p50 = day.finds.quantile(0.5);
            table.put("find.cold.next-turn.10m.p50", system.name, p50);
            table.put("store.as-a-router.10m", system.name, day.nanos_a_block);
        }
    }
    Ok(())
}

fn each_round(context: &Context, systems: &[System], mut run: impl FnMut(&System)) {
    for _ in 0..context.rounds {
        systems.iter().for_each(&mut run);
    }
}

/// A day of turns.
struct Day {
    finds: Samples,
    /// Of turns with events.
    applies: Samples,
    /// Of stores; NaN when another thread applies.
    nanos_a_block: f64,
}

/// Costs of going: a cleared block, an evicted block, a block out of the middle.
struct End {
    clear: f64,
    evict: f64,
    puncture: f64,
}

/// One system on its way through a workload.
struct Life<'a> {
    workload: &'a Workload<'a>,
    index: Box<dyn Index>,
    path: Path,
    scenario: &'static str,
}

impl<'a> Life<'a> {
    fn new(workload: &'a Workload<'a>, system: &System, scenario: &'static str) -> Self {
        Self {
            workload,
            index: (system.create)(workload.workers),
            path: Path::default(),
            scenario,
        }
    }

    fn answer(&self, table: &mut Table, question: &str, sum: u64) {
        let question_of = format!("{}: {question}", self.scenario);
        let system = self.index.name();
        // CRTC now and then credits what is behind a hole.
        match system == CRTC && question == AFTER_HOLES {
            true => table.answer_in_doubt(&question_of, system, sum),
            false => table.answer(&question_of, system, sum),
        }
    }

    fn replay(&mut self, table: &mut Table) -> Day {
        let (mut finds, mut applies) = (Samples::default(), Samples::default());
        let (mut spent, mut blocks, mut sum) = (0.0, 0, 0);
        let mut preemption = Preemption::watch();
        for turn in &self.workload.turns {
            let index = &mut self.index;
            self.path.fill(self.workload, turn);
            index.ready_find(&self.path.prompt());
            for event in self.path.events(EVENT_BLOCKS) {
                index.ready_store(turn.worker, &event);
            }
            preemption.happened();
            let begun = ticks();
            index.find();
            let found = ticks();
            // The answer is read before the turn goes anywhere, as a router must.
            sum += index.answer();
            let decided = ticks();
            index.predict(turn.worker);
            index.apply();
            let applied = ticks();
            if preemption.happened() {
                continue;
            }
            finds.push(nanos(begun, found));
            if index.applies_here() {
                spent += nanos(decided, applied);
                blocks += self.path.new_blocks();
                if self.path.new_blocks() > 0 {
                    applies.push(nanos(decided, applied));
                }
            }
        }
        self.answer(table, "next turns", sum);
        Day {
            finds,
            applies,
            nanos_a_block: spent / blocks as f64,
        }
    }

    /// Looks up turns of the past at random, the same for every system.
    fn look_back(&mut self, count: usize, question: &str, table: &mut Table) -> Samples {
        let (mut finds, mut sum) = (Samples::default(), 0);
        let mut preemption = Preemption::watch();
        for i in 0..count as u64 {
            let turns = &self.workload.turns;
            let turn = &turns[mix(i) as usize % turns.len()];
            self.path.fill(self.workload, turn);
            self.index.ready_find(&self.path.prompt());
            preemption.happened();
            let begun = ticks();
            self.index.find();
            let found = ticks();
            if !preemption.happened() {
                finds.push(nanos(begun, found));
            }
            sum += self.index.answer();
        }
        self.answer(table, question, sum);
        finds
    }

    fn end(&mut self, held: &[HeldBlock], punctures: usize, table: &mut Table) -> End {
        let cleared = self.workload.workers / 2;
        let (gone, left): (Vec<HeldBlock>, Vec<HeldBlock>) =
            held.iter().partition(|block| block.worker < cleared);
        let clear = self.clear(cleared) / gone.len() as f64;
        self.look_back(
            CHECKED_TURNS,
            "after half of the workers were cleared",
            table,
        );

        let (old, young) = left.split_at(left.len() / 2);
        let evict = self.evict(old) / old.len() as f64;
        self.look_back(CHECKED_TURNS, "after half of the rest was evicted", table);

        let puncture = self.puncture(young, punctures);
        self.look_back(CHECKED_TURNS, AFTER_HOLES, table);

        self.clear(self.workload.workers);
        self.look_back(CHECKED_TURNS, "after everything was cleared", table);
        End {
            clear,
            evict,
            puncture,
        }
    }

    /// Clears the first so many workers; nanoseconds in all.
    fn clear(&mut self, workers: usize) -> f64 {
        (0..workers).for_each(|worker| self.index.ready_clear(worker));
        let index = &mut self.index;
        index.clock().time(|| index.apply())
    }

    /// Evicts `blocks` in their order, in events of what one worker had of one turn; nanoseconds in
    /// all.
    fn evict(&mut self, blocks: &[HeldBlock]) -> f64 {
        let together = |a: &HeldBlock, b: &HeldBlock| (a.worker, a.turn) == (b.worker, b.turn);
        let turns = blocks.chunk_by(together);
        let events: Vec<&[HeldBlock]> = turns.flat_map(|t| t.chunks(EVENT_BLOCKS)).collect();
        self.remove_all(&events)
    }

    /// Removes blocks at random one by one; nanoseconds each.
    fn puncture(&mut self, blocks: &[HeldBlock], count: usize) -> f64 {
        let step = NonZeroUsize::new(blocks.len() / count.max(1)).unwrap_or(NonZeroUsize::MIN);
        let mut chosen: Vec<HeldBlock> = blocks.iter().step_by(step.get()).copied().collect();
        // In an order that has nothing to do with where they are.
        chosen.sort_by_key(|block| mix(block.name));
        let events: Vec<&[HeldBlock]> = chosen.chunks(1).collect();
        self.remove_all(&events) / events.len() as f64
    }

    fn remove_all(&mut self, events: &[&[HeldBlock]]) -> f64 {
        let (mut spent, mut names) = (0.0, Vec::new());
        let clock = self.index.clock();
        for slice in events.chunks(SLICE) {
            for event in slice {
                names.clear();
                names.extend(event.iter().map(|block| block.name));
                self.index.ready_remove(event[0].worker, &names);
            }
            let index = &mut self.index;
            spent += clock.time(|| index.apply());
        }
        spent
    }
}
