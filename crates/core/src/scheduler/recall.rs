//! Which part of a request's body has the session sent before, byte for byte?
//!
//! Canonical text costs a walk over the parsed body and a copy of all its text. A turn that repeats the
//! bytes of the one before it needs neither for what it repeats: one digest over the bytes vouches for
//! it, and for its blocks. So a session keeps digests of its last body up to the ends of its last
//! items, one over what stands behind the items, and the segments that it was cut into.
//!
//! Several ends, because clients move things: a cache marker stands on the last item of one turn and is
//! gone from it in the next. Of the items that are vouched for the last one is read again all the same,
//! since a marker *inside* an item counts for the segment before it.
//!
//! What the bytes mean is not looked at; where items end is said by `warmpath-body`. O(bytes), at the
//! speed of the digest; a body that is seen for the first time is also walked through once.
use std::sync::Arc;

use smallvec::SmallVec;
use warmpath_body::{items, items_after};
use warmpath_xxh3::Digest;

use crate::id::ProgramId;

use super::Scheduler;
use super::turn::Segment;

/// So many ends of items are kept of a body.
const ENDS: usize = 4;

/// The end of an item.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Bytes before it.
    at: usize,
    /// Of these bytes.
    digest: u128,
    /// Items before it.
    items: usize,
}

type Ends = SmallVec<[End; ENDS]>;

/// What can be said of a body again when its beginning comes back.
#[derive(Clone, Debug)]
struct Seen {
    /// The last ones, ascending.
    ends: Ends,
    items: usize,
    /// Of what stands behind the last item.
    rest: u128,
}

/// A body, and the segments that it was cut into.
#[derive(Debug)]
pub(super) struct Body {
    seen: Seen,
    segments: Vec<Segment>,
}

impl Body {
    /// The segments of the first `items` items and of what is before them.
    pub(super) fn segments(&self, items: usize) -> &[Segment] {
        &self.segments[..self.segments.len() - self.seen.items + items]
    }
}

/// What a session has sent before of a body, and what its next turn may be held against.
#[derive(Debug)]
pub struct Recalled {
    seen: Seen,
    /// The body that goes on, whose it is, and how many of its items need not be read.
    before: Option<(ProgramId, Arc<Body>, usize)>,
}

impl Recalled {
    /// How many items need not be read: with what is before and behind all items, their segments are
    /// known. Zero when nothing is.
    #[must_use]
    pub fn items(&self) -> usize {
        self.before.as_ref().map_or(0, |&(_, _, items)| items)
    }

    /// The body that goes on, and how many of its items are known.
    pub(super) fn before(&self) -> Option<(ProgramId, &Arc<Body>, usize)> {
        let (program, body, items) = self.before.as_ref()?;
        Some((*program, body, *items))
    }

    /// What the next turn may be held against, once all segments are there; `None` when they are not
    /// as many as the items.
    pub(super) fn body(&self, segments: &[Segment]) -> Option<Arc<Body>> {
        let is_whole = segments.len() >= self.seen.items;
        is_whole.then(|| {
            Arc::new(Body {
                seen: self.seen.clone(),
                segments: segments.to_vec(),
            })
        })
    }
}

impl Scheduler {
    /// Compares a body with what its session has sent last. `member` is the name of the array that its
    /// items are in. `None` when the session has sent nothing yet, or the body has no such items, or
    /// it does not go on from the last one. Changes nothing. O(bytes).
    #[must_use]
    pub fn recall(
        &self,
        tenant: &str,
        session: &str,
        body: &[u8],
        member: &[u8],
    ) -> Option<Recalled> {
        let session = self.sessions.get(self.sessions.by_name(tenant, session)?)?;
        let (program, last) = self.paths.last_body(session)?;
        match last {
            Some(last) => go_on(program, last, body),
            None => Some(Recalled {
                seen: first(body, member)?,
                before: None,
            }),
        }
    }
}

/// A body that is seen for the first time.
fn first(body: &[u8], member: &[u8]) -> Option<Seen> {
    let items = items(body, member)?;
    let mut pass = Pass::new(body);
    let ends = pass.ends(&items.ends, 0);
    Some(Seen {
        ends,
        items: items.ends.len(),
        rest: digest(&body[items.close..]),
    })
}

/// A body that begins like the last one.
fn go_on(program: ProgramId, last: &Arc<Body>, body: &[u8]) -> Option<Recalled> {
    let mut pass = Pass::new(body);
    let (mut known, mut from) = (Ends::new(), None);
    for &end in &last.seen.ends {
        if pass.at(end.at) != Some(end.digest) {
            break;
        }
        known.push(end);
        from = Some(pass.clone());
    }
    let (deepest, mut pass) = (*known.last()?, from?);
    let more = items_after(body, deepest.at)?;
    let items = deepest.items.checked_sub(1).filter(|&items| items > 0)?;
    let rest = digest(&body[more.close..]);
    if rest != last.seen.rest {
        return None;
    }
    known.extend(pass.ends(&more.ends, deepest.items));
    known.drain(..known.len().saturating_sub(ENDS));
    let seen = Seen {
        ends: known,
        items: deepest.items + more.ends.len(),
        rest,
    };
    Some(Recalled {
        seen,
        before: Some((program, Arc::clone(last), items)),
    })
}

fn digest(bytes: &[u8]) -> u128 {
    let mut state = Digest::default();
    state.update(bytes);
    state.digest()
}

/// One pass over a body, with its digest at several places.
#[derive(Clone)]
struct Pass<'a> {
    body: &'a [u8],
    read: usize,
    state: Digest,
}

impl<'a> Pass<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            read: 0,
            state: Digest::default(),
        }
    }

    /// The digest of the first `end` bytes; `None` when there are not so many. Ends ascend.
    fn at(&mut self, end: usize) -> Option<u128> {
        self.state.update(self.body.get(self.read..end)?);
        self.read = end;
        Some(self.state.digest())
    }

    /// The last of these ends, `before` being how many items there are before the first.
    fn ends(&mut self, ends: &[usize], before: usize) -> Ends {
        let skipped = ends.len().saturating_sub(ENDS);
        let last = ends.iter().enumerate().skip(skipped);
        last.filter_map(|(n, &at)| {
            let digest = self.at(at)?;
            let items = before + n + 1;
            Some(End { at, digest, items })
        })
        .collect()
    }
}
