//! How long does this worker take to compute a context again?
//!
//! Fits `a × tokens + b × pairs` to the prefills that it has made, where pairs are prompt tokens times
//! the tokens before each: the linear part of a transformer and its attention. Older observations fade,
//! so a worker that becomes slower is found out after some dozens of refills. Until then the prior
//! stands: a 70B-class model on one node of H100s. Observed times are from go to first token, so what
//! else the worker had to do is in them; those that took longer than expected count little, since the
//! quick ones show what the work itself is. O(1); plain float arithmetic, equal on every machine.
use crate::Micros;

/// Microseconds a token, and a million pairs of tokens, before anything was observed.
const PRIOR: [f64; 2] = [15.0, 0.4];
/// How much the prior weighs: as much as so many refills of [`PRIOR_TOKENS`].
const PRIOR_WEIGHT: f64 = 2.0;
const PRIOR_TOKENS: [f64; 2] = [20_000.0, 100_000.0];
/// What an observation counts that took longer than expected.
const SLOW: f64 = 0.15;
/// What is left of an observation's weight after the next one.
const MEMORY: f64 = 0.96;

/// The learnt prefill time of one worker.
#[derive(Clone, Debug)]
pub(super) struct Refill {
    /// Weighted sums of x·x, x·y, y·y, x·t and y·t over tokens x, pairs y and times t.
    sums: [f64; 5],
    fit: [f64; 2],
}

impl Default for Refill {
    fn default() -> Self {
        let mut fresh = Self {
            sums: [0.0; 5],
            fit: PRIOR,
        };
        for tokens in PRIOR_TOKENS {
            let (x, y) = features(tokens, 0.0);
            fresh.add(x, y, PRIOR[0] * x + PRIOR[1] * y, PRIOR_WEIGHT);
        }
        fresh
    }
}

impl Refill {
    /// A prefill of `tokens` behind `before` cached ones took `time`.
    pub(super) fn observe(&mut self, tokens: u32, before: u32, time: Micros) {
        let (x, y) = features(f64::from(tokens), f64::from(before));
        let time = time.0 as f64;
        let is_slow = time > self.fit[0] * x + self.fit[1] * y;
        let weight = if is_slow { SLOW } else { 1.0 };
        for sum in &mut self.sums {
            *sum *= 1.0 - (1.0 - MEMORY) * weight;
        }
        self.add(x, y, time, weight);
        self.solve();
    }

    /// Time to compute a context of `tokens` from nothing.
    pub(super) fn time(&self, tokens: u32) -> Micros {
        let (x, y) = features(f64::from(tokens), 0.0);
        Micros((self.fit[0] * x + self.fit[1] * y) as u64)
    }

    fn add(&mut self, x: f64, y: f64, time: f64, weight: f64) {
        // Relative errors count alike, whatever the size of the prompt.
        let weight = weight / (x * x).max(1.0);
        let terms = [x * x, x * y, y * y, x * time, y * time];
        for (sum, term) in self.sums.iter_mut().zip(terms) {
            *sum += weight * term;
        }
    }

    /// The least squares with neither part below zero.
    fn solve(&mut self) {
        let [xx, xy, yy, xt, yt] = self.sums;
        let determinant = xx * yy - xy * xy;
        let both = [
            (yy * xt - xy * yt) / determinant,
            (xx * yt - xy * xt) / determinant,
        ];
        let is_sound = both.iter().all(|part| part.is_finite() && *part >= 0.0);
        self.fit = match is_sound {
            true => both,
            false if both[0] < 0.0 => [0.0, yt / yy],
            false => [xt / xx, 0.0],
        };
    }
}

/// Tokens, and millions of pairs.
fn features(tokens: f64, before: f64) -> (f64, f64) {
    (tokens, tokens * (before + tokens / 2.0) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_of(tokens: f64, a: f64, b: f64) -> Micros {
        let (x, y) = features(tokens, 0.0);
        Micros((a * x + b * y) as u64)
    }

    #[test]
    fn a_worker_is_known_by_what_it_has_done() {
        let mut refill = Refill::default();
        assert_eq!(refill.time(100_000), time_of(1e5, PRIOR[0], PRIOR[1]));
        for n in 0..600 {
            let tokens = 10_000 + n % 19 * 10_000;
            refill.observe(tokens, 0, time_of(f64::from(tokens), 30.0, 0.9));
        }
        for tokens in [20_000, 100_000, 200_000] {
            let (found, real) = (refill.time(tokens), time_of(f64::from(tokens), 30.0, 0.9));
            assert!(
                found.0.abs_diff(real.0) * 100 < real.0,
                "{found:?} {real:?}"
            );
        }
    }

    #[test]
    fn nonsense_leaves_times_finite_and_not_negative() {
        let mut refill = Refill::default();
        for time in [0, 0, u64::MAX, 1, 0] {
            refill.observe(u32::MAX, u32::MAX, Micros(time));
            refill.observe(0, 0, Micros(time));
            refill.observe(1, 0, Micros(0));
            assert!(
                refill
                    .fit
                    .iter()
                    .all(|part| part.is_finite() && *part >= 0.0)
            );
        }
    }
}
