//! What does a slice of a snapshot take, how large is the whole, and what does reading it take?
//!
//! Sessions that grow turn by turn on a few workers until the index has so many blocks, then a
//! snapshot with a turn between each two slices, then a restore. By hand:
//! `cargo run --release -p warmpath-core --example snapshot -- [million blocks] [workers] [blocks a turn]`.
#![allow(clippy::print_stdout, reason = "it reports to a person")]
use std::time::{Duration, Instant};

use warmpath_core::scheduler::{
    Completion, Config, GroupOptions, Ids, Limits, Prompt, Scheduler, Turn, WorkerOptions,
};
use warmpath_core::snapshot::{Progress, RestoreOptions};
use warmpath_core::{Micros, TargetId};

/// What the addon gives a slice.
const BUDGET: usize = 256 * 1024;
/// Blocks that all sessions begin with, and turns of a session.
const SHARED: u64 = 40;
const TURNS: u64 = 10;
/// Slices are the same each time; the least of so many times is what one takes undisturbed.
const ROUNDS: usize = 5;

fn fleet(workers: u32, blocks: usize) -> Scheduler {
    let limits = Limits {
        blocks: 2 * blocks,
        sessions: blocks,
        ..Limits::default()
    };
    let config = Config {
        limits,
        ..Config::default()
    };
    let mut scheduler = Scheduler::new(config).expect("the settings are right");
    let options = GroupOptions {
        ttl: Some(Micros::from_secs(36_000)),
        ..GroupOptions::default()
    };
    let group = scheduler
        .add_group(Micros(0), options)
        .expect("a block has tokens");
    scheduler
        .add_target("model", group)
        .expect("the name is free");
    for n in 0..workers {
        let worker = WorkerOptions {
            name: format!("w{n}"),
            group,
            capacity_tokens: None,
        };
        let added = scheduler.add_worker(Micros(0), worker, &mut Vec::new());
        added.expect("the name is free");
    }
    scheduler
}

fn turn(scheduler: &mut Scheduler, now: &mut u64, session: u64, blocks: u64) {
    *now += 1;
    let own = (0..blocks).map(|n| (session + 1) << 32 | n);
    let hashes: Vec<u64> = (0..SHARED).chain(own).collect();
    let name = format!("session-{session}");
    let turn = Turn {
        session: Some(&name),
        ..Turn::new(
            &[TargetId(0)],
            Prompt::Hashes {
                hashes: &hashes,
                tokens: None,
            },
        )
    };
    let submitted = scheduler.submit(Micros(*now), &turn, &mut Vec::new());
    let id = submitted.expect("there is room").reservation;
    let call = session.to_le_bytes();
    let completion = Completion {
        tool_calls: Ids {
            bytes: &call,
            lengths: &[8],
        },
        ..Completion::default()
    };
    scheduler.complete(Micros(*now), id, &completion, &mut Vec::new());
}

/// Writes a whole snapshot. Returns how long each slice took; `between` is called after each.
fn slices(
    scheduler: &mut Scheduler,
    mut between: impl FnMut(&mut Scheduler, &[u8]),
) -> Vec<Duration> {
    let mut snapshot = scheduler.snapshot();
    let mut times = Vec::new();
    let mut slice = Vec::with_capacity(2 * BUDGET);
    loop {
        slice.clear();
        let now = scheduler.status().now;
        let start = Instant::now();
        let written = scheduler.write_snapshot(now, &mut snapshot, BUDGET, &mut slice);
        times.push(start.elapsed());
        between(scheduler, &slice);
        if written.expect("there is one snapshot") == Progress::Done {
            return times;
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|n| n.parse::<u64>());
    let mut argument = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (millions, workers, growth) = (argument(2), argument(8) as u32, argument(100));
    let blocks = millions * 1_000_000;
    let sessions = blocks / (growth * TURNS);
    let mut scheduler = fleet(workers, blocks as usize);
    let mut now = 0;
    for n in 1..=TURNS {
        (0..sessions).for_each(|session| turn(&mut scheduler, &mut now, session, n * growth));
    }
    let stats = scheduler.prefix().stats();
    println!(
        "{} blocks in {} runs, {} bytes; {sessions} sessions",
        stats.blocks, stats.runs, stats.bytes
    );
    let mut times = slices(&mut scheduler, |_, _| ());
    for _ in 1..ROUNDS {
        let again = slices(&mut scheduler, |_, _| ());
        times = times.iter().zip(again).map(|(a, b)| b.min(*a)).collect();
    }
    let total: Duration = times.iter().sum();
    times.sort_unstable();
    let of = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (middle, rare, most) = (of(0.5), of(0.99), of(1.0));
    println!(
        "{} slices in {total:?}: p50 {middle:?}, p99 {rare:?}, max {most:?}",
        times.len()
    );
    let mut bytes = Vec::new();
    let busy = slices(&mut scheduler, |scheduler, slice| {
        bytes.extend_from_slice(slice);
        let session = now % sessions;
        turn(scheduler, &mut now, session, (TURNS + 1) * growth);
    });
    println!(
        "{} slices with a turn between each two: {} bytes, {:.2} a block",
        busy.len(),
        bytes.len(),
        bytes.len() as f64 / stats.blocks as f64
    );
    let mut took = Duration::MAX;
    for _ in 0..ROUNDS {
        let mut again = fleet(workers, blocks as usize);
        let start = Instant::now();
        let restored = again.restore(Micros(now), &bytes, RestoreOptions::default());
        took = took.min(start.elapsed());
        assert!(restored.is_ok_and(|r| r.sessions as u64 == sessions));
    }
    println!("restored in {took:?}");
}
