//! Decisions and steps as records tell of them.
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use napi::bindgen_prelude::Result;
use serde_json::Value;

use warmpath_trace::{ErrorKind, Leniency, PassedOver, Record, TraceError, records};

use super::differ;
use crate::error::{Code, invalid, unreadable};
use crate::journal::Step;

/// One decision.
pub(super) struct Recorded {
    pub(super) request: String,
    pub(super) session: Option<String>,
    /// The turn, as its scheduler numbers turns.
    pub(super) turn: u64,
    /// Its text, which takes a fifth of the memory.
    receipt: Box<str>,
}

impl Recorded {
    pub(super) fn receipt(&self) -> Value {
        // It was a value before it was a text.
        serde_json::from_str(&self.receipt).unwrap_or_default()
    }
}

/// What one scheduler has left in a trace.
#[derive(Default)]
pub(super) struct Recording {
    /// In order; empty where nothing was kept.
    pub(super) steps: Vec<Step>,
    /// By the numbers of their receipts: decisions are numbered as they are made.
    pub(super) decisions: HashMap<u64, Recorded>,
}

/// All of a trace.
#[derive(Default)]
pub(super) struct Recordings {
    /// In the order of their first records.
    pub(super) all: Vec<Recording>,
    /// Records without a whole receipt.
    pub(super) without: u64,
    /// Files of folders that are no trace of ours, and lines that are no records.
    pub(super) passed_over: PassedOver,
}

/// Reads files and folders. What is there twice counts once.
pub(super) fn read(paths: &[PathBuf], leniency: Leniency) -> Result<Recordings, Code> {
    let mut reading = Reading::default();
    let mut unread = 0;
    let passed_over = records(paths, leniency, &mut |record, path, line| match (
        reading.take(record, path, line),
        leniency,
    ) {
        (Err(_), Leniency::Lenient) => {
            unread += 1;
            Ok(())
        }
        (taken, _) => taken,
    });
    reading.found.passed_over = passed_over.map_err(|error| unreadable(&error))?;
    reading.found.passed_over.lines += unread;
    let mut found = reading.found;
    if found
        .all
        .iter()
        .all(|recording| recording.decisions.is_empty())
    {
        if found.without == 0 && found.passed_over.files > 0 {
            let detail = format!(
                "none of the {} files there is of ours",
                found.passed_over.files
            );
            return Err(invalid(detail));
        }
        return Err(invalid(
            "no record has a whole receipt: record with `trace: { receipts: 'full' }`",
        ));
    }
    for recording in &mut found.all {
        recording.steps.sort_by_key(|step| step.n);
        recording.steps.dedup_by_key(|step| step.n);
    }
    Ok(found)
}

#[derive(Default)]
struct Reading {
    found: Recordings,
    /// Which recording is which scheduler's.
    named: HashMap<String, usize>,
    requests: HashSet<String>,
}

impl Reading {
    fn take(
        &mut self,
        record: Record,
        path: &Path,
        line: u64,
    ) -> std::result::Result<(), TraceError> {
        let bad = |detail: String| TraceError::in_line(ErrorKind::InvalidValue, detail, path, line);
        let event = record.event;
        if event.event_type != "request_end" {
            return Ok(());
        }
        let (Some(request), Some(ours)) = (event.request, event.warmpath) else {
            self.found.without += 1;
            return Ok(());
        };
        // Decisions of whoever keeps no steps are checked one by one, so that they may be together.
        let scheduler = ours.scheduler.unwrap_or_default();
        let all = &mut self.found.all;
        let at = *self.named.entry(scheduler).or_insert_with(|| {
            all.push(Recording::default());
            all.len() - 1
        });
        let recording = &mut all[at];
        if !self.requests.insert(request.request_id.clone()) {
            return Ok(());
        }
        let steps = ours.steps.into_iter().map(serde_json::from_value);
        let steps = steps.collect::<std::result::Result<Vec<Step>, _>>();
        let steps = steps.map_err(|error| bad(format!("a step of the scheduler: {error}")))?;
        recording.steps.extend(steps);
        let Some(receipt) = ours.receipt else {
            self.found.without += 1;
            return Ok(());
        };
        differ::check(&receipt).map_err(|detail| bad(format!("the receipt: {detail}")))?;
        let number = receipt["id"].as_str().and_then(|id| id.parse().ok());
        let number: u64 = number.ok_or_else(|| bad("the receipt: id is no number".to_owned()))?;
        // Without steps a number says nothing.
        let number = match recording.steps.is_empty() && recording.decisions.contains_key(&number) {
            true => u64::MAX - recording.decisions.len() as u64,
            false => number,
        };
        let recorded = Recorded {
            request: request.request_id,
            session: ours.session,
            turn: receipt["reservation"].as_u64().unwrap_or(u64::MAX),
            receipt: receipt.to_string().into(),
        };
        recording.decisions.insert(number, recorded);
        Ok(())
    }
}
