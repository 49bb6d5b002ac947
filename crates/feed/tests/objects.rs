//! What a shared store's stream makes of a master's messages.
use std::num::NonZeroU32;
use std::sync::Arc;

use warmpath_core::Micros;
use warmpath_core::event::Doubt::{
    Ambiguous, Disconnected, Flooded, Gap, JoinedLate, Restarted, Stale, Unconfirmed, UnknownEvent,
    Unreadable,
};
use warmpath_core::event::FeedNotice::{self, Begun, Lost, Suspended};
use warmpath_core::pool::Part;
use warmpath_feed::{
    Contents, Inbox, MAX_PENDING, ObjectChange, ObjectRules, Parcel, Sample, Stream, StreamKey,
    StreamStatus,
};

const KEY: StreamKey = StreamKey::Pool(7);
const NOW: Micros = Micros::from_secs(1);

/// What came out of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Out {
    Notice(FeedNotice),
    Objects(Vec<ObjectChange>),
}

struct Bench {
    stream: Stream,
    inbox: Arc<Inbox>,
    sample: Arc<Sample>,
    sequence: u64,
}

/// As a master tells of an object: kind, key and tenant.
type Told<'a> = (&'a str, &'a str, &'a str);

impl Bench {
    fn new() -> Self {
        Self::of(None, None, 1)
    }

    fn of(space: Option<&str>, tenant: Option<&str>, copies: u32) -> Self {
        let (inbox, sample) = (Arc::new(Inbox::new()), Arc::new(Sample::default()));
        let rules = ObjectRules {
            space: space.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
            copies: NonZeroU32::new(copies).unwrap(),
            sample: Arc::clone(&sample),
        };
        let contents = Contents::Objects(rules);
        let mut stream = Stream::new(KEY, Arc::clone(&inbox), contents, false);
        stream.connected(NOW);
        Self {
            stream,
            inbox,
            sample,
            sequence: 0,
        }
    }

