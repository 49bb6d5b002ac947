//! What are the blocks of a text that nobody has tokenised?
//!
//! Each segment (the tools, the system prompt, one message) is a block of its own, and a long one is
//! cut every [`CUT_BYTES`] from its start. Cuts depend on nothing that comes later, so a prompt that
//! only grew keeps its chain. How many tokens a block has is an estimate: a rate per byte, which
//! [`TokenRate::observe`] moves towards what providers report. Nothing here reads the bytes as
//! characters; a cut may fall inside one, which only a hash ever sees.
use xxhash_rust::xxh3::xxh3_128;

use super::hasher::BlockHasher;
use super::memo::{Digest, Earlier, Kind, Memo};
use super::{Chain, Seed};

/// A long segment is cut every so many bytes: about 256 tokens of English or code.
const CUT_BYTES: usize = 1024;

/// Shorter prompts say more about their template than about the text.
const MIN_SAMPLE_BYTES: u64 = 256;

/// Tokens per byte of a text, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRate(u32);

impl Default for TokenRate {
    fn default() -> Self {
        Self(2_500)
    }
}

impl TokenRate {
    const ONE: u64 = 10_000;
    /// Twenty bytes a token: long runs of white space.
    const MIN: u64 = 500;
    /// A token a byte: what a byte-level vocabulary does with text it never saw.
    const MAX: u64 = 10_000;
    /// A report moves the rate by an eighth of the difference.
    const WEIGHT: i64 = 8;

    /// A rate in ten-thousandths of a token per byte, held within [500, 10 000].
    #[must_use]
    pub fn new(rate: u32) -> Self {
        Self(u64::from(rate).clamp(Self::MIN, Self::MAX) as u32)
    }

    /// The rate in ten-thousandths of a token per byte.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The estimate for so many bytes, to the nearest token; saturates.
    #[must_use]
    pub fn tokens(self, bytes: u64) -> u32 {
        let scaled = bytes.saturating_mul(u64::from(self.0));
        u32::try_from(scaled.saturating_add(Self::ONE / 2) / Self::ONE).unwrap_or(u32::MAX)
    }

    /// Learns from a prompt of `bytes` that a provider counted as `reported` tokens. Prompts under
    /// 256 bytes and reports of zero teach nothing; an absurd report counts as the nearest sane one.
    pub fn observe(&mut self, bytes: u64, reported: u32) {
        if bytes < MIN_SAMPLE_BYTES || reported == 0 {
            return;
        }
        let seen = (u64::from(reported) * Self::ONE / bytes).clamp(Self::MIN, Self::MAX);
        let step = (seen as i64 - i64::from(self.0)) / Self::WEIGHT;
        self.0 = (i64::from(self.0) + step) as u32;
    }
}

/// Replaces `chain` by the blocks of `text`, whose segments have the byte lengths `segments`.
///
/// An empty segment is no block. Lengths past the text's end are cut, text past the last length is
/// one more segment. A block has at least one token. O(bytes).
pub fn hash_text(text: &[u8], segments: &[u32], rate: TokenRate, seed: Seed, chain: &mut Chain) {
    chain.clear();
    push_text(text, segments, seed, chain);
    push_ends(text.len() as u64, segments, rate, chain);
}

/// As [`hash_text`], but only what follows `earlier` is hashed where the text continues it, segment
/// for segment. Returns the memo of this text: of all its segments, whatever lies past the last of
/// them left out. The rate may be another than it was. O(bytes): one digest over all of them.
pub fn hash_text_from(
    text: &[u8],
    segments: &[u32],
    rate: TokenRate,
    seed: Seed,
    earlier: Option<Earlier<'_>>,
    chain: &mut Chain,
) -> Memo {
    chain.clear();
    let mut digest = Digest::new(text, Kind::Text, seed);
    let mut digest_of = |whole: Whole| {
        let lengths = bytemuck::cast_slice(&segments[..whole.segments]);
        digest.at(whole.bytes, xxh3_128(lengths))
    };
    let all = Whole::of(text, segments);
    let mut from = Whole::default();
    if let Some(mut earlier) = earlier.filter(|e| e.memo.segments() <= all.segments) {
        let before = Whole::of(text, &segments[..earlier.memo.segments()]);
        if earlier.recall(digest_of(before), chain) > 0 {
            from = before;
        }
    }
    push_text(&text[from.bytes..], &segments[from.segments..], seed, chain);
    push_ends(text.len() as u64, segments, rate, chain);
    Memo::of(chain, all.blocks, all.segments, digest_of(all))
}

