//! How turns end, counted: each in one way only, held or not.
use super::*;
use crate::admission::GateConfig;
use crate::scheduler::tally::HoldEnd;

fn one_at_a_time() -> Config {
    Config {
        gates: GateConfig {
            max_running: Some(1),
            ..GateConfig::default()
        },
        ..Config::default()
    }
}

fn bench(config: Config, held: u32) -> (Bench, [ReservationId; 2], Vec<ReservationId>) {
    let mut bench = Bench::with(config, Some(100_000));
    let run = [1, 2].map(|n| bench.go(&format!("s{n}"), &tokens(n, 640)).0);
    let wait = (3..3 + held).map(|n| bench.hold(&format!("s{n}"), &tokens(n, 640)));
    let wait = wait.collect();
    (bench, run, wait)
}

impl Bench {
    fn hold_ends(&self, end: HoldEnd) -> u64 {
        self.scheduler.tally().hold_ends[end as usize]
    }
}

#[test]
fn held_turns_that_nobody_is_left_to_take_have_ended() {
    for health in [
        Health::Down,
        Health::Draining,
        Health::Limited,
        Health::Removed,
    ] {
        for admission in [
            AdmissionConfig::None,
            AdmissionConfig::Lease(crate::admission::LeaseConfig::default()),
            AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
        ] {
            let config = Config {
                admission,
                ..one_at_a_time()
            };
            let (mut bench, run, wait) = bench(config, 7);
            for worker in [A, B] {
                bench.health(worker, health);
            }
            for id in run {
                bench.complete(id, &Completion::default());
            }
            assert_eq!(bench.hold_ends(HoldEnd::NoWorker), wait.len() as u64);
            let counters = bench.scheduler.status().counters;
            let ended = (counters.submitted, counters.completed, counters.cancelled);
            assert_eq!(ended, (9, 2, 7), "{health:?}");
            bench.assert_empty();
        }
    }
}

#[test]
fn a_hold_that_is_closed_is_told_from_one_that_is_cancelled() {
    let (mut bench, run, wait) = bench(one_at_a_time(), 3);
    bench
        .scheduler
        .close_turn(bench.now, wait[0], &mut bench.settled);
    bench
        .scheduler
        .cancel(bench.now, wait[1], &mut bench.settled);
    assert_eq!(bench.hold_ends(HoldEnd::Closed), 1);
    assert_eq!(bench.hold_ends(HoldEnd::Cancelled), 1);
    bench.scheduler.close(bench.now, &mut bench.settled);
    assert_eq!(bench.hold_ends(HoldEnd::Closed), 2);
    assert_eq!(bench.scheduler.status().counters.cancelled, 3);
    for id in run {
        bench.complete(id, &Completion::default());
    }
    bench.assert_empty();
}

/// What a session does, or the clock.
enum Step {
    Asks(u32, u32),
    Ends(usize, bool),
    Tick,
}

#[test]
fn a_branch_that_is_over_is_not_counted_a_second_time() {
    use Step::*;
    let policy = ThunderAgentConfig {
        interval: Micros::from_millis(100),
        ..ThunderAgentConfig::default()
    };
    let mut bench = Bench::new(AdmissionConfig::ThunderAgent(policy), Some(3_000));
    let mut run = Vec::new();
    for step in [
        Asks(0, 2_500),
        Asks(1, 2_500),
        Asks(2, 2_000),
        Asks(2, 1_000),
        Asks(1, 2_000),
        Ends(3, false),
        Ends(1, false),
        Ends(8, true),
        Ends(4, true),
        Tick,
        Ends(1, false),
        Asks(1, 500),
        Asks(1, 1_500),
        Ends(2, true),
        Asks(0, 2_000),
        Ends(0, false),
        Asks(1, 1_000),
        Tick,
        Ends(3, false),
    ] {
        match step {
            Asks(session, length) => {
                let name = format!("s{session}");
                let prompt = tokens(session, length);
                let submitted = bench.submit(&turn(&name, &prompt)).unwrap();
                if let Verdict::Go(_) = submitted.verdict {
                    run.push(submitted.reservation);
                }
            }
            Ends(n, calls_tools) if !run.is_empty() => {
                let id = run.remove(n % run.len());
                let phase = match calls_tools {
                    true => Phase::Acting,
                    false => Phase::Reasoning,
                };
                let end = Completion {
                    phase: Some(phase),
                    ..Completion::default()
                };
                bench.complete(id, &end);
            }
            Ends(..) => {}
            Tick => {
                bench.now = bench.now.plus(Micros::from_millis(150));
                bench.scheduler.advance(bench.now, &mut bench.settled);
            }
        }
        for settled in std::mem::take(&mut bench.settled) {
            if let Outcome::Go(_) = settled.outcome {
                run.push(settled.reservation);
            }
        }
        let [pauses, _] = bench.scheduler.tally().churn;
        assert!(pauses[0] <= bench.scheduler.branches_so_far(), "{pauses:?}");
    }
}
