//! Why: the record of one decision, from which it can be computed again.
//!
//! Receipts live in a bounded ring and reuse its memory; they hold numbers and small ids, and become
//! text only when somebody asks. A receipt of a fleet of more than [`MAX_CANDIDATES`] workers keeps
//! the cheapest ones and says how many there were.
use std::collections::VecDeque;
use std::sync::Arc;

use crate::admission::Refusal;
use crate::affinity::AffinityNote;
use crate::continuity::{LockNote, ModelNote};
use crate::event::{Cause, Doubt};
use crate::id::{Micros, ReservationId, TargetId, WorkerId};
use crate::score::kv::KvConfig;
use crate::score::pace::Pace;

/// How many candidates a receipt keeps.
pub const MAX_CANDIDATES: usize = 64;

/// How good the evidence behind a credit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nothing is known of the worker's cache.
    #[default]
    None,
    /// From the router's own decisions.
    Predicted,
    /// From the engine's events.
    Exact,
    /// From events of which some were lost.
    Degraded,
}

/// How good what is known of a worker's cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Whose word counts there.
    pub trust: Trust,
    /// Why it is no better; absent where events tell all, or none are expected.
    pub doubt: Option<Doubt>,
    /// What is the matter, most likely, where prompts and events do not match.
    pub cause: Option<Cause>,
    /// Since when.
    pub since: Micros,
}

/// One worker that could have taken the turn, with every term of its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The worker.
    pub worker: WorkerId,
    /// Its cost in blocks; the least wins.
    pub cost: f64,
    /// Tokens of this prompt that its cache holds, contiguous from the root.
    pub overlap_tokens: u32,
    /// Further ones that its host's memory holds.
    pub host_tokens: u32,
    /// Further ones on disk or on another machine.
    pub disk_tokens: u32,
    /// Further ones in whole pages of the store that its group shares.
    pub pool_tokens: u32,
    /// The data-parallel rank that has them, where the engine said so.
    pub rank: Option<u32>,
    /// Uncached prompt tokens of its turns that have no first token yet.
    pub prefill_tokens: u64,
    /// Tokens of the blocks that its turns in flight hold, shared ones once, and what others hold there.
    pub active_tokens: u64,
    /// Tokens that this turn would add to those.
    pub additional_tokens: u32,
    /// Turns in flight, those of others included.
    pub requests: u32,
    /// Tokens of prompt that affinity takes off its cost.
    pub affinity_tokens: u32,
    /// Of the tokens that wait there, those that the prompt does not mind, being long and cold itself.
    pub relief_tokens: u64,
    /// How long it takes, beside the usual worker of its group.
    pub pace: Pace,
}

/// What admission said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionNote {
    /// Go at once, to the cheapest worker with room.
    #[default]
    Free,
    /// Go at once, to the worker where admission keeps the session.
    Kept(WorkerId),
    /// Go at once, to the worker that admission has found room on.
    Placed(WorkerId),
    /// Held first, for this long; then to the worker that admission has found room on.
    Held(Micros),
}

/// What a held turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The owner of its lock is away.
    Owner,
    /// Every worker that may take it runs as many turns as are allowed.
    MaxRunning,
    /// Every worker that may take it keeps as many sessions as are allowed.
    MaxSessions,
    /// Any of these, and its tenant has had, or asks for, more than its share.
    TenantShare,
    /// Any of these, and turns of a higher class wait too.
    Priority,
    /// Room, or its turn: what the policy holds for.
    Room,
    /// Another turn that computes the beginning that both have.
    Leader,
}

impl HoldReason {
    /// Every one, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Owner,
        Self::MaxRunning,
        Self::MaxSessions,
        Self::TenantShare,
        Self::Priority,
        Self::Room,
        Self::Leader,
    ];

    /// Whether it ends when a worker has room, and not by what one turn does.
    #[must_use]
    pub const fn is_for_worker(self) -> bool {
        !matches!(self, Self::Owner | Self::Leader)
    }

    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::MaxRunning => "max-running",
            Self::MaxSessions => "max-sessions",
            Self::TenantShare => "tenant-share",
            Self::Priority => "priority",
            Self::Room => "room",
            Self::Leader => "leader",
        }
    }
}

