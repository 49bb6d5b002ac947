//! Turns that three models could take, among many sessions: for counting what the choice costs.
use warmpath_core::continuity::{
    Ask, ContinuityConfig, Grade, LookaheadConfig, Model, PolicyConfig, Prices,
};
use warmpath_core::scheduler::{
    Completion, Config, GroupOptions, Limits, Prompt, Scheduler, Turn, WorkerOptions,
};
use warmpath_core::{Micros, TargetId};

const SESSIONS: u64 = 100_000;
/// Sessions whose further turns are counted.
const COUNTED: u64 = 500;
const TARGETS: [TargetId; 3] = [TargetId(0), TargetId(1), TargetId(2)];
/// Blocks of the first turn, and those that each further one adds.
const BLOCKS: u64 = 8;
const STEP: u64 = 2;

/// Plays one turn of each session and then counts further ones of some. Returns how many.
pub(crate) fn choices(policy: PolicyConfig, measured: impl Fn(&mut dyn FnMut())) -> usize {
    let mut scheduler = fleet(policy);
    let mut hashes = Vec::new();
    let mut at = 0;
    let mut turn = |scheduler: &mut Scheduler, number: u64, blocks: u64| {
        at += 1_000;
        hashes.clear();
        hashes.extend((0..blocks).map(|block| number << 32 | block));
        play(scheduler, Micros(at), &format!("session-{number}"), &hashes);
    };
    for number in 0..SESSIONS {
        turn(&mut scheduler, number, BLOCKS);
    }
    // What sessions go on like is known by then: tables are made again when that has grown by an eighth.
    for number in 0..SESSIONS {
        turn(&mut scheduler, number, BLOCKS + STEP);
    }
    for number in 0..COUNTED {
        measured(&mut || turn(&mut scheduler, number, BLOCKS + 2 * STEP));
    }
    COUNTED as usize
}

/// The setting that is counted.
pub(crate) fn lookahead() -> PolicyConfig {
    PolicyConfig::Lookahead(LookaheadConfig::default())
}

fn fleet(policy: PolicyConfig) -> Scheduler {
    let config = Config {
        continuity: ContinuityConfig {
            policy,
            ..ContinuityConfig::default()
        },
        limits: Limits {
            sessions: 2 * SESSIONS as usize,
            ..Limits::default()
        },
        ..Config::default()
    };
    let mut scheduler = Scheduler::new(config).expect("a sound configuration");
    for (n, grade) in Grade::ALL.into_iter().enumerate() {
        let added = scheduler.add_group(Micros(1), GroupOptions::default());
        let group = added.expect("a new group");
        let name = format!("t{n}");
        let target = scheduler.add_target(&name, group).expect("a new target");
        let price = 10f64.powi(n as i32);
        let prices = Prices::new(price, price / 10.0, price, 4.0 * price).expect("sound prices");
        let model = Model::of(grade, prices);
        scheduler.set_model(target, model).expect("a known target");
        let options = WorkerOptions {
            name,
            group,
            capacity_tokens: None,
        };
        let added = scheduler.add_worker(Micros(1), options, &mut Vec::new());
        added.expect("a new worker");
    }
    scheduler
}

/// A turn, from submit to completion.
fn play(scheduler: &mut Scheduler, at: Micros, session: &str, hashes: &[u64]) {
    let turn = Turn {
        session: Some(session),
        ask: Ask {
            // Nobody moves, so that the turns differ by the choice alone.
            base: Some(TARGETS[0]),
            ..Ask::default()
        },
        ..Turn::new(
            &TARGETS,
            Prompt::Hashes {
                hashes,
                tokens: None,
            },
        )
    };
    let submitted = scheduler.submit(at, &turn, &mut Vec::new());
    let id = submitted.expect("there is a worker").reservation;
    scheduler.complete(at, id, &Completion::default(), &mut Vec::new());
}
