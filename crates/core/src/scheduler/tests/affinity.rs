//! Where sessions stay, when they do not, and how workers give theirs away.
use super::*;
use crate::admission::LeaseConfig;
use crate::affinity::{AffinityConfig, AffinityNote, Came, Mode, Tie};
use crate::load::Untracked;

fn with_affinity(mode: Mode) -> Config {
    Config {
        affinity: AffinityConfig {
            mode,
            ..AffinityConfig::default()
        },
        ..Config::default()
    }
}

fn bench(mode: Mode) -> Bench {
    Bench::with(with_affinity(mode), None)
}

impl Bench {
    fn stay(&self, placement: &Placement) -> Option<AffinityNote> {
        self.scheduler.receipt(placement.receipt).unwrap().affinity
    }

    /// Others make a worker busy with so many tokens of running turns.
    fn load(&mut self, worker: WorkerId, tokens: u64) {
        let untracked = Untracked {
            requests: 1,
            tokens,
        };
        self.scheduler
            .set_untracked(self.now, worker, untracked, &mut self.settled)
            .unwrap();
    }

    /// One turn from its submit to its end, where it went, and what affinity said.
    fn round(&mut self, session: &str, prompt: &[u32]) -> (WorkerId, Option<AffinityNote>) {
        let (id, placement) = self.go(session, prompt);
        let note = self.stay(&placement);
        self.complete(id, &Completion::default());
        (placement.worker, note)
    }

    fn child(&mut self, parent: &str, prompt: &[u32]) -> (ReservationId, Placement) {
        let turn = Turn {
            parent: Some(parent),
            ..turn("child", prompt)
        };
        match self.submit(&turn).unwrap().verdict {
            Verdict::Go(placement) => (
                self.scheduler
                    .receipt(placement.receipt)
                    .unwrap()
                    .reservation,
                placement,
            ),
            Verdict::Hold => panic!("the child is held"),
        }
    }
}

fn came(worker: WorkerId, tie: Tie, came: Came) -> Option<AffinityNote> {
    Some(AffinityNote { worker, tie, came })
}

#[test]
fn without_affinity_the_cost_alone_decides_and_nothing_is_said() {
    let mut bench = bench(Mode::Off);
    let prompt = tokens(1, 1_280);
    let (home, note) = bench.round("s", &prompt[..640]);
    assert_eq!(note, None);
    bench.load(home, 100_000);
    assert_eq!(bench.round("s", &prompt), (other(home), None));
}

#[test]
fn a_warm_home_keeps_its_session_whatever_its_load_when_hard() {
    let mut bench = bench(Mode::Hard);
    let prompt = tokens(1, 1_280);
    let (home, note) = bench.round("s", &prompt[..640]);
    assert_eq!(note, None);
    bench.load(home, 1_000_000);
    let stayed = came(home, Tie::Own, Came::Stayed);
    assert_eq!(bench.round("s", &prompt), (home, stayed));
    // A session without a home goes where it is cheapest.
    assert_eq!(bench.round("t", &tokens(2, 640)).0, other(home));
}

#[test]
fn a_soft_home_keeps_it_within_its_credit_and_not_beyond() {
    let prompt = tokens(1, 12_800);
    for (busy, expected) in [(3_900, Came::Stayed), (9_000, Came::Moved)] {
        let config = AffinityConfig {
            mode: Mode::Soft,
            credit_tokens: 4_096,
        };
        let mut config = Config {
            affinity: config,
            ..Config::default()
        };
        // The cache alone is no reason.
        config.score.overlap_credit = 0.0;
        let mut bench = Bench::with(config, None);
        let (home, _) = bench.round("s", &prompt[..12_160]);
        bench.load(home, busy);
        let (worker, note) = bench.round("s", &prompt);
        let moved = expected == Came::Moved;
        assert_eq!(worker, if moved { other(home) } else { home });
        assert_eq!(note, came(home, Tie::Own, expected));
        if moved {
            // That is its home now.
            bench.load(home, 0);
            let note = came(worker, Tie::Own, Came::Stayed);
            assert_eq!(bench.round("s", &prompt), (worker, note));
        }
    }
}

