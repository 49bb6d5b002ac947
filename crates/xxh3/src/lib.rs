//! What is the XXH3 digest of these bytes, as fast as this machine can tell?
//!
//! A prompt is hashed block by block with one seed, and once more as a whole to see whether it
//! continues an earlier one. `xxhash-rust` picks its vector width when it is compiled, so a binary
//! that must run anywhere hashes with 128-bit vectors on machines that have twice that. This crate
//! asks the machine when it runs: inputs above [`SHORT`] bytes take 256-bit vectors where AVX2 is
//! there; everything else (short inputs, other machines) goes to `xxhash-rust` as before. Digests
//! are the same on every path.
//!
//! It is a crate of its own because vector instructions need `unsafe`, which the core forbids. All
//! of it is in `wide`: a load, a store, and the calls into code compiled for AVX2, which need a proof
//! that only the run-time check hands out.
//!
//! 1,541 blocks of 64 tokens, 256 bytes each, on a Zen 3 server of two cores, 2026-11-30, by
//! `cargo run --release -p warmpath-xxh3 --example ratios`, best of 400 rounds, ns a block:
//! | what | `xxhash-rust`, seed | its secret kept | here |
//! |---|---|---|---|
//! | hash | 26.4 | 16.4 | 7.4 by [`hash_each`], 7.9 by [`hash64`] |
//! | hash and chain step | 31.6 | 18.7 | 10.3 by either |
//! | digest of the whole | | 11.8 | 5.4 |
//!
//! So asking the machine for each block costs half a nanosecond, and nothing once something waits
//! for the hash.
//!
//! Against somebody who looks for collisions none of this protects.
use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

mod digest;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(not(target_arch = "x86_64"))]
#[path = "narrow.rs"]
mod wide;

pub use digest::Digest;
use wide::Avx2;

/// Up to so many bytes XXH3 takes the seed as it is, and a secret is of no use.
pub const SHORT: usize = 240;

/// A seed, and the 192 bytes that XXH3 derives from it for inputs above [`SHORT`] bytes. Deriving
/// costs about as much as hashing 256 bytes, so keep it for as long as the seed stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    seed: u64,
    bytes: [u8; 192],
}

impl Secret {
    /// The secret of a seed.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        let bytes = const_custom_default_secret(seed);
        Self { seed, bytes }
    }

    /// The seed that it is of.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }
}

/// XXH3-64 of `bytes` with the seed of `secret`. O(bytes). For many blocks [`hash_each`] is faster.
#[must_use]
#[inline]
pub fn hash64(bytes: &[u8], secret: &Secret) -> u64 {
    match bytes.len() {
        ..=SHORT => xxh3_64_with_seed(bytes, secret.seed),
        _ => match Avx2::detect() {
            Some(avx2) => avx2.hash64(bytes, secret),
            None => xxh3_64_with_secret(bytes, &secret.bytes),
        },
    }
}

/// Hands `out` the XXH3-64 of each block in turn, with the seed of `secret`. Blocks may have any
/// lengths. The machine is asked once for all of them, and `out` and the iterator are compiled into
/// the loop, so what `out` does with a hash overlaps with hashing the next block.
#[inline]
pub fn hash_each<'a>(
    blocks: impl IntoIterator<Item = &'a [u8]>,
    secret: &Secret,
    out: impl FnMut(u64),
) {
    hash_each_on(Avx2::detect(), blocks.into_iter(), secret, out);
}

#[inline]
fn hash_each_on<'a>(
    avx2: Option<Avx2>,
    blocks: impl Iterator<Item = &'a [u8]>,
    secret: &Secret,
    mut out: impl FnMut(u64),
) {
    match avx2 {
        Some(avx2) => avx2.hash_each(blocks, secret, out),
        None => {
            for block in blocks {
                out(match block.len() {
                    ..=SHORT => xxh3_64_with_seed(block, secret.seed),
                    _ => xxh3_64_with_secret(block, &secret.bytes),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
