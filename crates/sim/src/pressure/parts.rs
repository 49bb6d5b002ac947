//! The parts of the evidence: which figures are compared, and what was asked of them.
use warmpath_core::admission::LeaseConfig;

use super::row::Row;
use super::runs::{Bench, Compared, Figures, Gate, Help, LARGEST, Plan, Setting, Which};
use crate::event::Nanos;
use crate::fleet::{FleetError, Patience};
use crate::tier::HostTier;

const NO_GATE: &str = "no gate, KV-aware";
const THUNDERAGENT: &str = "thunderagent";
const PRESSURES: [f64; 3] = [1.0, 1.5, 2.0];
/// The engines of `Setting::at`, in tokens of the host tier beside each.
const HOST: u64 = 4_000_000;

/// What was asked for at each of [`PRESSURES`].
struct Goals {
    over_thunderagent: f64,
    over_none: f64,
    ttft_none: f64,
    /// One of so many parts.
    ttft_thunderagent: u32,
    slowdown: f64,
    slowdown_p99: f64,
    jain: f64,
    /// At pressure 1 it was to be measured first.
    slowest: Option<f64>,
}

const GOALS: [Goals; 3] = [
    Goals {
        over_thunderagent: 1.1,
        over_none: 1.4,
        ttft_none: 0.35,
        ttft_thunderagent: 6,
        slowdown: 1.3,
        slowdown_p99: 2.0,
        jain: 0.99,
        slowest: None,
    },
    Goals {
        over_thunderagent: 1.1,
        over_none: 2.4,
        ttft_none: 0.55,
        ttft_thunderagent: 10,
        slowdown: 2.1,
        slowdown_p99: 6.5,
        jain: 0.985,
        slowest: Some(2.0),
    },
    Goals {
        over_thunderagent: 1.08,
        over_none: 2.4,
        ttft_none: 0.8,
        ttft_thunderagent: 6,
        slowdown: 3.0,
        slowdown_p99: 13.0,
        jain: 0.985,
        slowest: Some(4.0),
    },
];

fn settings(pressures: &[f64], change: impl Fn(&mut Setting)) -> Vec<Setting> {
    let setting = |&pressure: &f64| {
        let mut setting = Setting::at(pressure);
        change(&mut setting);
        setting
    };
    pressures.iter().map(setting).collect()
}

fn named(of: &str, pressure: f64, figure: &str) -> String {
    format!("{of}p{pressure}.{figure}")
}

/// `balanced` beside both baselines, at three pressures.
pub(super) fn table(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    let compared = bench.compare(&settings(&PRESSURES, |_| {}), &[LeaseConfig::BALANCED])?;
    let mut rows = Vec::new();
    for ((pressure, goals), found) in PRESSURES.into_iter().zip(&GOALS).zip(&compared) {
        rows.extend(of_pressure(pressure, goals, found));
    }
    Ok(rows)
}

