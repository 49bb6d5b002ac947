//! Turns at the door of a policy, among many sessions: for counting what admission costs.
use warmpath_core::admission::{GateConfig, LeaseConfig};
use warmpath_core::load::Untracked;
use warmpath_core::scheduler::{
    AdmissionConfig, Config, GroupOptions, Limits, Prompt, Scheduler, Submitted, Verdict,
    WorkerOptions,
};
use warmpath_core::{Micros, WorkerId};

use super::turns;

const SESSIONS: u64 = 100_000;
/// Sessions whose further turns are counted.
const COUNTED: u64 = 500;
const WORKERS: u32 = 8;
/// Tokens of a block.
const BLOCK: u64 = 64;
/// Blocks of the first turn, and those that each further one adds.
const BLOCKS: u64 = 8;
const STEP: u64 = 2;

/// Leases, in small: a prompt of some blocks is cold.
pub(crate) fn lease() -> AdmissionConfig {
    AdmissionConfig::Lease(LeaseConfig {
        warm_tokens: 256,
        ..LeaseConfig::default()
    })
}

/// Plays one turn of each session, all of which fit, and then counts the decisions of further ones of
/// some. Returns how many.
pub(crate) fn decisions(policy: AdmissionConfig, measured: impl Fn(&mut dyn FnMut())) -> usize {
    let mut fleet = Fleet::new(policy, WORKERS);
    for number in 0..SESSIONS {
        fleet.play(number, BLOCKS);
    }
    for number in 0..COUNTED {
        let mut turn = None;
        measured(&mut || turn = Some(fleet.submit(number, BLOCKS + STEP)));
        fleet.end(&turn.expect("it was submitted"));
    }
    COUNTED as usize
}

/// Counts what happens when a worker that others had filled is free again while `holds` cold turns wait
/// for it, beside many idle sessions: all of them go. Returns how many.
pub(crate) fn releases(holds: u64, measured: impl Fn(&mut dyn FnMut())) -> usize {
    let mut fleet = Fleet::new(lease(), 1);
    for number in 0..SESSIONS {
        fleet.play(number, BLOCKS);
    }
    // All leases end.
    fleet.at += 3_600_000_000;
    fleet.others(Untracked {
        requests: 1,
        tokens: fleet.capacity,
    });
    let first = fleet.submit(SESSIONS, BLOCKS);
    assert!(
        matches!(first.verdict, Verdict::Go(_)),
        "one goes in any case"
    );
    for number in 0..holds {
        let held = fleet.submit(SESSIONS + 1 + number, BLOCKS);
        assert_eq!(held.verdict, Verdict::Hold, "it does not fit beside");
    }
    measured(&mut || fleet.others(Untracked::default()));
    assert_eq!(fleet.scheduler.status().holds, 0, "all have gone");
    holds as usize
}

/// Counts what a turn costs that has to wait behind `held` others: each decision holds one more.
pub(crate) fn holds(held: u64, measured: impl Fn(&mut dyn FnMut())) -> usize {
    let gates = GateConfig {
        max_running: Some(1),
        ..GateConfig::default()
    };
    let mut fleet = Fleet::with(AdmissionConfig::None, gates, 1);
    for number in 0..=held {
        fleet.submit(number, BLOCKS);
    }
    for number in held + 1..=held + COUNTED {
        let mut turn = None;
        measured(&mut || turn = Some(fleet.submit(number, BLOCKS)));
        let verdict = turn.map(|turn| turn.verdict);
        assert_eq!(verdict, Some(Verdict::Hold), "one turn runs already");
    }
    COUNTED as usize
}

/// One group of workers with room for twice what the sessions are.
struct Fleet {
    scheduler: Scheduler,
    /// Of each worker.
    capacity: u64,
    at: u64,
    hashes: Vec<u64>,
}

impl Fleet {
    fn new(admission: AdmissionConfig, workers: u32) -> Self {
        Self::with(admission, GateConfig::default(), workers)
    }

    fn with(admission: AdmissionConfig, gates: GateConfig, workers: u32) -> Self {
        let config = Config {
            admission,
            gates,
            limits: Limits {
                sessions: 2 * SESSIONS as usize,
                ..Limits::default()
            },
            ..Config::default()
        };
        let mut scheduler = Scheduler::new(config).expect("a sound configuration");
        let added = scheduler.add_group(Micros(1), GroupOptions::default());
        let group = added.expect("a first group");
        scheduler.add_target("t", group).expect("a first target");
        let capacity = 2 * SESSIONS * BLOCKS * BLOCK / u64::from(workers);
        for worker in (0..workers).map(WorkerId) {
            let options = WorkerOptions {
                name: format!("w{}", worker.0),
                group,
                capacity_tokens: Some(capacity),
            };
            let added = scheduler.add_worker(Micros(1), options, &mut Vec::new());
            added.expect("a new worker");
        }
        Self {
            scheduler,
            capacity,
            at: 1_000,
            hashes: Vec::new(),
        }
    }

    fn submit(&mut self, number: u64, blocks: u64) -> Submitted {
        self.at += 1_000;
        self.hashes.clear();
        (self.hashes).extend((0..blocks).map(|block| number << 32 | block));
        let prompt = Prompt::Hashes {
            hashes: &self.hashes,
            tokens: None,
        };
        let name = format!("session-{number}");
        turns::submit(&mut self.scheduler, Micros(self.at), &name, prompt)
    }

    /// A turn, from submit to completion.
    fn play(&mut self, number: u64, blocks: u64) {
        let turn = self.submit(number, blocks);
        self.end(&turn);
    }

    fn end(&mut self, turn: &Submitted) {
        assert!(matches!(turn.verdict, Verdict::Go(_)), "all fit");
        turns::complete(&mut self.scheduler, Micros(self.at), turn);
    }

    fn others(&mut self, untracked: Untracked) {
        let (at, scheduler) = (Micros(self.at), &mut self.scheduler);
        let told = scheduler.set_untracked(at, WorkerId(0), untracked, &mut Vec::new());
        told.expect("a known worker");
    }
}
