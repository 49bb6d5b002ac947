//! Seeded numbers for workloads, faults and patience: the same seed gives the same list anywhere.
//!
//! SplitMix64: one multiplication-free state step and a mix. It is no cryptography; it only has to be
//! even and to differ between streams, so every use draws from a stream of its own ([`Random::fork`])
//! and one more draw in one place moves nothing elsewhere. O(1) a draw.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads every input bit over the whole word.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: mix(seed.wrapping_add(STEP)),
        }
    }

    /// A stream that shares nothing with this one but the seed.
    pub(crate) fn fork(seed: u64, stream: u64) -> Self {
        Self::new(mix(seed) ^ stream.wrapping_mul(STEP))
    }

    /// Any 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// In [0, 1), with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In [0, n); 0 when `n` is 0. Even to 1 in 2^64 / n.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// With this mean, exponentially spread.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }

    /// Log-normal with this median; `sigma` is the spread of the logarithm.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log1p(-self.unit()));
        let normal = radius * libm::cos(std::f64::consts::TAU * self.unit());
        median * libm::exp(sigma * normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_streams_differ() {
        let mut random = Random::new(7);
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let mean = (0..10_000).map(|_| random.exponential(3.0)).sum::<f64>() / 10_000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        assert_eq!(random.below(0), 0);
        assert!((0..100).all(|_| random.below(3) < 3));
        assert_ne!(Random::fork(7, 1).next(), Random::fork(7, 2).next());
        assert_eq!(Random::fork(7, 1).next(), Random::fork(7, 1).next());
    }
}
