//! What holds for any workload, any router, any engine and any mishap.
use proptest::prelude::*;
use warmpath_core::Micros;
use warmpath_core::scheduler::AdmissionConfig;
use warmpath_sim::fleet::{
    EngineModel, Feed, FleetConfig, Load, Outages, Patience, PopulationConfig, Recovery, Report,
    SessionShape, generate, simulate,
};
use warmpath_sim::router::{CoreOptions, CoreRouter, LeastLoaded, RoundRobin, Router};
use warmpath_sim::{EngineConfig, Eviction, ExtentConfig, HostTier, Nanos, PrefillOrder};
use warmpath_trace::Workload;

#[allow(unreachable_pub, reason = "shared by several tests")]
#[path = "support/audited.rs"]
mod audited;
use audited::Audited;

const SECOND: Nanos = 1_000_000_000;

fn core(config: &FleetConfig, admission: AdmissionConfig) -> CoreRouter {
    let options = CoreOptions::of_fleet("core", config, admission);
    CoreRouter::new(options).expect("the settings are allowed")
}

/// A run that is watched, with the router afterwards.
fn watch<R: Router>(workload: &Workload, config: &FleetConfig, router: R) -> (Report, Audited<R>) {
    let mut audited = Audited::new(router);
    let report = simulate(workload, config, &mut audited).expect("a fleet");
    assert!(audited.open.len() as u64 <= report.turns.unfinished);
    if let Feed::Events { loss: 0.0, .. } = config.feed {
        assert!((0..config.workers).all(|worker| audited.told(worker).is_some()));
    }
    (report, audited)
}

/// The report, and that nothing is left of any turn.
fn run(workload: &Workload, config: &FleetConfig, router: usize) -> Report {
    let admission = match router {
        0 => return watch(workload, config, RoundRobin::new(config.workers)).0,
        1 => return watch(workload, config, LeastLoaded::new(config.workers)).0,
        2 => AdmissionConfig::None,
        _ => AdmissionConfig::ThunderAgent(Default::default()),
    };
    let (report, audited) = watch(workload, config, core(config, admission));
    let status = audited.router.scheduler().status();
    assert_eq!(status.reservations, audited.open.len());
    if report.turns.unfinished == 0 {
        assert!(audited.router.scheduler().load().is_empty());
    }
    report
}

fn shapes() -> impl Strategy<Value = SessionShape> {
    (
        1..12u32,
        1.0..6.0f64,
        0..3u32,
        1..400u32,
        1..60u32,
        0..20u64,
    )
        .prop_map(
            |(sessions, turns, system_prompts, added, output, gap)| SessionShape {
                sessions,
                turns,
                block_tokens: 16,
                system_prompts,
                system_tokens: 200,
                added_tokens: added,
                output_tokens: output,
                arrivals: Micros::from_millis(gap * 10),
                tool: Micros::from_millis(gap * 20),
                person: Micros::from_secs(gap),
                person_share: 0.2,
            },
        )
}

fn hosts() -> impl Strategy<Value = Option<HostTier>> {
    let host = (10..4_000u64, 0..20_000_000u64).prop_map(|(capacity_tokens, load_ps)| HostTier {
        capacity_tokens,
        load_ps,
    });
    proptest::option::of(host)
}

fn engines() -> impl Strategy<Value = EngineModel> {
    let blocks = (
        prop_oneof![Just(8u32), Just(16), Just(32)],
        30..200u32,
        1..6u32,
        hosts(),
    )
        .prop_map(|(block_size, num_gpu_blocks, max_num_seqs, host)| {
            EngineModel::DynamoPoly(EngineConfig {
                block_size,
                num_gpu_blocks,
                max_num_seqs,
                host,
                ..EngineConfig::default()
            })
        });
    let extents = (500..5_000u64, 1..6u32, any::<[bool; 2]>(), hosts()).prop_map(
        |(capacity_tokens, max_running, [shortest, lease], host)| {
            EngineModel::H100Class(ExtentConfig {
                capacity_tokens,
                max_running,
                chunk_tokens: 300,
                block_tokens: 16,
                prefill: match shortest {
                    true => PrefillOrder::Shortest,
                    false => PrefillOrder::Fcfs,
                },
                eviction: match lease {
                    true => Eviction::LeaseEnd,
                    false => Eviction::Lru,
                },
                host,
                ..ExtentConfig::default()
            })
        },
    );
    prop_oneof![blocks, extents]
}

fn events(lag: Nanos, loss: f64, recovery: Recovery) -> Feed {
    Feed::Events {
        lag,
        loss,
        recovery,
    }
}

