//! One request inside the engine: how far it is, and which blocks it holds.
//!
//! It moves between queue and batch by value, so that one place owns it at any time. It knows
//! nothing of other requests, of time or of the budget: whoever books tokens for it has checked
//! that the pool has the blocks.
use crate::event::Nanos;
use crate::pool::{BlockId, Origin, Pool};
use crate::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Wanted,
    /// Given up during a pass; leaves at its end.
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: u64,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Tokens made so far.
    pub(crate) produced: u32,
    /// Tokens whose cache entries exist, from this or an earlier request.
    pub(crate) computed: u32,
    /// Tokens that the pass under way computes.
    pub(crate) granted: u32,
    pub(crate) admissions: u32,
    /// When its last token was made; the start of time before its first.
    pub(crate) last_token: Nanos,
    pub(crate) fate: Fate,
    hashes: Box<[u64]>,
    blocks: Vec<BlockId>,
}

impl Sequence {
    pub(crate) fn new(request: Request) -> Self {
        Self {
            id: request.id,
            prompt: request.prompt,
            output: request.output,
            produced: 0,
            computed: 0,
            granted: 0,
            admissions: 0,
            last_token: 0,
            fate: Fate::Wanted,
            hashes: request.hashes,
            blocks: Vec::new(),
        }
    }

    /// Tokens known so far: the prompt and what was made.
    pub(crate) fn length(&self) -> u32 {
        self.prompt + self.produced
    }

    pub(crate) fn held(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The blocks that the cache has for it, from the first on. The last token is always computed,
    /// since its output is what is wanted; so a fully cached prompt still gives up its last block.
    pub(crate) fn hits<'a>(
        &'a self,
        pool: &'a Pool,
        block_size: u32,
    ) -> impl Iterator<Item = BlockId> + 'a {
        let usable = ((self.length() - 1) / block_size) as usize;
        pool.find(&self.hashes[..usable.min(self.hashes.len())])
    }

    /// Shares `hits`; the tokens in them count as computed.
    pub(crate) fn adopt(&mut self, hits: Vec<BlockId>, pool: &mut Pool, block_size: u32) {
        for &block in &hits {
            pool.share(block);
        }
        self.computed = hits.len() as u32 * block_size;
        self.blocks = hits;
    }

    /// How many blocks the host tier has behind the first `from`.
    pub(crate) fn hosted(&self, from: usize, pool: &Pool, block_size: u32) -> usize {
        let usable = ((self.length() - 1) / block_size) as usize;
        let usable = usable.min(self.hashes.len());
        self.hashes
            .get(from..usable)
            .map_or(0, |rest| pool.hosted(rest))
    }

    /// Takes so many blocks back from the host tier, which has them and for which the caller has
    /// checked that there is room; the tokens in them count as computed.
    pub(crate) fn load(&mut self, blocks: usize, pool: &mut Pool, block_size: u32) {
        let from = self.blocks.len();
        for index in from..from + blocks {
            pool.came_back(self.hashes[index]);
        }
        self.grant(blocks as u32 * block_size, blocks as u32, pool, block_size);
        self.computed += std::mem::take(&mut self.granted);
    }

    /// Books `tokens` for the next pass and takes `blocks` more for them, which the caller has
    /// checked to be available. Blocks that this completes can be found at once: the pass computes
    /// them before anything that was booked later.
    pub(crate) fn grant(&mut self, tokens: u32, blocks: u32, pool: &mut Pool, block_size: u32) {
        let from = (self.computed / block_size) as usize;
        self.blocks.extend((0..blocks).map_while(|_| pool.take()));
        self.granted = tokens;
        let full = ((self.computed + tokens) / block_size) as usize;
        for index in from..full.min(self.hashes.len()) {
            let parent = index.checked_sub(1).map(|p| self.hashes[p]);
            let origin = Origin {
                id: self.id,
                index: index as u32,
            };
            pool.identify(self.blocks[index], parent, self.hashes[index], origin);
        }
    }

    /// Gives all blocks back, the last first, so that the beginning of a prompt is kept longest.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for block in self.blocks.drain(..).rev() {
            pool.release(block);
        }
        self.computed = 0;
        self.granted = 0;
    }
}
