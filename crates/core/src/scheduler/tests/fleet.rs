//! Targets that come and go while the scheduler runs.
use super::*;
use crate::continuity::Lock;
use crate::snapshot::RestoreOptions;

/// Two targets with a worker each; the session's first turn was answered by the first one.
fn answered(completion: &Completion<'_>) -> (Bench, TargetId, TargetId) {
    let (mut bench, second, _) = two_targets(Bench::free());
    let first = TargetId(0);
    let prompt = tokens(1, 640);
    let mut asked = turn("s", &prompt);
    let both = [first, second];
    asked.targets = &both;
    let submitted = bench.submit(&asked).unwrap();
    assert_eq!(submitted.target, first);
    bench.complete(submitted.reservation, completion);
    (bench, first, second)
}

fn called() -> Completion<'static> {
    Completion {
        tool_calls: CALL,
        ..used_tools()
    }
}

fn written(bench: &mut Bench) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut snapshot = bench.scheduler.snapshot();
    let now = bench.now;
    let all = bench
        .scheduler
        .write_snapshot(now, &mut snapshot, usize::MAX, &mut bytes);
    all.unwrap();
    bytes
}

#[test]
fn a_removed_target_takes_no_new_turns_and_its_name_is_free() {
    let (mut bench, first, second) = answered(&Completion::default());
    let name = bench.scheduler.topology().targets()[0].name.clone();
    bench.scheduler.remove_target(first).unwrap();
    let prompt = tokens(1, 1_280);
    let mut asked = turn("s", &prompt);
    let only = [first];
    asked.targets = &only;
    assert_eq!(bench.submit(&asked).unwrap_err().code(), "NO_WORKER");
    let again = bench.scheduler.remove_target(first).unwrap_err();
    assert_eq!(again.code(), "UNKNOWN_ID");
    let group = bench.scheduler.topology().targets()[0].group;
    let new = bench.scheduler.add_target(&name, group).unwrap();
    assert_eq!(bench.scheduler.topology().target_named(&name), Some(new));
    assert_ne!(new, second);
}

#[test]
fn a_session_of_a_removed_target_is_bound_anew_even_inside_its_tool_loop() {
    let (mut bench, first, second) = answered(&called());
    bench.scheduler.remove_target(first).unwrap();
    let prompt = tokens(1, 1_280);
    let mut asked = turn("s", &prompt);
    let left = [second];
    asked.targets = &left;
    asked.tool_results = CALL;
    let submitted = bench.submit(&asked).unwrap();
    assert_eq!((submitted.target, submitted.lock), (second, Lock::Free));
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    assert_eq!(receipt.lock.passed_over, 1);
    bench.complete(submitted.reservation, &Completion::default());
}

#[test]
fn what_a_removed_target_has_kept_is_lost_and_not_asked_of_another() {
    let response = Ids {
        bytes: b"response:r1",
        lengths: &[11],
    };
    let (mut bench, first, second) = answered(&Completion {
        state: response,
        ..Completion::default()
    });
    bench.scheduler.remove_target(first).unwrap();
    let prompt = tokens(1, 1_280);
    let mut asked = turn("s", &prompt);
    let left = [second];
    asked.targets = &left;
    asked.state = response;
    assert_eq!(bench.submit(&asked).unwrap_err().code(), "STATE_LOST");
    asked.state = Ids::default();
    assert_eq!(bench.submit(&asked).unwrap().target, second);
}

#[test]
fn a_turn_that_a_removed_target_has_goes_on_to_its_end() {
    let (mut bench, first, _) = answered(&Completion::default());
    let (id, _) = bench.go("t", &tokens(2, 640));
    bench.scheduler.remove_target(first).unwrap();
    bench.complete(id, &Completion::default());
    assert_eq!(bench.scheduler.status().reservations, 0);
    assert_eq!(bench.scheduler.status().sessions, 2);
}

#[test]
fn nothing_of_a_removed_target_is_restored_under_its_name() {
    let (mut bench, first, _) = answered(&called());
    let (name, group) = {
        let target = &bench.scheduler.topology().targets()[0];
        (target.name.clone(), target.group)
    };
    let owners = bench.scheduler.status().owners;
    assert!(owners > 0);
    bench.scheduler.remove_target(first).unwrap();
    bench.scheduler.add_target(&name, group).unwrap();
    let bytes = written(&mut bench);
    let (mut fresh, _, _) = two_targets(Bench::free());
    let restored = fresh
        .scheduler
        .restore(Micros(0), &bytes, RestoreOptions::default())
        .unwrap();
    assert_eq!((restored.owners, restored.dropped.owners), (0, owners));
}

#[test]
fn workers_that_come_together_are_those_that_come_one_by_one() {
    let options = |number: usize| WorkerOptions {
        name: format!("more-{number}"),
        group: GroupId(0),
        capacity_tokens: Some(100_000),
    };
    let (mut one_by_one, mut together) = (Bench::free(), Bench::free());
    for number in 0..5 {
        let settled = &mut one_by_one.settled;
        let added = one_by_one
            .scheduler
            .add_worker(Micros(0), options(number), settled);
        added.unwrap();
    }
    let all = (0..5).map(options);
    let settled = &mut together.settled;
    together
        .scheduler
        .add_workers(Micros(0), all, settled)
        .unwrap();
    let names = |bench: &Bench| {
        let workers = bench.scheduler.topology().workers().iter();
        workers
            .map(|w| (w.name.clone(), w.place))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&one_by_one), names(&together));
    let taken = together
        .scheduler
        .add_workers(Micros(0), (4..9).map(options), &mut Vec::new());
    assert_eq!(taken.unwrap_err().code(), "DUPLICATE_ID");
}

