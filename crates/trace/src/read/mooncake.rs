//! Mooncake rows: what arrived when, with which blocks?
//!
//! Three kinds share one reader, since each only adds fields. Plain rows arrive at their timestamp,
//! or, with a session, after the previous row of it. Agentic rows name what they wait for. Version 2
//! begins with a header, and its rows say for each dependency which moment counts.
//!
//! It trusts ids of blocks only within their scope: rows without a header share theirs with all
//! files, those under a header that says `local` within their play, and those that our own writers
//! numbered within their file. Memory: one entry a session and a play.
use std::num::NonZeroU32;

use hashbrown::HashMap;
use serde::Deserialize;
use warmpath_core::Micros;

use super::Context;
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::Bytes;
use crate::leaf::{self, Ids, MILLIS, Num, Text};
use crate::traced::{Dependency, Relation, Scope, Timing, TracedTurn};
use crate::turn::{Moment, Next};
use crate::write::{AGENTIC_SCHEMA, AGENTIC_VERSION, SOURCE};

/// Tokens of a block of the published traces.
const BLOCK_TOKENS: u32 = 512;

#[derive(Deserialize)]
struct Row {
    schema: Option<Text>,
    request_id: Option<Text>,
    session_id: Option<Text>,
    play_id: Option<Text>,
    #[serde(alias = "input_tokens")]
    input_length: Option<Num>,
    #[serde(alias = "output_tokens")]
    output_length: Option<Num>,
    hash_ids: Option<Ids>,
    #[serde(alias = "created_time")]
    timestamp: Option<Num>,
    #[serde(alias = "delay_ms")]
    delay: Option<Num>,
    not_before_ms: Option<Num>,
    tool_wait_ms: Option<Num>,
    request_kind: Option<Text>,
    wait_for: Option<Vec<Text>>,
    dependencies: Option<Vec<Edge>>,
    warmpath: Option<Extra>,
}

#[derive(Deserialize)]
struct HeaderRow {
    schema: Option<Text>,
    version: Option<Num>,
    block_size: Option<Num>,
    hash_id_scope: Option<Text>,
    source: Option<Source>,
}

#[derive(Deserialize)]
struct Source {
    format: Option<Text>,
}

#[derive(Deserialize)]
struct Edge {
    request_id: Option<Text>,
    trigger: Option<Text>,
    delay_ms: Option<Num>,
    relation: Option<Text>,
}

#[derive(Default, Deserialize)]
struct Extra {
    parent: Option<Text>,
    next: Option<Text>,
    block_tokens: Option<Num>,
    rank: Option<Num>,
}

struct Header {
    block_tokens: NonZeroU32,
    share: Share,
}

/// Which rows mean the same block by the same id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Play,
    File,
    All,
}

#[derive(Default)]
struct Reader {
    header: Option<Header>,
    /// The last timestamp of rows that arrive by themselves.
    arrived: Micros,
    /// The last timestamp of each session.
    sessions: HashMap<String, Option<Micros>>,
    plays: HashMap<String, u32>,
}

pub(super) fn read(context: &mut Context<'_>, bytes: Bytes) -> Result<(), TraceError> {
    let mut reader = Reader::default();
    context.lines(bytes, &mut |context, number, line| {
        let row: Row = serde_json::from_str(line)?;
        if row.schema.is_some() {
            reader.header = Some(header(serde_json::from_str(line)?)?);
            return Ok(());
        }
        let turn = reader.turn(context, row)?;
        context.take(turn, Place::Line(number))
    })
}

fn header(row: HeaderRow) -> Result<Header, Fault> {
    let schema = leaf::some_text("schema", row.schema)?;
    let version = row.version.ok_or_else(|| Fault::missing("version"))?;
    let version = leaf::whole("version", version)?;
    if schema != AGENTIC_SCHEMA || version != AGENTIC_VERSION {
        let detail = format!("{schema} {version} is no schema and version that is known");
        return Err(Fault::new(ErrorKind::UnknownVersion, detail));
    }
    let block_tokens = leaf::some_tokens("block_size", row.block_size)?;
    let scope = leaf::text("hash_id_scope", row.hash_id_scope)?;
    let source = row.source.and_then(|source| source.format);
    let is_ours = leaf::text("source.format", source)?.as_deref() == Some(SOURCE);
    Ok(Header {
        block_tokens: block_tokens
            .try_into()
            .map_err(|_| Fault::invalid("block_size is 0"))?,
        share: match scope.as_deref() {
            None | Some("local") => Share::Play,
            Some("global") if is_ours => Share::File,
            Some("global") => Share::All,
            Some(other) => return Err(Fault::invalid(format!("hash_id_scope is {other:?}"))),
        },
    })
}

