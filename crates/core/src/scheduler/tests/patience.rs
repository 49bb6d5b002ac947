//! Long cold prompts and the prompts that wait before them.
use super::*;

/// Where a prompt of so many tokens goes while 30,000 wait at one worker of 100,000 and none at the other, and
/// sessions need most of both; and the receipt of that.
fn placed(patience: f64, length: u32) -> (WorkerId, WorkerId, Receipt) {
    let config = Config {
        patience,
        ..Config::default()
    };
    let mut bench = Bench::with(config, Some(100_000));
    let fillers = [8, 9].map(|seed| bench.go(&format!("filler {seed}"), &tokens(seed, 99_968)));
    assert_ne!(fillers[0].1.worker, fillers[1].1.worker);
    for (id, _) in fillers {
        bench.complete(id, &Completion::default());
    }
    let (_, busy) = bench.go("first", &tokens(1, 30_016));
    let (_, next) = bench.go("next", &tokens(2, length));
    let receipt = bench.scheduler.receipt(next.receipt).unwrap().clone();
    (busy.worker, next.worker, receipt)
}

#[test]
fn a_prompt_that_fills_a_cache_goes_behind_its_like_and_a_short_one_does_not() {
    for (patience, length, follows) in [
        (0.0, 90_048, false),
        (2.0, 1_024, false),
        (2.0, 30_016, false),
        // It also weighs what is in use, which the long one before it is.
        (2.0, 95_040, false),
        (4.0, 95_040, true),
    ] {
        let (busy, next, receipt) = placed(patience, length);
        assert_eq!(
            next == busy,
            follows,
            "patience {patience}, {length} tokens"
        );
        let costs: Vec<f64> = receipt.candidates.iter().map(|row| row.cost).collect();
        assert_eq!(recompute(&receipt), costs);
        assert_eq!(receipt.prompt.patience, patience);
    }
}

#[test]
fn relief_is_in_the_row_of_whoever_is_waited_for() {
    let (busy, _, receipt) = placed(2.0, 50_048);
    let relief = receipt
        .candidates
        .iter()
        .map(|row| (row.worker == busy, row.relief_tokens));
    let relief: Vec<_> = relief.filter(|&(_, tokens)| tokens > 0).collect();
    // 2 × 30,016 × 50,048 / 100,000
    assert_eq!(relief, [(true, 30_045)]);
}

#[test]
fn a_prompt_that_has_room_somewhere_minds_as_before() {
    let config = Config {
        patience: 4.0,
        ..Config::default()
    };
    let mut bench = Bench::with(config, Some(100_000));
    let (_, busy) = bench.go("first", &tokens(1, 30_016));
    let (_, next) = bench.go("next", &tokens(2, 95_040));
    assert_ne!(next.worker, busy.worker);
    let receipt = bench.scheduler.receipt(next.receipt).unwrap();
    assert!(receipt.candidates.iter().all(|row| row.relief_tokens == 0));
}

#[test]
fn a_prompt_that_is_warm_somewhere_minds_as_before() {
    let config = Config {
        patience: 4.0,
        ..Config::default()
    };
    let mut bench = Bench::with(config, Some(100_000));
    let prompt = tokens(2, 90_048);
    let (id, home) = bench.go("s", &prompt);
    bench.complete(id, &Completion::default());
    bench.go("other", &tokens(1, 30_016));
    let (_, again) = bench.go("s", &prompt);
    let receipt = bench.scheduler.receipt(again.receipt).unwrap();
    assert_eq!(again.worker, home.worker);
    assert!(receipt.candidates.iter().all(|row| row.relief_tokens == 0));
}

#[test]
fn where_capacity_is_unknown_nothing_changes_and_a_bad_patience_is_refused() {
    let config = Config {
        patience: 4.0,
        ..Config::default()
    };
    let mut bench = Bench::with(config, None);
    let (_, busy) = bench.go("first", &tokens(1, 30_016));
    assert_ne!(bench.go("next", &tokens(2, 90_048)).1.worker, busy.worker);
    let config = Config {
        patience: f64::NAN,
        ..Config::default()
    };
    let refused = Scheduler::new(config).map_err(|e| e.code()).err();
    assert_eq!(refused, Some("INVALID_ARGUMENT"));
}
