//! The facade against written-out expectations.
use super::*;
use crate::TargetId;
use crate::admission::ThunderAgentConfig;
use crate::continuity::{ContinuityConfig, Lock, WhenDown};
use crate::receipt::{AdmissionNote, Ending, Reported, Trust};
use crate::session::Phase;

mod affinity;
mod breakpoints;
mod endings;
mod failures;
mod fan_out;
mod fleet;
mod homes;
mod leaving;
mod models;
mod named;
mod owners;
mod patience;
mod queue;
mod recall;
mod rendered;
mod scopes;
mod timing;

const A: WorkerId = WorkerId(0);
const B: WorkerId = WorkerId(1);

fn other(worker: WorkerId) -> WorkerId {
    if worker == A { B } else { A }
}

/// A scheduler with one target on two workers, and what its calls have settled.
struct Bench {
    scheduler: Scheduler,
    settled: Vec<Settled>,
    now: Micros,
}

impl Bench {
    fn new(admission: AdmissionConfig, capacity_tokens: Option<u64>) -> Self {
        let config = Config {
            admission,
            ..Config::default()
        };
        Self::with(config, capacity_tokens)
    }

    fn with(config: Config, capacity_tokens: Option<u64>) -> Self {
        let mut scheduler = Scheduler::new(config).unwrap();
        let group = scheduler
            .add_group(Micros(0), GroupOptions::default())
            .unwrap();
        scheduler.add_target("model", group).unwrap();
        let mut settled = Vec::new();
        for name in ["a", "b"] {
            let worker = WorkerOptions {
                name: name.to_owned(),
                group,
                capacity_tokens,
            };
            scheduler
                .add_worker(Micros(0), worker, &mut settled)
                .unwrap();
        }
        Self {
            scheduler,
            settled,
            now: Micros(0),
        }
    }

    fn free() -> Self {
        Self::new(AdmissionConfig::None, None)
    }

    fn thunderagent(capacity_tokens: u64) -> Self {
        let policy = AdmissionConfig::ThunderAgent(ThunderAgentConfig::default());
        Self::new(policy, Some(capacity_tokens))
    }

    fn submit(&mut self, turn: &Turn<'_>) -> Result<Submitted> {
        self.now = self.now.plus(Micros::from_millis(1));
        self.scheduler.submit(self.now, turn, &mut self.settled)
    }

    fn go(&mut self, session: &str, tokens: &[u32]) -> (ReservationId, Placement) {
        let submitted = self.submit(&turn(session, tokens)).unwrap();
        match submitted.verdict {
            Verdict::Go(placement) => (submitted.reservation, placement),
            Verdict::Hold => panic!("the turn of {session} is held"),
        }
    }

    fn hold(&mut self, session: &str, tokens: &[u32]) -> ReservationId {
        let submitted = self.submit(&turn(session, tokens)).unwrap();
        assert_eq!(submitted.verdict, Verdict::Hold, "{session}");
        submitted.reservation
    }

    fn complete(&mut self, id: ReservationId, completion: &Completion<'_>) -> Found {
        self.now = self.now.plus(Micros::from_millis(1));
        self.scheduler
            .complete(self.now, id, completion, &mut self.settled)
    }

    fn after(&mut self, seconds: u64) {
        self.now = self.now.plus(Micros::from_secs(seconds));
        self.scheduler.advance(self.now, &mut self.settled);
    }

    fn health(&mut self, worker: WorkerId, health: Health) {
        self.scheduler
            .set_health(self.now, worker, health, &mut self.settled)
            .unwrap();
    }

    fn assert_empty(&self) {
        let status = self.scheduler.status();
        assert_eq!((status.reservations, status.holds), (0, 0));
        for worker in [A, B] {
            let load = self.scheduler.load().load(worker);
            assert!(load.is_none_or(|load| load == crate::load::WorkerLoad::default()));
        }
    }
}

fn turn<'a>(session: &'a str, tokens: &'a [u32]) -> Turn<'a> {
    Turn {
        session: Some(session).filter(|name| !name.is_empty()),
        ..Turn::new(&[TargetId(0)], Prompt::Tokens(tokens))
    }
}

fn tokens(seed: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| seed * 1_000_000 + i).collect()
}

