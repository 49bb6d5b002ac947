//! Where do two receipts of one turn differ, and does a receipt follow from its own terms?
//!
//! Numbers, times and names of the run are not compared: another run has others. What was decided is,
//! and every term of every candidate. Costs are compared to twelve digits, since JSON texts of floats
//! may be read with an error in the last one.
use std::sync::LazyLock;

use serde_json::Value;

use warmpath_core::WorkerId;
use warmpath_core::receipt::{Candidate, PromptNote, Receipt};
use warmpath_core::scheduler::recompute;
use warmpath_core::score::kv::KvConfig;
use warmpath_core::score::pace::Pace;

/// What was decided, and what it followed from, as paths into a receipt. Names of sessions are digests, and
/// what is said of an engine's evidence changes with the time.
const DECIDED: [&str; 17] = [
    "/worker",
    "/target",
    "/admission/verdict",
    "/admission/heldMs",
    "/admission/worker",
    "/model/reason",
    "/model/switched",
    "/lock/decided",
    "/lock/escaped",
    "/lock/stripped",
    "/detour",
    "/moved",
    "/prompt/tokens",
    "/predictedCachedTokens",
    "/trust",
    "/eligible",
    "/weights/draw",
];

/// The terms of a candidate.
const TERMS: [&str; 13] = [
    "worker",
    "rank",
    "overlapTokens",
    "hostTokens",
    "diskTokens",
    "poolTokens",
    "prefillTokens",
    "activeTokens",
    "additionalTokens",
    "requests",
    "prefillPace",
    "decodePace",
    "cost",
];

/// What must be a number for a receipt to be one.
const NUMBERS: [&str; 5] = [
    "overlapTokens",
    "prefillTokens",
    "activeTokens",
    "additionalTokens",
    "requests",
];

/// Whether this is a receipt, as far as it is looked at here. Says what is wrong.
pub(super) fn check(receipt: &Value) -> Result<(), String> {
    if !receipt.is_object() {
        return Err("it is no object".to_owned());
    }
    let listed = receipt.get("candidates");
    let rows = listed.and_then(Value::as_array);
    let rows = rows.ok_or_else(|| "candidates is no list".to_owned())?;
    for (index, row) in rows.iter().enumerate() {
        let of_row = |name: &str| format!("candidates[{index}].{name}");
        if !row["worker"].is_string() {
            return Err(format!("{} is no text", of_row("worker")));
        }
        if !row["cost"].is_number() {
            return Err(format!("{} is no number", of_row("cost")));
        }
        if let Some(name) = NUMBERS.iter().find(|name| !row[**name].is_u64()) {
            return Err(format!("{} is no count", of_row(name)));
        }
    }
    for path in ["/prompt/tokens", "/prompt/unitTokens"] {
        if receipt.pointer(path).and_then(Value::as_u64).is_none() {
            return Err(format!("{} is no count", path[1..].replace('/', ".")));
        }
    }
    for path in ["/admission/verdict", "/target"] {
        if receipt.pointer(path).and_then(Value::as_str).is_none() {
            return Err(format!("{} is no text", path[1..].replace('/', ".")));
        }
    }
    Ok(())
}

/// The first difference in words; `None` if there is none.
pub(super) fn first(recorded: &Value, now: &Value) -> Option<String> {
    let of_candidates = || {
        let (before, after) = (rows(recorded), rows(now));
        if before.len() != after.len() {
            return Some("the number of candidates".to_owned());
        }
        before.iter().zip(after).find_map(|(before, after)| {
            let term = TERMS
                .iter()
                .find(|term| !is_same(term_of(before, term), term_of(after, term)))?;
            Some(format!(
                "{term} of {}",
                before["worker"].as_str().unwrap_or("?")
            ))
        })
    };
    let is_changed = |path: &&&str| !is_same(&at(recorded, path), &at(now, path));
    let decided = DECIDED.iter().find(is_changed);
    decided
        .map(|path| path[1..].replace('/', "."))
        .or_else(of_candidates)
}

/// Recordings of before there were shared stores have nothing of them, and those of before times were
/// learnt have everybody at the usual pace.
fn term_of<'a>(row: &'a Value, term: &str) -> &'a Value {
    static NONE: LazyLock<Value> = LazyLock::new(|| Value::from(0));
    static USUAL: LazyLock<Value> = LazyLock::new(|| Value::from(1));
    match (row.get(term), term) {
        (Some(found), _) => found,
        (None, "poolTokens") => &NONE,
        (None, "prefillPace" | "decodePace") => &USUAL,
        (None, _) => &Value::Null,
    }
}

