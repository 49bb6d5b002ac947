//! The one door of the policies.

use super::lock::Lock;
use super::lookahead::{Lookahead, LookaheadConfig, LookaheadTerms};
use super::model::Grade;
use super::question::{Boundary, Question};
use super::saar::{SaarConfig, SaarTerms};
use super::{constant, locks_only, lookahead, saar, single_turn, sticky};
use crate::Result;

/// Which policy decides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PolicyConfig {
    /// The base choice, unless the turn is locked.
    LocksOnly,
    /// The first choice for ever.
    Sticky,
    /// Each turn for itself.
    SingleTurn,
    /// Always a model of this grade.
    Constant(Grade),
    /// The published session-aware policy.
    Saar(SaarConfig),
    /// The least expected price of this turn and those to come.
    Lookahead(LookaheadConfig),
    /// The session's model, else the first of the alias: no base choice is looked at.
    #[default]
    Bound,
}

/// Why a model answers. The codes are documented for users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// No policy was asked: one model, or nothing but the session's binding.
    #[default]
    Bound,
    /// The session has no model yet.
    First,
    /// A tool result goes back to who made the call.
    ToolLoop,
    /// Provider state goes back to who keeps it.
    ProviderState,
    /// The session was idle for longer than its cache lives.
    Idle,
    /// The caller says that the task is another one.
    Drift,
    /// A new conversation, or a compaction.
    NewConversation,
    /// The session's model cannot read the history any more.
    TooLong,
    /// The base choice is the session's model.
    BaseIsCurrent,
    /// The base choice is better by more than the switch costs.
    GainClearsCost,
    /// The base choice is better by less than the switch costs.
    CostBlocks,
    /// Sessions keep their model.
    Sticky,
    /// Always the same model.
    Constant,
    /// The base choice.
    Base,
    /// It has the least expected price.
    Cheapest,
    /// Another one has a lower expected price, but by less than the fee of a switch.
    WithinFee,
    /// The owner of its lock could not take it, and by setting it went elsewhere as it was.
    Escaped,
    /// The same, without what cannot travel.
    Stripped,
    /// Its model has failed it, or is down: another one answers for now.
    Detour,
    /// Its model takes nothing for a while: the session goes on with another one.
    Moved,
}

impl Reason {
    /// Every reason; each stands at its own number.
    pub const ALL: [Self; Self::Moved as usize + 1] = [
        Self::Bound,
        Self::First,
        Self::ToolLoop,
        Self::ProviderState,
        Self::Idle,
        Self::Drift,
        Self::NewConversation,
        Self::TooLong,
        Self::BaseIsCurrent,
        Self::GainClearsCost,
        Self::CostBlocks,
        Self::Sticky,
        Self::Constant,
        Self::Base,
        Self::Cheapest,
        Self::WithinFee,
        Self::Escaped,
        Self::Stripped,
        Self::Detour,
        Self::Moved,
    ];

    /// The code that users see.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::First => "first",
            Self::ToolLoop => "tool-loop",
            Self::ProviderState => "provider-state",
            Self::Idle => "idle",
            Self::Drift => "drift",
            Self::NewConversation => "new-conversation",
            Self::TooLong => "too-long",
            Self::BaseIsCurrent => "base-is-current",
            Self::GainClearsCost => "gain-clears-cost",
            Self::CostBlocks => "cost-blocks",
            Self::Sticky => "sticky",
            Self::Constant => "constant",
            Self::Base => "base",
            Self::Cheapest => "cheapest",
            Self::WithinFee => "within-fee",
            Self::Escaped => "escaped",
            Self::Stripped => "stripped",
            Self::Detour => "detour",
            Self::Moved => "moved",
        }
    }

    pub(super) const fn locked(lock: Lock) -> Self {
        match lock {
            Lock::ProviderState => Self::ProviderState,
            Lock::Free | Lock::ToolLoop | Lock::Both => Self::ToolLoop,
        }
    }

    pub(super) const fn reset(boundary: Boundary) -> Self {
        match boundary {
            Boundary::Idle => Self::Idle,
            Boundary::Drift => Self::Drift,
            Boundary::NewConversation => Self::NewConversation,
            Boundary::TooLong => Self::TooLong,
        }
    }
}