#[test]
fn the_credit_is_in_the_receipt_and_its_costs_follow_from_it() {
    let mut bench = bench(Mode::Soft);
    let prompt = tokens(1, 1_280);
    bench.round("s", &prompt[..640]);
    let (_, placement) = bench.go("s", &prompt);
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    let credits: Vec<u32> = receipt
        .candidates
        .iter()
        .map(|c| c.affinity_tokens)
        .collect();
    assert_eq!(credits.iter().sum::<u32>(), 640);
    let costs: Vec<f64> = receipt.candidates.iter().map(|c| c.cost).collect();
    assert_eq!(recompute(receipt), costs);
}

#[test]
fn a_home_is_one_only_while_its_cache_has_something_of_the_session() {
    let mut bench = bench(Mode::Hard);
    let prompt = tokens(1, 1_280);
    let (home, _) = bench.round("s", &prompt[..640]);
    bench.scheduler.reset_cache(bench.now, home).unwrap();
    bench.load(home, 100_000);
    let cold = came(home, Tie::Own, Came::Cold);
    assert_eq!(bench.round("s", &prompt), (other(home), cold));
}

#[test]
fn what_other_sessions_need_too_is_no_reason_to_stay() {
    let mut bench = bench(Mode::Hard);
    let prompt = tokens(1, 640);
    let (home, _) = bench.round("s", &prompt);
    // Another session has the same prompt and no more: all of it is shared.
    bench.round("t", &prompt);
    bench.load(home, 100_000);
    assert_eq!(
        bench.round("s", &prompt).1,
        came(home, Tie::Own, Came::Cold)
    );
}

#[test]
fn an_outage_is_a_detour_and_the_session_returns_to_a_warm_home() {
    for mode in [Mode::Soft, Mode::Hard] {
        let mut bench = bench(mode);
        let prompt = tokens(1, 1_920);
        let (home, _) = bench.round("s", &prompt[..1_280]);
        bench.health(home, Health::Down);
        let away = came(home, Tie::Own, Came::Detour);
        assert_eq!(bench.round("s", &prompt[..1_300]), (other(home), away));
        assert_eq!(bench.round("s", &prompt[..1_344]), (other(home), away));
        bench.health(home, Health::Up);
        if mode == Mode::Hard {
            let stayed = came(home, Tie::Own, Came::Stayed);
            assert_eq!(bench.round("s", &prompt), (home, stayed));
        }
    }
}

#[test]
fn a_worker_that_takes_nothing_for_a_while_loses_its_sessions() {
    let mut bench = bench(Mode::Hard);
    let prompt = tokens(1, 1_280);
    let (home, _) = bench.round("s", &prompt[..640]);
    bench.health(home, Health::Limited);
    let left = came(home, Tie::Own, Came::Left);
    assert_eq!(bench.round("s", &prompt), (other(home), left));
    bench.health(home, Health::Up);
    let stayed = came(other(home), Tie::Own, Came::Stayed);
    assert_eq!(bench.round("s", &prompt), (other(home), stayed));
}

#[test]
fn a_passing_fault_is_a_detour_and_a_lasting_one_takes_the_session_along() {
    for fault in [Fault::Passing, Fault::Lasting] {
        let mut bench = bench(Mode::Hard);
        let prompt = tokens(1, 1_920);
        let (home, _) = bench.round("s", &prompt[..1_280]);
        let (id, first) = bench.go("s", &prompt[..1_300]);
        assert_eq!(first.worker, home);
        let moved = bench
            .scheduler
            .reroute(bench.now, id, fault, &mut bench.settled)
            .unwrap();
        assert_eq!(moved.worker, other(home));
        assert_eq!(bench.stay(&moved), came(home, Tie::Own, Came::Detour));
        bench.complete(id, &Completion::default());
        let (next, _) = bench.round("s", &prompt);
        let returns = fault == Fault::Passing;
        assert_eq!(next, if returns { home } else { other(home) }, "{fault:?}");
    }
}

#[test]
fn a_turn_that_only_one_worker_may_take_is_a_detour() {
    let mut bench = bench(Mode::Hard);
    let prompt = tokens(1, 1_920);
    let (home, _) = bench.round("s", &prompt[..1_280]);
    let pinned = Turn {
        pin: Some(other(home)),
        ..turn("s", &prompt[..1_300])
    };
    let submitted = bench.submit(&pinned).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held")
    };
    let away = came(home, Tie::Own, Came::Detour);
    assert_eq!(
        (placement.worker, bench.stay(&placement)),
        (other(home), away)
    );
    bench.complete(submitted.reservation, &Completion::default());
    assert_eq!(bench.round("s", &prompt).0, home);
}

