//! The gates and the policies while a worker's sessions leave: who may not go there is not let go for its sake.
use super::*;
use crate::admission::GateConfig;

fn gated(gates: GateConfig) -> Config {
    Config {
        gates,
        ..Config::default()
    }
}

fn at_most_running(most: u32) -> Config {
    gated(GateConfig {
        max_running: Some(most),
        ..GateConfig::default()
    })
}

const DEPARTURES: [Departure; 2] = [Departure::Drain, Departure::Shed(9)];

impl Bench {
    fn runs(&self, worker: WorkerId) -> u32 {
        self.scheduler.load().load(worker).unwrap().requests
    }

    /// How many go by themselves until nothing more can.
    fn most_at(&mut self, worker: WorkerId) -> u32 {
        let mut most = self.runs(worker);
        for settled in std::mem::take(&mut self.settled) {
            if let Outcome::Go(placement) = settled.outcome {
                assert_eq!(placement.worker, worker);
            }
            most = most.max(self.runs(worker));
        }
        most
    }

    fn leave(&mut self, worker: WorkerId, departure: Departure) {
        let until = self.now.plus(Micros::from_secs(600));
        self.scheduler
            .depart(self.now, worker, departure, until, &mut self.settled)
            .unwrap();
    }
}

#[test]
fn a_free_seat_on_a_leaving_worker_lets_nobody_pass_to_a_full_one() {
    for departure in DEPARTURES {
        let mut bench = Bench::with(at_most_running(1), None);
        let run = [1, 2].map(|n| bench.go(&format!("s{n}"), &tokens(n, 640)));
        for n in 3..6 {
            bench.hold(&format!("s{n}"), &tokens(n, 640));
        }
        let [at_a, at_b] = [A, B].map(|id| run.iter().find(|(_, p)| p.worker == id).unwrap().0);
        bench.leave(A, departure);
        bench.complete(at_a, &Completion::default());
        bench.hold("late", &tokens(9, 640));
        assert_eq!((bench.runs(A), bench.most_at(B)), (0, 1), "{departure:?}");
        bench.complete(at_b, &Completion::default());
        assert_eq!((bench.runs(A), bench.most_at(B)), (0, 1));
        // It takes turns again: whoever waits hears of it at once.
        match departure {
            Departure::Drain => bench.health(A, Health::Up),
            Departure::Shed(_) => bench.after(601),
        }
        assert_eq!((bench.runs(A), bench.runs(B)), (1, 1), "{departure:?}");
    }
}

#[test]
fn an_open_loop_passes_to_the_leaving_worker_that_it_is_on() {
    let mut bench = Bench::with(at_most_running(1), None);
    let (id, first) = bench.go("s", &tokens(1, 640));
    let home = first.worker;
    bench.complete(id, &used_tools());
    let fill = [2, 3].map(|n| bench.go(&format!("s{n}"), &tokens(n, 640)));
    let own = bench.hold("s", &tokens(1, 1_280));
    let other = bench.hold("t", &tokens(4, 640));
    bench.leave(home, Departure::Drain);
    let there = fill.iter().find(|(_, p)| p.worker == home).unwrap().0;
    bench.complete(there, &Completion::default());
    let went: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
    assert_eq!(went, [own]);
    assert_eq!((bench.runs(A), bench.runs(B)), (1, 1));
    assert!(bench.scheduler.is_held(other));
}

/// Where all leave, nobody is bound to the one that it was on: a place elsewhere is a place.
#[test]
fn where_all_workers_leave_a_session_that_may_stay_on_a_full_one_goes_to_another() {
    for departure in DEPARTURES {
        let mut bench = Bench::with(at_most_running(1), None);
        let (id, first) = bench.go("s", &tokens(1, 640));
        let home = first.worker;
        bench.complete(id, &used_tools());
        bench.leave(other(home), departure);
        let (_, fill) = bench.go("filler", &tokens(2, 640));
        assert_eq!(fill.worker, home);
        bench.leave(home, departure);
        let (_, own) = bench.go("s", &tokens(1, 1_280));
        assert_eq!(own.worker, other(home), "{departure:?}");
        assert_eq!((bench.runs(A), bench.runs(B)), (1, 1), "{departure:?}");
    }
}

