//! Every path against `xxhash-rust`, which is checked against the reference by its own authors.
use proptest::prelude::*;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128, xxh3_128_with_seed};

use super::*;

const SEEDS: [u64; 5] = [0, 1, 1337, 1 << 63, u64::MAX];

/// Bytes without a pattern that a shifted read could meet again.
fn noise(length: usize, mut state: u64) -> Vec<u8> {
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The paths that this machine has.
fn paths() -> Vec<Option<Avx2>> {
    let wide = Avx2::detect();
    match wide {
        Some(_) => vec![None, wide],
        None => vec![None],
    }
}

fn hashes(path: Option<Avx2>, blocks: &[&[u8]], secret: &Secret) -> Vec<u64> {
    let mut hashes = Vec::new();
    hash_each_on(path, blocks.iter().copied(), secret, |hash| {
        hashes.push(hash)
    });
    hashes
}

fn digest(path: Option<Avx2>, seed: u64, parts: &[&[u8]]) -> u128 {
    let mut digest = Digest::on(path, seed);
    parts.iter().for_each(|part| digest.update(part));
    digest.digest()
}

#[test]
fn this_machine_takes_the_wide_path_when_it_has_avx2() {
    #[cfg(target_arch = "x86_64")]
    assert_eq!(
        Avx2::detect().is_some(),
        std::is_x86_feature_detected!("avx2")
    );
    #[cfg(not(target_arch = "x86_64"))]
    assert!(Avx2::detect().is_none());
}

#[test]
fn blocks_of_every_length_have_the_seeded_hash() {
    let bytes = noise(2_100, 7);
    let blocks: Vec<&[u8]> = (0..=bytes.len()).map(|n| &bytes[..n]).collect();
    for seed in SEEDS {
        let secret = Secret::of(seed);
        let expected: Vec<u64> = blocks.iter().map(|b| xxh3_64_with_seed(b, seed)).collect();
        for path in paths() {
            assert_eq!(hashes(path, &blocks, &secret), expected, "seed {seed}");
        }
        let single: Vec<u64> = blocks.iter().map(|b| hash64(b, &secret)).collect();
        assert_eq!(single, expected, "seed {seed}");
    }
}

#[test]
fn each_length_has_the_digest_of_the_whole_at_once_and_byte_by_byte() {
    let bytes = noise(2_100, 11);
    for (path, seed) in paths().into_iter().zip(SEEDS.into_iter().cycle()) {
        let mut growing = Digest::on(path, seed);
        assert_eq!(growing.digest(), xxh3_128_with_seed(&[], seed));
        for n in 1..=bytes.len() {
            let expected = xxh3_128_with_seed(&bytes[..n], seed);
            growing.update(&bytes[n - 1..n]);
            assert_eq!(growing.digest(), expected, "{n} bytes, one by one");
            assert_eq!(digest(path, seed, &[&bytes[..n]]), expected, "{n} bytes");
        }
    }
}

#[test]
fn an_input_in_two_parts_has_the_digest_of_the_whole_wherever_it_is_cut() {
    // Around all that is counted: 64 a stripe, 240 short, 256 waiting, 1,024 a block.
    for length in [
        240, 241, 256, 257, 320, 321, 1_024, 1_025, 1_088, 1_089, 2_048, 2_049,
    ] {
        let bytes = noise(length, length as u64);
        let expected = xxh3_128(&bytes);
        for path in paths() {
            for cut in 0..=length {
                let (head, tail) = bytes.split_at(cut);
                assert_eq!(
                    digest(path, 0, &[head, tail]),
                    expected,
                    "{cut} of {length}"
                );
            }
        }
    }
}

#[test]
fn the_default_digest_is_the_plain_function() {
    let bytes = noise(5_000, 3);
    let mut digest = Digest::default();
    digest.update(&bytes);
    assert_eq!(digest.digest(), xxh3_128(&bytes));
}

#[test]
fn a_secret_knows_its_seed() {
    assert_eq!(Secret::of(77).seed(), 77);
    assert_ne!(Secret::of(77), Secret::of(78));
}

/// A length in one of the classes that XXH3 tells apart, or anything up to 100 KB.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..300_usize,
        900..1_200_usize,
        0..4_200_usize,
        0..100_000_usize
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn long_blocks_have_the_seeded_hash(
        lengths in prop::collection::vec(lengths(), 1..4),
        seed: u64,
        filling: u64,
    ) {
        let bytes = noise(100_000, filling);
        let blocks: Vec<&[u8]> = lengths.iter().map(|&n| &bytes[100_000 - n..]).collect();
        let expected: Vec<u64> = blocks.iter().map(|b| xxh3_64_with_seed(b, seed)).collect();
        let secret = Secret::of(seed);
        for path in paths() {
            prop_assert_eq!(&hashes(path, &blocks, &secret), &expected);
        }
    }

    #[test]
    fn an_input_in_any_parts_has_the_digest_of_the_whole_at_each_point(
        lengths in prop::collection::vec(
            prop_oneof![4 => 0..140_usize, 3 => lengths()], 1..12),
        seed: u64,
        filling: u64,
    ) {
        let bytes = noise(lengths.iter().sum(), filling);
        for path in paths() {
            let (mut growing, mut read) = (Digest::on(path, seed), 0);
            for length in &lengths {
                growing.update(&bytes[read..read + length]);
                read += length;
                prop_assert_eq!(growing.digest(), xxh3_128_with_seed(&bytes[..read], seed));
            }
        }
    }

    #[test]
    fn a_copy_goes_its_own_way(head in lengths(), tail in 0..600_usize, filling: u64) {
        let bytes = noise(head + tail, filling);
        for path in paths() {
            let mut first = Digest::on(path, 0);
            first.update(&bytes[..head]);
            let mut second = first.clone();
            second.update(&bytes[head..]);
            prop_assert_eq!(first.digest(), xxh3_128(&bytes[..head]));
            prop_assert_eq!(second.digest(), xxh3_128(&bytes));
        }
    }
}