/// How a turn began to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldNote {
    /// Its place among those that waited for the same, from 1; 0 when it did not wait or nobody says.
    pub place: u32,
    /// For what; the last such reason where it changed.
    pub why: Option<HoldReason>,
    /// How long that was expected to take, where enough others had waited before.
    pub expected: Option<Micros>,
}

/// Why a turn that waited for another one to compute its beginning went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// It has not.
    Waiting,
    /// The other one had its first token.
    Read,
    /// The other one failed, was cancelled or went where this one does not.
    Failed,
    /// It had waited as long as the configuration allows.
    Late,
}

/// A turn that waited for another one to compute its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The other one; the last, where there were several.
    pub leader: ReservationId,
    /// Tokens that both have and nobody had cached.
    pub tokens: u32,
    /// Why it went on.
    pub ended: FollowEnd,
}

/// A part of the prompt that changes with each conversation and so ends what sessions can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volatile {
    /// Which segment of the prompt.
    pub segment: u32,
    /// Tokens of the prompt before it: more than these are never shared across conversations.
    pub at_token: u32,
}

/// What the engine reported when the turn ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Prompt tokens, the cached ones included.
    pub prompt_tokens: Option<u32>,
    /// Of these, read from the cache.
    pub cached_tokens: Option<u32>,
    /// Tokens generated.
    pub completion_tokens: Option<u32>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Not yet.
    #[default]
    Running,
    /// The answer came to its end.
    Completed(Reported),
    /// The client left, or the turn was dropped.
    Cancelled,
    /// The upstream failed.
    Failed,
    /// It was sent elsewhere; another receipt has the new decision.
    Rerouted,
}

/// The decision about one turn.
#[derive(Clone, Debug, Default)]
pub struct Receipt {
    /// Its number; never reused.
    pub id: u64,
    /// When it was decided.
    pub at: Micros,
    /// The turn's reservation.
    pub reservation: ReservationId,
    /// What the session is called: the name, or hex of the prompt it was found by.
    pub session_name: String,
    /// Which branch of the session, by admission's number.
    pub program: Option<u64>,
    /// The target chosen.
    pub target: TargetId,
    /// Whether the session's own target was passed over for now.
    pub is_detour: bool,
    /// The target has failed for longer: the session goes on here.
    pub is_moved: bool,
    /// The lock that chose it.
    pub lock: LockNote,
    /// How it was chosen where several models could have answered and nothing locked the turn.
    pub model: Option<Arc<ModelNote>>,
    /// What admission said.
    pub admission: AdmissionNote,
    /// How it began to wait, if it did.
    pub hold: HoldNote,
    /// Why each worker did not take it then, at most [`MAX_CANDIDATES`] of them.
    pub refusals: Vec<Refusal>,
    /// Whether it waited for another one to compute its beginning first.
    pub followed: Option<Followed>,
    /// What affinity had to do with it; `None` where it is off, or the session had no home.
    pub affinity: Option<AffinityNote>,
    /// The chosen row of `candidates`.
    pub chosen: usize,
    /// The rows, in the order of the group's workers, or the cheapest ones.
    pub candidates: Vec<Candidate>,
    /// How many there were.
    pub eligible: usize,
    /// The numbers that the costs were computed with.
    pub weights: KvConfig,
    /// The rest of what the costs need.
    pub prompt: PromptNote,
    /// How the turn ended.
    pub ending: Ending,
}

/// What a prompt came as, and why not as tokens where these were wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// As the caller had it: nobody wanted anything else.
    #[default]
    Given,
    /// Tokens, by a tokenizer that the caller brought.
    Tokenizer,
    /// Tokens, by the engine's own word.
    Engine,
    /// Text: the tokens did not come in time.
    Late,
    /// Text: after failures nobody was asked.
    Resting,
    /// Text: whoever was asked refused the prompt.
    Refused,
    /// Text: whoever was asked could not be reached, or gave no tokens.
    Failed,
    /// Text: nobody can be asked in this dialect.
    Unsupported,
    /// Text: the prompt has more than tokens in it.
    Media,
    /// Text: the turn may go to models of different tokens.
    Models,
    /// Text: what is known as tokens has turned out not to be the engine's.
    Disagreement,
    /// Text, whose beginning is known by the tokens that earlier answers came with.
    Answers,
}

