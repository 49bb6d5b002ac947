//! What a stream makes of what happens to it: scripts with a clock that is told, then random ones.
mod support;

use std::sync::Arc;

use support::{Out, end, parts, taken};
use warmpath_core::Micros;
use warmpath_core::event::Doubt::{
    Disconnected, Flooded, Gap, JoinedLate, Restarted, Unconfirmed, UnknownEvent, Unreadable,
};
use warmpath_core::event::FeedNotice::{Begun, Lost, Resumed, Suspended};
use warmpath_feed::{
    Ask, Contents, Inbox, MAX_PENDING, Message, Parcel, Stream, StreamKey, StreamStatus,
};
use warmpath_wire::Oddity;

struct Bench {
    stream: Stream,
    inbox: Arc<Inbox>,
    now: Micros,
}

impl Bench {
    fn new(can_replay: bool) -> Self {
        let inbox = Arc::new(Inbox::new());
        let stream = Stream::new(
            StreamKey::Rank { worker: 0, rank: 0 },
            Arc::clone(&inbox),
            Contents::Blocks,
            can_replay,
        );
        let now = Micros::from_secs(100);
        Self { stream, inbox, now }
    }

    /// A stream that is live after message 4.
    fn live(can_replay: bool) -> Self {
        let mut bench = Self::new(can_replay);
        bench.stream.connected(bench.now);
        if can_replay {
            (0..=4).for_each(|n| assert_eq!(bench.replayed(n), None));
            assert_eq!(bench.end(), Some(Ask::EndReplay));
        } else {
            (0..=4).for_each(|n| assert_eq!(bench.live_message(n), None));
        }
        assert_eq!(bench.taken().len(), 6);
        bench
    }

    fn live_message(&mut self, sequence: u64) -> Option<Ask> {
        self.stream.message(self.now, &parts(sequence, sequence))
    }

    fn replayed(&mut self, sequence: u64) -> Option<Ask> {
        self.stream.replayed(self.now, &parts(sequence, sequence))
    }

    fn end(&mut self) -> Option<Ask> {
        self.stream.replayed(self.now, &end())
    }

    fn after(&mut self, seconds: u64) -> Option<Ask> {
        self.now = self.now.plus(Micros::from_secs(seconds));
        self.stream.tick(self.now)
    }

    fn taken(&self) -> Vec<Out> {
        taken(&self.inbox)
    }

    fn status(&self) -> StreamStatus {
        self.inbox.status().remove(0).1
    }
}

fn events(sequences: impl IntoIterator<Item = u64>) -> Vec<Out> {
    sequences.into_iter().map(Out::Event).collect()
}

fn noticed(notice: warmpath_core::event::FeedNotice, then: Vec<Out>) -> Vec<Out> {
    [vec![Out::Notice(notice)], then].concat()
}

#[test]
fn a_message_is_read_from_its_last_part_back() {
    let (number, payload) = (7_u64.to_be_bytes().to_vec(), b"x".to_vec());
    let longer = [number.clone(), vec![0; 16]].concat();
    let forms = [
        vec![number.clone(), payload.clone()],
        vec![vec![], number.clone(), payload.clone()],
        vec![vec![], b"kv@pod@model".to_vec(), number, payload.clone()],
        vec![vec![], longer, payload],
    ];
    for form in &forms {
        let message = Message::parse(form).expect("a message");
        assert_eq!(
            (message.sequence, message.payload, message.is_end()),
            (7, &b"x"[..], false)
        );
    }
    assert!(Message::parse(&end()).expect("an end").is_end());
    assert_eq!(Message::parse(&[]), None);
    assert_eq!(Message::parse(&[vec![0; 8]]), None);
    assert_eq!(
        Message::parse(&[vec![0; 7], vec![]]),
        None,
        "a short number"
    );
}

