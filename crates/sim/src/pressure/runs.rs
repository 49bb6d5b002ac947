//! One figure after another: who gates which fleet, with which help, and what came of it.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warmpath_core::admission::{Eviction as Order, LeaseConfig, ThunderAgentConfig};
use warmpath_core::scheduler::AdmissionConfig;
use warmpath_trace::Workload;

use super::SEEDS;
use super::variants::{Ratio, scaled, sharing};
use crate::extents::{Eviction, ExtentConfig, PrefillOrder};
use crate::fleet::{
    EngineModel, FleetConfig, FleetError, Load, Patience, PopulationConfig, Report, population,
    presets, simulate,
};
use crate::router::{CoreOptions, CoreRouter};

/// Tokens that all prompts begin with in [`Sessions::sharing`].
pub(super) const SHARED: u32 = 16_384;
/// Prompts of [`Sessions::large`] end here.
pub(super) const LARGEST: u32 = 600_000;

/// The recorded sessions, and what is made of them.
pub(super) struct Sessions {
    recorded: Workload,
    sharing: Workload,
    large: Workload,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Recorded,
    /// All begin with the same [`SHARED`] tokens.
    Sharing,
    /// 2.5 times as long.
    Large,
}

impl Sessions {
    pub(super) fn of(workload: &Workload) -> Result<Self, FleetError> {
        population(workload, &presets::under_pressure(1.0))?;
        Ok(Self {
            recorded: workload.clone(),
            sharing: sharing(workload, SHARED),
            large: scaled(workload, Ratio(5, 2), LARGEST),
        })
    }

    pub(super) fn get(&self, which: Which) -> &Workload {
        match which {
            Which::Recorded => &self.recorded,
            Which::Sharing => &self.sharing,
            Which::Large => &self.large,
        }
    }
}

/// A fleet and its load.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) which: Which,
    pub(super) workers: u32,
    pub(super) engine: ExtentConfig,
    pub(super) people: PopulationConfig,
    pub(super) patience: Option<Patience>,
}

impl Setting {
    /// Four large engines and the recorded sessions.
    pub(super) fn at(pressure: f64) -> Self {
        Self {
            which: Which::Recorded,
            workers: 4,
            engine: ExtentConfig::default(),
            people: PopulationConfig {
                pressure,
                ..PopulationConfig::default()
            },
            patience: None,
        }
    }
}

/// Who gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nobody; the cost chooses the worker.
    None,
    ThunderAgent,
    /// `lease` with this theta.
    Lease(u32),
}

/// What the engines do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Help {
    pub(super) prefill: PrefillOrder,
    /// They give caches up as hints tell them, in place of the least recently used first.
    pub(super) takes_hints: bool,
}

impl Help {
    pub(super) const NONE: Self = Self {
        prefill: PrefillOrder::Fcfs,
        takes_hints: false,
    };
    pub(super) const SHORTEST: Self = Self {
        prefill: PrefillOrder::Shortest,
        takes_hints: false,
    };
    pub(super) const FULL: Self = Self {
        prefill: PrefillOrder::Shortest,
        takes_hints: true,
    };
}

/// A figure to be computed, over all seeds.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) setting: Setting,
    pub(super) gate: Gate,
    pub(super) help: Help,
}

/// What a run came to; times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Tokens made a second.
    pub(super) rate: f64,
    pub(super) ttft_p99: f64,
    pub(super) slowdown: f64,
    pub(super) slowdown_p99: f64,
    pub(super) jain: f64,
    pub(super) slowest: f64,
    pub(super) held: f64,
    pub(super) given_up: f64,
}

impl Figures {
    fn of(report: &Report) -> Self {
        let or_zero = |figure: Option<f64>| figure.unwrap_or(0.0);
        Self {
            rate: report.work.output_tokens_per_second,
            ttft_p99: or_zero(report.latency.ttft.p99_ms) / 1_000.0,
            slowdown: or_zero(report.sessions.slowdown_mean),
            slowdown_p99: or_zero(report.sessions.slowdown_p99),
            jain: or_zero(report.sessions.jain),
            slowest: or_zero(report.sessions.slowest_progress),
            held: report.latency.hold.count as f64,
            given_up: report.turns.given_up as f64,
        }
    }

    fn zip(self, other: Self, with: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            rate: with(self.rate, other.rate),
            ttft_p99: with(self.ttft_p99, other.ttft_p99),
            slowdown: with(self.slowdown, other.slowdown),
            slowdown_p99: with(self.slowdown_p99, other.slowdown_p99),
            jain: with(self.jain, other.jain),
            slowest: with(self.slowest, other.slowest),
            held: with(self.held, other.held),
            given_up: with(self.given_up, other.given_up),
        }
    }

    /// The better one of each figure.
    fn better(self, other: Self) -> Self {
        let least = self.zip(other, f64::min);
        Self {
            rate: self.rate.max(other.rate),
            jain: self.jain.max(other.jain),
            slowest: self.slowest.max(other.slowest),
            ..least
        }
    }
}

