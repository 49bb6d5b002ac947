//! The prefix index against a naive one, by its public door.
//!
//! Two forms of one test. The first is small and lets proptest shrink the list of operations and the
//! operations in it; the second is long, from a seed, and shortens a list that fails by leaving parts
//! out. `WARMPATH_OPS` sets how many operations the second runs, `WARMPATH_SEED` where it begins.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

#[path = "support/prefix/mod.rs"]
mod support;

use support::both::Scene;
use support::op::Op;
use support::reduce::reduce;
use support::world::World;
use support::{Random, run, story};

const SMALL: Scene = Scene {
    idle: 0,
    ttl: Some(150),
    capacity: None,
};
/// As many as in one go; then everything is let go and begins anew.
const EPISODE: usize = 20_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let value = text
        .parse::<f64>()
        .unwrap_or_else(|e| panic!("{name}={text}: {e}"));
    Some(value as u64)
}

fn op() -> impl Strategy<Value = Op> {
    any::<u64>().prop_map(Op::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_order_of_events_and_turns_gives_what_the_naive_index_gives(
        ops in prop::collection::vec(op(), 0..80),
    ) {
        let world = World::full(3, 4);
        if let Err((n, what)) = run(&world, SMALL, ops.iter().copied(), 1) {
            let told = story(&world, SMALL, &ops);
            return Err(TestCaseError::fail(format!("{what}\nafter operation {n} of\n{told}")));
        }
    }
}

/// One list of operations from a seed.
struct Episode {
    world: World,
    scene: Scene,
    ops: Vec<Op>,
}

impl Episode {
    fn new(seed: u64, ops: usize) -> Self {
        let mut random = Random(seed << 20);
        let nodes = [120, 600, 2_500][random.below(3) as usize];
        let depth = [5, 24, 70][random.below(3) as usize];
        let scene = Scene {
            idle: [0, 0, 0, 13, 30][random.below(5) as usize],
            ttl: [None, Some(200), Some(3_000)][random.below(3) as usize],
            capacity: [None, Some(3_000), Some(20_000)][random.below(3) as usize],
        };
        let world = World::long(nodes, depth, |n| random.below(n));
        let ops = (0..ops).map(|_| Op::from_bits(random.next()));
        Self {
            world,
            scene,
            ops: ops.collect(),
        }
    }

    fn run(&self, ops: &[Op]) -> Result<(), (usize, String)> {
        run(&self.world, self.scene, ops.iter().copied(), 64)
    }

    /// As [`Self::run`], where a panic is a failure like any other.
    fn fails(&self, ops: &[Op]) -> bool {
        let run = std::panic::AssertUnwindSafe(|| self.run(ops).is_err());
        std::panic::catch_unwind(run).unwrap_or(true)
    }

    fn explain(&self, seed: u64) -> String {
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(&self.ops)));
        let end = match first {
            Ok(Err((n, _))) => n + 1,
            _ => self.ops.len(),
        };
        let few = reduce(self.ops[..end].to_vec(), |ops| self.fails(ops));
        let last = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(&few)));
        let told = story(&self.world, self.scene, &few);
        format!("episode {seed}, {:?}: {last:?}\nafter\n{told}", self.scene)
    }
}

#[test]
fn a_million_operations_give_what_the_naive_index_gives() {
    let total = number("WARMPATH_OPS").unwrap_or(1_000_000) as usize;
    let first = number("WARMPATH_SEED").unwrap_or(1);
    let next = AtomicU64::new(first);
    let episodes = total.div_ceil(EPISODE) as u64;
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed - first >= episodes {
                return;
            }
            let episode = Episode::new(seed, EPISODE.min(total));
            if episode.fails(&episode.ops) {
                next.store(u64::MAX / 2, Relaxed);
                panic!("{}", episode.explain(seed));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}
