//! What explains the times of turns: so much for each unit of three measures of their work.
//!
//! Least squares over what was observed, none of the parts below zero, found by descent along one part
//! after the other from where the last one ended. Older observations fade. O(1), plain float arithmetic,
//! equal on every machine; whatever comes in, parts stay finite.

/// How many measures a work has.
const MEASURES: usize = 3;
/// What is left of an observation's weight in a fit after the next one.
const FIT_MEMORY: f64 = 0.995;
/// Rounds of the descent for one observation: it goes on with the next one.
const ROUNDS: usize = 2;
/// What is left of an observation's weight in a sum after the next one of full weight.
const SUM_MEMORY: f64 = 63.0 / 64.0;

/// A work by its measures, each at least 0.
pub(super) type Work = [f64; MEASURES];

/// The time that a unit of each measure takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    gram: [Work; MEASURES],
    times: Work,
    parts: Work,
}

impl Fit {
    /// A work took `time`; counts by `weight`.
    pub(super) fn observe(&mut self, work: &Work, time: f64, weight: f64) {
        for (row, &one) in self.gram.iter_mut().zip(work) {
            for (sum, &other) in row.iter_mut().zip(work) {
                *sum = *sum * FIT_MEMORY + weight * one * other;
            }
        }
        for (sum, &one) in self.times.iter_mut().zip(work) {
            *sum = *sum * FIT_MEMORY + weight * one * time;
        }
        for at in (0..ROUNDS).flat_map(|_| 0..MEASURES) {
            let own = self.gram[at][at];
            let others = dot(&self.gram[at], &self.parts) - own * self.parts[at];
            let part = (self.times[at] - others) / own;
            if part.is_finite() {
                self.parts[at] = part.max(0.0);
            }
        }
    }

    /// The time of a work, or of a sum of works.
    pub(super) fn time(&self, work: &Work) -> f64 {
        dot(&self.parts, work)
    }
}

fn dot(a: &Work, b: &Work) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Sums over the last works, older ones faded, each by its weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) count: f64,
    pub(super) time: f64,
    pub(super) work: Work,
}

impl Sums {
    /// Adds a work that took `time`. It counts as `share` of an observation, in [0, 1], and its amounts
    /// by `weight`.
    pub(super) fn add(&mut self, work: &Work, time: f64, weight: f64, share: f64) {
        let kept = 1.0 - (1.0 - SUM_MEMORY) * share;
        self.count = self.count * kept + share;
        self.time = self.time * kept + share * weight * time;
        for (sum, &measure) in self.work.iter_mut().zip(work) {
            *sum = *sum * kept + share * weight * measure;
        }
    }

    /// Takes in the sums of others, as `share` of them.
    pub(super) fn join(&mut self, other: &Self, share: f64) {
        self.count += share * other.count;
        self.time += share * other.time;
        for (sum, &measure) in self.work.iter_mut().zip(&other.work) {
            *sum += share * measure;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found_and_never_fall_below_zero() {
        let mut fit = Fit::default();
        let works = |n: u32| {
            let tokens = f64::from(100 + n * 7_919 % 50_000);
            [tokens, 1.0, tokens * f64::from(n % 13) / 100.0]
        };
        for n in 0..3_000 {
            let work = works(n);
            let time = 12.0 * work[0] + 16_000.0 * work[1] + 0.5 * work[2];
            fit.observe(&work, time, 1.0 / (work[0] * work[0]));
        }
        for n in [3, 400, 5_000] {
            let work = works(n);
            let time = 12.0 * work[0] + 16_000.0 * work[1] + 0.5 * work[2];
            let found = fit.time(&work);
            assert!((found / time - 1.0).abs() < 0.05, "{found} for {time}");
        }
        // The more, the sooner: no part explains that.
        let mut odd = Fit::default();
        for n in 1..200 {
            let tokens = f64::from(n) * 100.0;
            odd.observe(&[tokens, 1.0, 0.0], 1e6 - tokens, 1.0);
        }
        assert!(odd.parts.iter().all(|part| *part >= 0.0), "{odd:?}");
    }

    #[test]
    fn nonsense_leaves_parts_finite() {
        let mut fit = Fit::default();
        let huge = f64::from(u32::MAX);
        for time in [0.0, 1.8e19, 0.0, 5.0] {
            for work in [[0.0; 3], [huge, 1.0, huge * huge], [1.0, 0.0, 0.0]] {
                fit.observe(&work, time, 1.0);
                assert!(fit.parts.iter().all(|p| p.is_finite() && *p >= 0.0));
            }
        }
    }
}
