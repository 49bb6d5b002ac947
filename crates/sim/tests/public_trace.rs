//! A whole public trace against what the published fleet simulator measured on it.
//!
//! Round robin must give its figures, since only the engine decides them; the shipped core's `kv` must
//! lie within the spread of the published router, whose ties are drawn without a seed. The trace is
//! public and not part of the repository: without it the test is ignored and says so, which is why it
//! has a harness of its own. About 12,000 turns and 4 million tokens a run.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::path::{Path, PathBuf};

use warmpath_core::scheduler::AdmissionConfig;
use warmpath_sim::fleet::presets::{self, PUBLISHED_CACHE_TOKENS};
use warmpath_sim::fleet::{FleetConfig, Report, bounds, population, simulate};
use warmpath_sim::router::{CoreOptions, CoreRouter, RoundRobin, Router};
use warmpath_trace::{Options, SideChains, Workload, read};

const BLOCK: u32 = 512;

/// What was measured, lowest and highest of several runs: hit rate in per cent; time to first token,
/// median and 95 %, and time to last token, median and 95 %, in ms.
struct Expected {
    hit: [f64; 2],
    ttft: [[f64; 2]; 2],
    e2e: [[f64; 2]; 2],
}

/// A figure that came out the same in all runs.
const fn one(value: f64) -> [f64; 2] {
    [value, value]
}

const ROUND_ROBIN: [(u32, Expected); 2] = [
    (
        4,
        Expected {
            hit: one(8.3),
            ttft: [one(355.0), one(1525.0)],
            e2e: [one(3712.0), one(9770.0)],
        },
    ),
    (
        8,
        Expected {
            hit: one(8.2),
            ttft: [one(184.0), one(1020.0)],
            e2e: [one(2621.0), one(6602.0)],
        },
    ),
];

/// Lowest and highest of its runs with blocks of 512 and of 64 tokens, which differ by the draws only.
const KV: [(u32, Expected); 2] = [
    (
        4,
        Expected {
            hit: [13.4, 13.91],
            ttft: [[353.0, 354.0], [1168.0, 1175.0]],
            e2e: [[3753.0, 3776.0], [8238.0, 8281.0]],
        },
    ),
    (
        8,
        Expected {
            hit: [20.0, 20.5],
            ttft: [one(169.0), one(769.0)],
            e2e: [[2611.0, 2617.0], [5743.0, 5764.0]],
        },
    ),
];

/// The figures that are compared.
fn figures(report: &Report) -> [f64; 5] {
    let (ttft, e2e) = (&report.latency.ttft, &report.latency.e2e);
    let hit = report.work.hit_rate.map(|rate| rate * 100.0);
    [hit, ttft.p50_ms, ttft.p95_ms, e2e.p50_ms, e2e.p95_ms].map(|figure| figure.unwrap_or(f64::NAN))
}

impl Expected {
    fn check(&self, name: &str, found: [f64; 5]) {
        let [hit, latency @ ..] = found;
        // The published hit rates have one decimal, the times none.
        near(&format!("{name} hit"), hit, self.hit, 0.05);
        let expected = [self.ttft[0], self.ttft[1], self.e2e[0], self.e2e[1]];
        let names = ["ttft p50", "ttft p95", "e2e p50", "e2e p95"];
        for ((figure, value), range) in names.iter().zip(latency).zip(expected) {
            near(&format!("{name} {figure}"), value, range, 0.5);
        }
    }
}

/// Within 1 % of what was measured, and what its rounding hides.
fn near(what: &str, value: f64, [low, high]: [f64; 2], rounding: f64) {
    let (low, high) = (low * 0.99 - rounding, high * 1.01 + rounding);
    assert!(
        (low..=high).contains(&value),
        "{what}: {value} not in {low}..{high}"
    );
}

/// The traces that are compared on.
struct Traces {
    conversations: Workload,
    coding: Workload,
}