#[test]
fn who_joins_late_has_what_the_publisher_kept() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.stream.connected(bench.now), Some(Ask::Replay(0)));
    assert_eq!(bench.live_message(3), None, "held back");
    (0..=2).for_each(|n| assert_eq!(bench.replayed(n), None));
    assert_eq!(bench.replayed(3), None, "which is known twice then");
    assert_eq!(bench.end(), Some(Ask::EndReplay));
    bench.live_message(4);
    assert_eq!(bench.taken(), noticed(Begun, events(0..=4)));
    let late = |bench: &mut Bench| {
        bench.stream.connected(bench.now);
        bench.replayed(500);
        bench.replayed(501);
        bench.end();
        bench.taken()
    };
    let kept = noticed(Lost(JoinedLate), events([500, 501]));
    assert_eq!(late(&mut Bench::new(true)), kept);
}

#[test]
fn the_number_that_ends_a_replay_is_of_no_message() {
    for has_replay in [true, false] {
        let mut bench = Bench::new(has_replay);
        bench.stream.connected(bench.now);
        bench.end();
        bench.live_message(0);
        bench.taken();
        assert_eq!(bench.stream.message(bench.now, &end()), None);
        assert_eq!(bench.status().unreadable, 1);
        bench.taken();
        assert_eq!(bench.live_message(1), None);
        assert_eq!(bench.taken(), events([1]), "the next one is taken");
    }
}

#[test]
fn an_engine_that_has_said_nothing_is_known_to_be_empty() {
    let mut bench = Bench::new(true);
    bench.stream.connected(bench.now);
    assert_eq!(bench.end(), Some(Ask::EndReplay));
    assert_eq!(bench.taken(), noticed(Begun, vec![]));
    bench.live_message(0);
    bench.live_message(1);
    assert_eq!(bench.taken(), events(0..=1));
}

#[test]
fn what_is_lost_after_an_engine_had_said_nothing_is_fetched_or_said_to_be() {
    let empty = || {
        let mut bench = Bench::new(true);
        bench.stream.connected(bench.now);
        bench.end();
        assert_eq!(bench.taken(), noticed(Begun, vec![]));
        bench
    };
    let mut bench = empty();
    assert_eq!(bench.live_message(1), Some(Ask::Replay(0)));
    assert_eq!(bench.taken(), noticed(Suspended(Gap), vec![]), "at once");
    (0..=1).for_each(|n| assert_eq!(bench.replayed(n), None));
    assert_eq!(bench.end(), Some(Ask::EndReplay));
    assert_eq!(bench.taken(), noticed(Begun, events(0..=1)));

    // Some count from one.
    let mut from_one = empty();
    assert_eq!(from_one.live_message(1), Some(Ask::Replay(0)));
    from_one.replayed(1);
    from_one.end();
    assert_eq!(from_one.taken().last(), Some(&Out::Event(1)));
    from_one.live_message(2);
    assert_eq!(from_one.taken(), events([2]));

    let mut lost = empty();
    lost.live_message(3);
    lost.stream.replay_failed(lost.now);
    assert_eq!(lost.taken(), noticed(Lost(Gap), events([3])));
    // One that was held back may have had one before it as well.
    let mut waiting = Bench::new(true);
    waiting.stream.connected(waiting.now);
    waiting.live_message(1);
    assert_eq!(
        waiting.end(),
        Some(Ask::Replay(0)),
        "zero may have been dropped"
    );
    (0..=1).for_each(|n| assert_eq!(waiting.replayed(n), None));
    waiting.end();
    assert_eq!(waiting.taken(), noticed(Begun, events(0..=1)));
    // A publisher that keeps nothing is believed in the end.
    let mut forgetful = Bench::new(true);
    forgetful.stream.connected(forgetful.now);
    forgetful.live_message(1);
    (0..3).for_each(|_| assert_eq!(forgetful.end(), Some(Ask::Replay(0))));
    assert_eq!(forgetful.end(), Some(Ask::EndReplay));
    assert_eq!(forgetful.taken(), noticed(Begun, events([1])));
}