fn used_tools() -> Completion<'static> {
    Completion {
        phase: Some(Phase::Acting),
        ..Completion::default()
    }
}

/// Adds a second target on a worker of its own.
fn two_targets(mut bench: Bench) -> (Bench, TargetId, WorkerId) {
    let Bench {
        scheduler, settled, ..
    } = &mut bench;
    let group = scheduler
        .add_group(Micros(0), GroupOptions::default())
        .unwrap();
    let target = scheduler.add_target("other", group).unwrap();
    let worker = WorkerOptions {
        name: "c".to_owned(),
        group,
        capacity_tokens: None,
    };
    let worker = scheduler.add_worker(Micros(0), worker, settled).unwrap();
    (bench, target, worker)
}

const CALL: Ids<'static> = Ids {
    bytes: b"call_1",
    lengths: &[6],
};

#[test]
fn a_sessions_next_turn_goes_where_its_prefix_is() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 1_280);
    let (id, first) = bench.go("s", &prompt[..640]);
    assert_eq!(
        (first.predicted_cached_tokens, first.trust),
        (0, Trust::None)
    );
    assert_eq!(bench.complete(id, &used_tools()), Found::Ended);
    let (id, second) = bench.go("s", &prompt);
    assert_eq!(second.worker, first.worker);
    assert_eq!(
        (second.predicted_cached_tokens, second.trust),
        (640, Trust::Predicted)
    );
    bench.complete(id, &used_tools());
    bench.assert_empty();
}

#[test]
fn text_and_its_growth_earn_credit_block_by_block() {
    let mut bench = Bench::free();
    let text = vec![b'x'; 4_000];
    let segments = [2_000, 1_000, 1_000].map(Segment::plain);
    let mut predicted = Vec::new();
    for n in 1..=3 {
        let mut turn = turn("s", &[]);
        turn.prompt = Prompt::Text {
            bytes: &text,
            segments: &segments[..n],
        };
        let submitted = bench.submit(&turn).unwrap();
        let Verdict::Go(placement) = submitted.verdict else {
            panic!("held");
        };
        predicted.push((submitted.prompt_tokens, placement.predicted_cached_tokens));
        bench.complete(submitted.reservation, &used_tools());
    }
    assert_eq!(predicted, [(500, 0), (750, 500), (1_000, 750)]);
}

#[test]
fn a_report_of_fewer_cached_tokens_corrects_what_is_believed_of_the_rest() {
    let mut bench = Bench::free();
    bench.health(B, Health::Down);
    let (old, current) = (tokens(1, 640), tokens(2, 640));
    let (id, _) = bench.go("old", &old);
    bench.complete(id, &used_tools());
    let (id, _) = bench.go("current", &current);
    bench.complete(id, &used_tools());
    let credit = |bench: &mut Bench| {
        let look = bench
            .scheduler
            .candidates(bench.now, &turn("look", &old), &mut bench.settled);
        look.unwrap().1[0].overlap_tokens
    };
    let report = |bench: &mut Bench, cached| {
        let (id, placement) = bench.go("current", &current);
        assert_eq!(placement.predicted_cached_tokens, 640);
        let completion = Completion {
            reported: Reported {
                cached_tokens: cached,
                ..Reported::default()
            },
            ..used_tools()
        };
        bench.complete(id, &completion);
    };
    for agreeing in [None, Some(640), Some(600), Some(9_999)] {
        report(&mut bench, agreeing);
        assert_eq!(credit(&mut bench), 640, "{agreeing:?}");
    }
    // The engine has lost what was used last: what was used before that is gone too.
    report(&mut bench, Some(64));
    assert_eq!(credit(&mut bench), 0);
}

