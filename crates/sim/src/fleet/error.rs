//! What cannot be simulated, and why.
//!
//! One opaque error: a caller can show it and change the setting that it names.
use std::fmt;

use crate::config::ConfigError;

/// A setting that cannot be simulated; the text names it and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetError(String);

impl FleetError {
    pub(crate) fn new(detail: impl Into<String>) -> Self {
        Self(detail.into())
    }

    pub(crate) fn block_size(engine: u32, workload: u32) -> Self {
        Self(format!(
            "the engine's blocks of {engine} tokens do not fit the workload's of {workload}: one must \
             be a multiple of the other"
        ))
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FleetError {}

impl From<ConfigError> for FleetError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}
