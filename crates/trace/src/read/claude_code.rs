//! Transcripts of Claude Code: one JSON line for each message, a file for each session and, beside
//! it, for each sub-agent.
//!
//! A line names the line before it in its conversation, which makes a tree: an answer's prompt is
//! the path to it. An answer is written as several lines with one message id, one for each part of
//! its content; its usage is that of the last. A request starts when the line before it was written
//! (what the user typed, or the result of a tool) and ends with its last line.
//!
//! There is no official description: the fields are those that versions 2.0 to 2.1 write. Lines of
//! other kinds are passed over, answers that no model gave (errors) too, and answers that a resumed
//! session copied from another file count once. Memory: some 100 bytes a line, until its file ends.
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use warmpath_core::Micros;
use xxhash_rust::xxh3::xxh3_128;

use super::Context;
use super::transcript::{Content, Prompts, SpanId};
use crate::date;
use crate::error::{Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, Num, Text};
use crate::traced::{Clock, Scope, Timing, TracedTurn};
use crate::turn::Next;

/// Tokens of a block unless asked for others.
pub(super) const BLOCK_TOKENS: u32 = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Option<Text>,
    uuid: Option<Text>,
    parent_uuid: Option<Text>,
    session_id: Option<Text>,
    agent_id: Option<Text>,
    is_sidechain: Option<bool>,
    is_api_error_message: Option<bool>,
    timestamp: Option<Text>,
    version: Option<Text>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    attachment: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<Text>,
    model: Option<Text>,
    stop_reason: Option<Text>,
    usage: Option<Usage>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    input_tokens: Option<Num>,
    cache_creation_input_tokens: Option<Num>,
    cache_read_input_tokens: Option<Num>,
    output_tokens: Option<Num>,
}

/// A conversation up to a line.
#[derive(Clone, Copy, Default)]
struct Node {
    prompt: Option<SpanId>,
    /// What came after that prompt.
    content: Content,
    time: Option<Micros>,
    /// The side chain that it belongs to, if the transcript does not name its agent.
    side: Option<u32>,
}

/// A line of an answer.
struct Part<'a, 'b> {
    line: &'a Line<'b>,
    place: Place,
    uuid: &'a str,
    time: Micros,
}

/// A request whose answer may go on.
struct Answer {
    place: Place,
    session: String,
    parent: Option<String>,
    prompt: SpanId,
    start: Micros,
    end: Micros,
    input_tokens: u32,
    output_tokens: u32,
    next: Next,
}

#[derive(Default)]
struct Reader {
    prompts: Prompts,
    nodes: HashMap<u128, Node>,
    /// Answers in the order of their first lines.
    answers: Vec<Answer>,
    /// Where each message id is among them; nowhere if another file has it.
    messages: HashMap<u128, Option<usize>>,
    sides: u32,
}

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    let mut reader = Reader::default();
    context.lines(bytes, &mut |context, number, line| {
        let line: Line<'_> = serde_json::from_str(line)?;
        reader.take(context, Place::Line(number), line)
    })?;
    let block_tokens = context.options.block_tokens_or(BLOCK_TOKENS);
    for answer in reader.answers {
        let turn = reader.prompts.blocks(answer.prompt, block_tokens);
        let turn = turn.map(|blocks| TracedTurn {
            rank: None,
            id: None,
            session: Some(answer.session),
            parent: answer.parent,
            input_tokens: answer.input_tokens,
            output_tokens: answer.output_tokens,
            block_tokens,
            blocks,
            scope: Scope::Global,
            timing: Timing::Measured {
                start: answer.start,
                end: answer.end,
                clock: Clock::Wall,
            },
            next: answer.next,
        });
        context.emit(answer.place, turn)?;
    }
    Ok(())
}

impl Reader {
    fn take(
        &mut self,
        context: &mut Context<'_>,
        place: Place,
        line: Line<'_>,
    ) -> Result<(), Fault> {
        let kind = leaf::text("type", line.kind.clone())?.unwrap_or_default();
        let is_message = matches!(
            kind.as_str(),
            "user" | "assistant" | "attachment" | "system"
        );
        let Some(uuid) = leaf::text("uuid", line.uuid.clone())?.filter(|_| is_message) else {
            return Ok(());
        };
        let above = leaf::text("parentUuid", line.parent_uuid.clone())?;
        let mut node = above
            .and_then(|above| self.nodes.get(&xxh3_128(above.as_bytes())))
            .copied()
            .unwrap_or_else(|| self.root(&line));
        let time = match leaf::text("timestamp", line.timestamp.clone())? {
            Some(text) => date::parse("timestamp", &text)?,
            None => return Err(Fault::missing("timestamp")),
        };
        if kind == "assistant" && line.is_api_error_message != Some(true) {
            let part = Part {
                line: &line,
                place,
                uuid: &uuid,
                time,
            };
            self.answer(context, &part, &mut node)?;
        }
        let content = line.message.and_then(|message| message.content);
        for text in [content, line.attachment].into_iter().flatten() {
            node.content = node.content.and(text.get());
        }
        node.time = Some(time);
        self.nodes.insert(xxh3_128(uuid.as_bytes()), node);
        Ok(())
    }

