//! What is a stream waiting for, and what has come meanwhile?
use std::collections::VecDeque;

use warmpath_core::Micros;
use warmpath_core::event::Doubt;

use crate::message::Message;

#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) purpose: Purpose,
    pub(crate) doubt: Doubt,
    pub(crate) held: VecDeque<(u64, Vec<u8>)>,
    pub(crate) held_bytes: usize,
    pub(crate) has_answered: bool,
    pub(crate) began: Micros,
    pub(crate) heard: Micros,
    pub(crate) tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything there is.
    Join,
    /// What was skipped.
    Fill,
    /// The last message and what came after, to see whether it is the publisher of before.
    Rejoin,
}

impl Replay {
    pub(crate) fn new(now: Micros, purpose: Purpose, doubt: Doubt) -> Self {
        Self {
            purpose,
            doubt,
            held: VecDeque::new(),
            held_bytes: 0,
            has_answered: false,
            began: now,
            heard: now,
            tries: 0,
        }
    }

    /// Keeps a message for the end of the replay.
    pub(crate) fn hold(&mut self, message: Message<'_>) {
        self.held_bytes += message.payload.len();
        self.held
            .push_back((message.sequence, message.payload.to_vec()));
    }

    /// The same once more.
    pub(crate) fn again(self, now: Micros, purpose: Purpose) -> Self {
        Self {
            purpose,
            doubt: Doubt::Gap,
            has_answered: false,
            began: now,
            heard: now,
            tries: self.tries + 1,
            ..self
        }
    }
}
