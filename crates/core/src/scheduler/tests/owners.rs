//! Locks whose owner cannot take the turn: every setting, whatever has become of the owner.
use super::models::{ALL, LARGE, MIDDLE, SMALL, asking, bench};
use super::*;
use crate::continuity::{Breach, LockNote, PolicyConfig};

/// The worker of the middle target, which owns what the turns lean on.
const OWNER: WorkerId = WorkerId(1);
const STATE: Ids<'static> = Ids {
    bytes: b"response:r1",
    lengths: &[11],
};

/// The middle model has made a call and keeps a response; sessions are asked to go to the large one.
fn owned(when_down: WhenDown) -> Bench {
    let mut bench = bench(ContinuityConfig {
        policy: PolicyConfig::SingleTurn,
        tool_owner_down: when_down,
        state_owner_down: when_down,
        ..ContinuityConfig::default()
    });
    let called = Completion {
        tool_calls: CALL,
        state: STATE,
        ..used_tools()
    };
    bench.ask_and(&asking("s", &tokens(1, 640), MIDDLE), &called);
    bench
}

/// A turn of the session that leans on one of the two, or on both.
fn leaning<'a>(prompt: &'a [u32], lock: Lock) -> Turn<'a> {
    let mut turn = asking("s", prompt, LARGE);
    if lock != Lock::ProviderState {
        turn.tool_results = CALL;
    }
    if lock != Lock::ToolLoop {
        turn.state = STATE;
    }
    turn
}

const LOCKS: [Lock; 3] = [Lock::ToolLoop, Lock::ProviderState, Lock::Both];

impl Bench {
    fn note(&self, placement: &Placement) -> LockNote {
        self.scheduler.receipt(placement.receipt).unwrap().lock
    }

    fn settled_go(&mut self) -> Placement {
        match std::mem::take(&mut self.settled).as_slice() {
            [
                Settled {
                    outcome: Outcome::Go(placement),
                    ..
                },
            ] => *placement,
            other => panic!("{other:?}"),
        }
    }
}

fn outcomes(bench: &Bench) -> Vec<(ReservationId, Outcome)> {
    let settled = bench.settled.iter();
    settled.map(|s| (s.reservation, s.outcome)).collect()
}

#[test]
fn a_turn_waits_for_its_owner_and_goes_to_it_when_it_is_back() {
    for lock in LOCKS {
        for health in [Health::Down, Health::Draining, Health::Limited] {
            let mut bench = owned(WhenDown::Wait);
            bench.health(OWNER, health);
            let prompt = tokens(1, 1_280);
            let submitted = bench.submit(&leaning(&prompt, lock)).unwrap();
            assert_eq!(submitted.verdict, Verdict::Hold);
            assert_eq!((submitted.lock, bench.scheduler.status().holds), (lock, 1));
            bench.after(29);
            assert!(bench.settled.is_empty(), "{:?}", bench.settled);
            bench.health(OWNER, Health::Up);
            let placement = bench.settled_go();
            assert_eq!((placement.target, placement.worker), (MIDDLE, OWNER));
            assert_eq!(bench.note(&placement).breach, Breach::Kept);
            bench.complete(submitted.reservation, &Completion::default());
            bench.after(2);
            assert_eq!(bench.scheduler.next_wake(), None, "its time is forgotten");
        }
    }
}

#[test]
fn a_wait_ends_at_its_bound_with_the_owner_or_with_the_turn() {
    let prompt = tokens(1, 1_280);
    let waiting = |lock| {
        let mut bench = owned(WhenDown::Wait);
        bench.health(OWNER, Health::Down);
        let id = bench.submit(&leaning(&prompt, lock)).unwrap().reservation;
        (bench, id)
    };
    for lock in LOCKS {
        let (mut late, id) = waiting(lock);
        late.after(31);
        assert_eq!(outcomes(&late), [(id, Outcome::OwnerUnavailable)]);
        let (mut gone, id) = waiting(lock);
        gone.health(OWNER, Health::Removed);
        assert_eq!(outcomes(&gone), [(id, Outcome::StateLost)]);
        let (mut left, id) = waiting(lock);
        left.scheduler.cancel(left.now, id, &mut left.settled);
        left.health(OWNER, Health::Up);
        left.after(31);
        assert_eq!(outcomes(&left), []);
        let (mut closed, id) = waiting(lock);
        closed.scheduler.close(closed.now, &mut closed.settled);
        assert_eq!(outcomes(&closed), [(id, Outcome::Closed)]);
        for bench in [late, gone, left, closed] {
            let status = bench.scheduler.status();
            assert_eq!((status.reservations, status.holds), (0, 0));
        }
    }
}

#[test]
fn whoever_waits_longest_is_refused_first_and_others_wait_on() {
    let mut bench = owned(WhenDown::Wait);
    bench.health(OWNER, Health::Down);
    let prompt = tokens(1, 1_280);
    let ids = [(); 3].map(|()| {
        bench.after(5);
        let turn = leaning(&prompt, Lock::ToolLoop);
        bench.submit(&turn).unwrap().reservation
    });
    bench.after(21);
    assert_eq!(outcomes(&bench), [(ids[0], Outcome::OwnerUnavailable)]);
    bench.settled.clear();
    bench.health(OWNER, Health::Up);
    let went: Vec<_> = bench.settled.iter().map(|s| s.reservation).collect();
    assert_eq!(went, ids[1..]);
}