#[test]
fn a_tool_result_is_locked_to_its_issuer_and_a_lost_issuer_is_an_error() {
    let (mut bench, other, c) = two_targets(Bench::free());
    let prompt = tokens(1, 640);
    let mut first = turn("s", &prompt);
    let (preferred, both) = ([other], [TargetId(0), other]);
    first.targets = &preferred;
    let submitted = bench.submit(&first).unwrap();
    let completion = Completion {
        tool_calls: CALL,
        ..used_tools()
    };
    bench.complete(submitted.reservation, &completion);

    let mut next = turn("another-session", &prompt);
    next.targets = &both;
    next.tool_results = CALL;
    let locked = bench.submit(&next).unwrap();
    assert_eq!((locked.target, locked.lock), (other, Lock::ToolLoop));
    bench.complete(locked.reservation, &used_tools());

    bench.health(c, Health::Removed);
    let refused = bench.submit(&next).map_err(|error| error.code());
    assert_eq!(refused, Err("STATE_LOST"));
    let mut free = next;
    free.tool_results = Ids::default();
    assert_eq!(bench.submit(&free).map(|s| s.target), Ok(TargetId(0)));
}

#[test]
fn provider_state_is_pinned_to_the_worker_that_keeps_it() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 640);
    let (id, first) = bench.go("s", &prompt);
    let ids = Ids {
        bytes: b"response:r1",
        lengths: &[11],
    };
    let completion = Completion {
        state: ids,
        ..Completion::default()
    };
    bench.complete(id, &completion);
    let owner = bench.scheduler.state_owner("", b"response:r1");
    assert_eq!(owner.map(|owner| owner.worker), Some(first.worker));
    let unrelated = tokens(9, 64);
    let mut next = turn("elsewhere", &unrelated);
    next.state = ids;
    for _ in 0..4 {
        let submitted = bench.submit(&next).unwrap();
        let Verdict::Go(placement) = submitted.verdict else {
            panic!("held");
        };
        assert_eq!(placement.worker, first.worker);
        let failed = bench.scheduler.reroute(
            bench.now,
            submitted.reservation,
            Fault::Passing,
            &mut bench.settled,
        );
        assert_eq!(failed.map_err(|e| e.code()), Err("OWNER_UNAVAILABLE"));
    }
}

