//! What the rooms of the core cost by themselves: hashing, finding, a whole decision.
use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use warmpath_core::Micros;
use warmpath_core::block::{Chain, Seed, TokenRate, hash_text, hash_tokens};
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, Tier};
use warmpath_core::scheduler::Prompt;

#[path = "../../../crates/core/examples/support/turns.rs"]
mod turns;

use turns::{Written, complete, fleet, prompt, submit};

const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
/// Messages of a prompt of about 1k, 10k and 100k tokens.
const MESSAGES: [usize; 3] = [2, 17, 170];

fn hashing(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash");
    for messages in MESSAGES {
        let Written { text, segments } = prompt(1, messages);
        let lengths: Vec<u32> = segments.iter().map(|s| s.bytes).collect();
        let (rate, seed, mut chain) = (TokenRate::default(), Seed::default(), Chain::new());
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(BenchmarkId::new("text", text.len()), &text, |b, text| {
            b.iter(|| hash_text(black_box(text), &lengths, rate, seed, &mut chain));
        });
    }
    let ids: Vec<u32> = (0..10_000).collect();
    let mut chain = Chain::new();
    group.throughput(Throughput::Elements(ids.len() as u64));
    group.bench_function("tokens/10000", |b| {
        b.iter(|| hash_tokens(black_box(&ids), BLOCK, Seed::default(), &mut chain));
    });
    group.finish();
}

fn finding(c: &mut Criterion) {
    let mut group = c.benchmark_group("find");
    for depth in [64_u32, 4_096] {
        let mut index = PrefixIndex::new(usize::MAX);
        let ids: Vec<u32> = (0..depth * BLOCK.get()).collect();
        let mut chain = Chain::new();
        hash_tokens(&ids, BLOCK, Seed::default(), &mut chain);
        for worker in 0..64 {
            let options = PlaceOptions::default();
            let worker = warmpath_core::WorkerId(worker);
            let place = index.add_place(worker, 0, Tier::Device, options);
            index.predict(Micros(1), place.expect("a new place"), &chain);
        }
        let mut overlap = Overlap::new();
        group.bench_with_input(BenchmarkId::new("hot", depth), &chain, |b, chain| {
            b.iter(|| index.find(black_box(chain), &mut overlap));
        });
    }
    group.finish();
}

/// A session that goes on by a message a turn.
fn deciding(c: &mut Criterion) {
    let mut group = c.benchmark_group("turn");
    for workers in [4, 1_000] {
        for messages in MESSAGES {
            let mut scheduler = fleet(workers);
            let (mut session, mut at) = (0_u64, 1_u64);
            let id = BenchmarkId::new(format!("{workers}-workers"), messages);
            group.bench_function(id, |b| {
                let two_turns = || {
                    session += 1;
                    [prompt(session, messages), prompt(session, messages + 1)]
                };
                b.iter_batched(
                    two_turns,
                    |turns| {
                        at += 1;
                        for Written { text, segments } in &turns {
                            let (bytes, name) = (&text[..], format!("s{at}"));
                            let prompt = Prompt::Text { bytes, segments };
                            let turn = submit(&mut scheduler, Micros(at), &name, prompt);
                            complete(&mut scheduler, Micros(at), &turn);
                        }
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(rooms, hashing, finding, deciding);
criterion_main!(rooms);
