//! The find path allocates nothing once its answers have grown. A harness of its own: the counting
//! allocator is process-wide, so no other test thread may run.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::alloc::System;
use std::num::NonZeroU32;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use warmpath_core::block::{Chain, Seed, hash_tokens};
use warmpath_core::load::{Begun, LoadLedger, Shared};
use warmpath_core::prefix::{
    BreakpointRules, Coverage, Implicit, Matching, Overlap, PlaceOptions, PrefixIndex, Refresh,
    Tier,
};
use warmpath_core::score::TieBreaker;
use warmpath_core::score::kv::{KvConfig, KvCost, KvRow, KvTurn, Prefill, Role};
use warmpath_core::{Micros, PlaceId, ReservationId, WorkerId};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
const WORKERS: u32 = 100;

/// A system prompt of 20 blocks that all share, then what one session has said.
fn prompt(session: u32) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..20 * 64).collect();
    ids.extend((0..100 * 64).map(|i| i * 7 + session));
    ids
}

/// Every other cache is read at breakpoints, of which its provider sets one a prompt.
fn matching(worker: u32) -> Matching {
    match worker % 2 {
        0 => Matching::default(),
        _ => Matching::Breakpoint(BreakpointRules {
            lookback: None,
            min_tokens: 1_024,
            ttl: Micros::from_secs(300),
            refresh: Refresh::OnRead,
            implicit: Implicit::AtEnd,
        }),
    }
}

/// What the next cache can give to a session: the system prompt, where heads are enough.
fn other(session: usize) -> u32 {
    match session % 2 {
        0 => 0,
        _ => 20 * 64,
    }
}

struct Fleet {
    index: PrefixIndex,
    ledger: LoadLedger,
}

impl Fleet {
    fn new() -> Self {
        let mut fleet = Self {
            index: PrefixIndex::new(1_000_000),
            ledger: LoadLedger::new(),
        };
        let mut chain = Chain::new();
        for w in 0..WORKERS {
            let worker = WorkerId(w);
            let options = PlaceOptions {
                matching: matching(w),
                ..PlaceOptions::default()
            };
            let place = fleet.index.add_place(worker, 0, Tier::Device, options);
            hash_tokens(&prompt(w), BLOCK, Seed::default(), &mut chain);
            fleet.index.predict(Micros(0), place.expect("new"), &chain);
            assert!(fleet.ledger.add_worker(worker));
            let begun = fleet
                .ledger
                .begin(ReservationId(w.into()), worker, &chain, 10);
            assert_eq!(begun, Begun::Entered);
        }
        fleet
    }
}

/// Everything that a decision reads; what it keeps between decisions is here.
#[derive(Default)]
struct Reader {
    chain: Chain,
    overlap: Overlap,
    shared: Shared,
    coverage: Coverage,
}

impl Reader {
    fn decide(&mut self, fleet: &Fleet, ids: &[u32], ties: &mut TieBreaker) -> Option<usize> {
        hash_tokens(ids, BLOCK, Seed::default(), &mut self.chain);
        fleet.index.find(&self.chain, &mut self.overlap);
        fleet.ledger.shared(&self.chain, &mut self.shared);
        fleet
            .index
            .coverage(PlaceId(1), &self.chain, &mut self.coverage);
        let turn = KvTurn {
            block_tokens: BLOCK.get(),
            prompt_tokens: self.chain.tokens(),
            role: Role::Aggregated,
            prefill: Prefill::Tracked,
            shared: &[],
        };
        let cost = KvCost::new(KvConfig::default(), turn, 0.0);
        let row = |w: u32| KvRow {
            device: f64::from(self.credit(fleet, w)) / f64::from(BLOCK.get()),
            ..KvRow::default()
        };
        ties.cheapest((0..WORKERS).map(|w| cost.of(&row(w), 0.0)))
    }

    fn credit(&self, fleet: &Fleet, worker: u32) -> u32 {
        let place = PlaceId(worker);
        fleet.index.credit(place, &self.chain, &self.overlap)
    }
}

fn main() {
    let fleet = Fleet::new();
    let prompts: Vec<_> = (0..WORKERS).map(prompt).collect();
    let mut reader = Reader::default();
    let mut ties = TieBreaker::new(1);
    for session in [0, 1] {
        let chosen = reader.decide(&fleet, &prompts[session], &mut ties);
        assert_eq!(chosen, Some(session));
    }
    let region = Region::new(GLOBAL);
    for round in 0..1_000 {
        let session = round % prompts.len();
        let chosen = reader.decide(&fleet, &prompts[session], &mut ties);
        assert_eq!(chosen, Some(session));
        assert_eq!(reader.credit(&fleet, session as u32), 120 * 64);
        assert_eq!(
            reader.credit(&fleet, (session as u32 + 1) % WORKERS),
            other(session)
        );
        assert_eq!(reader.shared.additional_at(WorkerId(session as u32)), 0);
    }
    let seen = region.change();
    assert_eq!((seen.allocations, seen.reallocations), (0, 0), "{seen:?}");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
