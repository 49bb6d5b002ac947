//! What does the same look-up cost again and again, when 64 workers have all of it?
//!
//! One chain, stored by 64 workers; the prompt is that chain. Depth is what grows. The least that a
//! look-up costs, and the place where a peer's generated code shows: SMG's compare loop comes out of
//! the same source at 0.33 or at 0.85 ns a block, by what else is in the build.
use super::{Context, Obstacle};
use crate::measure::{Preemption, Samples, nanos, ticks};
use crate::peers::{self, Index, OURS, SMG};
use crate::report::{Goal, Row, Table};
use crate::workload::{EVENT_BLOCKS, Path};

const WORKERS: usize = 64;
const REPEATS: usize = 2_000;
const DEPTHS: [(usize, &str); 4] = [
    (64, "find.hot.depth-64"),
    (512, "find.hot.depth-512"),
    (4_096, "find.hot.depth-4096"),
    (16_384, "find.hot.depth-16384"),
];
const DEEPEST_OF_OURS: &str = "find.hot.any-depth";
const A_BLOCK: &str = "find.hot.depth-4096.a-block";
/// Above this, SMG is being measured in a build that does it wrong.
const SMG_AT_MOST: f64 = 0.4;

pub(super) const ROWS: [Row; 6] = [
    Row::best(DEPTHS[0].1, "ns", Goal::Ratio(0.9)),
    Row::best(DEPTHS[1].1, "ns", Goal::Ratio(0.4)),
    Row::best(DEPTHS[2].1, "ns", Goal::Ratio(0.08)),
    Row::best(DEPTHS[3].1, "ns", Goal::Ratio(0.03)),
    Row::best(DEEPEST_OF_OURS, "ns", Goal::Value(100.0)),
    Row::best(A_BLOCK, "ns/block", Goal::None),
];

pub(super) fn run(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    for (salt, (depth, row)) in (1..).zip(DEPTHS) {
        let path = Path::synthetic(depth, salt << 16);
        let systems = peers::ALL.map(|system| (system.create)(WORKERS));
        let mut systems = systems.map(|mut index| {
            store_everywhere(index.as_mut(), &path);
            index
        });
        for _ in 0..context.rounds {
            for index in &mut systems {
                let time = find(index.as_mut(), &path, context.many(REPEATS));
                table.put(row, index.name(), time);
                table.answer(row, index.name(), index.answer());
            }
        }
    }
    sum_up(table);
    Ok(())
}

fn store_everywhere(index: &mut dyn Index, path: &Path) {
    for worker in 0..WORKERS {
        for event in path.events(EVENT_BLOCKS) {
            index.ready_store(worker, &event);
        }
        index.apply();
    }
}

fn find(index: &mut dyn Index, path: &Path, repeats: usize) -> f64 {
    let mut times = Samples::default();
    let mut preemption = Preemption::watch();
    index.ready_find(&path.prompt());
    index.find();
    for _ in 0..repeats {
        index.answer();
        index.ready_again();
        let begun = ticks();
        index.find();
        let found = ticks();
        times.push(nanos(begun, found));
    }
    // Preempted look-ups are far outside of the middle half.
    let _ = preemption.happened();
    times.middle()
}

fn sum_up(table: &mut Table) {
    let ours = DEPTHS.map(|(_, row)| table.value(row, OURS).unwrap_or(f64::NAN));
    table.put(
        DEEPEST_OF_OURS,
        OURS,
        ours.into_iter().fold(f64::NAN, f64::max),
    );
    for system in peers::ALL {
        let whole = table.value(DEPTHS[2].1, system.name);
        let a_block = whole.unwrap_or(f64::NAN) / DEPTHS[2].0 as f64;
        table.put(A_BLOCK, system.name, a_block);
    }
    let smg = table.value(A_BLOCK, SMG).unwrap_or(f64::NAN);
    eprint!("SMG's look-up costs {smg:.2} ns a block at depth 4,096; ");
    if smg > SMG_AT_MOST {
        table.warn(format!(
            "SMG's look-up costs {smg:.2} ns a block at depth 4,096, more than {SMG_AT_MOST}: the \
             machine is busy or its code came out badly in this build; do not believe its rows"
        ));
    }
}
