use super::*;
use crate::block::{Seed, hash_text, hash_tokens};

const GROUP: GroupId = GroupId(0);
const UNIT: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// A text of these messages.
fn text(messages: &[&str]) -> Chain {
    let mut chain = Chain::new();
    let lengths: Vec<u32> = messages.iter().map(|m| m.len() as u32).collect();
    let whole = messages.concat();
    let (rate, seed) = (Default::default(), Seed::default());
    hash_text(whole.as_bytes(), &lengths, rate, seed, &mut chain);
    chain
}

fn tokens(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

/// Something that is learnt, and what was known of it.
struct Case {
    known: Option<Known>,
    worth: u32,
}

fn submit(all: &mut Renderings, messages: &[&str], after: After) -> Case {
    let known = all.find(GROUP, &text(messages));
    let worth = known.as_ref().map_or(0, |k| all.worth(GROUP, k, after));
    Case { known, worth }
}

fn answer(all: &mut Renderings, messages: &[&str], after: After, ids: &[u32], case: &Case) {
    let mut blocks = Chain::new();
    hash_tokens(ids, UNIT, Seed::default(), &mut blocks);
    let rendered = Rendered {
        group: GROUP,
        text: &text(messages),
        blocks: &blocks,
        block_tokens: UNIT,
        tokens: ids,
        after,
    };
    all.learn(&rendered, case.known.as_ref());
}

/// A turn of a session: what could be counted on, and then its answer.
fn turn(all: &mut Renderings, messages: &[&str], after: After, ids: &[u32]) -> u32 {
    let case = submit(all, messages, after);
    answer(all, messages, after, ids, &case);
    case.worth
}

const SESSION: [&str; 8] = [
    "system", "one", "two", "three", "four", "five", "six", "seven",
];

/// The tokens of a prompt of so many messages: 100 each, and a header of 3 that is not kept.
fn rendered(messages: u32) -> Vec<u32> {
    let mut ids = tokens(0..100 * messages);
    ids.extend([9_000 + messages, 9_001, 9_002]);
    ids
}

#[test]
fn what_two_prompts_have_kept_counts_for_the_third() {
    let mut all = Renderings::new(1_000_000);
    let worths: Vec<u32> = (1..=6)
        .map(|n| turn(&mut all, &SESSION[..n as usize], After::Tools, &rendered(n)))
        .collect();
    // All but the header, which the next prompt begins otherwise.
    assert_eq!(worths, [0, 0, 0, 300, 400, 500]);
    assert_eq!(
        all.entries.len(),
        1,
        "only the last prompt of a session is kept"
    );
    assert_eq!(all.tokens, 603);
}

#[test]
fn prompts_that_follow_otherwise_are_proved_apart() {
    let mut all = Renderings::new(1_000_000);
    for n in 1..=4 {
        turn(&mut all, &SESSION[..n as usize], After::Tools, &rendered(n));
    }
    let after_tools = submit(&mut all, &SESSION[..5], After::Tools);
    let after_other = submit(&mut all, &SESSION[..5], After::Other);
    assert_eq!((after_tools.worth, after_other.worth), (400, 0));
}

#[test]
fn the_same_text_is_known_to_its_end_without_proof() {
    let mut all = Renderings::new(1_000_000);
    let before = turn(&mut all, &SESSION[..2], After::Other, &rendered(2));
    let again = submit(&mut all, &SESSION[..2], After::Other);
    assert_eq!((before, again.worth), (0, 203));
    let mut chain = Chain::new();
    let known = again.known.unwrap();
    known.begin(again.worth, UNIT, &mut chain);
    let mut whole = Chain::new();
    hash_tokens(&rendered(2), UNIT, Seed::default(), &mut whole);
    assert_eq!(chain, whole);
}

#[test]
fn a_template_that_rewrites_the_past_ends_it_until_it_has_kept_it_for_long() {
    let mut all = Renderings::new(1_000_000);
    for n in 1..=4 {
        turn(&mut all, &SESSION[..n as usize], After::Tools, &rendered(n));
    }
    // Reasoning taken out of an early message: everything behind it moves.
    let mut rewritten = rendered(5);
    rewritten.drain(120..200);
    assert_eq!(turn(&mut all, &SESSION[..5], After::Tools, &rewritten), 400);
    for round in 0..10 {
        let other = format!("other {round}");
        let first = [other.as_str()];
        let second = [other.as_str(), "more"];
        turn(&mut all, &first, After::Other, &rendered(1));
        let worth = turn(&mut all, &second, After::Tools, &rendered(2));
        assert_eq!(worth > 0, round >= AGAIN, "round {round}");
    }
}

#[test]
fn a_prompt_that_several_go_on_from_stays() {
    let mut all = Renderings::new(1_000_000);
    turn(&mut all, &SESSION[..1], After::Other, &rendered(1));
    let left = submit(&mut all, &["system", "left"], After::Other);
    let right = submit(&mut all, &["system", "right"], After::Other);
    answer(
        &mut all,
        &["system", "left"],
        After::Other,
        &rendered(2),
        &left,
    );
    answer(
        &mut all,
        &["system", "right"],
        After::Other,
        &rendered(2),
        &right,
    );
    let third = submit(&mut all, &["system", "third"], After::Other);
    assert_eq!(third.worth, 100);
    assert_eq!(all.entries.len(), 3);
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let mut all = Renderings::new(1_000);
    let names: Vec<String> = (0..9).map(|n| format!("session {n}")).collect();
    for name in &names {
        turn(&mut all, &[name], After::Other, &tokens(0..200));
        submit(&mut all, &["session 0"], After::Other);
        assert!(all.tokens <= 1_000);
        assert_eq!(all.entries.len(), all.order.len());
    }
    let has = |name: &str| {
        all.entries
            .contains_key(&key_of(GROUP, text(&[name]).hashes()[0]))
    };
    let kept: Vec<bool> = names.iter().map(|name| has(name)).collect();
    let expected = [true, false, false, false, false, true, true, true, true];
    assert_eq!(kept, expected);
    turn(&mut all, &["too long"], After::Other, &tokens(0..1_001));
    assert_eq!(all.tokens, 1_000);
}

#[test]
fn groups_do_not_share() {
    let mut all = Renderings::new(1_000_000);
    turn(&mut all, &SESSION[..1], After::Other, &rendered(1));
    assert!(all.find(GroupId(1), &text(&SESSION[..1])).is_none());
    assert!(all.find(GROUP, &text(&["other"])).is_none());
}

/// Whatever was known, what is given is what the engine made of that text, cut.
#[test]
fn what_begins_a_prompt_is_a_beginning_of_what_was_made() {
    let mut all = Renderings::new(1_000_000);
    for n in 1..=6 {
        let case = submit(&mut all, &SESSION[..n as usize], After::Tools);
        if let Some(known) = &case.known {
            let mut chain = Chain::new();
            known.begin(case.worth, UNIT, &mut chain);
            let mut real = Chain::new();
            hash_tokens(&rendered(n), UNIT, Seed::default(), &mut real);
            assert!(real.hashes().starts_with(chain.hashes()));
            assert_eq!(chain.len() as u32, case.worth / 16);
        }
        answer(
            &mut all,
            &SESSION[..n as usize],
            After::Tools,
            &rendered(n),
            &case,
        );
    }
}
