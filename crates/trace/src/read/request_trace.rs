//! Our own trace, and Dynamo's: what did each request ask for, and when did it come and go?
//!
//! A line is written when an answer ends, so lines are in the order of ends, sessions mixed. Each
//! becomes a measured turn; what it waited for is inferred from the times. Where both have a field,
//! ours is taken before Dynamo's: it knows sessions that the client did not name, and microseconds.
//!
//! Ours may lack the tokens of an answer, which then has one: the shortest that a replay can make.
//!
//! Lines of tools and payloads are passed over: the time of a tool is in the gap between turns.
use std::num::NonZeroU32;

use warmpath_core::Micros;

use super::Context;
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, MILLIS, Num};
use crate::record::{Event, PhaseAfter, Record, Request};
use crate::traced::{Clock, Scope, Timing, TracedTurn};
use crate::turn::Next;

/// Where a request has no blocks.
const BLOCK_TOKENS: u32 = 64;

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    // Requests without blocks take the size of those that have some.
    let mut block_tokens = None;
    let mut before = None;
    context.lines(bytes, &mut |context, number, line| {
        let record = Record::parse(line)?;
        let written = Written::of(&record);
        // One that is left out is still the one before: a single late record costs itself alone.
        if let Some(before) = before.replace(written) {
            written.check_behind(before)?;
        }
        let mut event = record.event;
        if event.event_type != "request_end" {
            return Ok(());
        }
        let Some(request) = event.request.take() else {
            return Err(Fault::missing("request"));
        };
        let default = block_tokens.unwrap_or(context.options.block_tokens_or(BLOCK_TOKENS));
        let turn = turn(&event, request, default)?;
        if !turn.blocks.is_empty() {
            block_tokens = Some(turn.block_tokens);
        }
        context.take(turn, Place::Line(number))
    })
}

/// When a line was written.
#[derive(Clone, Copy)]
struct Written {
    /// Milliseconds since the recording began.
    at: f64,
    /// Milliseconds since 1970.
    unix: u64,
    is_ours: bool,
}

impl Written {
    fn of(record: &Record) -> Self {
        Self {
            at: record.timestamp,
            unix: record.event.event_time_unix_ms,
            is_ours: record.event.warmpath.is_some(),
        }
    }

    /// A recording that began after the line before it counts from 0 again. Events of others are timed
    /// by those who send them, so their wall clock may go back a little.
    fn check_behind(self, before: Self) -> Result<(), Fault> {
        let is_new = self.unix as f64 - self.at + 1.0 >= before.unix as f64;
        let (field, now, then) = if self.is_ours && self.unix < before.unix {
            ("event_time_unix_ms", self.unix as f64, before.unix as f64)
        } else if self.at < before.at && !is_new {
            ("timestamp", self.at, before.at)
        } else {
            return Ok(());
        };
        let detail =
            format!("{field} goes back, from {then} to {now}: records are in order of their ends");
        Err(Fault::new(ErrorKind::OutOfOrder, detail))
    }
}

fn turn(event: &Event, request: Request, default: NonZeroU32) -> Result<TracedTurn, Fault> {
    let ours = event.warmpath.as_ref();
    let theirs = event.agent_context.as_ref();
    let session = ours
        .and_then(|ours| ours.session.clone())
        .or_else(|| theirs.map(|theirs| theirs.session_id.clone()));
    let parent = ours
        .and_then(|ours| ours.parent.clone())
        .or_else(|| theirs.and_then(|theirs| theirs.parent_session_id.clone()));
    let timing = timing(event, &request)?;
    let next = next(event, &request);
    let replay = request.replay.unwrap_or_default();
    let block_tokens = match NonZeroU32::new(replay.trace_block_size) {
        Some(tokens) => tokens,
        None if replay.input_sequence_hashes.is_empty() => default,
        None => return Err(Fault::invalid("trace_block_size is 0")),
    };
    let replayed = (replay.input_length > 0).then_some(replay.input_length);
    let input_tokens = request.input_tokens.or(replayed).map(Num::Whole);
    // An answer that broke off, or whose maker tells no usage, is recorded as what it is: unknown.
    let unknown = ours.map(|_| 0);
    let output_tokens = request.output_tokens.or(unknown).map(Num::Whole);
    Ok(TracedTurn {
        rank: None,
        id: Some(request.request_id),
        session,
        parent,
        input_tokens: leaf::some_tokens("input_tokens", input_tokens)?,
        output_tokens: leaf::tokens("output_tokens", output_tokens)?.max(1),
        block_tokens,
        blocks: replay.input_sequence_hashes,
        scope: Scope::Global,
        timing,
        next,
    })
}

fn timing(event: &Event, request: &Request) -> Result<Timing, Fault> {
    let (start, end) = match event.warmpath.as_ref().and_then(|ours| ours.timings) {
        Some(timings) => (
            millis("timings.received", Num::Real(timings.received))?,
            millis("timings.end", Num::Real(timings.end))?,
        ),
        None => theirs(event, request)?,
    };
    if end < start {
        let detail = "it ended before it was received";
        return Err(Fault::new(ErrorKind::NegativeTime, detail));
    }
    Ok(Timing::Measured {
        start,
        end,
        clock: Clock::Wall,
    })
}

/// By Dynamo's fields: what is missing follows from the time of the event, which is its end.
fn theirs(event: &Event, request: &Request) -> Result<(Micros, Micros), Fault> {
    let written = millis("event_time_unix_ms", Num::Whole(event.event_time_unix_ms))?;
    let timing = &request.timing;
    let total = leaf::time("total_time_ms", timing.total_time_ms.map(Num::Real), MILLIS)?;
    let received = timing.request_received_ms.map(Num::Whole);
    Ok(
        match (leaf::time("request_received_ms", received, MILLIS)?, total) {
            (Some(start), Some(total)) => (start, start.plus(total)),
            (Some(start), None) => (start, written),
            (None, Some(total)) => (Micros(written.0.saturating_sub(total.0)), written),
            (None, None) => return Err(Fault::missing("request_received_ms")),
        },
    )
}

fn millis(field: &str, value: Num) -> Result<Micros, Fault> {
    Ok(leaf::time(field, Some(value), MILLIS)?.unwrap_or_default())
}

fn next(event: &Event, request: &Request) -> Next {
    if event
        .agent_context
        .as_ref()
        .and_then(|context| context.session_final)
        == Some(true)
    {
        return Next::End;
    }
    match event.warmpath.as_ref().and_then(|ours| ours.phase) {
        Some(PhaseAfter::Acting) => return Next::Tool,
        Some(PhaseAfter::Reasoning) => return Next::Person,
        None => {}
    }
    match &request.finish_reason_metadata {
        Some(finish) if !finish.tool_calls.is_empty() => Next::Tool,
        Some(finish) => match finish.finish_reason.as_deref() {
            Some("tool_calls" | "tool_use") => Next::Tool,
            Some("stop" | "end_turn") => Next::Person,
            _ => Next::Unknown,
        },
        None => Next::Unknown,
    }
}
