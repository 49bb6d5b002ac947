//! Events that are asked for: what their ids say.
#[allow(dead_code, reason = "publishers' messages have no part here")]
mod support;

use std::num::NonZeroU32;
use std::sync::Arc;

use support::{Out, taken};
use warmpath_core::event::Doubt::{
    Disconnected, Gap, JoinedLate, Restarted, Unconfirmed, UnknownEvent, Unreadable,
};
use warmpath_core::event::FeedNotice::{Begun, Lost, Resumed, Suspended};
use warmpath_feed::{Inbox, Pulled, StreamKey, StreamStatus};

struct Bench {
    pulled: Pulled,
    inbox: Arc<Inbox>,
}

impl Bench {
    fn new() -> Self {
        let inbox = Arc::new(Inbox::new());
        let size = NonZeroU32::new(4).unwrap();
        let pulled = Pulled::new(
            StreamKey::Rank { worker: 0, rank: 0 },
            Arc::clone(&inbox),
            size,
        );
        Self { pulled, inbox }
    }

    /// Events of these ids, each of which removes the block of its number from two tiers.
    fn answered(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<Out> {
        let events: Vec<_> = ids.into_iter().map(removed).collect();
        self.pulled
            .answered(format!("[{}]", events.join(",")).as_bytes());
        self.taken()
    }

    /// Each event once, though it tells of two tiers.
    fn taken(&self) -> Vec<Out> {
        let mut all = taken(&self.inbox);
        all.dedup();
        all
    }

    fn status(&self) -> StreamStatus {
        self.inbox.status().remove(0).1
    }
}

fn removed(id: u64) -> String {
    let data = format!(r#"{{"type":"removed","block_hashes":[{id}]}}"#);
    format!(r#"{{"event_id":{id},"data":{data},"window_size":1}}"#)
}

fn noticed(notice: warmpath_core::event::FeedNotice, ids: &[u64]) -> Vec<Out> {
    let events = ids.iter().map(|&id| Out::Event(id));
    std::iter::once(Out::Notice(notice)).chain(events).collect()
}

#[test]
fn ids_tell_beginnings_gaps_and_engines_that_begin_anew() {
    let mut bench = Bench::new();
    assert_eq!(bench.answered([]), []);
    assert_eq!(bench.answered([0, 1]), noticed(Begun, &[0, 1]));
    assert_eq!(bench.answered([2]), [Out::Event(2)]);
    assert_eq!(bench.answered([]), []);
    assert_eq!(bench.answered([5]), noticed(Lost(Gap), &[5]));
    assert_eq!(
        bench.answered([6, 9]),
        noticed(Lost(Gap), &[6, 9]),
        "inside a list too"
    );
    assert_eq!(bench.answered([0]), noticed(Begun, &[0]));
    bench.answered([1, 2, 3]);
    assert_eq!(bench.answered([2]), noticed(Lost(Restarted), &[2]));
    let status = bench.status();
    assert_eq!(
        (status.gaps, status.restarts, status.sequence),
        (2, 2, Some(2))
    );
    assert!(status.is_connected);
    assert_eq!(Bench::new().answered([7]), noticed(Lost(JoinedLate), &[7]));
}

#[test]
fn an_engine_that_does_not_answer_counts_for_nothing_until_it_has_said_who_it_is() {
    let mut bench = Bench::new();
    bench.pulled.failed("ECONNREFUSED");
    assert_eq!(bench.taken(), [], "nothing was known");
    assert_eq!(bench.answered([]), [], "and nothing is in doubt");
    bench.answered([0, 1]);
    bench.pulled.failed("ECONNREFUSED");
    bench.pulled.failed("ECONNREFUSED");
    assert_eq!(bench.taken(), [Out::Notice(Suspended(Disconnected))]);
    assert_eq!(bench.status().last_error.as_deref(), Some("ECONNREFUSED"));
    let unconfirmed = [Out::Notice(Suspended(Unconfirmed))];
    assert_eq!(bench.answered([]), unconfirmed, "it is there, and no more");
    assert_eq!(
        (bench.status().last_error, bench.answered([])),
        (None, vec![])
    );
    bench.pulled.failed("ECONNREFUSED");
    assert_eq!(bench.taken(), [Out::Notice(Suspended(Disconnected))]);
    assert_eq!(bench.answered([]), unconfirmed);
    let resumed = [Out::Notice(Resumed), Out::Event(2)];
    assert_eq!(bench.answered([2]), resumed);
    bench.pulled.failed("reset");
    bench.taken();
    assert_eq!(bench.answered([0]), noticed(Begun, &[0]));
    assert_eq!(bench.status().disconnects, 3);
}

#[test]
fn what_is_of_a_kind_that_is_not_known_casts_doubt_until_the_engine_begins_anew() {
    let odd =
        |id: u64| format!(r#"[{{"event_id":{id},"data":{{"type":"lent"}},"window_size":1}}]"#);
    let mut bench = Bench::new();
    bench.answered([0]);
    let doubted = [Out::Notice(Lost(UnknownEvent))];
    bench.pulled.answered(odd(1).as_bytes());
    assert_eq!(bench.taken(), doubted);
    bench.pulled.answered(odd(2).as_bytes());
    assert_eq!(bench.taken(), []);
    assert_eq!(bench.answered([0]), noticed(Begun, &[0]));
    bench.pulled.answered(odd(1).as_bytes());
    assert_eq!(bench.taken(), doubted);
}

#[test]
fn what_is_no_list_of_events_voids_the_stream() {
    for text in ["", "{", "<html>", "[1]", "null"] {
        let mut bench = Bench::new();
        bench.answered([0]);
        assert_eq!(bench.pulled.answered(text.as_bytes()), 0);
        let expected = [Out::Notice(Lost(Unreadable))];
        assert_eq!(bench.taken(), expected, "{text}");
    }
}
