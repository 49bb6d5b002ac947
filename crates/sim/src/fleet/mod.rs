//! A whole fleet on a virtual clock: what would these turns have done to these engines, had this
//! router sent them?
//!
//! ```
//! use warmpath_sim::fleet::{FleetConfig, SessionShape, generate, simulate};
//! use warmpath_sim::router::RoundRobin;
//!
//! let workload = generate(&SessionShape::default(), 1)?;
//! let config = FleetConfig::default();
//! let report = simulate(&workload, &config, &mut RoundRobin::new(config.workers))?;
//! assert_eq!(report.turns.arrived, report.turns.completed);
//! # Ok::<(), warmpath_sim::fleet::FleetError>(())
//! ```
//!
//! Nothing of a policy is here, and no time but that of the clock: the same workload, configuration
//! and router give the same report to the byte. Cost grows with turns, not with tokens: a pass that
//! only lengthens answers is one evaluation of the timing model. Memory is that of the workload, 100
//! bytes a turn and session, and what the router keeps.
mod agenda;
mod bounds;
mod config;
mod content;
mod engines;
mod error;
mod faults;
mod generate;
mod ledger;
mod live;
mod loss;
mod machine;
mod meter;
pub mod presets;
mod report;
mod run;
mod series;
mod source;
mod telling;
mod tidings;

pub use bounds::{Bounds, bounds};
pub use config::{
    EngineModel, Feed, FleetConfig, Load, Outages, Patience, PopulationConfig, Recovery,
};
pub(crate) use content::Content;
pub use error::FleetError;
pub use generate::{SessionShape, generate};
pub use report::{
    Events, Latency, Promises, Regret, Report, Sample, Sessions, Spread, TurnCounts, Work,
};
pub use source::Drawn;

use std::num::NonZeroU32;
use std::ops::ControlFlow;

use warmpath_trace::Workload;

use crate::event::Nanos;
use crate::router::Router;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The time on its clock.
    pub now: Nanos,
    /// Turns that clients have sent.
    pub arrived: u64,
}

/// Is shown the progress of a run every few thousand events, and may end it. What it does has no
/// effect on the figures.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Runs a workload through a fleet and reports what became of it.
///
/// # Errors
/// A configuration that cannot be simulated, or a workload whose blocks do not fit the engine's.
pub fn simulate(
    workload: &Workload,
    config: &FleetConfig,
    router: &mut dyn Router,
) -> Result<Report, FleetError> {
    let report = simulate_watched(workload, config, router, &mut |_| ControlFlow::Continue(()))?;
    // Nobody has ended it.
    report.ok_or_else(|| FleetError::new("the run was ended"))
}

/// [`simulate`], seen by somebody who may end it; `None` if so.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    workload: &Workload,
    config: &FleetConfig,
    router: &mut dyn Router,
    watch: Watch<'_>,
) -> Result<Option<Report>, FleetError> {
    config.validate()?;
    run::Fleet::new(workload, config, router)?.run(watch)
}

/// How many sessions a population of this workload would keep alive.
///
/// # Errors
/// As for [`simulate`].
pub fn population(workload: &Workload, config: &FleetConfig) -> Result<Option<u64>, FleetError> {
    config.validate()?;
    let Load::Population(people) = &config.load else {
        return Ok(None);
    };
    let capacity = config.engine.capacity_tokens();
    let people = source::Population::new(workload, people, capacity, config.workers, config.seed)?;
    Ok(Some(people.target() as u64))
}

/// Tokens of a block as the router of such a fleet sees prompts.
#[must_use]
pub fn block_tokens(model: &EngineModel) -> NonZeroU32 {
    let tokens = match model {
        EngineModel::DynamoPoly(config) => config.block_size,
        EngineModel::H100Class(config) => config.block_tokens,
    };
    NonZeroU32::new(tokens).unwrap_or(NonZeroU32::MIN)
}
