//! How fast do turns of a group get through their queue?
//!
//! The mean time between two that go while others wait, over about the last eight, times a turn's
//! place. Queues of one group are taken together, so it is a guide and no promise. O(1), integers.

use crate::id::Micros;

/// What is left of the mean at the next one: all but one of so many parts.
const MEMORY: u64 = 8;

/// The pace of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last: Micros,
    gap: Option<Micros>,
}

impl Pace {
    /// Somebody waits, and nobody did.
    pub(super) fn begin(&mut self, now: Micros) {
        self.last = now;
    }

    /// A turn that waited goes.
    pub(super) fn went(&mut self, now: Micros) {
        let sample = now.since(self.last).0;
        self.gap = Some(Micros(match self.gap {
            None => sample,
            Some(Micros(gap)) => gap - gap / MEMORY + sample / MEMORY,
        }));
        self.last = now;
    }

    /// How long it takes until the turn at this place goes, if anything is known.
    pub(super) fn expected(&self, place: u32, now: Micros) -> Option<Micros> {
        let whole = self.gap?.0.saturating_mul(u64::from(place.max(1)));
        Some(Micros(whole.saturating_sub(now.since(self.last).0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_from_how_often_others_go() {
        let seconds = Micros::from_secs;
        let mut pace = Pace::default();
        assert_eq!(pace.expected(3, seconds(100)), None);
        pace.begin(seconds(100));
        pace.went(seconds(110));
        assert_eq!(pace.expected(3, seconds(110)), Some(seconds(30)));
        assert_eq!(pace.expected(3, seconds(114)), Some(seconds(26)));
        assert_eq!(pace.expected(1, seconds(200)), Some(Micros(0)));
        for n in 0..100 {
            pace.begin(seconds(1_000 + 10 * n));
            pace.went(seconds(1_002 + 10 * n));
        }
        let Some(Micros(gap)) = pace.expected(1, seconds(1_992)) else {
            panic!("known by now");
        };
        assert!((1_999_900..=2_000_100).contains(&gap), "{gap}");
    }
}
