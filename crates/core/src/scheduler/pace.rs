//! How fast do turns of a group get through their queue?
//!
//! The mean time between two that go while others wait, over about the last eight, times a turn's
//! place. Each class of a group's queue has its own, since a place is one in a class. As long as nobody
//! goes, the time since the last one did is an interval that is not over, so what is expected grows
//! while everything is stuck. Tenants and workers of a class are taken together, so it is a guide and
//! no promise. O(1), integers.

use crate::admission::MAX_CLASSES;
use crate::id::Micros;

/// What is left of the mean at the next one: all but one of so many parts.
const MEMORY: u64 = 8;

/// The paces of one group's lines: one for each class of its queue, one for those that are in none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    classes: [Flow; MAX_CLASSES],
    unclassed: Flow,
}

/// The pace of one line.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    last: Micros,
    gap: Option<Micros>,
}

impl Pace {
    /// Somebody waits in the line, and nobody did.
    pub(super) fn begin(&mut self, class: Option<usize>, now: Micros) {
        self.flow_mut(class).last = now;
    }

    /// A turn that waited in the line goes.
    pub(super) fn went(&mut self, class: Option<usize>, now: Micros) {
        self.flow_mut(class).went(now);
    }

    /// How long it takes until the turn at this place of the line goes, if anything is known.
    pub(super) fn expected(&self, class: Option<usize>, place: u32, now: Micros) -> Option<Micros> {
        let flow = class.and_then(|class| self.classes.get(class));
        flow.unwrap_or(&self.unclassed).expected(place, now)
    }

    fn flow_mut(&mut self, class: Option<usize>) -> &mut Flow {
        let flow = class.and_then(|class| self.classes.get_mut(class));
        flow.unwrap_or(&mut self.unclassed)
    }
}

impl Flow {
    fn went(&mut self, now: Micros) {
        let sample = now.since(self.last).0;
        self.gap = Some(Micros(match self.gap {
            None => sample,
            Some(Micros(gap)) => gap - gap / MEMORY + sample / MEMORY,
        }));
        self.last = now;
    }

    /// What is left of the interval that runs and those of all before: by the mean, or by the one that
    /// runs once that is longer.
    fn expected(&self, place: u32, now: Micros) -> Option<Micros> {
        let (gap, since) = (self.gap?.0, now.since(self.last).0);
        let whole = gap.max(since).saturating_mul(u64::from(place.max(1)));
        Some(Micros(whole.saturating_sub(gap.min(since))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_from_how_often_others_go() {
        let seconds = Micros::from_secs;
        let mut pace = Pace::default();
        assert_eq!(pace.expected(None, 3, seconds(100)), None);
        pace.begin(None, seconds(100));
        pace.went(None, seconds(110));
        assert_eq!(pace.expected(None, 3, seconds(110)), Some(seconds(30)));
        assert_eq!(pace.expected(None, 3, seconds(114)), Some(seconds(26)));
        assert_eq!(pace.expected(None, 1, seconds(120)), Some(Micros(0)));
        for n in 0..100 {
            pace.begin(None, seconds(1_000 + 10 * n));
            pace.went(None, seconds(1_002 + 10 * n));
        }
        let Some(Micros(gap)) = pace.expected(None, 1, seconds(1_992)) else {
            panic!("known by now");
        };
        assert!((1_999_900..=2_000_100).contains(&gap), "{gap}");
    }

    #[test]
    fn what_is_expected_grows_while_nobody_goes() {
        let seconds = Micros::from_secs;
        let mut pace = Pace::default();
        pace.begin(None, seconds(100));
        pace.went(None, seconds(110));
        assert_eq!(pace.expected(None, 1, seconds(121)), Some(seconds(1)));
        assert_eq!(pace.expected(None, 1, seconds(150)), Some(seconds(30)));
        assert_eq!(pace.expected(None, 2, seconds(120)), Some(seconds(10)));
        assert_eq!(pace.expected(None, 2, seconds(150)), Some(seconds(70)));
        assert_eq!(
            pace.expected(None, u32::MAX, Micros(u64::MAX)),
            Some(Micros(u64::MAX - seconds(10).0))
        );
    }

    #[test]
    fn a_class_has_the_pace_of_its_own_turns() {
        let seconds = Micros::from_secs;
        let mut pace = Pace::default();
        pace.begin(Some(0), seconds(0));
        pace.begin(Some(1), seconds(0));
        for second in 1..=60 {
            pace.went(Some(0), seconds(second));
        }
        assert_eq!(pace.expected(Some(1), 1, seconds(60)), None);
        pace.went(Some(1), seconds(60));
        assert_eq!(pace.expected(Some(0), 2, seconds(60)), Some(seconds(2)));
        assert_eq!(pace.expected(Some(1), 2, seconds(60)), Some(seconds(120)));
        assert_eq!(pace.expected(None, 2, seconds(60)), None);
    }
}
