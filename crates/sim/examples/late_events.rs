//! What does it cost when engines tell late of what they have given up?
//!
//! `cargo run --release -p warmpath-sim --example late_events`: agent sessions on two engines whose caches do
//! not hold all of them, each event so late, and what was promised beside what the engines then had. The
//! figures of docs/decisions/0015 are from here. Deterministic.
#![allow(clippy::print_stdout, reason = "a command prints its result")]

use warmpath_core::Micros;
use warmpath_core::scheduler::AdmissionConfig;
use warmpath_sim::EngineConfig;
use warmpath_sim::fleet::{
    EngineModel, Feed, FleetConfig, Promises, Recovery, SessionShape, generate, simulate,
};
use warmpath_sim::router::{CoreOptions, CoreRouter};

const SEEDS: u64 = 6;
const BLOCK: u32 = 32;

/// Blocks of each engine's cache, tokens that a turn adds, tokens of an answer.
const SETTINGS: [(u32, u32, u32); 3] = [(320, 180, 6), (320, 180, 60), (640, 400, 100)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| cache | added | answer | late by | turns | broken | missing of promised | cached |"
    );
    println!(
        "| ----- | ----- | ------ | ------- | ----- | ------ | ------------------- | ------ |"
    );
    for (blocks, added, answer) in SETTINGS {
        for late_ms in [0_u64, 50, 300, 1_000, 2_000] {
            let (mut all, mut prompt, mut cached) = (Promises::default(), 0, 0);
            for seed in 0..SEEDS {
                let config = fleet(blocks, late_ms, seed);
                let workload = generate(&shape(added, answer), seed)?;
                let options = CoreOptions::of_fleet("kv", &config, AdmissionConfig::None);
                let report = simulate(&workload, &config, &mut CoreRouter::new(options)?)?;
                let promises = report.promises.unwrap_or_default();
                all.turns += promises.turns;
                all.broken += promises.broken;
                all.missing_tokens += promises.missing_tokens;
                all.promised_tokens += promises.promised_tokens;
                prompt += report.work.prompt_tokens;
                cached += report.work.cached_tokens;
            }
            let share = |of: u64, whole: u64| 100.0 * of as f64 / whole.max(1) as f64;
            println!(
                "| {} | {added} | {answer} | {late_ms} ms | {} | {:.1} % | {:.1} % | {:.1} % |",
                blocks * BLOCK,
                all.turns,
                share(all.broken, all.turns),
                share(all.missing_tokens, all.promised_tokens),
                share(cached, prompt),
            );
        }
    }
    Ok(())
}

fn shape(added_tokens: u32, output_tokens: u32) -> SessionShape {
    SessionShape {
        sessions: 60,
        turns: 7.0,
        block_tokens: BLOCK,
        system_prompts: 6,
        system_tokens: 150,
        added_tokens,
        output_tokens,
        arrivals: Micros::from_millis(1_500),
        tool: Micros::from_millis(1_500),
        person: Micros::from_secs(10),
        person_share: 0.05,
    }
}

fn fleet(num_gpu_blocks: u32, late_ms: u64, seed: u64) -> FleetConfig {
    FleetConfig {
        workers: 2,
        engine: EngineModel::DynamoPoly(EngineConfig {
            block_size: BLOCK,
            num_gpu_blocks,
            ..EngineConfig::default()
        }),
        feed: Feed::Events {
            lag: late_ms * 1_000_000,
            loss: 0.0,
            recovery: Recovery::Replay,
        },
        seed,
        ..FleetConfig::default()
    }
}