#[test]
fn without_replay_only_a_first_message_is_a_beginning() {
    let mut bench = Bench::new(false);
    assert_eq!(bench.stream.connected(bench.now), None);
    bench.live_message(0);
    bench.live_message(1);
    assert_eq!(bench.taken(), noticed(Begun, events(0..=1)));
    let mut late = Bench::new(false);
    late.live_message(1);
    late.live_message(2);
    assert_eq!(late.taken(), noticed(Lost(JoinedLate), events(1..=2)));
}

#[test]
fn what_was_skipped_is_asked_for_and_applied_in_order() {
    let mut bench = Bench::live(true);
    assert_eq!(bench.live_message(8), Some(Ask::Replay(5)));
    assert_eq!(bench.taken(), noticed(Suspended(Gap), vec![]), "at once");
    bench.live_message(9);
    (5..=7).for_each(|n| assert_eq!(bench.replayed(n), None));
    assert_eq!(bench.end(), Some(Ask::EndReplay));
    let resumed = [events(5..=9), vec![Out::Notice(Resumed)]].concat();
    assert_eq!(bench.taken(), resumed);
    let status = bench.status();
    assert_eq!(
        (status.gaps, status.replays, status.sequence),
        (1, 2, Some(9))
    );
}

#[test]
fn what_cannot_be_had_is_lost_and_said_to_be() {
    let mut without = Bench::live(false);
    without.live_message(7);
    assert_eq!(without.taken(), noticed(Lost(Gap), events([7])));
    let mut forgotten = Bench::live(true);
    forgotten.live_message(9);
    forgotten.replayed(7);
    forgotten.replayed(8);
    forgotten.end();
    assert_eq!(forgotten.taken(), noticed(Lost(Gap), events([7, 8, 9])));
    let mut silent = Bench::live(true);
    silent.live_message(9);
    assert_eq!(silent.after(1), None);
    assert_eq!(silent.after(2), Some(Ask::EndReplay));
    assert_eq!(silent.taken(), noticed(Lost(Gap), events([9])));
    silent.live_message(12);
    let soon = silent.taken();
    assert_eq!(
        soon,
        noticed(Lost(Gap), events([12])),
        "no replay again so soon"
    );
    silent.after(40);
    assert_eq!(silent.live_message(15), Some(Ask::Replay(13)));
    let mut away = Bench::live(true);
    away.live_message(9);
    assert_eq!(away.stream.replay_failed(away.now), Some(Ask::EndReplay));
    assert_eq!(away.taken(), noticed(Lost(Gap), events([9])));
}

#[test]
fn more_that_is_skipped_during_a_replay_is_asked_for_too() {
    let mut bench = Bench::live(true);
    bench.live_message(8);
    bench.live_message(12);
    (5..=7).for_each(|n| assert_eq!(bench.replayed(n), None));
    assert_eq!(bench.end(), Some(Ask::Replay(9)));
    (9..=11).for_each(|n| assert_eq!(bench.replayed(n), None));
    assert_eq!(bench.end(), Some(Ask::EndReplay));
    let resumed = [events(5..=12), vec![Out::Notice(Resumed)]].concat();
    assert_eq!(bench.taken(), noticed(Suspended(Gap), resumed));
}

#[test]
fn a_number_that_goes_back_is_a_publisher_that_began_anew() {
    let mut bench = Bench::live(true);
    assert_eq!(bench.live_message(0), None);
    assert_eq!(bench.taken(), noticed(Begun, events([0])));
    let mut later = Bench::live(true);
    assert_eq!(later.live_message(2), Some(Ask::Replay(0)));
    assert_eq!(later.taken(), noticed(Suspended(Restarted), vec![]));
    later.replayed(0);
    later.replayed(1);
    later.end();
    assert_eq!(later.taken(), noticed(Begun, events(0..=2)));
    let mut without = Bench::live(false);
    without.live_message(2);
    assert_eq!(without.taken(), noticed(Lost(Restarted), events([2])));
}