impl Origin {
    /// Every one, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Given,
        Self::Tokenizer,
        Self::Engine,
        Self::Late,
        Self::Resting,
        Self::Refused,
        Self::Failed,
        Self::Unsupported,
        Self::Media,
        Self::Models,
        Self::Disagreement,
        Self::Answers,
    ];

    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Tokenizer => "tokenizer",
            Self::Engine => "engine",
            Self::Late => "late",
            Self::Resting => "resting",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unsupported => "unsupported",
            Self::Media => "media",
            Self::Models => "models",
            Self::Disagreement => "disagreement",
            Self::Answers => "answers",
        }
    }
}

/// The prompt as the score saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PromptNote {
    /// Whether it came as tokens, or as hashes of them.
    pub is_tokens: bool,
    /// Where they are from, or why it came as text.
    pub origin: Origin,
    /// Of the whole prompt: guessed from its text where it came as text, else counted.
    pub tokens: u32,
    /// From its start, those that are known one by one, or by the hashes of their blocks: all of them where
    /// it did not come as text. An engine's count, which may be more than a guess at the whole.
    pub exact_tokens: u32,
    /// Blocks.
    pub blocks: u32,
    /// Tokens in a unit of cost.
    pub unit_tokens: u32,
    /// Evidence behind the chosen worker's overlap.
    pub trust: Trust,
    /// What its cache was known by as a whole.
    pub evidence: Evidence,
    /// What ends the sharing between conversations.
    pub volatile: Option<Volatile>,
    /// The random draw that broke a tie or picked by weight, in [0, 1).
    pub draw: Option<f64>,
    /// Softmax temperature; 0 takes the least cost.
    pub temperature: f64,
    /// How little it minded who waited before it.
    pub patience: f64,
}

impl Candidate {
    /// Tokens of this prompt in all its tiers and in the shared store.
    #[must_use]
    pub fn cached_tokens(&self) -> u32 {
        self.overlap_tokens + self.host_tokens + self.disk_tokens + self.pool_tokens
    }
}

impl Receipt {
    /// The row of the worker chosen.
    #[must_use]
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen)
    }
}

/// The last receipts, oldest first.
#[derive(Debug)]
pub(crate) struct Ring {
    receipts: VecDeque<Receipt>,
    next: u64,
    max: usize,
}

impl Ring {
    /// An empty ring of at most `max` receipts (at least one).
    pub(crate) fn new(max: usize) -> Self {
        Self {
            receipts: VecDeque::new(),
            next: 1,
            max: max.max(1),
        }
    }

    /// A blank receipt at the end of the ring, with the memory of the one that had to leave.
    pub(crate) fn push(&mut self) -> &mut Receipt {
        let mut receipt = if self.receipts.len() >= self.max {
            self.receipts.pop_front().unwrap_or_default()
        } else {
            Receipt::default()
        };
        let (mut candidates, mut name) = (receipt.candidates, receipt.session_name);
        let mut refusals = receipt.refusals;
        candidates.clear();
        name.clear();
        refusals.clear();
        receipt = Receipt {
            id: self.next,
            candidates,
            refusals,
            session_name: name,
            ..Receipt::default()
        };
        self.next += 1;
        self.receipts.push_back(receipt);
        let last = self.receipts.len() - 1;
        &mut self.receipts[last]
    }

    /// The receipt with this number, unless it has left or never was.
    pub(crate) fn get(&self, id: u64) -> Option<&Receipt> {
        self.receipts.get(self.position(id)?)
    }

    /// The receipt with this number, unless it has left or never was.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Receipt> {
        let position = self.position(id)?;
        self.receipts.get_mut(position)
    }

    /// Receipts kept.
    pub(crate) fn len(&self) -> usize {
        self.receipts.len()
    }

    fn position(&self, id: u64) -> Option<usize> {
        let first = self.receipts.front()?.id;
        usize::try_from(id.checked_sub(first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_numbers_never_return() {
        let mut ring = Ring::new(2);
        for n in 1..=3 {
            let receipt = ring.push();
            assert_eq!((receipt.id, receipt.candidates.len()), (n, 0));
            receipt.session_name.push('x');
        }
        assert_eq!(ring.len(), 2);
        assert!(ring.get(1).is_none());
        assert_eq!(ring.get(2).map(|r| r.id), Some(2));
        assert!(ring.get(4).is_none());
        if let Some(receipt) = ring.get_mut(3) {
            receipt.ending = Ending::Cancelled;
        }
        assert_eq!(ring.get(3).map(|r| r.ending), Some(Ending::Cancelled));
    }
}
