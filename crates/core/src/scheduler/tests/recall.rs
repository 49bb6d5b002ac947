//! Bodies that are held against the session's last one.
use super::*;
use proptest::prelude::*;

/// A conversation as JSON, and its text: what stands before the items, then the items.
#[derive(Clone, Debug)]
struct Sent {
    ahead: String,
    items: Vec<String>,
    behind: u8,
}

impl Sent {
    fn body(&self) -> Vec<u8> {
        let items = self
            .items
            .iter()
            .map(|item| format!("{{\"x\":\"{item}\"}}"));
        let items = items.collect::<Vec<_>>().join(",");
        let (ahead, behind) = (&self.ahead, self.behind);
        format!("{{\"ahead\":\"{ahead}\",\"messages\":[{items}],\"behind\":{behind}}}").into_bytes()
    }

    /// The text of the items from one on, with what is before all of them if that is the first.
    fn text(&self, from: usize) -> (Vec<u8>, Vec<Segment>) {
        let ahead = (from == 0).then_some(&self.ahead);
        let parts = ahead.into_iter().chain(&self.items[from..]);
        let segments = parts.clone().map(|part| Segment::plain(part.len() as u32));
        (
            parts.flat_map(|part| part.bytes()).collect(),
            segments.collect(),
        )
    }
}

/// Submits a body the way the addon does. Returns the hashes of its blocks, their ends, and how many
/// items were known.
fn send(bench: &mut Bench, session: &str, sent: &Sent, with_bytes: bool) -> (Chain, usize) {
    let body = sent.body();
    let scheduler = &mut bench.scheduler;
    let recalled = match with_bytes {
        true => scheduler.recall("", session, &body, b"messages"),
        false => None,
    };
    let known = recalled.as_ref().map_or(0, Recalled::items);
    let (bytes, segments) = sent.text(known);
    let (bytes, segments) = (&bytes[..], &segments[..]);
    let prompt = match &recalled {
        None => Prompt::Text { bytes, segments },
        Some(recalled) => Prompt::Recalled {
            recalled,
            bytes,
            segments,
        },
    };
    let turn = Turn {
        prompt,
        ..turn(session, &[])
    };
    let submitted = bench.submit(&turn).unwrap();
    let chain = bench.scheduler.chain(submitted.reservation).cloned();
    bench.complete(submitted.reservation, &used_tools());
    (chain.unwrap(), known)
}

fn conversation(items: usize) -> Sent {
    Sent {
        ahead: "tools".repeat(300),
        items: (0..items)
            .map(|n| format!("item {n} ").repeat(400))
            .collect(),
        behind: 0,
    }
}

#[test]
fn from_its_third_turn_on_a_session_brings_what_is_new_and_the_item_before() {
    let mut bench = Bench::free();
    let known: Vec<usize> = [4, 6, 8, 10]
        .map(|items| send(&mut bench, "s", &conversation(items), true).1)
        .into();
    assert_eq!(known, [0, 0, 5, 7]);
}

#[test]
fn an_edit_of_the_last_items_is_read_from_there_and_any_other_from_the_start() {
    let known_after = |edit: fn(&mut Sent)| {
        let mut bench = Bench::free();
        for items in [8, 10] {
            send(&mut bench, "s", &conversation(items), true);
        }
        let mut edited = conversation(12);
        edit(&mut edited);
        let (chain, known) = send(&mut bench, "s", &edited, true);
        let (whole, _) = send(&mut bench, "other", &edited, false);
        assert_eq!(chain, whole);
        known
    };
    assert_eq!(known_after(|_| {}), 9);
    assert_eq!(known_after(|sent| sent.items[9].push('!')), 8);
    assert_eq!(known_after(|sent| sent.items[7].push('!')), 6);
    assert_eq!(known_after(|sent| sent.items[5].push('!')), 0);
    assert_eq!(known_after(|sent| sent.ahead.push('!')), 0);
    assert_eq!(known_after(|sent| sent.behind = 1), 0);
    assert_eq!(known_after(|sent| sent.items.truncate(8)), 7);
    assert_eq!(known_after(|sent| sent.items.truncate(2)), 0);
}

#[test]
fn a_session_that_has_gone_on_meanwhile_has_to_bring_all_of_its_text() {
    let mut bench = Bench::free();
    for items in [4, 6] {
        send(&mut bench, "s", &conversation(items), true);
    }
    let sent = conversation(8);
    let recalled = bench.scheduler.recall("", "s", &sent.body(), b"messages");
    let recalled = recalled.expect("it goes on");
    send(&mut bench, "s", &conversation(7), true);
    let (bytes, segments) = sent.text(recalled.items());
    let turn = Turn {
        prompt: Prompt::Recalled {
            recalled: &recalled,
            bytes: &bytes,
            segments: &segments,
        },
        ..turn("s", &[])
    };
    assert!(bench.submit(&turn).unwrap_err().is_not_recalled());
    assert_eq!(bench.scheduler.status().reservations, 0);
}

fn item() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "[a-c]".prop_map(|c| c.repeat(2_000))]
}

proptest! {
    #[test]
    fn the_blocks_are_those_of_the_whole_text(
        first in prop::collection::vec(item(), 1..5),
        changes in prop::collection::vec((0..5_u8, any::<prop::sample::Index>(), item()), 1..8),
    ) {
        let mut bench = Bench::free();
        let mut sent = Sent { ahead: "a".to_owned(), items: first, behind: 0 };
        for (kind, at, item) in changes {
            match kind {
                0 if sent.items.len() > 1 => sent.items.truncate(1 + at.index(sent.items.len() - 1)),
                1 => { let at = at.index(sent.items.len()); sent.items[at] = item; }
                2 => sent.behind ^= 1,
                _ => sent.items.extend([item.clone(), item]),
            }
            let (chain, _) = send(&mut bench, "bytes", &sent, true);
            let (whole, _) = send(&mut bench, "text", &sent, false);
            prop_assert_eq!(chain, whole);
        }
    }
}
