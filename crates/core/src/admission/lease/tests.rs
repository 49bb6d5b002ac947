//! The rules of the policy, one by one, on two workers of 10,000 tokens.
use super::*;
use crate::admission::{Kind, Tool, Waits};
use crate::hint::Action;

const A: WorkerId = WorkerId(0);
const B: WorkerId = WorkerId(1);

/// A policy and a fleet that does what it says at once.
struct Bench {
    policy: Lease,
    now: Micros,
    live: Vec<(WorkerId, Option<u64>)>,
    /// Turns that run: where, and how much.
    running: Vec<(ReservationId, WorkerId, u32)>,
    held: Vec<Begin>,
    tickets: u64,
    /// When the lease of the session ends that [`full`] has left between two turns.
    lease_end: Micros,
}

impl Bench {
    fn new(config: LeaseConfig) -> Self {
        let config = LeaseConfig {
            warm_tokens: 500,
            ..config
        };
        let mut bench = Self {
            policy: Lease::new(config).unwrap(),
            now: Micros::from_secs(100),
            live: Vec::new(),
            running: Vec::new(),
            held: Vec::new(),
            tickets: 0,
            lease_end: Micros(0),
        };
        bench.set(&[(A, Some(10_000)), (B, Some(10_000))]);
        bench
    }

    /// One worker only.
    fn alone() -> Self {
        let mut bench = Self::new(LeaseConfig::default());
        bench.set(&[(A, Some(10_000))]);
        bench
    }

    fn set(&mut self, live: &[(WorkerId, Option<u64>)]) {
        self.live = live.to_vec();
        self.policy.set_workers(self.now, live);
        self.settle();
    }

    fn rows(&self, begin: &Begin) -> Vec<Candidate> {
        let own = self.policy.account(begin.program);
        let row = |worker| {
            let here = self.running.iter().filter(|&&(_, at, _)| at == worker);
            Candidate {
                worker,
                cost: 0.0,
                overlap_tokens: match own {
                    Some(own) if own.worker == worker => own.tokens.min(begin.prompt_tokens),
                    _ => 0,
                },
                host_tokens: match own {
                    Some(own) if own.worker == worker => own.host_tokens,
                    _ => 0,
                },
                disk_tokens: 0,
                pool_tokens: 0,
                rank: None,
                prefill_tokens: 0,
                active_tokens: here.clone().map(|&(_, _, tokens)| u64::from(tokens)).sum(),
                additional_tokens: begin.prompt_tokens,
                requests: here.count() as u32,
                affinity_tokens: 0,
                relief_tokens: 0,
                pace: Default::default(),
            }
        };
        self.live.iter().map(|&(worker, _)| row(worker)).collect()
    }

    fn begin(&mut self, program: u64, prompt_tokens: u32) -> (ReservationId, Option<WorkerId>) {
        self.tickets += 1;
        let begin = Begin {
            ticket: ReservationId(self.tickets),
            claimant: Default::default(),
            program: ProgramId(program),
            prompt_tokens,
            kind: Kind::Turn,
            pin: None,
        };
        let (rows, mut out) = (self.rows(&begin), Vec::new());
        self.policy.begin(self.now, begin, &rows, &mut out);
        let worker = out.first().map(|release| release.worker.unwrap_or(A));
        match worker {
            Some(worker) => self.running.push((begin.ticket, worker, prompt_tokens)),
            None => self.held.push(begin),
        }
        (begin.ticket, worker)
    }

    fn go(&mut self, program: u64, tokens: u32) -> ReservationId {
        let (ticket, worker) = self.begin(program, tokens);
        assert!(worker.is_some(), "the turn of {program} is held");
        ticket
    }

    fn hold(&mut self, program: u64, tokens: u32) -> ReservationId {
        let (ticket, worker) = self.begin(program, tokens);
        assert_eq!(worker, None, "the turn of {program} went");
        ticket
    }

    /// A turn from its begin to its end.
    fn whole(&mut self, program: u64, tokens: u32, waits: Waits) {
        let ticket = self.go(program, tokens);
        self.first_token(ticket);
        self.complete(ticket, tokens, waits);
    }

    fn first_token(&mut self, ticket: ReservationId) {
        self.policy.first_token(self.now, ticket);
        self.settle();
    }

    fn complete(&mut self, ticket: ReservationId, tokens: u32, waits: Waits) {
        let end = End {
            context_tokens: Some(tokens),
            waits,
        };
        self.policy.complete(self.now, ticket, end);
        self.running.retain(|&(other, ..)| other != ticket);
        self.settle();
    }

