//! What goes into the scheduler and what comes out: plain values that borrow from the caller.

use crate::continuity::{Ask, Breach, Lock};
use crate::id::{Micros, ReservationId, TargetId, WorkerId};
use crate::receipt::{Origin, Reported, Trust};

use super::recall::Recalled;

/// A run of canonical prompt text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its length in bytes.
    pub bytes: u32,
    /// Whether it changes with each conversation.
    pub kind: SegmentKind,
    /// How many content blocks it was sent as; none counts as one.
    pub contents: u32,
    /// Whether the client set a breakpoint behind it.
    pub behind: Behind,
}

impl Segment {
    /// A content block of the conversation without a breakpoint.
    #[must_use]
    pub const fn plain(bytes: u32) -> Self {
        Self {
            bytes,
            kind: SegmentKind::Plain,
            contents: 1,
            behind: Behind::Nothing,
        }
    }
}

/// What the client set behind a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    /// Nothing.
    #[default]
    Nothing,
    /// A breakpoint, with the lifetime that it asked for, if it did.
    Breakpoint(Option<Micros>),
}

/// What is known of a segment beside its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentKind {
    /// Part of the conversation.
    #[default]
    Plain,
    /// Differs per conversation although it means nothing to it: ignored for identity.
    Volatile,
}

/// The prompt of a turn.
#[derive(Clone, Copy, Debug)]
pub enum Prompt<'a> {
    /// Canonical text; the segments cover it from its start.
    Text {
        /// The text, UTF-8 by custom but not by need.
        bytes: &'a [u8],
        /// Where it may be cut.
        segments: &'a [Segment],
    },
    /// The same of a body that has been held against the session's last one: without the segments
    /// that are known. The turn names its session.
    Recalled {
        /// What came of that.
        recalled: &'a Recalled,
        /// The text of what is not known.
        bytes: &'a [u8],
        /// Where it may be cut.
        segments: &'a [Segment],
    },
    /// Token ids.
    Tokens(&'a [u32]),
    /// One content hash a block, in order.
    Hashes {
        /// The hashes.
        hashes: &'a [u64],
        /// Prompt tokens; `None` counts whole blocks.
        tokens: Option<u32>,
    },
}

/// Ids back to back in one buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids<'a> {
    /// The ids, one after the other.
    pub bytes: &'a [u8],
    /// The length of each; a length that does not fit ends the list.
    pub lengths: &'a [u32],
}

impl<'a> Ids<'a> {
    /// The ids.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        self.lengths.iter().map_while(move |&length| {
            let (id, tail) = rest.split_at_checked(length as usize)?;
            rest = tail;
            Some(id)
        })
    }
}

/// Whether the session goes on after this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnKind {
    /// It may.
    #[default]
    Ordinary,
    /// The client says that this is the last one.
    Final,
}

/// One model request of a session.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Scopes the session's name and every id; empty for none.
    pub tenant: &'a str,
    /// The session's name, if the client sent one.
    pub session: Option<&'a str>,
    /// The session that spawned it.
    pub parent: Option<&'a str>,
    /// Whether the session goes on.
    pub kind: TurnKind,
    /// The targets that may answer, the preferred one first. Not empty.
    pub targets: &'a [TargetId],
    /// What it says about the choice among them.
    pub ask: Ask,
    /// The one worker that may take it, by the caller's wish.
    pub pin: Option<WorkerId>,
    /// How urgent it is where it has to wait: higher goes first, 0 is ordinary.
    pub priority: i16,
    /// Tool calls that the turn answers.
    pub tool_results: Ids<'a>,
    /// Provider state that the turn leans on.
    pub state: Ids<'a>,
    /// The prompt.
    pub prompt: Prompt<'a>,
    /// What the client has its cached blocks set apart by; empty for nothing.
    pub cache_salt: &'a [u8],
    /// Where its tokens are from, or why it came as text; for its receipt only.
    pub origin: Origin,
}

impl<'a> Turn<'a> {
    /// An ordinary turn of nobody known that says nothing else.
    #[must_use]
    pub fn new(targets: &'a [TargetId], prompt: Prompt<'a>) -> Self {
        Self {
            tenant: "",
            session: None,
            parent: None,
            kind: TurnKind::Ordinary,
            targets,
            ask: Ask::default(),
            pin: None,
            priority: 0,
            tool_results: Ids::default(),
            state: Ids::default(),
            prompt,
            cache_salt: &[],
            origin: Origin::default(),
        }
    }
}

/// What became of a submitted turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Submitted {
    /// Its reservation; ends by `complete` or `cancel`.
    pub reservation: ReservationId,
    /// The target chosen.
    pub target: TargetId,
    /// The lock that chose it.
    pub lock: Lock,
    /// Prompt tokens, estimated unless the caller brought them.
    pub prompt_tokens: u32,
    /// The hash that an unnamed session is known by.
    pub derived: Option<u64>,
    /// Admission's number for the branch; `None` when it is not tracked.
    pub program: Option<u64>,
    /// Go, or hold: a held turn settles later, through the list that every call fills.
    pub verdict: Verdict,
}

/// Go or hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Send it now.
    Go(Placement),
    /// Wait; it is in the list of settled turns of a later call, exactly once.
    Hold,
}

/// Where a turn goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// The target; it differs from the one first chosen only after a detour.
    pub target: TargetId,
    /// The worker.
    pub worker: WorkerId,
    /// The data-parallel rank to ask for, where the worker has several and one has the prompt.
    pub rank: Option<u32>,
    /// What it does with its lock: what cannot travel may have to be taken out of it.
    pub breach: Breach,
    /// Tokens of the prompt that the worker's cache should hold.
    pub predicted_cached_tokens: u32,
    /// Evidence behind that.
    pub trust: Trust,
    /// The receipt's number.
    pub receipt: u64,
}

/// A hold that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// Which turn.
    pub reservation: ReservationId,
    /// How.
    pub outcome: Outcome,
    /// How long it was held.
    pub held: Micros,
}

/// How a hold ended. All but `Go` have ended the reservation too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Send it now.
    Go(Placement),
    /// The owner of its lock is down, or has not come back in time.
    OwnerUnavailable,
    /// The owner of its lock has been removed.
    StateLost,
    /// No worker of its target is up.
    NoWorker,
    /// It waited as long as the configuration allows. How much longer it should have had to, where enough
    /// others have waited before.
    HoldLimit(Option<Micros>),
    /// The scheduler was closed.
    Closed,
}

/// What an answer told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion<'a> {
    /// Figures of the engine; absent ones are unknown, never zero.
    pub reported: Reported,
    /// What the session does now; `None` when the answer did not say.
    pub phase: Option<crate::session::Phase>,
    /// Tool calls issued.
    pub tool_calls: Ids<'a>,
    /// Provider state that the worker keeps from now on.
    pub state: Ids<'a>,
}
