//! Turns that wait for the one that computes the beginning they share.
use super::*;
use crate::admission::LeaseConfig;
use crate::receipt::{FollowEnd, Followed};

const MIN: u32 = 1_024;

fn with_fan_out() -> Config {
    Config {
        fan_out: Some(FanOutConfig {
            max_wait: Micros::from_secs(10),
            min_tokens: MIN,
        }),
        ..Config::default()
    }
}

fn bench() -> Bench {
    Bench::with(with_fan_out(), None)
}

/// A long beginning that all of one `seed` share, and an ending of its own.
fn prompt(seed: u32, own: u32) -> Vec<u32> {
    [tokens(seed, 6_400), tokens(100 + own, 320)].concat()
}

impl Bench {
    fn first_token(&mut self, id: ReservationId) {
        self.now = self.now.plus(Micros::from_millis(1));
        self.scheduler.first_token(self.now, id, &mut self.settled);
    }

    fn cancel(&mut self, id: ReservationId) {
        self.scheduler.cancel(self.now, id, &mut self.settled);
    }

    /// What has settled since the last look, with where it went.
    fn gone(&mut self) -> Vec<(ReservationId, Option<WorkerId>)> {
        let settled = std::mem::take(&mut self.settled).into_iter();
        let went = settled.map(|settled| match settled.outcome {
            Outcome::Go(placement) => (settled.reservation, Some(placement.worker)),
            _ => (settled.reservation, None),
        });
        went.collect()
    }

    fn followed(&self, id: ReservationId) -> Option<Followed> {
        self.scheduler.reservations.get(id).unwrap().wait.followed
    }
}

#[test]
fn siblings_wait_for_the_leaders_first_token_and_then_read_what_it_has() {
    let mut bench = bench();
    let (leader, placed) = bench.go("a", &prompt(1, 1));
    let followers = [
        bench.hold("b", &prompt(1, 2)),
        bench.hold("c", &prompt(1, 3)),
    ];
    // Another beginning is no business of theirs, nor is a short one.
    bench.go("d", &prompt(2, 4));
    bench.go("e", &prompt(1, 5)[..960]);
    for (place, &id) in (1..).zip(&followers) {
        assert_eq!(bench.scheduler.hold_position(id), Some(place));
    }
    assert_eq!(bench.gone(), []);
    bench.first_token(leader);
    let there = Some(placed.worker);
    assert_eq!(bench.gone(), followers.map(|id| (id, there)));
    for id in followers {
        let expected = Followed {
            leader,
            tokens: 6_400,
            ended: FollowEnd::Read,
        };
        assert_eq!(bench.followed(id), Some(expected));
    }
    // What is there now needs no leader.
    let (_, late) = bench.go("f", &prompt(1, 6));
    assert_eq!(late.predicted_cached_tokens, 6_400);
}

#[test]
fn an_answer_without_a_first_token_lets_them_go_too() {
    let mut bench = bench();
    let (leader, placed) = bench.go("a", &prompt(1, 1));
    let follower = bench.hold("b", &prompt(1, 2));
    bench.complete(leader, &Completion::default());
    assert_eq!(bench.gone(), [(follower, Some(placed.worker))]);
}

#[test]
fn when_the_leader_fails_the_next_one_leads() {
    let mut bench = bench();
    let (leader, _) = bench.go("a", &prompt(1, 1));
    let [b, c, d] =
        ["b", "c", "d"].map(|name| bench.hold(name, &prompt(1, name.as_bytes()[0].into())));
    bench.cancel(leader);
    let gone = bench.gone();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(gone[0].0, b);
    assert_eq!(bench.followed(b).unwrap().ended, FollowEnd::Failed);
    assert_eq!(bench.followed(c).unwrap().leader, b);
    bench.cancel(c);
    bench.first_token(b);
    assert_eq!(bench.gone(), [(d, gone[0].1)]);
    for id in [b, d] {
        bench.complete(id, &Completion::default());
    }
    bench.assert_empty();
}

#[test]
fn nobody_waits_longer_than_the_limit_through_all_leaders() {
    let mut bench = bench();
    let (leader, _) = bench.go("a", &prompt(1, 1));
    let [b, c] = ["b", "c"].map(|name| bench.hold(name, &prompt(1, name.as_bytes()[0].into())));
    bench.after(6);
    bench.cancel(leader);
    assert_eq!(bench.gone().len(), 1);
    assert!(bench.scheduler.next_wake().is_some());
    bench.after(4);
    assert_eq!(
        bench.gone().iter().map(|gone| gone.0).collect::<Vec<_>>(),
        [c]
    );
    assert_eq!(bench.followed(c).unwrap().ended, FollowEnd::Late);
    assert!(bench.scheduler.next_wake().is_none());
    // The second leader's token finds nobody.
    bench.first_token(b);
    assert_eq!(bench.gone(), []);
}