/// A worker of that capacity, whatever its name.
fn sized(capacity_tokens: Option<u64>) -> WorkerOptions {
    WorkerOptions {
        name: String::new(),
        group: GroupId(0),
        capacity_tokens,
    }
}

fn replace(bench: &mut Bench, old: WorkerId, by: WorkerOptions) -> Result<WorkerId> {
    let settled = &mut bench.settled;
    bench.scheduler.replace_worker(bench.now, old, by, settled)
}

fn resize(bench: &mut Bench, worker: WorkerId, capacity_tokens: Option<u64>) -> Result<()> {
    let (now, settled) = (bench.now, &mut bench.settled);
    bench
        .scheduler
        .set_capacity(now, worker, capacity_tokens, settled)
}

/// Two sessions fill both workers; the first turn of a third one is held.
fn with_a_hold() -> (Bench, ReservationId) {
    let mut bench = Bench::thunderagent(2_000);
    bench.go("s", &tokens(1, 1_500));
    bench.go("t", &tokens(2, 1_500));
    let held = bench.hold("u", &tokens(3, 1_500));
    (bench, held)
}

fn has_gone(bench: &Bench, held: ReservationId) -> bool {
    let settled = bench.settled.iter().find(|s| s.reservation == held);
    settled.is_some_and(|settled| matches!(settled.outcome, Outcome::Go(_)))
}

#[test]
fn a_worker_that_is_replaced_leaves_its_name_to_one_with_an_empty_cache() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let (id, placed) = bench.go("s", &prompt);
    let new = [A, B].map(|old| replace(&mut bench, old, sized(None)).unwrap());
    let topology = bench.scheduler.topology();
    assert_eq!(
        ["a", "b"].map(|name| topology.worker_named(name)),
        new.map(Some)
    );
    bench.complete(id, &Completion::default());
    assert_eq!(bench.scheduler.status().reservations, 0);
    let (_, next) = bench.go("s", &prompt);
    assert!(new.contains(&next.worker));
    assert_eq!(next.predicted_cached_tokens, 0);
    let again = replace(&mut bench, placed.worker, sized(None));
    assert_eq!(again.unwrap_err().code(), "UNKNOWN_ID");
}

#[test]
fn a_replacement_that_is_refused_changes_nothing() {
    let mut bench = Bench::free();
    let before = bench.scheduler.topology().epoch();
    let elsewhere = WorkerOptions {
        group: GroupId(9),
        ..sized(None)
    };
    let refused = [elsewhere, sized(Some(0))].map(|by| replace(&mut bench, A, by).unwrap_err());
    assert_eq!(
        refused.map(|error| error.code()),
        ["UNKNOWN_ID", "INVALID_ARGUMENT"]
    );
    assert_eq!(bench.scheduler.topology().epoch(), before);
}

#[test]
fn a_turn_that_waits_for_all_workers_waits_on_for_their_replacements() {
    let (mut bench, held) = with_a_hold();
    for worker in [A, B] {
        replace(&mut bench, worker, sized(Some(2_000))).unwrap();
    }
    assert_eq!(bench.settled, []);
    bench.after(10);
    assert!(has_gone(&bench, held), "{:?}", bench.settled);
}

#[test]
fn more_capacity_lets_those_in_who_wait() {
    let (mut bench, held) = with_a_hold();
    resize(&mut bench, A, Some(3_000)).unwrap();
    assert!(!has_gone(&bench, held));
    resize(&mut bench, B, Some(10_000)).unwrap();
    bench.after(10);
    assert!(has_gone(&bench, held), "{:?}", bench.settled);
}

#[test]
fn less_capacity_forgets_what_is_too_much() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let (id, placed) = bench.go("s", &prompt);
    bench.complete(id, &Completion::default());
    resize(&mut bench, placed.worker, Some(128)).unwrap();
    let (_, next) = bench.go("s", &prompt);
    assert_eq!(next.predicted_cached_tokens, 128);
    let refused = [(A, Some(0)), (WorkerId(9), None)]
        .map(|(worker, tokens)| resize(&mut bench, worker, tokens).unwrap_err());
    assert_eq!(
        refused.map(|error| error.code()),
        ["INVALID_ARGUMENT", "UNKNOWN_ID"]
    );
}

#[test]
fn what_was_cached_in_blocks_of_another_size_is_left_out_and_told() {
    let mut bench = Bench::free();
    let (id, _) = bench.go("s", &tokens(1, 1_280));
    bench.complete(id, &called());
    let bytes = written(&mut bench);
    for (block_tokens, resized) in [(64, 0), (16, 2)] {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        let options = GroupOptions {
            block_tokens,
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).unwrap();
        scheduler.add_target("model", group).unwrap();
        let workers = ["a", "b"].map(|name| WorkerOptions {
            name: name.to_owned(),
            group,
            capacity_tokens: None,
        });
        scheduler
            .add_workers(Micros(0), workers, &mut Vec::new())
            .unwrap();
        let restored = scheduler.restore(bench.now, &bytes, RestoreOptions::default());
        let restored = restored.unwrap();
        assert_eq!(restored.dropped.resized, resized);
        assert_eq!(restored.blocks > 0, resized == 0);
        assert_eq!((restored.sessions, restored.owners), (1, 1));
    }
}
