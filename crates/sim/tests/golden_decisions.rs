//! A whole fleet against the recorded fleet: 500 decisions of the published router on the head of a
//! public trace, with every candidate's overlap, load and cost, and the timeline of every turn.
//!
//! The router here is made of the core's parts, hears of caches from the engines and follows the
//! recorded picks; at each it checks that everything the published router saw is what the simulated
//! fleet shows, and that the pick is one of the best. The trace is public and not part of the
//! repository: without it the test is ignored and says so, which is why it has a harness of its own.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;
use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::load::{LoadLedger, Shared};
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, StoredBlock, StoredBlocks, Tier};
use warmpath_core::score::kv::{KvConfig, KvCost, KvLoad, KvRow, KvTurn, Prefill, Role};
use warmpath_core::{PlaceId, ReservationId, WorkerId};
use warmpath_sim::fleet::{EngineModel, Feed, FleetConfig, Recovery, simulate};
use warmpath_sim::router::{
    Answer, CacheChange, CacheMessage, Offer, Presence, Router, Settled, Usage,
};
use warmpath_sim::{EngineConfig, Nanos};
use warmpath_trace::{NewStart, NewTurn, Options, Start, Workload, WorkloadBuilder, read};

#[allow(unreachable_pub, reason = "shared with the tests of another crate")]
#[path = "../../core/tests/support/mod.rs"]
mod support;

const BLOCK: NonZeroU32 = NonZeroU32::new(512).unwrap();
const BLOCKS: u32 = 1_024;
const WORKERS: u32 = 4;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Decision(Decision),
    Header(serde_json::Value),
}

/// index, arrival ms, prompt tokens, candidates, chosen, first token ms, last token ms, reused tokens
#[derive(Deserialize)]
struct Decision(u64, f64, u32, Vec<Row>, u32, f64, f64, u32);

/// worker, overlap blocks, prefill tokens, decode blocks, requests, cost
#[derive(Deserialize, Debug, PartialEq)]
struct Row(u32, f64, u64, f64, u32, f64);

/// Follows the recording and checks what it sees.
struct Follower {
    decisions: Vec<Decision>,
    prefix: PrefixIndex,
    places: Vec<PlaceId>,
    ledger: LoadLedger,
    overlap: Overlap,
    shared: Shared,
    chain: Chain,
    one: Chain,
    first_tokens: HashMap<u64, Nanos>,
    ended: usize,
}

impl Follower {
    fn new(decisions: Vec<Decision>) -> Self {
        let mut prefix = PrefixIndex::new(1 << 20);
        let mut ledger = LoadLedger::new();
        let places = (0..WORKERS).map(|worker| {
            assert!(ledger.add_worker(WorkerId(worker)));
            prefix
                .add_place(WorkerId(worker), 0, Tier::Device, PlaceOptions::default())
                .expect("a new place")
        });
        Self {
            places: places.collect(),
            decisions,
            prefix,
            ledger,
            overlap: Overlap::new(),
            shared: Shared::new(),
            chain: Chain::new(),
            one: Chain::new(),
            first_tokens: HashMap::new(),
            ended: 0,
        }
    }

    fn candidate(&self, worker: u32, cost: &KvCost<'_>) -> Row {
        let blocks = |tokens: u64| tokens as f64 / f64::from(BLOCK.get());
        let load = self.ledger.load(WorkerId(worker)).expect("a worker");
        let device = f64::from(self.overlap.blocks_at(self.places[worker as usize]));
        let added = self.shared.additional_at(WorkerId(worker));
        let row = KvRow {
            device,
            load: Some(KvLoad {
                prefill_tokens: load.prefill_tokens as f64,
                decode_blocks: blocks(load.block_tokens),
                additional_blocks: blocks(added.into()),
                requests: f64::from(load.requests),
            }),
            ..KvRow::default()
        };
        Row(
            worker,
            device,
            load.prefill_tokens,
            blocks(load.block_tokens) + blocks(added.into()),
            load.requests,
            cost.of(&row, 0.0),
        )
    }

    fn decision(&self, turn: u64) -> &Decision {
        // Turns are numbered from 1 in the order of their arrival, which is that of the recording.
        &self.decisions[turn as usize - 1]
    }
}

fn same_ms(now: Nanos, ms: f64) -> bool {
    (now as f64 / 1e6 - ms).abs() < 2e-5
}

impl Router for Follower {
    fn label(&self) -> String {
        "recorded".to_owned()
    }

    fn submit(&mut self, now: Nanos, offer: &Offer<'_>, _: &mut Vec<Settled>) -> Answer {
        let tokens = offer.prompt_tokens;
        let seed = Seed::default();
        hash_content(offer.blocks, BLOCK, Some(tokens), seed, &mut self.chain);
        self.prefix.find(&self.chain, &mut self.overlap);
        self.ledger.shared(&self.chain, &mut self.shared);
        let turn = KvTurn {
            block_tokens: BLOCK.get(),
            prompt_tokens: tokens,
            role: Role::Aggregated,
            prefill: Prefill::Tracked,
            shared: &[],
        };
        let cost = KvCost::new(KvConfig::default(), turn, 0.0);
        let rows: Vec<Row> = (0..WORKERS).map(|w| self.candidate(w, &cost)).collect();
        let decision = self.decision(offer.turn);
        assert!(same_ms(now, decision.1), "arrival of {}", decision.0);
        assert_eq!(tokens, decision.2, "prompt of {}", decision.0);
        assert_eq!(rows, decision.3, "decision {}", decision.0);
        let least = rows.iter().map(|row| row.5).fold(f64::INFINITY, f64::min);
        let (chosen, cached) = (decision.4, rows[decision.4 as usize].1);
        assert_eq!(rows[chosen as usize].5, least, "decision {}", decision.0);
        let uncached = tokens - (cached as u32 * BLOCK.get()).min(tokens);
        let id = ReservationId(offer.turn);
        self.ledger
            .begin(id, WorkerId(chosen), &self.chain, uncached);
        Answer::Go(chosen)
    }

