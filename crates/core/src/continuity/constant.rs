//! Always a model of the same grade: what every other policy has to beat.

use super::model::Grade;
use super::policy::{Decision, Reason};
use super::question::Question;

/// The first row of `grade`; the session's own model where there is none.
pub(super) fn decide(grade: Grade, question: &Question<'_>) -> Decision {
    let of_grade = |row: &super::Row| row.model.grade == grade;
    let row = question.rows.iter().position(of_grade);
    Decision::of(row.unwrap_or(question.current_or_asked()), Reason::Constant)
}
