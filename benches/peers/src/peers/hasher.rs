//! Our hashing of a session's turns, as the scheduler does it.
//!
//! A first prompt is hashed from nothing. One that continues the session takes the chain of what was
//! sent before from the index, where the session's path is, once one digest over it vouches.
use std::num::NonZeroU32;

use warmpath_core::block::{Chain, Earlier, Memo, Seed, TokenBlocks};
use warmpath_core::prefix::{Frontier, PlaceOptions, PrefixIndex, Tier};
use warmpath_core::{Micros, ProgramId, WorkerId};

/// What is known of a prompt that was sent.
struct Known {
    index: PrefixIndex,
    frontier: Frontier,
    memo: Memo,
}

/// Hashes the prompts of one session.
pub(crate) struct SessionHasher {
    block_tokens: NonZeroU32,
    chain: Chain,
    known: Option<Known>,
}

impl SessionHasher {
    pub(crate) fn new(block_tokens: NonZeroU32) -> Self {
        Self {
            block_tokens,
            chain: Chain::new(),
            known: None,
        }
    }

    fn blocks(&self) -> TokenBlocks<'static> {
        TokenBlocks::plain(self.block_tokens, Seed::default())
    }

    /// The session has sent `ids` and they have gone to a worker.
    pub(crate) fn sent(&mut self, ids: &[u32]) {
        let memo = self.blocks().hash_from(ids, None, &mut self.chain);
        let mut index = PrefixIndex::new(usize::MAX);
        let place = index
            .add_place(WorkerId(0), 0, Tier::Device, PlaceOptions::default())
            .expect("it is the only place");
        index.predict(Micros(0), place, &self.chain);
        let frontier = index.follow(ProgramId(1), place, &self.chain, None);
        self.known = frontier.map(|frontier| Known {
            index,
            frontier,
            memo,
        });
    }

    /// Hashes the next prompt.
    pub(crate) fn next(&mut self, ids: &[u32]) {
        let blocks = self.blocks();
        let Some(known) = &self.known else {
            return blocks.hash(ids, &mut self.chain);
        };
        let mut retrace =
            |blocks: usize, chain: &mut Chain| known.index.retrace(&known.frontier, blocks, chain);
        let earlier = Earlier {
            memo: &known.memo,
            known: &mut retrace,
        };
        blocks.hash_from(ids, Some(earlier), &mut self.chain);
    }

    /// The last chain hash of the prompt at hand; zero without a block.
    pub(crate) fn last(&self) -> u64 {
        self.chain.hashes().last().copied().unwrap_or(0)
    }
}
