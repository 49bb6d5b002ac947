//! Which model answers: locks first, then what the session's past and the prices say.
//!
//! Order: the caller's base choice, hard locks, reset boundaries, economics. [`lock`] is the first half
//! and never asks a policy: what only its owner can continue goes to its owner. A turn that nothing
//! locks is a [`Question`], and a [`Policy`] answers it with a [`Decision`] that carries every term it
//! was made of, so that [`ModelNote::again`] can make it once more from the record alone.
//!
//! Rows of a question are the models that could take the turn, in the order of the alias. Money is US
//! dollars, quality a share in [0, 1]. No clock, no I/O; a decision costs O(rows).
mod base;
mod bill;
mod chooser;
mod constant;
mod course;
mod lock;
mod locks_only;
mod lookahead;
mod model;
mod note;
mod owners;
mod policy;
mod question;
mod saar;
mod single_turn;
mod snapshot;
mod sticky;

pub use base::{BaseRule, Traits};
pub use bill::Bill;
pub use chooser::{Ask, ContinuityConfig};
pub(crate) use chooser::{Base, Candidates, Chooser};
pub use course::Course;
pub use lock::{Breach, Choice, Fleet, Lock, LockNote, Presence, WhenDown};
pub(crate) use lock::{Evidence, Obeyed, choose_free, obey};
pub use lookahead::{Asked, LookaheadConfig, LookaheadTerms, MAX_MODELS, RouteId, Terms, Value};
pub use model::{Abilities, Grade, Model, Prices, Quality, Usd};
pub use note::ModelNote;
pub use owners::{IdKind, Owner, Owners};
pub use policy::{Decision, Policy, PolicyConfig, Reason, Weighed};
pub use question::{Boundary, Past, Question, Row};
pub use saar::{SaarConfig, SaarTerms};
pub(crate) use snapshot::OwnersImage;
