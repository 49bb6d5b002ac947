//! The model against the recorded engine: every time, every reuse, every outcome.
#[allow(unreachable_pub, reason = "shared with the tests of another crate")]
#[path = "../../core/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;

use serde::Deserialize;
use warmpath_sim::{
    End, Engine, EngineConfig, EngineEvent, EventKind, Nanos, Preemption, Prefill, Request, Reuse,
    Timing,
};

#[derive(Deserialize)]
struct Scenario {
    id: u32,
    engine: Settings,
    workers: usize,
    trace: Vec<Row>,
    requests: Vec<Recorded>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    block_size: Option<u32>,
    num_gpu_blocks: Option<u32>,
    max_num_seqs: Option<u32>,
    max_num_batched_tokens: Option<u32>,
    enable_chunked_prefill: Option<bool>,
    enable_prefix_caching: Option<bool>,
    preemption_mode: Option<String>,
    speedup_ratio: Option<f64>,
    decode_speedup_ratio: Option<f64>,
    timing_model: Option<TimingModel>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum TimingModel {
    Fixed { prefill_ms: f64, decode_ms: f64 },
}

#[derive(Deserialize)]
struct Row {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u32>,
}

/// arrival, prompt, output, worker, admit, first token, last token, reused, admissions, status
type Recorded = (
    f64,
    u32,
    u32,
    usize,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    u32,
    u32,
    String,
);

fn config(s: &Settings) -> EngineConfig {
    let d = EngineConfig::default();
    EngineConfig {
        block_size: s.block_size.unwrap_or(d.block_size),
        num_gpu_blocks: s.num_gpu_blocks.unwrap_or(d.num_gpu_blocks),
        max_num_seqs: s.max_num_seqs.unwrap_or(d.max_num_seqs),
        max_num_batched_tokens: s.max_num_batched_tokens.unwrap_or(d.max_num_batched_tokens),
        host: None,
        prefill: if s.enable_chunked_prefill == Some(false) {
            Prefill::Whole
        } else {
            Prefill::Chunked
        },
        reuse: if s.enable_prefix_caching == Some(false) {
            Reuse::Never
        } else {
            Reuse::Prefix
        },
        preemption: match s.preemption_mode.as_deref() {
            Some("fifo") => Preemption::Oldest,
            Some("lifo") | None => Preemption::Newest,
            Some(other) => panic!("preemption {other}"),
        },
        timing: match s.timing_model {
            Some(TimingModel::Fixed {
                prefill_ms,
                decode_ms,
            }) => Timing::Fixed {
                prefill_ms,
                decode_ms,
            },
            None => Timing::Polynomial,
        },
        speedup_ratio: s.speedup_ratio.unwrap_or(1.0),
        decode_speedup_ratio: s.decode_speedup_ratio.unwrap_or(1.0),
    }
}

/// What the model says of one request, in the shape of the record.
#[derive(Clone, Default)]
struct Outcome {
    admit: Option<Nanos>,
    first: Option<Nanos>,
    last: Option<Nanos>,
    reused: u32,
    admissions: u32,
    produced: u32,
    status: &'static str,
}

fn follow(outcomes: &mut HashMap<u64, Outcome>, events: &[EngineEvent]) {
    for EngineEvent { at, kind } in events {
        match *kind {
            EventKind::Admitted { id, cached_tokens } => {
                let o = outcomes.entry(id).or_default();
                o.admit.get_or_insert(*at);
                o.admissions += 1;
                o.reused = o.reused.max(cached_tokens);
            }
            EventKind::FirstToken { id } => outcomes.entry(id).or_default().first = Some(*at),
            EventKind::Ended { id, end, produced } => {
                let o = outcomes.entry(id).or_default();
                o.produced = produced;
                o.last = (end == End::Complete).then_some(*at);
                o.status = if end == End::Rejected {
                    "rejected"
                } else {
                    "completed"
                };
            }
            _ => {}
        }
    }
}

fn run(scenario: &Scenario) -> Vec<(f64, u32, u32, usize, Outcome)> {
    let mut rows: Vec<&Row> = scenario.trace.iter().collect();
    rows.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
    let config = config(&scenario.engine);
    let size = config.block_size;
    let mut engines: Vec<Engine> = (0..scenario.workers)
        .map(|_| Engine::new(config.clone()).expect("config"))
        .collect();
    for (i, row) in rows.iter().enumerate() {
        let mut prompt: Vec<u32> = row
            .hash_ids
            .iter()
            .flat_map(|&h| std::iter::repeat_n(h, size as usize))
            .collect();
        prompt.truncate(row.input_length as usize);
        let request = Request::drawn(i as u64, &prompt, row.output_length, i as u64, size);
        let at = (row.timestamp * 1e6).round() as Nanos;
        engines[i % scenario.workers]
            .submit(at, request.expect("request"))
            .expect("submit");
    }
    let mut outcomes = HashMap::new();
    for engine in &mut engines {
        let mut events = Vec::new();
        engine.advance(Nanos::MAX / 2, &mut events);
        assert_eq!(engine.stats().used_blocks, 0);
        follow(&mut outcomes, &events);
    }
    let first_arrival = rows[0].timestamp;
    let mut results: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let outcome = outcomes[&(i as u64)].clone();
            (
                row.timestamp - first_arrival,
                row.input_length,
                outcome.produced,
                i % scenario.workers,
                outcome,
            )
        })
        .collect();
    results.sort_by(|a, b| {
        (a.0, a.1, a.2, a.4.first)
            .partial_cmp(&(b.0, b.1, b.2, b.4.first))
            .expect("ordered")
    });
    results
}

fn near(ours: Option<Nanos>, theirs: Option<f64>) -> bool {
    match (ours, theirs) {
        (Some(a), Some(b)) => (a as f64 / 1e6 - b).abs() < 1e-4,
        (a, b) => a.is_none() == b.is_none(),
    }
}

#[test]
fn every_recorded_request_is_reproduced() {
    let scenarios: Vec<Scenario> = support::golden("engine");
    assert_eq!(scenarios.len(), 56);
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        assert_eq!(scenario.requests.len(), scenario.trace.len());
        for ((arrival, prompt, output, worker, ours), theirs) in
            run(scenario).into_iter().zip(&scenario.requests)
        {
            let same = (arrival, prompt, output, worker)
                == (theirs.0, theirs.1, theirs.2, theirs.3)
                && near(ours.admit, theirs.4)
                && near(ours.first, theirs.5)
                && near(ours.last, theirs.6)
                && (ours.reused, ours.admissions, ours.status)
                    == (theirs.7, theirs.8, theirs.9.as_str());
            if !same {
                wrong.push(format!(
                    "scenario {}: {arrival} {prompt} {output} w{worker} {:?} {:?} {:?} {} {} {} against {theirs:?}",
                    scenario.id,
                    ours.admit.map(|t| t as f64 / 1e6),
                    ours.first.map(|t| t as f64 / 1e6),
                    ours.last.map(|t| t as f64 / 1e6),
                    ours.reused, ours.admissions, ours.status
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
