//! Sessions against written-out expectations.
use super::*;

/// A prompt of a token a block.
fn sent(chain: &[u64]) -> Sent<'_> {
    Sent {
        chain,
        tokens: chain.len() as u32,
    }
}

fn end(r: &mut SessionRegistry, turn: Membership, phase: Phase) -> Vec<ProgramId> {
    let mut left = Vec::new();
    r.end(
        Micros(2),
        turn.session,
        turn.program,
        Some(phase),
        &mut left,
    );
    left
}

/// The turn of whoever is found by its claim and chain.
fn enter(
    r: &mut SessionRegistry,
    now: Micros,
    claim: Claim<'_>,
    chain: &[u64],
    left: &mut Vec<ProgramId>,
) -> Membership {
    let known = r.find(claim, chain);
    r.begin(now, known, claim, sent(chain), left)
}

fn begin(r: &mut SessionRegistry, session: Option<&str>, chain: &[u64]) -> Membership {
    let claim = Claim {
        tenant: "t",
        session,
        parent: None,
    };
    enter(r, Micros(1), claim, chain, &mut Vec::new())
}

#[test]
fn a_name_finds_its_session_within_its_tenant() {
    let mut r = SessionRegistry::new(10);
    let a = begin(&mut r, Some("s"), &[1, 2]);
    end(&mut r, a, Phase::Acting);
    let b = begin(&mut r, Some("s"), &[1, 2, 3]);
    assert_eq!((a.session, a.program), (b.session, b.program));
    assert_eq!(r.by_name("t", "s"), Some(a.session));
    assert_eq!(r.by_name("other", "s"), None);
}

#[test]
fn concurrent_turns_of_a_session_get_branches_and_the_conversation_goes_on() {
    let mut r = SessionRegistry::new(10);
    let title = begin(&mut r, Some("s"), &[9]);
    let main = begin(&mut r, Some("s"), &[1, 2]);
    assert_eq!(title.session, main.session);
    assert_ne!(title.program, main.program);
    assert_eq!(
        end(&mut r, title, Phase::Reasoning),
        [title.program.unwrap()]
    );
    assert_eq!(end(&mut r, main, Phase::Acting), []);
    let next = begin(&mut r, Some("s"), &[1, 2, 3]);
    assert_eq!(next.program, main.program);
}

#[test]
fn a_turn_without_a_name_belongs_to_the_session_that_it_extends() {
    let mut r = SessionRegistry::new(10);
    let a = begin(&mut r, None, &[1, 2]);
    let b = begin(&mut r, None, &[1, 7]);
    assert_ne!(a.session, b.session, "a shared head joins nobody");
    let next = begin(&mut r, None, &[1, 2, 3, 4]);
    assert_eq!(next.session, a.session);
    let claim = Claim {
        tenant: "other",
        session: None,
        parent: None,
    };
    let other = enter(&mut r, Micros(1), claim, &[1, 2, 3, 4, 5], &mut Vec::new());
    assert_ne!(other.session, a.session);
}

#[test]
fn the_longest_idle_session_leaves_first_and_one_in_flight_never_does() {
    let mut r = SessionRegistry::new(2);
    let mut left = Vec::new();
    let a = begin(&mut r, Some("a"), &[1]);
    let b = begin(&mut r, Some("b"), &[2]);
    r.end(Micros(2), b.session, b.program, None, &mut Vec::new());
    let claim = Claim {
        tenant: "t",
        session: Some("c"),
        parent: None,
    };
    enter(&mut r, Micros(3), claim, &[3], &mut left);
    assert_eq!(left, vec![b.program.unwrap()]);
    assert!(r.get(a.session).is_some());
    assert!(r.get(b.session).is_none());
    assert_eq!((r.len(), r.evicted()), (2, 1));
}

