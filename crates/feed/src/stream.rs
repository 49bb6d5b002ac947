//! What of a publisher's stream is missing, and how is it to be had?
//!
//! Messages are numbered, and publishers drop what a subscriber is too slow for. A number that is skipped
//! is asked for at the replay socket, and what comes meanwhile is held back, so that events are applied in
//! order or not at all; until then the worker is under suspicion. What cannot be had is lost, and said to
//! be. A number that goes back, or a last message that the publisher does not know any more after a
//! broken connection, is a publisher that began anew.
//!
//! No I/O and no clock: whoever owns the sockets tells what happened and does what is asked.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use warmpath_core::Micros;
use warmpath_core::event::{Doubt, FeedNotice};

use crate::inbox::Inbox;
use crate::message::Message;
use crate::reader::{Contents, Reader};
use crate::replay::{Purpose, Replay};
use crate::thread::StreamKey;
use crate::zmtp::Parts;

/// A replay that says nothing for so long has failed.
const REPLAY_IDLE: Micros = Micros::from_secs(2);
/// A replay takes no longer.
const REPLAY_TOTAL: Micros = Micros::from_secs(60);
/// After one that failed, no other is asked for so long.
const REPLAY_COOLDOWN: Micros = Micros::from_secs(30);
/// Replays in a row for what goes on missing.
const MAX_TRIES: u32 = 3;
/// The most that is held back during a replay, in bytes.
const MAX_HELD: usize = 8 << 20;

/// What the owner of the sockets is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To ask the replay socket, on a new connection, for everything from that number on.
    Replay(u64),
    /// To close that connection.
    EndReplay,
}

/// One rank of one worker, or one store.
pub struct Stream {
    key: StreamKey,
    inbox: Arc<Inbox>,
    reader: Reader,
    last: Option<Last>,
    phase: Phase,
    suspended: Option<Doubt>,
    /// Whether events of a kind that is not known have come since the publisher was known to be empty.
    is_unclear: bool,
    can_replay: bool,
    no_replay_before: Micros,
}

/// The last message taken in, and a fingerprint of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    sequence: u64,
    print: u64,
}

#[derive(Debug)]
enum Phase {
    /// Nothing has come yet of whoever is connected now; unless it is a first message, something is
    /// missing.
    Fresh(Doubt),
    /// The publisher had sent nothing: its first message is next. Some begin to count at one, so that
    /// another number than zero may be that, or the second one.
    First,
    /// The next message counts, whatever its number is.
    Any,
    Live,
    CatchingUp(Replay),
    /// Too much has come.
    Flooded,
}

impl Stream {
    /// A stream that nothing has come of.
    #[must_use]
    pub fn new(key: StreamKey, inbox: Arc<Inbox>, contents: Contents, can_replay: bool) -> Self {
        inbox.open(key);
        Self {
            key,
            inbox,
            reader: Reader::new(contents),
            last: None,
            phase: Phase::Fresh(Doubt::JoinedLate),
            suspended: None,
            is_unclear: false,
            can_replay,
            no_replay_before: Micros(0),
        }
    }

