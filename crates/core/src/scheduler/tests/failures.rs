//! What is believed of a worker's cache after it has failed a turn.
use super::*;
use crate::prefix::Dropping;
use proptest::prelude::*;

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
        .reroute(bench.now, id, Fault::Passing, &mut bench.settled)
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

/// A turn of a prompt on A.
fn on_a<'a>(session: &'a str, prompt: &'a [u32]) -> Turn<'a> {
    Turn {
        pin: Some(A),
        ..turn(session, prompt)
    }
}

#[test]
fn turns_that_fail_side_by_side_leave_no_credit() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut bench = Bench::free();
        let prompts = [tokens(1, 640), tokens(1, 1_280), tokens(1, 640)];
        let ids = prompts
            .each_ref()
            .map(|prompt| bench.submit(&on_a("", prompt)).unwrap().reservation);
        for at in order {
            fail(&mut bench, ids[at]);
        }
        assert_eq!(believed(&mut bench, &prompts[1]), [0, 0], "{order:?}");
    }
}

#[test]
fn what_was_computed_stays_when_a_longer_prompt_that_came_meanwhile_fails() {
    let mut bench = Bench::free();
    let prompts = [tokens(1, 640), tokens(1, 1_280)];
    let [short, long] = prompts
        .each_ref()
        .map(|prompt| bench.submit(&on_a("", prompt)).unwrap().reservation);
    bench
        .scheduler
        .first_token(bench.now, short, &mut bench.settled);
    fail(&mut bench, long);
    assert_eq!(believed(&mut bench, &prompts[1])[0], 640);
}

#[test]
fn what_a_failed_turn_took_with_it_comes_back_when_an_earlier_one_computes_it() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let [first, second] = ["s", "t"].map(|name| {
        let submitted = bench.submit(&on_a(name, &prompt));
        submitted.unwrap().reservation
    });
    fail(&mut bench, second);
    bench
        .scheduler
        .first_token(bench.now, first, &mut bench.settled);
    fail(&mut bench, first);
    assert_eq!(believed(&mut bench, &prompt)[0], 640);
}

/// What A is believed to have of `other`'s prompt after two turns side by side have reported 0.
fn after_misses_side_by_side(bench: &mut Bench, miss: &[u32], other: &[u32]) -> u32 {
    let id = bench.submit(&on_a("", other)).unwrap().reservation;
    bench.complete(id, &used_tools());
    let pair = ["s", "t"].map(|name| bench.submit(&on_a(name, miss)).unwrap().reservation);
    for id in pair {
        let completion = Completion {
            reported: Reported {
                cached_tokens: Some(0),
                prompt_tokens: Some(640),
                ..Reported::default()
            },
            ..used_tools()
        };
        bench.complete(id, &completion);
    }
    believed(bench, other)[0]
}

#[test]
fn what_turns_side_by_side_compute_each_says_nothing_of_others() {
    let mut bench = Bench::free();
    let (new, other) = (tokens(2, 640), tokens(1, 640));
    assert_eq!(after_misses_side_by_side(&mut bench, &new, &other), 640);
}

#[test]
fn where_the_order_of_eviction_is_unknown_a_miss_says_nothing_of_others() {
    let prompt = tokens(2, 640);
    for (dropping, left) in [(Dropping::Oldest, 0), (Dropping::Unknown, 640)] {
        let mut bench = Bench::free();
        let scheduler = &mut bench.scheduler;
        let options = GroupOptions {
            dropping,
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).unwrap();
        let target = scheduler.add_target("other", group).unwrap();
        let worker = WorkerOptions {
            name: "c".to_owned(),
            group,
            capacity_tokens: None,
        };
        scheduler
            .add_worker(Micros(0), worker, &mut bench.settled)
            .unwrap();
        let old = tokens(1, 640);
        let mut send = |prompt: &[u32], cached_tokens| {
            let turn = Turn {
                targets: &[target],
                ..turn("", prompt)
            };
            let submitted = bench.submit(&turn).unwrap();
            let Verdict::Go(placement) = submitted.verdict else {
                panic!("held");
            };
            let completion = Completion {
                reported: Reported {
                    cached_tokens,
                    ..Reported::default()
                },
                ..used_tools()
            };
            bench.complete(submitted.reservation, &completion);
            placement.predicted_cached_tokens
        };
        send(&old, None);
        send(&prompt, None);
        assert_eq!(send(&prompt, Some(0)), 640);
        assert_eq!(send(&old, None), left, "{dropping:?}");
        assert_eq!(send(&prompt, None), 640);
    }
}

