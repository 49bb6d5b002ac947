//! What has happened, counted for whoever watches.
//!
//! Additions only, and no lists: a turn costs a few of them. Per branch of a session two counts are kept
//! until it ends: how often it was paused and moved; what is told of that is how many reached how much of
//! it. Not in snapshots: counts are of this process.

use hashbrown::HashMap;

use crate::id::{Micros, ProgramId};
use crate::receipt::{Ending, HoldReason, Reported};

use super::reservation::{Reservation, State};
use super::turn::Outcome;
use crate::continuity::Lock;

/// Upper ends of the steps that hold times are counted in, in milliseconds.
pub const HOLD_STEPS: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 900_000, 1_800_000,
];

/// How often something befell a session, in the steps that are told apart.
pub const CHURN_STEPS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The turn went.
    Go,
    /// It was withdrawn.
    Cancelled,
    /// It waited for as long as is allowed.
    HoldLimit,
    /// Nobody was left to take it.
    NoWorker,
    /// The owner of its lock did not come back.
    OwnerUnavailable,
    /// The owner of its lock is gone.
    StateLost,
    /// The scheduler was closed.
    Closed,
}

impl HoldEnd {
    /// Every one, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Go,
        Self::Cancelled,
        Self::HoldLimit,
        Self::NoWorker,
        Self::OwnerUnavailable,
        Self::StateLost,
        Self::Closed,
    ];

    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Cancelled => "cancelled",
            Self::HoldLimit => "hold-limit",
            Self::NoWorker => "no-worker",
            Self::OwnerUnavailable => "owner-unavailable",
            Self::StateLost => "state-lost",
            Self::Closed => "closed",
        }
    }

    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Go(_) => Self::Go,
            Outcome::HoldLimit(_) => Self::HoldLimit,
            Outcome::NoWorker => Self::NoWorker,
            Outcome::OwnerUnavailable => Self::OwnerUnavailable,
            Outcome::StateLost => Self::StateLost,
            Outcome::Closed => Self::Closed,
        }
    }
}

/// What befalls a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Churn {
    /// It lost all its room.
    Pause,
    /// Its turn went to another worker than the one that had its context.
    Move,
}

/// The counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Times that a turn began to wait for this, by [`HoldReason::ALL`].
    pub holds: [u64; HoldReason::ALL.len()],
    /// Ends of holds, by [`HoldEnd::ALL`].
    pub hold_ends: [u64; 7],
    /// Holds by how long they were: those of each of [`HOLD_STEPS`], and longer ones.
    pub hold_times: [u64; 13],
    /// How long all holds were together.
    pub held_for: Micros,
    /// Turns whose upstream failed; they are among the cancelled.
    pub failed: u64,
    /// Turns that a free choice of model gave to another one than their session had.
    pub switches: u64,
    /// Tokens of the prompts that went, estimated unless they came as tokens.
    pub prompt_tokens: u64,
    /// Of these, believed to be cached.
    pub predicted_tokens: u64,
    /// Prompt, cached and generated tokens that engines have reported.
    pub reported: [u64; 3],
    /// Sessions that were paused so often, by [`CHURN_STEPS`]; then those that moved.
    pub churn: [[u64; CHURN_STEPS.len()]; 2],
    /// Pauses, and moves.
    pub befallen: [u64; 2],
    /// How often each branch that lives was paused and moved.
    by_program: HashMap<ProgramId, [u32; 2]>,
}

impl Tally {
    pub(super) fn held(&mut self, why: HoldReason) {
        self.holds[why as usize] += 1;
    }

    pub(super) fn hold_ended(&mut self, outcome: &Outcome, held: Micros) {
        self.count_hold(HoldEnd::of(outcome), held);
    }

    fn count_hold(&mut self, end: HoldEnd, held: Micros) {
        self.hold_ends[end as usize] += 1;
        let step = HOLD_STEPS.iter().position(|&most| held.0 <= most * 1_000);
        self.hold_times[step.unwrap_or(HOLD_STEPS.len())] += 1;
        self.held_for = self.held_for.plus(held);
    }

    /// A turn ends that nobody has answered; `hold` is how its hold ends, if it is held.
    pub(super) fn unanswered(
        &mut self,
        turn: &Reservation,
        (ending, hold): (Ending, HoldEnd),
        now: Micros,
    ) {
        self.failed += u64::from(ending == Ending::Failed);
        if turn.state == State::Held {
            self.count_hold(hold, now.since(turn.since));
        }
    }

    /// A turn goes to a worker that should have `cached` tokens of it. Not yet counted as running.
    pub(super) fn placed(&mut self, turn: &Reservation, cached: u32) {
        if turn.state != State::Held {
            return;
        }
        self.prompt_tokens += u64::from(turn.chain.tokens());
        self.predicted_tokens += u64::from(cached);
        let is_switch = turn.model.as_ref().is_some_and(|note| note.is_switch());
        self.switches += u64::from(is_switch && turn.route.lock.lock == Lock::Free);
    }

    pub(super) fn reported(&mut self, reported: &Reported) {
        let counts = [
            reported.prompt_tokens,
            reported.cached_tokens,
            reported.completion_tokens,
        ];
        for (sum, count) in self.reported.iter_mut().zip(counts) {
            *sum += u64::from(count.unwrap_or(0));
        }
    }

    /// A branch lives from now on.
    pub(super) fn begun(&mut self, program: ProgramId) {
        self.by_program.insert(program, [0; 2]);
    }

    /// Counts for a branch that lives. What befalls a turn that outlives its branch befalls nobody: counted
    /// from 0 again, more branches would have reached a step than there are.
    pub(super) fn befell(&mut self, program: ProgramId, what: Churn) {
        let kind = what as usize;
        let Some(counts) = self.by_program.get_mut(&program) else {
            return;
        };
        let count = &mut counts[kind];
        *count = count.saturating_add(1);
        self.befallen[kind] += 1;
        if let Some(step) = CHURN_STEPS.iter().position(|step| step == count) {
            self.churn[kind][step] += 1;
        }
    }

    /// The branch is over.
    pub(super) fn forget(&mut self, program: ProgramId) {
        self.by_program.remove(&program);
    }
}

impl super::Scheduler {
    /// What has happened, for whoever watches.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the policies of all groups have done.
    #[must_use]
    pub fn policy_counts(&self) -> crate::admission::PolicyCounts {
        let mut sum = crate::admission::PolicyCounts::default();
        for admission in &self.admission {
            admission.add_counts(&mut sum);
        }
        sum
    }

    /// Branches of sessions so far: what [`Tally::churn`] is out of.
    #[must_use]
    pub fn branches_so_far(&self) -> u64 {
        self.sessions.programs()
    }
}
