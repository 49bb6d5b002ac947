//! What does it cost to get from a prompt's tokens to its chain?
//!
//! A prompt of 1,536 blocks of 64 tokens, and the next one of its session, 2 % longer. Dynamo has two
//! functions for it, one for the blocks and one for the chain, and hashes everything every time. Ours
//! is what the scheduler does, with the session's path in an index. The
//! tokens are in cache; times are of single prompts, the mean of the middle half; what the functions
//! return is dropped outside the timer.
use std::hint::black_box;
use std::num::NonZeroU32;

use dynamo_kv_router::protocols::{
    BlockHashOptions, compute_block_hash_for_seq, compute_seq_hash_for_block,
};

use super::{Context, Obstacle};
use crate::measure::{Samples, nanos, ticks};
use crate::peers::{DYNAMO, OURS, SessionHasher};
use crate::report::{Goal, Row, Table};
use crate::workload::mix;

const BLOCK_TOKENS: NonZeroU32 = NonZeroU32::new(64).expect("above zero");
const BLOCKS: usize = 1_536;
const NEW_BLOCKS: usize = BLOCKS / 50;
const VOCABULARY: u64 = 150_000;
const REPEATS: usize = 800;
const AFRESH: &str = "hash.from-nothing";
const EXTENDED: &str = "hash.extends-2-percent";

pub(super) const ROWS: [Row; 2] = [
    Row::only(AFRESH, "ns", DYNAMO, Goal::Ratio(0.6)),
    Row::only(EXTENDED, "ns", DYNAMO, Goal::Ratio(0.25)),
];

pub(super) fn run(context: &Context, table: &mut Table) -> Result<(), Obstacle> {
    let tokens = (BLOCKS + NEW_BLOCKS) * BLOCK_TOKENS.get() as usize;
    let token = |i| (mix(i) % VOCABULARY) as u32;
    let ids: Vec<u32> = (0..tokens as u64).map(token).collect();
    let before = &ids[..BLOCKS * BLOCK_TOKENS.get() as usize];
    let repeats = context.many(REPEATS);
    for _ in 0..context.rounds {
        for (row, previous, prompt) in [(AFRESH, &ids[..0], before), (EXTENDED, before, &ids)] {
            let theirs = dynamo(repeats, prompt);
            theirs.enter(row, DYNAMO, table);
            let ours = warmpath(repeats, previous, prompt);
            ours.enter(row, OURS, table);
        }
    }
    Ok(())
}

/// What hashing one prompt took, and the last hash of its chain.
struct Hashed {
    nanos: f64,
    last: u64,
}

impl Hashed {
    fn enter(&self, row: &'static str, system: &'static str, table: &mut Table) {
        table.put(row, system, self.nanos);
        table.answer(row, system, self.last);
    }
}

fn dynamo(repeats: usize, prompt: &[u32]) -> Hashed {
    let (mut times, mut last) = (Samples::default(), 0);
    for _ in 0..repeats {
        let begun = ticks();
        let options = BlockHashOptions::default();
        let locals = compute_block_hash_for_seq(black_box(prompt), BLOCK_TOKENS.get(), options);
        let chain = black_box(compute_seq_hash_for_block(&locals));
        let hashed = ticks();
        times.push(nanos(begun, hashed));
        last = chain.last().copied().unwrap_or(0);
    }
    Hashed {
        nanos: times.middle(),
        last,
    }
}

fn warmpath(repeats: usize, previous: &[u32], prompt: &[u32]) -> Hashed {
    let mut times = Samples::default();
    let mut session = SessionHasher::new(BLOCK_TOKENS);
    for _ in 0..repeats {
        if !previous.is_empty() {
            session.sent(previous);
        }
        let begun = ticks();
        session.next(black_box(prompt));
        let hashed = ticks();
        times.push(nanos(begun, hashed));
    }
    Hashed {
        nanos: times.middle(),
        last: session.last(),
    }
}
