//! What are the blocks of a prompt of tokens?
//!
//! Tokens are hashed where they lie, block by block, and the chain step of a block runs beside the
//! hashing of the next one: neither a copy nor a second pass. Only blocks with media, whose hashes
//! follow the tokens, go through a buffer. O(tokens); nothing is allocated once a chain has grown.
use std::num::NonZeroU32;

use xxhash_rust::xxh3::Xxh3;

use super::hasher::BlockHasher;
use super::memo::{Digest, Earlier, Kind, Memo};
use super::{Chain, Seed, saturate};

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
    /// That of the first block: a salt stands there, and the chain carries it to the rest.
    pub first: Seed,
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
            first: seed,
            window: Window::Block,
            media: &[],
        }
    }

    /// Replaces `chain` by the complete blocks of `ids`. A block whose window reaches past the end
    /// is not complete. O(tokens).
    pub fn hash(&self, ids: &[u32], chain: &mut Chain) {
        chain.clear();
        self.push_rest(ids, chain);
    }

    /// As [`TokenBlocks::hash`], but only what follows `earlier` is hashed where the prompt continues
    /// it. Returns the memo of this prompt. O(tokens): one digest over all of them.
    pub fn hash_from(&self, ids: &[u32], earlier: Option<Earlier<'_>>, chain: &mut Chain) -> Memo {
        chain.clear();
        let complete = self.complete(ids.len());
        let kind = Kind::Tokens {
            block_tokens: self.block_tokens.get(),
            beyond: self.beyond(),
        };
        let mut digest = Digest::new(bytemuck::cast_slice(ids), kind, self.seed);
        let mut digest_of = |blocks| digest.at(self.bytes(blocks), self.aside(blocks));
        if let Some(mut earlier) = earlier.filter(|e| e.memo.blocks() <= complete) {
            earlier.recall(digest_of(earlier.memo.blocks()), chain);
        }
        self.push_rest(ids, chain);
        Memo::of(chain, complete, 0, digest_of(complete))
    }

    /// The local hash of each complete block: what each is apart from its place in a prompt.
    #[must_use]
    pub fn local_hashes(&self, ids: &[u32]) -> Vec<u64> {
        let mut scratch = Vec::new();
        let (first, rest) = (BlockHasher::new(self.first), BlockHasher::new(self.seed));
        (0..self.complete(ids.len()))
            .map(|block| {
                let hasher = if block == 0 { &first } else { &rest };
                self.local(ids, block, hasher, &mut scratch)
            })
            .collect()
    }

    /// Appends the blocks of `ids` that follow those in `chain`, and the ends of all.
    fn push_rest(&self, ids: &[u32], chain: &mut Chain) {
        let mut scratch = std::mem::take(&mut chain.scratch);
        let mut rest = chain.len()..self.complete(ids.len());
        if rest.start == 0 && self.first != self.seed && !rest.is_empty() {
            let first = BlockHasher::new(self.first);
            let local = self.local(ids, 0, &first, &mut scratch);
            chain.push_locals(std::iter::once(local));
            rest.start = 1;
        }
        let hasher = BlockHasher::new(self.seed);
        chain.push_locals(rest.map(|block| self.local(ids, block, &hasher, &mut scratch)));
        chain.scratch = scratch;
        chain.push_even_ends(self.block_tokens, u32::MAX);
        chain.tokens = saturate(ids.len());
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

    /// How far into the tokens the hashes of the first `blocks` blocks reach.
    fn bytes(&self, blocks: usize) -> usize {
        match blocks {
            0 => 0,
            n => (n * self.stride() + self.beyond()) * size_of::<u32>(),
        }
    }

    #[inline]
    fn local(&self, ids: &[u32], block: usize, hasher: &BlockHasher, scratch: &mut Vec<u8>) -> u64 {
        let from = block * self.stride();
        let ids = &ids[from..from + self.stride() + self.beyond()];
        let media = self.media.get(block).map_or(&[][..], Vec::as_slice);
        // Through a buffer it takes 4 ns more for a block of 64 tokens.
        match cfg!(target_endian = "little") && media.is_empty() {
            true => hasher.hash(bytemuck::cast_slice(ids)),
            false => hasher.hash(framed(ids, media, scratch)),
        }
    }

    /// What decides the first `blocks` blocks beside their tokens; zero in the common case.
    fn aside(&self, blocks: usize) -> u128 {
        let salt = match self.first == self.seed {
            true => 0,
            false => u128::from(self.first.get()).rotate_left(64) | 1,
        };
        self.media_digest(blocks) ^ salt
    }

    /// A digest of the media of the first `blocks` blocks; zero without any.
    fn media_digest(&self, blocks: usize) -> u128 {
        let media = &self.media[..self.media.len().min(blocks)];
        if media.iter().all(Vec::is_empty) {
            return 0;
        }
        let mut state = Xxh3::new();
        for (block, hashes) in media.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
            state.update(&(block as u64).to_le_bytes());
            state.update(&(hashes.len() as u64).to_le_bytes());
            let mut sorted = Vec::new();
            append_sorted(hashes, &mut sorted);
            state.update(&sorted);
        }
        state.digest128()
    }
}

/// The tokens of a block and its media hashes, one after the other, as they are hashed.
#[cold]
fn framed<'a>(ids: &[u32], media: &[u64], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    scratch.clear();
    scratch.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    append_sorted(media, scratch);
    scratch
}

/// Appends media hashes in ascending order, so that the order of arrival does not matter.
fn append_sorted(media: &[u64], scratch: &mut Vec<u8>) {
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
