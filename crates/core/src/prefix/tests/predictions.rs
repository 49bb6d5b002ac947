//! Predictions: age, capacity, what a report of cached tokens tells, and the bound of the index.
use super::*;

const P: PlaceId = PlaceId(0);

fn options(capacity: Option<u64>, ttl: Option<u64>) -> PlaceOptions {
    PlaceOptions {
        capacity_tokens: capacity,
        ttl: ttl.map(Micros),
        ..PlaceOptions::default()
    }
}

#[test]
fn the_least_recently_used_go_first_and_leaves_before_their_parents() {
    let mut index = index_of(1, options(Some(50), None));
    index.predict(Micros(1), P, &chain(&[1, 2, 3]));
    index.predict(Micros(2), P, &chain(&[1, 9]));
    index.predict(Micros(3), P, &chain(&[1, 9, 10]));
    assert_eq!((blocks_at(&index, 0, &[1, 2, 3]), index.tokens(P)), (3, 50));
    index.predict(Micros(4), P, &chain(&[1, 9, 10, 11]));
    assert_eq!((blocks_at(&index, 0, &[1, 2, 3]), index.tokens(P)), (2, 50));
    index.predict(Micros(5), P, &chain(&[4, 5]));
    assert_eq!(blocks_at(&index, 0, &[1, 2, 3]), 1);
    assert_eq!(blocks_at(&index, 0, &[1, 9, 10, 11]), 3);
    assert_eq!(blocks_at(&index, 0, &[4, 5]), 2);
}

#[test]
fn a_prompt_larger_than_the_place_keeps_its_head() {
    let mut index = index_of(1, options(Some(20), None));
    assert_eq!(index.predict(Micros(1), P, &chain(&[1, 2, 3, 4])), 4);
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2, 3, 4]), blocks_total(&index)),
        (2, 2)
    );
    assert!(index.set_capacity(P, Some(10)));
    assert_eq!(blocks_at(&index, 0, &[1, 2, 3, 4]), 1);
    assert!(!index.set_capacity(PlaceId(5), None));
}

#[test]
fn another_lifetime_holds_for_what_is_there_too() {
    let mut index = index_of(1, options(None, None));
    index.predict(Micros(1), P, &chain(&[1, 2]));
    assert_eq!(index.next_expiry(), None);
    assert!(index.set_ttl(P, Some(Micros(100))));
    assert_eq!(index.next_expiry(), Some(Micros(101)));
    index.set_ttl(P, Some(Micros(50)));
    index.expire(Micros(60));
    assert_eq!(blocks_at(&index, 0, &[1, 2]), 0);
    index.predict(Micros(60), P, &chain(&[8, 9]));
    index.set_ttl(P, None);
    index.expire(Micros(1_000));
    assert_eq!(blocks_at(&index, 0, &[8, 9]), 2);
    assert!(!index.set_ttl(PlaceId(5), None));
}

#[test]
fn exact_blocks_count_against_capacity_and_stay() {
    let mut index = index_of(1, options(Some(30), None));
    store(&mut index, P, None, &stored_all(&[1, 2]));
    index.predict(Micros(1), P, &chain(&[1, 2, 3, 4]));
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2, 3, 4]), index.tokens(P)),
        (3, 30)
    );
    index.set_capacity(P, Some(0));
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2, 3, 4]), index.tokens(P)),
        (2, 20)
    );
}

#[test]
fn what_is_used_again_lives_longer_and_time_does_not_go_back() {
    let mut index = index_of(1, options(None, Some(100)));
    assert_eq!(index.next_expiry(), None);
    index.predict(Micros(10), P, &chain(&[1, 2]));
    assert_eq!(index.next_expiry(), Some(Micros(110)));
    index.predict(Micros(60), P, &chain(&[1, 3]));
    index.predict(Micros(20), P, &chain(&[4]));
    index.expire(Micros(109));
    assert_eq!(blocks_at(&index, 0, &[1, 2]), 2);
    index.expire(Micros(110));
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2]), blocks_at(&index, 0, &[1, 3])),
        (1, 2)
    );
    assert_eq!(index.next_expiry(), Some(Micros(160)));
    index.expire(Micros(159));
    assert_eq!(blocks_at(&index, 0, &[4]), 1);
    index.expire(Micros(160));
    assert_eq!((blocks_total(&index), index.next_expiry()), (0, None));
}

/// The belief of a prompt, then the decision that uses it.
fn turn(index: &mut PrefixIndex, now: u64, path: &[u32]) -> Coverage {
    let mut before = Coverage::new();
    index.coverage(P, &chain(path), &mut before);
    index.predict(Micros(now), P, &chain(path));
    before
}

/// 100 blocks of ten tokens below `root`.
fn long(root: u32) -> Vec<u32> {
    let mut path = vec![root];
    path.extend(1_000..1_099);
    path
}