fn of_pressure(pressure: f64, goals: &Goals, found: &Compared) -> Vec<Row> {
    let Compared {
        none,
        thunderagent,
        lease,
        ..
    } = found;
    let lease = lease[0];
    let row = |figure: &str, text: &str, value: f64, unit: &'static str| {
        let text = format!("pressure {pressure}, `balanced`: {text}");
        Row::new(named("", pressure, figure), text, value, unit)
    };
    let p99 = "p99 of the time to first token, holds included";
    let slowest = row(
        "slowest",
        "progress of the slowest 5 % of sessions",
        lease.slowest,
        "share",
    )
    .beside(THUNDERAGENT, thunderagent.slowest);
    let beside_fcfs = "throughput, beside engines that compute prompts as they come";
    vec![
        row("throughput", "throughput", lease.rate, "tokens/s")
            .beside(THUNDERAGENT, thunderagent.rate)
            .at_least(goals.over_thunderagent),
        row("throughput_no_gate", "throughput", lease.rate, "tokens/s")
            .beside(NO_GATE, none.rate)
            .at_least(goals.over_none),
        row(
            "throughput_no_gate_fcfs",
            beside_fcfs,
            lease.rate,
            "tokens/s",
        )
        .beside(NO_GATE, found.none_fcfs.rate),
        row("ttft_p99_no_gate", p99, lease.ttft_p99, "s")
            .beside(NO_GATE, none.ttft_p99)
            .at_most(goals.ttft_none),
        row("ttft_p99", p99, lease.ttft_p99, "s")
            .beside(THUNDERAGENT, thunderagent.ttft_p99)
            .at_most_part(goals.ttft_thunderagent),
        row(
            "slowdown",
            "slowdown of sessions, mean",
            lease.slowdown,
            "times",
        )
        .at_most(goals.slowdown),
        row(
            "slowdown_p99",
            "slowdown of sessions, p99",
            lease.slowdown_p99,
            "times",
        )
        .at_most(goals.slowdown_p99),
        row(
            "jain",
            "Jain's index of the progress of sessions",
            lease.jain,
            "of 1",
        )
        .at_least(goals.jain),
        match goals.slowest {
            Some(least) => slowest.at_least(least),
            None => slowest,
        },
    ]
}

/// Clients that give a turn up after five minutes without a token.
pub(super) fn patience(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    const LIMIT: Nanos = 300_000_000_000;
    let settings = settings(&PRESSURES, |setting| {
        setting.patience = Some(Patience::Exactly(LIMIT));
    });
    let compared = bench.compare(&settings, &[LeaseConfig::BALANCED])?;
    let mut rows = Vec::new();
    for (pressure, found) in PRESSURES.into_iter().zip(&compared) {
        let (lease, peer) = (found.lease[0], found.thunderagent);
        let row = |figure: &str, text: &str, value: f64, unit: &'static str| {
            let text = format!("pressure {pressure}, clients give up after 300 s: {text}");
            Row::new(named("patience.", pressure, figure), text, value, unit)
        };
        let p99 = row(
            "ttft_p99",
            "p99 of the time to first token",
            lease.ttft_p99,
            "s",
        );
        // No turn of either may have been given up at all.
        let mut given_up = row("given_up", "turns given up", lease.given_up, "turns");
        given_up.goal = Some(format!("at most the peer's {:.0}", peer.given_up));
        given_up.holds = Some(lease.given_up <= peer.given_up);
        given_up.peer = Some(THUNDERAGENT);
        rows.extend([
            row("throughput", "throughput", lease.rate, "tokens/s").beside(THUNDERAGENT, peer.rate),
            p99.beside(THUNDERAGENT, peer.ttft_p99).at_most(1.0),
            given_up,
        ]);
    }
    Ok(rows)
}

/// Engines that take no hints, drop the least recently used, and compute prompts as they come.
pub(super) fn blind(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    let settings = settings(&PRESSURES, |_| {});
    let compared = bench.compare(&settings, &[])?;
    let plan = |setting: &Setting| Plan {
        setting: setting.clone(),
        gate: Gate::Lease(LeaseConfig::BALANCED),
        help: Help::NONE,
    };
    let plans: Vec<Plan> = settings.iter().map(plan).collect();
    let found = bench.run(&plans)?;
    let mut rows = Vec::new();
    for ((pressure, peers), lease) in PRESSURES.into_iter().zip(&compared).zip(found) {
        let row = |figure: &str, text: &str, value: f64, unit: &'static str| {
            let text = format!("pressure {pressure}, engines that do not help: {text}");
            Row::new(named("blind.", pressure, figure), text, value, unit)
        };
        rows.extend([
            row("throughput", "throughput", lease.rate, "tokens/s")
                .beside(THUNDERAGENT, peers.thunderagent.rate)
                .at_least(1.04),
            row(
                "ttft_p99",
                "p99 of the time to first token",
                lease.ttft_p99,
                "s",
            )
            .beside(NO_GATE, peers.none.ttft_p99)
            .at_most(1.05),
        ]);
    }
    Ok(rows)
}