#[test]
fn a_leaving_worker_has_no_place_for_a_session_of_others() {
    for departure in DEPARTURES {
        let mut bench = Bench::with(
            gated(GateConfig {
                max_sessions: Some(1),
                ..GateConfig::default()
            }),
            None,
        );
        let (at_a, placed) = bench.go("s1", &tokens(1, 640));
        bench.go("s2", &tokens(2, 640));
        bench.leave(placed.worker, departure);
        bench.complete(at_a, &Completion::default());
        bench
            .scheduler
            .end_session(bench.now, "", "s1", &mut bench.settled);
        bench.hold("s3", &tokens(3, 640));
        assert_eq!(bench.runs(placed.worker), 0, "{departure:?}");
    }
}

#[test]
fn a_policy_with_a_room_for_each_context_counts_no_room_that_is_leaving() {
    let mut bench = Bench::thunderagent(50_000);
    let (first, placed) = bench.go("s1", &tokens(1, 30_016));
    let (leaving, stays) = (placed.worker, WorkerId(1 - placed.worker.0));
    let end = Completion {
        reported: Reported {
            prompt_tokens: Some(30_016),
            ..Reported::default()
        },
        ..used_tools()
    };
    bench.complete(first, &end);
    bench.leave(leaving, Departure::Drain);
    let (at_b, placed) = bench.go("s2", &tokens(2, 30_016));
    assert_eq!(placed.worker, stays);
    for n in 3..8 {
        bench.hold(&format!("s{n}"), &tokens(n, 30_016));
    }
    bench.after(30);
    assert_eq!((bench.runs(leaving), bench.runs(stays)), (0, 1));
    // Its loop is open: it stays where it is, whose room it has.
    let (own, placed) = bench.go("s1", &tokens(1, 30_080));
    assert_eq!(placed.worker, leaving);
    // Without that it asks for room as anybody does.
    bench.complete(own, &Completion::default());
    bench.hold("s1", &tokens(1, 30_144));
    bench.after(30);
    assert_eq!((bench.runs(leaving), bench.runs(stays)), (0, 1));
    bench.complete(
        at_b,
        &Completion {
            phase: Some(Phase::Reasoning),
            ..Completion::default()
        },
    );
    bench.after(30);
    assert_eq!((bench.runs(leaving), bench.runs(stays)), (0, 1));
}

#[test]
fn a_worker_that_comes_back_keeps_the_sessions_whose_turns_run_there() {
    for health in [Health::Down, Health::Limited, Health::Draining] {
        let mut bench = Bench::with(
            gated(GateConfig {
                max_sessions: Some(2),
                ..GateConfig::default()
            }),
            None,
        );
        bench.health(B, Health::Down);
        let (run, _) = bench.go("s1", &tokens(1, 640));
        let (idle, _) = bench.go("s2", &tokens(2, 640));
        bench.complete(idle, &used_tools());
        bench.health(A, health);
        bench.health(A, Health::Up);
        // A cache may be lost, a turn that runs is not: one place is free.
        let (next, _) = bench.go("s3", &tokens(3, 640));
        let held = bench.hold("s4", &tokens(4, 640));
        bench.complete(run, &Completion::default());
        bench
            .scheduler
            .end_session(bench.now, "", "s1", &mut bench.settled);
        assert!(!bench.scheduler.is_held(held), "{health:?}");
        // One whose turn has ended while it was away is not kept.
        bench.health(A, health);
        for id in [next, held] {
            bench.complete(id, &Completion::default());
        }
        bench.health(A, Health::Up);
        bench.go("s5", &tokens(5, 640));
        bench.go("s6", &tokens(6, 640));
        bench.hold("s7", &tokens(7, 640));
    }
}