impl Reader {
    fn turn(&mut self, context: &Context<'_>, mut row: Row) -> Result<TracedTurn, Fault> {
        let input_tokens = leaf::some_tokens("input_length", row.input_length)?;
        let output_tokens = leaf::tokens("output_length", row.output_length)?.max(1);
        let blocks = row
            .hash_ids
            .take()
            .unwrap_or_default()
            .checked("hash_ids")?;
        let id = leaf::text("request_id", row.request_id.take())?;
        let session = leaf::text("session_id", row.session_id.take())?;
        let extra = row.warmpath.take().unwrap_or_default();
        let parent = leaf::text("parent", extra.parent)?;
        let next = next(leaf::text("next", extra.next)?.as_deref());
        let said = match &self.header {
            Some(header) => Some(header.block_tokens),
            None => block_tokens(extra.block_tokens)?,
        };
        let share = match &self.header {
            Some(header) => header.share,
            None if said.is_some() => Share::File,
            None => Share::All,
        };
        let assumed = || fitting(context, input_tokens, blocks.len());
        Ok(TracedTurn {
            rank: rank(extra.rank)?,
            block_tokens: said.map_or_else(assumed, Ok)?,
            scope: self.scope(share, leaf::text("play_id", row.play_id.take())?),
            timing: self.timing(row, session.as_deref())?,
            id,
            session,
            parent,
            input_tokens,
            output_tokens,
            blocks,
            next,
        })
    }

    fn scope(&mut self, share: Share, play: Option<String>) -> Scope {
        let part = match share {
            Share::Play => play.unwrap_or_default(),
            Share::File => String::new(),
            Share::All => return Scope::Global,
        };
        let new = self.plays.len() as u32;
        Scope::Part(*self.plays.entry(part).or_insert(new))
    }

    fn timing(&mut self, row: Row, session: Option<&str>) -> Result<Timing, Fault> {
        let timestamp = leaf::time("timestamp", row.timestamp, MILLIS)?;
        let delay = leaf::time("delay", row.delay, MILLIS)?;
        let tool_wait = leaf::time("tool_wait_ms", row.tool_wait_ms, MILLIS)?;
        if let Some(edges) = row.dependencies {
            let at = leaf::time("not_before_ms", row.not_before_ms, MILLIS)?;
            return Ok(Timing::Depends {
                at: at.or(timestamp).unwrap_or_default(),
                on: edges.into_iter().map(edge).collect::<Result<_, _>>()?,
            });
        }
        let kind = leaf::text("request_kind", row.request_kind)?;
        if row.wait_for.is_some() || kind.is_some() || tool_wait.is_some() {
            let delay = delay
                .unwrap_or_default()
                .plus(tool_wait.unwrap_or_default());
            let ids = row.wait_for.unwrap_or_default();
            return Ok(Timing::Depends {
                at: timestamp.unwrap_or_default(),
                on: waits(ids, delay, kind.as_deref())?,
            });
        }
        if self.header.is_some() {
            return Ok(Timing::Depends {
                at: leaf::time("not_before_ms", row.not_before_ms, MILLIS)?
                    .or(timestamp)
                    .unwrap_or_default(),
                on: Vec::new(),
            });
        }
        self.plain(session, timestamp, delay)
    }

