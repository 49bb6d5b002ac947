//! What are the blocks of a text that nobody has tokenised?
//!
//! Each segment (the tools, the system prompt, one message) is a block of its own, and a long one is
//! cut every [`CUT_BYTES`] from its start. Cuts depend on nothing that comes later, so a prompt that
//! only grew keeps its chain. How many tokens a block has is an estimate: a rate per byte, which
//! [`TokenRate::observe`] moves towards what providers report. Nothing here reads the bytes as
//! characters; a cut may fall inside one, which only a hash ever sees.
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Chain, Seed, saturate};

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
    let mut rest = text;
    for &length in segments {
        let (segment, after) = rest.split_at(rest.len().min(length as usize));
        push_segment(segment, text.len() - rest.len(), rate, seed, chain);
        rest = after;
    }
    push_segment(rest, text.len() - rest.len(), rate, seed, chain);
}

fn push_segment(segment: &[u8], start: usize, rate: TokenRate, seed: Seed, chain: &mut Chain) {
    let mut bytes = start as u64;
    for cut in segment.chunks(CUT_BYTES) {
        bytes += cut.len() as u64;
        // From the root, so that rounding does not add up over many short blocks.
        let end = rate.tokens(bytes).max(chain.tokens().saturating_add(1));
        chain.push(xxh3_64_with_seed(cut, seed.get()), end);
    }
    debug_assert!(saturate(chain.len()) <= chain.tokens());
}
