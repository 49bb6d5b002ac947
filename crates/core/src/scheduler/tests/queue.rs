//! In which order turns pass the gates, and what is told of them.
use super::*;
use crate::admission::{ClassConfig, GateConfig, Order, QueueConfig};

fn ordered(queue: QueueConfig) -> Bench {
    let config = Config {
        gates: GateConfig {
            max_running: Some(1),
            ..GateConfig::default()
        },
        queue,
        ..Config::default()
    };
    Bench::with(config, None)
}

fn of_order(order: Order) -> QueueConfig {
    QueueConfig {
        order,
        ..QueueConfig::default()
    }
}

impl Bench {
    /// Ends the turn and whoever goes for it, one after the other; who went, in that order.
    fn drain_from(&mut self, first: ReservationId) -> Vec<ReservationId> {
        let mut ended = vec![first];
        let mut next = first;
        loop {
            self.complete(next, &Completion::default());
            let Some(settled) = self.settled.pop() else {
                ended.remove(0);
                return ended;
            };
            next = settled.reservation;
            ended.push(next);
        }
    }
}

#[test]
fn turns_go_in_the_order_that_was_asked_for() {
    let wanted = [
        (Order::Fcfs, [0, 1, 2]),
        (Order::Wspt, [1, 2, 0]),
        (Order::Lcfs, [2, 1, 0]),
    ];
    for (order, wanted) in wanted {
        let mut bench = ordered(of_order(order));
        let (at_one, _) = bench.go("r", &tokens(1, 640));
        bench.go("s", &tokens(2, 640));
        let sizes = [(3, 6_400), (4, 640), (5, 3_200)];
        let held = sizes.map(|(n, size)| bench.hold(&format!("s{n}"), &tokens(n, size)));
        let place = |id| bench.scheduler.hold_position(id).unwrap();
        let places = held.map(place);
        for (at, &n) in wanted.iter().enumerate() {
            assert_eq!(places[n], at + 1, "{order:?}");
        }
        let went = bench.drain_from(at_one);
        assert_eq!(went, wanted.map(|n| held[n]), "{order:?}");
    }
}

/// A prompt that was cached when it came need not be any more.
#[test]
fn what_has_to_be_computed_is_looked_at_again_before_a_turn_goes() {
    for (seconds, goes) in [(9, 0), (11, 1)] {
        let mut bench = ordered(of_order(Order::Wspt));
        let (warm, placed) = bench.go("w", &tokens(3, 3_200));
        bench.complete(warm, &Completion::default());
        let (at_one, _) = bench.go("r", &tokens(1, 640));
        bench.go("s", &tokens(2, 640));
        let held = [
            bench.hold("w", &tokens(3, 3_840)),
            bench.hold("x", &tokens(4, 1_280)),
        ];
        assert_eq!(bench.scheduler.hold_position(held[0]), Some(1));
        bench.after(seconds);
        bench
            .scheduler
            .reset_cache(bench.now, placed.worker)
            .unwrap();
        bench.complete(at_one, &Completion::default());
        let went: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
        assert_eq!(went, [held[goes]], "{seconds} s");
    }
}

#[test]
fn a_turn_of_a_full_class_is_refused_and_leaves_nothing() {
    let class = |name: &str, max_tokens| ClassConfig {
        name: name.to_owned(),
        max_waiting: Some(1),
        max_tokens,
        ..ClassConfig::default()
    };
    let mut bench = ordered(QueueConfig {
        classes: vec![class("short", Some(1_000)), class("long", None)],
        ..QueueConfig::default()
    });
    let (at_one, _) = bench.go("r", &tokens(1, 640));
    let (at_other, _) = bench.go("s", &tokens(2, 640));
    let short = bench.hold("t", &tokens(3, 640));
    let refused = bench.submit(&turn("u", &tokens(4, 640))).unwrap_err();
    assert_eq!(refused.code(), "QUEUE_FULL");
    let long = bench.hold("v", &tokens(5, 6_400));
    let told = [short, long].map(|id| {
        let held = bench.scheduler.held(id).unwrap();
        (held.class, held.place)
    });
    assert_eq!(told, [(Some(0), 1), (Some(1), 1)]);
    let classes = bench.scheduler.queue_classes();
    let states = classes.iter().map(|c| (c.name, c.waiting, c.refused));
    let states: Vec<_> = states.collect();
    assert_eq!(states, [("short", 1, 1), ("long", 1, 0)]);
    assert_eq!(bench.scheduler.status().reservations, 4);
    // What comes when there is room again is taken in.
    bench.complete(at_one, &Completion::default());
    let again = bench.hold("u", &tokens(4, 640));
    for id in [at_other, short, long, again] {
        bench.complete(id, &Completion::default());
    }
    bench.assert_empty();
}

/// A class that seldom goes is not told the pace of one that goes all the time.
#[test]
fn a_turn_is_told_the_pace_of_its_own_class() {
    let class = |name: &str, max_tokens| ClassConfig {
        name: name.into(),
        max_tokens,
        ..ClassConfig::default()
    };
    let mut bench = ordered(QueueConfig {
        classes: vec![class("short", Some(1_000)), class("rest", None)],
        ..QueueConfig::default()
    });
    let (mut running, _) = bench.go("r", &tokens(1, 640));
    bench.go("s", &tokens(3, 640));
    let long = bench.hold("long", &tokens(2, 64_000));
    for n in 0..6 {
        let short = bench.hold(&format!("s{n}"), &tokens(10 + n, 640));
        bench.after(1);
        bench.complete(running, &Completion::default());
        let settled = bench.settled.pop().unwrap();
        assert_eq!(settled.reservation, short);
        running = short;
    }
    let short = bench.hold("short", &tokens(40, 640));
    let held = |bench: &Bench, id| bench.scheduler.held(id).unwrap();
    let told = |bench: &Bench, id| held(bench, id).expected;
    assert_eq!(held(&bench, long).class, Some(1));
    assert_eq!(told(&bench, long), None, "nobody of its class has gone");
    let soon = told(&bench, short).unwrap();
    assert!(soon < Micros::from_secs(2), "{soon:?}");
    bench.after(30);
    let stuck = told(&bench, short).unwrap();
    assert!(stuck >= Micros::from_secs(28), "{stuck:?}");
}
