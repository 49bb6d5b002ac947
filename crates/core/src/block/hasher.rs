//! How is one block hashed with a seed?
//!
//! XXH3-64 turns the seed of an input above 240 bytes into a secret of 192 bytes, each time anew,
//! which costs as much as hashing a block of 64 tokens does. Here it is derived once for all blocks
//! of a prompt; the digests are those of the seeded function for every length.
use warmpath_xxh3::{Secret, hash64};

use super::{PLAIN, Seed};

static PLAIN_SECRET: Secret = Secret::of(PLAIN);

/// XXH3-64 with one seed.
pub(super) struct BlockHasher {
    secret: Secret,
}

impl BlockHasher {
    pub(super) fn new(seed: Seed) -> Self {
        let secret = match seed.get() {
            PLAIN => PLAIN_SECRET.clone(),
            other => Secret::of(other),
        };
        Self { secret }
    }

    #[inline]
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        hash64(bytes, &self.secret)
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;

    #[test]
    fn digests_are_those_of_the_seeded_function_for_every_length() {
        let text: Vec<u8> = (0..5_000_u32).map(|i| (i * i % 251) as u8).collect();
        for seed in [0, 1, PLAIN, 0x8000_0000_0000_0000, u64::MAX] {
            let hasher = BlockHasher::new(Seed::new(seed));
            for length in (0..1_100).chain([2_048, 2_049, 4_095, 5_000]) {
                let bytes = &text[..length];
                assert_eq!(hasher.hash(bytes), xxh3_64_with_seed(bytes, seed));
            }
        }
    }
}