/// What a decision was made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Weighed {
    /// Nothing was weighed: a rule decided.
    #[default]
    Nothing,
    /// By `saar`.
    Saar(SaarTerms),
    /// By `lookahead`.
    Lookahead(LookaheadTerms),
}

/// Who answers, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The row.
    pub row: usize,
    /// Why.
    pub reason: Reason,
    /// What was weighed.
    pub weighed: Weighed,
}

impl Decision {
    pub(super) fn of(row: usize, reason: Reason) -> Self {
        Self {
            row,
            reason,
            weighed: Weighed::Nothing,
        }
    }
}

/// A decision made again by the policy of that setting. Where the policy has learnt, what it expected is
/// taken from `recorded`.
pub(super) fn recompute(
    config: PolicyConfig,
    question: &Question<'_>,
    recorded: &Decision,
) -> Decision {
    match (config, &recorded.weighed) {
        (PolicyConfig::Lookahead(config), Weighed::Lookahead(terms)) => {
            lookahead::again(&config, question, terms)
        }
        // A setting that was refused never made a decision.
        _ => Policy::new(config)
            .map_or_else(|_| recorded.clone(), |mut policy| policy.decide(question)),
    }
}

/// A policy with what it has learnt.
#[derive(Debug, Default)]
pub enum Policy {
    /// The session's model, else the first row.
    #[default]
    Bound,
    /// See [`PolicyConfig::LocksOnly`].
    LocksOnly,
    /// See [`PolicyConfig::Sticky`].
    Sticky,
    /// See [`PolicyConfig::SingleTurn`].
    SingleTurn,
    /// See [`PolicyConfig::Constant`].
    Constant(Grade),
    /// See [`PolicyConfig::Saar`].
    Saar(SaarConfig),
    /// See [`PolicyConfig::Lookahead`].
    Lookahead(Box<Lookahead>),
}

impl Policy {
    /// A policy that has learnt nothing yet.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the setting and what is allowed.
    pub fn new(config: PolicyConfig) -> Result<Self> {
        Ok(match config {
            PolicyConfig::Bound => Self::Bound,
            PolicyConfig::LocksOnly => Self::LocksOnly,
            PolicyConfig::Sticky => Self::Sticky,
            PolicyConfig::SingleTurn => Self::SingleTurn,
            PolicyConfig::Constant(grade) => Self::Constant(grade),
            PolicyConfig::Saar(config) => Self::Saar(config),
            PolicyConfig::Lookahead(config) => Self::Lookahead(Box::new(Lookahead::new(config)?)),
        })
    }

    /// Answers a question. Locks are obeyed unless the policy says that it does not; whoever must not
    /// break them asks only about free turns.
    pub fn decide(&mut self, question: &Question<'_>) -> Decision {
        match self {
            Self::Bound => Decision::of(question.past.current.unwrap_or(0), Reason::Bound),
            Self::LocksOnly => locks_only::decide(question),
            Self::Sticky => sticky::decide(question),
            Self::SingleTurn => single_turn::decide(question),
            Self::Constant(grade) => constant::decide(*grade, question),
            Self::Saar(config) => saar::decide(config, question),
            Self::Lookahead(lookahead) => lookahead.decide(question),
        }
    }

    /// What it learns from, where it learns.
    pub fn lookahead_mut(&mut self) -> Option<&mut Lookahead> {
        match self {
            Self::Lookahead(lookahead) => Some(lookahead),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn each_reason_stands_at_its_number() {
        for (number, reason) in (0..).zip(Reason::ALL) {
            assert_eq!(reason as u8, number);
        }
    }
}
