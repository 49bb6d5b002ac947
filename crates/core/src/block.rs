//! What are the blocks of this prompt?
//!
//! Tokens, canonical text or the caller's own content hashes become a [`Chain`]: one 64-bit hash a
//! block that vouches for everything before it, and how many tokens the prompt has up to there.
//!
//! The hash is the de-facto standard of KV-cache events: XXH3-64 over little-endian `u32` tokens
//! with a seed, then XXH3-64 with seed 1337 over (parent chain hash, local hash). Published traces
//! and engines that use it therefore agree with ours block by block. Whatever must keep two equal
//! prompts apart (adapter, cache salt, tenant, model revision, media) is in the [`Seed`] or, for
//! media, in the block.
//!
//! This room does not know who holds a block, what a token means or where a text came from. It
//! trusts the caller's segment lengths only as far as they fit the text. One pass over the input;
//! a chain that is reused allocates nothing once it has grown.
use std::num::NonZeroU32;

use xxhash_rust::xxh3::xxh3_64_with_seed;

mod media;
mod text;

pub use media::{BlockMedia, MediaObject, MediaSpan, media_blocks, media_id, media_pad_token};
pub use text::{TokenRate, hash_text};

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

    /// Forgets the blocks, keeps the room for them.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.ends.clear();
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

    /// Appends a block by its local hash. `end` below the present end is taken as the present end.
    fn push(&mut self, local: u64, end: u32) {
        let hash = match self.hashes.last() {
            None => local,
            Some(&parent) => extend(parent, local),
        };
        self.hashes.push(hash);
        self.ends.push(end.max(self.tokens));
        self.tokens = end.max(self.tokens);
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

/// What of the prompt a block's hash covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Its own tokens.
    #[default]
    Block,
    /// Its own tokens and the next one: engines with EAGLE-style drafting key blocks so.
    Eagle,
}

/// How tokens are cut and hashed.
#[derive(Clone, Copy, Debug)]
pub struct TokenBlocks<'a> {
    /// Tokens a block.
    pub block_tokens: NonZeroU32,
    /// The namespace.
    pub seed: Seed,
    /// What a hash covers.
    pub window: Window,
    /// Media hashes of each block, in any order. Missing entries are empty, further ones ignored.
    pub media: &'a [Vec<u64>],
}

impl TokenBlocks<'_> {
    /// Plain text tokens: no media, a hash covers its own block.
    #[must_use]
    pub fn plain(block_tokens: NonZeroU32, seed: Seed) -> Self {
        TokenBlocks {
            block_tokens,
            seed,
            window: Window::Block,
            media: &[],
        }
    }

    /// Replaces `chain` by the complete blocks of `ids`. A block whose window reaches past the end
    /// is not complete. O(tokens).
    pub fn hash(&self, ids: &[u32], chain: &mut Chain) {
        chain.clear();
        let mut scratch = std::mem::take(&mut chain.scratch);
        let mut end = 0_u32;
        for block in 0..self.complete(ids.len()) {
            end = end.saturating_add(self.block_tokens.get());
            chain.push(self.local(ids, block, &mut scratch), end);
        }
        chain.scratch = scratch;
        chain.tokens = saturate(ids.len());
    }

    /// The local hash of each complete block: what each is apart from its place in a prompt.
    #[must_use]
    pub fn local_hashes(&self, ids: &[u32]) -> Vec<u64> {
        let mut scratch = Vec::new();
        (0..self.complete(ids.len()))
            .map(|block| self.local(ids, block, &mut scratch))
            .collect()
    }

    fn stride(&self) -> usize {
        self.block_tokens.get() as usize
    }

    fn beyond(&self) -> usize {
        match self.window {
            Window::Block => 0,
            Window::Eagle => 1,
        }
    }

    fn complete(&self, tokens: usize) -> usize {
        tokens.saturating_sub(self.beyond()) / self.stride()
    }

    fn local(&self, ids: &[u32], block: usize, scratch: &mut Vec<u8>) -> u64 {
        let from = block * self.stride();
        let ids = &ids[from..from + self.stride() + self.beyond()];
        scratch.resize(size_of_val(ids), 0);
        // Fixed-size copies into a sized buffer become one block move; appending id by id does not.
        for (bytes, id) in scratch.chunks_exact_mut(size_of::<u32>()).zip(ids) {
            bytes.copy_from_slice(&id.to_le_bytes());
        }
        let media = self.media.get(block).map_or(&[][..], Vec::as_slice);
        append_sorted(media, scratch);
        xxh3_64_with_seed(scratch, self.seed.0)
    }
}

/// Appends media hashes in ascending order, so that the order of arrival does not matter.
fn append_sorted(media: &[u64], scratch: &mut Vec<u8>) {
    if media.is_empty() {
        return;
    }
    let mut sorted = media.to_vec();
    sorted.sort_unstable();
    for hash in sorted {
        scratch.extend_from_slice(&hash.to_le_bytes());
    }
}

/// Replaces `chain` by the complete blocks of plain tokens; the tail counts in [`Chain::tokens`].
pub fn hash_tokens(ids: &[u32], block_tokens: NonZeroU32, seed: Seed, chain: &mut Chain) {
    TokenBlocks::plain(block_tokens, seed).hash(ids, chain);
}

/// Replaces `chain` by blocks whose content hashes the caller has: one each, of `block_tokens`
/// tokens. They may be small dense numbers; the seed is mixed in here. With `prompt_tokens` the last
/// block may be shorter, blocks that would start past the prompt's end are left out, and tokens
/// beyond the blocks are a tail.
pub fn hash_content(
    hashes: &[u64],
    block_tokens: NonZeroU32,
    prompt_tokens: Option<u32>,
    seed: Seed,
    chain: &mut Chain,
) {
    chain.clear();
    let limit = prompt_tokens.unwrap_or(u32::MAX);
    for hash in hashes {
        if chain.tokens >= limit {
            break;
        }
        let end = chain.tokens.saturating_add(block_tokens.get()).min(limit);
        chain.push(xxh3_64_with_seed(&hash.to_le_bytes(), seed.0), end);
    }
    chain.tokens = prompt_tokens.unwrap_or(chain.tokens);
}

fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
