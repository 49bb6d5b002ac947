//! What is missing of a stream that has to be asked for?
//!
//! TensorRT-LLM hands its events out once, to whoever asks, in lists of consecutive ids; what its buffer had
//! no room for is gone. Whoever asks tells what came; this puts it in order and into the inbox, like the
//! messages of a publisher. No I/O and no clock.
use std::num::NonZeroU32;
use std::sync::Arc;

use warmpath_core::event::{Doubt, FeedNotice};
use warmpath_wire::{Events, TrtLlmDecoder};

use crate::inbox::Inbox;
use crate::reader::Load;
use crate::thread::StreamKey;

/// One worker whose events are asked for.
pub struct Pulled {
    key: StreamKey,
    inbox: Arc<Inbox>,
    decoder: TrtLlmDecoder,
    last: Option<u64>,
    suspended: Option<Doubt>,
    /// Whether events of a kind that is not known have come since the engine began.
    is_unclear: bool,
}

impl Pulled {
    /// A stream that nothing has come of, of an engine whose blocks have so many tokens.
    #[must_use]
    pub fn new(key: StreamKey, inbox: Arc<Inbox>, block_tokens: NonZeroU32) -> Self {
        inbox.open(key);
        Self {
            key,
            inbox,
            decoder: TrtLlmDecoder::new(block_tokens),
            last: None,
            suspended: None,
            is_unclear: false,
        }
    }

    /// The engine has handed out this list. Returns how many events of use were in it.
    pub fn answered(&mut self, text: &[u8]) -> usize {
        self.inbox.note(self.key, |status| {
            status.is_connected = true;
            status.last_error = None;
        });
        let mut events = Events::new();
        let decoded = self.decoder.decode(text, &mut events);
        let batch = decoded.ok();
        let ids = batch.and_then(|batch| batch.first.zip(batch.last));
        let (Some(batch), Some((first, last))) = (batch, ids) else {
            if batch.is_none_or(|batch| batch.is_lossy) {
                self.inbox.note(self.key, |status| status.unreadable += 1);
                self.notice(FeedNotice::Lost(Doubt::Unreadable));
            } else if self.suspended.is_some() {
                // It may have told somebody else meanwhile, or be another one: the next id says so.
                self.suspend(Doubt::Unconfirmed);
            }
            return 0;
        };
        self.follow(first);
        self.last = Some(last);
        let (blocks, tally) = (events.blocks() as u64, *self.decoder.tally());
        self.inbox.note(self.key, |status| {
            status.sequence = Some(last);
            status.messages += 1;
            status.blocks += blocks;
            status.tally = tally;
        });
        if batch.is_lossy {
            self.inbox.note(self.key, |status| status.gaps += 1);
            self.notice(FeedNotice::Lost(Doubt::Gap));
        }
        let count = events.len();
        if count > 0 && !self.inbox.push(self.key, Load::Blocks(events)) {
            self.inbox.note(self.key, |status| status.floods += 1);
            self.notice(FeedNotice::Lost(Doubt::Flooded));
        } else if batch.is_unclear && !std::mem::replace(&mut self.is_unclear, true) {
            self.notice(FeedNotice::Lost(Doubt::UnknownEvent));
        }
        count
    }

    /// It could not be asked. Until it answers with what follows, it may be another one.
    pub fn failed(&mut self, why: &str) {
        self.inbox.note(self.key, |status| {
            status.disconnects += u64::from(status.is_connected);
            status.is_connected = false;
            status.last_error = Some(why.to_owned());
        });
        if self.last.is_some() {
            self.suspend(Doubt::Disconnected);
        }
    }

    fn suspend(&mut self, doubt: Doubt) {
        if self.suspended.replace(doubt) != Some(doubt) {
            self.inbox.notice(self.key, FeedNotice::Suspended(doubt));
        }
    }

    /// Says what the id of the next event means.
    fn follow(&mut self, first: u64) {
        let expected = self.last.map(|last| last.wrapping_add(1));
        match (expected, first) {
            (Some(expected), first) if first == expected => {
                if self.suspended.is_some() {
                    self.notice(FeedNotice::Resumed);
                }
            }
            (None, 0) => self.notice(FeedNotice::Begun),
            (None, _) => self.notice(FeedNotice::Lost(Doubt::JoinedLate)),
            (Some(_), 0) => {
                self.inbox.note(self.key, |status| status.restarts += 1);
                self.notice(FeedNotice::Begun);
            }
            (Some(expected), first) => {
                let is_gap = first > expected;
                self.inbox.note(self.key, |status| match is_gap {
                    true => status.gaps += 1,
                    false => status.restarts += 1,
                });
                let doubt = if is_gap { Doubt::Gap } else { Doubt::Restarted };
                self.notice(FeedNotice::Lost(doubt));
            }
        }
    }

    fn notice(&mut self, notice: FeedNotice) {
        self.suspended = None;
        self.is_unclear &= notice != FeedNotice::Begun;
        self.inbox.notice(self.key, notice);
    }
}

impl Drop for Pulled {
    fn drop(&mut self) {
        self.inbox.close(self.key);
    }
}
