//! Does any input, in any parts, with any seed, have the digests that `xxhash-rust` gives it?
//!
//! The first 8 bytes are the seed; then come a count of parts and two bytes for the length of each;
//! the rest is the input, repeated up to 16 times so that short cases reach long paths. Address
//! sanitising finds loads outside of it: every part is a heap allocation of exactly its length.
//!
//! `cargo +nightly fuzz run xxh3`
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmpath_xxh3::{Digest, Secret, hash_each, hash64};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

fuzz_target!(|data: &[u8]| {
    if let Some(case) = Case::read(data) {
        case.check();
    }
});

struct Case {
    seed: u64,
    parts: Vec<Box<[u8]>>,
}

impl Case {
    fn read(data: &[u8]) -> Option<Self> {
        let (seed, data) = data.split_first_chunk()?;
        let (&[count, times], data) = data.split_first_chunk()?;
        let (lengths, data) = data.split_at_checked(2 * usize::from(count % 32))?;
        let input = data.repeat(1 + usize::from(times % 16));
        let mut rest = input.as_slice();
        let mut parts = Vec::new();
        for &length in lengths.as_chunks().0 {
            let length = usize::from(u16::from_le_bytes(length)).min(rest.len());
            let (part, after) = rest.split_at(length);
            parts.push(part.into());
            rest = after;
        }
        parts.push(rest.into());
        let seed = u64::from_le_bytes(*seed);
        Some(Self { seed, parts })
    }

    fn check(&self) {
        let secret = Secret::of(self.seed);
        let (mut digest, mut whole) = (Digest::new(self.seed), Vec::new());
        let mut hashes = Vec::new();
        hash_each(self.parts.iter().map(|p| &**p), &secret, |hash| {
            hashes.push(hash)
        });
        assert_eq!(hashes.len(), self.parts.len());
        for (part, hash) in self.parts.iter().zip(hashes) {
            assert_eq!(hash, xxh3_64_with_seed(part, self.seed));
            assert_eq!(hash, hash64(part, &secret));
            digest.update(part);
            whole.extend_from_slice(part);
            assert_eq!(digest.digest(), xxh3_128_with_seed(&whole, self.seed));
        }
    }
}
