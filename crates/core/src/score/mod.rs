//! What a turn would cost on each worker: who may be asked, one file per cost, and how to choose
//! among costs.
mod eligible;
pub mod kv;
pub mod pace;
pub mod patience;
pub mod softmax;
mod ties;

pub use eligible::{Eligibility, LabelId};
pub use ties::TieBreaker;