    fn cancel(&mut self, ticket: ReservationId) {
        self.policy.cancel(self.now, ticket);
        self.running.retain(|&(other, ..)| other != ticket);
        self.held.retain(|begin| begin.ticket != ticket);
        self.settle();
    }

    fn at(&mut self, now: Micros) {
        self.now = now;
        self.policy.advance(now);
        self.settle();
    }

    fn after(&mut self, seconds: u64) {
        self.at(self.now.plus(Micros::from_secs(seconds)));
    }

    fn settle(&mut self) {
        while let Some(ticket) = self.policy.head() {
            let at = self.held.iter().position(|b| b.ticket == ticket).unwrap();
            let begin = self.held[at];
            let (rows, mut out) = (self.rows(&begin), Vec::new());
            self.policy.offer(self.now, ticket, &rows, &mut out);
            for release in out {
                let worker = release.worker.unwrap_or(A);
                self.running.push((ticket, worker, begin.prompt_tokens));
                self.held.remove(at);
            }
        }
    }

    /// Where the context of a session is: tokens in the cache, and in the host tier behind it.
    fn kept(&self, program: u64) -> (WorkerId, u32, u32) {
        let own = self.policy.account(ProgramId(program)).unwrap();
        (own.worker, own.tokens, own.host_tokens)
    }

    fn went(&self, ticket: ReservationId) -> bool {
        self.running.iter().any(|&(other, ..)| other == ticket)
    }

    fn why(&self, ticket: ReservationId) -> Vec<Why> {
        let begin = self.held.iter().find(|b| b.ticket == ticket).unwrap();
        let mut refusals = Vec::new();
        let rows = self.rows(begin);
        self.policy.refusals_of(ticket, &rows, &mut refusals);
        refusals.into_iter().map(|refusal| refusal.why).collect()
    }

    /// How long a context of so many tokens may stay.
    fn break_even(&self, tokens: u32) -> Micros {
        let refill = self.policy.table.rooms[&A].refill.time(tokens);
        let heeded = match self.policy.table.config.eviction {
            Eviction::LeaseEnd => 2,
            Eviction::Lru => 1,
        };
        let theta = heeded * u64::from(LeaseConfig::BALANCED);
        Micros(refill.0 * 10_000 / u64::from(tokens) * theta / 10_000)
    }
}

/// Fills the worker: a turn runs and another session is between two turns.
fn full() -> (Bench, ReservationId) {
    let mut bench = Bench::alone();
    bench.whole(1, 4_000, Waits::Tool);
    bench.lease_end = bench.now.plus(bench.break_even(4_000));
    let running = bench.go(2, 4_000);
    bench.first_token(running);
    (bench, running)
}

/// Where a turn of 400 tokens goes when A has `overlap` of them, at the higher cost.
fn placed_with_overlap_at_a(overlap: u32) -> Option<WorkerId> {
    let mut policy = Bench::new(LeaseConfig::default()).policy;
    let row = |worker, overlap_tokens, cost| Candidate {
        worker,
        cost,
        overlap_tokens,
        host_tokens: 0,
        disk_tokens: 0,
        pool_tokens: 0,
        rank: None,
        prefill_tokens: 0,
        active_tokens: 0,
        additional_tokens: 400,
        requests: 0,
        affinity_tokens: 0,
        relief_tokens: 0,
        pace: Default::default(),
    };
    let begin = Begin {
        ticket: ReservationId(1),
        claimant: Default::default(),
        program: ProgramId(1),
        prompt_tokens: 400,
        kind: Kind::Turn,
        pin: None,
    };
    let (rows, mut out) = ([row(A, overlap, 2.0), row(B, 0, 1.0)], Vec::new());
    policy.begin(Micros::from_secs(100), begin, &rows, &mut out);
    out[0].worker
}

#[test]
fn only_most_of_its_prompt_binds_a_turn_to_a_worker_and_the_cost_places_the_others() {
    assert_eq!(placed_with_overlap_at_a(25), Some(B));
    assert_eq!(placed_with_overlap_at_a(200), Some(B));
    assert_eq!(placed_with_overlap_at_a(201), Some(A));
}

#[test]
fn among_equals_the_one_with_the_most_room_takes_it() {
    let mut bench = Bench::new(LeaseConfig::default());
    for program in 1..=4 {
        bench.whole(program, 1_000, Waits::Tool);
    }
    let at = |program| bench.kept(program).0;
    assert_eq!([at(1), at(2), at(3), at(4)], [A, B, A, B]);
}

