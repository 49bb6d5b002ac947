//! Which images and sounds does each block contain?
//!
//! A model sees a media object as a run of placeholder tokens, equal for all objects; only the
//! object's hash tells two such prompts apart. This file turns identifiers into hashes and spans of
//! the prompt into lists per block. O(objects × blocks touched). It trusts no span: an empty or
//! backwards one is nothing, one past the end is cut.
use std::num::NonZeroU32;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A half-open range of tokens.
pub type MediaSpan = Range<u32>;

/// One object of a request and the tokens of the prompt that stand for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaObject {
    /// See [`media_id`].
    pub hash: u64,
    /// Where in the prompt.
    pub spans: Vec<MediaSpan>,
}

/// The part of an object that lies in one block; spans count from the block's first token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMedia {
    /// Of the object.
    pub hash: u64,
    /// Where in the block.
    pub spans: Vec<MediaSpan>,
}

/// The hash of a media identifier: the first 16 digits of a 64-digit hex digest, else XXH3-64 of its
/// bytes. An empty identifier names nothing.
#[must_use]
pub fn media_id(identifier: &str) -> Option<u64> {
    let is_digest = identifier.len() == 64 && identifier.bytes().all(|b| b.is_ascii_hexdigit());
    match identifier {
        "" => None,
        digest if is_digest => u64::from_str_radix(&digest[..16], 16).ok(),
        other => Some(xxh3_64_with_seed(other.as_bytes(), 0)),
    }
}

/// The placeholder token that stands for an object in a prompt: above every vocabulary.
#[must_use]
pub const fn media_pad_token(hash: u64) -> u32 {
    1_000_000 + (hash & 0x3fff_ffff) as u32
}

/// The objects of each block of a prompt of `tokens` tokens, the last, partial block included; in
/// each block in the order of `objects`.
#[must_use]
pub fn media_blocks(
    objects: &[MediaObject],
    block_tokens: NonZeroU32,
    tokens: u32,
) -> Vec<Vec<BlockMedia>> {
    let size = block_tokens.get();
    let mut blocks = vec![Vec::new(); tokens.div_ceil(size) as usize];
    for object in objects {
        for span in &object.spans {
            let end = span.end.min(tokens);
            for index in span.start / size..end.div_ceil(size).max(span.start / size) {
                let base = index * size;
                let within = span.start.max(base) - base..end.min(base.saturating_add(size)) - base;
                if within.start < within.end {
                    add_span(&mut blocks[index as usize], object.hash, within);
                }
            }
        }
    }
    blocks
}

fn add_span(block: &mut Vec<BlockMedia>, hash: u64, span: MediaSpan) {
    match block.iter_mut().find(|m| m.hash == hash) {
        Some(media) => media.spans.push(span),
        None => block.push(BlockMedia {
            hash,
            spans: vec![span],
        }),
    }
}
