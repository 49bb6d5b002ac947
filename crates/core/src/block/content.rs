//! What are the blocks of a prompt whose caller has hashed their content already?
//!
//! One block a hash. They may be small dense numbers, as in published traces, so the seed is mixed
//! in here. O(blocks).
use std::num::NonZeroU32;

use super::hasher::BlockHasher;
use super::memo::{Digest, Earlier, Kind, Memo};
use super::{Chain, Seed};

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
    let hashes = &hashes[..within(hashes.len(), block_tokens, prompt_tokens)];
    push_content(hashes, seed, chain);
    push_ends(block_tokens, prompt_tokens, chain);
}

/// As [`hash_content`], but only what follows `earlier` is hashed where the prompt continues it.
/// Returns the memo of this prompt. O(blocks), at memory speed for those that are known.
pub fn hash_content_from(
    hashes: &[u64],
    block_tokens: NonZeroU32,
    prompt_tokens: Option<u32>,
    seed: Seed,
    earlier: Option<Earlier<'_>>,
    chain: &mut Chain,
) -> Memo {
    chain.clear();
    let hashes = &hashes[..within(hashes.len(), block_tokens, prompt_tokens)];
    let mut digest = Digest::new(bytemuck::cast_slice(hashes), Kind::Content, seed);
    let bytes = |blocks| blocks * size_of::<u64>();
    let earlier = earlier.filter(|e| e.memo.blocks() <= hashes.len());
    let known = earlier.map_or(0, |mut e| {
        let at = digest.at(bytes(e.memo.blocks()), 0);
        e.recall(at, chain)
    });
    push_content(&hashes[known..], seed, chain);
    push_ends(block_tokens, prompt_tokens, chain);
    let at = digest.at(bytes(hashes.len()), 0);
    Memo::of(chain, hashes.len(), 0, at)
}

/// How many of so many blocks start before the prompt's end, and before the last token that can be
/// counted.
fn within(blocks: usize, block_tokens: NonZeroU32, prompt_tokens: Option<u32>) -> usize {
    let limit = prompt_tokens.unwrap_or(u32::MAX);
    blocks.min(limit.div_ceil(block_tokens.get()) as usize)
}

fn push_content(hashes: &[u64], seed: Seed, chain: &mut Chain) {
    let hasher = BlockHasher::new(seed);
    chain.push_locals(hashes.iter().map(|hash| hasher.hash(&hash.to_le_bytes())));
}

fn push_ends(block_tokens: NonZeroU32, prompt_tokens: Option<u32>, chain: &mut Chain) {
    let limit = prompt_tokens.unwrap_or(u32::MAX);
    chain.push_even_ends(block_tokens, limit);
    chain.tokens = prompt_tokens.unwrap_or(chain.tokens);
}
