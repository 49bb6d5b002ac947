//! One run as JSON options: which policy in front of which fleet under which load.
//!
//! What is left out is the simulator's default. An admission policy is named as a scheduler's options
//! name it, so whatever the core has can be compared.
use std::num::NonZeroU32;

use napi::bindgen_prelude::Result;
use serde::Deserialize;

use warmpath_sim::fleet::{
    EngineModel, Feed, FleetConfig, Load, Outages, Patience, PopulationConfig, Recovery,
};
use warmpath_sim::router::{CoreOptions, CoreRouter, LeastLoaded, RoundRobin, Router};
use warmpath_sim::{EngineConfig, Eviction, ExtentConfig, HostTier, Nanos, PrefillOrder};

use crate::error::{Code, invalid, refused};
use crate::options::{Admission, Affinity, FanOut, Score};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Scenario {
    /// What the report calls the policy.
    label: String,
    policy: Policy,
    /// Weights of a worker's cost; the published ones where they are left out.
    #[serde(default)]
    score: Score,
    /// How strongly sessions stay; not at all where it is left out.
    #[serde(default)]
    affinity: Affinity,
    /// Whether turns wait for one that computes the beginning that they share.
    fan_out: Option<FanOut>,
    workers: u32,
    /// How many times as fast as the engine model the first workers compute; the rest are as that.
    #[serde(default)]
    speeds: Vec<f64>,
    engine: EngineName,
    cache_tokens: Option<u64>,
    /// Of a host tier behind each engine's cache.
    host_tokens: Option<u64>,
    block_tokens: Option<NonZeroU32>,
    prefill: Option<Prefill>,
    eviction: Option<Evict>,
    /// Nothing starts before its time in the trace; for a replay, not for a population.
    #[serde(default)]
    keep_times: bool,
    population: Option<People>,
    events: Option<Events>,
    outages: Option<Deaths>,
    patience_ms: Option<f64>,
    seed: u32,
}

