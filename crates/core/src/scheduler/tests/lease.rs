//! The lease policy behind the facade: holds that other calls end, receipts, hints.
use super::*;
use crate::admission::{Eviction, LeaseConfig, Refusal, Why};
use crate::hint::{Action, Hint};
use crate::load::Untracked;

/// One worker of 10,000 tokens that computes one cold prompt at a time.
fn lease(eviction: Eviction) -> Bench {
    let policy = LeaseConfig {
        warm_tokens: 100,
        calm_share: 0,
        eviction,
        ..LeaseConfig::default()
    };
    let mut bench = Bench::new(AdmissionConfig::Lease(policy), Some(10_000));
    bench.health(B, Health::Removed);
    bench
}

fn first_token(bench: &mut Bench, id: ReservationId) {
    let Bench {
        scheduler, settled, ..
    } = bench;
    scheduler.first_token(bench.now, id, settled);
}

#[test]
fn a_first_token_lets_the_next_cold_turn_go_and_its_receipt_says_why_it_waited() {
    let mut bench = lease(Eviction::Lru);
    let (first, _) = bench.go("a", &tokens(1, 4_000));
    let held = bench.hold("b", &tokens(2, 3_000));
    assert_eq!(bench.scheduler.hold_position(held), Some(1));
    first_token(&mut bench, first);
    let [settled] = bench.settled[..] else {
        panic!("{:?}", bench.settled);
    };
    assert_eq!(settled.reservation, held);
    let Outcome::Go(placement) = settled.outcome else {
        panic!("{settled:?}");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    assert!(matches!(receipt.admission, AdmissionNote::Held(_)));
    let refill = Refusal {
        worker: A,
        why: Why::Refill,
    };
    assert_eq!(
        (receipt.hold.place, &receipt.refusals[..]),
        (1, &[refill][..])
    );
    for id in [first, held] {
        bench.complete(id, &used_tools());
    }
    bench.assert_empty();
}

#[test]
fn a_session_goes_on_where_it_is_while_others_wait() {
    let mut bench = lease(Eviction::Lru);
    let prompt = tokens(1, 4_032);
    let (id, _) = bench.go("a", &prompt[..3_968]);
    first_token(&mut bench, id);
    bench.complete(id, &used_tools());
    let (cold, _) = bench.go("b", &tokens(2, 5_000));
    let held = bench.hold("c", &tokens(3, 3_000));
    let (_, warm) = bench.go("a", &prompt);
    assert_eq!(warm.predicted_cached_tokens, 3_968);
    let receipt = bench.scheduler.receipt(warm.receipt).unwrap();
    assert_eq!(receipt.admission, AdmissionNote::Kept(A));
    assert!(bench.scheduler.is_held(held));
    first_token(&mut bench, cold);
    assert!(
        bench.scheduler.is_held(held),
        "two contexts run and a third does not fit"
    );
}

#[test]
fn a_receipt_says_what_the_host_tier_has_of_a_session_that_had_to_give_way() {
    let policy = LeaseConfig {
        host_tokens: 20_000,
        ..LeaseConfig::default()
    };
    let mut bench = Bench::new(AdmissionConfig::Lease(policy), Some(10_000));
    let prompt = tokens(1, 4_032);
    for (session, prompt) in [("a", &prompt[..3_968]), ("b", &tokens(2, 8_000))] {
        let (id, _) = bench.go(session, prompt);
        bench.health(B, Health::Down);
        bench.complete(id, &used_tools());
        bench.after(3_600);
    }
    let (_, again) = bench.go("a", &prompt);
    let row = bench.scheduler.receipt(again.receipt).unwrap().candidates[0];
    assert_eq!(
        (row.worker, row.overlap_tokens, row.host_tokens),
        (A, 2_000, 1_968)
    );
}

#[test]
fn what_others_were_let_use_is_not_believed_to_be_there_any_more() {
    let mut bench = lease(Eviction::LeaseEnd);
    let prompt = tokens(1, 4_032);
    let (id, _) = bench.go("a", &prompt[..3_968]);
    first_token(&mut bench, id);
    bench.complete(id, &used_tools());
    let (id, _) = bench.go("b", &tokens(2, 5_000));
    first_token(&mut bench, id);
    bench.complete(id, &used_tools());
    // Only the worker without turns takes it, and of a's context 1,968 tokens are left.
    let (_, large) = bench.go("c", &tokens(3, 8_000));
    assert_eq!(large.predicted_cached_tokens, 0);
    let look = bench.hold("a", &prompt);
    assert!(
        bench.scheduler.is_held(look),
        "the index still predicts a part"
    );
}

#[test]
fn each_call_says_what_engines_should_be_told() {
    let mut bench = lease(Eviction::LeaseEnd);
    let (id, _) = bench.go("a", &tokens(1, 4_000));
    let program = bench.scheduler.program_of(id).unwrap();
    bench.complete(id, &used_tools());
    let [Hint { action, .. }] = bench.scheduler.hints() else {
        panic!("{:?}", bench.scheduler.hints());
    };
    assert!(matches!(action, Action::Retain { until } if *until > bench.now));
    let Bench {
        scheduler,
        settled,
        now,
    } = &mut bench;
    scheduler.end_session(*now, "", "a", settled);
    let demote = Hint {
        program,
        worker: A,
        action: Action::Demote,
    };
    assert_eq!(scheduler.hints(), [demote]);
    scheduler.advance(*now, settled);
    assert_eq!(scheduler.hints(), []);
}

#[test]
fn a_shared_system_prompt_draws_no_herd() {
    let policy = AdmissionConfig::Lease(LeaseConfig::default());
    let mut bench = Bench::new(policy, Some(1_000_000));
    let group = GroupId(0);
    for name in ["c", "d"] {
        let worker = WorkerOptions {
            name: name.to_owned(),
            group,
            capacity_tokens: Some(1_000_000),
        };
        let Bench {
            scheduler, settled, ..
        } = &mut bench;
        scheduler.add_worker(Micros(0), worker, settled).unwrap();
    }
    let system = tokens(0, 16);
    let mut turns = [0; 4];
    for session in 1..=40 {
        let prompt = [system.clone(), tokens(session, 15 * 16)].concat();
        let (_, placement) = bench.go(&format!("s{session}"), &prompt);
        turns[placement.worker.0 as usize] += 1;
    }
    assert_eq!(turns, [10; 4]);
}

#[test]
fn what_others_do_there_counts_as_load_until_it_is_over() {
    let mut bench = lease(Eviction::Lru);
    let others = Untracked {
        requests: 3,
        tokens: 9_000,
    };
    untracked(&mut bench, A, others);
    // One turn goes whatever others do: they may never end.
    let (first, _) = bench.go("first", &tokens(3, 4_000));
    let held = bench.hold("a", &tokens(1, 4_000));
    let row = |bench: &mut Bench| {
        let prompt = tokens(2, 640);
        let asked = turn("", &prompt);
        let found = bench
            .scheduler
            .candidates(bench.now, &asked, &mut Vec::new());
        found.unwrap().1[0]
    };
    let before = row(&mut bench);
    assert_eq!((before.requests, before.active_tokens), (4, 12_968));
    first_token(&mut bench, first);
    assert_eq!(bench.settled, []);
    untracked(&mut bench, A, Untracked::default());
    let [settled] = bench.settled[..] else {
        panic!("{:?}", bench.settled);
    };
    assert_eq!(settled.reservation, held);
    assert!(matches!(settled.outcome, Outcome::Go(_)));
    for id in [first, held] {
        bench.complete(id, &Completion::default());
    }
    bench.assert_empty();
    let nobody = (bench.scheduler).set_untracked(bench.now, B, others, &mut Vec::new());
    assert_eq!(nobody.unwrap_err().code(), "UNKNOWN_ID");
}

fn untracked(bench: &mut Bench, worker: WorkerId, untracked: Untracked) {
    let Bench {
        scheduler, settled, ..
    } = bench;
    scheduler
        .set_untracked(bench.now, worker, untracked, settled)
        .unwrap();
}

#[test]
fn a_worker_that_comes_back_does_nothing_for_others() {
    let mut bench = Bench::free();
    let others = Untracked {
        requests: 1,
        tokens: 640,
    };
    untracked(&mut bench, A, others);
    assert_eq!(bench.scheduler.load().untracked(A), others);
    bench.health(A, Health::Removed);
    assert_eq!(bench.scheduler.load().untracked(A), Untracked::default());
    let (_, placement) = bench.go("s", &tokens(1, 640));
    assert_eq!(placement.worker, B);
}
