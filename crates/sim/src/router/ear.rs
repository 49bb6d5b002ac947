//! What of an engine's messages is missing, and what does the core have to know of it?
//!
//! The part of a gateway between an engine's publisher and the core: it takes messages in by their
//! number, casts doubt on a worker when one is skipped, and has it told again where engines can do that.
//! What cannot be had is lost, and said to be. It knows the core's door and nothing of what a message is
//! worth. O(changes) a message.
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::rc::Rc;

use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::event::{CacheEvent, Doubt, FeedNotice};
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_core::scheduler::Scheduler;
use warmpath_core::{Micros, WorkerId};

use super::message::{CacheChange, CacheMessage};
use crate::fleet::Recovery;

/// Times in a row that an engine is asked for what goes on missing.
const MOST_TRIES: u32 = 3;
/// Messages that wait while it tells again; more are given up.
const MOST_HELD: usize = 4_096;
/// Modelled engines have one rank.
const RANK: u32 = 0;

/// The core, at a time.
pub(super) struct Told<'a> {
    pub(super) core: &'a mut Scheduler,
    pub(super) now: Micros,
    pub(super) block_tokens: NonZeroU32,
}

/// What is heard of one worker.
#[derive(Debug)]
pub(super) struct Ear {
    worker: WorkerId,
    recovery: Recovery,
    /// The number that comes next, from an engine that has been heard.
    next: Option<u64>,
    /// Messages behind a missing one, while the engine is asked for it.
    held: Option<VecDeque<Rc<CacheMessage>>>,
    tries: u32,
    is_suspended: bool,
}

impl Ear {
    pub(super) fn new(worker: WorkerId, recovery: Recovery) -> Self {
        Self {
            worker,
            recovery,
            next: None,
            held: None,
            tries: 0,
            is_suspended: false,
        }
    }

    /// A message has come. Returns from where on the engine shall tell again.
    pub(super) fn hear(&mut self, told: &mut Told<'_>, message: &Rc<CacheMessage>) -> Option<u64> {
        if let Some(held) = &mut self.held {
            held.push_back(Rc::clone(message));
            return match held.len() > MOST_HELD {
                true => self.give_up(told),
                false => None,
            };
        }
        self.tries = 0;
        self.take_in(told, message)
    }

    /// The engine has told again what it still has. Returns from where on it shall do so once more.
    pub(super) fn hear_again(
        &mut self,
        told: &mut Told<'_>,
        messages: &[Rc<CacheMessage>],
    ) -> Option<u64> {
        let mut held = self.held.take()?;
        let known = self.next.unwrap_or(0);
        // What the engine does not have any more cannot be had.
        let has_rest = messages
            .first()
            .is_some_and(|first| first.sequence <= known);
        for message in messages.iter().filter(|one| one.sequence >= known) {
            match has_rest {
                true => self.follow(told, message),
                false => self.lose(told, message),
            }
        }
        while let Some(message) = held.pop_front() {
            if message.sequence < self.next.unwrap_or(0) {
                continue;
            }
            let asked = self.take_in(told, &message);
            if asked.is_some() {
                if let Some(waiting) = &mut self.held {
                    waiting.append(&mut held);
                }
                return asked;
            }
        }
        self.resume(told);
        None
    }

    /// The engine has died: whatever it had is gone, and the next message is another one's first.
    pub(super) fn hang_up(&mut self, told: &mut Told<'_>) {
        (self.next, self.held) = (None, None);
        self.suspend(told, Doubt::Disconnected);
    }

    fn take_in(&mut self, told: &mut Told<'_>, message: &Rc<CacheMessage>) -> Option<u64> {
        let expected = self.next.unwrap_or(0);
        if message.sequence == expected {
            self.follow(told, message);
            self.resume(told);
            return None;
        }
        if message.sequence < expected {
            return None;
        }
        if self.recovery == Recovery::Replay && self.tries < MOST_TRIES {
            self.tries += 1;
            self.suspend(told, self.doubt());
            self.held = Some(VecDeque::from([Rc::clone(message)]));
            return Some(expected);
        }
        self.lose(told, message);
        None
    }

    /// Nothing is missing before this one.
    fn follow(&mut self, told: &mut Told<'_>, message: &CacheMessage) {
        if self.next.is_none() {
            self.notice(told, FeedNotice::Begun);
        }
        self.apply(told, message);
    }

    /// If this is not the next one, what is between them is lost.
    fn lose(&mut self, told: &mut Told<'_>, message: &CacheMessage) {
        if self.next != Some(message.sequence) {
            self.notice(told, FeedNotice::Lost(self.doubt()));
        }
        self.apply(told, message);
    }

    /// The engine takes too long to tell again.
    fn give_up(&mut self, told: &mut Told<'_>) -> Option<u64> {
        for message in self.held.take()? {
            self.lose(told, &message);
        }
        None
    }

    fn doubt(&self) -> Doubt {
        match self.next {
            Some(_) => Doubt::Gap,
            None => Doubt::JoinedLate,
        }
    }

    fn suspend(&mut self, told: &mut Told<'_>, doubt: Doubt) {
        if !self.is_suspended {
            self.notice(told, FeedNotice::Suspended(doubt));
            self.is_suspended = true;
        }
    }

    fn resume(&mut self, told: &mut Told<'_>) {
        if self.is_suspended {
            self.notice(told, FeedNotice::Resumed);
        }
    }

    fn notice(&mut self, told: &mut Told<'_>, notice: FeedNotice) {
        self.is_suspended = false;
        told.core.feed_notice(told.now, self.worker, RANK, notice);
    }

    fn apply(&mut self, told: &mut Told<'_>, message: &CacheMessage) {
        self.next = Some(message.sequence + 1);
        for change in &message.changes {
            match change {
                CacheChange::Stored {
                    parent,
                    names,
                    blocks,
                } => {
                    let blocks = contents(names, blocks, told.block_tokens);
                    let blocks = StoredBlocks {
                        parent: *parent,
                        block_tokens: told.block_tokens.get(),
                        blocks: &blocks,
                    };
                    let tier = Tier::Device;
                    self.event(told, &CacheEvent::Stored { tier, blocks });
                }
                CacheChange::Removed { names } => {
                    let tier = Tier::Device;
                    self.event(told, &CacheEvent::Removed { tier, names });
                }
            }
        }
    }

    fn event(&self, told: &mut Told<'_>, event: &CacheEvent<'_>) {
        told.core.apply_event(told.now, self.worker, RANK, event);
    }
}

/// The blocks with the hashes of their own content, as prompts have them.
fn contents(names: &[u64], ids: &[u64], size: NonZeroU32) -> Vec<StoredBlock> {
    let mut one = Chain::new();
    let pairs = names.iter().zip(ids);
    pairs
        .filter_map(|(&name, &id)| {
            hash_content(&[id], size, None, Seed::default(), &mut one);
            let local = *one.hashes().first()?;
            Some(StoredBlock { name, local })
        })
        .collect()
}
