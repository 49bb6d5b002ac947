//! Does a recorded trace of decisions decide the same again?
//!
//! The records of a trace whose receipts are whole are events: a turn comes, it has its first token,
//! it ends. A fresh core takes them in the order of their times, and each decision is held against its
//! receipt, term by term, up to the first that differs. Where a record does not have the very blocks
//! that were decided on (prompts that came as text are cut anew for a trace), only receipts are checked:
//! each one's costs are computed again from its own terms, and the choice must be one of the best.
//!
//! A turn without a record (refused, or left while it was held) is not there for the core either.
mod again;
mod differ;
mod recorded;

use std::path::PathBuf;

use napi::bindgen_prelude::{AsyncTask, Result};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};

use self::again::Again;
use self::recorded::Recorded;
use super::background::{Background, background};
use crate::error::{Code, guard, invalid};
use crate::options::Admission;

/// Which recordings, and what their receipts do not tell of the scheduler.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    paths: Vec<PathBuf>,
    /// Of each worker.
    capacity_tokens: Option<u64>,
    #[serde(default)]
    admission: Admission,
    #[serde(default)]
    seed: u64,
}

/// The first decision that came out otherwise.
struct Difference {
    /// Which of the decisions, from 0.
    at: usize,
    /// What differs.
    what: String,
    /// The receipt as it is now.
    now: Value,
}

/// Decides recorded decisions again, in the background. Options as JSON: `paths`, `capacityTokens`,
/// `admission`, `seed`. Returns what was checked and the first difference, as JSON.
#[napi(ts_return_type = "Promise<string>")]
pub fn verify_decisions(options: String) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        let request: Request =
            serde_json::from_str(&options).map_err(|e| invalid(format!("verify: {e}")))?;
        Ok(background(move || verify(&request)))
    })
}

fn verify(request: &Request) -> Result<String, Code> {
    let found = recorded::read(&request.paths)?;
    let is_exact = found.decisions.iter().all(Recorded::is_exact);
    let without_candidates = match is_exact {
        true => 0,
        false => bare(&found.decisions),
    };
    let difference = match is_exact {
        true => Again::new(&found.decisions, request)?.run()?,
        false => receipts(&found.decisions),
    };
    let checked = difference
        .as_ref()
        .map_or(found.decisions.len(), |d| d.at + 1);
    Ok(json!({
        "decisions": checked,
        "of": found.decisions.len(),
        "withoutReceipt": found.without,
        "withoutCandidates": without_candidates,
        "checked": if is_exact { "decisions" } else { "receipts" },
        "difference": difference.map(|difference| {
            let recorded = &found.decisions[difference.at];
            json!({
                "request": recorded.request,
                "session": recorded.session,
                "what": difference.what,
                "recorded": recorded.receipt,
                "now": difference.now,
            })
        }),
    })
    .to_string())
}

/// How many receipts name no candidates, so that nothing follows from their terms.
fn bare(decisions: &[Recorded]) -> usize {
    let bare = |recorded: &&Recorded| differ::rows(&recorded.receipt).is_empty();
    decisions.iter().filter(bare).count()
}

/// The first receipt that does not follow from its own terms.
fn receipts(decisions: &[Recorded]) -> Option<Difference> {
    decisions.iter().enumerate().find_map(|(at, recorded)| {
        let (what, now) = differ::recomputed(&recorded.receipt)?;
        Some(Difference { at, what, now })
    })
}