#[test]
fn the_longest_chain_is_the_conversation_whoever_comes_or_ends_first() {
    for title_first in [true, false] {
        for title_ends_first in [true, false] {
            let mut r = SessionRegistry::new(10);
            let mut open =
                |is_title| begin(&mut r, Some("s"), if is_title { &[9] } else { &[1, 2] });
            let (a, b) = (open(title_first), open(!title_first));
            let (title, main) = if title_first { (a, b) } else { (b, a) };
            let mut left = Vec::new();
            let order = if title_ends_first {
                [title, main]
            } else {
                [main, title]
            };
            for turn in order {
                left.extend(end(&mut r, turn, Phase::Reasoning));
            }
            assert_eq!(left, [title.program.unwrap()]);
            let next = begin(&mut r, Some("s"), &[1, 2, 3]);
            assert_eq!(next.program, main.program);
        }
    }
}

#[test]
fn of_two_equal_chains_of_an_unnamed_session_one_is_enough_to_know_it_by() {
    let mut r = SessionRegistry::new(10);
    let first = begin(&mut r, None, &[1, 2]);
    let again = begin(&mut r, None, &[1, 2]);
    assert_eq!(first.session, again.session);
    end(&mut r, first, Phase::Reasoning);
    end(&mut r, again, Phase::Reasoning);
    let next = begin(&mut r, None, &[1, 2, 3]);
    assert_eq!(next.session, first.session);
}

#[test]
fn unnamed_sessions_have_names_that_nobody_shares() {
    let mut r = SessionRegistry::new(10);
    let name = |r: &mut SessionRegistry, tenant: &str| {
        let claim = Claim {
            tenant,
            session: None,
            parent: None,
        };
        let turn = enter(r, Micros(1), claim, &[1, 2], &mut Vec::new());
        let &SessionName::Derived(derived) = r.get(turn.session).unwrap().name() else {
            panic!("named");
        };
        (derived, turn)
    };
    let (first, turn) = name(&mut r, "t");
    let (other, _) = name(&mut r, "u");
    assert_ne!(first, other);
    assert_eq!(r.by_derived("t", first), Some(turn.session));
    assert_eq!(r.by_derived("u", first), None);
    r.remove(turn.session, &mut Vec::new());
    assert_eq!(r.by_derived("t", first), None);
    let (again, _) = name(&mut r, "t");
    assert_ne!(again, first);
}

#[test]
fn a_side_request_while_tools_run_does_not_take_the_conversations_place() {
    let mut r = SessionRegistry::new(10);
    let main = begin(&mut r, Some("s"), &[1, 2]);
    end(&mut r, main, Phase::Acting);
    let side = begin(&mut r, Some("s"), &[9]);
    assert_ne!(side.program, main.program);
    end(&mut r, side, Phase::Reasoning);
    let next = begin(&mut r, Some("s"), &[1, 2, 3]);
    assert_eq!(next.program, main.program);
}

#[test]
fn a_session_at_rest_starts_again_in_place() {
    let mut r = SessionRegistry::new(10);
    let first = begin(&mut r, Some("s"), &[1, 2]);
    end(&mut r, first, Phase::Reasoning);
    assert_eq!(begin(&mut r, Some("s"), &[9]).program, first.program);
}

#[test]
fn more_chains_than_places_are_not_tracked() {
    let mut r = SessionRegistry::new(2);
    let turns: Vec<_> = (0..=MAX_BRANCHES as u64)
        .map(|n| begin(&mut r, Some("a"), &[n + 1]))
        .collect();
    assert!(turns[..MAX_BRANCHES].iter().all(|m| m.program.is_some()));
    assert_eq!(turns[MAX_BRANCHES].program, None);
}

#[test]
fn idle_sessions_expire_in_order() {
    let mut r = SessionRegistry::new(10);
    let a = begin(&mut r, Some("a"), &[1]);
    r.end(Micros(10), a.session, a.program, None, &mut Vec::new());
    let b = begin(&mut r, Some("b"), &[2]);
    r.end(Micros(20), b.session, b.program, None, &mut Vec::new());
    let mut left = Vec::new();
    r.expire(Micros(25), Micros(10), &mut left);
    assert!(r.get(a.session).is_none());
    assert!(r.get(b.session).is_some());
    assert_eq!(left.len(), 1);
}