#[test]
fn a_removed_owner_is_another_error_than_one_that_is_down() {
    for when_down in [WhenDown::Fail, WhenDown::Strip] {
        for lock in LOCKS {
            for (health, code) in [
                (Health::Down, "OWNER_UNAVAILABLE"),
                (Health::Limited, "OWNER_UNAVAILABLE"),
                (Health::Removed, "STATE_LOST"),
            ] {
                let mut bench = owned(when_down);
                bench.health(OWNER, health);
                let prompt = tokens(1, 1_280);
                let refused = bench.submit(&leaning(&prompt, lock)).unwrap_err();
                assert_eq!(refused.code(), code, "{when_down:?} {lock:?} {health:?}");
            }
        }
    }
    let mut bench = owned(WhenDown::Wait);
    bench.health(OWNER, Health::Removed);
    let prompt = tokens(1, 1_280);
    let refused = bench.submit(&leaning(&prompt, Lock::Both)).unwrap_err();
    assert_eq!(refused.code(), "STATE_LOST");
}

#[test]
fn a_broken_lock_is_written_down() {
    for (when_down, breach) in [
        (WhenDown::Strip, Breach::Stripped),
        (WhenDown::Escape, Breach::Escaped),
    ] {
        for lock in LOCKS {
            for health in [Health::Down, Health::Removed] {
                let mut bench = owned(when_down);
                bench.health(OWNER, health);
                let prompt = tokens(1, 1_280);
                let mut turn = leaning(&prompt, lock);
                turn.ask.can_strip = true;
                let submitted = bench.submit(&turn).unwrap();
                let Verdict::Go(placement) = submitted.verdict else {
                    panic!("held");
                };
                assert_eq!((placement.target, placement.breach), (LARGE, breach));
                let note = bench.note(&placement);
                let locks = if lock == Lock::Both { 2 } else { 1 };
                assert_eq!((note.breach, note.passed_over), (breach, locks));
            }
        }
    }
}

#[test]
fn a_turn_that_its_owner_fails_leaves_it_only_where_the_setting_says_so() {
    for (when_down, can_strip, expected) in [
        (WhenDown::Wait, true, None),
        (WhenDown::Fail, true, None),
        (WhenDown::Strip, false, None),
        (WhenDown::Strip, true, Some(Breach::Stripped)),
        (WhenDown::Escape, false, Some(Breach::Escaped)),
    ] {
        for lock in LOCKS {
            let mut bench = owned(when_down);
            let prompt = tokens(1, 1_280);
            let mut turn = leaning(&prompt, lock);
            turn.ask.can_strip = can_strip;
            let id = bench.submit(&turn).unwrap().reservation;
            let moved = bench
                .scheduler
                .reroute(bench.now, id, Fault::Passing, &mut bench.settled);
            let moved = moved.ok().map(|placement| {
                assert_eq!(placement.target, SMALL, "the next of {ALL:?}");
                assert_eq!(bench.note(&placement).breach, placement.breach);
                placement.breach
            });
            assert_eq!(moved, expected, "{when_down:?} {lock:?}");
            bench.complete(id, &Completion::default());
            assert_eq!(bench.scheduler.status().reservations, 0);
        }
    }
}

#[test]
fn only_a_lasting_fault_takes_the_session_along() {
    for (policy, fault, after) in [
        (PolicyConfig::Bound, Fault::Passing, SMALL),
        (PolicyConfig::Bound, Fault::Lasting, MIDDLE),
        (PolicyConfig::Sticky, Fault::Passing, SMALL),
        (PolicyConfig::Sticky, Fault::Lasting, MIDDLE),
    ] {
        let mut bench = bench(ContinuityConfig {
            policy,
            ..ContinuityConfig::default()
        });
        let prompt = tokens(1, 1_920);
        let ask = |bench: &mut Bench, n: usize| bench.ask(&asking("s", &prompt[..n], SMALL)).0;
        assert_eq!(ask(&mut bench, 640), SMALL);
        let second = asking("s", &prompt[..1_280], SMALL);
        let id = bench.submit(&second).unwrap().reservation;
        let moved = bench
            .scheduler
            .reroute(bench.now, id, fault, &mut bench.settled)
            .unwrap();
        assert_eq!(moved.target, MIDDLE);
        bench.complete(id, &Completion::default());
        assert_eq!(ask(&mut bench, 1_920), after, "{policy:?} {fault:?}");
    }
}

#[test]
fn sessions_come_back_after_an_outage_and_stay_away_after_a_limit() {
    for (health, after) in [
        (Health::Down, SMALL),
        (Health::Draining, SMALL),
        (Health::Limited, MIDDLE),
    ] {
        let mut bench = bench(ContinuityConfig {
            policy: PolicyConfig::Bound,
            ..ContinuityConfig::default()
        });
        let prompt = tokens(1, 1_920);
        let ask = |bench: &mut Bench, n: usize| bench.ask(&asking("s", &prompt[..n], SMALL)).0;
        assert_eq!(ask(&mut bench, 640), SMALL);
        bench.health(A, health);
        assert_eq!(ask(&mut bench, 1_280), MIDDLE);
        bench.health(A, Health::Up);
        assert_eq!(ask(&mut bench, 1_920), after, "{health:?}");
        // Whoever is new takes what is first.
        assert_eq!(bench.ask(&asking("new", &tokens(9, 640), SMALL)).0, SMALL);
    }
}
