//! Inference engines on a virtual clock, alone or as a fleet behind a router.
//!
//! [`Engine`] is one engine with a block cache: continuous batching, chunked prefill, prefix reuse with
//! LRU eviction, and pre-emption, with the cost of a pass as the only source of time. It answers when
//! each token of each request appears and how much of its prompt was reused. [`fleet`] runs many
//! engines under a whole workload and reports how its sessions fared; [`router`] is who may decide
//! there: the usual load balancers, or the shipped core behind its public door.
//!
//! Nothing here knows HTTP or text, nothing of a policy is decided here, and nothing random happens
//! without a seed: the same calls give the same events on any machine. An engine trusts its caller to
//! submit in the order in which simultaneous requests should be served.
//!
//! ```
//! use warmpath_sim::{Engine, EngineConfig, Request};
//!
//! let mut engine = Engine::new(EngineConfig::default())?;
//! let block_size = engine.config().block_size;
//! engine.submit(0, Request::new(1, &[7; 1000], &[1, 2, 3], block_size)?)?;
//! let mut events = Vec::new();
//! engine.advance(1_000_000_000, &mut events);
//! assert_eq!(engine.stats().ended, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod adversary;
mod config;
mod engine;
mod event;
mod extents;
pub mod fleet;
mod histogram;
pub mod matrix;
mod pass;
mod pool;
pub mod pressure;
mod random;
mod request;
pub mod router;
mod sequence;
mod shelf;
mod store;
mod streak;
mod tier;

pub use config::{ConfigError, EngineConfig, Preemption, Prefill, Reuse, Timing};
pub use engine::{Engine, EngineStats};
pub use event::{End, EngineEvent, EventKind, Nanos};
pub use extents::{Eviction, ExtentConfig, PrefillOrder, StepCost};
pub use request::{Request, RequestError};
pub use store::{Store, StoreChange};
pub use tier::HostTier;
