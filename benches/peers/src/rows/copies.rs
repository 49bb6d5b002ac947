//! What does it cost to store what engines tell of, when nobody looks anything up?
//!
//! Once with every block at one worker, once with each session at 8 of 64 workers, where an index
//! that shares what is the same has little left to do. Bulk work in CPU time, a block at a worker.
use super::{Context, Obstacle};
use crate::peers::{self, Index};
use crate::report::Table;
use crate::workload::{EVENT_BLOCKS, Path, Workload, mix};

const SESSIONS_BLOCKS: usize = 1_420_000;
/// Fewer, since peers keep a copy of every block for every worker.
const SHARED_BLOCKS: usize = 300_000;
const SHARED_COPIES: usize = 8;
/// Turns whose events are made ready together.
const SLICE: usize = 256;
const CHECKED_TURNS: u64 = 500;

pub(super) fn events_only(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let workload = Workload::new(context.sessions()?, &context.shape(SESSIONS_BLOCKS, 8));
    store_rounds(context, &workload, 1, "store.events-only", table);
    Ok(())
}

pub(super) fn same_blocks(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let shape = context.shape(SHARED_BLOCKS, 8);
    let workload = Workload::new(context.sessions()?, &shape);
    let row = "store.same-blocks.8-workers";
    store_rounds(context, &workload, SHARED_COPIES, row, table);
    Ok(())
}

fn store_rounds(
    context: &Context,
    workload: &Workload<'_>,
    copies: usize,
    row: &'static str,
    table: &mut Table,
) {
    for _ in 0..context.rounds {
        for system in &peers::ALL {
            let mut index = (system.create)(workload.workers * copies);
            let nanos = store(workload, copies, index.as_mut());
            table.put(row, system.name, nanos);
            table.answer(row, system.name, look_back(workload, index.as_mut()));
        }
    }
}

/// Stores everything, each turn at so many workers; nanoseconds a block and worker.
fn store(workload: &Workload<'_>, copies: usize, index: &mut dyn Index) -> f64 {
    let (mut path, mut spent) = (Path::default(), 0.0);
    let clock = index.clock();
    for turns in workload.turns.chunks(SLICE) {
        for turn in turns {
            path.fill(workload, turn);
            for copy in 0..copies {
                for event in path.events(EVENT_BLOCKS) {
                    index.ready_store(turn.worker * copies + copy, &event);
                }
            }
        }
        spent += clock.time(|| index.apply());
    }
    spent / (workload.stored() * copies) as f64
}

fn look_back(workload: &Workload<'_>, index: &mut dyn Index) -> u64 {
    let mut path = Path::default();
    let sums = (0..CHECKED_TURNS).map(|i| {
        let turn = &workload.turns[mix(i) as usize % workload.turns.len()];
        path.fill(workload, turn);
        index.ready_find(&path.prompt());
        index.find();
        index.answer()
    });
    sums.sum()
}
