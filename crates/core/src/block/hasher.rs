//! How is one block hashed with a seed?
//!
//! XXH3-64 turns the seed of an input above [`SHORT`] bytes into a secret of 192 bytes, each time
//! anew, which costs as much as hashing a block of 64 tokens does. Here it is derived once for all
//! blocks of a prompt; the digests are those of the seeded function for every length.
use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

use super::{PLAIN, Seed};

type Secret = [u8; 192];

const PLAIN_SECRET: Secret = const_custom_default_secret(PLAIN);

/// Up to here XXH3 takes the seed as it is and no secret.
const SHORT: usize = 240;

/// XXH3-64 with one seed.
pub(super) struct BlockHasher {
    seed: u64,
    secret: Secret,
}

impl BlockHasher {
    pub(super) fn new(seed: Seed) -> Self {
        let secret = match seed.get() {
            PLAIN => PLAIN_SECRET,
            other => const_custom_default_secret(other),
        };
        let seed = seed.get();
        Self { seed, secret }
    }

    #[inline]
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        match bytes.len() <= SHORT {
            true => xxh3_64_with_seed(bytes, self.seed),
            false => xxh3_64_with_secret(bytes, &self.secret),
        }
    }
}

#[cfg(test)]
mod tests {
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
