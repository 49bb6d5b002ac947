//! The load ledger and the cost, driven by what a router of the published fleet simulator did.
//!
//! The trace gives the blocks of each prompt, the recording gives who was chosen, the overlaps and
//! when tokens came. Prefill tokens, blocks in use, requests and cost must come out equal at every
//! decision. The trace is public and not part of the repository: without it the test is ignored and
//! says so, which is why it has a harness of its own.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::load::{Begun, LoadLedger, Noted, Shared};
use warmpath_core::score::kv::{KvConfig, KvCost, KvLoad, KvRow, KvTurn, Prefill, Role};
use warmpath_core::{ReservationId, WorkerId};

mod support;

const BLOCK: NonZeroU32 = NonZeroU32::new(512).unwrap();
const WORKERS: u32 = 4;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Decision(Decision),
    Header(serde_json::Value),
}

/// index, arrival ms, prompt tokens, candidates, chosen, first token ms, last token ms, reused tokens
#[derive(Deserialize)]
struct Decision(u64, f64, u32, Vec<Candidate>, u32, f64, f64, IgnoredAny);

/// worker, overlap blocks, prefill tokens, decode blocks, requests, cost
#[derive(Deserialize)]
struct Candidate(u32, f64, u64, f64, u32, f64);

#[derive(Deserialize)]
struct TraceRow {
    hash_ids: Vec<u64>,
}

fn trace() -> Option<Vec<TraceRow>> {
    let base = std::env::var_os("WARMPATH_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = base
        .unwrap_or_else(beside)
        .join("data/mooncake/conversation_trace.jsonl.gz");
    let file = File::open(path).ok()?;
    let rows = BufReader::new(GzDecoder::new(file)).lines().take(500);
    Some(
        rows.map(|line| serde_json::from_str(&line.expect("gzip")).expect("a trace row"))
            .collect(),
    )
}

/// What happens to a turn after its decision.
#[derive(Clone, Copy, PartialEq)]
enum Later {
    FirstToken(ReservationId),
    End(ReservationId),
}

#[derive(Default)]
struct Drive {
    ledger: LoadLedger,
    later: Vec<(f64, Later)>,
    shared: Shared,
    chain: Chain,
}

impl Drive {
    /// Lets everything happen that came before `now`.
    fn advance(&mut self, now: f64) {
        self.later.sort_by(|a, b| a.0.total_cmp(&b.0));
        let due = self.later.partition_point(|(at, _)| *at < now);
        for (_, event) in self.later.drain(..due) {
            let noted = match event {
                Later::FirstToken(id) => self.ledger.first_token(id),
                Later::End(id) => self.ledger.end(id),
            };
            assert!(!matches!(noted, Noted::Unknown), "the ledger lost a turn");
        }
    }

    fn row(&self, candidate: &Candidate) -> KvRow {
        let worker = WorkerId(candidate.0);
        let load = self.ledger.load(worker).expect("a worker");
        let blocks = |tokens: u64| tokens as f64 / f64::from(BLOCK.get());
        KvRow {
            device: candidate.1,
            load: Some(KvLoad {
                prefill_tokens: load.prefill_tokens as f64,
                decode_blocks: blocks(load.block_tokens),
                additional_blocks: blocks(self.shared.additional_at(worker).into()),
                requests: f64::from(load.requests),
            }),
            ..KvRow::default()
        }
    }

    fn check(&self, decision: &Decision) {
        let turn = KvTurn {
            block_tokens: BLOCK.get(),
            prompt_tokens: decision.2,
            role: Role::Aggregated,
            prefill: Prefill::Tracked,
            shared: &[],
        };
        let cost = KvCost::new(KvConfig::default(), turn, 0.0);
        for candidate in &decision.3 {
            let row = self.row(candidate);
            let load = row.load.expect("a load");
            let found = (
                load.prefill_tokens as u64,
                load.decode_blocks + load.additional_blocks,
                load.requests as u32,
                cost.of(&row, 0.0),
            );
            let expected = (candidate.2, candidate.3, candidate.4, candidate.5);
            assert_eq!(
                found, expected,
                "decision {} worker {}",
                decision.0, candidate.0
            );
        }
    }

    fn follow(&mut self, decision: &Decision) {
        let id = ReservationId(decision.0);
        let chosen = &decision.3[decision.4 as usize];
        assert_eq!(chosen.0, decision.4);
        let cached = (chosen.1 as u32 * BLOCK.get()).min(decision.2);
        let begun = self
            .ledger
            .begin(id, WorkerId(chosen.0), &self.chain, decision.2 - cached);
        assert_eq!(begun, Begun::Entered);
        self.later.push((decision.5, Later::FirstToken(id)));
        self.later.push((decision.6, Later::End(id)));
    }
}

fn main() {
    let found = trace();
    let (passed, ignored) = if found.is_some() { (1, 0) } else { (0, 1) };
    match found {
        Some(trace) => every_recorded_load_and_cost_is_reproduced(&trace),
        None => println!("ignored: the public trace is not beside the repository"),
    }
    println!(
        "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 0 filtered out"
    );
}

fn every_recorded_load_and_cost_is_reproduced(trace: &[TraceRow]) {
    let lines = support::golden::<Line>("decisions");
    let mut drive = Drive::default();
    for worker in 0..WORKERS {
        assert!(drive.ledger.add_worker(WorkerId(worker)));
    }
    let mut decisions = 0;
    for line in lines {
        let decision = match line {
            Line::Decision(decision) => decision,
            Line::Header(header) => {
                assert_eq!(header["block_size"], BLOCK.get());
                continue;
            }
        };
        drive.advance(decision.1);
        let row = &trace[decision.0 as usize];
        let complete = (decision.2 / BLOCK.get()) as usize;
        let ids = &row.hash_ids[..complete.min(row.hash_ids.len())];
        hash_content(
            ids,
            BLOCK,
            Some(decision.2),
            Seed::default(),
            &mut drive.chain,
        );
        drive.ledger.shared(&drive.chain, &mut drive.shared);
        drive.check(&decision);
        drive.follow(&decision);
        decisions += 1;
    }
    assert_eq!(decisions, 500);
    drive.advance(f64::INFINITY);
    assert!(drive.ledger.is_empty());
}
