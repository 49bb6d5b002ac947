//! The published experiment on session-aware model choice, and fairer ones on the same ground.
//!
//! [`generate`] makes its sessions digit for digit and with [`Mutation`]s; [`play`] has a shipped policy
//! answer them and [`Totals`] are what is counted; [`clairvoyant`] is what nobody can beat who breaks no
//! lock. All deterministic: the same seeds give the same digits on any machine.
//!
//! Two bills. The published one counts a share of each prompt as cached, by a formula, and for the
//! baseline none at all; billed *like for like*, everybody gets the formula. The *physical* one is a
//! ledger: a model's cache has the last prompt that it answered, until the session is idle.
mod clairvoyant;
mod evidence;
mod generate;
mod money;
mod play;
mod scenario;
mod totals;

pub use clairvoyant::{Objective, clairvoyant};
pub(crate) use evidence::Goal;
pub use evidence::{EvidenceRow, evidence};
pub use generate::{Phase, Session, Turn, generate, trace_lines};
pub use money::{Billing, FRONTIER, MIDDLE, SMALL, published_models};
pub use play::{Plan, play};
pub use scenario::{Idleness, Mutation, SCENARIOS, SEEDS, SESSIONS, Scenario, TURNS};
pub use totals::{Totals, Unsafe};
