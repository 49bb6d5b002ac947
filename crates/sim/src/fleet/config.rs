//! What is simulated: how many engines of which model, under which load, with which mishaps.
//!
//! Everything that a run depends on beside the workload and the router is here, so two runs of one
//! configuration are equal to the byte. It computes nothing.
use std::ops::RangeInclusive;

use super::error::FleetError;
use crate::config::EngineConfig;
use crate::event::Nanos;
use crate::extents::ExtentConfig;

/// A fleet and what happens to it. Start from `default()`.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetConfig {
    /// Engines, at least 1.
    pub workers: u32,
    /// What each of them is.
    pub engine: EngineModel,
    /// How many times as fast as that the first of them compute, each 1/64 to 64; those
    /// beyond the end of the list are as the model. What comes from a host tier takes as long on all.
    pub speeds: Vec<f64>,
    /// How turns come.
    pub load: Load,
    /// Whether and how the router hears of cache changes.
    pub feed: Feed,
    /// Engines that die, if they do.
    pub outages: Option<Outages>,
    /// When a client that has not seen a token gives its turn up. `None`: clients wait for ever.
    pub patience: Option<Patience>,
    /// Seeds every random choice of the simulator; the router has a seed of its own.
    pub seed: u64,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            workers: 4,
            engine: EngineModel::DynamoPoly(EngineConfig::default()),
            speeds: Vec::new(),
            load: Load::Replay,
            feed: Feed::None,
            outages: None,
            patience: None,
            seed: 0,
        }
    }
}

/// Speeds of engines beside their model.
const SPEEDS: RangeInclusive<f64> = 1.0 / 64.0..=64.0;

/// An engine model.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineModel {
    /// The published fit of a vLLM-style engine with a block cache: times of the published simulator.
    DynamoPoly(EngineConfig),
    /// A large accelerator that keeps a prefix of each session: for long contexts.
    H100Class(ExtentConfig),
}

impl EngineModel {
    /// Tokens that one engine's cache holds.
    #[must_use]
    pub fn capacity_tokens(&self) -> u64 {
        match self {
            Self::DynamoPoly(config) => config.capacity_tokens(),
            Self::H100Class(config) => config.capacity_tokens,
        }
    }

    /// The same, computing `speed` times as fast.
    pub(crate) fn at_speed(&self, speed: f64) -> Self {
        match self {
            Self::DynamoPoly(config) => Self::DynamoPoly(EngineConfig {
                speedup_ratio: config.speedup_ratio * speed,
                ..config.clone()
            }),
            Self::H100Class(config) => Self::H100Class(ExtentConfig {
                step: config.step.at_speed(speed),
                ..config.clone()
            }),
        }
    }
}

/// How turns come.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Every turn of the workload once, when the workload says; measured from the first arrival to
    /// the last end.
    Replay,
    /// As a replay, but nothing earlier than it was in the trace: what was answered faster here waits
    /// for its time, so the trace's pauses of the day are kept.
    Recorded,
    /// A constant number of live sessions, drawn from the workload and replaced when they finish.
    Population(PopulationConfig),
}

/// A closed population. Each live session is a copy of one of the workload's, its turns one after the
/// other with the time between them that the workload has. Sessions that another one spawned are
/// left out, as are those that are too short or too large.
#[derive(Clone, Debug, PartialEq)]
pub struct PopulationConfig {
    /// Mean prompt of all live sessions over the fleet's cache; above 0. 1 fills the caches.
    pub pressure: f64,
    /// So many live sessions instead, whatever the pressure is; at least 1.
    pub sessions: Option<u32>,
    /// Turns of a session that are used, from its first; at least 1.
    pub turns: u32,
    /// Sessions with fewer turns are left out.
    pub least_turns: u32,
    /// Sessions with a prompt of this many tokens or more are left out, as are those with a prompt
    /// of 60 % of a worker's cache or more.
    pub too_large: u32,
    /// Longer pauses between two turns are cut to this.
    pub longest_gap: Nanos,
    /// Time before anything is measured.
    pub warm_up: Nanos,
    /// Time that is measured, above 0.
    pub measure: Nanos,
}

