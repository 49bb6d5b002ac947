//! Which of several equally good workers?
//!
//! At random, so that equals share the load, and from a seed, so that the same events give the same
//! decisions. SplitMix64: one addition and three multiplications a draw, no bad seeds. Not for
//! secrets.

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub struct TieBreaker {
    state: u64,
}

impl TieBreaker {
    /// A source of its own for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in [0, 1), uniform in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index below `len`; zero when there is none. The bias is below `len` / 2^64.
    pub fn below(&mut self, len: usize) -> usize {
        let wide = u128::from(self.next_u64()) * len as u128;
        (wide >> 64) as usize
    }

    /// One of the cheapest: its index in `costs`, each of the equally cheap ones as likely as the
    /// others. Absent when there is no cost that is a number. One pass; draws only when there is a tie.
    pub fn cheapest(&mut self, costs: impl Iterator<Item = f64>) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        let mut equals = 1;
        for (i, cost) in costs.enumerate().filter(|(_, c)| !c.is_nan()) {
            match best {
                Some((_, least)) if cost > least => {}
                Some((_, least)) if cost == least => {
                    equals += 1;
                    if self.below(equals) == 0 {
                        best = Some((i, cost));
                    }
                }
                _ => {
                    best = Some((i, cost));
                    equals = 1;
                }
            }
        }
        best.map(|(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::TieBreaker;

    #[test]
    fn equals_are_chosen_equally_often_and_only_equals() {
        let mut ties = TieBreaker::new(7);
        let costs = [5.0, 2.0, f64::NAN, 2.0, 3.0, 2.0];
        let mut chosen = [0_u32; 6];
        for _ in 0..30_000 {
            chosen[ties.cheapest(costs.into_iter()).unwrap()] += 1;
        }
        assert_eq!((chosen[0], chosen[2], chosen[4]), (0, 0, 0));
        for i in [1, 3, 5] {
            assert!((9_500..10_500).contains(&chosen[i]), "{chosen:?}");
        }
    }

    #[test]
    fn a_seed_is_a_sequence_and_no_tie_draws_nothing() {
        let (mut a, mut b) = (TieBreaker::new(3), TieBreaker::new(3));
        assert_eq!(a.cheapest([2.0, 1.0].into_iter()), Some(1));
        assert_eq!(a.next_u64(), b.next_u64());
        assert_eq!(a.cheapest(std::iter::empty()), None);
        assert_eq!(a.cheapest([f64::NAN].into_iter()), None);
        assert!((0.0..1.0).contains(&a.unit()));
    }

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut ties = TieBreaker::new(1_234_567);
        let drawn: Vec<_> = (0..3).map(|_| ties.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }
}
