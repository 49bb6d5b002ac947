//! Sessions and their ways through the index.
use super::*;
use crate::scheduler::Limits;

/// A prompt of blocks of 64 tokens, each block of one kind.
fn prompt(blocks: &[u32]) -> Vec<u32> {
    blocks.iter().flat_map(|&b| tokens(b, 64)).collect()
}

/// The turn of a client that names nothing, and its end.
fn unnamed(bench: &mut Bench, blocks: &[u32]) -> Option<u64> {
    let prompt = prompt(blocks);
    let submitted = bench.submit(&turn("", &prompt)).unwrap();
    bench.complete(submitted.reservation, &used_tools());
    submitted.derived
}

#[test]
fn an_unnamed_session_whose_history_was_edited_is_recognised_by_how_far_it_goes_along() {
    let mut bench = Bench::free();
    let first = unnamed(&mut bench, &[1, 2]);
    assert_eq!(unnamed(&mut bench, &[1, 2, 3, 4]), first);
    let edited = unnamed(&mut bench, &[1, 2, 3, 9, 8]);
    assert_eq!(edited, first);
    let begins_alike = unnamed(&mut bench, &[1, 2, 7]);
    assert_ne!(begins_alike, first);
    assert_eq!(bench.scheduler.status().sessions, 2);
}

#[test]
fn nobody_is_recognised_by_what_two_sessions_share_or_another_tenant_has() {
    let mut bench = Bench::free();
    let first = unnamed(&mut bench, &[1]);
    assert_eq!(unnamed(&mut bench, &[1, 2, 3]), first);
    let whole = prompt(&[1, 2, 4]);
    let mut foreign = turn("", &whole);
    foreign.tenant = "other";
    let foreign = bench.submit(&foreign).unwrap().derived;
    assert_ne!(foreign, first);
    let second = unnamed(&mut bench, &[1, 5]);
    assert_eq!(unnamed(&mut bench, &[1, 5, 2]), second);
    assert_eq!(unnamed(&mut bench, &[1, 2, 3, 6]), first);
    let neither = unnamed(&mut bench, &[1, 2, 9]);
    assert!(neither != first && neither != second && neither != foreign);
}

#[test]
fn what_sessions_share_is_needed_once_and_an_end_frees_the_rest() {
    let mut bench = Bench::free();
    bench.health(B, Health::Down);
    let sets = |bench: &Bench| bench.scheduler.working_set(A);
    let (one, _) = bench.go("one", &prompt(&[1, 2, 3]));
    bench.go("two", &prompt(&[1, 2, 4, 5]));
    assert_eq!(sets(&bench), 5 * 64);
    bench.complete(one, &used_tools());
    bench.go("one", &prompt(&[1, 2, 3, 6]));
    assert_eq!(sets(&bench), 6 * 64);
    let id = |name| bench.scheduler.sessions.by_name("", name).unwrap();
    let shared = Sharing {
        session: id("two"),
        blocks: 2,
    };
    assert_eq!(bench.scheduler.sharing(id("one")), [shared]);
    bench
        .scheduler
        .end_session(bench.now, "", "two", &mut Vec::new());
    assert_eq!(sets(&bench), 4 * 64);
    bench.health(A, Health::Removed);
    assert_eq!(sets(&bench), 0);
}

#[test]
fn a_session_that_moves_is_needed_where_it_went_only() {
    let mut bench = Bench::free();
    let (turn, placement) = bench.go("s", &prompt(&[1, 2]));
    bench.complete(turn, &used_tools());
    let from = placement.worker;
    bench.health(from, Health::Down);
    let (_, placement) = bench.go("s", &prompt(&[1, 2, 3]));
    assert_ne!(placement.worker, from);
    assert_eq!(bench.scheduler.working_set(from), 0);
    assert_eq!(bench.scheduler.working_set(placement.worker), 3 * 64);
}

#[test]
fn a_paused_session_needs_nothing_until_it_goes_on() {
    let mut bench = Bench::thunderagent(1_000);
    bench.health(B, Health::Down);
    let (small, _) = bench.go("small", &prompt(&[1, 2]));
    bench.complete(small, &used_tools());
    bench.go("large", &prompt(&[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]));
    bench.after(5);
    assert_eq!(bench.scheduler.status().paused, 1);
    assert_eq!(bench.scheduler.working_set(A), 11 * 64);
}

#[test]
fn a_session_that_ended_before_its_turn_went_needs_nothing() {
    let mut bench = Bench::thunderagent(1_000);
    bench.health(B, Health::Down);
    let full = bench.go("a", &prompt(&[1; 14])).0;
    let held = prompt(&[2; 10]);
    bench.hold("b", &held);
    let now = bench.now;
    bench
        .scheduler
        .end_session(now, "", "b", &mut bench.settled);
    bench.complete(full, &Completion::default());
    bench.after(6);
    assert_eq!(bench.settled.len(), 1, "it has gone all the same");
    bench
        .scheduler
        .end_session(bench.now, "", "a", &mut bench.settled);
    let needed: u64 = [A, B].map(|w| bench.scheduler.working_set(w)).iter().sum();
    assert_eq!(needed, 0);
}

#[test]
fn sessions_that_have_been_idle_longest_go_when_the_index_is_full() {
    let config = Config {
        limits: Limits {
            blocks: 10,
            ..Limits::default()
        },
        ..Config::default()
    };
    let mut bench = Bench::with(config, None);
    for n in 0..6 {
        let (turn, _) = bench.go(&format!("s{n}"), &prompt(&[1, 10 + n, 20 + n]));
        bench.complete(turn, &used_tools());
        assert!(bench.scheduler.prefix().stats().blocks <= 10);
    }
    assert_eq!(bench.scheduler.status().sessions, 4);
    assert!(bench.scheduler.sessions.by_name("", "s1").is_none());
    bench.go("s2", &prompt(&[1, 12, 22]));
}

#[test]
fn a_named_session_is_hashed_by_its_last_prompt_and_any_turn_is_right() {
    let mut bench = Bench::free();
    let turns: [&[u32]; 6] = [
        &[1, 2],
        &[1, 2, 3],
        &[1, 2, 3, 4],
        &[1, 9, 3, 4],
        &[5],
        &[5, 6],
    ];
    for (n, blocks) in turns.into_iter().enumerate() {
        let prompt = prompt(blocks);
        let (id, _) = bench.go("s", &prompt);
        let turn = bench.scheduler.reservations.get(id).unwrap();
        let mut expected = crate::block::Chain::new();
        let block = std::num::NonZeroU32::new(64).unwrap();
        crate::block::hash_tokens(&prompt, block, Default::default(), &mut expected);
        assert_eq!(turn.chain, expected);
        let blocks = turn.memo.map(|memo| memo.blocks());
        assert_eq!(blocks, (n > 0).then_some(expected.len()));
        bench.complete(id, &used_tools());
    }
}