#[test]
fn a_report_that_contradicts_itself_is_none() {
    let mut bench = Bench::free();
    let (prompt, other) = (tokens(2, 640), tokens(1, 640));
    for prompt in [&other, &prompt] {
        let id = bench.submit(&on_a("", prompt)).unwrap().reservation;
        bench.complete(id, &used_tools());
    }
    let id = bench.submit(&on_a("", &prompt)).unwrap().reservation;
    let reported = Reported {
        cached_tokens: Some(2),
        prompt_tokens: Some(1),
        ..Reported::default()
    };
    let completion = Completion {
        reported,
        ..used_tools()
    };
    bench.complete(id, &completion);
    assert_eq!(believed(&mut bench, &other)[0], 640);
}

/// What becomes of turns, by the order in which they came.
#[derive(Clone, Debug)]
enum Step {
    /// A prompt of so many blocks of one of two families that share their first two.
    Send {
        family: u32,
        blocks: u32,
    },
    FirstToken(prop::sample::Index),
    Fail(prop::sample::Index),
    Complete(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        3 => (0..2_u32, 1..8_u32).prop_map(|(family, blocks)| Step::Send { family, blocks }),
        1 => index().prop_map(Step::FirstToken),
        2 => index().prop_map(Step::Fail),
        1 => index().prop_map(Step::Complete),
    ]
}

fn prompt_of(family: u32, blocks: u32) -> Vec<u32> {
    let shared = tokens(9, 128);
    let own = tokens(family + 1, 640);
    let all = shared.into_iter().chain(own);
    all.take(blocks as usize * 64).collect()
}

proptest! {
    /// What is believed to be cached is what has been computed, once nothing is under way.
    #[test]
    fn credit_is_what_was_computed(steps in prop::collection::vec(step(), 1..40)) {
        let mut bench = Bench::free();
        let mut running: Vec<(ReservationId, Vec<u32>, bool)> = Vec::new();
        let mut computed: Vec<Vec<u32>> = Vec::new();
        for step in steps {
            match step {
                Step::Send { family, blocks } => {
                    let prompt = prompt_of(family, blocks);
                    let id = bench.submit(&on_a("", &prompt)).unwrap().reservation;
                    running.push((id, prompt, false));
                }
                Step::FirstToken(at) if !running.is_empty() => {
                    let (id, prompt, has_token) = at.get(&running).clone();
                    bench.scheduler.first_token(bench.now, id, &mut bench.settled);
                    if !has_token {
                        computed.push(prompt);
                    }
                }
                Step::Fail(at) if !running.is_empty() => {
                    let (id, ..) = running.swap_remove(at.index(running.len()));
                    fail(&mut bench, id);
                }
                Step::Complete(at) if !running.is_empty() => {
                    let (id, prompt, _) = running.swap_remove(at.index(running.len()));
                    bench.complete(id, &used_tools());
                    computed.push(prompt);
                }
                _ => {}
            }
        }
        for (id, ..) in running {
            fail(&mut bench, id);
        }
        for family in 0..2 {
            let whole = prompt_of(family, 8);
            let common = |other: &Vec<u32>| whole.iter().zip(other).take_while(|(a, b)| a == b).count();
            let most = computed.iter().map(common).max().unwrap_or(0);
            let probe = on_a("", &whole);
            let rows = bench.scheduler.candidates(bench.now, &probe, &mut bench.settled);
            let credit = rows.unwrap().1[0].overlap_tokens;
            prop_assert_eq!(credit as usize, most);
        }
    }
}
