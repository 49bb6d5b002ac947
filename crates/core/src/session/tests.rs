//! Sessions against written-out expectations.
use super::*;

fn begin(r: &mut SessionRegistry, session: Option<&str>, chain: &[u64]) -> Membership {
    let claim = Claim {
        tenant: "t",
        session,
        parent: None,
    };
    r.begin(Micros(1), claim, chain, &mut Vec::new())
}

#[test]
fn a_name_finds_its_session_within_its_tenant() {
    let mut r = SessionRegistry::new(10);
    let a = begin(&mut r, Some("s"), &[1, 2]);
    r.end(Micros(2), a.session, a.program, Some(Phase::Acting));
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
    let gone = r.end(
        Micros(2),
        title.session,
        title.program,
        Some(Phase::Reasoning),
    );
    assert_eq!(gone, title.program, "the title's branch leaves");
    assert_eq!(
        r.end(Micros(3), main.session, main.program, Some(Phase::Acting)),
        None
    );
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
    let other = r.begin(Micros(1), claim, &[1, 2, 3, 4, 5], &mut Vec::new());
    assert_ne!(other.session, a.session);
}

#[test]
fn the_longest_idle_session_leaves_first_and_one_in_flight_never_does() {
    let mut r = SessionRegistry::new(2);
    let mut left = Vec::new();
    let a = begin(&mut r, Some("a"), &[1]);
    let b = begin(&mut r, Some("b"), &[2]);
    r.end(Micros(2), b.session, b.program, None);
    let claim = Claim {
        tenant: "t",
        session: Some("c"),
        parent: None,
    };
    r.begin(Micros(3), claim, &[3], &mut left);
    assert_eq!(left, vec![b.program.unwrap()]);
    assert!(r.get(a.session).is_some());
    assert!(r.get(b.session).is_none());
    assert_eq!((r.len(), r.evicted()), (2, 1));
}

#[test]
fn a_side_request_while_tools_run_does_not_take_the_conversations_place() {
    let mut r = SessionRegistry::new(10);
    let main = begin(&mut r, Some("s"), &[1, 2]);
    r.end(Micros(2), main.session, main.program, Some(Phase::Acting));
    let side = begin(&mut r, Some("s"), &[9]);
    assert_ne!(side.program, main.program);
    r.end(
        Micros(3),
        side.session,
        side.program,
        Some(Phase::Reasoning),
    );
    let next = begin(&mut r, Some("s"), &[1, 2, 3]);
    assert_eq!(next.program, main.program);
}

#[test]
fn a_session_at_rest_starts_again_in_place() {
    let mut r = SessionRegistry::new(10);
    let first = begin(&mut r, Some("s"), &[1, 2]);
    r.end(
        Micros(2),
        first.session,
        first.program,
        Some(Phase::Reasoning),
    );
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
    r.end(Micros(10), a.session, a.program, None);
    let b = begin(&mut r, Some("b"), &[2]);
    r.end(Micros(20), b.session, b.program, None);
    let mut left = Vec::new();
    r.expire(Micros(25), Micros(10), &mut left);
    assert!(r.get(a.session).is_none());
    assert!(r.get(b.session).is_some());
    assert_eq!(left.len(), 1);
}