    /// Whether there is room for more of a replay.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.inbox.has_room(self.key)
    }

    /// There is a connection to the publisher.
    pub fn connected(&mut self, now: Micros) -> Option<Ask> {
        self.inbox.note(self.key, |status| {
            (status.is_connected, status.last_error) = (true, None);
        });
        match self.last {
            Some(last) if self.may_replay(now) => {
                self.catch_up(now, Purpose::Rejoin, Doubt::Disconnected, last.sequence)
            }
            None if self.may_replay(now) => self.catch_up(now, Purpose::Join, Doubt::JoinedLate, 0),
            Some(_) => {
                // A number that follows may be another publisher's by chance.
                self.phase = Phase::Fresh(Doubt::Disconnected);
                self.suspend(Doubt::Unconfirmed);
                None
            }
            None => {
                match (self.suspended, &self.phase) {
                    (None, _) => {}
                    // Nothing was known, so nothing can be wrong.
                    (_, Phase::Fresh(_)) => self.resume(),
                    _ => self.suspend(Doubt::Unconfirmed),
                }
                None
            }
        }
    }

    /// The connection to the publisher is no more.
    pub fn disconnected(&mut self) -> Option<Ask> {
        self.inbox.note(self.key, |status| {
            status.is_connected = false;
            status.disconnects += 1;
        });
        self.suspend(Doubt::Disconnected);
        match std::mem::replace(&mut self.phase, Phase::Live) {
            Phase::CatchingUp(_) => Some(Ask::EndReplay),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// The publisher has sent something.
    pub fn message(&mut self, now: Micros, parts: &Parts) -> Option<Ask> {
        // The number that ends a replay is nobody's: what follows it would be before it for ever.
        let Some(message) = Message::parse(parts).filter(|message| !message.is_end()) else {
            self.unreadable();
            return None;
        };
        match &mut self.phase {
            Phase::Flooded => None,
            Phase::CatchingUp(replay) => {
                replay.hold(message);
                match replay.held_bytes > MAX_HELD {
                    true => self.give_up(now, Doubt::Flooded),
                    false => None,
                }
            }
            &mut Phase::Fresh(doubt) => {
                self.notice(match message.sequence == self.reader.first() {
                    true => FeedNotice::Begun,
                    false => FeedNotice::Lost(doubt),
                });
                self.phase = Phase::Live;
                self.apply(message);
                None
            }
            Phase::First if message.sequence != 0 => self.first(now, message),
            Phase::First | Phase::Any => {
                self.resume();
                self.phase = Phase::Live;
                self.apply(message);
                None
            }
            Phase::Live => self.live(now, message),
        }
    }

    /// The replay socket has answered.
    pub fn replayed(&mut self, now: Micros, parts: &Parts) -> Option<Ask> {
        let Phase::CatchingUp(replay) = &mut self.phase else {
            return Some(Ask::EndReplay);
        };
        replay.heard = now;
        let is_first = !std::mem::replace(&mut replay.has_answered, true);
        let (purpose, doubt) = (replay.purpose, replay.doubt);
        if is_first {
            self.inbox.note(self.key, |status| status.last_error = None);
        }
        let Some(message) = Message::parse(parts) else {
            return self.give_up(now, Doubt::Unreadable);
        };
        if message.is_end() {
            if is_first && purpose == Purpose::Rejoin {
                return self.begin_anew(now);
            }
            return self.finish(now, is_first);
        }
        if is_first && purpose == Purpose::Rejoin {
            return match Some(Last::of(message)) == self.last {
                true => None,
                false => self.begin_anew(now),
            };
        }
        if is_first && purpose == Purpose::Join {
            self.last = None;
            self.notice(match message.sequence {
                0 | 1 => FeedNotice::Begun,
                _ => FeedNotice::Lost(doubt),
            });
        }
        self.go_on(message);
        None
    }

    /// The replay socket cannot be reached, or has left.
    pub fn replay_failed(&mut self, now: Micros) -> Option<Ask> {
        match &self.phase {
            Phase::CatchingUp(replay) => self.give_up(now, replay.doubt),
            _ => None,
        }
    }

    /// Some time has passed.
    pub fn tick(&mut self, now: Micros) -> Option<Ask> {
        match &self.phase {
            Phase::CatchingUp(replay) => {
                let is_idle = now.since(replay.heard) > REPLAY_IDLE && self.has_room();
                let is_over = now.since(replay.began) > REPLAY_TOTAL;
                match is_idle || is_over {
                    true => self.give_up(now, replay.doubt),
                    false => None,
                }
            }
            Phase::Flooded if self.has_room() => match self.may_replay(now) {
                true => self.catch_up(now, Purpose::Join, Doubt::Flooded, 0),
                false => {
                    self.phase = Phase::Any;
                    None
                }
            },
            _ => None,
        }
    }

    /// The first message to come of a publisher that had sent nothing may not be its first.
    fn first(&mut self, now: Micros, message: Message<'_>) -> Option<Ask> {
        if !self.may_replay(now) {
            self.inbox.note(self.key, |status| status.gaps += 1);
            self.notice(FeedNotice::Lost(Doubt::Gap));
            self.phase = Phase::Live;
            self.apply(message);
            return None;
        }
        self.suspend(Doubt::Gap);
        let ask = self.catch_up(now, Purpose::Join, Doubt::Gap, 0);
        if let Phase::CatchingUp(replay) = &mut self.phase {
            replay.hold(message);
        }
        ask
    }

    fn live(&mut self, now: Micros, message: Message<'_>) -> Option<Ask> {
        let expected = self.last.map_or(0, |last| last.sequence.wrapping_add(1));
        if message.sequence == expected {
            self.resume();
            self.apply(message);
            return None;
        }
        let is_gap = message.sequence > expected;
        let doubt = if is_gap { Doubt::Gap } else { Doubt::Restarted };
        self.inbox.note(self.key, |status| match is_gap {
            true => status.gaps += 1,
            false => status.restarts += 1,
        });
        if self.may_replay(now) && message.sequence != 0 {
            self.suspend(doubt);
            let (purpose, from) = match is_gap {
                true => (Purpose::Fill, expected),
                false => (Purpose::Join, 0),
            };
            let ask = self.catch_up(now, purpose, doubt, from);
            if let Phase::CatchingUp(replay) = &mut self.phase {
                replay.hold(message);
            }
            return ask;
        }
        self.notice(match message.sequence == self.reader.first() {
            true => FeedNotice::Begun,
            false => FeedNotice::Lost(doubt),
        });
        self.apply(message);
        None
    }

    /// Applies what follows what there is; what was there before is passed over.
    fn go_on(&mut self, message: Message<'_>) {
        if let Some(last) = self.last {
            if message.sequence <= last.sequence {
                return;
            }
            if message.sequence > last.sequence + 1 {
                self.notice(FeedNotice::Lost(Doubt::Gap));
            }
        }
        self.apply(message);
    }

    /// The replay has come to its end; what was held back is next.
    fn finish(&mut self, now: Micros, is_empty: bool) -> Option<Ask> {
        let phase = std::mem::replace(&mut self.phase, Phase::Live);
        let Phase::CatchingUp(mut replay) = phase else {
            return None;
        };
        if is_empty && replay.purpose == Purpose::Join {
            self.last = None;
            let first = replay.held.front().map_or(0, |held| held.0);
            if first != 0 && replay.tries < MAX_TRIES {
                // What came before it was sent while the replay was on its way.
                self.phase = Phase::CatchingUp(replay.again(now, Purpose::Join));
                self.inbox.note(self.key, |status| status.replays += 1);
                return Some(Ask::Replay(0));
            }
            self.notice(match first {
                0 | 1 => FeedNotice::Begun,
                _ => FeedNotice::Lost(replay.doubt),
            });
            if replay.held.is_empty() {
                self.phase = Phase::First;
            }
        }
        while let Some((sequence, payload)) = replay.held.pop_front() {
            let payload = payload.as_slice();
            let expected = self.last.map(|last| last.sequence + 1);
            let is_gap = expected.is_some_and(|expected| sequence > expected);
            if is_gap && replay.tries < MAX_TRIES {
                // More was dropped while the replay was on its way.
                replay.held.push_front((sequence, payload.to_vec()));
                let from = expected.unwrap_or_default();
                self.phase = Phase::CatchingUp(replay.again(now, Purpose::Fill));
                return Some(Ask::Replay(from));
            }
            self.go_on(Message { sequence, payload });
            if matches!(self.phase, Phase::Flooded) {
                return Some(Ask::EndReplay);
            }
        }
        self.resume();
        Some(Ask::EndReplay)
    }

    /// The publisher does not know what it is said to have sent.
    fn begin_anew(&mut self, now: Micros) -> Option<Ask> {
        self.inbox.note(self.key, |status| status.restarts += 1);
        let Phase::CatchingUp(replay) = &mut self.phase else {
            return None;
        };
        (replay.purpose, replay.doubt) = (Purpose::Join, Doubt::Restarted);
        (replay.has_answered, replay.began, replay.heard) = (false, now, now);
        self.inbox.note(self.key, |status| status.replays += 1);
        Some(Ask::Replay(0))
    }

    /// What is missing cannot be had.
    fn give_up(&mut self, now: Micros, doubt: Doubt) -> Option<Ask> {
        self.no_replay_before = now.plus(REPLAY_COOLDOWN);
        let phase = std::mem::replace(&mut self.phase, Phase::Live);
        let Phase::CatchingUp(replay) = phase else {
            return None;
        };
        if replay.purpose == Purpose::Rejoin && replay.held.is_empty() {
            // Only a first message says whose it is.
            self.phase = Phase::Fresh(doubt);
            self.suspend(Doubt::Unconfirmed);
            return Some(Ask::EndReplay);
        }
        self.notice(FeedNotice::Lost(doubt));
        if replay.purpose != Purpose::Fill {
            self.last = None;
        }
        if self.last.is_none() && replay.held.is_empty() {
            self.phase = Phase::Any;
        }
        for (sequence, payload) in &replay.held {
            let (sequence, payload) = (*sequence, payload.as_slice());
            self.go_on(Message { sequence, payload });
        }
        Some(Ask::EndReplay)
    }

    fn catch_up(&mut self, now: Micros, purpose: Purpose, doubt: Doubt, from: u64) -> Option<Ask> {
        self.inbox.note(self.key, |status| status.replays += 1);
        self.phase = Phase::CatchingUp(Replay::new(now, purpose, doubt));
        Some(Ask::Replay(from))
    }

    fn may_replay(&self, now: Micros) -> bool {
        self.can_replay && now >= self.no_replay_before
    }

    fn apply(&mut self, message: Message<'_>) {
        self.last = Some(Last::of(message));
        let Some(read) = self.reader.read(message.payload) else {
            self.unreadable();
            return;
        };
        let count = read.load.count() as u64;
        self.inbox.note(self.key, |status| {
            status.sequence = Some(message.sequence);
            status.sent_at = read.at.or(status.sent_at);
            status.messages += 1;
            status.blocks += count;
            status.tally = read.tally;
        });
        if read.is_lossy {
            self.unreadable();
        }
        if let Some(void) = read.void {
            self.say(void);
        }
        self.is_unclear &= !read.clears;
        if !read.load.is_empty() && !self.inbox.push(self.key, read.load) {
            self.inbox.note(self.key, |status| status.floods += 1);
            self.notice(FeedNotice::Lost(Doubt::Flooded));
            self.phase = Phase::Flooded;
        } else if read.is_unclear && !std::mem::replace(&mut self.is_unclear, true) {
            // Of an engine that goes on so, what it tells from here on is worth no more, and no less.
            self.notice(FeedNotice::Lost(Doubt::UnknownEvent));
        }
    }

    fn unreadable(&mut self) {
        self.inbox.note(self.key, |status| status.unreadable += 1);
        self.notice(FeedNotice::Lost(Doubt::Unreadable));
    }

    fn suspend(&mut self, doubt: Doubt) {
        if self.suspended.replace(doubt) != Some(doubt) {
            self.inbox.notice(self.key, FeedNotice::Suspended(doubt));
        }
    }

    fn resume(&mut self) {
        if self.suspended.is_some() {
            self.notice(FeedNotice::Resumed);
        }
    }

    /// Says something that ends a suspension.
    fn notice(&mut self, notice: FeedNotice) {
        if notice != FeedNotice::Resumed {
            self.reader.forget();
        }
        self.say(notice);
    }

    fn say(&mut self, notice: FeedNotice) {
        self.suspended = None;
        self.is_unclear &= notice != FeedNotice::Begun;
        self.inbox.notice(self.key, notice);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.inbox.close(self.key);
    }
}

impl Last {
    fn of(message: Message<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        message.payload.hash(&mut hasher);
        Self {
            sequence: message.sequence,
            print: hasher.finish(),
        }
    }
}
