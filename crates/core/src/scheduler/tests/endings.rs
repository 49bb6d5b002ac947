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