#[test]
fn a_leader_that_moves_to_another_worker_leads_on_and_one_that_leaves_the_group_does_not() {
    let mut bench = bench();
    let (leader, first) = bench.go("a", &prompt(1, 1));
    let follower = bench.hold("b", &prompt(1, 2));
    let moved = bench
        .scheduler
        .reroute(bench.now, leader, Fault::Passing, &mut bench.settled)
        .unwrap();
    assert_ne!(moved.worker, first.worker);
    assert_eq!(bench.gone(), []);
    bench.first_token(leader);
    assert_eq!(bench.gone(), [(follower, Some(moved.worker))]);

    let (mut bench, second, _) = two_targets(self::bench());
    bench.health(B, Health::Down);
    let both = [TargetId(0), second];
    let first = prompt(1, 1);
    let asked = Turn {
        targets: &both,
        ..turn("a", &first)
    };
    let leader = bench.submit(&asked).unwrap().reservation;
    let follower = bench.hold("b", &prompt(1, 2));
    bench
        .scheduler
        .reroute(bench.now, leader, Fault::Passing, &mut bench.settled)
        .unwrap();
    assert_eq!(bench.gone(), [(follower, Some(A))]);
    assert_eq!(bench.followed(follower).unwrap().ended, FollowEnd::Failed);
}

#[test]
fn where_the_beginning_is_warm_elsewhere_nobody_waits() {
    let mut bench = bench();
    let (id, first) = bench.go("a", &prompt(1, 1));
    bench.complete(id, &Completion::default());
    bench.health(first.worker, Health::Down);
    let (_, second) = bench.go("b", &prompt(1, 2));
    assert_ne!(second.worker, first.worker);
    bench.health(first.worker, Health::Up);
    // "b" computes it, but the first worker has it already.
    assert_eq!(bench.go("c", &prompt(1, 3)).1.worker, first.worker);
}

#[test]
fn a_lost_worker_settles_the_leader_s_followers_once() {
    let mut bench = bench();
    bench.health(B, Health::Down);
    let (leader, _) = bench.go("a", &prompt(1, 1));
    let follower = bench.hold("b", &prompt(1, 2));
    bench.health(A, Health::Removed);
    assert_eq!(bench.gone(), [(follower, None)]);
    bench.cancel(leader);
    assert_eq!(bench.gone(), []);
    bench.scheduler.close(bench.now, &mut bench.settled);
    assert_eq!(bench.gone(), []);
}

#[test]
fn followers_that_go_on_are_admissions_business() {
    let config = Config {
        admission: AdmissionConfig::Lease(LeaseConfig::default()),
        ..with_fan_out()
    };
    let mut bench = Bench::with(config, Some(8_000));
    let (leader, _) = bench.go("a", &prompt(1, 1));
    let ids: Vec<_> = (2..6)
        .map(|n| bench.hold(&format!("s{n}"), &prompt(1, n)))
        .collect();
    bench.first_token(leader);
    let gone = bench.gone();
    // Only so many endings fit beside the shared beginning on one worker of 8,000 tokens.
    assert!(
        !gone.is_empty() && gone.iter().all(|(_, worker)| worker.is_some()),
        "{gone:?}"
    );
    let mut ended = vec![leader];
    bench.complete(leader, &Completion::default());
    let mut went: Vec<_> = gone.into_iter().map(|(id, _)| id).collect();
    while let Some(id) = went.pop() {
        bench.complete(id, &Completion::default());
        ended.push(id);
        went.extend(bench.gone().into_iter().map(|(id, _)| id));
    }
    went.extend(bench.gone().into_iter().map(|(id, _)| id));
    ended.sort_unstable();
    let mut all = ids;
    all.insert(0, leader);
    assert_eq!(ended, all);
    bench.assert_empty();
}

#[test]
fn a_leader_in_another_namespace_is_none() {
    let mut bench = bench();
    let shared = prompt(1, 1);
    bench.go("a", &shared);
    let salted = Turn {
        cache_salt: b"pepper",
        ..turn("b", &shared)
    };
    assert!(matches!(
        bench.submit(&salted).unwrap().verdict,
        Verdict::Go(_)
    ));
}

#[test]
fn a_minimum_of_nothing_is_refused() {
    let config = Config {
        fan_out: Some(FanOutConfig {
            min_tokens: 0,
            ..FanOutConfig::default()
        }),
        ..Config::default()
    };
    assert_eq!(
        Scheduler::new(config).map_err(|e| e.code()).err(),
        Some("INVALID_ARGUMENT")
    );
}

#[test]
fn nobody_waits_for_a_leader_whose_worker_takes_no_others() {
    let ways: [fn(&mut Bench, WorkerId); 5] = [
        |bench, worker| bench.health(worker, Health::Down),
        |bench, worker| bench.health(worker, Health::Limited),
        |bench, worker| bench.health(worker, Health::Draining),
        |bench, worker| bench.health(worker, Health::Removed),
        |bench, worker| {
            let until = bench.now.plus(Micros::from_secs(60));
            let (core, settled) = (&mut bench.scheduler, &mut bench.settled);
            core.depart(bench.now, worker, Departure::Drain, until, settled)
                .unwrap();
        },
    ];
    for way in ways {
        let mut bench = bench();
        let (leader, placed) = bench.go("a", &prompt(1, 1));
        let [b, c] = [2, 3].map(|n| bench.hold(&format!("s{n}"), &prompt(1, n)));
        way(&mut bench, placed.worker);
        let elsewhere = Some(WorkerId(1 - placed.worker.0));
        // The first leads where others may follow.
        assert_eq!(bench.gone(), [(b, elsewhere)]);
        assert_eq!(bench.followed(b).unwrap().ended, FollowEnd::Failed);
        assert_eq!(bench.followed(c).unwrap().leader, b);
        bench.first_token(leader);
        assert_eq!(bench.gone(), []);
        bench.first_token(b);
        assert_eq!(bench.gone(), [(c, elsewhere)]);
        for id in [leader, b, c] {
            bench.complete(id, &Completion::default());
        }
        bench.assert_empty();
    }
}