#[test]
fn a_cold_turn_waits_for_the_end_of_a_lease_and_not_a_moment_longer() {
    let (mut bench, _running) = full();
    let end = bench.lease_end;
    let held = bench.hold(3, 4_000);
    let leases = Why::Leases {
        have: 2_000,
        need: 4_000,
        next_end: Some(end),
    };
    assert_eq!(bench.why(held), [leases]);
    assert_eq!(bench.policy.next_wake(), Some(end));
    bench.at(Micros(end.0 - 1));
    assert!(!bench.went(held));
    bench.at(end);
    assert!(bench.went(held));
    // The tail of the idle context made room; its head is still there.
    assert_eq!(bench.kept(1), (A, 2_000, 0));
}

#[test]
fn a_tool_of_known_length_is_waited_for_or_not() {
    let started = |seconds| Tool::Started {
        expected: Some(Micros::from_secs(seconds)),
    };
    // Longer than keeping the room is worth: it goes at once.
    let (mut bench, _running) = full();
    bench.policy.tool(bench.now, ProgramId(1), started(900));
    bench.go(3, 4_000);
    // Nothing is said that would shorten or lengthen it.
    let (mut bench, _running) = full();
    let unknown = Tool::Started { expected: None };
    bench.policy.tool(bench.now, ProgramId(1), unknown);
    assert_eq!(bench.policy.table.next_expiry(), Some(bench.lease_end));
    // A moment before its end the session is said to come back.
    let (mut bench, _running) = full();
    let length = bench.lease_end.since(bench.now);
    let almost = Micros(bench.lease_end.0 - 1);
    bench.at(almost);
    bench.policy.tool(bench.now, ProgramId(1), Tool::Ended);
    let end = bench.now.plus(length.min(Micros::from_secs(10)));
    let held = bench.hold(3, 4_000);
    bench.at(Micros(end.0 - 1));
    assert!(!bench.went(held));
    bench.at(end);
    assert!(bench.went(held));
}

#[test]
fn engines_that_heed_leases_keep_what_had_run_out_when_its_session_comes_back() {
    let config = LeaseConfig {
        eviction: Eviction::LeaseEnd,
        ..LeaseConfig::default()
    };
    let mut bench = Bench::new(config);
    bench.set(&[(A, Some(10_000))]);
    bench.whole(1, 4_000, Waits::Tool);
    bench.after(3_600);
    let running = bench.go(2, 4_000);
    bench.first_token(running);
    bench.policy.tool(bench.now, ProgramId(1), Tool::Ended);
    let mut hints = Vec::new();
    bench.policy.take_hints(&mut hints);
    let last = hints.last().map(|hint| (hint.program, hint.action));
    assert!(matches!(last, Some((ProgramId(1), Action::Retain { .. }))));
    bench.hold(3, 4_000);
}

#[test]
fn a_lease_that_runs_out_costs_nothing_while_nobody_waits() {
    let (mut bench, _running) = full();
    bench.after(3_600);
    assert_eq!(bench.policy.next_wake(), None);
    assert_eq!(bench.kept(1), (A, 4_000, 0));
    let again = bench.go(1, 4_100);
    assert_eq!(bench.policy.state(ProgramId(1)).unwrap().worker, Some(A));
    bench.complete(again, 4_200, Waits::Tool);
    assert_eq!(
        bench.policy.counters().waits.tool,
        WaitCount {
            ended: 1,
            outlasted: 1
        }
    );
}

#[test]
fn small_turns_that_come_for_ever_keep_nobody_out_for_ever() {
    let mut bench = Bench::alone();
    let mut running = bench.go(1, 400);
    let large = bench.hold(2, 9_800);
    let since = bench.now;
    for program in 3.. {
        let next = bench.go(program, 400);
        bench.complete(running, 400, Waits::Tool);
        running = next;
        bench.after(5);
        if bench.went(large) {
            break;
        }
        assert!(bench.now.since(since) < LeaseConfig::FORCE_AFTER);
    }
    assert_eq!(bench.policy.counters().forced, 1);
}

#[test]
fn warm_turns_pass_those_who_wait() {
    let (mut bench, _running) = full();
    let held = bench.hold(3, 4_000);
    bench.go(1, 4_100);
    assert!(!bench.went(held));
    assert_eq!(bench.policy.ahead(held).map(|a| a.place()), Some(1));
}

