//! Exact events: holes, what cannot be, and memory.
use super::*;

const P: PlaceId = PlaceId(0);

fn anomalies(index: &PrefixIndex) -> Anomalies {
    index.stats().anomalies
}

#[test]
fn a_hole_stops_credit_and_its_filling_brings_the_rest_back() {
    let mut index = index_of(2, PlaceOptions::default());
    let path = [1, 2, 3, 4, 5];
    assert_eq!(store(&mut index, P, None, &stored_all(&path)), 5);
    assert_eq!(index.remove(P, &[hash(&[1, 2])]), 1);
    assert_eq!(blocks_at(&index, 0, &path), 1);
    assert_eq!(index.tokens(P), 40);
    assert_eq!(
        store(&mut index, P, Some(hash(&[1])), &[stored(&[1, 2])]),
        1
    );
    assert_eq!(blocks_at(&index, 0, &path), 5);
    assert_eq!(anomalies(&index), Anomalies::default());
}

#[test]
fn a_hole_at_the_root_and_another_place_above_it_change_nothing_for_each_other() {
    let mut index = index_of(2, PlaceOptions::default());
    let path = [1, 2, 3];
    store(&mut index, P, None, &stored_all(&path));
    store(&mut index, PlaceId(1), None, &stored_all(&path));
    index.remove(P, &[hash(&[1])]);
    assert_eq!(
        (blocks_at(&index, 0, &path), blocks_at(&index, 1, &path)),
        (0, 3)
    );
    index.clear(PlaceId(1));
    assert_eq!(blocks_at(&index, 0, &path), 0);
    store(&mut index, P, None, &[stored(&[1])]);
    assert_eq!(
        (blocks_at(&index, 0, &path), blocks_at(&index, 1, &path)),
        (3, 0)
    );
}

#[test]
fn what_cannot_be_is_counted_by_kind_and_does_no_harm() {
    let mut index = index_of(1, PlaceOptions::default());
    let path = [1, 2, 3];
    store(&mut index, P, None, &stored_all(&path));
    assert_eq!(store(&mut index, P, Some(99), &[stored(&[9])]), 0);
    assert_eq!(store(&mut index, P, Some(hash(&[1])), &[stored(&[1])]), 0);
    assert_eq!(store(&mut index, P, Some(hash(&path)), &[stored(&[1])]), 0);
    assert_eq!(
        store(&mut index, P, Some(hash(&[1, 2])), &[stored(&path)]),
        1
    );
    assert_eq!(store(&mut index, P, None, &[stored(&[7]), stored(&[7])]), 1);
    assert_eq!(store(&mut index, PlaceId(8), None, &[stored(&[1])]), 0);
    assert_eq!(index.remove(P, &[12, hash(&[7]), hash(&[7])]), 1);
    assert_eq!(index.remove(PlaceId(8), &[12]), 0);
    let expected = Anomalies {
        unknown_place: 2,
        unknown_parent: 1,
        self_parent: 1,
        cycle: 1,
        repeated: 1,
        copies: 1,
        not_held: 2,
        ..Anomalies::default()
    };
    assert_eq!(anomalies(&index), expected);
    assert_eq!((blocks_at(&index, 0, &path), blocks_total(&index)), (3, 3));
}

#[test]
fn an_impossible_block_ends_its_event_and_keeps_what_came_before() {
    let mut index = index_of(1, PlaceOptions::default());
    let event = [
        stored(&[1]),
        stored(&[1, 2]),
        stored(&[1]),
        stored(&[1, 2, 3]),
    ];
    assert_eq!(store(&mut index, P, None, &event), 2);
    assert_eq!(
        (blocks_at(&index, 0, &[1, 2, 3]), anomalies(&index).cycle),
        (2, 0)
    );
    assert_eq!(anomalies(&index).repeated, 1);
}

#[test]
fn a_cycle_is_seen_across_runs() {
    let mut index = index_of(2, PlaceOptions::default());
    let path = [1, 2, 3];
    store(&mut index, PlaceId(1), None, &stored_all(&[1, 9]));
    store(&mut index, P, None, &stored_all(&path));
    assert_eq!(index.stats().runs, 2);
    assert_eq!(store(&mut index, P, Some(hash(&path)), &[stored(&[1])]), 0);
    assert_eq!((anomalies(&index).cycle, blocks_total(&index)), (1, 4));
    index.remove(P, &[hash(&[1])]);
    assert_eq!(blocks_at(&index, 0, &path), 0);
}

#[test]
fn an_exact_block_takes_the_place_of_its_prediction() {
    let ttl = Some(Micros(100));
    let mut index = index_of(
        1,
        PlaceOptions {
            ttl,
            ..PlaceOptions::default()
        },
    );
    index.predict(Micros(0), P, &chain(&[1, 2]));
    assert_eq!(trust(&index, P, &[1]), Some(Trust::Predicted));
    store(&mut index, P, None, &[stored(&[1])]);
    assert_eq!(trust(&index, P, &[1]), Some(Trust::Exact));
    assert_eq!(index.tokens(P), 20);
    index.expire(Micros(100));
    assert_eq!((index.tokens(P), blocks_at(&index, 0, &[1, 2])), (10, 1));
    assert_eq!(trust(&index, P, &[1, 2]), None);
}

