//! Decisions as their records tell of them, in the order in which they were made.
use std::path::PathBuf;

use napi::bindgen_prelude::Result;
use serde_json::Value;

use warmpath_core::Micros;
use warmpath_core::receipt::Reported;
use warmpath_core::session::Phase;
use warmpath_trace::{PhaseAfter, Record, records};

use crate::error::{Code, invalid, unreadable};

/// One decision, and what became of the turn.
pub(super) struct Recorded {
    pub(super) request: String,
    pub(super) session: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) is_final: bool,
    pub(super) hashes: Vec<u64>,
    /// What was sent upstream.
    pub(super) model: String,
    pub(super) received: Micros,
    pub(super) first_token: Option<Micros>,
    pub(super) end: Micros,
    pub(super) is_completed: bool,
    pub(super) reported: Reported,
    pub(super) phase: Option<Phase>,
    /// The number of the receipt: decisions are numbered as they are made.
    pub(super) number: u64,
    pub(super) receipt: Value,
}

/// All decisions of a recording.
pub(super) struct Recording {
    pub(super) decisions: Vec<Recorded>,
    /// Records without a whole receipt.
    pub(super) without: u64,
}

/// Reads recordings, the earliest decision first.
pub(super) fn read(paths: &[PathBuf]) -> Result<Recording, Code> {
    let (mut decisions, mut without) = (Vec::new(), 0);
    for path in paths {
        records(path, &mut |record| match Recorded::of(record) {
            Some(recorded) => decisions.push(recorded),
            None => without += 1,
        })
        .map_err(|error| unreadable(&error))?;
    }
    if decisions.is_empty() {
        return Err(invalid(
            "no record has a whole receipt: record with `trace: { receipts: 'full' }`",
        ));
    }
    decisions.sort_by_key(|recorded| recorded.number);
    Ok(Recording { decisions, without })
}

impl Recorded {
    /// `None` for a record of something else, or without a receipt.
    fn of(record: Record) -> Option<Self> {
        let (request, ours) = (record.event.request?, record.event.warmpath?);
        let (receipt, timings) = (ours.receipt.clone()?, ours.timings?);
        let agent = record.event.agent_context;
        Some(Self {
            number: receipt["id"].as_str()?.parse().ok()?,
            received: micros(timings.received),
            first_token: timings.first_token.map(micros),
            end: micros(timings.end),
            is_final: agent.is_some_and(|agent| agent.session_final == Some(true)),
            hashes: request
                .replay
                .as_ref()
                .map(|replay| replay.input_sequence_hashes.clone())
                .unwrap_or_default(),
            model: request.model.clone().unwrap_or_default(),
            is_completed: receipt["outcome"]["state"] == "completed",
            reported: reported(&receipt),
            phase: ours.phase.map(|phase| match phase {
                PhaseAfter::Acting => Phase::Acting,
                PhaseAfter::Reasoning => Phase::Reasoning,
            }),
            request: request.request_id,
            session: ours.session,
            parent: ours.parent,
            receipt,
        })
    }

    /// Whether the record has the very blocks that were decided on.
    pub(super) fn is_exact(&self) -> bool {
        let prompt = &self.receipt["prompt"];
        let unit = prompt["unitTokens"].as_u64().unwrap_or(0);
        let tokens = prompt["tokens"].as_u64().unwrap_or(0);
        let blocks = prompt["blocks"].as_u64();
        // Text is cut in pieces of its own; blocks of tokens are complete but for the last one.
        blocks == Some(self.hashes.len() as u64)
            && unit > 0
            && (tokens / unit..=tokens.div_ceil(unit)).contains(&(self.hashes.len() as u64))
    }

    /// Tokens of the prompt as they were decided on.
    pub(super) fn tokens(&self) -> u32 {
        let tokens = self.receipt["prompt"]["tokens"].as_u64().unwrap_or(0);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}

fn reported(receipt: &Value) -> Reported {
    let count = |name: &str| {
        let count = receipt["outcome"][name].as_u64()?;
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    };
    Reported {
        prompt_tokens: count("promptTokens"),
        cached_tokens: count("cachedTokens"),
        completion_tokens: count("completionTokens"),
    }
}

fn micros(ms: f64) -> Micros {
    Micros((ms * 1_000.0).round().max(0.0) as u64)
}
