//! Which blocks of tokens did an engine make of a text?
//!
//! An engine that answers with the tokens of the prompt has rendered it once for all: when the same text
//! comes back with more behind it, its beginning is known by the engine's own tokens, and nobody has to
//! be asked. Kept are the hashes of the blocks and the last tokens, by the chain hash of the text.
//!
//! What follows may change how a text is rendered: the header of an answer that was still to be written
//! ends the prompt, and some templates take reasoning out of earlier turns. So what is known counts only
//! as far as following prompts have been seen to keep it, apart for those that answer tool calls and those
//! that do not: after [`PROOFS`] that did, without the most that any of them has lost. One that loses more
//! than [`MOST_LOST`] tokens ends that, until [`AGAIN`] in a row have kept theirs.
//!
//! Bounded by tokens; what was not used for longest goes first. Where a session goes on, only its last
//! prompt is kept, but for those that several have gone on from. O(blocks) a prompt, O(log prompts) a use.
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::block::{Chain, extend};
use crate::id::GroupId;

/// Following prompts that must have been seen to keep what is known.
const PROOFS: u32 = 2;
/// The same after one that did not.
const AGAIN: u32 = 8;
/// Tokens at the end of a prompt that following ones may lack.
const MOST_LOST: u32 = 64;
/// Blocks of a text, from its end, at which an earlier one is looked for: 1 MiB.
const MOST_NEW: usize = 1024;

/// What follows a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum After {
    /// Results of tools.
    Tools,
    /// Anything else.
    Other,
}

/// What an engine made of one text.
#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    /// Its complete blocks.
    blocks: Arc<[u64]>,
    /// Its last tokens, from the start of a block: more than [`MOST_LOST`] where it has as many.
    last: Arc<[u32]>,
    tokens: u32,
}

/// Where an earlier text ends in this one, and what was made of it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    key: u64,
    rendering: Rendering,
    /// Nothing follows: it is the same text.
    is_whole: bool,
}

/// What following prompts have kept.
#[derive(Clone, Copy, Debug)]
struct Habit {
    /// How many more must keep theirs.
    wanted: u32,
    /// The most tokens that one has lost.
    lost: u32,
}

#[derive(Debug)]
struct Entry {
    rendering: Rendering,
    used: u64,
    /// Prompts that have gone on from it.
    follows: u32,
}

/// What engines made of the last texts.
#[derive(Debug)]
pub(crate) struct Renderings {
    entries: HashMap<u64, Entry>,
    /// By their last use.
    order: BTreeMap<u64, u64>,
    habits: HashMap<(GroupId, After), Habit>,
    uses: u64,
    tokens: u64,
    limit: u64,
}

/// The tokens of a prompt that was rendered, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendered<'a> {
    pub(crate) group: GroupId,
    /// Its text.
    pub(crate) text: &'a Chain,
    /// Its blocks of tokens.
    pub(crate) blocks: &'a Chain,
    pub(crate) block_tokens: NonZeroU32,
    pub(crate) tokens: &'a [u32],
    pub(crate) after: After,
}

