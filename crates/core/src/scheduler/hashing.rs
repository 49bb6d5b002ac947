//! How is this prompt hashed for the least?
//!
//! A session's first turn is hashed from nothing and leaves no memo, since most sessions of one turn
//! never come back. Its second turn makes one, and from the third on a turn pays one digest over what
//! was sent before and the hashes of what is new. Whatever the prompt, the chain is the same.
use std::num::NonZeroU32;

use crate::block::{
    self, Chain, Earlier, Memo, Seed, TokenBlocks, TokenRate, hash_content_from, hash_text_from,
};
use crate::error::{Error, Result};

use super::paths::Known;

/// How prompts of one group are cut, and what the session has sent before.
pub(super) struct Hashing<'a> {
    pub(super) block_tokens: NonZeroU32,
    pub(super) rate: TokenRate,
    pub(super) seed: Seed,
    pub(super) known: Option<Known<'a>>,
}

impl Hashing<'_> {
    /// `salt` is in the hash of the first block, as in the engines' own.
    pub(super) fn tokens(&self, ids: &[u32], salt: &[u8], chain: &mut Chain) -> Option<Memo> {
        let blocks = TokenBlocks {
            first: match salt {
                [] => self.seed,
                salt => Seed::framed(&[salt]),
            },
            ..TokenBlocks::plain(self.block_tokens, self.seed)
        };
        if self.known.is_none() {
            blocks.hash(ids, chain);
            return None;
        }
        Some(self.earlier(|earlier| blocks.hash_from(ids, earlier, chain)))
    }

    pub(super) fn content(
        &self,
        hashes: &[u64],
        prompt_tokens: Option<u32>,
        chain: &mut Chain,
    ) -> Option<Memo> {
        let (size, seed) = (self.block_tokens, self.seed);
        if self.known.is_none() {
            block::hash_content(hashes, size, prompt_tokens, seed, chain);
            return None;
        }
        Some(self.earlier(|earlier| {
            hash_content_from(hashes, size, prompt_tokens, seed, earlier, chain)
        }))
    }

    /// Segments of `bytes`, each of so many bytes; what lies past them is not part of the prompt.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the segments are longer than the text.
    pub(super) fn text(
        &self,
        bytes: &[u8],
        segments: &[u32],
        chain: &mut Chain,
    ) -> Result<Option<Memo>> {
        let total = segments.iter().map(|&length| length as usize).sum();
        let bytes = bytes.get(..total).ok_or_else(segments_too_long)?;
        let (rate, seed) = (self.rate, self.seed);
        if self.known.is_none() {
            block::hash_text(bytes, segments, rate, seed, chain);
            return Ok(None);
        }
        let memo =
            self.earlier(|earlier| hash_text_from(bytes, segments, rate, seed, earlier, chain));
        Ok(Some(memo))
    }

    /// Hashes with what is known of an earlier prompt.
    fn earlier(&self, hash: impl FnOnce(Option<Earlier<'_>>) -> Memo) -> Memo {
        let Some(known) = &self.known else {
            return hash(None);
        };
        let mut retrace = |blocks: usize, chain: &mut Chain| known.retrace(blocks, chain);
        hash(known.memo.map(|memo| Earlier {
            memo,
            known: &mut retrace,
        }))
    }
}

pub(super) fn segments_too_long() -> Error {
    Error::invalid_argument("the segments are longer than the text")
}