    fn send(&mut self, events: &[Told<'_>]) {
        self.sequence += 1;
        self.send_at(self.sequence, events);
    }

    fn send_at(&mut self, sequence: u64, events: &[Told<'_>]) {
        self.sequence = sequence;
        self.raw(sequence, message(events));
    }

    fn raw(&mut self, sequence: u64, payload: Vec<u8>) {
        let parts = vec![vec![], sequence.to_be_bytes().to_vec(), payload];
        assert_eq!(self.stream.message(NOW, &parts), None, "nobody replays");
    }

    fn taken(&self) -> Vec<Out> {
        let mut deliveries = Vec::new();
        while self.inbox.take(usize::MAX, &mut deliveries) {}
        let each = deliveries
            .into_iter()
            .map(|delivery| match delivery.parcel {
                Parcel::Notice(notice) => Out::Notice(notice),
                Parcel::Objects(changes) => Out::Objects(changes),
                Parcel::Events(slice) => panic!("{slice:?}"),
            });
        each.collect()
    }

    fn status(&self) -> StreamStatus {
        let found = self.inbox.status();
        let [(KEY, status)] = &found[..] else {
            panic!("{found:?}");
        };
        status.clone()
    }

    fn passed_over(&self) -> Vec<(&'static str, u64)> {
        let tally = self.status().tally;
        tally.met().map(|(odd, n)| (odd.name(), n)).collect()
    }
}

fn message(events: &[Told<'_>]) -> Vec<u8> {
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend([0xd9, text.len() as u8]);
        bytes.extend(text.as_bytes());
    };
    let mut bytes = vec![0x93, 0xcf];
    bytes.extend(1_789_095_808_500_u64.to_be_bytes());
    bytes.extend([0xdc, (events.len() >> 8) as u8, events.len() as u8]);
    for (kind, key, tenant) in events {
        bytes.push(0x84);
        let medium = ("medium", "cpu");
        for (field, value) in [("event_type", kind), ("tenant_id", tenant)] {
            text(&mut bytes, field);
            text(&mut bytes, value);
        }
        for (field, value) in [medium, ("object_key", key)] {
            text(&mut bytes, field);
            text(&mut bytes, value);
        }
    }
    bytes.push(0);
    bytes
}

/// vLLM's key of a rank's part of a page.
fn key(model: &str, page: u64, rank: u32) -> String {
    format!("{model}@tp_rank:{rank}@pcp0@dcp0@pp_rank:0@group:0@{page:064x}")
}

fn change(page: u64, tensor: u32, is_there: bool) -> ObjectChange {
    let part = Part {
        tensor,
        ..Part::default()
    };
    ObjectChange {
        page,
        part,
        is_there,
    }
}

#[test]
fn objects_come_in_order_from_the_masters_first_message_on() {
    let mut bench = Bench::new();
    let (one, two) = (key("m", 1, 0), key("m", 1, 1));
    bench.send(&[("stored", &one, ""), ("stored", &two, "default")]);
    bench.send(&[("removed", &one, "")]);
    let expected = [
        Out::Notice(Begun),
        Out::Objects(vec![change(1, 0, true), change(1, 1, true)]),
        Out::Objects(vec![change(1, 0, false)]),
    ];
    assert_eq!(bench.taken(), expected);
    let status = bench.status();
    assert_eq!((status.messages, status.blocks), (2, 3));
    assert_eq!((status.sequence, status.pending), (Some(2), 0));
    assert_eq!(status.sent_at, Some(1_789_095_808.5));
}

#[test]
fn a_gap_a_restart_and_a_broken_connection_each_void_what_waits() {
    let mut bench = Bench::new();
    let key = key("m", 1, 0);
    let stored: [Told<'_>; 1] = [("stored", &key, "")];
    let told = |notice| vec![Out::Notice(notice), Out::Objects(vec![change(1, 0, true)])];
    bench.send_at(5, &stored);
    assert_eq!(bench.taken(), told(Lost(JoinedLate)));
    bench.send_at(6, &stored);
    bench.send_at(8, &stored);
    assert_eq!(bench.taken(), told(Lost(Gap)), "what waited is void too");
    bench.send_at(3, &stored);
    assert_eq!(bench.taken(), told(Lost(Restarted)));
    bench.send_at(1, &stored);
    assert_eq!(bench.taken(), told(Begun), "its first message");
    assert!(bench.sample.holds(&key));
    bench.stream.disconnected();
    assert_eq!(bench.taken(), [Out::Notice(Suspended(Disconnected))]);
    bench.stream.connected(NOW);
    let unconfirmed = [Out::Notice(Suspended(Unconfirmed))];
    assert_eq!(bench.taken(), unconfirmed, "nobody knows who is there now");
    bench.send_at(2, &stored);
    assert_eq!(bench.taken(), told(Lost(Disconnected)));
    let status = bench.status();
    let counted = (status.gaps, status.restarts, status.disconnects);
    assert_eq!(counted, (1, 2, 1));
}

#[test]
fn what_is_of_a_kind_that_is_not_known_may_have_been_a_removal() {
    let mut bench = Bench::new();
    let key = key("m", 1, 0);
    bench.send(&[("stored", &key, "")]);
    bench.taken();
    bench.send(&[("lent", &key, "")]);
    assert_eq!(bench.taken(), [Out::Notice(Lost(UnknownEvent))]);
    assert!(!bench.sample.holds(&key));
    bench.send(&[("lent", &key, "")]);
    assert_eq!(bench.taken(), []);
    bench.send(&[("lent", &key, ""), ("cleared", "", "")]);
    assert_eq!(bench.taken(), [Out::Notice(Begun)]);
    bench.send(&[("lent", &key, "")]);
    assert_eq!(bench.taken(), [Out::Notice(Lost(UnknownEvent))]);
    assert_eq!(bench.passed_over(), [("unknown-event", 4)]);
}

#[test]
fn what_cannot_be_read_may_have_been_a_removal() {
    let mut bench = Bench::new();
    let key = key("m", 1, 0);
    bench.send(&[("stored", &key, "")]);
    bench.taken();
    bench.raw(2, b"not a batch".to_vec());
    assert_eq!(bench.taken(), [Out::Notice(Lost(Unreadable))]);
    assert!(!bench.sample.holds(&key));
    // An event without a kind, in a batch that is one.
    let bytes = [0x93, 0x01, 0x91, 0x80, 0x00];
    bench.raw(3, bytes.to_vec());
    assert_eq!(bench.taken(), [Out::Notice(Lost(Unreadable))]);
    assert_eq!(bench.status().unreadable, 2);
    assert_eq!(bench.passed_over(), [("malformed", 1)]);
}

#[test]
fn a_store_that_says_it_is_empty_is() {
    let mut bench = Bench::new();
    let (one, two) = (key("m", 1, 0), key("m", 2, 0));
    bench.send(&[("stored", &one, "")]);
    bench.taken();
    bench.send(&[
        ("stored", &one, ""),
        ("cleared", "", ""),
        ("stored", &two, ""),
    ]);
    let expected = [Out::Notice(Begun), Out::Objects(vec![change(2, 0, true)])];
    assert_eq!(bench.taken(), expected);
    assert!(!bench.sample.holds(&one) && bench.sample.holds(&two));
}

#[test]
fn objects_of_others_are_counted_and_do_not_count() {
    let mut bench = Bench::of(Some("prod@m"), Some("blue"), 1);
    let (ours, theirs) = (key("prod@m", 1, 0), key("other", 1, 0));
    bench.send(&[
        ("stored", &ours, "blue"),
        ("stored", &ours, ""),
        ("stored", &theirs, "blue"),
        ("stored", "session-42", "blue"),
        ("removed", &theirs, "blue"),
    ]);
    let expected = [Out::Notice(Begun), Out::Objects(vec![change(1, 0, true)])];
    assert_eq!(bench.taken(), expected);
    let passed = [("other-object", 1), ("other-tenant", 1), ("other-space", 2)];
    assert_eq!(bench.passed_over(), passed);
}

#[test]
fn two_models_in_one_store_are_nobodys_until_somebody_says_whose() {
    let mut bench = Bench::new();
    let (one, two) = (key("m", 1, 0), key("n", 1, 0));
    bench.send(&[("stored", &one, ""), ("stored", &two, "")]);
    assert_eq!(bench.taken(), [Out::Notice(Lost(Ambiguous))]);
    assert!(!bench.sample.holds(&one));
    bench.send(&[("stored", &one, ""), ("stored", &two, "")]);
    assert_eq!(bench.taken(), [], "and it is said once");
    assert_eq!(bench.passed_over(), [("other-space", 3)]);
}

#[test]
fn ranks_that_have_the_same_are_one_part() {
    let mut bench = Bench::of(None, None, 4);
    let keys: Vec<String> = (0..8).map(|rank| key("m", 1, rank)).collect();
    let stored: Vec<Told<'_>> = keys
        .iter()
        .map(|key| ("stored", key.as_str(), ""))
        .collect();
    bench.send(&stored);
    let parts = [0, 0, 0, 0, 1, 1, 1, 1].map(|tensor| change(1, tensor, true));
    assert_eq!(bench.taken().pop(), Some(Out::Objects(parts.to_vec())));
}

#[test]
fn a_store_that_floods_loses_what_waits_and_goes_on_when_there_is_room() {
    let mut bench = Bench::new();
    let keys: Vec<String> = (0..2_500).map(|page| key("m", page, 0)).collect();
    let stored: Vec<Told<'_>> = keys
        .iter()
        .map(|key| ("stored", key.as_str(), ""))
        .collect();
    while bench.status().floods == 0 {
        assert!(bench.status().pending <= MAX_PENDING);
        bench.send(&stored);
    }
    bench.send(&stored[..1]);
    assert_eq!(bench.taken(), [Out::Notice(Lost(Flooded))]);
    assert_eq!(bench.stream.tick(NOW), None);
    bench.send(&stored);
    let sizes: Vec<usize> = bench
        .taken()
        .iter()
        .map(|out| match out {
            Out::Objects(changes) => changes.len(),
            Out::Notice(notice) => panic!("{notice:?}"),
        })
        .collect();
    assert_eq!(sizes, [2_048, 452], "in slices");
}

#[test]
fn a_sample_of_what_is_there_goes_round_and_ends_with_what_was_known() {
    let mut bench = Bench::new();
    let keys: Vec<String> = (0..100).map(|page| key("m", page, 0)).collect();
    let stored: Vec<Told<'_>> = keys
        .iter()
        .map(|key| ("stored", key.as_str(), ""))
        .collect();
    bench.send(&stored);
    let all = bench.sample.next(1_000);
    assert!(
        all.len() > 60 && all.iter().all(|key| keys.contains(key)),
        "{}",
        all.len()
    );
    let (first, second) = (bench.sample.next(20), bench.sample.next(20));
    assert_eq!((first.len(), second.len()), (20, 20));
    assert!(first.iter().all(|key| !second.contains(key)));
    bench.send(&[("removed", &first[0], "")]);
    assert!(!bench.sample.holds(&first[0]) && bench.sample.holds(&first[1]));
    bench.taken();
    bench.inbox.doubt(KEY, Stale);
    assert_eq!(bench.taken(), [Out::Notice(Lost(Stale))]);
}

#[test]
fn no_decision_comes_before_what_voids_a_stream() {
    let mut bench = Bench::new();
    let key = key("m", 1, 0);
    bench.send(&[("stored", &key, "")]);
    bench.taken();
    let rules = |sample| ObjectRules {
        space: None,
        tenant: None,
        copies: NonZeroU32::MIN,
        sample,
    };
    let other = Contents::Objects(rules(Arc::default()));
    let mut other = Stream::new(StreamKey::Pool(1), Arc::clone(&bench.inbox), other, false);
    let keys: Vec<String> = (0..2_000).map(|page| self::key("m", page, 0)).collect();
    let stored: Vec<Told<'_>> = keys
        .iter()
        .map(|key| ("stored", key.as_str(), ""))
        .collect();
    for sequence in 1_u64..4 {
        let parts = vec![vec![], sequence.to_be_bytes().to_vec(), message(&stored)];
        other.message(NOW, &parts);
    }
    bench.send_at(9, &[("stored", &key, "")]);
    bench.stream.disconnected();
    let mut deliveries = Vec::new();
    assert!(bench.inbox.take(1, &mut deliveries));
    let own = deliveries.iter().filter(|delivery| delivery.key == KEY);
    let notices: Vec<_> = own
        .map(|delivery| match &delivery.parcel {
            Parcel::Notice(notice) => *notice,
            parcel => panic!("{parcel:?}"),
        })
        .collect();
    assert_eq!(
        notices,
        [Lost(Gap), Suspended(Disconnected)],
        "though others have more"
    );
}
