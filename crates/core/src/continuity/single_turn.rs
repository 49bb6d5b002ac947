//! The base choice, whatever came before: each turn for itself.

use super::policy::{Decision, Reason};
use super::question::Question;

pub(super) fn decide(question: &Question<'_>) -> Decision {
    Decision::of(question.asked, Reason::Base)
}