fn at(receipt: &Value, path: &str) -> Value {
    receipt.pointer(path).cloned().unwrap_or_default()
}

pub(super) fn rows(receipt: &Value) -> &[Value] {
    receipt["candidates"].as_array().map_or(&[], Vec::as_slice)
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => is_near(a, b),
        _ => a == b,
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// Computes a receipt again from its own terms: what differs, and the receipt as it should be. Nothing
/// can be said of one without candidates.
pub(super) fn recomputed(receipt: &Value) -> Option<(String, Value)> {
    let (worker, rows) = (&receipt["worker"], rows(receipt));
    if !rows.is_empty() && worker.is_string() && rows.iter().all(|row| row["worker"] != *worker) {
        let mut now = receipt.clone();
        now["worker"] = Value::Null;
        let what = format!("the worker: {worker} is not among the candidates");
        return Some((what, now));
    }
    let parsed = parse(receipt);
    let costs = recompute(&parsed);
    let mut now = receipt.clone();
    for (index, cost) in costs.iter().enumerate() {
        now["candidates"][index]["cost"] = (*cost).into();
    }
    if let Some(what) = first(receipt, &now) {
        return Some((what, now));
    }
    let is_free = receipt["admission"]["verdict"] == "free";
    let is_cold = receipt["weights"]["temperature"].as_f64() == Some(0.0);
    let least = costs.iter().copied().min_by(f64::total_cmp)?;
    let chosen = rows.iter().position(|row| row["chosen"] == true);
    if !(is_free && is_cold) || chosen.is_some_and(|at| is_near(costs[at], least)) {
        return None;
    }
    let best = costs.iter().position(|&cost| cost == least)?;
    for index in 0..costs.len() {
        now["candidates"][index]["chosen"] = (index == best).into();
    }
    now["worker"] = now["candidates"][best]["worker"].clone();
    Some(("the worker: another one is cheaper".to_owned(), now))
}

/// What of a receipt the costs are computed from.
fn parse(receipt: &Value) -> Receipt {
    let count = |value: &Value| u32::try_from(value.as_u64().unwrap_or(0)).unwrap_or(u32::MAX);
    let candidates = rows(receipt).iter().zip(0..).map(|(row, index)| Candidate {
        worker: WorkerId(index),
        cost: row["cost"].as_f64().unwrap_or(0.0),
        overlap_tokens: count(&row["overlapTokens"]),
        host_tokens: count(&row["hostTokens"]),
        disk_tokens: count(&row["diskTokens"]),
        pool_tokens: count(&row["poolTokens"]),
        rank: row["rank"]
            .as_u64()
            .and_then(|rank| u32::try_from(rank).ok()),
        prefill_tokens: row["prefillTokens"].as_u64().unwrap_or(0),
        active_tokens: row["activeTokens"].as_u64().unwrap_or(0),
        additional_tokens: count(&row["additionalTokens"]),
        requests: count(&row["requests"]),
        affinity_tokens: count(&row["affinityTokens"]),
        relief_tokens: row["reliefTokens"].as_u64().unwrap_or(0),
        pace: Pace {
            prefill: hundredths(term_of(row, "prefillPace")),
            decode: hundredths(term_of(row, "decodePace")),
        },
    });
    Receipt {
        candidates: candidates.collect(),
        weights: weights(receipt),
        prompt: PromptNote {
            tokens: count(&receipt["prompt"]["tokens"]),
            unit_tokens: count(&receipt["prompt"]["unitTokens"]),
            ..PromptNote::default()
        },
        ..Receipt::default()
    }
}

fn hundredths(pace: &Value) -> u16 {
    (pace.as_f64().unwrap_or(1.0) * 100.0).round() as u16
}

fn weights(receipt: &Value) -> KvConfig {
    let default = KvConfig::default();
    let weight = |name: &str, or: f64| receipt["weights"][name].as_f64().unwrap_or(or);
    KvConfig {
        overlap_credit: weight("overlapCredit", default.overlap_credit),
        credit_decay: weight("overlapDecay", default.credit_decay),
        prefill_scale: weight("prefillScale", default.prefill_scale),
        request_weight: weight("requestWeight", default.request_weight),
        host_credit: weight("hostCredit", default.host_credit),
        disk_credit: weight("diskCredit", default.disk_credit),
        pool_credit: weight("poolCredit", default.pool_credit),
        ..default
    }
}
