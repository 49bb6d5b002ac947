//! What the turns to come are expected to cost, for each model that a session may be left with.
//!
//! A value iteration of [`HORIZON`] steps over 12 states x (the session's model, another one whose cache
//! is still warm). A locked turn keeps the model; a free one takes the cheapest, where a model that is
//! not warm is charged its whole prompt. Now and then a turn finds every cache cold. The prompt grows by
//! the same step each turn.
//!
//! O(horizon x states² x models²), some 50,000 multiplications for three models: far too much for a
//! turn, so tables are kept (see `cache`). It trusts that prices and shares are finite.

use super::super::bill::{Bill, Billed};
use super::super::model::Grade;
use super::super::question::Row;
use super::counts::Chances;
use super::state::{STATES, State};
use super::{LookaheadConfig, MAX_MODELS, shortfall};

/// Turns that are looked ahead.
const HORIZON: u32 = 24;
/// Turns that a model is away when it is come back to: about a loop of tools. Its cache beside what
/// they have added.
const AWAY: f64 = 4.0;

/// A session as the table sees it: round numbers, so that many share one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// Turns so far, this one included.
    pub(super) age: u32,
    /// Tokens of this prompt.
    pub(super) prompt: f64,
    /// Tokens by which it grows a turn.
    pub(super) step: f64,
    /// Tokens of a prompt that no history is in.
    pub(super) fresh: f64,
}

/// Expected prices in dollars.
#[derive(Clone, Debug)]
pub(super) struct Table {
    models: usize,
    /// By state, model and warm other.
    later: Vec<f64>,
    /// Turns expected to come.
    pub(super) turns: f64,
    /// Chance that the next turn is locked, by state.
    pub(super) lock_next: [f64; STATES],
}

impl Table {
    /// What the turns after one in `state` cost if `model` answers it, while `other` is warm too (itself
    /// when none is).
    pub(super) fn later(&self, state: State, model: usize, other: usize) -> f64 {
        self.later[(state.index() * self.models + model) * self.models + other]
    }

    /// How many numbers it holds.
    pub(super) fn values(&self) -> usize {
        self.later.len()
    }

    pub(super) fn new(
        config: &LookaheadConfig,
        chances: &Chances<'_>,
        rows: &[Row],
        outlook: &Outlook,
    ) -> Self {
        let models = rows.len().min(MAX_MODELS);
        let size = STATES * models * models;
        let mut iteration = Iteration {
            config,
            chances,
            rows: &rows[..models],
            value: vec![0.0; size],
            later: vec![0.0; size],
        };
        let mut turns = 0.0;
        for ahead in (1..=HORIZON).rev() {
            let survives = chances.survives(outlook.age + ahead - 1);
            turns = survives * (1.0 + turns);
            iteration.step(
                &Costs::new(config, &rows[..models], outlook, ahead),
                survives,
            );
        }
        let mut lock_next = [0.0; STATES];
        for state in State::all() {
            lock_next[state.index()] = chances.lock_next(state);
        }
        Self {
            models,
            later: iteration.later,
            turns,
            lock_next,
        }
    }
}

/// What the prompt of one turn costs in dollars, by model.
struct Costs {
    /// The session's own model, its cache as it was left: free, and in a loop of tools.
    stay: [[f64; 2]; MAX_MODELS],
    /// The same, but every cache is cold.
    idle: [[f64; 2]; MAX_MODELS],
    /// Another model that was left a while ago.
    back: [f64; MAX_MODELS],
    /// Any other model.
    switch: [f64; MAX_MODELS],
}

impl Costs {
    fn new(config: &LookaheadConfig, rows: &[Row], outlook: &Outlook, ahead: u32) -> Self {
        let tokens = outlook.prompt + f64::from(ahead) * outlook.step;
        let kept = tokens - outlook.step;
        let left = (tokens - AWAY * outlook.step).max(0.0);
        let mut costs = Self {
            stay: [[0.0; 2]; MAX_MODELS],
            idle: [[0.0; 2]; MAX_MODELS],
            back: [0.0; MAX_MODELS],
            switch: [0.0; MAX_MODELS],
        };
        for (at, Row { model, .. }) in rows.iter().enumerate() {
            let price = |warm: f64, is_locked: bool, is_switched: bool| {
                let billed = Billed {
                    tokens,
                    warm,
                    history: (tokens - outlook.fresh).max(0.0),
                    is_locked,
                    is_switched,
                };
                config.bill.prompt(model, &billed).0
            };
            costs.stay[at] = [price(kept, false, false), price(kept, true, false)];
            costs.idle[at] = [price(0.0, false, false), price(0.0, true, false)];
            costs.back[at] = price(left, false, true);
            costs.switch[at] = price(0.0, false, true);
        }
        if config.bill == Bill::Published {
            costs.idle = costs.stay;
        }
        costs
    }
}