    fn first_token(&mut self, now: Nanos, turn: u64, _: &mut Vec<Settled>) {
        self.first_tokens.insert(turn, now);
        self.ledger.first_token(ReservationId(turn));
    }

    fn complete(&mut self, now: Nanos, turn: u64, usage: &Usage, _: &mut Vec<Settled>) {
        self.ledger.end(ReservationId(turn));
        let decision = self.decision(turn);
        let first = self.first_tokens[&turn];
        assert!(same_ms(first, decision.5), "first token of {}", decision.0);
        assert!(same_ms(now, decision.6), "last token of {}", decision.0);
        assert_eq!(usage.cached_tokens, decision.7, "reuse of {}", decision.0);
        self.ended += 1;
    }

    fn cancel(&mut self, _: Nanos, turn: u64, _: &mut Vec<Settled>) {
        panic!("turn {turn} was answered in the recording");
    }

    fn reroute(&mut self, _: Nanos, _: u64, _: &mut Vec<Settled>) -> Option<u32> {
        None
    }

    fn set_presence(&mut self, _: Nanos, _: u32, _: Presence, _: &mut Vec<Settled>) {}

    fn hear(&mut self, _: Nanos, worker: u32, message: &Rc<CacheMessage>) -> Option<u64> {
        for change in &message.changes {
            self.change(self.places[worker as usize], change);
        }
        None
    }
}

impl Follower {
    fn change(&mut self, place: PlaceId, change: &CacheChange) {
        match change {
            CacheChange::Stored {
                parent,
                names,
                blocks,
            } => {
                let stored = names.iter().zip(blocks).map(|(&name, &id)| {
                    hash_content(&[id], BLOCK, None, Seed::default(), &mut self.one);
                    StoredBlock {
                        name,
                        local: self.one.hashes()[0],
                    }
                });
                let blocks: Vec<StoredBlock> = stored.collect();
                let event = StoredBlocks {
                    parent: *parent,
                    block_tokens: BLOCK.get(),
                    blocks: &blocks,
                };
                assert_eq!(self.prefix.store(place, &event), blocks.len());
            }
            CacheChange::Removed { names } => {
                assert_eq!(self.prefix.remove(place, names), names.len());
            }
        }
    }
}

fn trace() -> Option<Workload> {
    let base = std::env::var_os("WARMPATH_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = base
        .unwrap_or_else(beside)
        .join("data/mooncake/conversation_trace.jsonl.gz");
    path.exists().then(|| {
        read(&[path], &Options::default())
            .expect("the trace")
            .workload
    })
}

/// The first turns of an open-loop workload.
fn head(workload: &Workload, turns: usize) -> Workload {
    let mut builder = WorkloadBuilder::new(workload.block_tokens());
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns()[..turns].iter().enumerate() {
        let session = builder.add_session(&index.to_string(), None);
        let Start::At(start) = turn.start else {
            panic!("the trace has times");
        };
        workload.read_blocks(index, &mut blocks);
        let turn = NewTurn {
            session: session.expect("a new name"),
            input_tokens: turn.input_tokens,
            output_tokens: turn.output_tokens,
            next: turn.next,
            blocks: &blocks,
            start: NewStart::At(start),
        };
        builder.add_turn(&turn).expect("a turn of a workload");
    }
    builder.finish()
}

fn every_decision_and_timeline_is_reproduced(trace: &Workload) {
    let lines = support::golden::<Line>("decisions");
    let decisions: Vec<Decision> = lines
        .into_iter()
        .filter_map(|line| match line {
            Line::Decision(decision) => Some(decision),
            Line::Header(header) => {
                assert_eq!(header["block_size"], BLOCK.get());
                assert_eq!(header["num_gpu_blocks"], BLOCKS);
                None
            }
        })
        .collect();
    let count = decisions.len();
    assert_eq!(count, 500);
    let workload = head(trace, count);
    let config = FleetConfig {
        workers: WORKERS,
        engine: EngineModel::DynamoPoly(EngineConfig {
            block_size: BLOCK.get(),
            num_gpu_blocks: BLOCKS,
            ..EngineConfig::default()
        }),
        feed: Feed::Events {
            lag: 0,
            loss: 0.0,
            recovery: Recovery::Never,
        },
        ..FleetConfig::default()
    };
    let mut follower = Follower::new(decisions);
    let report = simulate(&workload, &config, &mut follower).expect("a fleet");
    assert_eq!(follower.ended, count);
    assert!(follower.ledger.is_empty());
    assert_eq!(report.turns.completed, count as u64);
}

fn main() {
    let found = trace();
    let (passed, ignored) = if found.is_some() { (1, 0) } else { (0, 1) };
    match found {
        Some(trace) => every_decision_and_timeline_is_reproduced(&trace),
        None => println!("ignored: the public trace is not beside the repository"),
    }
    println!(
        "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 0 filtered out"
    );
}
