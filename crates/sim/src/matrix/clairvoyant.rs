//! The best that could have been done by someone who knew every turn of a session, without an unsafe
//! switch.
//!
//! A dynamic program forward over a session: for each state of its caches the least price so far. With
//! the published bill that is the model alone; with the physical one it is the model and when each of
//! the others was used last, so O(turns³) a session.

use hashbrown::HashMap;
use warmpath_core::continuity::Model;

use super::generate::{Session, Turn};
use super::money::{Billing, SMALL};
use super::totals::Totals;

/// What is to be as low as possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Dollars, with every point of shortfall at so many.
    Shortfall(f64),
    /// Dollars, with every point that the best model would be better at so many.
    Quality(f64),
}

impl Objective {
    fn lacking(self, models: &[Model; 3], turn: &Turn, row: usize) -> f64 {
        let quality = models[row].quality.get();
        match self {
            Self::Shortfall(lambda) => {
                lambda * (models[turn.base.index()].quality.get() - quality).max(0.0)
            }
            Self::Quality(lambda) => {
                let best = models.iter().map(|m| m.quality.get()).fold(0.0, f64::max);
                lambda * (best - quality)
            }
        }
    }
}

/// The model and, of each, the turn after the one that used it last; 0 for a cold cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Caches {
    row: u8,
    used: [u16; 3],
}

/// The least price so far, and the way there.
#[derive(Clone, Debug)]
struct Best {
    price: f64,
    came_from: Caches,
}

impl Best {
    /// Ties have a rule, since the states of a turn come in no order.
    fn is_before(&self, other: &Self) -> bool {
        let key = |caches: &Caches| (caches.row, caches.used);
        let prices = self.price.total_cmp(&other.price);
        prices
            .then_with(|| key(&self.came_from).cmp(&key(&other.came_from)))
            .is_lt()
    }
}

/// The totals of the best answers to each session.
#[must_use]
pub fn clairvoyant(
    models: &[Model; 3],
    billing: Billing,
    objective: Objective,
    sessions: &[Session],
) -> Totals {
    let mut totals = Totals::default();
    for session in sessions {
        let rows = best_rows(models, billing, objective, &session.turns);
        let mut caches = Caches::fresh();
        for (at, (turn, &row)) in session.turns.iter().zip(&rows).enumerate() {
            caches = caches.before(turn);
            let before = usize::from(caches.row);
            let warm = caches.warm(row, &session.turns);
            let dollars = billing.dollars(&models[row], turn, row != before, warm);
            totals.count(turn, at, (&models[before], &models[row]), dollars);
            caches = caches.after(row, at, billing);
        }
    }
    totals
}

impl Caches {
    fn fresh() -> Self {
        Self {
            row: SMALL as u8,
            used: [0; 3],
        }
    }

    fn before(mut self, turn: &Turn) -> Self {
        if turn.is_idle {
            self.used = [0; 3];
        }
        self
    }

    fn after(mut self, row: usize, at: usize, billing: Billing) -> Self {
        self.row = row as u8;
        if billing == Billing::Physical {
            self.used[row] = at as u16 + 1;
        }
        self
    }

    fn warm(&self, row: usize, turns: &[Turn]) -> u32 {
        let last = usize::from(self.used[row]).checked_sub(1);
        last.map_or(0, |last| turns[last].prompt)
    }
}

fn best_rows(
    models: &[Model; 3],
    billing: Billing,
    objective: Objective,
    turns: &[Turn],
) -> Vec<usize> {
    let start = Best {
        price: 0.0,
        came_from: Caches::fresh(),
    };
    let mut layers = vec![HashMap::from([(Caches::fresh(), start)])];
    for (at, turn) in turns.iter().enumerate() {
        let mut next: HashMap<Caches, Best> = HashMap::new();
        for (&came_from, so_far) in &layers[at] {
            let caches = came_from.before(turn);
            let held = usize::from(caches.row);
            for row in (0..3).filter(|&row| row == held || !turn.phase.is_locked()) {
                let warm = caches.warm(row, turns);
                let dollars = billing.dollars(&models[row], turn, row != held, warm);
                let price = so_far.price + dollars + objective.lacking(models, turn, row);
                let best = Best { price, came_from };
                let reached = next.entry(caches.after(row, at, billing));
                let known = reached.or_insert_with(|| best.clone());
                if best.is_before(known) {
                    *known = best;
                }
            }
        }
        layers.push(next);
    }
    way_back(&layers)
}

/// The rows of the cheapest way. Ties go to the weaker model and the colder cache, whatever the order of
/// the map.
fn way_back(layers: &[HashMap<Caches, Best>]) -> Vec<usize> {
    let last = layers.last().into_iter().flatten();
    let key = |caches: &Caches| (caches.row, caches.used);
    let cheapest = last.min_by(|a, b| {
        let prices = a.1.price.total_cmp(&b.1.price);
        prices.then_with(|| key(a.0).cmp(&key(b.0)))
    });
    let mut rows = Vec::with_capacity(layers.len());
    let mut at = cheapest.map(|(&caches, _)| caches);
    for layer in layers[1..].iter().rev() {
        let Some(caches) = at else { break };
        rows.push(usize::from(caches.row));
        at = layer.get(&caches).map(|best| best.came_from);
    }
    rows.reverse();
    rows
}