fn traces() -> Option<Traces> {
    let base = std::env::var_os("WARMPATH_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = base.unwrap_or_else(beside).join("data");
    // The published population knew no side chains.
    let options = Options {
        side_chains: SideChains::Kept,
        ..Options::default()
    };
    let load = |name: &str| {
        let path = data.join(name);
        let load = || read(std::slice::from_ref(&path), &options).expect("the trace");
        path.exists().then(|| load().workload)
    };
    Some(Traces {
        conversations: load("mooncake/conversation_trace.jsonl.gz")?,
        coding: load("claude-code-sessions")?,
    })
}

fn fleet(workers: u32, seed: u64) -> FleetConfig {
    FleetConfig {
        seed,
        ..presets::published(workers, BLOCK, PUBLISHED_CACHE_TOKENS)
    }
}

fn run(trace: &Workload, config: &FleetConfig, router: &mut dyn Router) -> Report {
    simulate(trace, config, router).expect("a fleet")
}

fn kv(config: &FleetConfig) -> CoreRouter {
    let options = CoreOptions::of_fleet("kv", config, AdmissionConfig::None);
    CoreRouter::new(options).expect("the settings are allowed")
}

fn round_robin_gives_the_published_figures(traces: &Traces) {
    let trace = &traces.conversations;
    for (workers, expected) in &ROUND_ROBIN {
        let config = fleet(*workers, 0);
        let report = run(trace, &config, &mut RoundRobin::new(*workers));
        assert_eq!(report.turns.completed, 12_031);
        expected.check(&format!("round robin, {workers} workers"), figures(&report));
    }
}

/// Both draw their ties: a mean of three runs is compared.
fn the_cores_choice_lies_within_the_published_spread(traces: &Traces) {
    let trace = &traces.conversations;
    const RUNS: u64 = 3;
    for (workers, expected) in &KV {
        let mut mean = [0.0; 5];
        for seed in 0..RUNS {
            let config = fleet(*workers, seed);
            let report = run(trace, &config, &mut kv(&config));
            assert_eq!(report.turns.completed, 12_031);
            for (sum, figure) in mean.iter_mut().zip(figures(&report)) {
                *sum += figure / RUNS as f64;
            }
        }
        expected.check(&format!("kv, {workers} workers"), mean);
    }
}

/// Counted a second time by a script of twenty lines. The published 18.5 and 27.1 % let blocks take
/// room that are not full, which no engine can find again.
fn one_pooled_cache_would_have_given_the_counted_bounds(traces: &Traces) {
    let trace = &traces.conversations;
    for (workers, pooled) in [(4, 19.23), (8, 27.63)] {
        let bounds = bounds(trace, u64::from(PUBLISHED_CACHE_TOKENS) * workers);
        let percent = |share: Option<f64>| share.map_or(f64::NAN, |share| share * 100.0);
        near("pooled", percent(bounds.pooled()), one(pooled), 0.0);
        near("infinite", percent(bounds.infinite()), one(37.34), 0.0);
    }
}

/// The published numbers of live sessions.
fn pressure_keeps_as_many_sessions_alive_as_published(traces: &Traces) {
    for (pressure, sessions) in [(0.5, 43), (1.0, 87), (1.5, 130), (2.0, 174), (3.0, 261)] {
        let config = presets::under_pressure(pressure);
        assert_eq!(population(&traces.coding, &config), Ok(Some(sessions)));
    }
}

type Test = (&'static str, fn(&Traces));

fn main() {
    let found = traces();
    let tests: [Test; 4] = [
        ("round robin", round_robin_gives_the_published_figures),
        ("kv", the_cores_choice_lies_within_the_published_spread),
        (
            "pressure",
            pressure_keeps_as_many_sessions_alive_as_published,
        ),
        (
            "bounds",
            one_pooled_cache_would_have_given_the_counted_bounds,
        ),
    ];
    let (passed, ignored) = match &found {
        Some(_) => (tests.len(), 0),
        None => (0, tests.len()),
    };
    match &found {
        Some(traces) => {
            for (name, test) in tests {
                test(traces);
                println!("test {name} ... ok");
            }
        }
        None => println!("ignored: the public traces are not beside the repository"),
    }
    println!(
        "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 0 filtered out"
    );
}
