//! Which names can a run not have?
//!
//! A Bloom filter: two bytes a name, one word a question. Of the names that are not there it lets
//! through about one in a hundred. Names that go leave their bits behind, which costs a scan now and
//! then and no wrong answer.

/// Names to a word: with three bits each a quarter of the bits are set.
const NAMES_A_WORD: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Sieve {
    words: Box<[u64]>,
}

impl Sieve {
    /// Of uniform hashes, which need not be exactly so many. O(hashes).
    pub(super) fn new(count: usize, hashes: impl Iterator<Item = u64>) -> Self {
        let words = vec![0; count.div_ceil(NAMES_A_WORD).max(1)];
        let mut sieve = Self {
            words: words.into_boxed_slice(),
        };
        for hash in hashes {
            sieve.words[sieve.word_of(hash)] |= bits_of(hash);
        }
        sieve
    }

    /// False only for a hash that was not among them. O(1).
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let bits = bits_of(hash);
        self.words[self.word_of(hash)] & bits == bits
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// By the upper half of the hash, as an even share of all words.
    fn word_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.words.len() as u64) >> 32) as usize
    }
}

/// By the lowest bits of the hash.
fn bits_of(hash: u64) -> u64 {
    let bit = |from: u32| 1 << ((hash >> from) & 63);
    bit(0) | bit(6) | bit(12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::spread;

    #[test]
    fn what_is_in_it_passes_and_little_else() {
        for count in [0, 1, 7, 1_500] {
            let sieve = Sieve::new(count, (0..count as u64).map(spread));
            assert!((0..count as u64).all(|n| sieve.may_have(spread(n))));
            let others = (count as u64..).take(100_000);
            let passing = others.filter(|&n| sieve.may_have(spread(n))).count();
            assert!(passing < 3_000, "{passing} of {count}");
        }
    }
}
