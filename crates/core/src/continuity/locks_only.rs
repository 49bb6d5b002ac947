//! The base choice, unless the turn is locked.

use super::lock::Lock;
use super::policy::{Decision, Reason};
use super::question::Question;

pub(super) fn decide(question: &Question<'_>) -> Decision {
    match (question.lock, question.past.current) {
        (lock, Some(current)) if lock != Lock::Free => Decision::of(current, Reason::locked(lock)),
        _ => Decision::of(question.asked, Reason::Base),
    }
}