#[test]
fn a_broken_connection_counts_until_the_publisher_has_shown_who_it_is() {
    let mut same = Bench::live(true);
    assert_eq!(same.stream.disconnected(), None);
    assert_eq!(same.taken(), noticed(Suspended(Disconnected), vec![]));
    assert_eq!(same.stream.connected(same.now), Some(Ask::Replay(4)));
    same.replayed(4);
    same.replayed(5);
    same.end();
    assert_eq!(
        same.taken(),
        [events([5]), vec![Out::Notice(Resumed)]].concat()
    );
    let mut other = Bench::live(true);
    other.stream.disconnected();
    other.stream.connected(other.now);
    let stranger = other.stream.replayed(other.now, &parts(4, 99));
    assert_eq!(
        stranger,
        Some(Ask::Replay(0)),
        "the same number, another message"
    );
    (0..=4).for_each(|n| assert_eq!(other.stream.replayed(other.now, &parts(n, n + 50)), None));
    other.end();
    assert_eq!(other.taken(), noticed(Begun, events(50..=54)));
    let mut empty = Bench::live(true);
    empty.stream.disconnected();
    empty.stream.connected(empty.now);
    assert_eq!(
        empty.end(),
        Some(Ask::Replay(0)),
        "it does not know its last message"
    );
    assert_eq!(empty.end(), Some(Ask::EndReplay));
    assert_eq!(empty.taken(), noticed(Begun, vec![]));
    let mut without = Bench::live(false);
    without.stream.disconnected();
    assert_eq!(without.taken(), noticed(Suspended(Disconnected), vec![]));
    without.stream.connected(without.now);
    let unconfirmed = noticed(Suspended(Unconfirmed), vec![]);
    assert_eq!(without.taken(), unconfirmed, "it is there, and no more");
    without.live_message(5);
    let unsure = without.taken();
    assert_eq!(
        unsure,
        noticed(Lost(Disconnected), events([5])),
        "by chance it may follow"
    );
    let mut mute = Bench::live(true);
    mute.stream.disconnected();
    mute.stream.connected(mute.now);
    assert_eq!(mute.after(3), Some(Ask::EndReplay), "no answer");
    assert_eq!(mute.taken(), unconfirmed);
    mute.stream.disconnected();
    assert_eq!(mute.taken(), noticed(Suspended(Disconnected), vec![]));
}

#[test]
fn a_connection_that_broke_before_anything_came_leaves_no_doubt_behind() {
    let mut bench = Bench::new(false);
    bench.stream.connected(bench.now);
    bench.stream.disconnected();
    assert_eq!(bench.taken(), noticed(Suspended(Disconnected), vec![]));
    bench.stream.connected(bench.now);
    assert_eq!(bench.taken(), noticed(Resumed, vec![]));
    bench.live_message(0);
    assert_eq!(bench.taken(), noticed(Begun, events([0])));
    // One that had sent nothing, whose replay socket is then gone for a while.
    let mut idle = Bench::new(true);
    idle.stream.connected(idle.now);
    idle.end();
    assert_eq!(idle.taken(), noticed(Begun, vec![]));
    for _ in 0..2 {
        idle.stream.disconnected();
        idle.stream.connected(idle.now);
        idle.stream.replay_failed(idle.now);
    }
    idle.taken();
    idle.live_message(9);
    let after = idle.taken();
    assert!(after.ends_with(&events([9])), "{after:?}");
    assert_eq!(idle.live_message(10), None);
    assert_eq!(idle.taken(), events([10]));
}

#[test]
fn what_cannot_be_read_voids_the_stream_and_no_more() {
    let mut bench = Bench::live(true);
    let mut bad = parts(5, 5);
    bad[2].truncate(20);
    bench.stream.message(bench.now, &bad);
    bench.live_message(6);
    assert_eq!(bench.taken(), noticed(Lost(Unreadable), events([6])));
    bench.stream.message(bench.now, &vec![b"one part".to_vec()]);
    assert_eq!(bench.taken(), noticed(Lost(Unreadable), vec![]));
    assert_eq!(bench.status().unreadable, 2);
}

