//! What turns' own times do to decisions.
use super::*;

/// One turn after the other, each new to everybody; the second worker takes `slower` times as long. Who
/// took them.
fn one_by_one(bench: &mut Bench, turns: std::ops::Range<u32>, slower: u64) -> Vec<WorkerId> {
    let mut took = Vec::new();
    for n in turns {
        let prompt = tokens(n, 1_024 + n * 7_919 % 8_192);
        let (id, placement) = bench.go(&format!("s{n}"), &prompt);
        let times = if placement.worker == B { slower } else { 1 };
        bench.now = bench
            .now
            .plus(Micros(times * (20_000 + 15 * prompt.len() as u64)));
        let (scheduler, settled) = (&mut bench.scheduler, &mut bench.settled);
        scheduler.first_token(bench.now, id, settled);
        bench.now = bench.now.plus(Micros(times * 49 * 10_000));
        bench.complete(id, &answered(prompt.len() as u32, 0));
        took.push(placement.worker);
    }
    took
}

fn answered(prompt: u32, cached: u32) -> Completion<'static> {
    Completion {
        reported: Reported {
            prompt_tokens: Some(prompt),
            cached_tokens: Some(cached),
            completion_tokens: Some(50),
        },
        ..used_tools()
    }
}

fn learning(pace: f64) -> Bench {
    let config = Config {
        pace,
        ..Config::default()
    };
    Bench::with(config, Some(1_000_000))
}

#[test]
fn a_slow_worker_gets_what_is_its_share_and_the_receipt_says_why() {
    let mut bench = learning(1.0);
    let first = one_by_one(&mut bench, 1..20, 3);
    assert!(first.contains(&A) && first.contains(&B), "nobody is known");
    one_by_one(&mut bench, 20..80, 3);
    assert_eq!(one_by_one(&mut bench, 80..120, 3), [A; 40]);
    // Behind a short one the fast worker is still the sooner, behind two it is not.
    let (_, filler) = bench.go("filler", &tokens(200, 1_024));
    let (_, next) = bench.go("next", &tokens(201, 4_096));
    let (_, third) = bench.go("third", &tokens(202, 4_096));
    assert_eq!(
        [filler, next, third].map(|p| p.worker == A),
        [true, true, false]
    );
    for placement in [filler, next, third] {
        let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
        let [fast, slow] = [0, 1].map(|row| receipt.candidates[row].pace);
        let over = |slow: u16, fast: u16| f64::from(slow) / f64::from(fast);
        assert!((1.6..=4.0).contains(&over(slow.prefill, fast.prefill)));
        assert!((1.6..=4.0).contains(&over(slow.decode, fast.decode)));
        let costs: Vec<f64> = receipt.candidates.iter().map(|row| row.cost).collect();
        assert_eq!(recompute(receipt), costs);
    }
}

#[test]
fn without_learning_or_among_equals_everybody_is_usual() {
    for (pace, slower) in [(0.0, 3), (1.0, 1)] {
        let mut bench = learning(pace);
        let took = one_by_one(&mut bench, 1..150, slower);
        assert!([A, B].iter().all(|worker| took.contains(worker)));
        let (_, last) = bench.go("last", &tokens(300, 640));
        let receipt = bench.scheduler.receipt(last.receipt).unwrap();
        for row in &receipt.candidates {
            assert_eq!((row.pace.prefill, row.pace.decode), (100, 100));
        }
    }
    let config = Config {
        pace: 1.5,
        ..Config::default()
    };
    let refused = Scheduler::new(config).map_err(|e| e.code()).err();
    assert_eq!(refused, Some("INVALID_ARGUMENT"));
}

#[test]
fn a_prompt_that_had_to_wait_for_room_says_nothing_of_its_worker() {
    let mut bench = learning(1.0);
    one_by_one(&mut bench, 1..60, 1);
    // Both are full; the second worker's turns take ages to begin, and answer as fast as ever.
    let fillers = [400, 401].map(|seed| bench.go(&format!("f{seed}"), &tokens(seed, 999_936)));
    for n in 0..60 {
        let prompt = tokens(500 + n, 4_096);
        let (id, placement) = bench.go(&format!("late {n}"), &prompt);
        let wait = if placement.worker == B { 60 } else { 1 };
        bench.now = bench.now.plus(Micros::from_secs(wait));
        let (scheduler, settled) = (&mut bench.scheduler, &mut bench.settled);
        scheduler.first_token(bench.now, id, settled);
        bench.now = bench.now.plus(Micros(49 * 10_000));
        bench.complete(id, &answered(4_096, 0));
    }
    let (_, last) = bench.go("last", &tokens(700, 640));
    let receipt = bench.scheduler.receipt(last.receipt).unwrap();
    let paces = receipt.candidates.iter().map(|row| row.pace.prefill);
    assert_eq!(paces.collect::<Vec<_>>(), [100, 100]);
    assert_ne!(fillers[0].1.worker, fillers[1].1.worker);
}
