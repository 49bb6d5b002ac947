//! Choices compared whole.
use super::super::{IdKind, Owners};
use super::*;

/// As asked of a scheduler whose locks wait for nobody.
fn choose(
    asked: &[TargetId],
    evidence: Evidence,
    binding: Option<TargetId>,
    fleet: &Down,
) -> Result<Choice> {
    let Some(owner) = evidence.owner() else {
        return choose_free(asked, evidence, binding, fleet);
    };
    let presence = fleet.presence(owner.target, owner.pin);
    match obey(owner, presence, WhenDown::Fail, false, "t")? {
        Obeyed::Kept(choice) => Ok(choice),
        Obeyed::Broken(breach) => panic!("{breach:?}"),
    }
}

const A: TargetId = TargetId(0);
const B: TargetId = TargetId(1);

/// A fleet in which the listed targets are down, and so is worker 9.
struct Down(&'static [TargetId]);

impl Fleet for Down {
    fn can_serve(&self, target: TargetId) -> bool {
        !self.0.contains(&target)
    }
    fn presence(&self, target: TargetId, pin: Option<WorkerId>) -> Presence {
        match self.can_serve(target) && pin != Some(WorkerId(9)) {
            true => Presence::Here,
            false => Presence::Away,
        }
    }
}

fn owner(target: TargetId, worker: u32) -> Owner {
    Owner {
        target,
        worker: WorkerId(worker),
    }
}

fn evidence(tools: &[Option<Owner>], states: &[Option<Owner>]) -> Evidence {
    let mut evidence = Evidence::default();
    for &tool in tools {
        evidence.tool_result(tool, |target| [A, B].contains(&target));
    }
    for &state in states {
        evidence.state(state, |target| [A, B].contains(&target));
    }
    evidence
}

fn note(lock: Lock, unknown: u32, passed_over: u32) -> LockNote {
    LockNote {
        lock,
        unknown,
        passed_over,
        breach: Breach::Kept,
    }
}

#[test]
fn a_free_turn_takes_the_binding_then_the_order_asked_for() {
    let free = |binding, fleet: &Down| {
        choose(&[A, B], Evidence::default(), binding, fleet).map(|c| (c.target, c.is_detour))
    };
    assert_eq!(free(None, &Down(&[])), Ok((A, false)));
    assert_eq!(free(Some(B), &Down(&[])), Ok((B, false)));
    assert_eq!(free(Some(B), &Down(&[B])), Ok((A, true)));
    assert_eq!(free(Some(TargetId(7)), &Down(&[])), Ok((A, false)));
    assert_eq!(
        free(None, &Down(&[A, B])).map_err(|e| e.code()),
        Err("NO_WORKER")
    );
}

#[test]
fn a_tool_result_goes_back_to_its_issuer_on_any_worker() {
    let choice = choose(
        &[A, B],
        evidence(&[Some(owner(B, 3))], &[]),
        Some(A),
        &Down(&[]),
    );
    assert_eq!(
        choice,
        Ok(Choice {
            target: B,
            pin: None,
            note: note(Lock::ToolLoop, 0, 0),
            is_detour: false,
            is_waiting: false,
        })
    );
}

#[test]
fn provider_state_goes_to_the_worker_that_keeps_it() {
    let choice = choose(
        &[A, B],
        evidence(&[None], &[Some(owner(B, 3))]),
        None,
        &Down(&[]),
    );
    assert_eq!(
        choice,
        Ok(Choice {
            target: B,
            pin: Some(WorkerId(3)),
            note: note(Lock::ProviderState, 1, 0),
            is_detour: false,
            is_waiting: false,
        })
    );
    let both = evidence(&[Some(owner(B, 1))], &[Some(owner(B, 3))]);
    let choice = choose(&[A, B], both, None, &Down(&[])).unwrap();
    assert_eq!(
        (choice.pin, choice.note.lock),
        (Some(WorkerId(3)), Lock::Both)
    );
}

#[test]
fn a_lock_whose_owner_is_down_is_an_error_and_never_a_switch() {
    for locked in [
        evidence(&[Some(owner(B, 3))], &[]),
        evidence(&[], &[Some(owner(B, 3))]),
    ] {
        let refused = choose(&[A, B], locked, None, &Down(&[B]));
        assert_eq!(refused.map_err(|e| e.code()), Err("OWNER_UNAVAILABLE"));
    }
    let pinned = choose(
        &[A, B],
        evidence(&[], &[Some(owner(B, 9))]),
        None,
        &Down(&[]),
    );
    assert_eq!(pinned.map_err(|e| e.code()), Err("OWNER_UNAVAILABLE"));
}

#[test]
fn owners_that_contradict_or_were_not_asked_for_are_counted() {
    let choice = choose(
        &[A, B],
        evidence(
            &[
                Some(owner(A, 1)),
                Some(owner(B, 2)),
                Some(owner(TargetId(5), 2)),
            ],
            &[Some(owner(B, 2))],
        ),
        None,
        &Down(&[]),
    )
    .unwrap();
    assert_eq!(choice.target, A);
    assert_eq!(choice.note, note(Lock::ToolLoop, 0, 3));
}

#[test]
fn owners_are_scoped_by_tenant_and_kind_and_bounded() {
    let mut owners = Owners::new(2);
    owners.learn("t", IdKind::ToolCall, b"x", owner(A, 1));
    assert_eq!(owners.find("t", IdKind::ToolCall, b"x"), Some(owner(A, 1)));
    assert_eq!(owners.find("u", IdKind::ToolCall, b"x"), None);
    assert_eq!(owners.find("t", IdKind::State, b"x"), None);
    assert_eq!(owners.find("", IdKind::ToolCall, b"tx"), None);
    owners.learn("t", IdKind::ToolCall, b"x", owner(B, 1));
    owners.learn("t", IdKind::ToolCall, b"y", owner(A, 1));
    owners.learn("t", IdKind::ToolCall, b"z", owner(A, 1));
    assert_eq!(
        (owners.len(), owners.find("t", IdKind::ToolCall, b"x")),
        (2, None)
    );
}

#[test]
fn a_setting_says_what_becomes_of_a_turn_whose_owner_cannot_take_it() {
    use Presence::{Away, Gone, Here, Limited, Unfit};
    use WhenDown::{Escape, Fail, Strip, Wait};
    let owner = evidence(&[Some(owner(B, 3))], &[]).owner().unwrap();
    let of = |presence, when_down, can_strip| match obey(owner, presence, when_down, can_strip, "t")
    {
        Ok(Obeyed::Kept(choice)) if choice.is_waiting => "waits",
        Ok(Obeyed::Kept(_)) => "goes",
        Ok(Obeyed::Broken(Breach::Stripped)) => "stripped",
        Ok(Obeyed::Broken(_)) => "escapes",
        Err(error) => error.code(),
    };
    for (when_down, can_strip, expected) in [
        (Wait, true, ["waits", "waits", "STATE_LOST", "STATE_LOST"]),
        (
            Fail,
            true,
            [
                "OWNER_UNAVAILABLE",
                "OWNER_UNAVAILABLE",
                "STATE_LOST",
                "STATE_LOST",
            ],
        ),
        (
            Strip,
            false,
            [
                "OWNER_UNAVAILABLE",
                "OWNER_UNAVAILABLE",
                "STATE_LOST",
                "STATE_LOST",
            ],
        ),
        (Strip, true, ["stripped"; 4]),
        (Escape, false, ["escapes"; 4]),
    ] {
        assert_eq!(of(Here, when_down, can_strip), "goes");
        let found = [Away, Limited, Gone, Unfit].map(|p| of(p, when_down, can_strip));
        assert_eq!(found, expected, "{when_down:?}");
    }
}
