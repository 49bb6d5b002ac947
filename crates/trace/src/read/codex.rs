//! Rollout files of Codex: one JSON line for each item of a thread, a file for each thread.
//!
//! Items are inputs (messages of the user and the client, outputs of tools) or parts of an answer
//! (messages, reasoning, calls). The lines of usage end a request: what came before its first part
//! was its prompt. It starts with the last input and ends with the last part.
//!
//! There is no official description: the fields are those of version 0.171, whose usage has a line
//! of its own, and of older ones, where usage is an event that may be repeated. Input tokens include
//! cached ones. Lines of other kinds are passed over. Memory: 16 bytes a request.
use serde::Deserialize;
use serde_json::value::RawValue;
use warmpath_core::Micros;
use xxhash_rust::xxh3::xxh3_128;

use super::Context;
use super::claude_code::BLOCK_TOKENS;
use super::transcript::{Content, Prompts, SpanId};
use crate::date;
use crate::error::{Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, Num, Text};
use crate::traced::{Clock, Scope, Timing, TracedTurn};
use crate::turn::Next;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Option<Text>,
    timestamp: Option<Text>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    id: Option<Text>,
    parent_thread_id: Option<Text>,
    cli_version: Option<Text>,
    #[serde(borrow)]
    base_instructions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<Text>,
    role: Option<Text>,
}

#[derive(Deserialize)]
struct UsageRecord {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct UsageEvent {
    #[serde(rename = "type")]
    kind: Option<Text>,
    info: Option<UsageInfo>,
}

#[derive(Deserialize)]
struct UsageInfo {
    last_token_usage: Option<Usage>,
    total_token_usage: Option<Usage>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    input_tokens: Option<Num>,
    output_tokens: Option<Num>,
    total_tokens: Option<Num>,
}

/// Which lines tell the usage: those of their own, once one was seen.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Events { total: Option<Num> },
    Records,
}

/// Parts of an answer, while its usage is not known.
struct Parts {
    /// What its prompt has beyond the prompt before.
    prompt: Content,
    start: Micros,
    end: Micros,
    calls: bool,
}

struct Thread {
    session: String,
    parent: Option<String>,
    head: String,
}

struct Reader {
    thread: Option<Thread>,
    prompts: Prompts,
    before: Option<SpanId>,
    /// What came since that prompt.
    content: Content,
    last_input: Option<Micros>,
    parts: Option<Parts>,
    source: Source,
}

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    let mut reader = Reader {
        thread: None,
        prompts: Prompts::default(),
        before: None,
        content: Content::default(),
        last_input: None,
        parts: None,
        source: Source::Events { total: None },
    };
    context.lines(bytes, &mut |context, number, line| {
        let line: Line<'_> = serde_json::from_str(line)?;
        reader.take(context, Place::Line(number), &line)
    })
}