/// Contexts that fit: nobody is held.
pub(super) fn calm(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    let pressures = [0.25, 0.5];
    let compared = bench.compare(&settings(&pressures, |_| {}), &[LeaseConfig::BALANCED])?;
    let mut rows = Vec::new();
    for (pressure, found) in pressures.into_iter().zip(&compared) {
        let lease = found.lease[0];
        let row = |figure: &str, text: &str, value: f64, unit: &'static str| {
            let text = format!("pressure {pressure}, `balanced`: {text}");
            Row::new(named("calm.", pressure, figure), text, value, unit)
        };
        rows.extend([
            row("held", "turns held", lease.held, "turns").at_most(0.0),
            row("throughput", "throughput", lease.rate, "tokens/s")
                .beside(NO_GATE, found.none.rate)
                .at_least(0.995),
        ]);
    }
    Ok(rows)
}

/// Sessions 2.5 times as long: what each preset reaches, without and with a host tier.
pub(super) fn large(bench: &Bench<'_>) -> Result<Vec<Row>, FleetError> {
    let mut rows = vec![median(bench)];
    let presets = [
        ("tail", LeaseConfig::TAIL),
        ("balanced", LeaseConfig::BALANCED),
        ("throughput", LeaseConfig::THROUGHPUT),
    ];
    let host = Some(HostTier {
        capacity_tokens: HOST,
        ..HostTier::default()
    });
    for (tier, in_words, host) in [("", "", None), ("host.", ", a host tier", host)] {
        let settings = settings(&PRESSURES, |setting| {
            setting.which = Which::Large;
            setting.engine.block_tokens = 32;
            setting.engine.host = host;
            setting.people.too_large = u32::MAX;
        });
        let compared = bench.compare(&settings, &presets.map(|(_, theta)| theta))?;
        for ((pressure, setting), found) in PRESSURES.into_iter().zip(&settings).zip(&compared) {
            let sessions = bench.population(setting)?;
            for ((preset, _), &lease) in presets.iter().zip(&found.lease) {
                let of = format!("large.{tier}{preset}.");
                let text = format!(
                    "pressure {pressure}, {sessions} sessions 2.5 times as long{in_words}, `{preset}`"
                );
                rows.extend(front(&of, &text, pressure, lease, found));
            }
        }
    }
    Ok(rows)
}

fn front(of: &str, text: &str, pressure: f64, lease: Figures, found: &Compared) -> [Row; 3] {
    let row = |figure: &str, what: &str, value: f64, unit: &'static str| {
        let text = format!("{text}: {what}");
        Row::new(named(of, pressure, figure), text, value, unit)
    };
    [
        row("throughput", "throughput", lease.rate, "tokens/s")
            .beside(THUNDERAGENT, found.thunderagent.rate),
        row(
            "ttft_p99",
            "p99 of the time to first token",
            lease.ttft_p99,
            "s",
        )
        .beside(NO_GATE, found.none.ttft_p99),
        row(
            "slowest",
            "progress of the slowest 5 % of sessions",
            lease.slowest,
            "share",
        )
        .beside(THUNDERAGENT, found.thunderagent.slowest),
    ]
}

/// The median prompt of the sessions that are 2.5 times as long.
fn median(bench: &Bench<'_>) -> Row {
    let turns = bench.sessions.get(Which::Large).turns().iter();
    let mut prompts: Vec<u32> = turns.map(|turn| turn.input_tokens).collect();
    prompts.sort_unstable();
    let median = prompts.get(prompts.len() / 2).copied().unwrap_or(0);
    let text = format!("median prompt of the sessions 2.5 times as long, cut at {LARGEST} tokens");
    let name = "large.median_prompt".to_owned();
    Row::new(name, text, f64::from(median), "tokens")
}