fn configs() -> impl Strategy<Value = FleetConfig> {
    let feed = prop_oneof![
        Just(Feed::None),
        Just(events(0, 0.0, Recovery::Never)),
        Just(events(SECOND / 100, 0.2, Recovery::Replay)),
        Just(events(SECOND / 100, 0.2, Recovery::Never)),
    ];
    let outages = (1..60u64, 1..5u64).prop_map(|(every, down)| Outages {
        every: every * SECOND,
        down: down * SECOND,
    });
    let outages = proptest::option::weighted(0.4, outages);
    let patience = proptest::option::weighted(0.4, SECOND / 20..5 * SECOND);
    (1..5u32, engines(), feed, outages, patience, any::<u64>()).prop_map(
        |(workers, engine, feed, outages, patience, seed)| FleetConfig {
            workers,
            engine,
            speeds: Vec::new(),
            load: Load::Replay,
            feed,
            outages,
            patience: patience.map(Patience::About),
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_turn_ends_once_and_a_run_repeats_to_the_byte(
        shape in shapes(),
        config in configs(),
        router in 0..4usize,
        seed in any::<u64>(),
    ) {
        let workload = generate(&shape, seed).expect("a shape");
        let report = run(&workload, &config, router);
        let turns = report.turns;
        prop_assert_eq!(turns.arrived, workload.turns().len() as u64);
        prop_assert_eq!(turns.unfinished, 0);
        let ended = turns.completed + turns.outgrown + turns.rejected + turns.refused + turns.given_up;
        prop_assert_eq!(ended, turns.arrived);
        if config.outages.is_none() && config.patience.is_none() {
            prop_assert_eq!((turns.retried, turns.refused, turns.given_up), (0, 0, 0));
            if turns.outgrown == 0 {
                let all = workload.turns().iter();
                let output: u64 = all
                    .filter(|turn| u64::from(turn.input_tokens) <= config.engine.capacity_tokens())
                    .map(|turn| u64::from(turn.output_tokens))
                    .sum();
                prop_assert!(report.work.output_tokens <= output);
                let made = report.latency.itl.count + report.latency.ttft.count;
                prop_assert_eq!(report.work.output_tokens, made);
            }
        }
        prop_assert!(report.regret.taken_tokens <= report.regret.offered_tokens);
        prop_assert!(report.work.cached_tokens <= report.work.prompt_tokens);
        if report.work.preemptions == 0 {
            prop_assert!(report.work.loaded_tokens <= report.work.cached_tokens);
        }
        let again = run(&workload, &config, router);
        let json = |report: &Report| serde_json::to_string(report).expect("numbers");
        prop_assert_eq!(json(&report), json(&again));
    }

}

proptest! {
    // Each case runs a fleet for twelve seconds of its own time, twice.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_population_keeps_its_size(
        shape in shapes(),
        engine in engines(),
        router in 0..4usize,
        pressure in 0.2..3.0f64,
        seed in any::<u64>(),
    ) {
        let workload = generate(&shape, seed).expect("a shape");
        let config = FleetConfig {
            workers: 2,
            engine,
            load: Load::Population(PopulationConfig {
                pressure,
                turns: 4,
                least_turns: 1,
                longest_gap: SECOND,
                warm_up: 3 * SECOND,
                measure: 9 * SECOND,
                ..PopulationConfig::default()
            }),
            seed,
            ..FleetConfig::default()
        };
        let mut probe = RoundRobin::new(2);
        prop_assume!(simulate(&workload, &config, &mut probe).is_ok());
        let report = run(&workload, &config, router);
        let turns = report.turns;
        let ended = turns.completed + turns.outgrown + turns.rejected + turns.refused + turns.given_up;
        prop_assert_eq!(ended + turns.unfinished, turns.arrived);
        prop_assert_eq!(report.work.seconds, 9.0);
        prop_assert!(turns.unfinished <= report.population.unwrap_or(0));
        let again = run(&workload, &config, router);
        prop_assert_eq!(report, again);
    }
}

#[test]
fn a_warm_worker_is_found_and_a_cold_one_regretted() {
    let shape = SessionShape {
        sessions: 12,
        turns: 10.0,
        ..SessionShape::default()
    };
    let workload = generate(&shape, 3).expect("a shape");
    let config = FleetConfig::default();
    let kv = run(&workload, &config, 2);
    let blind = run(&workload, &config, 0);
    let turns = kv.turns.arrived;
    assert!(kv.work.hit_rate > Some(0.7), "{:?}", kv.work.hit_rate);
    assert!(kv.work.hit_rate > blind.work.hit_rate);
    assert!(kv.regret.offered_tokens - kv.regret.taken_tokens < kv.regret.offered_tokens / 10);
    assert!(blind.regret.not_best > blind.regret.placements / 3);
    assert!(
        kv.index
            .is_some_and(|cost| cost.blocks > 0 && cost.bytes > 0 && cost.calls >= 3 * turns)
    );
    assert_eq!(blind.index, None);
    assert!(kv.sessions.slowdown_mean < blind.sessions.slowdown_mean);
}

#[test]
fn settings_that_make_no_fleet_are_named() {
    let workload = generate(&SessionShape::default(), 1).expect("a shape");
    let refused = |change: &dyn Fn(&mut FleetConfig)| {
        let mut config = FleetConfig::default();
        change(&mut config);
        simulate(&workload, &config, &mut RoundRobin::new(1))
            .expect_err("refused")
            .to_string()
    };
    assert!(refused(&|c| c.workers = 0).contains("workers"));
    assert!(refused(&|c| c.feed = events(0, 2.0, Recovery::Never)).contains("loss"));
    let odd = EngineConfig {
        block_size: 48,
        ..EngineConfig::default()
    };
    assert!(refused(&|c| c.engine = EngineModel::DynamoPoly(odd.clone())).contains("multiple"));
    let huge = PopulationConfig {
        least_turns: 10_000,
        ..PopulationConfig::default()
    };
    assert!(refused(&|c| c.load = Load::Population(huge.clone())).contains("no session"));
}