#[test]
fn a_full_fleet_holds_a_newcomer_and_a_tick_lets_it_go_when_there_is_room() {
    let mut bench = Bench::thunderagent(1_000);
    let (a, _) = bench.go("a", &tokens(1, 800));
    let (b, _) = bench.go("b", &tokens(2, 800));
    let held = bench.hold("c", &tokens(3, 700));
    assert_eq!(bench.scheduler.hold_position(held), Some(1));
    assert_eq!(bench.scheduler.status().holds, 1);
    for id in [a, b] {
        bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    }
    bench.after(6);
    let [settled] = bench.settled[..] else {
        panic!("{:?}", bench.settled);
    };
    assert_eq!(settled.reservation, held);
    let Outcome::Go(placement) = settled.outcome else {
        panic!("{settled:?}");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    assert!(matches!(receipt.admission, AdmissionNote::Held(_)));
    bench.complete(held, &used_tools());
    bench.assert_empty();
}

#[test]
fn every_hold_is_settled_once_when_the_fleet_goes_away_or_the_scheduler_closes() {
    let mut bench = Bench::thunderagent(1_000);
    bench.go("a", &tokens(1, 800));
    bench.go("b", &tokens(2, 800));
    let held = bench.hold("c", &tokens(3, 700));
    bench.health(A, Health::Down);
    assert_eq!(bench.settled, []);
    bench.health(B, Health::Removed);
    let outcomes = |bench: &Bench| -> Vec<_> {
        let of = |s: &Settled| (s.reservation, s.outcome);
        bench.settled.iter().map(of).collect()
    };
    assert_eq!(outcomes(&bench), [(held, Outcome::NoWorker)]);
    bench.after(3_600);
    assert_eq!(outcomes(&bench).len(), 1);
    let refused = bench.submit(&turn("d", &tokens(4, 64)));
    assert_eq!(refused.map_err(|e| e.code()), Err("NO_WORKER"));

    let mut bench = Bench::thunderagent(1_000);
    bench.go("a", &tokens(1, 800));
    bench.go("b", &tokens(2, 800));
    let held = bench.hold("c", &tokens(3, 700));
    bench.scheduler.close(bench.now, &mut bench.settled);
    assert_eq!(outcomes(&bench), [(held, Outcome::Closed)]);
}

#[test]
fn a_hold_ends_at_its_limit() {
    let config = Config {
        admission: AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
        hold_limit: Some(Micros::from_secs(30)),
        ..Config::default()
    };
    let mut bench = Bench::thunderagent(1_000);
    bench.scheduler.config.hold_limit = config.hold_limit;
    bench.go("a", &tokens(1, 800));
    bench.go("b", &tokens(2, 800));
    let held = bench.hold("c", &tokens(3, 700));
    bench.after(29);
    assert_eq!(bench.settled, []);
    assert!(bench.scheduler.next_wake().is_some());
    bench.after(2);
    assert_eq!(bench.settled.len(), 1);
    assert_eq!(bench.settled[0].outcome, Outcome::HoldLimit(None));
    assert_eq!(bench.settled[0].reservation, held);
    assert_eq!(
        bench.scheduler.cancel(bench.now, held, &mut bench.settled),
        Found::Late
    );
}

#[test]
fn a_hold_that_ends_at_its_limit_says_how_much_longer_it_should_have_taken() {
    let config = Config {
        hold_limit: Some(Micros::from_secs(15)),
        gates: crate::admission::GateConfig {
            max_running: Some(1),
            ..Default::default()
        },
        ..Config::default()
    };
    let mut bench = Bench::with(config, None);
    bench.health(B, Health::Removed);
    let (first, _) = bench.go("a", &tokens(1, 64));
    let waiting = ["b", "c", "d"].map(|name| bench.hold(name, &tokens(2, 64)));
    bench.after(10);
    bench.complete(first, &Completion::default());
    // One has gone after ten seconds: the next would in ten more, of which five are over.
    bench.after(5);
    let ends: Vec<_> = bench.settled.drain(..).collect();
    assert_eq!(ends.len(), 3);
    for (end, id) in ends.iter().zip(waiting) {
        assert_eq!(end.reservation, id);
        match end.outcome {
            Outcome::Go(_) => assert_eq!(id, waiting[0]),
            Outcome::HoldLimit(Some(Micros(more))) => {
                assert!((4_900_000..=5_100_000).contains(&more), "{more}");
            }
            ref other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_end_counts_once() {
    let mut bench = Bench::free();
    let (id, placement) = bench.go("s", &tokens(1, 640));
    assert_eq!(bench.complete(id, &used_tools()), Found::Ended);
    assert_eq!(bench.complete(id, &used_tools()), Found::Late);
    let late = bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    assert_eq!(late, Found::Late);
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    assert!(matches!(receipt.ending, Ending::Completed(_)));
    assert_eq!(bench.scheduler.status().counters.late_calls, 2);
    bench.assert_empty();
}

#[test]
fn a_failed_turn_moves_on_until_nobody_is_left() {
    let mut bench = Bench::free();
    let (id, first) = bench.go("s", &tokens(1, 640));
    let second = bench
        .scheduler
        .reroute(bench.now, id, Fault::Passing, &mut bench.settled)
        .unwrap();
    assert_ne!(second.worker, first.worker);
    let loads = [A, B].map(|w| bench.scheduler.load().load(w).unwrap().requests);
    assert_eq!(loads[second.worker.index()], 1);
    assert_eq!(loads.iter().sum::<u32>(), 1);
    let third = bench
        .scheduler
        .reroute(bench.now, id, Fault::Passing, &mut bench.settled);
    assert_eq!(third.map_err(|e| e.code()), Err("NO_WORKER"));
    bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    bench.assert_empty();
}

#[test]
fn a_receipt_alone_gives_the_decision_again() {
    let mut bench = Bench::free();
    let prompts: Vec<_> = (0..40).map(|n| tokens(n % 7, 320 + 64 * n)).collect();
    for (n, prompt) in prompts.iter().enumerate() {
        let (id, placement) = bench.go(&format!("s{}", n % 7), prompt);
        let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
        let costs = recompute(receipt);
        let recorded: Vec<f64> = receipt.candidates.iter().map(|row| row.cost).collect();
        assert_eq!(costs, recorded);
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(costs[receipt.chosen], least);
        assert_eq!(receipt.candidates[receipt.chosen].worker, placement.worker);
        if n % 3 == 0 {
            bench.complete(id, &used_tools());
        }
    }
}

#[test]
fn an_unnamed_session_is_found_by_what_it_sent_whatever_its_volatile_head() {
    let mut bench = Bench::free();
    let submit = |bench: &mut Bench, head: &str, texts: &[&str]| {
        let segment = |(n, text): (usize, &&str)| Segment {
            kind: if n == 0 {
                SegmentKind::Volatile
            } else {
                SegmentKind::Plain
            },
            ..Segment::plain(text.len() as u32)
        };
        let parts: Vec<&str> = [head].iter().chain(texts).copied().collect();
        let segments: Vec<_> = parts.iter().enumerate().map(segment).collect();
        let bytes = parts.concat().into_bytes();
        let mut turn = turn("", &[]);
        turn.prompt = Prompt::Text {
            bytes: &bytes,
            segments: &segments,
        };
        let submitted = bench.submit(&turn).unwrap();
        bench.complete(submitted.reservation, &used_tools());
        submitted
    };
    let first = submit(&mut bench, "v=1", &["system", "hello"]);
    let next = submit(&mut bench, "v=2", &["system", "hello", "tool result"]);
    let other = submit(&mut bench, "v=1", &["system", "something else"]);
    assert!(first.derived.is_some());
    assert_eq!(first.derived, next.derived);
    assert_eq!(first.program, next.program);
    assert_ne!(first.derived, other.derived);
}

#[test]
fn a_final_turn_ends_its_session() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 64);
    let mut last = turn("s", &prompt);
    last.kind = TurnKind::Final;
    let submitted = bench.submit(&last).unwrap();
    assert_eq!(bench.scheduler.status().sessions, 1);
    bench.complete(submitted.reservation, &Completion::default());
    assert_eq!(bench.scheduler.status().sessions, 0);
}

#[test]
fn what_cannot_be_is_refused_and_occupies_nothing() {
    let mut bench = Bench::free();
    let prompt = tokens(1, 64);
    let code = |result: Result<Submitted>| result.map(|_| ()).map_err(|e| e.code());
    let mut none = turn("s", &prompt);
    none.targets = &[];
    assert_eq!(code(bench.submit(&none)), Err("INVALID_ARGUMENT"));
    none.targets = &[TargetId(7)];
    assert_eq!(code(bench.submit(&none)), Err("UNKNOWN_ID"));
    let mut short = turn("s", &[]);
    let segments = [Segment::plain(9)];
    short.prompt = Prompt::Text {
        bytes: b"short",
        segments: &segments,
    };
    assert_eq!(code(bench.submit(&short)), Err("INVALID_ARGUMENT"));
    bench.scheduler.config.limits.reservations = 1;
    bench.go("s", &prompt);
    let full = bench.submit(&turn("t", &prompt));
    assert_eq!(code(full), Err("TOO_MANY_RESERVATIONS"));
    assert_eq!(bench.scheduler.status().reservations, 1);
    assert_eq!(bench.scheduler.status().sessions, 1);
}

#[test]
fn a_retry_never_breaks_a_lock() {
    let (mut bench, other, c) = two_targets(Bench::free());
    let prompt = tokens(1, 640);
    let asked = [other, TargetId(0)];
    let mut first = turn("s", &prompt);
    first.targets = &asked;
    let submitted = bench.submit(&first).unwrap();
    let completion = Completion {
        tool_calls: CALL,
        ..used_tools()
    };
    bench.complete(submitted.reservation, &completion);
    let mut answer = first;
    answer.tool_results = CALL;
    let locked = bench.submit(&answer).unwrap();
    assert_eq!((locked.target, locked.lock), (other, Lock::ToolLoop));
    let moved = bench.scheduler.reroute(
        bench.now,
        locked.reservation,
        Fault::Passing,
        &mut bench.settled,
    );
    assert_eq!(moved.map_err(|e| e.code()), Err("NO_WORKER"));
    let load = bench.scheduler.load().load(c).unwrap();
    assert_eq!(load.requests, 1, "the turn still stands where it was");
}

#[test]
fn a_reroute_that_finds_nobody_changes_nothing() {
    let (mut bench, other, c) = two_targets(Bench::free());
    let prompt = tokens(1, 640);
    let mut first = turn("s", &prompt);
    let asked = [other, TargetId(0)];
    first.targets = &asked;
    let submitted = bench.submit(&first).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    for worker in [A, B] {
        bench.health(worker, Health::Down);
    }
    let status = bench.scheduler.status();
    for _ in 0..2 {
        let moved = bench.scheduler.reroute(
            bench.now,
            submitted.reservation,
            Fault::Passing,
            &mut bench.settled,
        );
        assert_eq!(moved.map_err(|e| e.code()), Err("NO_WORKER"));
        assert_eq!(bench.scheduler.status(), status);
        assert_eq!(bench.scheduler.load().load(c).unwrap().requests, 1);
        let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
        assert_eq!(receipt.ending, Ending::Running);
    }
    // What it issues belongs to the target that answered.
    let completion = Completion {
        tool_calls: CALL,
        ..used_tools()
    };
    bench.complete(submitted.reservation, &completion);
    for worker in [A, B] {
        bench.health(worker, Health::Up);
    }
    let mut answer = first;
    answer.tool_results = CALL;
    assert_eq!(bench.submit(&answer).map(|s| s.target), Ok(other));
}

#[test]
fn a_detour_after_a_failure_does_not_bind_the_session() {
    let (mut bench, other, c) = two_targets(Bench::free());
    let prompt = tokens(1, 640);
    let asked = [other, TargetId(0)];
    let mut first = turn("s", &prompt);
    first.targets = &asked;
    let submitted = bench.submit(&first).unwrap();
    let moved = bench
        .scheduler
        .reroute(
            bench.now,
            submitted.reservation,
            Fault::Passing,
            &mut bench.settled,
        )
        .unwrap();
    assert_eq!(moved.target, TargetId(0));
    assert!(bench.scheduler.receipt(moved.receipt).unwrap().is_detour);
    assert_eq!(bench.scheduler.load().load(c).unwrap().requests, 0);
    bench.complete(submitted.reservation, &used_tools());
    assert_eq!(bench.submit(&first).map(|s| s.target), Ok(other));
}

#[test]
fn what_a_turn_issues_belongs_to_its_tenant_even_when_the_session_has_ended() {
    let (mut bench, other, _) = two_targets(Bench::free());
    let prompt = tokens(1, 640);
    let preferred = [other, TargetId(0)];
    let mut first = turn("s", &prompt);
    first.tenant = "mine";
    first.targets = &preferred;
    let submitted = bench.submit(&first).unwrap();
    bench
        .scheduler
        .end_session(bench.now, "mine", "s", &mut bench.settled);
    let completion = Completion {
        tool_calls: CALL,
        ..used_tools()
    };
    bench.complete(submitted.reservation, &completion);
    let lock_of = |bench: &mut Bench, tenant| {
        let asked = [TargetId(0), other];
        let mut answer = turn("later", &prompt);
        answer.tenant = tenant;
        answer.targets = &asked;
        answer.tool_results = CALL;
        bench.submit(&answer).unwrap().lock
    };
    assert_eq!(lock_of(&mut bench, "mine"), Lock::ToolLoop);
    assert_eq!(lock_of(&mut bench, ""), Lock::Free);
    assert_eq!(lock_of(&mut bench, "other"), Lock::Free);
}

#[test]
fn a_removed_worker_leaves_nothing_behind() {
    let mut bench = Bench::free();
    let (_, placement) = bench.go("s", &tokens(1, 640));
    let blocks = |bench: &Bench| bench.scheduler.prefix().stats().blocks;
    assert_eq!(blocks(&bench), 10);
    bench.health(placement.worker, Health::Removed);
    assert_eq!(blocks(&bench), 0);
    assert_eq!(bench.scheduler.load().load(placement.worker), None);
    let (_, second) = bench.go("s", &tokens(1, 640));
    assert_ne!(second.worker, placement.worker);
    assert_eq!(second.predicted_cached_tokens, 0);
}

#[test]
fn sessions_that_have_ended_their_loop_hold_nobody_up() {
    let mut bench = Bench::thunderagent(10_000);
    let over = Completion {
        phase: Some(Phase::Reasoning),
        ..Completion::default()
    };
    // Something runs all the time, so that nobody goes for want of anything running.
    bench.go("running", &tokens(1_000, 500));
    for n in 0..200 {
        let (id, _) = bench.go(&format!("s{n}"), &tokens(n, 1_000));
        bench.complete(id, &over);
    }
    assert_eq!(bench.scheduler.status().holds, 0);
    assert_eq!(bench.scheduler.status().paused, 0);
}

#[test]
fn nobody_waits_while_nothing_runs() {
    let mut bench = Bench::thunderagent(1_000);
    // Two sessions whose tools never come back fill both workers.
    for (session, seed) in [("a", 1), ("b", 2)] {
        let (id, _) = bench.go(session, &tokens(seed, 800));
        bench.complete(id, &used_tools());
    }
    let (first, _) = bench.go("c", &tokens(3, 700));
    let waiting = bench.hold("d", &tokens(4, 700));
    bench.complete(first, &used_tools());
    let settled: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
    assert_eq!(settled, [waiting]);
    assert!(matches!(bench.settled[0].outcome, Outcome::Go(_)));
    let last = bench.hold("e", &tokens(5, 700));
    bench
        .scheduler
        .cancel(bench.now, waiting, &mut bench.settled);
    assert_eq!(bench.settled[1].reservation, last);
}

#[test]
fn nobody_waits_when_the_last_running_turn_moves_away() {
    let (mut bench, other, _) = two_targets(Bench::thunderagent(10_000));
    bench.health(B, Health::Removed);
    let (id, _) = bench.go("vanished", &tokens(1, 8_000));
    bench.complete(id, &used_tools());
    let prompt = tokens(2, 500);
    let asked = [TargetId(0), other];
    let mut running = turn("running", &prompt);
    running.targets = &asked;
    let submitted = bench.submit(&running).unwrap();
    let waiting = bench.hold("waiting", &tokens(3, 2_000));
    let moved = bench
        .scheduler
        .reroute(
            bench.now,
            submitted.reservation,
            Fault::Passing,
            &mut bench.settled,
        )
        .unwrap();
    assert_eq!(moved.target, other);
    let settled: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
    assert_eq!(settled, [waiting]);
}

#[test]
fn thunderagent_keeps_the_room_of_sessions_whose_tools_run_as_published() {
    let mut bench = Bench::thunderagent(10_000);
    bench.health(B, Health::Removed);
    let (running, _) = bench.go("running", &tokens(1, 1_000));
    for n in 2..9 {
        let (id, _) = bench.go(&format!("acting{n}"), &tokens(n, 1_000));
        bench.complete(id, &used_tools());
    }
    // 8,800 of 10,000 count: less than the threshold of pausing, more than the ceiling of resuming.
    let newcomer = bench.hold("newcomer", &tokens(20, 1_500));
    bench.after(1_700);
    assert_eq!(bench.settled, []);
    bench.after(200);
    let settled: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
    assert_eq!(settled, [newcomer], "only its own timer lets it go");
    bench.complete(running, &used_tools());
}

#[test]
fn admission_says_where_a_turn_goes_that_it_lets_go() {
    let mut bench = Bench::thunderagent(100_000);
    let prompt = tokens(1, 6_400);
    let (id, first) = bench.go("s", &prompt);
    bench.complete(id, &used_tools());
    // The cost would put it on the worker that has its prompt; the controller takes the least used.
    let (_, second) = bench.go("t", &prompt);
    assert_ne!(second.worker, first.worker);
}

#[test]
fn an_unnamed_session_ends_by_the_name_that_it_was_given() {
    let mut bench = Bench::free();
    let submitted = bench.submit(&turn("", &tokens(1, 640))).unwrap();
    bench.complete(submitted.reservation, &used_tools());
    let name = derived_name(submitted.derived.unwrap());
    let end = |bench: &mut Bench, tenant, name: &str| {
        let Bench {
            scheduler, settled, ..
        } = bench;
        scheduler.end_session(Micros(0), tenant, name, settled);
        scheduler.status().sessions
    };
    assert_eq!(end(&mut bench, "other", &name), 1);
    assert_eq!(end(&mut bench, "", "prompt-xyz"), 1);
    assert_eq!(end(&mut bench, "", &name), 0);
}

mod lease;
mod paths;