#[test]
fn nobody_passes_the_head_of_the_queue_but_warm_turns() {
    let (mut bench, running) = full();
    let large = bench.hold(3, 9_000);
    let small = bench.hold(4, 1_000);
    assert_eq!(bench.policy.ahead(small).map(|a| a.place()), Some(2));
    bench.after(599);
    assert!(!bench.went(large) && !bench.went(small));
    bench.policy.end_program(bench.now, ProgramId(2));
    bench.complete(running, 4_000, Waits::Tool);
    assert!(
        bench.went(large),
        "a worker without turns takes the next one"
    );
    assert!(!bench.went(small), "a cold prompt is being computed");
    bench.first_token(large);
    assert!(bench.went(small));
}

#[test]
fn a_crowded_worker_computes_one_cold_prompt_at_a_time() {
    let mut bench = Bench::alone();
    let first = bench.go(1, 3_000);
    let second = bench.go(2, 1_500);
    assert!(bench.went(second), "less than half of it is needed");
    let third = bench.hold(3, 3_000);
    assert_eq!(bench.why(third), [Why::Refill]);
    bench.first_token(first);
    assert!(!bench.went(third));
    bench.cancel(second);
    assert!(bench.went(third));
}

#[test]
fn a_cold_turn_goes_where_least_is_missing_then_where_least_runs() {
    let mut bench = Bench::new(LeaseConfig::default());
    let (_, first) = bench.begin(1, 3_000);
    let (_, second) = bench.begin(2, 1_000);
    assert_eq!((first, second), (Some(A), Some(B)));
    let mut bench = Bench::new(LeaseConfig::default());
    bench.whole(1, 3_000, Waits::Tool);
    let other = bench.go(2, 3_000);
    bench.first_token(other);
    let (_, grown) = bench.begin(1, 5_000);
    assert_eq!(grown, Some(A));
}

#[test]
fn room_of_a_session_that_has_ended_is_free_at_once() {
    let (mut bench, _running) = full();
    let held = bench.hold(3, 4_000);
    bench.policy.end_program(bench.now, ProgramId(1));
    bench.settle();
    assert!(bench.went(held));
    assert_eq!(bench.policy.state(ProgramId(1)), None);
}

#[test]
fn a_session_that_ends_during_its_turn_leaves_no_lease() {
    let mut bench = Bench::alone();
    let last = bench.go(1, 4_000);
    bench.policy.end_program(bench.now, ProgramId(1));
    bench.complete(last, 4_000, Waits::Tool);
    let unclaimed = RoomUse {
        running: 0,
        leased: 0,
        spent: 4_000,
    };
    assert_eq!(bench.policy.room(A), unclaimed);
}

#[test]
fn leases_follow_how_long_sessions_are_away() {
    let mut bench = Bench::alone();
    for _ in 0..60 {
        bench.whole(1, 4_000, Waits::Person);
        bench.after(3_600);
    }
    bench.whole(1, 4_000, Waits::Person);
    assert_eq!(
        bench.policy.room(A).leased,
        0,
        "people do not come back in time"
    );
    bench.whole(2, 4_000, Waits::Tool);
    assert_eq!(
        bench.policy.room(A).leased,
        4_000,
        "of tools nothing is known yet"
    );
    let people = bench.policy.counters().waits.person;
    assert_eq!(
        people,
        WaitCount {
            ended: 60,
            outlasted: 60
        }
    );
}

#[test]
fn a_turn_that_no_worker_can_take_goes_for_the_engine_to_refuse() {
    let (mut bench, _running) = full();
    let held = bench.hold(3, 4_000);
    bench.go(4, 10_001);
    assert!(!bench.went(held));
}

#[test]
fn unknown_capacity_and_no_workers_hold_nobody() {
    let mut bench = Bench::alone();
    bench.set(&[(A, None)]);
    (0..50).for_each(|n| _ = bench.go(n, u32::MAX));
    let mut bench = Bench::alone();
    bench.set(&[]);
    (0..50).for_each(|n| _ = bench.go(n, 9_000));
}

#[test]
fn a_hold_that_is_cancelled_leaves_its_session_as_it_was() {
    let (mut bench, running) = full();
    let held = bench.hold(3, 4_000);
    bench.cancel(held);
    assert_eq!(bench.policy.waiting(), 0);
    assert_eq!(bench.kept(1), (A, 4_000, 0));
    bench.complete(running, 4_000, Waits::Tool);
    assert_eq!(bench.policy.used(A), 8_000);
}

