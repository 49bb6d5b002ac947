//! OpenTelemetry spans of model calls: one JSON value a file with a list of spans.
//!
//! Each span of a chat is a measured turn; spans of tools and agents are passed over. The session is
//! the conversation's id, or the trace's. What waits for what is inferred from times, so fans in and
//! out become what they were.
//!
//! Such traces hold messages. These are cut into blocks of about the size asked for (4 bytes a
//! token), hashed in order, each hash vouching for all before it, and dropped. Token counts are
//! those of the span, else estimated in the same way.
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::Context;
use super::whole::{self, Whole};
use crate::date;
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, Any, Num, Text};
use crate::traced::{Clock, Scope, Timing, TracedTurn};
use crate::turn::Next;

/// Tokens of a block unless asked for others.
const BLOCK_TOKENS: u32 = 64;
/// Bytes of text that a token stands for, where nothing better is known.
const TOKEN_BYTES: usize = 4;

#[derive(Deserialize)]
struct Span {
    trace_id: Option<Text>,
    span_id: Option<Text>,
    start_time: Option<Text>,
    end_time: Option<Text>,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(rename = "gen_ai.operation.name")]
    operation: Option<Text>,
    #[serde(rename = "gen_ai.conversation.id")]
    conversation: Option<Text>,
    #[serde(rename = "session.id")]
    session: Option<Text>,
    #[serde(rename = "exgentic.session.id")]
    exgentic_session: Option<Text>,
    #[serde(rename = "gen_ai.input.messages")]
    input: Option<Text>,
    #[serde(rename = "gen_ai.output.text")]
    output: Option<Text>,
    #[serde(
        rename = "gen_ai.usage.input_tokens",
        alias = "gen_ai.usage.prompt_tokens"
    )]
    input_tokens: Option<Num>,
    #[serde(
        rename = "gen_ai.usage.output_tokens",
        alias = "gen_ai.usage.completion_tokens"
    )]
    output_tokens: Option<Num>,
}

#[derive(Default)]
struct File {
    chats: u64,
}

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    let mut file = File::default();
    whole::read(context, bytes, &mut file)?;
    if file.chats == 0 {
        let fault = Fault::new(ErrorKind::Empty, "there is no span of a chat in it");
        context.fault(Place::File, fault)?;
    }
    Ok(())
}

impl Whole for File {
    type Item = Span;

    const LIST: &'static str = "spans";

    fn field(&mut self, _: &str, _: Any) -> Result<(), Fault> {
        Ok(())
    }

    fn item(&mut self, context: &mut Context<'_>, number: u64, span: Span) -> Result<(), Fault> {
        self.chats += 1;
        let operation = leaf::text("gen_ai.operation.name", span.attributes.operation.clone())?;
        match operation.as_deref() {
            Some("chat" | "text_completion" | "generate_content") => {}
            Some(_) => return Ok(()),
            None => return Err(Fault::missing("gen_ai.operation.name")),
        }
        let turn = turn(span, context.options.block_tokens_or(BLOCK_TOKENS))?;
        context.take(turn, Place::Record(number))
    }
}

fn turn(span: Span, block_tokens: NonZeroU32) -> Result<TracedTurn, Fault> {
    let attributes = span.attributes;
    let session = attributes
        .conversation
        .or(attributes.session)
        .or(attributes.exgentic_session)
        .or(span.trace_id.clone());
    let session = leaf::some_text("session.id", session)?;
    let start = leaf::some_text("start_time", span.start_time)?;
    let end = leaf::some_text("end_time", span.end_time)?;
    let (start, end) = (
        date::parse("start_time", &start)?,
        date::parse("end_time", &end)?,
    );
    if end < start {
        return Err(Fault::new(
            ErrorKind::NegativeTime,
            "it ended before it began",
        ));
    }
    let input = leaf::text("gen_ai.input.messages", attributes.input)?.unwrap_or_default();
    let output = leaf::text("gen_ai.output.text", attributes.output)?.unwrap_or_default();
    let (mut blocks, bytes) = blocks(&input, block_tokens);
    let input_tokens = match attributes.input_tokens {
        None => estimate(bytes),
        counted => leaf::some_tokens("gen_ai.usage.input_tokens", counted)?,
    };
    let output_tokens = match attributes.output_tokens {
        None => estimate(output.len()),
        counted => leaf::tokens("gen_ai.usage.output_tokens", counted)?.max(1),
    };
    blocks.truncate((input_tokens / block_tokens) as usize);
    let trace = leaf::text("trace_id", span.trace_id)?.unwrap_or_default();
    let id = leaf::text("span_id", span.span_id)?;
    Ok(TracedTurn {
        rank: None,
        id: id.map(|id| format!("{trace}/{id}")),
        session: Some(session),
        parent: None,
        input_tokens,
        output_tokens,
        block_tokens,
        blocks,
        scope: Scope::Global,
        timing: Timing::Measured {
            start,
            end,
            clock: Clock::Wall,
        },
        next: Next::Unknown,
    })
}

/// Tokens of so many bytes, where nothing better is known.
pub(super) fn estimate(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(TOKEN_BYTES))
        .unwrap_or(u32::MAX)
        .clamp(1, leaf::MAX_TOKENS)
}

#[derive(Deserialize)]
struct Message<'a> {
    role: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Hashes of the full blocks of a list of messages, and how many bytes it has.
fn blocks(messages: &str, block_tokens: NonZeroU32) -> (Vec<u64>, usize) {
    let block_bytes = block_tokens.get() as usize * TOKEN_BYTES;
    let mut cutter = Cutter::new(block_bytes);
    match serde_json::from_str::<Vec<Message<'_>>>(messages) {
        Ok(list) => {
            for message in list {
                cutter.take(message.role.unwrap_or_default().as_bytes());
                // No text has this byte, so no two lists of messages are alike by accident.
                cutter.take(&[0xff]);
                cutter.take(message.content.map_or("", RawValue::get).as_bytes());
                cutter.take(&[0xff]);
            }
        }
        // Not in the usual form: its text is still what was sent.
        Err(_) => cutter.take(messages.as_bytes()),
    }
    (cutter.blocks, cutter.bytes)
}

/// Cuts bytes into blocks and hashes them in a chain.
struct Cutter {
    block_bytes: usize,
    hasher: Box<Xxh3>,
    blocks: Vec<u64>,
    bytes: usize,
}

impl Cutter {
    fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            hasher: Box::new(Xxh3::new()),
            blocks: Vec::new(),
            bytes: 0,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.block_bytes - self.bytes % self.block_bytes;
            let (head, rest) = bytes.split_at(room.min(bytes.len()));
            self.hasher.update(head);
            self.bytes += head.len();
            bytes = rest;
            if self.bytes.is_multiple_of(self.block_bytes) {
                let above = self.blocks.last().copied().unwrap_or_default();
                let local = self.hasher.digest().to_le_bytes();
                self.blocks.push(xxh3_64_with_seed(&local, above));
                self.hasher.reset();
            }
        }
    }
}
