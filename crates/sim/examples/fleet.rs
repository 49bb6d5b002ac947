//! Runs one trace through one fleet and prints the report as JSON, with the processor time it took.
//!
//! ```text
//! cargo run --release -p warmpath-sim --example fleet -- TRACE[,TRACE...]|generated:SESSIONS [name=value ...]
//! router=round-robin|least-loaded|kv|thunderagent|lease   workers=4   engine=dynamo-poly|h100-class
//! block=512   cache=1048576 (tokens a worker)   pressure=1.5 (closed population)   seed=0
//! prefill=fcfs|shortest   host=0 (tokens of a host tier, which `lease` knows)   brief=yes (one line)
//! recorded=yes (keeps the times of the trace)   smallest=N sessions   turns=N of each session
//! largest=N tokens of a context   chains=kept (side chains stay in their session)
//! evict=lru|lease-end   theta=5000 warm=16384 calm=5000 (of `lease`)
//! patience=N seconds until a client gives up   prefill-scale=1 (weight of a block of prompt)
//! patience-of-prompts=0 (how little long cold prompts mind who waits before them)
//! host-load=5000000 (picoseconds until a token of it is back)   host-credit=0.75
//! speeds=1,1,1,0.33 (of the first workers)   pace=0 (how much of learnt times counts)
//! affinity=off|soft|hard credit=4096 (tokens)   fan-out=N (least tokens) fan-out-wait=10 (seconds)
//! ```
#![allow(clippy::print_stdout, reason = "a command prints its result")]
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;

use warmpath_core::Micros;
use warmpath_core::admission::{Eviction, LeaseConfig};
use warmpath_core::affinity::{AffinityConfig, Mode};
use warmpath_core::scheduler::{AdmissionConfig, FanOutConfig};
use warmpath_sim::fleet::{
    EngineModel, FleetConfig, Load, Patience, PopulationConfig, Report, SessionShape, generate,
    simulate,
};
use warmpath_sim::router::{CoreOptions, CoreRouter, LeastLoaded, RoundRobin, Router};
use warmpath_sim::{
    EngineConfig, Eviction as EngineEviction, ExtentConfig, HostTier, PrefillOrder,
};
use warmpath_trace::{Options, Selection, SideChains, read};

type Settings = HashMap<String, String>;

fn get<T: std::str::FromStr>(settings: &Settings, name: &str, default: T) -> Result<T, String> {
    match settings.get(name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name}={text} is no value")),
    }
}

fn engine(settings: &Settings) -> Result<EngineModel, String> {
    let host: u64 = get(settings, "host", 0)?;
    let host = (host > 0).then_some(HostTier {
        capacity_tokens: host,
        load_ps: get(settings, "host-load", HostTier::default().load_ps)?,
    });
    match settings.get("engine").map_or("dynamo-poly", String::as_str) {
        "dynamo-poly" => {
            let block: u32 = get(settings, "block", 512)?;
            let cache: u32 = get(settings, "cache", 1 << 20)?;
            Ok(EngineModel::DynamoPoly(EngineConfig {
                block_size: block,
                num_gpu_blocks: cache / block.max(1),
                host,
                ..EngineConfig::default()
            }))
        }
        "h100-class" => {
            let default = ExtentConfig::default();
            Ok(EngineModel::H100Class(ExtentConfig {
                capacity_tokens: get(settings, "cache", default.capacity_tokens)?,
                block_tokens: get(settings, "block", default.block_tokens)?,
                eviction: match eviction(settings) {
                    true => EngineEviction::LeaseEnd,
                    false => EngineEviction::Lru,
                },
                prefill: match settings.get("prefill").map(String::as_str) {
                    Some("shortest") => PrefillOrder::Shortest,
                    _ => PrefillOrder::Fcfs,
                },
                host,
                ..default
            }))
        }
        other => Err(format!("engine={other} is not known")),
    }
}

fn speeds(settings: &Settings) -> Result<Vec<f64>, String> {
    let list = settings.get("speeds").map_or("", String::as_str);
    let each = list.split(',').filter(|speed| !speed.is_empty());
    each.map(|speed| {
        speed
            .parse()
            .map_err(|_| format!("speeds={list} is no list of numbers"))
    })
    .collect()
}

fn eviction(settings: &Settings) -> bool {
    settings.get("evict").map(String::as_str) == Some("lease-end")
}

fn lease(settings: &Settings) -> Result<LeaseConfig, String> {
    let default = LeaseConfig::default();
    Ok(LeaseConfig {
        theta: get(settings, "theta", default.theta)?,
        warm_tokens: get(settings, "warm", default.warm_tokens)?,
        calm_share: get(settings, "calm", default.calm_share)?,
        eviction: match eviction(settings) {
            true => Eviction::LeaseEnd,
            false => Eviction::Lru,
        },
        host_tokens: get(settings, "host", default.host_tokens)?,
        ..default
    })
}

fn affinity(settings: &Settings) -> Result<AffinityConfig, String> {
    let default = AffinityConfig::default();
    Ok(AffinityConfig {
        mode: match settings.get("affinity").map_or("off", String::as_str) {
            "off" => Mode::Off,
            "soft" => Mode::Soft,
            "hard" => Mode::Hard,
            other => return Err(format!("affinity={other} is not known")),
        },
        credit_tokens: get(settings, "credit", default.credit_tokens)?,
    })
}

