//! The decisions of Warmpath: where the next turn of an agent session runs, and why.
//!
//! A deterministic state machine. Events and a time come in, decisions go out; there is no clock,
//! no I/O, no thread and no global state. The same list of calls gives the same list of answers on
//! any machine, which is what makes replay, simulation and property tests the same thing.
//!
//! Each module is a room with one question: `block` (what are the blocks of this prompt), `prefix`
//! (who has them), `session` (whose turn is it), `load` (what is in flight), `score` (what would it
//! cost there), `affinity` (where does a session stay), `admission` (go or hold), `continuity` (which
//! target may answer), `hint` (what an engine may be told), `receipt` (why), `snapshot` (what outlives a
//! restart). `rendering` remembers what tokens engines made of texts. `event` has the words
//! for what engines' caches tell; `scheduler` composes them and is the only door a caller needs.
#![forbid(unsafe_code)]

pub mod admission;
pub mod affinity;
pub mod block;
pub mod continuity;
mod error;
pub mod event;
pub mod hint;
mod id;
pub mod load;
pub mod pool;
pub mod prefix;
pub mod receipt;
mod rendering;
pub mod scheduler;
pub mod score;
pub mod session;
pub mod snapshot;
mod table;

pub use error::{Error, Result};
pub use id::{GroupId, Micros, PlaceId, ProgramId, ReservationId, TargetId, WorkerId};