/// Where figures are computed.
pub(super) struct Bench<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) threads: usize,
}

impl Bench<'_> {
    /// The figures of each plan, in their order.
    pub(super) fn run(&self, plans: &[Plan]) -> Result<Vec<Figures>, FleetError> {
        let all = plans.len() * SEEDS.len();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; all]));
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(at / SEEDS.len()) else {
                    return;
                };
                let figures = self.simulate(plan, SEEDS[at % SEEDS.len()]);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found[at] = Some(figures);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(all) {
                scope.spawn(work);
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let found: Result<Vec<Figures>, FleetError> = found.into_iter().flatten().collect();
        let of_seeds = |seeds: &[Figures]| {
            let sum = |a: Figures, &b: &Figures| a.zip(b, |a, b| a + b);
            let sum = seeds.iter().fold(Figures::default(), sum);
            sum.zip(sum, |sum, _| sum / seeds.len() as f64)
        };
        Ok(found?.chunks(SEEDS.len()).map(of_seeds).collect())
    }

    fn simulate(&self, plan: &Plan, seed: u64) -> Result<Figures, FleetError> {
        let Plan {
            setting,
            gate,
            help,
        } = plan;
        let config = FleetConfig {
            workers: setting.workers,
            engine: EngineModel::H100Class(ExtentConfig {
                prefill: help.prefill,
                eviction: match help.takes_hints {
                    true => Eviction::LeaseEnd,
                    false => Eviction::Lru,
                },
                ..setting.engine.clone()
            }),
            load: Load::Population(setting.people.clone()),
            patience: setting.patience,
            seed,
            ..FleetConfig::default()
        };
        let admission = match *gate {
            Gate::None => AdmissionConfig::None,
            Gate::ThunderAgent => AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
            Gate::Lease(theta) => AdmissionConfig::Lease(LeaseConfig {
                theta,
                host_tokens: setting.engine.host.map_or(0, |host| host.capacity_tokens),
                eviction: match help.takes_hints {
                    true => Order::LeaseEnd,
                    false => Order::Lru,
                },
                ..LeaseConfig::default()
            }),
        };
        let options = CoreOptions::of_fleet("core", &config, admission);
        let mut router =
            CoreRouter::new(options).map_err(|error| FleetError::new(error.to_string()))?;
        let report = simulate(self.sessions.get(setting.which), &config, &mut router)?;
        Ok(Figures::of(&report))
    }

    /// How many sessions live in this setting.
    pub(super) fn population(&self, setting: &Setting) -> Result<u64, FleetError> {
        let config = FleetConfig {
            workers: setting.workers,
            engine: EngineModel::H100Class(setting.engine.clone()),
            load: Load::Population(setting.people.clone()),
            ..FleetConfig::default()
        };
        let found = population(self.sessions.get(setting.which), &config)?;
        Ok(found.unwrap_or(0))
    }
}

/// A setting with all that is compared in it: no gate, ThunderAgent, each the better of two engines, and
/// `lease`.
pub(super) struct Compared {
    pub(super) none: Figures,
    /// With engines that compute prompts as they come.
    pub(super) none_fcfs: Figures,
    pub(super) thunderagent: Figures,
    /// As many as were asked for.
    pub(super) lease: Vec<Figures>,
}

impl Bench<'_> {
    /// Every setting with its baselines and with `lease` at each of `thetas`.
    pub(super) fn compare(
        &self,
        settings: &[Setting],
        thetas: &[u32],
    ) -> Result<Vec<Compared>, FleetError> {
        let mut cases = vec![
            (Gate::None, Help::NONE),
            (Gate::None, Help::SHORTEST),
            (Gate::ThunderAgent, Help::NONE),
            (Gate::ThunderAgent, Help::SHORTEST),
        ];
        cases.extend(thetas.iter().map(|&theta| (Gate::Lease(theta), Help::FULL)));
        let plans: Vec<Plan> = settings
            .iter()
            .flat_map(|setting| {
                cases.iter().map(|&(gate, help)| Plan {
                    setting: setting.clone(),
                    gate,
                    help,
                })
            })
            .collect();
        let found = self.run(&plans)?;
        let compared = found.chunks(cases.len()).map(|found| Compared {
            none: found[0].better(found[1]),
            none_fcfs: found[0],
            thunderagent: found[2].better(found[3]),
            lease: found[4..].to_vec(),
        });
        Ok(compared.collect())
    }
}
