//! The base choice of the first turn, for as long as the session lives.

use super::policy::{Decision, Reason};
use super::question::Question;

pub(super) fn decide(question: &Question<'_>) -> Decision {
    match question.past.current {
        Some(current) if !question.is_first() => Decision::of(current, Reason::Sticky),
        _ => Decision::of(question.asked, Reason::First),
    }
}