/// Appends the blocks of `text` to those in `chain`, which are those of the first segments, and counts
/// the tokens of all: `segments` are the lengths of all segments, those of the text the last ones.
/// O(bytes of the text + blocks).
pub fn hash_text_after(
    text: &[u8],
    segments: &[u32],
    known: usize,
    rate: TokenRate,
    seed: Seed,
    chain: &mut Chain,
) {
    chain.forget_ends();
    push_text(text, &segments[known..], seed, chain);
    let total = segments.iter().map(|&length| u64::from(length)).sum();
    push_ends(total, segments, rate, chain);
}

/// The leading segments that lie wholly in a text.
#[derive(Clone, Copy, Default)]
struct Whole {
    segments: usize,
    bytes: usize,
    blocks: usize,
}

impl Whole {
    fn of(text: &[u8], segments: &[u32]) -> Self {
        let mut whole = Self::default();
        for &length in segments {
            let length = length as usize;
            if length > text.len() - whole.bytes {
                break;
            }
            whole.segments += 1;
            whole.bytes += length;
            whole.blocks += length.div_ceil(CUT_BYTES);
        }
        whole
    }
}

/// How many blocks [`hash_text`] makes of a segment of so many bytes.
#[must_use]
pub fn text_blocks(bytes: u32) -> u32 {
    bytes.div_ceil(CUT_BYTES as u32)
}

/// Where each block of [`hash_text`] ends, in bytes of the text: unlike the ends that a chain has, no
/// estimate, and the same in every turn that begins with the same text. `segments` must be those that
/// were hashed, and cover the text.
pub fn text_ends(segments: &[u32]) -> impl Iterator<Item = u64> {
    let total = segments.iter().map(|&length| u64::from(length)).sum();
    cut_ends(total, segments)
}

/// Where the blocks of a text of `total` bytes end; what lies past the last segment is one more.
fn cut_ends(total: u64, segments: &[u32]) -> impl Iterator<Item = u64> {
    let mut start = 0_u64;
    let lengths = segments.iter().map(|&length| u64::from(length));
    lengths.chain([u64::MAX]).flat_map(move |length| {
        let from = start;
        start = total.min(start.saturating_add(length));
        let until = start;
        let cuts = (from..until).step_by(CUT_BYTES);
        cuts.map(move |cut| until.min(cut + CUT_BYTES as u64))
    })
}

/// The blocks of a text as slices of it.
fn cuts<'a>(text: &'a [u8], segments: &'a [u32]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = text;
    // What lies past the last length is cut as one more segment.
    let lengths = segments.iter().map(|&length| length as usize);
    lengths.chain([usize::MAX]).flat_map(move |length| {
        let (segment, after) = rest.split_at(rest.len().min(length));
        rest = after;
        segment.chunks(CUT_BYTES)
    })
}

fn push_text(text: &[u8], segments: &[u32], seed: Seed, chain: &mut Chain) {
    let hasher = BlockHasher::new(seed);
    chain.push_locals(cuts(text, segments).map(|cut| hasher.hash(cut)));
}

/// Counts the tokens of all blocks, known or not: a rate that has moved moves all ends.
fn push_ends(total: u64, segments: &[u32], rate: TokenRate, chain: &mut Chain) {
    // From the root, so that rounding does not add up over many short blocks.
    for bytes in cut_ends(total, segments) {
        let end = rate.tokens(bytes).max(chain.tokens.saturating_add(1));
        chain.push_end(end);
    }
    debug_assert_eq!(chain.ends.len(), chain.hashes.len());
}
