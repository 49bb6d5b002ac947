//! Workloads and fleets for JS: traces in, figures out, away from the thread that JS runs on.
//!
//! It converts: options become those of the crates that read traces and simulate fleets, and what
//! comes back crosses as JSON text, byte for byte what Rust writes. No decision is made here, so work
//! in the background is no decision in the background.
#![allow(
    unreachable_pub,
    reason = "napi exports public functions; the module itself stays private"
)]
mod background;
mod convert;
mod run;
mod scenario;
mod shape;
mod turns;
mod verify;
mod workload;