impl Reader {
    fn take(
        &mut self,
        context: &mut Context<'_>,
        place: Place,
        line: &Line<'_>,
    ) -> Result<(), Fault> {
        let kind = leaf::some_text("type", line.kind.clone())?;
        let payload = || {
            let payload = line.payload.ok_or_else(|| Fault::missing("payload"))?;
            Ok::<_, Fault>(payload.get())
        };
        match kind.as_str() {
            "session_meta" if self.thread.is_none() => self.thread = Some(thread(payload()?)?),
            "response_item" => self.item(payload()?, time(line)?)?,
            // The client replaced the conversation by a summary of it.
            "compacted" => {
                self.before = None;
                self.content = Content::default().and(payload()?);
            }
            "token_usage_record" => {
                let record: UsageRecord = serde_json::from_str(payload()?)?;
                self.source = Source::Records;
                let usage = record.usage.ok_or_else(|| Fault::missing("usage"))?;
                return self.usage(context, place, usage, time(line)?);
            }
            "event_msg" => {
                if let Some(usage) = self.usage_of_event(payload()?)? {
                    return self.usage(context, place, usage, time(line)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, payload: &str, time: Micros) -> Result<(), Fault> {
        let item: Item = serde_json::from_str(payload)?;
        let kind = leaf::some_text("payload.type", item.kind)?;
        let role = leaf::text("payload.role", item.role)?;
        let is_input = match kind.as_str() {
            "message" => role.as_deref() != Some("assistant"),
            other => other.ends_with("_output"),
        };
        if is_input {
            self.last_input = Some(time);
        } else {
            // What comes from here on is not of this prompt.
            let content = &mut self.content;
            let parts = self.parts.get_or_insert_with(|| Parts {
                prompt: std::mem::take(content),
                start: self.last_input.unwrap_or(time).min(time),
                end: time,
                calls: false,
            });
            parts.end = parts.end.max(time);
            parts.calls |= kind.ends_with("_call");
        }
        self.content = self.content.and(payload);
        Ok(())
    }

    fn usage_of_event(&mut self, payload: &str) -> Result<Option<Usage>, Fault> {
        let Source::Events { total: before } = self.source else {
            return Ok(None);
        };
        let event: UsageEvent = serde_json::from_str(payload)?;
        if event.kind != Some(Text::Is("token_count".to_owned())) {
            return Ok(None);
        }
        let Some(info) = event.info else {
            return Ok(None);
        };
        let total = info.total_token_usage.and_then(|usage| usage.total_tokens);
        if total.is_some() && total == before {
            return Ok(None);
        }
        self.source = Source::Events { total };
        Ok(info.last_token_usage)
    }

    fn usage(
        &mut self,
        context: &mut Context<'_>,
        place: Place,
        usage: Usage,
        time: Micros,
    ) -> Result<(), Fault> {
        let thread = self
            .thread
            .as_ref()
            .ok_or_else(|| Fault::missing("session_meta"))?;
        // Usage without an answer: it failed, or its parts are of a kind that is not kept.
        let parts = self.parts.take().unwrap_or(Parts {
            prompt: std::mem::take(&mut self.content),
            start: self.last_input.unwrap_or(time).min(time),
            end: time,
            calls: false,
        });
        let input_tokens = leaf::some_tokens("input_tokens", usage.input_tokens)?;
        let output_tokens = leaf::tokens("output_tokens", usage.output_tokens)?.max(1);
        let before = self.before;
        let prompt = self
            .prompts
            .grow(before, &thread.head, parts.prompt, input_tokens);
        self.before = Some(prompt);
        // A thread that was forked or resumed repeats what it began with.
        let copy = format!("codex {} {} {input_tokens}", parts.start.0, parts.end.0);
        if !context.seen.insert(xxh3_128(copy.as_bytes())) {
            return Ok(());
        }
        let block_tokens = context.options.block_tokens_or(BLOCK_TOKENS);
        let turn = TracedTurn {
            rank: None,
            id: None,
            session: Some(thread.session.clone()),
            parent: thread.parent.clone(),
            input_tokens,
            output_tokens,
            block_tokens,
            blocks: self.prompts.blocks(prompt, block_tokens)?,
            scope: Scope::Global,
            timing: Timing::Measured {
                start: parts.start,
                end: parts.end,
                clock: Clock::Wall,
            },
            next: if parts.calls {
                Next::Tool
            } else {
                Next::Person
            },
        };
        context.take(turn, place)
    }
}

fn thread(payload: &str) -> Result<Thread, Fault> {
    let meta: Meta<'_> = serde_json::from_str(payload)?;
    let version = leaf::text("cli_version", meta.cli_version)?.unwrap_or_default();
    let instructions = meta.base_instructions.map_or("", RawValue::get);
    let instructions = xxh3_128(instructions.as_bytes());
    Ok(Thread {
        session: leaf::some_text("payload.id", meta.id)?,
        parent: leaf::text("parent_thread_id", meta.parent_thread_id)?,
        head: format!("codex {version} {instructions}"),
    })
}

fn time(line: &Line<'_>) -> Result<Micros, Fault> {
    date::parse(
        "timestamp",
        &leaf::some_text("timestamp", line.timestamp.clone())?,
    )
}