#[test]
fn a_cancelled_turn_leaves_what_was_computed() {
    let mut bench = Bench::alone();
    bench.whole(1, 3_000, Waits::Tool);
    let early = bench.go(1, 5_000);
    bench.cancel(early);
    assert_eq!(bench.kept(1), (A, 3_000, 0));
    let late = bench.go(1, 5_000);
    bench.first_token(late);
    bench.cancel(late);
    assert_eq!(bench.kept(1), (A, 5_000, 0));
}

#[test]
fn a_lost_worker_frees_its_sessions_and_its_return_finds_it_empty() {
    let mut bench = Bench::new(LeaseConfig::default());
    bench.whole(1, 6_000, Waits::Tool);
    bench.set(&[(B, Some(10_000))]);
    assert_eq!(bench.kept(1), (A, 0, 0));
    let (ticket, worker) = bench.begin(1, 6_000);
    assert_eq!(worker, Some(B));
    bench.set(&[(A, Some(10_000)), (B, Some(10_000))]);
    bench.complete(ticket, 6_000, Waits::Tool);
    assert_eq!((bench.policy.used(A), bench.policy.used(B)), (0, 6_000));
}

#[test]
fn a_smaller_worker_keeps_what_fits() {
    let (mut bench, _running) = full();
    bench.set(&[(A, Some(5_000))]);
    assert_eq!(bench.kept(1), (A, 1_000, 0));
    let held = bench.hold(3, 4_000);
    bench.set(&[(A, Some(20_000))]);
    assert!(bench.went(held));
}

#[test]
fn a_clock_that_goes_back_ends_no_lease_and_starts_none_again() {
    let (mut bench, _running) = full();
    let end = bench.lease_end;
    let held = bench.hold(3, 4_000);
    bench.at(Micros(0));
    assert_eq!(bench.policy.next_wake(), Some(end));
    bench.at(end);
    assert!(bench.went(held));
}

#[test]
fn who_has_waited_for_the_limit_goes_whatever_the_load() {
    let mut bench = Bench::new(LeaseConfig {
        force_after: Some(Micros::from_secs(30)),
        ..LeaseConfig::default()
    });
    bench.set(&[(A, Some(10_000))]);
    let running = bench.go(1, 8_000);
    bench.first_token(running);
    let (first, second) = (bench.hold(2, 4_000), bench.hold(3, 4_000));
    let due = bench.now.plus(Micros::from_secs(30));
    assert_eq!(bench.policy.next_wake(), Some(due));
    bench.at(due);
    assert!(bench.went(first) && bench.went(second));
    assert_eq!(bench.policy.counters().forced, 2);
}

#[test]
fn a_second_turn_of_a_program_passes_uncounted() {
    let (mut bench, running) = full();
    bench.go(2, 9_000);
    assert_eq!(bench.policy.counters().untracked, 1);
    assert_eq!(bench.policy.room(A).running, 4_000);
    assert!(bench.went(running));
}

#[test]
fn engines_that_listen_are_told_when_a_lease_ends_and_when_a_session_does() {
    let mut bench = Bench::new(LeaseConfig {
        eviction: Eviction::LeaseEnd,
        ..LeaseConfig::default()
    });
    bench.whole(1, 4_000, Waits::Tool);
    let until = bench.now.plus(bench.break_even(4_000));
    bench.policy.end_program(bench.now, ProgramId(1));
    let mut hints = Vec::new();
    bench.policy.take_hints(&mut hints);
    let hint = |action| Hint {
        program: ProgramId(1),
        worker: A,
        action,
    };
    assert_eq!(
        hints,
        [hint(Action::Retain { until }), hint(Action::Demote)]
    );
}

#[test]
fn leases_are_the_shorter_the_longer_the_head_of_the_queue_has_waited() {
    let lease_after = |seconds: u64| {
        let mut bench = Bench::new(LeaseConfig {
            eviction: Eviction::LeaseEnd,
            ..LeaseConfig::default()
        });
        bench.set(&[(A, Some(10_000))]);
        let last = bench.go(2, 4_000);
        bench.first_token(last);
        let running = bench.go(3, 4_000);
        bench.first_token(running);
        bench.hold(1, 9_000);
        bench.after(seconds);
        bench.complete(last, 4_000, Waits::Tool);
        let next = bench.policy.table.rooms[&A].next_end().unwrap();
        (next.since(bench.now), bench.break_even(4_000))
    };
    let (fresh, at_ease) = lease_after(0);
    assert_eq!(fresh, at_ease);
    let lengths = [1, 5, 20, 500].map(|seconds| lease_after(seconds).0);
    assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    assert!(lengths[0] < fresh, "{lengths:?}");
    let least = Micros(at_ease.0 / 2 * 7 / 10);
    assert!(lengths[3].0.abs_diff(least.0) < 10, "{lengths:?} {least:?}");
}

