//! How long is a session away between two turns, and so how long is its room worth keeping?
//!
//! Counts the lengths of waits by what was waited for and by whether the session's last wait had
//! outlasted its lease: tools mostly come back soon, people mostly do not, and who was late once is
//! late more often. A lease that ends after `t` costs the room for the wait or for `t`, whichever is
//! shorter, and a refill for the waits that are longer; the best `t` is where that is least over the
//! waits so far. Without enough of them the break-even itself is taken, which is never worse than
//! twice the best (ski rental). Old waits fade. Integers only; O(buckets), of which there are few.
use super::super::Waits;
use crate::Micros;

/// Two buckets for each doubling, from a quarter of a second to two hours and a half.
const BUCKETS: usize = 32;
/// The lengths of the first bucket, in microseconds: 2 to this power.
const UNIT: u32 = 18;
/// Fewer waits than this say nothing.
const ENOUGH: u32 = 24;
/// With so many, all count half.
const MANY: u32 = 2_048;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCount {
    /// Waits that have ended with a next turn.
    pub ended: u64,
    /// Of these, longer than the lease.
    pub outlasted: u64,
}

/// Waits so far, by what was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// For tools.
    pub tool: WaitCount,
    /// For a person.
    pub person: WaitCount,
    /// For what the answer did not say.
    pub unknown: WaitCount,
}

impl WaitCounts {
    pub(super) fn count(&mut self, kind: WaitKind, was_late: bool) {
        let count = match kind.waits {
            Waits::Tool => &mut self.tool,
            Waits::Person => &mut self.person,
            Waits::Unknown => &mut self.unknown,
        };
        count.ended += 1;
        count.outlasted += u64::from(was_late);
    }
}

/// What is known of a wait when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitKind {
    pub(super) waits: Waits,
    /// Whether the session's last wait had outlasted its lease.
    pub(super) was_late: bool,
}

/// The lengths of all waits.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitLengths([Lengths; 6]);

impl WaitLengths {
    pub(super) fn count(&mut self, kind: WaitKind, length: Micros) {
        self.0[class(kind)].count(length);
    }

    /// The lease that costs least, when `break_even` is the time for which keeping the room costs as
    /// much as a refill.
    pub(super) fn lease(&self, kind: WaitKind, break_even: Micros) -> Micros {
        self.0[class(kind)].lease(break_even)
    }
}

fn class(kind: WaitKind) -> usize {
    let waits = match kind.waits {
        Waits::Tool => 0,
        Waits::Person => 1,
        Waits::Unknown => 2,
    };
    2 * waits + usize::from(kind.was_late)
}

#[derive(Clone, Debug, Default)]
struct Lengths {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Lengths {
    fn count(&mut self, length: Micros) {
        self.counts[bucket(length)] += 1;
        self.total += 1;
        if self.total >= MANY {
            for count in &mut self.counts {
                *count /= 2;
            }
            self.total = self.counts.iter().sum();
        }
    }

    fn lease(&self, break_even: Micros) -> Micros {
        if self.total < ENOUGH {
            return break_even;
        }
        let refill = u128::from(break_even.0);
        let (mut best, mut least) = (0, u128::from(self.total) * refill);
        let (mut longer, mut waited) = (self.total, 0);
        for (bucket, &count) in self.counts.iter().enumerate() {
            let (start, end) = (edge(bucket), edge(bucket + 1));
            longer -= count;
            waited += u128::from(count) * u128::from(start + (end - start) / 2);
            let cost = waited + u128::from(longer) * (u128::from(end) + refill);
            if cost < least {
                (best, least) = (end, cost);
            }
        }
        Micros(best)
    }
}

/// The bucket of a length.
fn bucket(length: Micros) -> usize {
    let halves = length.0 >> (UNIT - 1);
    let doublings = halves.checked_ilog2().unwrap_or(0);
    if doublings == 0 {
        return 0;
    }
    let is_upper = halves >> (doublings - 1) & 1;
    (2 * doublings as usize - 1 + is_upper as usize).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn edge(bucket: usize) -> u64 {
    match bucket.checked_sub(1) {
        None => 0,
        Some(steps) => (2 + steps as u64 % 2) << (steps as u32 / 2 + UNIT) >> 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: WaitKind = WaitKind {
        waits: Waits::Tool,
        was_late: false,
    };

    fn after(lengths: &[(u32, u64)]) -> WaitLengths {
        let mut waits = WaitLengths::default();
        for &(times, seconds) in lengths {
            (0..times).for_each(|_| waits.count(TOOL, Micros::from_secs(seconds)));
        }
        waits
    }

    #[test]
    fn a_length_is_in_the_bucket_that_begins_before_it() {
        let lengths = (0..1_000).map(|n: u64| Micros(n * n * 1_000));
        for length in lengths.chain([Micros(u64::MAX)]) {
            let at = bucket(length);
            assert!(edge(at) <= length.0, "{length:?} {at}");
            assert!(
                length.0 < edge(at + 1) || at == BUCKETS - 1,
                "{length:?} {at}"
            );
        }
    }

    #[test]
    fn the_break_even_is_the_lease_until_enough_is_known() {
        let even = Micros::from_secs(60);
        assert_eq!(after(&[(23, 1)]).lease(TOOL, even), even);
        assert_ne!(after(&[(24, 1)]).lease(TOOL, even), even);
    }

    #[test]
    fn room_is_kept_for_those_who_come_soon_and_for_nobody_who_comes_late() {
        let even = Micros::from_secs(60);
        let soon = after(&[(80, 9), (20, 900)]).lease(TOOL, even);
        assert!((9..15).contains(&(soon.0 / 1_000_000)), "{soon:?}");
        assert_eq!(after(&[(100, 190)]).lease(TOOL, even), Micros(0));
        // A refill that is dear enough makes waiting worth while.
        let dear = after(&[(100, 190)]).lease(TOOL, Micros::from_secs(600));
        assert!(dear >= Micros::from_secs(190), "{dear:?}");
    }

    #[test]
    fn what_sessions_did_long_ago_fades() {
        let mut waits = after(&[(4_000, 9)]);
        (0..4_000).for_each(|_| waits.count(TOOL, Micros::from_secs(900)));
        assert_eq!(waits.lease(TOOL, Micros::from_secs(60)), Micros(0));
    }
}
