//! What the models of the experiment cost, and who is billed how.

use warmpath_core::continuity::{Grade, Model, Prices, Quality};

use super::generate::Turn;

/// Rows of the three models.
pub const SMALL: usize = 0;
/// See [`SMALL`].
pub const MIDDLE: usize = 1;
/// See [`SMALL`].
pub const FRONTIER: usize = 2;

/// How a turn is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billing {
    /// Nothing is ever cached: how the published experiment bills its baseline.
    Uncached,
    /// A share of the prompt counts as cached, by the published formula.
    Share,
    /// What the model's cache has.
    Physical,
}

/// Input, cached and output, $ per million tokens.
const PRICES: [[f64; 3]; 3] = [[0.05, 0.01, 0.10], [0.30, 0.06, 0.60], [8.00, 1.20, 24.00]];
const QUALITY: [f64; 3] = [0.64, 0.78, 0.94];

/// The published models; with `cached`, reads cost that share of the input, and writes that multiple.
#[must_use]
pub fn published_models(cached: Option<(f64, f64)>) -> [Model; 3] {
    let mut models = [Model::default(); 3];
    for (at, model) in models.iter_mut().enumerate() {
        let [input, read, output] = PRICES[at];
        let (read, write) = match cached {
            None => (read, input),
            Some((share, times)) => (share * input, times * input),
        };
        *model = Model {
            grade: Grade::ALL[at],
            quality: Quality::new(QUALITY[at]).unwrap_or_default(),
            prices: Prices::new(input, read, write, output).ok(),
            ..Model::default()
        };
    }
    models
}

/// The published share of cached tokens.
fn share(model: &Model, turn: &Turn, is_switched: bool) -> f64 {
    use super::generate::Phase;
    let mut share = (f64::from(turn.history) / 48_000.0).clamp(0.5, 0.72);
    if turn.phase == Phase::ToolLoop {
        share += 0.12;
    }
    if turn.phase == Phase::ProviderState {
        share += 0.08;
    }
    if model.grade == Grade::Large {
        share += 0.06;
    }
    if is_switched {
        share *= 0.2;
    }
    share.clamp(0.0, 0.85)
}

impl Billing {
    /// Prompt tokens that count as cached; `warm` is what the model's cache has.
    #[must_use]
    pub fn cached(self, model: &Model, turn: &Turn, is_switched: bool, warm: u32) -> u32 {
        match self {
            Self::Uncached => 0,
            Self::Share => (f64::from(turn.prompt) * share(model, turn, is_switched)) as u32,
            Self::Physical => warm.min(turn.prompt),
        }
    }

    /// Dollars, rounded to eight places as the published experiment does.
    #[must_use]
    pub fn dollars(self, model: &Model, turn: &Turn, is_switched: bool, warm: u32) -> f64 {
        let prices = model.prices.unwrap_or_default();
        let cached = self.cached(model, turn, is_switched, warm);
        let prompt = prices.prompt(f64::from(cached), f64::from(turn.prompt - cached));
        let exact = prompt + prices.answer(f64::from(turn.answer));
        (exact.0 * 1e8).round() / 1e8
    }
}
