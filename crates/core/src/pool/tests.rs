//! Against a set of objects, and what bad input costs.
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

fn layout(tensor: u32, pipeline: u32, halves: u32, groups: u32) -> Layout {
    let size = |n| NonZeroU32::new(n).unwrap();
    Layout {
        tensor: size(tensor),
        pipeline: size(pipeline),
        halves: size(halves),
        groups: size(groups),
        ..Layout::default()
    }
}

fn part(tensor: u32, pipeline: u32, half: u32, group: u32) -> Part {
    Part {
        tensor,
        pipeline,
        half,
        group,
        ..Part::default()
    }
}

#[test]
fn every_object_of_a_layout_has_a_number_of_its_own() {
    let layout = layout(4, 2, 2, 3);
    assert_eq!(layout.parts().unwrap(), 48);
    let mut numbers = BTreeSet::new();
    for (tensor, pipeline) in (0..4).flat_map(|t| (0..2).map(move |p| (t, p))) {
        for (half, group) in (0..2).flat_map(|h| (0..3).map(move |g| (h, g))) {
            let number = layout.number(&part(tensor, pipeline, half, group)).unwrap();
            assert!(number < 48 && numbers.insert(number));
        }
    }
    for foreign in [
        part(4, 0, 0, 0),
        part(0, 2, 0, 0),
        part(0, 0, 2, 0),
        part(0, 0, 0, 3),
    ] {
        assert_eq!(layout.number(&foreign), None);
    }
    let context = Part {
        decode_context: 1,
        ..Part::default()
    };
    assert_eq!(layout.number(&context), None);
}

#[test]
fn a_layout_of_too_many_objects_is_refused() {
    assert!(Pool::new(layout(32, 16, 2, 1), 10).is_ok());
    for (tensor, pipeline) in [(32, 33), (u32::MAX, u32::MAX)] {
        let refused = Pool::new(layout(tensor, pipeline, 1, 1), 10).unwrap_err();
        assert_eq!(refused.code(), "INVALID_ARGUMENT");
    }
}

#[test]
fn what_is_beyond_the_limit_or_of_another_layout_is_counted_and_changes_nothing() {
    let mut pool = Pool::new(layout(2, 1, 1, 1), 2).unwrap();
    for page in 0..3 {
        pool.put(page, &part(0, 0, 0, 0));
    }
    assert_eq!((pool.pages(), pool.refused()), (2, 1));
    assert_eq!(pool.put(0, &part(2, 0, 0, 0)), PageChange::None);
    assert_eq!(pool.take(0, &part(0, 0, 1, 0)), PageChange::None);
    assert_eq!((pool.pages(), pool.foreign()), (2, 2));
    assert_eq!(pool.put(1, &part(1, 0, 0, 0)), PageChange::Whole);
    pool.clear();
    assert_eq!((pool.pages(), pool.whole(), pool.bytes()), (0, 0, 0));
}

proptest! {
    /// Whatever the order of events, repeated and unknown ones included, a page is whole when each of its
    /// objects is there, and each change is told once.
    #[test]
    fn pages_are_whole_as_in_a_set_of_objects(
        sizes in (1..4_u32, 1..3_u32, 1..3_u32, 1..40_u32),
        events in prop::collection::vec((any::<bool>(), 0..6_u64, (0..4_u32, 0..3_u32, 0..3_u32, 0..40_u32)), 0..600),
    ) {
        let (tensor, pipeline, halves, groups) = sizes;
        let layout = layout(tensor, pipeline, halves, groups);
        let all = layout.parts().unwrap() as usize;
        let mut pool = Pool::new(layout, 5).unwrap();
        let mut naive: BTreeMap<u64, BTreeSet<(u32, u32, u32, u32)>> = BTreeMap::new();
        for (is_put, page, at) in events {
            let part = part(at.0, at.1, at.2, at.3);
            let fits = at.0 < tensor && at.1 < pipeline && at.2 < halves && at.3 < groups;
            let is_whole = |naive: &BTreeMap<u64, BTreeSet<_>>| naive.get(&page).is_some_and(|p| p.len() == all);
            let before = is_whole(&naive);
            let change = match is_put {
                true => pool.put(page, &part),
                false => pool.take(page, &part),
            };
            if fits && is_put && (naive.contains_key(&page) || naive.len() < 5) {
                naive.entry(page).or_default().insert(at);
            } else if fits && !is_put && let Some(parts) = naive.get_mut(&page) {
                parts.remove(&at);
                if parts.is_empty() {
                    naive.remove(&page);
                }
            }
            let after = is_whole(&naive);
            let expected = match (before, after) {
                (false, true) => PageChange::Whole,
                (true, false) => PageChange::Broken,
                _ => PageChange::None,
            };
            prop_assert_eq!(change, expected);
            prop_assert_eq!(pool.is_whole(page), after);
            prop_assert_eq!(pool.pages(), naive.len());
            prop_assert_eq!(pool.whole(), naive.values().filter(|parts| parts.len() == all).count());
        }
    }
}
