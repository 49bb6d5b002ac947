//! What is to happen at a known time, in an order that depends on nothing else.
//!
//! Entries of one time come by their kind, then by a number that whoever enters them chooses or gets.
//! Engines and routers are not here: they say when they are due. O(log entries).
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::content::TurnKey;
use super::tidings::{Life, Parcel};
use crate::event::Nanos;

/// What is to happen. In the order in which it does at one time.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// The router hears of a cache.
    Deliver(Parcel),
    /// An engine is asked to tell again what it has told from a number on.
    TellAgain { worker: u32, life: Life, from: u64 },
    /// A worker dies.
    Die(u32),
    /// A worker comes back.
    Return(u32),
    /// A client may give its turn up.
    LosePatience(u64),
    /// A client whose turn was lost asks again.
    AskAgain(u64),
    /// A turn starts.
    Arrive(TurnKey),
}

impl Item {
    fn is_turn(&self) -> bool {
        matches!(self, Self::Arrive(_) | Self::AskAgain(_))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Deliver(_) => 0,
            Self::TellAgain { .. } => 1,
            Self::Die(_) => 2,
            Self::Return(_) => 3,
            Self::LosePatience(_) => 4,
            Self::AskAgain(_) => 5,
            Self::Arrive(_) => 6,
        }
    }
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    order: u64,
    item: Item,
}

impl Entry {
    fn key(&self) -> (Nanos, u8, u64) {
        (self.at, self.item.rank(), self.order)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// All that is to happen.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    next: u64,
    /// Entries that bring a turn.
    turns: usize,
}

impl Agenda {
    /// Enters an item behind what is there for that time and kind.
    pub(crate) fn add(&mut self, at: Nanos, item: Item) {
        self.next += 1;
        self.add_in_order(at, self.next, item);
    }

    /// Enters an item at its place among those of that time and kind.
    pub(crate) fn add_in_order(&mut self, at: Nanos, order: u64, item: Item) {
        self.turns += usize::from(item.is_turn());
        self.entries.push(Reverse(Entry { at, order, item }));
    }

    /// The time of the first item.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the first item if it is due by `now`.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<Item> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(entry) = self.entries.pop()?;
        self.turns -= usize::from(entry.item.is_turn());
        Some(entry.item)
    }

    /// How many turns are on their way.
    pub(crate) fn turns(&self) -> usize {
        self.turns
    }

    /// Whether the first item that is due is one that comes before any arrival.
    pub(crate) fn is_before_arrivals(&self, now: Nanos) -> bool {
        self.entries
            .peek()
            .is_some_and(|Reverse(entry)| entry.at <= now && !entry.item.is_turn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_numbers_order_what_is_due_at_once() {
        let mut agenda = Agenda::default();
        let turn = |turn| Item::Arrive(TurnKey { instance: 0, turn });
        agenda.add_in_order(5, 2, turn(2));
        agenda.add_in_order(5, 1, turn(1));
        agenda.add(5, Item::Die(3));
        agenda.add(4, turn(9));
        assert!(agenda.take_due(3).is_none());
        let order: Vec<String> = std::iter::from_fn(|| agenda.take_due(5))
            .map(|item| format!("{item:?}"))
            .collect();
        let turns = [9, 1, 2].map(|n| format!("{:?}", turn(n)));
        assert_eq!(order[0], turns[0]);
        assert_eq!(order[1], "Die(3)");
        assert_eq!(order[2..], turns[1..]);
    }
}
