//! What is believed of a worker's cache after it has failed a turn.
use super::*;

/// Tokens of the prompt that A and B are believed to have. Asks by turns, so only once a test.
fn believed(bench: &mut Bench, prompt: &[u32]) -> [u32; 2] {
    [A, B].map(|worker| {
        let mut probe = turn("probe", prompt);
        probe.pin = Some(worker);
        match bench.submit(&probe).unwrap().verdict {
            Verdict::Go(placement) => placement.predicted_cached_tokens,
            Verdict::Hold => panic!("held"),
        }
    })
}

fn fail(bench: &mut Bench, id: ReservationId) {
    let found = bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    assert_eq!(found, Found::Ended);
}

#[test]
fn a_failed_turn_leaves_no_credit() {
    let mut bench = Bench::free();
    for turn in 1..=8 {
        let prompt = tokens(1, turn * 640);
        let (id, placement) = bench.go("s", &prompt);
        assert_eq!(placement.predicted_cached_tokens, 0);
        fail(&mut bench, id);
    }
    assert_eq!(believed(&mut bench, &tokens(1, 8 * 640)), [0, 0]);
}

#[test]
fn a_failed_extension_keeps_what_earlier_turns_had() {
    let mut bench = Bench::free();
    let (id, first) = bench.go("s", &tokens(1, 640));
    bench.complete(id, &used_tools());
    let (id, second) = bench.go("s", &tokens(1, 1_280));
    assert_eq!(second.worker, first.worker);
    fail(&mut bench, id);
    assert_eq!(
        believed(&mut bench, &tokens(1, 1_280))[first.worker.index()],
        640
    );
}

#[test]
fn a_failed_turn_keeps_what_a_later_one_counts_on() {
    let mut bench = Bench::free();
    let (failing, first) = bench.go("s", &tokens(1, 1_280));
    let mut other = turn("t", &[]);
    let prompt = tokens(1, 640);
    (other.prompt, other.pin) = (Prompt::Tokens(&prompt), Some(first.worker));
    bench.submit(&other).unwrap();
    fail(&mut bench, failing);
    assert_eq!(
        believed(&mut bench, &tokens(1, 1_280))[first.worker.index()],
        640
    );
}

#[test]
fn a_reroute_leaves_the_worker_that_failed_without_credit() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let (id, first) = bench.go("s", &prompt);
    let second = bench
        .scheduler
        .reroute(bench.now, id, &mut bench.settled)
        .unwrap();
    let now = believed(&mut bench, &prompt);
    assert_eq!(
        (now[first.worker.index()], now[second.worker.index()]),
        (0, 640)
    );
}

#[test]
fn a_turn_with_a_first_token_keeps_its_credit() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let (id, placement) = bench.go("s", &prompt);
    bench
        .scheduler
        .first_token(bench.now, id, &mut bench.settled);
    fail(&mut bench, id);
    assert_eq!(believed(&mut bench, &prompt)[placement.worker.index()], 640);
}
