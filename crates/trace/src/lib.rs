//! Trace formats: what was asked of a fleet, read and written without content.
#![forbid(unsafe_code)]

mod blocks;
mod builder;
mod workload;

pub use builder::{NewStart, NewTurn, WorkloadBuilder, WorkloadError};
pub use workload::{Moment, Next, SessionInfo, Start, Turn, Wait, Waits, Workload};