#[test]
fn a_child_starts_where_its_parents_prefix_is_unless_that_is_overloaded() {
    for (busy, expected) in [(2_000, Came::Stayed), (500_000, Came::Moved)] {
        let mut config = with_affinity(Mode::Hard);
        config.score.overlap_credit = 0.0;
        let mut bench = Bench::with(config, None);
        let prompt = tokens(1, 12_800);
        let (home, _) = bench.round("parent", &prompt);
        bench.load(home, busy);
        let (_, placement) = bench.child("parent", &prompt);
        assert_eq!(bench.stay(&placement), came(home, Tie::Parent, expected));
        assert_eq!(placement.worker == home, expected == Came::Stayed);
    }
}

#[test]
fn homes_leave_with_their_sessions() {
    let mut bench = bench(Mode::Hard);
    let (id, _) = bench.go("s", &tokens(1, 640));
    bench
        .scheduler
        .end_session(bench.now, "", "s", &mut bench.settled);
    bench.complete(id, &Completion::default());
    let homes = format!("{:?}", bench.scheduler.homes);
    assert_eq!(homes, "Homes { by_program: {} }");
}

#[test]
fn a_home_on_another_model_stays_through_a_detour() {
    let (mut bench, second, _) = two_targets(bench(Mode::Hard));
    let prompt = tokens(1, 1_920);
    let both = [TargetId(0), second];
    let ask = |bench: &mut Bench, upto: usize| {
        let asked = Turn {
            targets: &both,
            ..turn("s", &prompt[..upto])
        };
        let submitted = bench.submit(&asked).unwrap();
        let Verdict::Go(placement) = submitted.verdict else {
            panic!("held")
        };
        bench.complete(submitted.reservation, &Completion::default());
        placement
    };
    let home = ask(&mut bench, 1_280).worker;
    bench.health(A, Health::Down);
    bench.health(B, Health::Down);
    let away = ask(&mut bench, 1_300);
    assert_eq!(away.target, second);
    bench.health(A, Health::Up);
    bench.health(B, Health::Up);
    bench.load(home, 1_000_000);
    assert_eq!(ask(&mut bench, 1_920).worker, home);
}

// Departures.

impl Bench {
    fn depart(&mut self, worker: WorkerId, departure: Departure, seconds: u64) {
        let until = self.now.plus(Micros::from_secs(seconds));
        self.scheduler
            .depart(self.now, worker, departure, until, &mut self.settled)
            .unwrap();
    }
}

#[test]
fn a_draining_worker_keeps_open_loops_takes_no_others_and_lets_the_rest_go() {
    for mode in [Mode::Off, Mode::Soft, Mode::Hard] {
        let mut bench = bench(mode);
        let prompt = tokens(1, 2_560);
        let (id, first) = bench.go("s", &prompt[..640]);
        let home = first.worker;
        bench.complete(id, &used_tools());
        bench.depart(home, Departure::Drain, 60);
        for (n, upto) in [1_280, 1_920].into_iter().enumerate() {
            assert_eq!(
                bench.go("new", &tokens(7 + n as u32, 640)).1.worker,
                other(home)
            );
            let (id, placement) = bench.go("s", &prompt[..upto]);
            assert_eq!(placement.worker, home, "its loop is open");
            let end = match n {
                0 => used_tools(),
                _ => Completion {
                    phase: Some(Phase::Reasoning),
                    ..Completion::default()
                },
            };
            bench.complete(id, &end);
        }
        let (_, placement) = bench.go("s", &prompt);
        assert_eq!(placement.worker, other(home), "its loop has ended");
        assert_eq!(bench.scheduler.leaving(home).map(|l| l.moved), Some(1));
        bench.after(60);
        assert_eq!(bench.scheduler.leaving(home), None);
        let health = bench.scheduler.topology().worker(home).unwrap().health;
        assert_eq!(health, Health::Draining);
    }
}