/// A batch of events that are known by their kind alone, and of a block's removal in between.
fn of_kinds(before: &[&str], name: u64, after: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0x93, 0xc0, 0x91 + (before.len() + after.len()) as u8];
    let kind = |bytes: &mut Vec<u8>, kind: &str| {
        bytes.extend([0x91, 0xa0 + kind.len() as u8]);
        bytes.extend(kind.bytes());
    };
    before.iter().for_each(|each| kind(&mut bytes, each));
    bytes.extend(b"\x92\xacBlockRemoved\x91\xcf");
    bytes.extend(name.to_be_bytes());
    after.iter().for_each(|each| kind(&mut bytes, each));
    bytes.push(0);
    bytes
}

#[test]
fn what_is_of_a_kind_that_is_not_known_casts_doubt_until_the_publisher_is_empty() {
    const ODD: &str = "BlockBorrowed";
    const CLEAR: &str = "AllBlocksCleared";
    let mut bench = Bench::live(true);
    let mut sequence = 4;
    let mut send = |bench: &mut Bench, before: &[&str], after: &[&str]| {
        sequence += 1;
        let payload = of_kinds(before, sequence, after);
        let message = vec![vec![], sequence.to_be_bytes().to_vec(), payload];
        bench.stream.message(bench.now, &message);
        let mut deliveries = Vec::new();
        while bench.inbox.take(usize::MAX, &mut deliveries) {}
        let notices = deliveries.into_iter().filter_map(|each| match each.parcel {
            Parcel::Notice(notice) => Some(Out::Notice(notice)),
            _ => None,
        });
        notices.collect::<Vec<_>>()
    };
    let doubted = [Out::Notice(Lost(UnknownEvent))];
    assert_eq!(send(&mut bench, &[], &[]), []);
    assert_eq!(send(&mut bench, &[ODD], &[]), doubted);
    assert_eq!(send(&mut bench, &[], &[ODD, ODD]), [], "it goes on so");
    assert_eq!(
        send(&mut bench, &[ODD, CLEAR], &[]),
        [],
        "all of it is gone"
    );
    assert_eq!(
        send(&mut bench, &[CLEAR], &[ODD]),
        doubted,
        "none of this is"
    );
    assert_eq!(send(&mut bench, &[CLEAR], &[]), []);
    assert_eq!(send(&mut bench, &[], &[ODD]), doubted);
    // Another publisher.
    bench.stream.message(bench.now, &parts(0, 0));
    assert_eq!(bench.taken(), noticed(Begun, events([0])));
    let payload = of_kinds(&[], 1, &[ODD]);
    let message = vec![vec![], 1_u64.to_be_bytes().to_vec(), payload];
    bench.stream.message(bench.now, &message);
    assert_eq!(
        bench.taken(),
        doubted,
        "what it tells with that is void too"
    );
    let met: Vec<_> = bench.status().tally.met().collect();
    assert_eq!(met, [(Oddity::UnknownEvent, 7)]);
    assert_eq!(bench.status().unreadable, 0);
}

#[test]
fn a_publisher_that_floods_loses_its_own_and_is_replayed_when_there_is_room() {
    let mut bench = Bench::live(true);
    let others = StreamKey::Rank { worker: 1, rank: 0 };
    let mut other = Stream::new(others, Arc::clone(&bench.inbox), Contents::Blocks, false);
    other.message(bench.now, &parts(0, 1_000_000));
    let mut sent = 5;
    while bench.status().floods == 0 {
        assert_eq!(bench.live_message(sent), None);
        sent += 1;
    }
    assert_eq!(bench.status().pending, 0, "what waited of it is void");
    let per_message = 2;
    assert_eq!(sent - 5, (MAX_PENDING / per_message) as u64 + 1);
    bench.live_message(sent);
    let lost = bench.taken();
    let expected = [
        Out::Notice(Lost(Flooded)),
        Out::Notice(Begun),
        Out::Event(1_000_000),
    ];
    assert_eq!(lost, expected, "and the other goes on");
    assert_eq!(bench.after(1), Some(Ask::Replay(0)));
    bench.replayed(0);
    bench.end();
    assert_eq!(bench.taken(), noticed(Begun, events([0])));
}

