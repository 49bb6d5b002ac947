//! What are the blocks of this prompt?
//!
//! Tokens, canonical text or the caller's own content hashes become a [`Chain`]: one 64-bit hash a
//! block that vouches for everything before it, and how many tokens the prompt has up to there.
//!
//! The hash is the de-facto standard of KV-cache events: XXH3-64 over little-endian `u32` tokens
//! with a seed, then XXH3-64 with seed 1337 over (parent chain hash, local hash). Published traces
//! and engines that use it therefore agree with ours block by block. Whatever must keep two equal
//! prompts apart (adapter, cache salt, tenant, model revision, media) is in the [`Seed`], in the
//! [`Namespace`] or, for media, in the block.
//!
//! This room does not know who holds a block, what a token means or where a text came from. It
//! trusts the caller's segment lengths only as far as they fit the text. One pass over the input;
//! a chain that is reused allocates nothing once it has grown.
//! A session that goes on need not have all of its history hashed again: see [`Memo`].
use std::num::NonZeroU32;

use xxhash_rust::xxh3::xxh3_64_with_seed;

mod content;
mod hasher;
mod media;
mod memo;
mod namespace;
mod outline;
mod text;
mod tokens;

pub use content::{hash_content, hash_content_from};
pub use media::{BlockMedia, MediaObject, MediaSpan, media_blocks, media_id, media_pad_token};
pub use memo::{Earlier, Memo};
pub use namespace::Namespace;
pub use outline::{Breakpoint, Outline};
pub use text::{TokenRate, hash_text, hash_text_after, hash_text_from, text_blocks, text_ends};
pub use tokens::{TokenBlocks, Window, hash_tokens};

/// The seed of the chain step, and of local hashes that nothing sets apart.
const PLAIN: u64 = 1337;

/// What sets the blocks of one cache namespace apart from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(PLAIN)
    }
}

impl Seed {
    /// A seed that is known already.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The published form for an adapter and a cache salt: a wrapping sum of their hashes, where
    /// an empty one adds nothing. Use it to line up with engines that hash that way; a sum does
    /// not keep (a, b) and a crafted (c, d) apart, so tenants belong in [`Seed::framed`].
    #[must_use]
    pub fn dynamo(adapter: &str, salt: &str) -> Self {
        let term = |text: &str, seed| match text {
            "" => 0,
            _ => xxh3_64_with_seed(text.as_bytes(), seed),
        };
        Self(
            PLAIN
                .wrapping_add(term(adapter, 0))
                .wrapping_add(term(salt, 1)),
        )
    }

    /// A seed of any number of parts, each framed by its length, so that no two different lists
    /// share one by concatenation. No parts at all is the default seed.
    #[must_use]
    pub fn framed(parts: &[&[u8]]) -> Self {
        let step = |seed, part: &&[u8]| {
            let framed = xxh3_64_with_seed(part, seed);
            let mut frame = [0; 16];
            frame[..8].copy_from_slice(&(part.len() as u64).to_le_bytes());
            frame[8..].copy_from_slice(&framed.to_le_bytes());
            xxh3_64_with_seed(&frame, seed)
        };
        Self(parts.iter().fold(PLAIN, step))
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The blocks of one prompt, root first. Reusable: [`Chain::clear`] keeps the allocations.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    hashes: Vec<u64>,
    ends: Vec<u32>,
    tokens: u32,
    outline: Outline,
    namespace: Namespace,
    scratch: Vec<u8>,
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        (&self.hashes, &self.ends, self.tokens) == (&other.hashes, &other.ends, other.tokens)
    }
}

impl Eq for Chain {}

impl Chain {
    /// A chain without blocks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The chain hash of each block; each vouches for the whole prefix up to its block.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Tokens from the root to the end of each block; never decreases.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// How many blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is no block (there may still be a tail of tokens).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Tokens of the whole prompt, with a tail that is too short to be a block.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Tokens of the first `blocks` blocks, or of all blocks when there are fewer.
    #[must_use]
    pub fn tokens_of(&self, blocks: usize) -> u32 {
        match blocks.min(self.ends.len()) {
            0 => 0,
            n => self.ends[n - 1],
        }
    }

    /// Tokens of block `i`; zero when there is no such block.
    #[must_use]
    pub fn block_tokens(&self, i: usize) -> u32 {
        self.tokens_of(i + 1) - self.tokens_of(i)
    }

    /// Where its content blocks end and its breakpoints are; empty unless somebody has said so.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The same, to be filled in after hashing, which empties it.
    pub fn outline_mut(&mut self) -> &mut Outline {
        &mut self.outline
    }

    /// Forgets the blocks, keeps the room for them.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.ends.clear();
        self.outline.clear();
        self.namespace = Namespace::COMMON;
        self.tokens = 0;
    }

    /// Appends blocks that are known already: their chain hashes, and the tokens of the first n of
    /// them together.
    pub(crate) fn append(&mut self, hashes: &[u64], tokens: impl Fn(u32) -> u32) {
        let before = self.tokens_of(self.len());
        let ends = (1..=hashes.len() as u32).map(|n| before.saturating_add(tokens(n)));
        self.ends.extend(ends);
        self.hashes.extend_from_slice(hashes);
        self.tokens = self.tokens_of(self.len());
    }

    /// A chain of its first `blocks` blocks.
    pub(crate) fn beginning(&self, blocks: usize) -> Self {
        let mut beginning = Self::default();
        let hashes = &self.hashes[..blocks.min(self.len())];
        beginning.append(hashes, |blocks| self.tokens_of(blocks as usize));
        beginning.namespace = self.namespace;
        beginning
    }

    /// Says how many tokens the prompt has, with those behind its blocks.
    pub(crate) fn end_at(&mut self, tokens: u32) {
        self.tokens = self.tokens.max(tokens);
    }

    /// Appends the hashes of blocks by their local ones. Their ends are for the caller to push.
    #[inline]
    fn push_locals(&mut self, locals: impl Iterator<Item = u64>) {
        let mut parent = self.hashes.last().copied();
        self.hashes.extend(locals.map(|local| {
            let hash = parent.map_or(local, |parent| extend(parent, local));
            parent = Some(hash);
            hash
        }));
    }

    /// Appends the end of a block. One below the present end is taken as the present end.
    fn push_end(&mut self, end: u32) {
        self.tokens = end.max(self.tokens);
        self.ends.push(self.tokens);
    }

    /// Gives every block of a chain without ends the same length, up to `limit` tokens in all.
    fn push_even_ends(&mut self, block_tokens: NonZeroU32, limit: u32) {
        let mut end = 0_u32;
        self.ends.extend(self.hashes.iter().map(|_| {
            end = end.saturating_add(block_tokens.get()).min(limit);
            end
        }));
        self.tokens = end;
    }

    /// Keeps the hashes only, for ends that are about to be counted anew.
    fn forget_ends(&mut self) {
        self.ends.clear();
        self.tokens = 0;
    }
}

/// The chain hash of a block from that of its parent and its own local hash.
#[must_use]
pub fn extend(parent: u64, local: u64) -> u64 {
    let mut pair = [0; 16];
    pair[..8].copy_from_slice(&parent.to_le_bytes());
    pair[8..].copy_from_slice(&local.to_le_bytes());
    xxh3_64_with_seed(&pair, PLAIN)
}

fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
