//! What does a block of a slower tier cost, beside one that is computed?
//!
//! The share of the time of computing it, from turns that found more there than they had to compute: what
//! they took beyond that work. What is configured weighs like eight such turns, so few change little. O(1).

/// What the configured credit weighs, in turns.
const PRIOR: f64 = 8.0;
/// What is left of a turn's weight after the next one.
const MEMORY: f64 = 31.0 / 32.0;
/// Tokens that cost more than twice their computing were not there, or waited for something else.
const MOST: f64 = 2.0;

/// What was learnt of one tier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetch {
    turns: f64,
    shares: f64,
}

impl Fetch {
    /// Tokens came back in `share` of the time that computing them would have taken.
    pub(super) fn observe(&mut self, share: f64) {
        if share.is_nan() {
            return;
        }
        self.turns = self.turns * MEMORY + 1.0;
        self.shares = self.shares * MEMORY + share.clamp(0.0, MOST);
    }

    /// The credit of a block there, where `configured` is what it has without learning: in [0, 1], to
    /// the hundredth once something was learnt.
    pub(super) fn credit(&self, configured: f64) -> f64 {
        if self.turns == 0.0 {
            return configured;
        }
        let share = (PRIOR * (1.0 - configured) + self.shares) / (PRIOR + self.turns);
        libm::round(100.0 * (1.0 - share).clamp(0.0, 1.0)) / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_goes_from_what_is_configured_to_what_is_seen() {
        let mut fetch = Fetch::default();
        assert_eq!(fetch.credit(0.75), 0.75);
        fetch.observe(0.9);
        assert_eq!(fetch.credit(0.75), 0.68);
        for _ in 0..200 {
            fetch.observe(0.9);
        }
        assert_eq!(fetch.credit(0.75), 0.23);
        for share in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 1e9] {
            fetch.observe(share);
            assert!((0.0..=1.0).contains(&fetch.credit(0.25)));
        }
    }
}
