//! A turn as it crosses the boundary: small integers in one array, every text in another.
//!
//! `head`: flags (final, stream, another task than before, state that
//! can be taken out, images, tools, from bit 8 where its tokens are from), prompt kind, tokens that the answer may
//! have, prompt tokens or what a body was recalled as, the byte lengths of tenant, session and parent,
//! pinned worker + 1, then how many targets, tool results, state ids and segments follow, the base
//! choice + 1, the byte lengths of route and cache salt, priority, then those: target numbers, id lengths,
//! (length, flags) of each segment. Flags, from the lowest bit: volatile, a breakpoint behind it, 14 bits for the content blocks that it was sent as beyond
//! the first, 16 for the minutes that the breakpoint asked for (0: it did not say). `ids`: the texts
//! in the same order, back to back. `prompt`: the canonical text as UTF-8, or what of it is not known;
//! or tokens or hashes, as bytes. Everything borrows from the caller's arrays except two short lists
//! that are kept between calls.
use napi::bindgen_prelude::Result;

use warmpath_core::continuity::{Abilities, Ask, RouteId};
use warmpath_core::receipt::Origin;
use warmpath_core::scheduler::{
    Behind, Ids, Prompt, Recalled, Segment, SegmentKind, Turn, TurnKind,
};
use warmpath_core::{Micros, TargetId, WorkerId};

use crate::error::{Code, invalid};

/// Fixed part of the head.
const HEAD: usize = 16;
/// The prompt kind of a text of which some is known.
const RECALLED: u32 = 3;
const FINAL: u32 = 1;
const DRIFT: u32 = 4;
const CAN_STRIP: u32 = 8;
const IMAGES: u32 = 16;
const TOOLS: u32 = 32;
const ORIGIN_SHIFT: u32 = 8;
const ORIGIN_MASK: u32 = 0xff;
const VOLATILE: u32 = 1;
const BREAKPOINT: u32 = 2;
const CONTENTS_SHIFT: u32 = 2;
const CONTENTS_MASK: u32 = 0x3fff;
const MINUTES_SHIFT: u32 = 16;

/// What the caller passed.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) head: &'a [u32],
    pub(crate) ids: &'a [u8],
    /// Text, or tokens or hashes as they lie in memory.
    pub(crate) prompt: &'a [u8],
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

/// The parts of a head.
struct Head<'a> {
    fixed: &'a [u32],
    targets: &'a [u32],
    tool_results: &'a [u32],
    state: &'a [u32],
    segments: &'a [u32],
}

impl<'a> Head<'a> {
    fn read(head: &'a [u32]) -> Result<Self, Code> {
        let mut head = Cursor {
            rest: head,
            name: "head",
        };
        let fixed = head.take(HEAD)?;
        let count = |i: usize| fixed[i] as usize;
        Ok(Self {
            fixed,
            targets: head.take(count(8))?,
            tool_results: head.take(count(9))?,
            state: head.take(count(10))?,
            segments: head.take(count(11).saturating_mul(2))?,
        })
    }

    fn length(&self, i: usize) -> usize {
        self.fixed[i] as usize
    }

    fn kind(&self) -> TurnKind {
        match self.fixed[0] & FINAL {
            0 => TurnKind::Ordinary,
            _ => TurnKind::Final,
        }
    }

    fn origin(&self) -> Result<Origin, Code> {
        let number = (self.fixed[0] >> ORIGIN_SHIFT & ORIGIN_MASK) as usize;
        let origin = Origin::ALL.get(number).copied();
        origin.ok_or_else(|| invalid("the prompt comes from nowhere that is known"))
    }

    fn ask(&self, route: &[u8]) -> Ask {
        Ask {
            base: self.fixed[12].checked_sub(1).map(TargetId),
            route: RouteId::named(route),
            is_drift: self.fixed[0] & DRIFT != 0,
            max_answer_tokens: self.fixed[2],
            can_strip: self.fixed[0] & CAN_STRIP != 0,
            needs: Abilities {
                images: self.fixed[0] & IMAGES != 0,
                tools: self.fixed[0] & TOOLS != 0,
            },
        }
    }
}

/// A frame taken apart: numbers as they stand in it, texts by what they are.
pub(crate) struct Parts<'a> {
    pub(crate) fixed: &'a [u32],
    /// Tenant, session, parent, route, cache salt.
    pub(crate) names: [&'a [u8]; 5],
    pub(crate) targets: &'a [u32],
    pub(crate) tool_results: Vec<&'a [u8]>,
    pub(crate) state: Vec<&'a [u8]>,
    /// Length and flags of each.
    pub(crate) segments: &'a [u32],
}

impl Parts<'_> {
    /// Whether some of the prompt is not in the frame.
    pub(crate) fn is_recalled(&self) -> bool {
        self.fixed[1] == RECALLED
    }

    /// Whether a segment changes with each conversation.
    pub(crate) fn has_volatile(&self) -> bool {
        let mut flags = self.segments.iter().skip(1).step_by(2);
        flags.any(|flags| flags & VOLATILE != 0)
    }
}

/// A frame that owns its arrays.
#[derive(Default)]
pub(crate) struct FrameBuffer {
    head: Vec<u32>,
    ids: Vec<u8>,
}

