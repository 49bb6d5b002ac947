//! A turn as it crosses the boundary: small integers in one array, every text in another.
//!
//! `head`: flags, prompt kind, (reserved), prompt tokens, the byte lengths of tenant, session and
//! parent, pinned worker + 1, then how many targets, tool results, state ids and segments follow,
//! then those: target numbers, id lengths, (length, flags) of each segment. `bytes`: the texts in
//! the same order, back to back, the canonical prompt last. Everything borrows from the caller's
//! arrays except two short lists that are kept between calls.
use napi::bindgen_prelude::Result;

use warmpath_core::scheduler::{Ids, Prompt, Segment, SegmentKind, Turn, TurnKind};
use warmpath_core::{TargetId, WorkerId};

use crate::error::{Code, invalid};

/// Fixed part of the head.
const HEAD: usize = 12;
const FINAL: u32 = 1;
const VOLATILE: u32 = 1;

/// What the caller passed.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) head: &'a [u32],
    pub(crate) bytes: &'a [u8],
    pub(crate) tokens: &'a [u32],
    pub(crate) hashes: &'a [u64],
}

/// Lists that a turn borrows and a frame does not hold in the right form.
#[derive(Default)]
pub(crate) struct Lists {
    targets: Vec<TargetId>,
    segments: Vec<Segment>,
}

/// Takes runs off the front of a slice.
struct Cursor<'a, T> {
    rest: &'a [T],
    name: &'static str,
}

impl<'a, T> Cursor<'a, T> {
    fn take(&mut self, n: usize) -> Result<&'a [T], Code> {
        let (run, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| invalid(format!("{} is shorter than it says", self.name)))?;
        self.rest = rest;
        Ok(run)
    }
}

impl Frame<'_> {
    /// Reads the turn; `lists` is overwritten.
    pub(crate) fn read<'b>(&'b self, lists: &'b mut Lists) -> Result<Turn<'b>, Code> {
        let mut head = Cursor {
            rest: self.head,
            name: "head",
        };
        let mut bytes = Cursor {
            rest: self.bytes,
            name: "bytes",
        };
        let fixed = head.take(HEAD)?;
        let count = |i: usize| fixed[i] as usize;
        lists.targets.clear();
        let targets = head.take(count(8))?;
        lists.targets.extend(targets.iter().map(|&id| TargetId(id)));
        let tool_lengths = head.take(count(9))?;
        let state_lengths = head.take(count(10))?;
        let segments = head.take(count(11).saturating_mul(2))?;
        lists.segments.clear();
        lists.segments.extend(segments.chunks_exact(2).map(segment));

        let tenant = text("tenant", bytes.take(count(4))?)?;
        let session = text("session", bytes.take(count(5))?)?;
        let parent = text("parent", bytes.take(count(6))?)?;
        let tool_results = ids(&mut bytes, tool_lengths)?;
        let state = ids(&mut bytes, state_lengths)?;
        let prompt = match fixed[1] {
            0 => Prompt::Text {
                bytes: bytes.rest,
                segments: &lists.segments,
            },
            1 => Prompt::Tokens(self.tokens),
            2 => Prompt::Hashes {
                hashes: self.hashes,
                tokens: (fixed[3] > 0).then_some(fixed[3]),
            },
            kind => {
                return Err(invalid(format!(
                    "prompt kind {kind}: 0 is text, 1 tokens, 2 hashes"
                )));
            }
        };
        Ok(Turn {
            tenant,
            session: some_text(session),
            parent: some_text(parent),
            kind: if fixed[0] & FINAL == 0 {
                TurnKind::Ordinary
            } else {
                TurnKind::Final
            },
            targets: &lists.targets,
            pin: fixed[7].checked_sub(1).map(WorkerId),
            tool_results,
            state,
            prompt,
        })
    }
}

/// The ids that an answer issued: `lengths` starts with two counts.
pub(crate) fn answer_ids<'a>(
    lengths: &'a [u32],
    bytes: &'a [u8],
) -> Result<(Ids<'a>, Ids<'a>), Code> {
    let mut lengths = Cursor {
        rest: lengths,
        name: "lengths",
    };
    let mut bytes = Cursor {
        rest: bytes,
        name: "bytes",
    };
    let counts = lengths.take(2)?;
    let tool_lengths = lengths.take(counts[0] as usize)?;
    let state_lengths = lengths.take(counts[1] as usize)?;
    Ok((
        ids(&mut bytes, tool_lengths)?,
        ids(&mut bytes, state_lengths)?,
    ))
}

fn ids<'a>(bytes: &mut Cursor<'a, u8>, lengths: &'a [u32]) -> Result<Ids<'a>, Code> {
    let total = lengths
        .iter()
        .fold(0usize, |sum, &n| sum.saturating_add(n as usize));
    Ok(Ids {
        bytes: bytes.take(total)?,
        lengths,
    })
}

fn segment(pair: &[u32]) -> Segment {
    Segment {
        bytes: pair[0],
        kind: if pair[1] & VOLATILE == 0 {
            SegmentKind::Plain
        } else {
            SegmentKind::Volatile
        },
    }
}

fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Code> {
    std::str::from_utf8(bytes).map_err(|_| invalid(format!("{name} is not UTF-8")))
}

fn some_text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