fn router(settings: &Settings, config: &FleetConfig) -> Result<Box<dyn Router>, Box<dyn Error>> {
    let name = settings.get("router").map_or("round-robin", String::as_str);
    let admission = match name {
        "round-robin" => return Ok(Box::new(RoundRobin::new(config.workers))),
        "least-loaded" => return Ok(Box::new(LeastLoaded::new(config.workers))),
        "kv" => AdmissionConfig::None,
        "thunderagent" => AdmissionConfig::ThunderAgent(Default::default()),
        "lease" => AdmissionConfig::Lease(lease(settings)?),
        other => return Err(format!("router={other} is not known").into()),
    };
    let mut options = CoreOptions::of_fleet(name, config, admission);
    let core = &mut options.config;
    core.score.prefill_scale = get(settings, "prefill-scale", core.score.prefill_scale)?;
    core.patience = get(settings, "patience-of-prompts", core.patience)?;
    core.pace = get(settings, "pace", core.pace)?;
    core.score.host_credit = get(settings, "host-credit", core.score.host_credit)?;
    core.affinity = affinity(settings)?;
    if settings.contains_key("fan-out") {
        let seconds = get(settings, "fan-out-wait", 10)?;
        core.fan_out = Some(FanOutConfig {
            max_wait: Micros::from_secs(seconds),
            min_tokens: get(settings, "fan-out", 0)?,
        });
    }
    Ok(Box::new(CoreRouter::new(options)?))
}

fn selection(settings: &Settings) -> Result<Selection, String> {
    let some = |name| match settings.contains_key(name) {
        true => get(settings, name, 0).map(Some),
        false => Ok(None),
    };
    Ok(Selection {
        first_turns: some("turns")?,
        smallest: some("smallest")?,
        largest_context: some("largest")?,
        faster: some("faster")?.and_then(std::num::NonZeroU32::new),
        ..Selection::default()
    })
}

fn brief(report: &Report) -> String {
    let f = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let spread = |s: &warmpath_sim::fleet::Spread| {
        format!("{}/{}/{}", f(s.p50_ms), f(s.p95_ms), f(s.p99_ms))
    };
    let (work, latency, sessions) = (&report.work, &report.latency, &report.sessions);
    format!(
        "{} w{} seed {} n {:?}: hit {} tok/s {:.1} ttft {} mean {} itl {} e2e {} hold {} ({}) \
         slow {}/{} jain {} slowest {} progress {} preempt {} busy {:.3} not-best {:.3} lost {:.3} {:?}",
        report.router,
        report.workers,
        report.seed,
        report.population,
        f(work.hit_rate),
        work.output_tokens_per_second,
        spread(&latency.ttft),
        f(latency.ttft.mean_ms),
        spread(&latency.itl),
        spread(&latency.e2e),
        spread(&latency.hold),
        latency.hold.count,
        f(sessions.slowdown_mean),
        f(sessions.slowdown_p99),
        f(sessions.jain),
        f(sessions.slowest_progress),
        f(sessions.progress_mean),
        work.preemptions,
        work.busy,
        report.regret.not_best as f64 / report.regret.placements.max(1) as f64,
        1.0 - report.regret.taken_tokens as f64 / report.regret.offered_tokens.max(1) as f64,
        report.turns,
    )
}

/// Processor time of this process so far, seconds; where the system tells.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
    Some(ticks as f64 / 100.0)
}

/// Twenty turns each, at a rate that four engines can serve.
fn many_sessions(sessions: u32) -> SessionShape {
    SessionShape {
        sessions,
        turns: 20.0,
        arrivals: Micros::from_secs(12),
        ..SessionShape::default()
    }
}

/// The most memory that this process has taken so far, MiB; where the system tells.
fn peak_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which trace?")?;
    let pairs = args.map(|arg| {
        let (name, value) = arg
            .split_once('=')
            .ok_or(format!("{arg} is no name=value"))?;
        Ok::<_, String>((name.to_owned(), value.to_owned()))
    });
    let settings: Settings = pairs.collect::<Result<_, _>>()?;
    let workload = match path.strip_prefix("generated:") {
        None => {
            let paths: Vec<PathBuf> = path.split(',').map(PathBuf::from).collect();
            let options = Options {
                side_chains: match settings.contains_key("chains") {
                    true => SideChains::Kept,
                    false => SideChains::Split,
                },
                ..Options::default()
            };
            let whole = read(&paths, &options)?.workload;
            whole.select(&selection(&settings)?)
        }
        Some(sessions) => generate(&many_sessions(sessions.parse()?), 1)?,
    };
    let read_cpu = cpu_seconds();
    let load = match settings.get("pressure") {
        None if settings.contains_key("recorded") => Load::Recorded,
        None => Load::Replay,
        Some(_) => Load::Population(PopulationConfig {
            pressure: get(&settings, "pressure", 1.5)?,
            ..PopulationConfig::default()
        }),
    };
    let config = FleetConfig {
        workers: get(&settings, "workers", 4)?,
        engine: engine(&settings)?,
        speeds: speeds(&settings)?,
        load,
        seed: get(&settings, "seed", 0)?,
        patience: match get(&settings, "patience", 0u64)? {
            0 => None,
            seconds => Some(Patience::About(seconds * 1_000_000_000)),
        },
        ..FleetConfig::default()
    };
    let mut router = router(&settings, &config)?;
    let report = simulate(&workload, &config, &mut *router)?;
    if settings.contains_key("brief") {
        println!("{}", brief(&report));
    } else {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    if let (Some(before), Some(after)) = (read_cpu, cpu_seconds()) {
        eprintln!(
            "{} turns: workload {before:.2} s, simulation {:.2} s of processor time, peak {:?} MiB, of \
             which the router's index {:?} MiB",
            workload.turns().len(),
            after - before,
            peak_mib(),
            report.index.map(|cost| cost.bytes >> 20),
        );
    }
    Ok(())
}
