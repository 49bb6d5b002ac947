//! The published session-aware policy, as its own experiment has it.
//!
//! Order: the first turn takes the base choice; tool loops and provider state stay; drift and idleness
//! take the base choice; else a switch must gain more quality than it costs, where the cost has no
//! unit:
//!
//! ```text
//! cost   = 0.05 + 0.20·mass·warmth·mult + 0.04·min(switches/8, 1)
//! mult   = 1 + 1.6·max(p(base), p(current)),  p(m) = (input − cached) / the largest of that
//! mass   = max(min(history/16000, 1), min(max(0, prior − turns)/8, 1))
//! warmth = max(0.5, min(0.72, history/48000)) + 0.12 tool + 0.08 state + 0.06 large, at most 0.85
//! ```
//! Each of the flags of [`SaarConfig`] takes one part of it away; [`SaarConfig::initial`] is the policy
//! as it was first published. Reproduced because users compare with it, faults included: outside of
//! resets it can only move up.

use super::lock::Lock;
use super::model::{Grade, Model};
use super::policy::{Decision, Reason, Weighed};
use super::question::{Boundary, Question};

/// Which parts of the policy are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaarConfig {
    /// A tool result stays with the session's model.
    pub tool_lock: bool,
    /// Provider state stays with the session's model.
    pub state_lock: bool,
    /// Drift takes the base choice.
    pub drift_reset: bool,
    /// Idleness takes the base choice.
    pub idle_reset: bool,
    /// Turns that a session is expected to have; `None` does not reckon with them.
    pub expected_turns: Option<u32>,
    /// Dear models make a switch dearer.
    pub price_pressure: bool,
}

impl Default for SaarConfig {
    fn default() -> Self {
        Self {
            tool_lock: true,
            state_lock: true,
            drift_reset: true,
            idle_reset: true,
            expected_turns: None,
            price_pressure: true,
        }
    }
}

impl SaarConfig {
    /// The policy as it was first published: no lock for provider state, no reset by drift.
    #[must_use]
    pub fn initial() -> Self {
        Self {
            state_lock: false,
            drift_reset: false,
            ..Self::default()
        }
    }
}

/// What decided a turn that no lock and no reset did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SaarTerms {
    /// Quality of the base choice less that of the session's model.
    pub gain: f64,
    /// What that must exceed; no unit.
    pub cost: f64,
    /// How much of the session is believed to be still to come, in [0, 1].
    pub mass: f64,
    /// How much of the prompt is believed to be cached, in [0, 0.85].
    pub warmth: f64,
    /// How dear the models are, in [1, 2.6].
    pub multiplier: f64,
}

/// What the published share of cached tokens depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warmth {
    pub(super) history: f64,
    pub(super) is_tool: bool,
    pub(super) is_state: bool,
    pub(super) grade: Grade,
    pub(super) is_switched: bool,
}

/// The published share of cached tokens, in [0, 0.85].
pub(super) fn warmth(of: &Warmth) -> f64 {
    let mut share = (of.history / 48_000.0).clamp(0.5, 0.72);
    if of.is_tool {
        share += 0.12;
    }
    if of.is_state {
        share += 0.08;
    }
    if of.grade == Grade::Large {
        share += 0.06;
    }
    if of.is_switched {
        share *= 0.2;
    }
    share.clamp(0.0, 0.85)
}

pub(super) fn decide(config: &SaarConfig, question: &Question<'_>) -> Decision {
    let asked = question.asked;
    let current = match question.past.current {
        Some(current) if !question.is_first() => current,
        _ => return Decision::of(asked, Reason::First),
    };
    if let Some(reason) = locked(config, question.lock) {
        return Decision::of(current, reason);
    }
    if let Some(boundary) = question.boundary.filter(|&b| config.resets_at(b)) {
        return Decision::of(asked, Reason::reset(boundary));
    }
    if asked == current {
        return Decision::of(current, Reason::BaseIsCurrent);
    }
    let terms = weigh(config, question, current);
    let (row, reason) = match terms.gain > terms.cost {
        true => (asked, Reason::GainClearsCost),
        false => (current, Reason::CostBlocks),
    };
    Decision {
        row,
        reason,
        weighed: Weighed::Saar(terms),
    }
}

fn locked(config: &SaarConfig, lock: Lock) -> Option<Reason> {
    let is_tool = matches!(lock, Lock::ToolLoop | Lock::Both);
    let is_state = matches!(lock, Lock::ProviderState | Lock::Both);
    match (is_tool && config.tool_lock, is_state && config.state_lock) {
        (true, _) => Some(Reason::ToolLoop),
        (false, true) => Some(Reason::ProviderState),
        (false, false) => None,
    }
}

impl SaarConfig {
    fn resets_at(&self, boundary: Boundary) -> bool {
        match boundary {
            Boundary::Idle => self.idle_reset,
            Boundary::Drift => self.drift_reset,
            Boundary::NewConversation | Boundary::TooLong => true,
        }
    }
}

fn weigh(config: &SaarConfig, question: &Question<'_>, current: usize) -> SaarTerms {
    let (base, held) = (question.asked_model(), &question.rows[current].model);
    let history = f64::from(question.history_tokens);
    let warmth = warmth(&Warmth {
        history,
        is_tool: matches!(question.lock, Lock::ToolLoop | Lock::Both),
        is_state: matches!(question.lock, Lock::ProviderState | Lock::Both),
        grade: held.grade,
        is_switched: false,
    });
    let expected = config.expected_turns.unwrap_or(0);
    let left = f64::from(expected.saturating_sub(question.past.turns));
    let mass = (history / 16_000.0).min(1.0).max((left / 8.0).min(1.0));
    let multiplier = match config.price_pressure {
        true => 1.0 + 1.6 * pressure(question, base).max(pressure(question, held)),
        false => 1.0,
    };
    let switches = (f64::from(question.past.switches) / 8.0).min(1.0);
    SaarTerms {
        gain: base.quality.get() - held.quality.get(),
        cost: 0.05 + 0.20 * mass * warmth * multiplier + 0.04 * switches,
        mass,
        warmth,
        multiplier,
    }
}

/// How dear it is to leave the model's cache, against the dearest of the rows; in [0, 1].
fn pressure(question: &Question<'_>, model: &Model) -> f64 {
    let checkout = |model: &Model| {
        let prices = model.prices.unwrap_or_default();
        (prices.input() - prices.cached()).max(0.0)
    };
    let rows = question.rows.iter();
    let most = rows.map(|row| checkout(&row.model)).fold(0.0, f64::max);
    match most > 0.0 {
        true => checkout(model) / most,
        false => 0.0,
    }
}
