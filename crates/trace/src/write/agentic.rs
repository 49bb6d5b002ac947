//! A workload as agentic Mooncake, version 2: a header, then rows with typed dependencies.
//!
//! The format says everything that a workload has but parents without a turn that spawned their
//! child, and what a session does next; both go under our own key. A play is a session with all that
//! descends from it. Ids of blocks are local to plays if no two plays share any, which is what other
//! tools expect; else the header says `global`, so that a tool that cannot read that refuses the
//! file instead of losing what is shared.
use std::io::{self, Write};

use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::{Extra, Extras, Written, extra, line, millis};
use crate::turn::{Moment, Wait};
use crate::workload::Workload;

/// The schema of the header.
pub(crate) const AGENTIC_SCHEMA: &str = "dynamo.agentic_mooncake";
/// The source in the header of files that were written here.
pub(crate) const SOURCE: &str = "warmpath";
/// The version of the header.
pub(crate) const AGENTIC_VERSION: u64 = 2;

#[derive(Serialize)]
struct Header<'a> {
    schema: &'a str,
    version: u64,
    block_size: u32,
    hash_id_scope: &'a str,
    source: Source<'a>,
}

#[derive(Serialize)]
struct Source<'a> {
    format: &'a str,
    digest: String,
}

#[derive(Serialize)]
struct Row<'a> {
    request_id: String,
    play_id: &'a str,
    session_id: &'a str,
    model: &'a str,
    input_length: u32,
    output_length: u32,
    hash_ids: &'a [u32],
    not_before_ms: f64,
    dependencies: Vec<Edge>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmpath: Option<Extra<'a>>,
}

#[derive(Serialize)]
struct Edge {
    request_id: String,
    trigger: &'static str,
    delay_ms: f64,
    relation: &'static str,
}

/// Writes a workload as agentic Mooncake of version 2. Requests are named by their index, and all
/// are of the model `model`.
///
/// # Errors
/// What `out` says.
pub fn write_agentic(
    workload: &Workload,
    model: &str,
    extras: Extras,
    out: &mut impl Write,
) -> io::Result<Written> {
    let plays = plays(workload);
    let header = Header {
        schema: AGENTIC_SCHEMA,
        version: AGENTIC_VERSION,
        block_size: workload.block_tokens().get(),
        hash_id_scope: scope(workload, &plays),
        source: Source {
            format: SOURCE,
            digest: digest(workload),
        },
    };
    line(out, &header)?;
    let mut seen = vec![false; workload.sessions().len()];
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns().iter().enumerate() {
        let is_first = !std::mem::replace(&mut seen[turn.session as usize], true);
        workload.read_blocks(index, &mut blocks);
        let play = plays[turn.session as usize];
        let row = Row {
            request_id: name(index as u32),
            play_id: &workload.sessions()[play as usize].name,
            session_id: &workload.sessions()[turn.session as usize].name,
            model,
            input_length: turn.input_tokens,
            output_length: turn.output_tokens,
            hash_ids: &blocks,
            not_before_ms: millis(workload.not_before(turn.start)),
            dependencies: edges(workload, index, is_first),
            warmpath: extra(workload, index, is_first, extras),
        };
        line(out, &row)?;
    }
    Ok(Written {
        rows: workload.turns().len() as u64,
        approximated: 0,
    })
}

fn name(turn: u32) -> String {
    format!("r{turn}")
}

fn edges(workload: &Workload, index: usize, is_first: bool) -> Vec<Edge> {
    let turn = &workload.turns()[index];
    let parent = workload.sessions()[turn.session as usize].parent;
    let edge = |wait: &Wait| {
        let other = workload.turns()[wait.turn as usize].session;
        Edge {
            request_id: name(wait.turn),
            trigger: match wait.moment {
                Moment::Start => "dispatch",
                Moment::End => "completion",
            },
            delay_ms: millis(wait.delay),
            relation: if other == turn.session {
                "sequence"
            } else if is_first && Some(other) == parent {
                "spawn"
            } else {
                "join"
            },
        }
    };
    workload.waits(turn.start).iter().map(edge).collect()
}

/// The topmost ancestor of each session.
fn plays(workload: &Workload) -> Vec<u32> {
    let mut plays: Vec<u32> = Vec::with_capacity(workload.sessions().len());
    for (index, session) in workload.sessions().iter().enumerate() {
        plays.push(match session.parent {
            Some(parent) => plays[parent as usize],
            None => index as u32,
        });
    }
    plays
}

fn scope(workload: &Workload, plays: &[u32]) -> &'static str {
    let mut owners: Vec<Option<u32>> = vec![None; workload.distinct_blocks() as usize];
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns().iter().enumerate() {
        let play = plays[turn.session as usize];
        workload.read_blocks(index, &mut blocks);
        for &block in &blocks {
            if *owners[block as usize].get_or_insert(play) != play {
                return "global";
            }
        }
    }
    "local"
}

/// A name for exactly this workload, for readers that compare sources.
fn digest(workload: &Workload) -> String {
    let mut hasher = Xxh3::new();
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns().iter().enumerate() {
        workload.read_blocks(index, &mut blocks);
        for number in [turn.session, turn.input_tokens, turn.output_tokens] {
            hasher.update(&number.to_le_bytes());
        }
        for block in &blocks {
            hasher.update(&block.to_le_bytes());
        }
    }
    format!("{:032x}", hasher.digest128())
}