    fn plain(
        &mut self,
        session: Option<&str>,
        timestamp: Option<Micros>,
        delay: Option<Micros>,
    ) -> Result<Timing, Fault> {
        if let Some(last) = session.and_then(|session| self.sessions.get_mut(session)) {
            let follows = match (delay, timestamp, *last) {
                (Some(delay), _, _) => Ok(delay),
                (None, Some(time), Some(last)) => elapsed(last, time),
                (None, _, _) => Ok(Micros(0)),
            };
            // One that is left out is still the one before: a single late row costs itself alone.
            *last = timestamp.or(*last);
            return follows.map(Timing::Follows);
        }
        let at = match (timestamp, session) {
            (Some(timestamp), _) => timestamp,
            // A session without times starts with the replay.
            (None, Some(_)) => Micros(0),
            (None, None) => return Err(Fault::missing("timestamp")),
        };
        elapsed(std::mem::replace(&mut self.arrived, at), at)?;
        if let Some(session) = session {
            self.sessions.insert(session.to_owned(), timestamp);
        }
        Ok(Timing::Arrival(at.plus(delay.unwrap_or_default())))
    }
}

/// Where a session stands, as our own writers say in its first row.
fn rank(said: Option<Num>) -> Result<Option<u32>, Fault> {
    let Some(said) = said else { return Ok(None) };
    let rank = leaf::whole("warmpath.rank", said)?;
    let rank = u32::try_from(rank).map_err(|_| Fault::invalid("warmpath.rank is too large"));
    rank.map(Some)
}

/// Tokens of a block, as our own writer says them in a row.
fn block_tokens(said: Option<Num>) -> Result<Option<NonZeroU32>, Fault> {
    let Some(said) = said else { return Ok(None) };
    let tokens = leaf::some_tokens("warmpath.block_tokens", Some(said))?;
    let tokens = NonZeroU32::new(tokens);
    tokens
        .map(Some)
        .ok_or_else(|| Fault::invalid("warmpath.block_tokens is 0"))
}

/// Tokens of a block where no row says them, if so many blocks fit into the prompt.
fn fitting(context: &Context<'_>, tokens: u32, blocks: usize) -> Result<NonZeroU32, Fault> {
    let size = context.options.block_tokens_or(BLOCK_TOKENS);
    if blocks <= tokens.div_ceil(size.get()) as usize {
        return Ok(size);
    }
    Err(Fault::invalid(format!(
        "{blocks} blocks of {size} tokens in a prompt of {tokens}; the rows do not say their block \
         size: read it with --block N"
    )))
}

fn elapsed(before: Micros, now: Micros) -> Result<Micros, Fault> {
    if now < before {
        let detail = format!("timestamp {now:?} after {before:?}");
        return Err(Fault::new(ErrorKind::OutOfOrder, detail));
    }
    Ok(now.since(before))
}

fn waits(ids: Vec<Text>, delay: Micros, kind: Option<&str>) -> Result<Vec<Dependency>, Fault> {
    let spawned = matches!(kind, Some("agent" | "background_agent"));
    let wait = |id| {
        Ok(Dependency {
            id: leaf::some_text("wait_for", Some(id))?,
            // Whether it is a session's first request shows only when all are known.
            relation: if spawned {
                Relation::Spawn
            } else {
                Relation::Sequence
            },
            moment: Moment::End,
            delay,
        })
    };
    ids.into_iter().map(wait).collect()
}

fn edge(edge: Edge) -> Result<Dependency, Fault> {
    let trigger = leaf::some_text("trigger", edge.trigger)?;
    let relation = leaf::text("relation", edge.relation)?;
    Ok(Dependency {
        id: leaf::some_text("dependencies.request_id", edge.request_id)?,
        moment: match trigger.as_str() {
            "completion" => Moment::End,
            "dispatch" => Moment::Start,
            other => return Err(Fault::invalid(format!("trigger is {other:?}"))),
        },
        delay: leaf::time("delay_ms", edge.delay_ms, MILLIS)?.unwrap_or_default(),
        relation: match relation.as_deref() {
            None | Some("sequence") => Relation::Sequence,
            Some("spawn") => Relation::Spawn,
            Some("join") => Relation::Join,
            Some(other) => return Err(Fault::invalid(format!("relation is {other:?}"))),
        },
    })
}

/// What a session does next, by the name that our writers give it.
fn next(name: Option<&str>) -> Next {
    match name {
        Some("tool") => Next::Tool,
        Some("person") => Next::Person,
        _ => Next::Unknown,
    }
}