#[test]
fn contexts_go_in_the_order_of_the_engine() {
    for (eviction, first) in [(Eviction::Lru, 1), (Eviction::LeaseEnd, 2)] {
        let mut bench = Bench::new(LeaseConfig {
            eviction,
            ..LeaseConfig::default()
        });
        bench.set(&[(A, Some(10_000))]);
        bench.whole(1, 4_000, Waits::Tool);
        bench.whole(2, 4_000, Waits::Tool);
        bench.policy.end_program(bench.now, ProgramId(2));
        bench.go(3, 5_000);
        let lost = [1, 2].map(|n| {
            let room = &bench.policy.table.rooms[&A];
            let left: u32 = room
                .contexts()
                .filter(|(_, idle)| idle.program == ProgramId(n))
                .map(|(_, idle)| idle.tokens)
                .sum();
            4_000 - left
        });
        assert_eq!(lost[first - 1], 3_000, "{eviction:?} {lost:?}");
    }
}

#[test]
fn settings_outside_their_range_are_named() {
    let bad = LeaseConfig {
        theta: 0,
        ..LeaseConfig::default()
    };
    let said = Lease::new(bad).unwrap_err().to_string();
    assert!(said.contains("theta is 0"), "{said}");
}

/// One worker with a host tier of 5,000 tokens, where a context of 4,000 tokens had to give way.
fn behind(fetch_share: u32) -> Bench {
    let mut bench = Bench::new(LeaseConfig {
        host_tokens: 5_000,
        fetch_share,
        ..LeaseConfig::default()
    });
    bench.set(&[(A, Some(10_000))]);
    bench.whole(1, 4_000, Waits::Tool);
    bench.after(3_600);
    bench.whole(2, 9_000, Waits::Tool);
    assert_eq!(bench.kept(1), (A, 1_000, 3_000));
    bench
}

#[test]
fn what_the_host_tier_has_makes_a_turn_less_cold() {
    for (fetch_share, cold) in [(1_000, 3), (10_000, 4)] {
        let mut bench = behind(fetch_share);
        bench.after(3_600);
        bench.go(1, 4_100);
        assert_eq!(bench.policy.counters().cold, cold - 1);
        assert_eq!(bench.policy.account(ProgramId(1)), None, "it is in use");
    }
}

#[test]
fn the_host_tier_drops_first_what_came_first() {
    let mut bench = behind(2_500);
    bench.after(3_600);
    bench.whole(3, 8_000, Waits::Tool);
    // 7,000 tokens of the second session gave way, and the tier holds 5,000.
    assert_eq!(bench.kept(1), (A, 0, 0));
    assert_eq!(bench.kept(2), (A, 2_000, 5_000));
    bench.set(&[]);
    bench.set(&[(A, Some(10_000))]);
    assert_eq!(bench.kept(2), (A, 0, 0));
}

#[test]
fn leases_are_the_shorter_the_more_comes_back_from_the_host_tier() {
    let lease = |found: u32| {
        let mut bench = Bench::alone();
        bench.policy.table.rooms.get_mut(&A).unwrap().regained = found;
        bench.whole(1, 4_000, Waits::Tool);
        let (context, _) = bench.policy.table.idle(ProgramId(1)).unwrap();
        context.break_even
    };
    let whole = lease(0);
    assert_eq!(lease(5_000).0, whole.0 * 5 / 8);
    assert_eq!(lease(10_000).0, whole.0 / 4);
}

#[test]
fn it_learns_how_much_comes_back() {
    let mut bench = behind(2_500);
    bench.after(3_600);
    let turn = bench.go(1, 4_100);
    let regained = |bench: &Bench| bench.policy.table.rooms[&A].regained;
    assert_eq!(regained(&bench), 10_000 / 16);
    bench.complete(turn, 4_100, Waits::Tool);
    bench.after(3_600);
    bench.go(1, 4_200);
    assert_eq!(regained(&bench), 10_000 / 16, "nothing had given way");
}
