//! The set-ups that published figures were measured with, so that ours can be put beside them.
//!
//! Each gives a [`FleetConfig`] to start from; which part of a trace is replayed with it is a
//! [`Selection`](warmpath_trace::Selection), named in the text. Every field may be changed.
use super::config::{EngineModel, FleetConfig, Load, PopulationConfig};
use crate::config::EngineConfig;
use crate::extents::ExtentConfig;

/// Tokens of a worker's cache in the published runs.
pub const PUBLISHED_CACHE_TOKENS: u32 = 1 << 20;

/// Turns at their recorded times, or later where what they wait for is, on engines of the published
/// timing model. For the Mooncake
/// conversation trace in blocks of 512 (or 64, or 16) tokens, and for the Claude Code sessions in
/// blocks of 64 with [`PUBLISHED_CACHE_TOKENS`] or a quarter of them; with the quarter a session that
/// outgrows one worker is left out (`largest_context`).
#[must_use]
pub fn published(workers: u32, block_tokens: u32, cache_tokens: u32) -> FleetConfig {
    FleetConfig {
        workers,
        engine: EngineModel::DynamoPoly(EngineConfig {
            block_size: block_tokens,
            num_gpu_blocks: cache_tokens / block_tokens.max(1),
            ..EngineConfig::default()
        }),
        load: Load::Recorded,
        ..FleetConfig::default()
    }
}

/// Four large engines under a constant number of live sessions whose contexts together are `pressure`
/// times the fleet's cache: 43, 87, 130, 174 and 261 of the Claude Code sessions at pressures of 0.5,
/// 1, 1.5, 2 and 3, read with their side chains kept (`SideChains::Kept`). Half an hour of warm-up, two hours measured.
#[must_use]
pub fn under_pressure(pressure: f64) -> FleetConfig {
    FleetConfig {
        workers: 4,
        engine: EngineModel::H100Class(ExtentConfig::default()),
        load: Load::Population(PopulationConfig {
            pressure,
            ..PopulationConfig::default()
        }),
        ..FleetConfig::default()
    }
}
