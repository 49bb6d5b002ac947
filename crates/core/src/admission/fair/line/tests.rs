//! The line against a list that is walked.
use proptest::prelude::*;

use super::*;

fn sum<'a>(entries: impl Iterator<Item = &'a (u64, u64)>) -> Sum {
    let empty = Sum::default();
    entries.fold(empty, |sum, &(number, cost)| Sum {
        turns: sum.turns + 1,
        cost: sum.cost + cost,
        newest: sum.newest.max(number),
    })
}

fn rank(number: u64) -> Rank {
    Rank::default().numbered(number)
}

fn entry((number, cost): (u64, u64)) -> Entry {
    Entry {
        rank: rank(number),
        ticket: ReservationId(number),
        cost,
    }
}

/// Some turns in any order, by number; and which of them leave again.
fn turns() -> impl Strategy<Value = (Vec<(u64, u64)>, Vec<usize>)> {
    let numbers = proptest::collection::btree_map(0..4_000_u64, 1..50_u64, 0..900);
    let shuffled = numbers.prop_map(Vec::from_iter).prop_shuffle();
    let in_order = proptest::collection::btree_map(0..4_000_u64, 1..50_u64, 0..900);
    let turns = prop_oneof![shuffled, in_order.prop_map(Vec::from_iter)];
    (turns, proptest::collection::vec(any::<usize>(), 0..900))
}

proptest! {
    #[test]
    fn sums_are_those_of_a_walk((turns, leavers) in turns(), start in 0..1_000_u64, at in 0..4_000_u64) {
        let mut line = Line::default();
        let mut model = Vec::new();
        for &turn in &turns {
            line.insert(entry(turn));
            model.push(turn);
        }
        for &leaver in leavers.iter().filter(|_| !turns.is_empty()) {
            let (number, cost) = turns[leaver % turns.len()];
            let was_there = model.iter().position(|turn| turn.0 == number).map(|at| model.remove(at));
            let removed = line.remove(rank(number)).map(|e| (e.rank.number(), e.cost));
            prop_assert_eq!(removed, was_there.map(|_| (number, cost)));
        }
        model.sort_unstable();
        let walked: Vec<_> = line.iter().map(|e| (e.rank.number(), e.cost)).collect();
        prop_assert_eq!(&walked, &model);
        prop_assert_eq!(line.is_empty(), model.is_empty());
        prop_assert_eq!(line.first().map(|e| e.rank.number()), model.first().map(|turn| turn.0));
        prop_assert_eq!(line.before(rank(at)), sum(model.iter().take_while(|turn| turn.0 < at)));
        // As much as half of all has gone by that.
        let key = (start + sum(model.iter()).cost / 2, at);
        let mut begins = start;
        let ahead = model.iter().take_while(|&&(number, cost)| {
            let own = (begins, number);
            begins += cost;
            own < key
        });
        prop_assert_eq!(line.starting_before(start, (key.0, rank(key.1))), sum(ahead));
        prop_assert!(line.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.entries.len())));
    }
}

#[test]
fn turns_that_come_one_after_another_fill_their_chunks() {
    let mut line = Line::default();
    for number in 0..10_000 {
        line.insert(entry((number, 1)));
    }
    assert_eq!(line.chunks.len(), 10_000_usize.div_ceil(CHUNK));
    assert_eq!(line.before(rank(9_999)).turns, 9_999);
}