impl Default for PopulationConfig {
    fn default() -> Self {
        Self {
            pressure: 1.5,
            sessions: None,
            turns: 60,
            least_turns: 3,
            too_large: 600_000,
            longest_gap: 120_000_000_000,
            warm_up: 1_800_000_000_000,
            measure: 7_200_000_000_000,
        }
    }
}

/// How long a client waits for its first token before it gives its turn up; its session goes on with
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// On average so long: evenly spread from half to one and a half of it.
    About(Nanos),
    /// Each so long.
    Exactly(Nanos),
}

/// Whether the router hears what engines store and remove. Only engines with a block cache tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feed {
    /// Never.
    None,
    /// At the end of the pass that changed something.
    Events {
        /// Time on the way.
        lag: Nanos,
        /// Share of messages that are lost, 0 to 1. A message is what one pass has changed.
        loss: f64,
        /// What becomes of those.
        recovery: Recovery,
    },
}

/// Whether engines tell again what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// They keep their last 10,000 messages; asking takes the lag once, the answer once more. What is
    /// asked for arrives.
    #[default]
    Replay,
    /// They do not.
    Never,
}

/// Engines die and come back with an empty cache. What they had in flight is lost: a turn without a
/// token may be sent elsewhere by the router; otherwise its client asks again a second later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outages {
    /// Mean time from one return of a worker to its next death, exponentially spread; above 0.
    pub every: Nanos,
    /// Time until it comes back.
    pub down: Nanos,
}

impl FleetConfig {
    /// What each worker is.
    pub(crate) fn engines(&self) -> Vec<EngineModel> {
        let speeds = self.speeds.iter().copied().chain(std::iter::repeat(1.0));
        let engines = speeds.map(|speed| match speed {
            1.0 => self.engine.clone(),
            speed => self.engine.at_speed(speed),
        });
        engines.take(self.workers as usize).collect()
    }

    /// Refuses what cannot be simulated. O(1).
    ///
    /// # Errors
    /// Names the setting and what is allowed.
    pub fn validate(&self) -> Result<(), FleetError> {
        let refuse = |text: &str| Err(FleetError::new(text));
        if self.workers == 0 || self.workers > 65_536 {
            return refuse("workers must be 1 to 65536");
        }
        match &self.engine {
            EngineModel::DynamoPoly(config) => config.validate()?,
            EngineModel::H100Class(config) => config.validate()?,
        }
        if self.speeds.len() > self.workers as usize {
            return refuse("speeds must be at most one for each worker");
        }
        if !self.speeds.iter().all(|speed| SPEEDS.contains(speed)) {
            return refuse("a speed must be 1/64 to 64");
        }
        if let Load::Population(population) = &self.load {
            if !(population.pressure.is_finite() && population.pressure > 0.0) {
                return refuse("pressure must be a finite number above 0");
            }
            if population.sessions == Some(0) {
                return refuse("sessions must be at least 1");
            }
            if population.turns == 0 || population.measure == 0 {
                return refuse("a population needs turns and a time to measure");
            }
        }
        if let Feed::Events { loss, .. } = self.feed
            && !(0.0..=1.0).contains(&loss)
        {
            return refuse("loss must be 0 to 1");
        }
        if self.outages.is_some_and(|outages| outages.every == 0) {
            return refuse("the time between outages must be above 0");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::machine::alone_ns;

    #[test]
    fn a_speed_divides_what_a_request_takes_and_bad_ones_are_refused() {
        let models = [
            EngineModel::DynamoPoly(EngineConfig::default()),
            EngineModel::H100Class(ExtentConfig::default()),
        ];
        for engine in models {
            let config = FleetConfig {
                workers: 3,
                speeds: vec![0.5, 2.0],
                engine,
                ..FleetConfig::default()
            };
            assert!(config.validate().is_ok());
            let times = config.engines();
            let times: Vec<f64> = times
                .iter()
                .map(|model| alone_ns(model, 20_000, 0, 100) as f64)
                .collect();
            assert!((times[0] / times[2] - 2.0).abs() < 1e-3, "{times:?}");
            assert!((times[1] / times[2] - 0.5).abs() < 1e-3, "{times:?}");
            for bad in [vec![0.0], vec![f64::NAN], vec![65.0], vec![1.0; 4]] {
                let config = FleetConfig {
                    speeds: bad,
                    ..config.clone()
                };
                assert!(config.validate().is_err(), "{:?}", config.speeds);
            }
        }
    }
}
