//! Which of one tenant's turns goes first?
//!
//! Three orders: first come, first served; least to compute, weighted by how urgent it is; last come,
//! first served. A turn's place in its order is its [`Rank`], found once when it begins to wait from
//! whole numbers alone, so that the same turns are in the same order on any machine; fractions have so
//! many bits that two which differ are never taken for equal.
//!
//! What a priority does to a rank is a choice of its own, [`Priorities`]. The published router takes one
//! as a jump in this order and cuts what is below 0 to 0, so that nothing can be put behind. Here what
//! is below 0 is compared before the order is: a turn of priority -1 goes behind all of 0 in each of them.
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
///
/// What counts before the order does stands above the score, in one number of 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    high: u64,
    low: u64,
    number: u64,
}

/// Bits of a score.
const SCORE_BITS: u32 = 80;
/// Of a rank that has not waited for as long as any may be passed.
const YOUNG: u128 = 1 << 112;
/// Bits behind the point of `tokens / (1 + jump)`. Two such that differ do so by more than 2^-54, as
/// long as neither head start is above [`MOST_JUMP`].
const FRACTION_BITS: u32 = 56;
/// The greatest head start that counts where it is a factor: `1 + jump` has at most 27 bits.
const MOST_JUMP: i64 = 130 * MILLION;

impl Order {
    /// Whether one that came later may go first.
    pub(super) const fn may_pass(self) -> bool {
        !matches!(self, Self::Fcfs)
    }

    /// The rank of a turn. The scores are the published ones, as whole numbers:
    /// first come `since - jump`, last come `-(since + jump)`, least to compute `(1 + jump) / tokens`.
    pub(crate) fn rank(self, ask: Ask) -> Rank {
        let jump = ask.jump.max(0);
        let since = i64::try_from(ask.since.0).unwrap_or(i64::MAX);
        let score = match self {
            Self::Fcfs => at(since.saturating_sub(jump)),
            Self::Lcfs => at(since.saturating_add(jump).saturating_neg()),
            Self::Wspt => {
                let urgency = (MILLION + jump.min(MOST_JUMP)).unsigned_abs();
                (u128::from(ask.tokens.max(1)) << FRACTION_BITS) / u128::from(urgency)
            }
        };
        let behind = u32::try_from(ask.jump.min(0).unsigned_abs()).unwrap_or(u32::MAX);
        Rank::of(YOUNG | (u128::from(behind) << SCORE_BITS) | score)
    }
}

/// A time of microseconds as a score.
fn at(time: i64) -> u128 {
    u128::from(time.cast_unsigned() ^ (1 << 63))
}

impl Rank {
    /// Before all that are not: of these, the first to come.
    pub(super) const OLD: Self = Self::of(0);

    const fn of(key: u128) -> Self {
        Self {
            high: (key >> 64) as u64,
            low: key as u64,
            number: 0,
        }
    }

    /// With this number among those that came.
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Its number among those that came.
    pub(crate) fn number(self) -> u64 {
        self.number
    }
}