#[test]
fn hundreds_of_thousands_of_tiny_batches_are_taken_in_bounded_slices() {
    let mut bench = Bench::live(false);
    let (mut deliveries, mut seen) = (Vec::new(), 0);
    for n in 5..200_005 {
        bench.live_message(n);
        if n % 1_000 == 0 {
            deliveries.clear();
            bench.inbox.take(1_024, &mut deliveries);
            assert!(deliveries.len() <= 512);
            seen += deliveries.len();
            bench.stream.tick(bench.now);
        }
    }
    let status = bench.status();
    assert!(status.floods > 0, "taking half of what comes is too slow");
    assert!(status.pending <= MAX_PENDING && seen > 50_000);
}

/// Whatever happens, events are applied without a gap, unless it is said that there is one.
#[test]
fn no_event_is_ever_applied_after_a_gap_that_nobody_was_told_of() {
    let mut random = 0x9e37_79b9_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let (mut resumed, mut lost, mut begun) = (0, 0, 0);
    for _ in 0..2_000 {
        let mut bench = Bench::new(next(4) > 0);
        let (mut head, mut epoch, mut replay) = (0_u64, 0_u64, None);
        let mut out = Vec::new();
        // The name of a block says which publisher's message it is of.
        let name = |epoch: u64, sequence: u64| epoch << 32 | sequence;
        let mut ask = bench.stream.connected(bench.now);
        for _ in 0..60 {
            match ask.take() {
                Some(Ask::Replay(from)) => replay = Some(from),
                Some(Ask::EndReplay) => replay = None,
                None => {}
            }
            let now = bench.now;
            ask = match (next(12), replay) {
                (0, _) => {
                    head += next(3);
                    None
                }
                (1, _) => {
                    let ended = bench.stream.disconnected();
                    replay = replay.filter(|_| ended.is_none());
                    if next(2) == 0 {
                        (epoch, head) = (epoch + 1, next(3));
                    }
                    bench.stream.connected(now)
                }
                (2, _) => bench.after(next(3)),
                (3, Some(_)) => {
                    replay = None;
                    bench.stream.replay_failed(now)
                }
                (4..8, Some(from)) if from < head => {
                    // A publisher that forgets some of it.
                    let at = if next(8) == 0 { from + next(3) } else { from }.min(head - 1);
                    replay = Some(at + 1);
                    bench.stream.replayed(now, &parts(at, name(epoch, at)))
                }
                (4..8, Some(_)) => {
                    replay = None;
                    bench.stream.replayed(now, &end())
                }
                _ => {
                    head += 1;
                    bench
                        .stream
                        .message(now, &parts(head - 1, name(epoch, head - 1)))
                }
            };
            if next(3) == 0 {
                out.extend(bench.taken());
            }
        }
        out.extend(bench.taken());
        let (mut last, mut is_told) = (None, false);
        for each in out {
            match each {
                Out::Event(name) => {
                    let follows = last.is_some_and(|last| name == last + 1);
                    assert!(follows || is_told, "{name} after {last:?}");
                    (last, is_told) = (Some(name), false);
                }
                Out::Notice(notice) => {
                    is_told |= matches!(notice, Begun | Lost(_));
                    resumed += usize::from(notice == Resumed);
                    lost += usize::from(matches!(notice, Lost(_)));
                    begun += usize::from(notice == Begun);
                }
            }
        }
    }
    assert!(
        resumed > 80 && lost > 500 && begun > 500,
        "{resumed} {lost} {begun}"
    );
}