impl FrameBuffer {
    /// Puts together what [`Frame::parts`] takes apart; `fixed` may leave lengths and counts open.
    pub(crate) fn fill(&mut self, parts: &Parts<'_>) {
        let (head, ids) = (&mut self.head, &mut self.ids);
        head.clear();
        ids.clear();
        head.extend_from_slice(parts.fixed);
        head.resize(HEAD, 0);
        for (slot, name) in [4, 5, 6, 13, 14].into_iter().zip(parts.names) {
            head[slot] = name.len() as u32;
            ids.extend_from_slice(name);
        }
        head[8] = parts.targets.len() as u32;
        head[9] = parts.tool_results.len() as u32;
        head[10] = parts.state.len() as u32;
        head[11] = parts.segments.len() as u32 / 2;
        head.extend_from_slice(parts.targets);
        for id in parts.tool_results.iter().chain(&parts.state) {
            head.push(id.len() as u32);
            ids.extend_from_slice(id);
        }
        head.extend_from_slice(parts.segments);
    }

    /// The frame with this prompt.
    pub(crate) fn frame<'a>(&'a self, prompt: &'a [u8]) -> Frame<'a> {
        Frame {
            head: &self.head,
            ids: &self.ids,
            prompt,
        }
    }
}

impl<'a> Frame<'a> {
    /// Takes it apart.
    pub(crate) fn parts(&self) -> Result<Parts<'a>, Code> {
        let head = Head::read(self.head)?;
        let mut bytes = Cursor {
            rest: self.ids,
            name: "ids",
        };
        let mut name = |slot| bytes.take(head.length(slot));
        let names = [name(4)?, name(5)?, name(6)?, name(13)?, name(14)?];
        let tool_results = ids(&mut bytes, head.tool_results)?.iter().collect();
        let state = ids(&mut bytes, head.state)?.iter().collect();
        Ok(Parts {
            fixed: head.fixed,
            names,
            targets: head.targets,
            tool_results,
            state,
            segments: head.segments,
        })
    }
}

impl Frame<'_> {
    /// What its body was recalled as, if it was.
    pub(crate) fn ticket(&self) -> Option<u32> {
        let &[_, RECALLED, _, ticket, ..] = self.head else {
            return None;
        };
        Some(ticket)
    }

    /// Reads the turn; `lists` is overwritten. `recalled` is what came of its ticket.
    pub(crate) fn read<'b>(
        &'b self,
        lists: &'b mut Lists,
        recalled: Option<&'b Recalled>,
    ) -> Result<Turn<'b>, Code> {
        let head = Head::read(self.head)?;
        lists.fill(&head);
        let mut bytes = Cursor {
            rest: self.ids,
            name: "ids",
        };
        let tenant = text("tenant", bytes.take(head.length(4))?)?;
        let session = text("session", bytes.take(head.length(5))?)?;
        let parent = text("parent", bytes.take(head.length(6))?)?;
        let route = bytes.take(head.length(13))?;
        let cache_salt = bytes.take(head.length(14))?;
        Ok(Turn {
            tenant,
            session: some_text(session),
            parent: some_text(parent),
            kind: head.kind(),
            targets: &lists.targets,
            ask: head.ask(route),
            pin: head.fixed[7].checked_sub(1).map(WorkerId),
            priority: priority(head.fixed),
            tool_results: ids(&mut bytes, head.tool_results)?,
            state: ids(&mut bytes, head.state)?,
            prompt: self.prompt(&head, &lists.segments, recalled)?,
            cache_salt,
            origin: head.origin()?,
        })
    }

    fn prompt<'b>(
        &'b self,
        head: &Head<'_>,
        segments: &'b [Segment],
        recalled: Option<&'b Recalled>,
    ) -> Result<Prompt<'b>, Code> {
        let bytes = self.prompt;
        match head.fixed[1] {
            RECALLED => match recalled {
                Some(recalled) => Ok(Prompt::Recalled {
                    recalled,
                    bytes,
                    segments,
                }),
                None => Err(invalid("nothing was recalled under this number")),
            },
            0 => Ok(Prompt::Text { bytes, segments }),
            1 => Ok(Prompt::Tokens(cast(bytes)?)),
            2 => Ok(Prompt::Hashes {
                hashes: cast(bytes)?,
                tokens: (head.fixed[3] > 0).then_some(head.fixed[3]),
            }),
            kind => Err(invalid(format!(
                "prompt kind {kind}: 0 is text, 1 tokens, 2 hashes, 3 recalled text"
            ))),
        }
    }
}

impl Lists {
    fn fill(&mut self, head: &Head<'_>) {
        self.targets.clear();
        self.targets
            .extend(head.targets.iter().map(|&id| TargetId(id)));
        self.segments.clear();
        self.segments
            .extend(head.segments.chunks_exact(2).map(segment));
    }
}

/// A turn's class, from the fixed part of its head.
pub(crate) fn priority(fixed: &[u32]) -> i16 {
    let number = fixed.get(15).map_or(0, |&bits| bits.cast_signed());
    number.clamp(i16::MIN.into(), i16::MAX.into()) as i16
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
    let flags = pair[1];
    Segment {
        bytes: pair[0],
        kind: match flags & VOLATILE {
            0 => SegmentKind::Plain,
            _ => SegmentKind::Volatile,
        },
        contents: 1 + (flags >> CONTENTS_SHIFT & CONTENTS_MASK),
        behind: match flags & BREAKPOINT {
            0 => Behind::Nothing,
            _ => Behind::Breakpoint(minutes(flags >> MINUTES_SHIFT)),
        },
    }
}

fn minutes(minutes: u32) -> Option<Micros> {
    (minutes > 0).then(|| Micros::from_secs(60 * u64::from(minutes)))
}

/// The numbers that an array of bytes is a view of.
fn cast<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T], Code> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| invalid("the prompt is no view of such numbers"))
}

pub(crate) fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Code> {
    std::str::from_utf8(bytes).map_err(|_| invalid(format!("{name} is not UTF-8")))
}

fn some_text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