/// Who decides.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    RoundRobin,
    LeastLoaded,
    /// The shipped core with this admission.
    Core(Box<Admission>),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EngineName {
    DynamoPoly,
    H100Class,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Prefill {
    Fcfs,
    Shortest,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Evict {
    Lru,
    LeaseEnd,
}

/// A closed population instead of the trace's own times.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct People {
    pressure: f64,
    sessions: Option<u32>,
    turns: Option<u32>,
    least_turns: Option<u32>,
    longest_gap_ms: Option<f64>,
    warm_up_ms: Option<f64>,
    measure_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Events {
    lag_ms: f64,
    loss: f64,
    recovery: Option<Again>,
}

/// What becomes of events that are lost.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Again {
    Replay,
    Never,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Deaths {
    every_ms: f64,
    down_ms: f64,
}

impl Scenario {
    /// Reads the JSON text.
    pub(super) fn parse(text: &str) -> Result<Self, Code> {
        serde_json::from_str(text).map_err(|e| invalid(format!("scenario: {e}")))
    }

    /// The simulator's settings; `workload_block` is the block size where none is asked for.
    pub(super) fn fleet(&self, workload_block: NonZeroU32) -> Result<FleetConfig, Code> {
        let feed = match &self.events {
            None => Feed::None,
            Some(events) => Feed::Events {
                lag: nanos(events.lag_ms)?,
                loss: events.loss,
                recovery: match events.recovery {
                    Some(Again::Never) => Recovery::Never,
                    Some(Again::Replay) | None => Recovery::default(),
                },
            },
        };
        Ok(FleetConfig {
            workers: self.workers,
            engine: self.engine(self.block_tokens.unwrap_or(workload_block))?,
            speeds: self.speeds.clone(),
            load: match &self.population {
                None if self.keep_times => Load::Recorded,
                None => Load::Replay,
                Some(people) => Load::Population(people.config()?),
            },
            feed,
            outages: self.outages.as_ref().map(Deaths::config).transpose()?,
            patience: self
                .patience_ms
                .map(nanos)
                .transpose()?
                .map(Patience::About),
            seed: self.seed.into(),
        })
    }

    fn engine(&self, block: NonZeroU32) -> Result<EngineModel, Code> {
        let host = self.host_tokens.map(|capacity_tokens| HostTier {
            capacity_tokens,
            ..HostTier::default()
        });
        match self.engine {
            EngineName::DynamoPoly => {
                let default = EngineConfig::default();
                let tokens = self.cache_tokens.unwrap_or(default.capacity_tokens());
                let blocks = tokens / u64::from(block.get());
                Ok(EngineModel::DynamoPoly(EngineConfig {
                    block_size: block.get(),
                    num_gpu_blocks: u32::try_from(blocks)
                        .map_err(|_| invalid("cacheTokens has too many blocks"))?,
                    host,
                    ..default
                }))
            }
            EngineName::H100Class => {
                let default = ExtentConfig::default();
                Ok(EngineModel::H100Class(ExtentConfig {
                    capacity_tokens: self.cache_tokens.unwrap_or(default.capacity_tokens),
                    block_tokens: block.get(),
                    host,
                    prefill: match self.prefill {
                        Some(Prefill::Shortest) => PrefillOrder::Shortest,
                        Some(Prefill::Fcfs) | None => default.prefill,
                    },
                    eviction: match self.eviction {
                        Some(Evict::LeaseEnd) => Eviction::LeaseEnd,
                        Some(Evict::Lru) | None => default.eviction,
                    },
                    ..default
                }))
            }
        }
    }

    /// Who decides in such a fleet.
    pub(super) fn router(&self, fleet: &FleetConfig) -> Result<Box<dyn Router>, Code> {
        let admission = match &self.policy {
            Policy::RoundRobin => return Ok(Box::new(RoundRobin::new(fleet.workers))),
            Policy::LeastLoaded => return Ok(Box::new(LeastLoaded::new(fleet.workers))),
            Policy::Core(admission) => admission,
        };
        let mut options = CoreOptions::of_fleet(&self.label, fleet, admission.config());
        options.config.gates = admission.gates();
        options.config.queue = admission.queue();
        options.config.weights = admission.weights().map_err(|error| refused(&error))?;
        options.config.score = self.score.config();
        options.config.temperature = self.score.temperature();
        options.config.patience = self.score.patience();
        options.config.pace = self.score.pace();
        options.config.affinity = self.affinity.config();
        options.config.fan_out = self.fan_out.as_ref().map(FanOut::config);
        let router = CoreRouter::new(options).map_err(|error| refused(&error))?;
        Ok(Box::new(router))
    }
}

impl Deaths {
    fn config(&self) -> Result<Outages, Code> {
        Ok(Outages {
            every: nanos(self.every_ms)?,
            down: nanos(self.down_ms)?,
        })
    }
}

impl People {
    fn config(&self) -> Result<PopulationConfig, Code> {
        let default = PopulationConfig::default();
        let time = |ms: Option<f64>, or: Nanos| ms.map_or(Ok(or), nanos);
        Ok(PopulationConfig {
            pressure: self.pressure,
            sessions: self.sessions,
            turns: self.turns.unwrap_or(default.turns),
            least_turns: self.least_turns.unwrap_or(default.least_turns),
            too_large: default.too_large,
            longest_gap: time(self.longest_gap_ms, default.longest_gap)?,
            warm_up: time(self.warm_up_ms, default.warm_up)?,
            measure: time(self.measure_ms, default.measure)?,
        })
    }
}

/// Whole nanoseconds of up to a year.
fn nanos(ms: f64) -> Result<Nanos, Code> {
    if !(0.0..=3.2e10).contains(&ms) {
        return Err(invalid("a time must be 0 to 3.2e10 milliseconds"));
    }
    Ok((ms * 1e6).round() as Nanos)
}
