//! How does a workload, or a recording, leave in a format that other tools read?
//!
//! Each writer takes anything that bytes can be written to and writes line by line; none of them
//! buffers or compresses, which is the caller's business. What a format cannot say is counted and
//! approximated, never dropped in silence.
use std::io::{self, Write};
use std::num::NonZeroU32;

use serde::Serialize;
use warmpath_core::Micros;

use crate::record::Record;
use crate::turn::Next;
use crate::workload::Workload;

mod agentic;
mod mooncake;
mod perfetto;

pub use agentic::write_agentic;
pub(crate) use agentic::{AGENTIC_SCHEMA, AGENTIC_VERSION, SOURCE};
pub use mooncake::write_mooncake;
pub use perfetto::PerfettoWriter;

/// Whether rows carry what only we can read, under the key `warmpath`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extras {
    /// What a session does next, its parent and rank, and tokens of a block where the format has no place.
    Keep,
    /// Nothing: for tools that refuse fields that they do not know.
    Leave,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows, without a header.
    pub rows: u64,
    /// Rows whose start the format cannot say.
    pub approximated: u64,
}

/// Writes our own traces, one line a record.
#[derive(Debug)]
pub struct RecordWriter<W> {
    out: W,
}

impl<W: Write> RecordWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        line(&mut self.out, record)
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

fn line(out: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}

/// What only we can read of a row.
#[derive(Default, Serialize)]
struct Extra<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_tokens: Option<NonZeroU32>,
    /// Where the session stands, in its first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
}

/// The extras of a turn; the parent stands in the first row of a session.
fn extra(workload: &Workload, turn: usize, is_first: bool, extras: Extras) -> Option<Extra<'_>> {
    if extras == Extras::Leave {
        return None;
    }
    let turn = &workload.turns()[turn];
    let session = &workload.sessions()[turn.session as usize];
    let parent = session.parent.filter(|_| is_first);
    let extra = Extra {
        parent: parent.map(|parent| &*workload.sessions()[parent as usize].name),
        next: match turn.next {
            Next::Tool => Some("tool"),
            Next::Person => Some("person"),
            Next::Unknown | Next::End => None,
        },
        block_tokens: None,
        // Sessions begin in another order than that in which turns of one time stand.
        rank: is_first.then_some(turn.session),
    };
    let is_any = extra.parent.is_some() || extra.next.is_some() || extra.rank.is_some();
    is_any.then_some(extra)
}

/// Milliseconds with their fraction; exact below 285 years.
fn millis(time: Micros) -> f64 {
    time.0 as f64 / 1_000.0
}