/// One step of the iteration and its two buffers.
struct Iteration<'a> {
    config: &'a LookaheadConfig,
    chances: &'a Chances<'a>,
    rows: &'a [Row],
    /// What a turn in a state costs with all that follow, by the model that the session comes with.
    value: Vec<f64>,
    /// What follows a turn in a state, by the model that has answered it.
    later: Vec<f64>,
}

impl Iteration<'_> {
    fn step(&mut self, costs: &Costs, survives: f64) {
        let pairs = self.rows.len() * self.rows.len();
        for state in State::all() {
            self.turn(costs, state);
        }
        for (from, later) in self.later.chunks_exact_mut(pairs).enumerate() {
            later.fill(0.0);
            for (&chance, value) in self.chances.next[from]
                .iter()
                .zip(self.value.chunks_exact(pairs))
            {
                if chance > 0.0 {
                    let chance = chance * survives;
                    for (later, value) in later.iter_mut().zip(value) {
                        *later += chance * value;
                    }
                }
            }
        }
    }

    /// Fills in the values of one state.
    fn turn(&mut self, costs: &Costs, state: State) {
        let models = self.rows.len();
        let first = state.index() * models * models;
        let mut beside = [0.0; MAX_MODELS];
        let answer = self.chances.counts.mean_answer(asked(state));
        for (sum, row) in beside.iter_mut().zip(self.rows) {
            let answer = row
                .model
                .prices
                .map_or(0.0, |prices| prices.answer(answer).0);
            let lacking = shortfall(self.config.value, self.rows, asked(state), row);
            *sum = answer + self.config.lambda * lacking;
        }
        for model in 0..models {
            let idle = self.after_idleness(costs, state, model, &beside);
            for other in 0..models {
                let alive = self.alive(costs, state, (model, other), &beside);
                let cold = self.chances.cold;
                self.value[first + model * models + other] = cold * idle + (1.0 - cold) * alive;
            }
        }
    }

    fn follow(&self, state: State, model: usize, other: usize) -> f64 {
        let models = self.rows.len();
        self.later[(state.index() * models + model) * models + other]
    }

    fn alive(
        &self,
        costs: &Costs,
        state: State,
        (model, other): (usize, usize),
        beside: &[f64; MAX_MODELS],
    ) -> f64 {
        let locked = usize::from(state.is_locked());
        let stay = costs.stay[model][locked] + beside[model] + self.follow(state, model, other);
        if state.is_locked() {
            return stay;
        }
        let others = (0..self.rows.len()).filter(|&next| next != model);
        let prices = others.map(|next| {
            let price = if next == other {
                costs.back
            } else {
                costs.switch
            }[next];
            let kept = if next == other {
                model
            } else {
                self.dearer(model, other)
            };
            price + self.config.fee.0 + beside[next] + self.follow(state, next, kept)
        });
        prices.fold(stay, f64::min)
    }

    /// Of two warm models the one that it costs more to leave.
    fn dearer(&self, a: usize, b: usize) -> usize {
        match checkout(&self.rows[b]) > checkout(&self.rows[a]) {
            true => b,
            false => a,
        }
    }

    fn after_idleness(
        &self,
        costs: &Costs,
        state: State,
        model: usize,
        beside: &[f64; MAX_MODELS],
    ) -> f64 {
        let locked = usize::from(state.is_locked());
        let stay = costs.idle[model][locked] + beside[model] + self.follow(state, model, model);
        if state.is_locked() {
            return stay;
        }
        let others = (0..self.rows.len()).filter(|&next| next != model);
        let prices = others.map(|next| {
            costs.switch[next] + self.config.fee.0 + beside[next] + self.follow(state, next, next)
        });
        prices.fold(stay, f64::min)
    }
}

/// What it costs a million tokens to leave the model's cache, in dollars.
pub(super) fn checkout(row: &Row) -> f64 {
    row.model.prices.map_or(0.0, |prices| prices.checkout())
}

fn asked(state: State) -> Grade {
    Grade::ALL[state.grade()]
}
