//! Which of one tenant's turns goes first?
//!
//! Three orders: first come, first served; least to compute, weighted by how urgent it is; last come,
//! first served. A turn's place in its order is its [`Rank`], found once when it begins to wait from
//! whole numbers alone, so that the same turns are in the same order on any machine; fractions are
//! compared by their cross products.
//!
//! What a priority does to a rank is a choice of its own, [`Priorities`]. The published router takes one
//! as a jump in this order and cuts what is below 0 to 0, so that nothing can be put behind. Here what
//! is below 0 is compared before the order is: a turn of priority -1 goes behind all of 0 in each of them.
use std::cmp::Ordering;

use crate::Micros;

/// The order of one tenant's turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The least tokens to compute first.
    Wspt,
    /// Last come, first served.
    Lcfs,
}

/// What a turn's priority does where turns wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priorities {
    /// Higher goes first, but for one in eight.
    #[default]
    Strict,
    /// Above 0 it is a head start in its order; below 0 the turn goes behind all that are not.
    HeadStart,
    /// As the published router has it: a head start, and below 0 is 0. Nothing keeps a turn from
    /// waiting for ever.
    Published,
}

/// A millionth of a priority, and of a second of head start.
const MILLION: i64 = 1_000_000;

/// What of a turn decides its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// When it began to wait.
    pub(crate) since: Micros,
    /// What has to be computed for it.
    pub(crate) tokens: u32,
    /// Its head start in millionths.
    pub(crate) jump: i64,
}

impl Priorities {
    /// What of a priority is strict, and what is a head start, in millionths.
    pub(super) fn split(self, priority: i16) -> (i16, i64) {
        match self {
            Self::Strict => (priority, 0),
            Self::HeadStart | Self::Published => (0, self.jump(i64::from(priority) * MILLION)),
        }
    }

    /// What of a head start counts.
    pub(super) fn jump(self, millionths: i64) -> i64 {
        match self {
            Self::Published => millionths.max(0),
            Self::Strict | Self::HeadStart => millionths,
        }
    }
}

/// A turn's place among those of its tenant and priority: the least goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    standing: Standing,
    score: Score,
    number: u64,
}

/// What counts before the order does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It has waited for as long as any may be passed.
    Old,
    #[default]
    Ordinary,
    /// It asked to be put behind, so far.
    Behind(u64),
}

/// A place in the order: the least goes first.
#[derive(Clone, Copy, Debug)]
enum Score {
    /// A time, in microseconds.
    At(i64),
    /// How urgent, over how long: the greatest goes first.
    Share { urgency: u64, tokens: u32 },
}

impl Order {
    /// Whether one that came later may go first.
    pub(super) const fn may_pass(self) -> bool {
        !matches!(self, Self::Fcfs)
    }

    /// The rank of a turn. The scores are the published ones, as whole numbers:
    /// first come `since - jump`, last come `-(since + jump)`, least to compute `(1 + jump) / tokens`.
    pub(crate) fn rank(self, ask: Ask) -> Rank {
        let standing = match ask.jump {
            0.. => Standing::Ordinary,
            jump => Standing::Behind(jump.unsigned_abs()),
        };
        let jump = ask.jump.max(0);
        let since = i64::try_from(ask.since.0).unwrap_or(i64::MAX);
        let score = match self {
            Self::Fcfs => Score::At(since.saturating_sub(jump)),
            Self::Lcfs => Score::At(since.saturating_add(jump).saturating_neg()),
            Self::Wspt => Score::Share {
                urgency: MILLION.saturating_add(jump).unsigned_abs(),
                tokens: ask.tokens.max(1),
            },
        };
        Rank {
            standing,
            score,
            number: 0,
        }
    }
}

impl Rank {
    /// Before all that are not: of these, the first to come.
    pub(super) const OLD: Self = Self {
        standing: Standing::Old,
        score: Score::At(0),
        number: 0,
    };

    /// With this number among those that came.
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Its number among those that came.
    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

impl Default for Score {
    fn default() -> Self {
        Self::At(0)
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::At(own), Self::At(other)) => own.cmp(&other),
            (
                Self::Share { urgency, tokens },
                Self::Share {
                    urgency: others,
                    tokens: theirs,
                },
            ) => {
                let product = |urgency: u64, tokens: u32| u128::from(urgency) * u128::from(tokens);
                product(others, tokens).cmp(&product(urgency, theirs))
            }
            // Turns of one queue have one order.
            (Self::At(_), Self::Share { .. }) => Ordering::Less,
            (Self::Share { .. }, Self::At(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}