#[test]
fn a_report_that_says_no_less_is_agreement() {
    let mut index = index_of(1, PlaceOptions::default());
    let path = long(1);
    assert_eq!(turn(&mut index, 1, &path), Coverage::new());
    let before = turn(&mut index, 2, &path);
    assert_eq!(
        (before.blocks(), before.tokens(), before.since()),
        (100, 1_000, Some(Micros(1)))
    );
    for reported in [936, 1_000, 5_000, u32::MAX] {
        let outcome = index.correct(P, &chain(&path), reported, &before);
        assert_eq!(outcome, Correction::Agreed);
    }
    assert_eq!(
        index.correct(PlaceId(3), &chain(&path), 0, &before),
        Correction::UnknownPlace
    );
}

#[test]
fn a_missing_block_takes_all_that_was_used_no_later_along() {
    let mut index = index_of(1, PlaceOptions::default());
    let (old, asked, young) = (long(1), long(2), long(3));
    turn(&mut index, 1, &old);
    turn(&mut index, 2, &asked);
    turn(&mut index, 3, &young);
    let before = turn(&mut index, 4, &asked);
    let outcome = index.correct(P, &chain(&asked), 500, &before);
    assert_eq!(
        outcome,
        Correction::Short {
            evicted_tokens: 1_000
        }
    );
    let held = |index: &PrefixIndex, path: &[u32]| blocks_at(index, 0, path);
    assert_eq!(held(&index, &old), 0);
    assert_eq!((held(&index, &asked), held(&index, &young)), (100, 100));
    let again = index.correct(P, &chain(&asked), 500, &before);
    assert_eq!(again, Correction::Short { evicted_tokens: 0 });
}

#[test]
fn a_use_of_the_missing_block_counts_as_it_was_before_the_turn() {
    let mut index = index_of(1, PlaceOptions::default());
    let mut asked = long(1);
    turn(&mut index, 1, &asked);
    turn(&mut index, 2, &long(2));
    asked.truncate(10);
    turn(&mut index, 3, &asked);
    let other = turn(&mut index, 4, &long(1));
    // Blocks 0..10 were used at 3, the others at 1: missing from block 5 on means up to 3 is gone.
    let outcome = index.correct(P, &chain(&long(1)), 50, &other);
    assert_eq!(
        outcome,
        Correction::Short {
            evicted_tokens: 1_000
        }
    );
    assert_eq!(
        (
            blocks_at(&index, 0, &long(2)),
            blocks_at(&index, 0, &long(1))
        ),
        (0, 100)
    );
}

#[test]
fn what_hung_below_the_missing_block_since_the_same_use_is_gone_too() {
    let mut index = index_of(1, PlaceOptions::default());
    let path = long(1);
    turn(&mut index, 1, &path);
    let before = turn(&mut index, 2, &path[..50]);
    let outcome = index.correct(P, &chain(&path[..50]), 200, &before);
    let evicted_tokens = 500;
    assert_eq!(outcome, Correction::Short { evicted_tokens });
    assert_eq!(blocks_at(&index, 0, &path), 50);
}

#[test]
fn exact_blocks_stand_against_a_report() {
    let mut index = index_of(1, PlaceOptions::default());
    let path = long(1);
    store(&mut index, P, None, &stored_all(&path));
    let before = turn(&mut index, 1, &path);
    assert_eq!(
        index.correct(P, &chain(&path), 0, &before),
        Correction::Exact
    );
    assert_eq!((blocks_at(&index, 0, &path), before.since()), (100, None));
}

#[test]
fn the_whole_index_is_bounded_and_says_what_it_gave_up() {
    let mut index = PrefixIndex::new(5);
    let place = index.add_place(WorkerId(0), 0, Tier::Device, PlaceOptions::default());
    assert_eq!(place, Ok(P));
    index.predict(Micros(1), P, &chain(&[1, 2, 3]));
    index.predict(Micros(2), P, &chain(&[4, 5]));
    index.predict(Micros(3), P, &chain(&[1, 2]));
    index.predict(Micros(4), P, &chain(&[6]));
    assert_eq!(
        (
            blocks_at(&index, 0, &[1, 2, 3]),
            blocks_at(&index, 0, &[4, 5])
        ),
        (2, 2)
    );
    store(&mut index, P, None, &stored_all(&[7, 8]));
    assert_eq!(
        (blocks_at(&index, 0, &[4, 5]), blocks_at(&index, 0, &[7, 8])),
        (0, 2)
    );
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2]), index.stats().evicted),
        (2, 3)
    );
    index.predict(Micros(5), P, &chain(&[1, 2, 3, 4, 5, 6, 7]));
    assert!(blocks_total(&index) >= 7 && index.fit());
    assert_eq!(
        (
            blocks_at(&index, 0, &[1, 2, 3, 4, 5, 6, 7]),
            blocks_total(&index)
        ),
        (5, 5)
    );
}
