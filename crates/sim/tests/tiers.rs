//! A host tier gives back what the cache has dropped, at the price of loading it.
use warmpath_core::Micros;
use warmpath_sim::fleet::{EngineModel, FleetConfig, Report, SessionShape, generate, simulate};
use warmpath_sim::router::RoundRobin;
use warmpath_sim::{
    Engine, EngineConfig, EngineEvent, EventKind, ExtentConfig, HostTier, Nanos, Request, Timing,
};

const MS: Nanos = 1_000_000;

/// Two blocks of 16 tokens more than one of the prompts below needs.
fn small(host: Option<HostTier>) -> EngineConfig {
    EngineConfig {
        block_size: 16,
        num_gpu_blocks: 8,
        timing: Timing::Fixed {
            prefill_ms: 10.0,
            decode_ms: 1.0,
        },
        host,
        ..EngineConfig::default()
    }
}

/// Serves prompts of 97 tokens, one after the other; what each found, and its first token's wait.
fn serve(engine: &mut Engine, prompts: &[u32]) -> Vec<(u32, Nanos)> {
    let one = |(index, &prompt): (usize, &u32)| {
        let at = engine.now();
        let request = Request::new(index as u64, &[prompt; 97], &[1], 16).expect("a prompt");
        engine.submit(at, request).expect("a new id");
        let mut events: Vec<EngineEvent> = Vec::new();
        engine.advance(at + 1_000 * MS, &mut events);
        let cached = events.iter().find_map(|event| match event.kind {
            EventKind::Admitted { cached_tokens, .. } => Some(cached_tokens),
            _ => None,
        });
        let first = events.iter().find_map(|event| match event.kind {
            EventKind::FirstToken { .. } => Some(event.at - at),
            _ => None,
        });
        (cached.expect("admitted"), first.expect("answered"))
    };
    prompts.iter().enumerate().map(one).collect()
}

#[test]
fn what_the_cache_drops_comes_back_from_the_host_tier() {
    let tier = HostTier {
        capacity_tokens: 96,
        load_ps: 1_000_000_000,
    };
    let mut engine = Engine::new(small(Some(tier))).expect("an engine");
    let served = serve(&mut engine, &[1, 2, 1, 1]);
    // Of the six blocks of prompt 1, prompt 2 leaves one in the cache: five are loaded.
    let found: Vec<u32> = served.iter().map(|(cached, _)| *cached).collect();
    assert_eq!(found, [0, 0, 96, 96]);
    assert_eq!(engine.stats().loaded_tokens, 80);
    let waits: Vec<Nanos> = served.iter().map(|(_, wait)| *wait).collect();
    assert_eq!(waits, [10 * MS, 10 * MS, 90 * MS, 10 * MS]);

    let mut bare = Engine::new(small(None)).expect("an engine");
    let found: Vec<u32> = serve(&mut bare, &[1, 2, 1, 1])
        .iter()
        .map(|s| s.0)
        .collect();
    assert_eq!(found, [0, 0, 16, 96]);
}

fn fleet(engine: EngineModel) -> Report {
    let shape = SessionShape {
        sessions: 30,
        arrivals: Micros::from_secs(1),
        ..SessionShape::default()
    };
    let workload = generate(&shape, 11).expect("a shape");
    let config = FleetConfig {
        workers: 1,
        engine,
        ..FleetConfig::default()
    };
    simulate(&workload, &config, &mut RoundRobin::new(1)).expect("a fleet")
}

#[test]
fn a_fleet_short_of_cache_gains_by_a_host_tier_in_either_model() {
    let models: [fn(Option<HostTier>) -> EngineModel; 2] = [
        |host| {
            EngineModel::DynamoPoly(EngineConfig {
                num_gpu_blocks: 1_000,
                host,
                ..EngineConfig::default()
            })
        },
        |host| {
            EngineModel::H100Class(ExtentConfig {
                capacity_tokens: 64_000,
                host,
                ..ExtentConfig::default()
            })
        },
    ];
    for model in models {
        let (without, with) = (fleet(model(None)), fleet(model(Some(HostTier::default()))));
        assert_eq!(without.work.loaded_tokens, 0);
        assert!(with.work.loaded_tokens > 0);
        assert!(with.work.hit_rate > without.work.hit_rate.map(|rate| rate + 0.05));
        assert!(with.latency.ttft.mean_ms < without.latency.ttft.mean_ms);
        assert_eq!(with.turns.completed, without.turns.completed);
    }
}
