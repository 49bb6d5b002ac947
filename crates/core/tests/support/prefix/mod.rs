//! A naive prefix index, and the real one held against it.
//!
//! `world` has the blocks that can exist, `naive` a place in plain words, `op` what can happen,
//! `both` lets it happen to both and compares, `reduce` finds a short story in a long one.
pub(crate) mod both;
pub(crate) mod naive;
pub(crate) mod op;
pub(crate) mod reduce;
pub(crate) mod world;

use both::{Both, Checked, Scene};
use op::Op;
use world::World;

/// Random numbers from a seed; the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        world::mix(self.0)
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// Lets operations happen, each followed by looks: a few after every one, all sizes after every
/// `thorough`, everything at the end. The error says after which operation what was wrong.
pub(crate) fn run(
    world: &World,
    scene: Scene,
    ops: impl IntoIterator<Item = Op>,
    thorough: usize,
) -> Result<(), (usize, String)> {
    let mut both = Both::new(world, scene);
    let mut probes = Random(7);
    let mut done = 0;
    let mut each = |both: &mut Both<'_>, n: usize, op: Op| -> Checked {
        both.apply(&op)?;
        both.check(probes.next() as u32)?;
        match n % thorough {
            0 => both.check_sizes(),
            _ => Ok(()),
        }
    };
    for (n, op) in ops.into_iter().enumerate() {
        each(&mut both, n, op).map_err(|what| (n, what))?;
        done = n;
    }
    both.check_all().map_err(|what| (done, what))?;
    both.finish().map_err(|what| (done, what))
}

/// What happens, in words.
pub(crate) fn story(world: &World, scene: Scene, ops: &[Op]) -> String {
    let mut both = Both::new(world, scene);
    both.story = Some(Vec::new());
    for op in ops {
        let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| both.apply(op)));
        if !matches!(applied, Ok(Ok(()))) {
            break;
        }
    }
    both.story.unwrap_or_default().join("\n")
}
