//! How is the shipped core set up for a simulated fleet?
use warmpath_core::scheduler::{AdmissionConfig, Config, GroupOptions};

use crate::fleet::{Feed, FleetConfig, Recovery, block_tokens};

/// Whether a client says that a turn is its session's last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Farewell {
    /// It does.
    #[default]
    Said,
    /// The router has to find out.
    Unsaid,
}

/// How the core is set up.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// What a report calls it.
    pub label: String,
    /// The core's own settings: admission, score, limits, seed.
    pub config: Config,
    /// Workers, at least 1.
    pub workers: u32,
    /// Tokens that a worker's cache holds, as the operator has told the core.
    pub capacity_tokens: Option<u64>,
    /// Block size and lifetime of predictions.
    pub group: GroupOptions,
    /// Whether clients say goodbye.
    pub farewell: Farewell,
    /// Where engines tell of their caches: what is done about messages that are missing. Without it the
    /// core believes its own decisions.
    pub events: Option<Recovery>,
}

impl CoreOptions {
    /// A core that knows the workers of a fleet, their cache and block size, with this admission; its
    /// ties are drawn by the fleet's seed. Predictions do not expire: a simulated cache forgets only
    /// for want of room.
    #[must_use]
    pub fn of_fleet(label: &str, fleet: &FleetConfig, admission: AdmissionConfig) -> Self {
        Self {
            label: label.to_owned(),
            config: Config {
                admission,
                seed: fleet.seed,
                ..Config::default()
            },
            workers: fleet.workers,
            capacity_tokens: Some(fleet.engine.capacity_tokens()),
            group: GroupOptions {
                block_tokens: block_tokens(&fleet.engine).get(),
                ttl: None,
                ..GroupOptions::default()
            },
            farewell: Farewell::Said,
            events: match fleet.feed {
                Feed::Events { recovery, .. } => Some(recovery),
                Feed::None => None,
            },
        }
    }
}
