//! What engines tell of their caches, and what a router that believes them may promise.
use std::num::NonZeroU32;

use proptest::prelude::*;
use warmpath_core::receipt::Trust;
use warmpath_core::scheduler::AdmissionConfig;
use warmpath_core::{Micros, WorkerId};
use warmpath_sim::fleet::{
    EngineModel, Feed, FleetConfig, Outages, Promises, Recovery, Report, SessionShape, generate,
    simulate,
};
use warmpath_sim::router::{CoreOptions, CoreRouter};
use warmpath_sim::{EngineConfig, Nanos};
use warmpath_trace::{NewStart, NewTurn, Next, Workload, WorkloadBuilder};

#[allow(unreachable_pub, reason = "shared by several tests")]
#[path = "support/audited.rs"]
mod audited;
use audited::Audited;

const SECOND: Nanos = 1_000_000_000;
const BLOCK: u32 = 16;

/// Turns that begin when all before them are long over, each with a prefix of one of some documents.
fn one_at_a_time(turns: &[(u32, u32, u32)]) -> Workload {
    let mut builder = WorkloadBuilder::new(NonZeroU32::new(BLOCK).expect("not 0"));
    let mut at = Micros(0);
    for (number, &(document, blocks, output)) in turns.iter().enumerate() {
        let session = builder
            .add_session(&format!("s{number}"), None)
            .expect("few");
        let blocks: Vec<u32> = (0..blocks).map(|n| document * 1_000 + n).collect();
        let turn = NewTurn {
            session,
            input_tokens: blocks.len() as u32 * BLOCK + 5,
            output_tokens: output,
            next: Next::Unknown,
            blocks: &blocks,
            start: NewStart::At(at),
        };
        builder.add_turn(&turn).expect("a turn");
        at = at.plus(Micros::from_secs(3));
    }
    builder.finish()
}

/// Document, blocks of it, tokens of the answer.
fn lonely_turns() -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    proptest::collection::vec((0..6u32, 1..20u32, 1..40u32), 1..120)
}

/// Two engines with room for 40 blocks, so that most is evicted before it comes again.
fn fleet(feed: Feed, seed: u64) -> FleetConfig {
    FleetConfig {
        workers: 2,
        engine: EngineModel::DynamoPoly(EngineConfig {
            block_size: BLOCK,
            num_gpu_blocks: 40,
            ..EngineConfig::default()
        }),
        feed,
        seed,
        ..FleetConfig::default()
    }
}

fn events(lag: Nanos, loss: f64, recovery: Recovery) -> Feed {
    Feed::Events {
        lag,
        loss,
        recovery,
    }
}

fn kv(config: &FleetConfig) -> Audited<CoreRouter> {
    let options = CoreOptions::of_fleet("kv", config, AdmissionConfig::None);
    Audited::new(CoreRouter::new(options).expect("the settings are allowed"))
}

fn run(workload: &Workload, config: &FleetConfig) -> (Report, Promises) {
    let report = simulate(workload, config, &mut kv(config)).expect("a fleet");
    let promises = report.promises.expect("turns were admitted");
    (report, promises)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whole_and_prompt_events_promise_what_the_engine_has(
        turns in lonely_turns(),
        seed in any::<u64>(),
    ) {
        let workload = one_at_a_time(&turns);
        let (report, promises) = run(&workload, &fleet(events(0, 0.0, Recovery::Never), seed));
        prop_assert_eq!(promises.turns, workload.turns().len() as u64);
        prop_assert_eq!(promises.promised_tokens, report.work.cached_tokens);
        prop_assert_eq!((promises.missing_tokens, promises.unforeseen_tokens), (0, 0));
        prop_assert_eq!(report.events.expect("a feed").lost, 0);
    }

    #[test]
    fn once_a_gap_is_seen_no_promise_is_broken(
        turns in lonely_turns(),
        loss in 0.05..0.6f64,
        replay in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let workload = one_at_a_time(&turns);
        let recovery = if replay { Recovery::Replay } else { Recovery::Never };
        let (report, promises) = run(&workload, &fleet(events(SECOND / 50, loss, recovery), seed));
        prop_assert_eq!(promises.broken_exact, 0);
        if replay {
            prop_assert_eq!(promises.broken, promises.broken_behind);
        }
        let told = report.events.expect("a feed");
        prop_assert!(replay || told.replays == 0);
        prop_assert!(told.replays <= told.lost);
    }

    #[test]
    fn whatever_is_lost_and_had_again_the_index_is_what_was_told(
        shape in (2..10u32, 1.0..6.0f64, 1..400u32, 1..60u32),
        loss in prop_oneof![Just(0.0), 0.0..0.5f64],
        lag in prop_oneof![Just(0), 0..SECOND],
        dies in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (sessions, turns, added_tokens, output_tokens) = shape;
        let shape = SessionShape {
            sessions,
            turns,
            block_tokens: BLOCK,
            system_tokens: 200,
            added_tokens,
            output_tokens,
            ..SessionShape::default()
        };
        let workload = generate(&shape, seed).expect("a shape");
        let config = FleetConfig {
            outages: dies.then_some(Outages { every: 40 * SECOND, down: 3 * SECOND }),
            ..fleet(events(lag, loss, Recovery::Replay), seed)
        };
        let mut router = kv(&config);
        simulate(&workload, &config, &mut router).expect("a fleet");
        let core = router.router.scheduler();
        let exact = |worker: &u32| {
            let evidence = core.evidence(WorkerId(*worker)).expect("a worker");
            evidence.trust == Trust::Exact
        };
        for worker in (0..config.workers).filter(exact) {
            let told = router.told(worker).expect("nothing is missing");
            let tokens = told.len() as u64 * u64::from(BLOCK);
            prop_assert_eq!(core.engine_cached_tokens(WorkerId(worker)), Some(tokens));
        }
    }
}

#[test]
fn a_lost_message_voids_the_credit_and_a_replay_brings_it_back() {
    let turns: Vec<_> = (0..400).map(|n| (n % 2, 10, 20)).collect();
    let workload = one_at_a_time(&turns);
    let hits = |feed| {
        let config = FleetConfig {
            workers: 1,
            ..fleet(feed, 7)
        };
        let (report, promises) = run(&workload, &config);
        (promises, report.events)
    };
    let (whole, told) = hits(events(0, 0.0, Recovery::Replay));
    assert_eq!(told.expect("a feed").replays, 0);
    let (again, told) = hits(events(2 * SECOND, 0.2, Recovery::Replay));
    let told = told.expect("a feed");
    assert!(told.lost > 20 && told.replays > 10, "{told:?}");
    assert!(
        again.unforeseen_tokens > 0,
        "nothing counts while it is asked for"
    );
    let (never, told) = hits(events(0, 0.2, Recovery::Never));
    assert_eq!(told.expect("a feed").replays, 0);
    assert!(again.promised_tokens > never.promised_tokens);
    let (deaf, told) = hits(Feed::None);
    assert_eq!(told, None);
    assert_eq!(deaf.turns, whole.turns);
}