impl Renderings {
    /// None, and never of more than `limit` tokens.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            habits: HashMap::new(),
            uses: 0,
            tokens: 0,
            limit,
        }
    }

    /// The longest text that this one begins with, of which something is known.
    pub(crate) fn find(&mut self, group: GroupId, text: &Chain) -> Option<Known> {
        if self.entries.is_empty() {
            return None;
        }
        let mut behind = text.hashes().iter().rev().take(MOST_NEW).enumerate();
        let (ago, key) = behind.find_map(|(ago, &hash)| {
            let key = key_of(group, hash);
            self.entries.contains_key(&key).then_some((ago, key))
        })?;
        self.uses += 1;
        let entry = self.entries.get_mut(&key)?;
        self.order.remove(&entry.used);
        entry.used = self.uses;
        entry.follows = entry.follows.saturating_add(u32::from(ago > 0));
        self.order.insert(self.uses, key);
        Some(Known {
            key,
            rendering: entry.rendering.clone(),
            is_whole: ago == 0,
        })
    }

    /// How many tokens of it the prompt that goes on from it may be believed to begin with.
    pub(crate) fn worth(&self, group: GroupId, known: &Known, after: After) -> u32 {
        if known.is_whole {
            return known.rendering.tokens;
        }
        match self.habits.get(&(group, after)) {
            Some(habit) if habit.wanted == 0 => known.rendering.tokens.saturating_sub(habit.lost),
            _ => 0,
        }
    }

    /// An engine says what it made of a text; `known` is what was known of it when it was submitted.
    pub(crate) fn learn(&mut self, rendered: &Rendered<'_>, known: Option<&Known>) {
        if let Some(known) = known.filter(|known| !known.is_whole) {
            let habit = (self.habits.entry((rendered.group, rendered.after))).or_default();
            habit.note(known.rendering.lost(rendered));
            let only = self.entries.get(&known.key);
            if only.is_some_and(|entry| entry.follows <= 1) {
                self.forget(known.key);
            }
        }
        let Some(&hash) = rendered.text.hashes().last() else {
            return;
        };
        let rendering = Rendering::of(rendered);
        let tokens = u64::from(rendering.tokens);
        let key = key_of(rendered.group, hash);
        self.forget(key);
        if tokens == 0 || tokens > self.limit {
            return;
        }
        while self.tokens + tokens > self.limit
            && let Some((_, &oldest)) = self.order.first_key_value()
        {
            self.forget(oldest);
        }
        self.uses += 1;
        self.tokens += tokens;
        self.order.insert(self.uses, key);
        let entry = Entry {
            rendering,
            used: self.uses,
            follows: 0,
        };
        self.entries.insert(key, entry);
    }

    fn forget(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            self.order.remove(&entry.used);
            self.tokens -= u64::from(entry.rendering.tokens);
        }
    }
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            wanted: PROOFS,
            lost: 0,
        }
    }
}

impl Habit {
    /// A prompt has followed, without so many tokens of the one before; `None`: without more than that.
    fn note(&mut self, lost: Option<u32>) {
        match lost {
            Some(lost) => {
                self.wanted = self.wanted.saturating_sub(1);
                self.lost = self.lost.max(lost);
            }
            None => {
                *self = Self {
                    wanted: AGAIN,
                    lost: 0,
                };
            }
        }
    }
}

impl Rendering {
    fn of(rendered: &Rendered<'_>) -> Self {
        let tokens = u32::try_from(rendered.tokens.len()).unwrap_or(u32::MAX);
        let unit = rendered.block_tokens.get();
        let first = tokens.saturating_sub(MOST_LOST) / unit * unit;
        Self {
            blocks: rendered.blocks.hashes().into(),
            last: rendered.tokens[first as usize..].into(),
            tokens,
        }
    }

    /// How many tokens of its end another prompt that begins with the same text lacks; `None` for more
    /// than [`MOST_LOST`].
    fn lost(&self, by: &Rendered<'_>) -> Option<u32> {
        let first = self.tokens - u32::try_from(self.last.len()).unwrap_or(self.tokens);
        let before = (first / by.block_tokens) as usize;
        let vouched = before.checked_sub(1).map(|at| self.blocks.get(at));
        if vouched.is_some_and(|hash| hash != by.blocks.hashes().get(before - 1)) {
            return None;
        }
        let theirs = by.tokens.get(first as usize..)?;
        let pairs = self.last.iter().zip(theirs);
        let kept = pairs.take_while(|(ours, theirs)| ours == theirs).count();
        let lost = (self.last.len() - kept) as u32;
        (lost <= MOST_LOST).then_some(lost)
    }
}

impl Known {
    /// Replaces `chain` by the blocks of the first `tokens` tokens, of a prompt that is longer unless it
    /// is this very text. O(blocks).
    pub(crate) fn begin(&self, tokens: u32, block_tokens: NonZeroU32, chain: &mut Chain) {
        let Rendering { blocks, .. } = &self.rendering;
        let unit = block_tokens.get();
        let count = blocks.len().min((tokens / unit) as usize);
        chain.clear();
        chain.append(&blocks[..count], |blocks| blocks.saturating_mul(unit));
        chain.end_at(tokens.saturating_add(u32::from(!self.is_whole)));
    }
}

/// Groups have workers, and so models and blocks, of their own.
fn key_of(group: GroupId, hash: u64) -> u64 {
    extend(hash, u64::from(group.0))
}

#[cfg(test)]
mod tests;