#[test]
fn blocks_of_an_absurd_size_are_counted_as_they_are_and_go_again() {
    let mut index = index_of(1, PlaceOptions::default());
    let path = [1, 2, 3, 4];
    let all = stored_all(&path);
    for (from, to, block_tokens) in [(0_usize, 2, u32::MAX), (2, 3, 16), (3, 4, u32::MAX)] {
        let event = StoredBlocks {
            parent: from.checked_sub(1).map(|at| all[at].name),
            block_tokens,
            blocks: &all[from..to],
        };
        assert_eq!(index.store(P, &event), to - from);
    }
    assert_eq!(index.tokens(P), 3 * u64::from(u32::MAX) + 16);
    assert_eq!(blocks_at(&index, 0, &path), 4);
    for n in [3, 1, 2, 4] {
        assert_eq!(index.remove(P, &[hash(&path[..n])]), 1);
    }
    assert_eq!((index.tokens(P), blocks_total(&index)), (0, 0));
}

#[test]
fn memory_comes_back_after_a_clear() {
    let mut index = index_of(2, PlaceOptions::default());
    let empty = index.stats().bytes;
    for place in [P, PlaceId(1)] {
        for id in 0..500 {
            store(&mut index, place, None, &stored_all(&[id, 1, 2, 3]));
        }
    }
    let full = index.stats().bytes;
    assert!(full > 2_000 * 60, "{full}");
    index.clear(P);
    assert_eq!((blocks_total(&index), index.tokens(P)), (2_000, 0));
    assert!(index.stats().bytes < full);
    assert!(index.remove_place(PlaceId(1)));
    assert!(!index.remove_place(PlaceId(1)));
    assert_eq!((blocks_total(&index), index.stats().bytes), (0, empty));
}

#[test]
fn most_of_the_memory_comes_back_when_one_of_two_places_is_lost() {
    let mut index = index_of(2, PlaceOptions::default());
    store(&mut index, PlaceId(1), None, &stored_all(&[1, 2, 3]));
    let small = index.stats().bytes;
    for id in 10..5_000 {
        store(&mut index, P, None, &stored_all(&[id, 1]));
    }
    store(
        &mut index,
        PlaceId(1),
        Some(hash(&[4_999])),
        &[stored(&[4_999, 2])],
    );
    index.clear(P);
    assert!(
        index.stats().bytes < small * 4,
        "{} of {small}",
        index.stats().bytes
    );
    assert_eq!(blocks_at(&index, 1, &[1, 2, 3]), 3);
    store(&mut index, PlaceId(1), None, &[stored(&[4_999])]);
    assert_eq!(index.remove(PlaceId(1), &[hash(&[1, 2, 3]), hash(&[1])]), 2);
    assert_eq!(blocks_at(&index, 1, &[1, 2, 3]), 0);
    assert_eq!(blocks_at(&index, 1, &[4_999, 2]), 2);
}

#[test]
fn a_place_is_registered_once_and_its_id_never_again() {
    let mut index = index_of(1, PlaceOptions::default());
    let again = index.add_place(WorkerId(0), 0, Tier::Device, PlaceOptions::default());
    assert_eq!(again.map_err(|e| e.code()), Err("DUPLICATE_ID"));
    let host = index.add_place(WorkerId(0), 0, Tier::Host, PlaceOptions::default());
    assert_eq!(host, Ok(PlaceId(1)));
    assert!(index.remove_place(PlaceId(0)));
    let back = index.add_place(WorkerId(0), 0, Tier::Device, PlaceOptions::default());
    assert!(back.is_ok_and(|back| back != PlaceId(0) && back != PlaceId(1)));
}

#[test]
fn the_answer_is_steps_nearest_the_root_first() {
    let mut index = index_of(4, PlaceOptions::default());
    for (place, depth) in [(0, 1), (1, 3), (2, 3), (3, 2)] {
        store(
            &mut index,
            PlaceId(place),
            None,
            &stored_all(&[1, 2, 3][..depth]),
        );
    }
    let mut overlap = Overlap::new();
    index.find(&chain(&[1, 2, 3, 4]), &mut overlap);
    let steps: Vec<_> = overlap
        .steps()
        .map(|s| {
            (
                s.blocks,
                s.tokens,
                s.places().map(|p| p.0).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        steps,
        [(1, 10, vec![0]), (2, 20, vec![3]), (3, 30, vec![1, 2])]
    );
    assert_eq!(
        (overlap.tokens_at(PlaceId(2)), overlap.tokens_at(PlaceId(9))),
        (30, 0)
    );
    index.find(&chain(&[5]), &mut overlap);
    assert_eq!(
        (overlap.steps().count(), overlap.tokens_at(PlaceId(2))),
        (0, 0)
    );
}
