//! What is one line of our own trace?
//!
//! The schema `dynamo.request.trace.v1`: an envelope with the time since the recording began, and an
//! event. Its tools read what we write. What is ours stands under one more key of the event,
//! `warmpath`, which they pass over. There is no prompt, answer or tool argument in it.
//!
//! Types only: [`crate::RecordWriter`] writes them, [`records`] reads them, and the reader of
//! workloads takes of them what it needs. Unknown fields are passed over, so that a newer recorder
//! does not break an older reader; an unknown schema is an error.
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::detect::{Format, detect};
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::{self, Lines, Named};
use crate::leaf::{self, MILLIS, Num};
use crate::skip::Leniency;

mod request;

pub use request::{FinishReason, Replay, Request, RequestTiming, ToolCall, WorkerInfo};

/// The schema that is written, and the only one that is read.
pub const REQUEST_TRACE_SCHEMA: &str = "dynamo.request.trace.v1";

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since the recording began.
    pub timestamp: f64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// [`REQUEST_TRACE_SCHEMA`].
    pub schema: String,
    /// `request_end` for a request; others (tools, payloads) are passed over by readers here.
    pub event_type: String,
    /// Milliseconds since 1970 when it happened.
    pub event_time_unix_ms: u64,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_source: Option<String>,
    /// Whose request it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_context: Option<AgentContext>,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// What only Warmpath records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmpath: Option<Warmpath>,
}

/// Whose request it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentContext {
    /// The session.
    pub session_id: String,
    /// The session that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<String>,
    /// Whether this was the last turn of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_final: Option<bool>,
}

/// What only Warmpath records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warmpath {
    /// The session as the router saw it, also where the client did not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The number of the turn in its session, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The phase that the session was in afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseAfter>,
    /// Cached tokens that the decision counted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_cached_tokens: Option<u64>,
    /// Cached tokens that the engine or provider reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cached_tokens: Option<u64>,
    /// Names of the tools that the answer called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// When what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// The id of the decision's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The receipt itself, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<serde_json::Value>,
    /// The scheduler that decided, if it keeps what it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// What that was told since the record before: its decisions can be made again from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<serde_json::Value>,
}

/// The phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseAfter {
    /// It runs tools.
    Acting,
    /// It does not; the loop is over.
    Reasoning,
}

/// When what happened to a turn, milliseconds since 1970 with fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// It was received.
    pub received: f64,
    /// Milliseconds that it was held before it was sent.
    #[serde(default)]
    pub held: f64,
    /// Its first token came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token: Option<f64>,
    /// Its last token came, or it was given up.
    pub end: f64,
}

impl Record {
    /// A line of a trace.
    pub(crate) fn parse(line: &str) -> Result<Self, Fault> {
        let record: Self = serde_json::from_str(line).map_err(|error| explained(line, error))?;
        check_schema(&record.event.schema)?;
        record.check_times()?;
        Ok(record)
    }

    /// Every time and duration, also those that no replay looks at.
    fn check_times(&self) -> Result<(), Fault> {
        let timing = self.event.request.as_ref().map(|request| &request.timing);
        let timings = self.event.warmpath.as_ref().and_then(|ours| ours.timings);
        let theirs = timing.map(|timing| {
            [
                ("prefill_wait_time_ms", timing.prefill_wait_time_ms),
                ("prefill_time_ms", timing.prefill_time_ms),
                ("ttft_ms", timing.ttft_ms),
                ("total_time_ms", timing.total_time_ms),
                ("avg_itl_ms", timing.avg_itl_ms),
                (
                    "kv_transfer_estimated_latency_ms",
                    timing.kv_transfer_estimated_latency_ms,
                ),
            ]
        });
        let ours = timings.map(|timings| {
            [
                ("timings.received", Some(timings.received)),
                ("timings.held", Some(timings.held)),
                ("timings.first_token", timings.first_token),
                ("timings.end", Some(timings.end)),
            ]
        });
        let own = [("timestamp", Some(self.timestamp))];
        let all = own
            .into_iter()
            .chain(theirs.into_iter().flatten())
            .chain(ours.into_iter().flatten());
        for (field, value) in all {
            leaf::time(field, value.map(Num::Real), MILLIS)?;
        }
        match timings.and_then(|timings| Some((timings, timings.first_token?))) {
            Some((timings, first)) if first < timings.received || timings.end < first => {
                let detail = "its first token came before it was received, or after its end";
                Err(Fault::new(ErrorKind::NegativeTime, detail))
            }
            _ => Ok(()),
        }
    }
}

