//! A worker that the policy names, and that runs as many turns as it may while others are open.
use super::*;
use crate::admission::GateConfig;
use crate::receipt::HoldReason;

const CAPACITY: u64 = 50_000;

fn gated(max_sessions: Option<u32>) -> Bench {
    let config = Config {
        admission: AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
        gates: GateConfig {
            max_running: Some(1),
            max_sessions,
            ..GateConfig::default()
        },
        ..Config::default()
    };
    Bench::with(config, Some(CAPACITY))
}

impl Bench {
    /// A turn of another session runs there.
    fn occupy(&mut self, worker: WorkerId, session: &str) -> ReservationId {
        let prompt = tokens(90, 64);
        let pinned = Turn {
            pin: Some(worker),
            ..turn(session, &prompt)
        };
        let submitted = self.submit(&pinned).unwrap();
        assert!(matches!(submitted.verdict, Verdict::Go(p) if p.worker == worker));
        submitted.reservation
    }

    fn charge(&self, worker: WorkerId) -> u64 {
        self.scheduler.admission(GroupId(0)).unwrap().used(worker)
    }

    fn goes_to(&mut self, turn: ReservationId, worker: WorkerId) {
        let settled = std::mem::take(&mut self.settled);
        let went: Vec<_> = settled.iter().map(|s| s.reservation).collect();
        assert_eq!(went, [turn]);
        assert!(matches!(settled[0].outcome, Outcome::Go(p) if p.worker == worker));
    }
}

#[test]
fn a_session_waits_for_the_worker_that_has_its_context() {
    for max_sessions in [None, Some(9)] {
        let mut bench = gated(max_sessions);
        let (id, first) = bench.go("s", &tokens(1, 6_400));
        let home = first.worker;
        bench.complete(id, &used_tools());
        let fill = bench.occupy(home, "t");
        let own = bench.hold("s", &tokens(1, 7_040));
        let held = bench.scheduler.held(own).unwrap();
        assert_eq!((held.place, held.why), (1, HoldReason::MaxRunning));
        // Others go to the open one meanwhile.
        let (_, newcomer) = bench.go("u", &tokens(3, 640));
        assert_eq!(newcomer.worker, other(home));
        bench.complete(fill, &Completion::default());
        bench.goes_to(own, home);
    }
}

#[test]
fn a_newcomer_is_given_another_worker_with_room() {
    let mut bench = gated(None);
    let (id, first) = bench.go("s", &tokens(1, 6_400));
    let roomy = other(first.worker);
    bench.complete(id, &used_tools());
    bench.occupy(roomy, "t");
    // The least charged one is full by count.
    assert!(bench.charge(roomy) < bench.charge(first.worker));
    let (_, newcomer) = bench.go("u", &tokens(3, 640));
    assert_eq!(newcomer.worker, first.worker);
}

#[test]
fn a_newcomer_without_room_elsewhere_waits_for_the_worker_that_has_it() {
    let mut bench = gated(None);
    let (id, first) = bench.go("s", &tokens(1, 44_800));
    let roomy = other(first.worker);
    bench.complete(id, &used_tools());
    let fill = bench.occupy(roomy, "t");
    let newcomer = bench.hold("u", &tokens(3, 6_400));
    let before = bench.charge(first.worker);
    bench.complete(fill, &Completion::default());
    bench.goes_to(newcomer, roomy);
    assert!(bench.charge(first.worker) <= before && before < CAPACITY);
}

#[test]
fn whoever_waits_for_a_worker_that_leaves_goes_elsewhere() {
    let mut bench = gated(None);
    let (id, first) = bench.go("s", &tokens(1, 6_400));
    bench.complete(id, &used_tools());
    bench.occupy(first.worker, "t");
    let own = bench.hold("s", &tokens(1, 7_040));
    bench.health(first.worker, Health::Removed);
    bench.goes_to(own, other(first.worker));
}
