//! How many bytes does a block cost, and how many are left when all blocks are gone?
//!
//! Live bytes as the allocator counts them, over distinct blocks: after a day as a router runs it
//! (look-up, decision, events) with each session at 1 of 8, 8 of 8 or 64 of 64 workers; and in the
//! worst case that is known for ours, which is the larger of two. In one, every block is an event of
//! its own and nobody ever looks anything up, so that no block's whereabouts can be guessed from
//! another's; the other is a trace of many short runs. Prompts of one block each are reported too:
//! nothing can be shared there. Sizes are the same every time, so one round is enough.
use super::{Context, Obstacle};
use crate::alloc::{live, while_counting};
use crate::peers::{self, Index, System};
use crate::report::{Goal, Row, Table};
use crate::workload::{EVENT_BLOCKS, Path, Route, Shape, Workload};

const WORST_CASE: &str = "bytes.worst-case";
const LEFT: &str = "bytes.left-after-clear";
const ONE_BLOCK_PROMPTS: &str = "bytes.one-block-prompts";

pub(super) const ROWS: [Row; 6] = [
    Row::best(FLEETS[0].row, "bytes", Goal::Value(28.0)),
    Row::best(FLEETS[1].row, "bytes", Goal::Value(28.0)),
    Row::best(FLEETS[2].row, "bytes", Goal::Value(28.0)),
    Row::best(WORST_CASE, "bytes", Goal::Value(40.0)),
    Row::best(ONE_BLOCK_PROMPTS, "bytes", Goal::None),
    Row::best(LEFT, "%", Goal::Value(5.0)),
];

/// Who has the blocks.
struct Fleet {
    row: &'static str,
    /// Groups of workers; a session stays in its group.
    groups: usize,
    /// Workers in each, which all have what the group has.
    copies: usize,
    /// Fewer distinct blocks where peers keep many copies of each.
    blocks: usize,
}

const FLEETS: [Fleet; 3] = [
    Fleet {
        row: "bytes.1-worker",
        groups: 8,
        copies: 1,
        blocks: 1_420_000,
    },
    Fleet {
        row: "bytes.8-workers",
        groups: 1,
        copies: 8,
        blocks: 400_000,
    },
    Fleet {
        row: "bytes.64-workers",
        groups: 1,
        copies: 64,
        blocks: 200_000,
    },
];
const SINGLE_EVENT_BLOCKS: usize = 400_000;
/// SMG panics where a block has more than some 390,000 children.
const ONE_BLOCK_COUNT: usize = 200_000;

pub(super) fn run(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    for fleet in &FLEETS {
        let shape = context.shape(fleet.blocks, fleet.groups);
        let workload = Workload::new(context.sessions()?, &shape);
        for system in &peers::ALL {
            let held = count(system, fleet.groups * fleet.copies, |index| {
                run_router(&workload, fleet.copies, index);
            });
            table.put(
                fleet.row,
                system.name,
                held.bytes / workload.blocks() as f64,
            );
            if fleet.copies == 1 {
                table.put(LEFT, system.name, held.left / held.bytes * 100.0);
            }
        }
    }
    worst_case(context, table)?;
    one_block_prompts(context, table);
    Ok(())
}

fn worst_case(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let shape = context.shape(SINGLE_EVENT_BLOCKS, 8);
    let single = Workload::new(context.sessions()?, &shape);
    let short_runs = Shape {
        blocks: 1,
        route: Route::ByTurn,
        ..shape
    };
    let short_runs = Workload::new(context.mooncake()?, &short_runs);
    for system in &peers::ALL {
        let one = count(system, 8, |index| run_feed(&single, index));
        let other = count(system, 8, |index| run_router(&short_runs, 1, index));
        let (one, other) = (
            one.bytes / single.blocks() as f64,
            other.bytes / short_runs.blocks() as f64,
        );
        table.put(WORST_CASE, system.name, one.max(other));
    }
    Ok(())
}

fn one_block_prompts(context: &Context, table: &mut Table) {
    let blocks = context.many(ONE_BLOCK_COUNT);
    for system in &peers::ALL {
        let held = count(system, 1, |index| {
            for salt in 0..blocks as u64 {
                let path = Path::synthetic(1, salt);
                index.ready_find(&path.prompt());
                path.events(1)
                    .for_each(|event| index.ready_store(0, &event));
                index.predict(0);
                index.apply();
            }
        });
        table.put(ONE_BLOCK_PROMPTS, system.name, held.bytes / blocks as f64);
    }
}

/// Live bytes of an index.
struct Held {
    /// After the work.
    bytes: f64,
    /// After every worker was cleared.
    left: f64,
}

fn count(system: &System, workers: usize, work: impl FnOnce(&mut dyn Index)) -> Held {
    while_counting(|| {
        let before = live();
        let mut index = (system.create)(workers);
        work(index.as_mut());
        index.rest();
        let bytes = live() - before;
        (0..workers).for_each(|worker| index.ready_clear(worker));
        index.apply();
        index.rest();
        let left = live() - before;
        Held { bytes, left }
    })
}

fn run_router(workload: &Workload<'_>, copies: usize, index: &mut dyn Index) {
    let mut path = Path::default();
    for turn in &workload.turns {
        path.fill(workload, turn);
        for copy in 0..copies {
            let worker = turn.worker * copies + copy;
            index.ready_find(&path.prompt());
            index.find();
            index.answer();
            for event in path.events(EVENT_BLOCKS) {
                index.ready_store(worker, &event);
            }
            index.predict(worker);
            index.apply();
        }
    }
}

fn run_feed(workload: &Workload<'_>, index: &mut dyn Index) {
    let mut path = Path::default();
    for turn in &workload.turns {
        path.fill(workload, turn);
        path.events(1)
            .for_each(|event| index.ready_store(turn.worker, &event));
        index.apply();
    }
}
