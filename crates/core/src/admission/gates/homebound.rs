//! Who of those that wait at the gates waits for a home alone, and who of them is looked at next?
//!
//! The gates know no cache, so whether a home is still one has to be asked of somebody else, turn by turn.
//! This says which to ask about: first those of homes that may have lost what they had, then all in turn.
//! O(log waiting) a call, and O(log waiting) for each turn that is handed out.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use crate::{ReservationId, WorkerId};

/// The turns that wait for a home, by that.
#[derive(Debug, Default)]
pub(super) struct Homebound {
    waiting: BTreeSet<(WorkerId, ReservationId)>,
    /// Homes that may have lost what they had, and the last turn of each that was handed out.
    doubted: BTreeMap<WorkerId, Option<ReservationId>>,
    /// The last one that was handed out in turn.
    last: Option<(WorkerId, ReservationId)>,
}

impl Homebound {
    pub(super) fn insert(&mut self, home: WorkerId, ticket: ReservationId) {
        self.waiting.insert((home, ticket));
    }

    pub(super) fn remove(&mut self, home: WorkerId, ticket: ReservationId) {
        self.waiting.remove(&(home, ticket));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Those that wait for this home are handed out before the others.
    pub(super) fn doubt(&mut self, home: WorkerId) {
        if self.of(home, None).next().is_some() {
            self.doubted.insert(home, None);
        }
    }

    /// Whether some of a doubted home have not been handed out.
    pub(super) fn is_doubting(&self) -> bool {
        !self.doubted.is_empty()
    }

    /// Hands out at most `most` turns.
    pub(super) fn take(&mut self, most: usize) -> Vec<ReservationId> {
        let mut taken = Vec::new();
        while let Some((&home, &after)) = self.doubted.first_key_value() {
            let room = most - taken.len();
            let found: Vec<_> = self.of(home, after).take(room).collect();
            let last = found.last().copied();
            taken.extend(found);
            if taken.len() == most {
                self.doubted.insert(home, last.or(after));
                return taken;
            }
            self.doubted.remove(&home);
        }
        let (after, upto) = match self.last {
            Some(last) => (Excluded(last), Included(last)),
            None => (Unbounded, Unbounded),
        };
        let first = self.waiting.range((after, Unbounded));
        let rest = self.waiting.range((Unbounded, upto));
        let rest = rest.filter(|_| self.last.is_some());
        let in_turn: Vec<_> = first.chain(rest).take(most - taken.len()).collect();
        let last = in_turn.last().map(|&&last| last);
        taken.extend(in_turn.into_iter().map(|&(_, ticket)| ticket));
        self.last = last.or(self.last);
        taken
    }

    fn of(
        &self,
        home: WorkerId,
        after: Option<ReservationId>,
    ) -> impl Iterator<Item = ReservationId> {
        let from = match after {
            Some(after) => Excluded((home, after)),
            None => Included((home, ReservationId(0))),
        };
        let upto = Included((home, ReservationId(u64::MAX)));
        self.waiting.range((from, upto)).map(|&(_, ticket)| ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(turns: &[(u32, u64)]) -> Homebound {
        let mut all = Homebound::default();
        for &(home, ticket) in turns {
            all.insert(WorkerId(home), ReservationId(ticket));
        }
        all
    }

    fn take(all: &mut Homebound, most: usize) -> Vec<u64> {
        all.take(most).into_iter().map(|ticket| ticket.0).collect()
    }

    #[test]
    fn each_is_handed_out_in_turn() {
        let mut all = waiting(&[(0, 1), (0, 4), (1, 2), (2, 3)]);
        assert_eq!(take(&mut all, 3), [1, 4, 2]);
        assert_eq!(take(&mut all, 3), [3, 1, 4]);
        all.remove(WorkerId(0), ReservationId(4));
        assert_eq!(take(&mut all, 8), [2, 3, 1]);
        assert!(take(&mut Homebound::default(), 8).is_empty());
    }

    #[test]
    fn those_of_a_doubted_home_come_first_and_all_of_them() {
        let mut all = waiting(&[(0, 1), (1, 2), (1, 3), (1, 5), (2, 4)]);
        all.doubt(WorkerId(1));
        assert_eq!(take(&mut all, 2), [2, 3]);
        assert!(all.is_doubting());
        assert_eq!(take(&mut all, 2), [5, 1]);
        assert!(!all.is_doubting());
        all.doubt(WorkerId(7));
        assert!(!all.is_doubting(), "nobody waits there");
    }
}
