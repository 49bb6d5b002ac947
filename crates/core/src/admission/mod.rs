//! Go or hold: one door, one file per policy.
pub mod thunderagent;