fn check_schema(schema: &str) -> Result<(), Fault> {
    if schema == REQUEST_TRACE_SCHEMA {
        return Ok(());
    }
    let detail = format!("schema {schema:?} is not known here: {REQUEST_TRACE_SCHEMA} is");
    Err(Fault::new(ErrorKind::UnknownVersion, detail))
}

/// Why a line is no record. Another version may have other fields, so the version comes first; and a
/// time below zero is one, although the parser wants numbers from 0.
fn explained(line: &str, error: serde_json::Error) -> Fault {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return error.into();
    };
    let event = &value["event"];
    if let Some(Err(fault)) = event["schema"].as_str().map(check_schema) {
        return fault;
    }
    let times = [
        ("event_time_unix_ms", &event["event_time_unix_ms"]),
        (
            "request_received_ms",
            &event["request"]["request_received_ms"],
        ),
    ];
    for (field, value) in times {
        if value.as_f64().is_some_and(|time| time < 0.0) {
            let detail = format!("{field} is negative: {value}");
            return Fault::new(ErrorKind::NegativeTime, detail);
        }
    }
    error.into()
}

/// What was not shown of our own traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Files of folders that are no such traces.
    pub files: u64,
    /// Lines that are no records; lenient only.
    pub lines: u64,
}

/// Shows each record of our own traces, of any event type, in order, with its file and line; decompresses
/// them. Files of folders that are no such traces are passed over.
///
/// # Errors
/// [`TraceError`] for the first line that is no record, with its number, and for a file or a folder
/// without any; when lenient, such a line is counted. What `visit` says is an error in any case.
pub fn records(
    sources: &[PathBuf],
    leniency: Leniency,
    visit: &mut dyn FnMut(Record, &Path, u64) -> Result<(), TraceError>,
) -> Result<PassedOver, TraceError> {
    let mut passed = PassedOver::default();
    for found in input::list(sources)? {
        let path = found.path.as_path();
        let at = |place, fault| TraceError::new(fault, path, place);
        match (input::open(path).and_then(detect), found.named) {
            (Ok(Format::RequestTrace), _) => {}
            (_, Named::Folder) => {
                passed.files += 1;
                continue;
            }
            (Ok(format), Named::Itself) => {
                let name = format.name();
                let detail = format!("this needs records of ours, and these are {name}");
                return Err(at(
                    Place::File,
                    Fault::new(ErrorKind::UnknownFormat, detail),
                ));
            }
            // Reading says what is wrong and where.
            (Err(_), Named::Itself) => {}
        }
        let bytes = input::open(path).map_err(|fault| at(Place::File, fault))?;
        let mut lines = Lines::new(bytes, crate::Options::default().max_line_bytes);
        let mut is_empty = true;
        loop {
            let read = lines.next();
            let is_last = read.as_ref().err().is_some_and(input::is_final);
            let record = match read {
                Ok(Some((_, line))) => Record::parse(line),
                Ok(None) => break,
                Err(fault) => Err(fault),
            };
            let number = lines.number();
            match record {
                Ok(record) => {
                    is_empty = false;
                    visit(record, path, number)?;
                }
                Err(fault) if leniency == Leniency::Strict => {
                    return Err(at(Place::Line(number), fault));
                }
                Err(_) => passed.lines += 1,
            }
            if is_last {
                break;
            }
        }
        if is_empty {
            let fault = Fault::new(ErrorKind::Empty, "there is no record in it");
            return Err(at(Place::File, fault));
        }
    }
    Ok(passed)
}