#[test]
fn the_caller_of_a_tool_is_where_its_result_goes_until_the_deadline() {
    let mut bench = bench(Mode::Off);
    let prompt = tokens(1, 1_280);
    let (id, first) = bench.go("s", &prompt[..640]);
    let calls = Completion {
        tool_calls: CALL,
        ..Completion::default()
    };
    bench.complete(id, &calls);
    bench.depart(first.worker, Departure::Drain, 60);
    let answer = |bench: &mut Bench| {
        let result = Turn {
            tool_results: CALL,
            ..turn("another", &prompt)
        };
        match bench.submit(&result).unwrap().verdict {
            Verdict::Go(placement) => placement.worker,
            Verdict::Hold => panic!("held"),
        }
    };
    assert_eq!(answer(&mut bench), first.worker);
    bench.after(61);
    assert_eq!(answer(&mut bench), other(first.worker));
}

#[test]
fn a_lease_that_runs_is_no_safe_boundary_and_one_that_has_run_out_is() {
    let config = Config {
        admission: AdmissionConfig::Lease(LeaseConfig::default()),
        ..Config::default()
    };
    for (idle, stays) in [(0, true), (6_000, false)] {
        let mut bench = Bench::with(config.clone(), Some(100_000));
        let prompt = tokens(1, 12_800);
        let (id, first) = bench.go("s", &prompt[..6_400]);
        let done = Completion {
            reported: Reported {
                prompt_tokens: Some(6_400),
                ..Reported::default()
            },
            phase: Some(Phase::Reasoning),
            ..Completion::default()
        };
        bench.complete(id, &done);
        bench.depart(first.worker, Departure::Drain, 10_000);
        bench.after(idle);
        let (_, next) = bench.go("s", &prompt);
        assert_eq!(next.worker == first.worker, stays, "{idle} s idle");
    }
}

#[test]
fn a_worker_that_sheds_is_as_before_when_enough_have_left_or_time_is_up() {
    let mut bench = bench(Mode::Hard);
    let mut on_a = Vec::new();
    for n in 1..=8 {
        let name = format!("s{n}");
        if bench.round(&name, &tokens(n, 640)).0 == A {
            on_a.push((name, n));
        }
    }
    assert!(on_a.len() >= 3, "{on_a:?}");
    bench.depart(A, Departure::Shed(2), 60);
    let went: Vec<_> = on_a
        .iter()
        .map(|(name, n)| bench.round(name, &tokens(*n, 1_280)).0)
        .collect();
    assert_eq!(
        went.iter().filter(|&&worker| worker == B).count(),
        2,
        "{went:?}"
    );
    assert_eq!(bench.scheduler.leaving(A), None);
    bench.depart(A, Departure::Shed(5), 60);
    bench.after(60);
    assert_eq!(bench.scheduler.leaving(A), None);
    assert_eq!(
        bench.scheduler.topology().worker(A).unwrap().health,
        Health::Up
    );
}

#[test]
fn where_nobody_else_is_up_a_leaving_worker_serves_until_its_deadline() {
    let mut bench = bench(Mode::Off);
    bench.health(B, Health::Down);
    bench.depart(A, Departure::Drain, 60);
    assert_eq!(bench.go("s", &tokens(1, 640)).1.worker, A);
    let due = bench
        .scheduler
        .next_wake()
        .map(|at| at.since(bench.now) <= Micros::from_secs(60));
    assert_eq!(due, Some(true));
    bench.after(61);
    let refused = bench.submit(&turn("t", &tokens(2, 640))).unwrap_err();
    assert_eq!(refused.code(), "NO_WORKER");
}

#[test]
fn what_cannot_depart_is_refused_and_a_change_of_health_ends_a_departure() {
    let mut bench = bench(Mode::Off);
    let mut depart = |worker, departure| {
        let (now, settled) = (bench.now, &mut bench.settled);
        let error = bench.scheduler.depart(now, worker, departure, now, settled);
        error.map_err(|error| error.code())
    };
    assert_eq!(depart(WorkerId(9), Departure::Drain), Err("UNKNOWN_ID"));
    assert_eq!(depart(A, Departure::Shed(0)), Err("INVALID_ARGUMENT"));
    // A deadline that has come drains at once.
    assert_eq!(depart(A, Departure::Drain), Ok(()));
    assert_eq!(depart(A, Departure::Drain), Err("INVALID_ARGUMENT"));
    bench.health(A, Health::Up);
    bench.depart(A, Departure::Drain, 60);
    bench.health(A, Health::Up);
    assert_eq!(bench.scheduler.leaving(A), None);
}