    /// Where a conversation begins.
    fn root(&mut self, line: &Line<'_>) -> Node {
        let unnamed = line.is_sidechain == Some(true) && line.agent_id.is_none();
        self.sides += u32::from(unnamed);
        Node {
            side: unnamed.then_some(self.sides),
            ..Node::default()
        }
    }

    /// A line of an answer: the first one begins a request, the others go on with it.
    fn answer(
        &mut self,
        context: &mut Context<'_>,
        part: &Part<'_, '_>,
        node: &mut Node,
    ) -> Result<(), Fault> {
        let message = part.line.message.as_ref();
        let message = message.ok_or_else(|| Fault::missing("message"))?;
        let model = leaf::text("message.model", message.model.clone())?.unwrap_or_default();
        if model == "<synthetic>" {
            return Ok(());
        }
        let usage = message
            .usage
            .ok_or_else(|| Fault::missing("message.usage"))?;
        let output_tokens = leaf::tokens("output_tokens", usage.output_tokens)?.max(1);
        let next = match leaf::text("stop_reason", message.stop_reason.clone())?.as_deref() {
            Some("tool_use") => Next::Tool,
            Some("end_turn" | "stop_sequence") => Next::Person,
            _ => Next::Unknown,
        };
        let id = leaf::text("message.id", message.id.clone())?;
        let id = xxh3_128(id.as_deref().unwrap_or(part.uuid).as_bytes());
        let answer = match self.messages.get(&id) {
            Some(&known) => known,
            None => {
                let answer = self.begin(part, (&model, input_tokens(&usage)?), node)?;
                // The same answer in another file has the same id and time.
                let copy = xxh3_128(format!("{id}{}", part.time.0).as_bytes());
                let is_new = context.seen.insert(copy);
                let index = is_new.then_some(self.answers.len());
                self.answers.extend(is_new.then_some(answer));
                self.messages.insert(id, index);
                index
            }
        };
        if let Some(answer) = answer {
            let answer = &mut self.answers[answer];
            answer.end = answer.end.max(part.time);
            answer.output_tokens = answer.output_tokens.max(output_tokens);
            if next != Next::Unknown {
                answer.next = next;
            }
        }
        Ok(())
    }

    /// The request of an answer whose first line this is: a model and the tokens of its prompt.
    fn begin(
        &mut self,
        part: &Part<'_, '_>,
        (model, input_tokens): (&str, u32),
        node: &mut Node,
    ) -> Result<Answer, Fault> {
        let line = part.line;
        let session = leaf::some_text("sessionId", line.session_id.clone())?;
        let agent = leaf::text("agentId", line.agent_id.clone())?;
        let head = head(line, model, node.side.is_some() || agent.is_some())?;
        let prompt = self
            .prompts
            .grow(node.prompt, &head, node.content, input_tokens);
        (node.prompt, node.content) = (Some(prompt), Content::default());
        let (session, parent) = match (agent, node.side) {
            (Some(agent), _) => (format!("{session}/{agent}"), Some(session)),
            (None, Some(side)) => (format!("{session}/side.{side}"), Some(session)),
            (None, None) => (session, None),
        };
        Ok(Answer {
            place: part.place,
            session,
            parent,
            prompt,
            start: node.time.unwrap_or(part.time).min(part.time),
            end: part.time,
            input_tokens,
            output_tokens: 1,
            next: Next::Unknown,
        })
    }
}

/// All tokens of the prompt: the provider counts cached ones apart.
fn input_tokens(usage: &Usage) -> Result<u32, Fault> {
    let mut sum: u64 = u64::from(leaf::tokens("input_tokens", usage.input_tokens)?);
    for (field, part) in [
        (
            "cache_creation_input_tokens",
            usage.cache_creation_input_tokens,
        ),
        ("cache_read_input_tokens", usage.cache_read_input_tokens),
    ] {
        if part.is_some() {
            sum += u64::from(leaf::tokens(field, part)?);
        }
    }
    leaf::some_tokens("input_tokens", Some(Num::Whole(sum)))
}

/// What the hidden beginning of a prompt depends on, as far as a transcript shows.
fn head(line: &Line<'_>, model: &str, is_agent: bool) -> Result<String, Fault> {
    let version = leaf::text("version", line.version.clone())?.unwrap_or_default();
    let kind = if is_agent { "agent" } else { "main" };
    Ok(format!("claude-code {version} {model} {kind}"))
}
