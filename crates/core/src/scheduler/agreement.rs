//! Do prompts and an engine's events speak of the same tokens?
//!
//! Nothing else shows when they do not: events come, prompts come, and none matches, or all match what the
//! engine does not have. So each report of an engine is held against what was believed: how long the prompt
//! is, and how much of it was cached. One report may have a reason of its own (a block was removed
//! meanwhile), several are a state, which ends when the engine begins anew. What is the matter is guessed
//! from what differs, for the reader: the state does not depend on it.
//!
//! The first prompts say it at once: an engine that had nothing of one has computed its first block, and
//! stores it. When it has told of others meanwhile and not of that one, its blocks are of other tokens;
//! until something has matched that is enough, afterwards it counts like any report. Should it tell of the
//! block after all, it was only late.
use std::collections::VecDeque;

use crate::block::Chain;
use crate::event::{Cause, Doubt};
use crate::id::Micros;

/// A report that contradicts weighs twice as much as one that agrees, so that one turn in three is enough.
const CONTRADICTS: u8 = 2;
/// Four in a row.
const LIMIT: u8 = 8;
/// Blocks of another size in a row that mean a wrong setting; the first one does before any of the right one.
const WRONG_SIZES: u8 = 4;
/// How late an engine may tell what it has stored.
const LATE: Micros = Micros::from_secs(5);
/// First blocks that are waited for at once.
const AWAITED: usize = 4;

/// Prompts and events that do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Why, most likely.
    pub cause: Cause,
    /// What was believed: tokens of a block, of a prompt, or cached ones, as the cause goes.
    pub ours: u32,
    /// What the engine said.
    pub theirs: u32,
    /// Since when.
    pub since: Micros,
}

impl Disagreement {
    /// The same as a doubt.
    #[must_use]
    pub const fn doubt(&self) -> Doubt {
        match self.cause {
            Cause::BlockSize => Doubt::BlockSize,
            _ => Doubt::Tokens,
        }
    }
}

/// One turn's end, and what had been believed of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    /// Tokens of the prompt; absent where they were not counted one by one.
    pub(super) prompt: Option<u32>,
    /// The same as the engine says it.
    pub(super) reported_prompt: Option<u32>,
    /// Tokens that its events said it had.
    pub(super) cached: u32,
    /// Tokens that it says it had.
    pub(super) reported_cached: Option<u32>,
    pub(super) offers_tools: bool,
    pub(super) is_salted: bool,
}

/// The first block of a prompt that the engine had nothing of.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    first: Chain,
    cause: Cause,
    until: Micros,
}

#[derive(Clone, Debug)]
pub(super) struct Agreement {
    block_tokens: u32,
    /// The size of the engine's blocks, as its last store had it.
    engine_block_tokens: Option<u32>,
    /// Whether any block was of our size.
    has_size: bool,
    wrong_sizes: u8,
    /// Whether anything has matched since the engine began.
    has_matched: bool,
    awaited: VecDeque<Awaited>,
    /// What was not told of in time, where that is what was found.
    missed: Option<Awaited>,
    doubts: u8,
    found: Option<Disagreement>,
}