#[test]
fn a_hard_home_that_is_full_is_waited_for_while_it_is_up_and_warm() {
    type Way = fn(&mut Bench, WorkerId);
    let config = || Config {
        affinity: AffinityConfig {
            mode: Mode::Hard,
            credit_tokens: 512,
        },
        gates: crate::admission::GateConfig {
            max_running: Some(1),
            ..Default::default()
        },
        ..Config::default()
    };
    // Nothing, or what takes away the reason to wait.
    let ways: [(Option<Way>, bool); 3] = [
        (None, true),
        (Some(|bench, home| bench.health(home, Health::Down)), false),
        (
            Some(|bench, home| bench.depart(home, Departure::Drain, 60)),
            false,
        ),
    ];
    for (way, stays) in ways {
        let mut bench = Bench::with(config(), None);
        let prompt = tokens(1, 1_280);
        let (home, _) = bench.round("s", &prompt[..640]);
        let fill = [2, 3].map(|n| bench.go(&format!("f{n}"), &tokens(n, 640)));
        let at = |worker| fill.iter().find(|(_, p)| p.worker == worker).unwrap().0;
        bench.complete(at(other(home)), &Completion::default());
        // The other worker is free, but cold.
        let held = bench.hold("s", &prompt);
        let why = bench.scheduler.held(held).map(|held| held.why);
        assert_eq!(why, Some(crate::receipt::HoldReason::MaxRunning));
        // It is in nobody's way.
        let (id, placed) = bench.go("new", &tokens(4, 640));
        assert_eq!(placed.worker, other(home));
        bench.complete(id, &Completion::default());
        assert!(bench.scheduler.is_held(held));
        match way {
            None => _ = bench.complete(at(home), &Completion::default()),
            Some(way) => way(&mut bench, home),
        }
        let went = bench.settled.iter().find(|s| s.reservation == held);
        let Some(Outcome::Go(placed)) = went.map(|s| s.outcome) else {
            panic!("{went:?}");
        };
        assert_eq!(placed.worker == home, stays);
    }
}

/// The gates were open when it came, and the policy held it; others may be open when that lets it go.
#[test]
fn a_hard_home_is_waited_for_though_the_policy_held_the_turn_before() {
    let pinned = |bench: &mut Bench, session: &str, prompt: &[u32], worker: WorkerId| {
        let turn = Turn {
            pin: Some(worker),
            ..turn(session, prompt)
        };
        let submitted = bench.submit(&turn).unwrap();
        assert!(matches!(submitted.verdict, Verdict::Go(_)), "{session}");
        submitted.reservation
    };
    for max_running in [2, 3] {
        let config = Config {
            affinity: AffinityConfig {
                mode: Mode::Hard,
                ..AffinityConfig::default()
            },
            admission: AdmissionConfig::Lease(LeaseConfig::default()),
            gates: crate::admission::GateConfig {
                max_running: Some(max_running),
                ..Default::default()
            },
            ..Config::default()
        };
        let mut bench = Bench::with(config, Some(100_000));
        let prompt = tokens(1, 19_200);
        let (home, _) = bench.round("s", &prompt[..640]);
        // Home computes a large prompt, and takes no second one meanwhile.
        let large = pinned(&mut bench, "large", &tokens(2, 60_800), home);
        let held = bench.hold("s", &prompt);
        let why = bench.scheduler.held(held).map(|held| held.why);
        assert_eq!(why, Some(crate::receipt::HoldReason::Room));
        // A small one makes it run two.
        let small = pinned(&mut bench, "small", &tokens(3, 640), home);
        bench
            .scheduler
            .first_token(bench.now, large, &mut bench.settled);
        let is_full = max_running == 2;
        assert_eq!(bench.scheduler.is_held(held), is_full);
        // It waits where it is in nobody's way.
        if is_full {
            let why = bench.scheduler.held(held).map(|held| held.why);
            assert_eq!(why, Some(crate::receipt::HoldReason::MaxRunning));
        }
        let (_, placed) = bench.go("new", &tokens(4, 19_200));
        assert_eq!(placed.worker, other(home));
        bench.complete(small, &Completion::default());
        let went = bench.settled.iter().find(|s| s.reservation == held);
        let Some(Outcome::Go(placed)) = went.map(|s| s.outcome) else {
            panic!("{went:?}");
        };
        assert_eq!(placed.worker, home);
    }
}
