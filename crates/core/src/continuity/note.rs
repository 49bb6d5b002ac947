//! What a receipt keeps of a choice of model: the question, the answer, and what it was made of.

use smallvec::SmallVec;

use super::chooser::ContinuityConfig;
use super::policy::{Decision, PolicyConfig, recompute};
use super::question::{Boundary, Past, Question, Row};
use super::{Lock, RouteId};
use crate::id::TargetId;

/// One choice of model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelNote {
    /// Who decided.
    pub policy: PolicyConfig,
    /// The targets of the rows.
    pub targets: SmallVec<[TargetId; 4]>,
    /// The models that could take the turn.
    pub rows: SmallVec<[Row; 4]>,
    /// The row of the base choice.
    pub asked: usize,
    /// The place of the rule that made the base choice; `None` when none did.
    pub rule: Option<usize>,
    /// Where the past stopped to bind.
    pub boundary: Option<Boundary>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, tokens that were there before.
    pub history_tokens: u32,
    /// Whose counts were believed.
    pub route: RouteId,
    /// What the session had done.
    pub past: Past,
    /// Who answers.
    pub decision: Decision,
    /// Who would have, had the one that only watches decided.
    pub shadow: Option<(PolicyConfig, Decision)>,
}

impl ModelNote {
    pub(super) fn new(
        config: &ContinuityConfig,
        targets: &[TargetId],
        question: &Question<'_>,
        decision: Decision,
        shadow: Option<Decision>,
    ) -> Self {
        Self {
            policy: config.policy,
            targets: targets.into(),
            rows: question.rows.into(),
            asked: question.asked,
            rule: None,
            boundary: question.boundary,
            prompt_tokens: question.prompt_tokens,
            history_tokens: question.history_tokens,
            route: question.route,
            past: question.past,
            decision,
            shadow: config.shadow.zip(shadow),
        }
    }

    /// The target that answers.
    #[must_use]
    pub fn target(&self) -> TargetId {
        self.targets[self.decision.row]
    }

    /// Whether the session changes its model.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.past
            .current
            .is_some_and(|current| current != self.decision.row)
    }

    /// Whether the session came back after every cache had forgotten it.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.boundary == Some(Boundary::Idle)
    }

    /// The decision made again, from the note alone. What was expected of the turns to come is taken
    /// from the note; every other term is computed.
    #[must_use]
    pub fn again(&self) -> Decision {
        let question = Question {
            lock: Lock::Free,
            boundary: self.boundary,
            rows: &self.rows,
            asked: self.asked,
            prompt_tokens: self.prompt_tokens,
            history_tokens: self.history_tokens,
            route: self.route,
            past: self.past,
        };
        recompute(self.policy, &question, &self.decision)
    }
}