impl Agreement {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens,
            engine_block_tokens: None,
            has_size: false,
            wrong_sizes: 0,
            has_matched: false,
            awaited: VecDeque::new(),
            missed: None,
            doubts: 0,
            found: None,
        }
    }

    pub(super) fn found(&self) -> Option<Disagreement> {
        self.found
    }

    /// The size of the engine's blocks; unknown before its first store.
    pub(super) fn engine_block_tokens(&self) -> Option<u32> {
        self.engine_block_tokens
    }

    /// The engine has stored blocks of that size.
    pub(super) fn stored(&mut self, now: Micros, block_tokens: u32) {
        self.engine_block_tokens = Some(block_tokens);
        if block_tokens == self.block_tokens {
            self.has_size = true;
            self.wrong_sizes = 0;
            self.found = self.found.filter(|found| found.cause != Cause::BlockSize);
            return;
        }
        self.wrong_sizes = self.wrong_sizes.saturating_add(1);
        let enough = if self.has_size { WRONG_SIZES } else { 1 };
        if self.wrong_sizes == enough && self.found.is_none() {
            self.found = Some(Disagreement {
                cause: Cause::BlockSize,
                ours: self.block_tokens,
                theirs: block_tokens,
                since: now,
            });
        }
    }

    /// A turn of tokens has ended.
    pub(super) fn compare(&mut self, now: Micros, report: &Report) {
        let Some(contradiction) = self.contradiction(now, report) else {
            return;
        };
        self.has_matched |= contradiction.is_none();
        self.weigh(contradiction);
    }

    /// What is found once there is enough of it.
    fn weigh(&mut self, contradiction: Option<Disagreement>) {
        self.doubts = match contradiction {
            Some(_) => (self.doubts + CONTRADICTS).min(LIMIT),
            None => self.doubts.saturating_sub(1),
        };
        if self.doubts == LIMIT && self.found.is_none() {
            self.found = contradiction;
        }
    }

    /// The engine had nothing of a prompt that begins with this block: it will tell of it.
    pub(super) fn expect(&mut self, now: Micros, report: &Report, first: impl FnOnce() -> Chain) {
        if self.awaited.len() < AWAITED {
            self.awaited.push_back(Awaited {
                first: first(),
                cause: cause_of(report),
                until: now.plus(LATE),
            });
        }
    }

    /// Looks whether the engine `has` told of what it should have by now.
    pub(super) fn look(&mut self, now: Micros, has: impl Fn(&Chain) -> bool) {
        if self
            .missed
            .as_ref()
            .is_some_and(|missed| has(&missed.first))
        {
            self.believe_again();
        }
        while self.awaited.front().is_some_and(|one| one.until <= now)
            && let Some(due) = self.awaited.pop_front()
        {
            if has(&due.first) {
                self.has_matched = true;
                self.weigh(None);
            } else if self.has_size && self.found.is_none() {
                self.miss(now, due);
            }
        }
    }

    fn miss(&mut self, now: Micros, due: Awaited) {
        if !self.has_matched {
            self.doubts = LIMIT;
        }
        self.weigh(Some(Disagreement {
            cause: due.cause,
            ours: self.block_tokens,
            theirs: 0,
            since: now,
        }));
        self.missed = self.found.map(|_| due);
    }

    /// The engine gives blocks up: whether it has told of one cannot be seen any more.
    pub(super) fn removed(&mut self) {
        self.awaited.clear();
    }

    /// A new engine, or an empty one, is believed anew.
    pub(super) fn believe_again(&mut self) {
        self.doubts = 0;
        self.has_matched = false;
        self.awaited.clear();
        self.missed = None;
        self.found = self.found.filter(|found| found.cause == Cause::BlockSize);
    }

    /// What contradicts; `None` of the outer where the report says nothing either way.
    fn contradiction(&self, now: Micros, report: &Report) -> Option<Option<Disagreement>> {
        let differ = |cause, ours, theirs| {
            Some(Disagreement {
                cause,
                ours,
                theirs,
                since: now,
            })
        };
        let lengths = report.prompt.zip(report.reported_prompt);
        if let Some((ours, theirs)) = lengths.filter(|(ours, theirs)| ours != theirs) {
            let cause = match ours.abs_diff(theirs) {
                1 => Cause::Bos,
                _ if theirs > ours && report.offers_tools => Cause::Tools,
                _ => Cause::Template,
            };
            return Some(differ(cause, ours, theirs));
        }
        let reported = report.reported_cached?;
        let blocks = |tokens: u32| tokens / self.block_tokens;
        let (ours, theirs) = (blocks(report.cached), blocks(reported));
        if ours == 0 && theirs < 2 {
            return None;
        }
        let is_other = (ours == 0 && theirs >= 2) || (ours >= 4 && theirs == 0);
        if !is_other {
            return Some(None);
        }
        Some(differ(cause_of(report), report.cached, reported))
    }
}

/// What makes nothing match of prompts that are as long, most likely.
fn cause_of(report: &Report) -> Cause {
    match (report.is_salted, report.offers_tools) {
        (true, _) => Cause::Salt,
        (false, true) => Cause::KeyOrder,
        (false, false) => Cause::Tokens,
    }
}
