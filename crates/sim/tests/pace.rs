//! When turns of a replay start, and in which order those of one time do.
use std::num::NonZeroU32;

use warmpath_core::Micros;
use warmpath_sim::Nanos;
use warmpath_sim::fleet::{FleetConfig, Load, simulate};
use warmpath_sim::router::{Answer, Offer, Presence, RoundRobin, Router, Settled, Usage};
use warmpath_trace::{Moment, NewStart, NewTurn, Next, Wait, Workload, WorkloadBuilder};

/// Round robin that writes down who came when, in whole milliseconds.
struct Witness {
    router: RoundRobin,
    seen: Vec<(String, u64)>,
}

impl Router for Witness {
    fn label(&self) -> String {
        self.router.label()
    }

    fn submit(&mut self, now: Nanos, offer: &Offer<'_>, settled: &mut Vec<Settled>) -> Answer {
        self.seen.push((offer.session.to_owned(), now / 1_000_000));
        self.router.submit(now, offer, settled)
    }

    fn complete(&mut self, now: Nanos, turn: u64, usage: &Usage, settled: &mut Vec<Settled>) {
        self.router.complete(now, turn, usage, settled);
    }

    fn cancel(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) {
        self.router.cancel(now, turn, settled);
    }

    fn reroute(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) -> Option<u32> {
        self.router.reroute(now, turn, settled)
    }

    fn set_presence(
        &mut self,
        now: Nanos,
        worker: u32,
        presence: Presence,
        settled: &mut Vec<Settled>,
    ) {
        self.router.set_presence(now, worker, presence, settled);
    }
}

fn turn(session: u32, start: NewStart<'_>) -> NewTurn<'_> {
    NewTurn {
        session,
        input_tokens: 100,
        output_tokens: 1,
        next: Next::Tool,
        blocks: &[],
        start,
    }
}

/// Two sessions of two turns each: the second turn a second after the first has ended, and in the
/// trace at 90 s. The turns of the second session stand first.
fn workload() -> Workload {
    let mut builder = WorkloadBuilder::new(NonZeroU32::new(64).expect("not 0"));
    let sessions = ["a", "b"].map(|name| builder.add_session(name, None).expect("new"));
    for &session in sessions.iter().rev() {
        let first = turn(session, NewStart::At(Micros(0)));
        let first = builder.add_turn(&first).expect("a turn");
        let waits = [Wait {
            turn: first,
            moment: Moment::End,
            delay: Micros::from_secs(1),
        }];
        let at = Micros::from_secs(90);
        let second = turn(session, NewStart::AfterNotBefore(&waits, at));
        builder.add_turn(&second).expect("a turn");
    }
    builder.finish()
}

fn replay(load: Load) -> Vec<(String, u64)> {
    let config = FleetConfig {
        load,
        ..FleetConfig::default()
    };
    let mut witness = Witness {
        router: RoundRobin::new(config.workers),
        seen: Vec::new(),
    };
    simulate(&workload(), &config, &mut witness).expect("a fleet");
    witness.seen
}

#[test]
fn a_replay_keeps_the_times_of_the_trace_only_if_asked_to() {
    let names = |seen: &[(String, u64)]| -> Vec<String> {
        seen.iter().map(|(name, _)| name.clone()).collect()
    };
    let (free, recorded) = (replay(Load::Replay), replay(Load::Recorded));
    for seen in [&free, &recorded] {
        assert_eq!(
            names(seen),
            ["a", "b", "a", "b"],
            "in the order of the sessions"
        );
        assert_eq!((seen[0].1, seen[1].1), (0, 0));
    }
    assert!(free[2..].iter().all(|(_, at)| (1_001..1_100).contains(at)));
    assert!(recorded[2..].iter().all(|(_, at)| *at == 90_000));
}
