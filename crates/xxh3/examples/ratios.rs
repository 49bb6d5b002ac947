//! Is this crate worth having on this machine? Against `xxhash-rust`, in one process, interleaved:
//! a turn of 1,541 blocks of 64 tokens, of 1 KiB texts, and its digest.
//!
//! `cargo run --release -p warmpath-xxh3 --example ratios`
use std::hint::black_box;
use std::time::Instant;

use warmpath_xxh3::{Digest, Secret, hash_each, hash64};
use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_secret, xxh3_64_with_seed};

const BLOCKS: usize = 1_541;
const ROUNDS: usize = 400;
const SEED: u64 = 1337;

type Pass<'a> = dyn FnMut(&mut Vec<u64>) + 'a;

/// What is measured: a name, the name of what it is compared with, one pass over the input.
struct Case<'a> {
    name: &'static str,
    peer: &'static str,
    pass: Box<Pass<'a>>,
}

fn case<'a>(
    name: &'static str,
    peer: &'static str,
    pass: impl FnMut(&mut Vec<u64>) + 'a,
) -> Case<'a> {
    let pass = Box::new(pass);
    Case { name, peer, pass }
}

fn main() {
    let ids = (0..BLOCKS as u32 * 64).map(|i| i.wrapping_mul(2_654_435_761) >> 14);
    let bytes: Vec<u8> = ids.flat_map(u32::to_le_bytes).collect();
    let secret = (Secret::of(SEED), const_custom_default_secret(SEED));
    let mut cases = hash_cases(&bytes, &secret);
    cases.extend(chain_cases(&bytes, &secret));
    cases.extend(text_cases(&bytes, &secret));
    cases.extend(digest_cases(&bytes));
    report(cases, bytes.len());
}

type Secrets = (Secret, [u8; 192]);

fn blocks(bytes: &[u8], length: usize) -> impl Iterator<Item = &[u8]> {
    black_box(bytes).chunks_exact(length)
}

fn hash_cases<'a>(bytes: &'a [u8], (ours, theirs): &'a Secrets) -> Vec<Case<'a>> {
    const SEEDED: &str = "hash: with seed";
    const SECRET: &str = "hash: with secret";
    vec![
        case(SEEDED, SEEDED, |out| {
            out.extend(blocks(bytes, 256).map(|b| xxh3_64_with_seed(b, SEED)));
        }),
        case(SECRET, SEEDED, |out| {
            out.extend(blocks(bytes, 256).map(|b| xxh3_64_with_secret(b, theirs)));
        }),
        case("hash: hash64", SECRET, |out| {
            out.extend(blocks(bytes, 256).map(|b| hash64(b, ours)));
        }),
        case("hash: hash_each", SECRET, |out| {
            hash_each(blocks(bytes, 256), ours, |hash| out.push(hash));
        }),
    ]
}

fn chain_cases<'a>(bytes: &'a [u8], (ours, theirs): &'a Secrets) -> Vec<Case<'a>> {
    const PASSES: &str = "chain: with seed, second pass";
    vec![
        case(PASSES, PASSES, |out| {
            out.extend(blocks(bytes, 256).map(|b| xxh3_64_with_seed(b, SEED)));
            let mut step = Step::default();
            out.iter_mut().for_each(|hash| *hash = step.of(*hash));
        }),
        case("chain: with secret, fused", PASSES, |out| {
            let mut step = Step::default();
            out.extend(blocks(bytes, 256).map(|b| step.of(xxh3_64_with_secret(b, theirs))));
        }),
        case("chain: hash64, fused", PASSES, |out| {
            let mut step = Step::default();
            out.extend(blocks(bytes, 256).map(|b| step.of(hash64(b, ours))));
        }),
        case("chain: hash_each, fused", PASSES, |out| {
            let mut step = Step::default();
            hash_each(blocks(bytes, 256), ours, |hash| out.push(step.of(hash)));
        }),
    ]
}

fn text_cases<'a>(bytes: &'a [u8], (ours, theirs): &'a Secrets) -> Vec<Case<'a>> {
    const SECRET: &str = "text of 1 KiB: with secret";
    vec![
        case(SECRET, SECRET, |out| {
            out.extend(blocks(bytes, 1_024).map(|b| xxh3_64_with_secret(b, theirs)));
        }),
        case("text of 1 KiB: hash_each", SECRET, |out| {
            hash_each(blocks(bytes, 1_024), ours, |hash| out.push(hash));
        }),
    ]
}

fn digest_cases(bytes: &[u8]) -> Vec<Case<'_>> {
    const ONCE: &str = "digest, read twice: xxhash-rust";
    const PARTS: &str = "digest, 256 B parts: xxhash-rust";
    // Once where the earlier prompt ended, once at the end.
    let turn = bytes.split_at(bytes.len() / 50 * 49);
    vec![
        case(ONCE, ONCE, move |_| {
            let mut state = Xxh3::with_seed(SEED);
            for part in <[&[u8]; 2]>::from(black_box(turn)) {
                state.update(part);
                black_box(state.digest128());
            }
        }),
        case("digest, read twice: Digest", ONCE, move |_| {
            let mut state = Digest::new(SEED);
            for part in <[&[u8]; 2]>::from(black_box(turn)) {
                state.update(part);
                black_box(state.digest());
            }
        }),
        case(PARTS, PARTS, |_| {
            let mut state = Xxh3::with_seed(SEED);
            blocks(bytes, 256).for_each(|part| state.update(part));
            black_box(state.digest128());
        }),
        case("digest, 256 B parts: Digest", PARTS, |_| {
            let mut state = Digest::new(SEED);
            blocks(bytes, 256).for_each(|part| state.update(part));
            black_box(state.digest());
        }),
    ]
}

/// The chain step: a hash over the parent's and the block's own.
#[derive(Default)]
struct Step(Option<u64>);

impl Step {
    #[inline]
    fn of(&mut self, local: u64) -> u64 {
        let hash = self.0.map_or(local, |parent| {
            let mut pair = [0; 16];
            pair[..8].copy_from_slice(&parent.to_le_bytes());
            pair[8..].copy_from_slice(&local.to_le_bytes());
            xxh3_64_with_seed(&pair, SEED)
        });
        self.0 = Some(hash);
        hash
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::print_stdout, reason = "an example that reports")]
fn report(mut cases: Vec<Case<'_>>, bytes: usize) {
    let mut times = vec![Vec::new(); cases.len()];
    let mut out = Vec::with_capacity(BLOCKS);
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter_mut().zip(&mut times) {
            out.clear();
            let start = Instant::now();
            (case.pass)(&mut out);
            times.push(start.elapsed().as_nanos() as f64);
        }
    }
    println!(
        "{:34} {:>12} {:>8} {:>8}  of",
        "", "ns per 256 B", "GB/s", "ratio"
    );
    for (i, Case { name, peer, .. }) in cases.iter().enumerate() {
        let peers = cases
            .iter()
            .position(|case| case.name == *peer)
            .unwrap_or(i);
        let ratios = times[i]
            .iter()
            .zip(&times[peers])
            .map(|(own, peer)| own / peer);
        let ratio = median(ratios.collect());
        let best = times[i].iter().copied().fold(f64::INFINITY, f64::min);
        let (block, speed) = (best / BLOCKS as f64, bytes as f64 / best);
        println!("{name:34} {block:12.2} {speed:8.1} {ratio:8.3}  {peer}");
    }
}
