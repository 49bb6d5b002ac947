//! The turns of a workload for a driver in JS, which sends them over a wire.
use napi::bindgen_prelude::{Result, Uint32Array};
use napi_derive::napi;
use serde::Serialize;

use warmpath_trace::{Loaded, Moment, Next, Start, Workload};

use super::workload::Handle;
use crate::error::{Code, guard, invalid};

/// Columns, one entry a turn, but for sessions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Columns<'a> {
    sessions: Vec<&'a str>,
    /// Index of the parent of each session; -1 for none.
    parents: Vec<i64>,
    session: Vec<u32>,
    input_tokens: Vec<u32>,
    output_tokens: Vec<u32>,
    next: Vec<&'static str>,
    /// Milliseconds since the replay began; absent where a turn waits for others.
    at_ms: Vec<Option<f64>>,
    waits: Vec<Vec<WaitFor>>,
}

/// A turn that is waited for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitFor {
    turn: u32,
    moment: &'static str,
    delay_ms: f64,
}

/// All turns as JSON columns; what a turn waits for stands before it. O(turns).
#[napi]
pub fn workload_turns(
    #[napi(ts_arg_type = "WorkloadHandle")] handle: &Handle,
) -> Result<String, Code> {
    guard(|| {
        let Loaded { workload, .. } = &***handle;
        serde_json::to_string(&columns(workload)).map_err(|e| invalid(e.to_string()))
    })
}

fn columns(workload: &Workload) -> Columns<'_> {
    let (sessions, turns) = (workload.sessions(), workload.turns());
    Columns {
        sessions: sessions.iter().map(|session| &*session.name).collect(),
        parents: sessions
            .iter()
            .map(|session| session.parent.map_or(-1, i64::from))
            .collect(),
        session: turns.iter().map(|turn| turn.session).collect(),
        input_tokens: turns.iter().map(|turn| turn.input_tokens).collect(),
        output_tokens: turns.iter().map(|turn| turn.output_tokens).collect(),
        next: turns.iter().map(|turn| next(turn.next)).collect(),
        at_ms: turns
            .iter()
            .map(|turn| match turn.start {
                Start::At(at) => Some(at.0 as f64 / 1_000.0),
                Start::After(_) => None,
            })
            .collect(),
        waits: turns
            .iter()
            .map(|turn| waits(workload, turn.start))
            .collect(),
    }
}

fn waits(workload: &Workload, start: Start) -> Vec<WaitFor> {
    let waits = workload.waits(start).iter().map(|wait| WaitFor {
        turn: wait.turn,
        moment: match wait.moment {
            Moment::Start => "start",
            Moment::End => "end",
        },
        delay_ms: wait.delay.0 as f64 / 1_000.0,
    });
    waits.collect()
}

fn next(next: Next) -> &'static str {
    match next {
        Next::Tool => "tool",
        Next::Person => "person",
        Next::Unknown => "unknown",
        Next::End => "end",
    }
}

/// The blocks of the prompt of a turn: numbers that are equal where the content is.
#[napi]
pub fn workload_blocks(
    #[napi(ts_arg_type = "WorkloadHandle")] handle: &Handle,
    turn: u32,
) -> Result<Uint32Array, Code> {
    guard(|| {
        let workload = &handle.workload;
        if turn as usize >= workload.turns().len() {
            return Err(invalid("there is no such turn"));
        }
        let mut blocks = Vec::new();
        workload.read_blocks(turn as usize, &mut blocks);
        Ok(blocks.into())
    })
}
