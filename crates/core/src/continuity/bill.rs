//! How a prompt is paid for: what of it counts as cached.
//!
//! A policy has to believe in the bill that it will get. The true one is a ledger of what each model's
//! cache holds. The published experiment has another: a share of every prompt counts as cached, by a
//! formula over the length of the history; to be held against its figures, a policy prices by it.

use super::model::{Grade, Model, Usd};
use super::saar::{self, Warmth};

/// What of a prompt counts as cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bill {
    /// What the model's cache has.
    #[default]
    Ledger,
    /// The published experiment's share.
    Published,
}

/// A prompt to be paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Billed {
    /// Tokens of the prompt.
    pub(super) tokens: f64,
    /// Of these, tokens that the model's cache has.
    pub(super) warm: f64,
    /// Tokens of the history.
    pub(super) history: f64,
    /// Whether the turn is in a loop of tools.
    pub(super) is_locked: bool,
    /// Whether the model is another one than before.
    pub(super) is_switched: bool,
}

impl Bill {
    /// Tokens of the prompt that count as cached.
    pub(super) fn cached(self, grade: Grade, billed: &Billed) -> f64 {
        match self {
            Self::Ledger => billed.warm.min(billed.tokens),
            Self::Published => {
                let warmth = Warmth {
                    history: billed.history,
                    is_tool: billed.is_locked,
                    is_state: false,
                    grade,
                    is_switched: billed.is_switched,
                };
                billed.tokens * saar::warmth(&warmth)
            }
        }
    }

    /// What the prompt costs; nothing where the prices are not known.
    pub(super) fn prompt(self, model: &Model, billed: &Billed) -> Usd {
        let Some(prices) = &model.prices else {
            return Usd::default();
        };
        let cached = self.cached(model.grade, billed);
        prices.prompt(cached, billed.tokens - cached)
    }
}
