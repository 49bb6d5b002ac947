//! Who has how much of this prompt?
//!
//! The answer of a look-up: the depths at which some place stops, and which. Reused between look-ups,
//! it allocates nothing once it has grown. It vouches only for coverage that is contiguous from the
//! root; what is stranded behind a hole is not in it.
use super::tree::Tree;
use crate::block::Chain;
use crate::steps::{Layers, Steps};
use crate::{Micros, PlaceId};

/// The places that hold exactly `blocks` blocks of the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// How many blocks from the root.
    pub blocks: u32,
    /// Their tokens.
    pub tokens: u32,
    places: &'a [u32],
}

impl<'a> Step<'a> {
    /// The places that stop here, ascending.
    pub fn places(&self) -> impl ExactSizeIterator<Item = PlaceId> + use<'a> {
        self.places.iter().map(|&p| PlaceId(p))
    }
}

/// How much of one prompt each place has.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    steps: Steps,
    ends: Vec<u32>,
}

impl Overlap {
    /// An answer to nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks of the prompt at `place`, contiguous from the root. O(1).
    #[must_use]
    pub fn blocks_at(&self, place: PlaceId) -> u32 {
        self.steps.blocks_at(place.0)
    }

    /// Tokens of the prompt at `place`, contiguous from the root. O(1).
    #[must_use]
    pub fn tokens_at(&self, place: PlaceId) -> u32 {
        tokens_of(&self.ends, self.blocks_at(place))
    }

    /// The depths at which places stop, nearest the root first. Places without a block are absent.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.steps.iter().map(|(blocks, places)| Step {
            blocks,
            tokens: tokens_of(&self.ends, blocks),
            places,
        })
    }

    pub(super) fn walk(&mut self, tree: &Tree, chain: &Chain) {
        let layers = TreeLayers {
            tree,
            hashes: chain.hashes(),
        };
        self.steps.walk(chain.len(), &layers);
        let deepest = self.steps.iter().last().map_or(0, |(blocks, _)| blocks);
        self.ends.clear();
        self.ends
            .extend_from_slice(&chain.ends()[..deepest as usize]);
    }
}

fn tokens_of(ends: &[u32], blocks: u32) -> u32 {
    match blocks {
        0 => 0,
        n => ends[n as usize - 1],
    }
}

struct TreeLayers<'a> {
    tree: &'a Tree,
    hashes: &'a [u64],
}

impl Layers for TreeLayers<'_> {
    fn count(&self, depth: usize) -> usize {
        let node = self.tree.find(self.hashes[depth]);
        node.map_or(0, |n| self.tree.rooted(n))
    }

    fn keys(&self, depth: usize, out: &mut Vec<u32>) {
        if let Some(node) = self.tree.find(self.hashes[depth]) {
            out.extend(self.tree.rooted_places(node));
        }
    }
}

/// What the index believed of one place and one prompt before a decision used it: what a report of
/// the engine is held against. Reusable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub(super) blocks: u32,
    pub(super) tokens: u32,
    /// Stretches of blocks that the same decision used last: (end block, its number; absent where
    /// the engine's own word stands).
    pub(super) uses: Vec<(u32, Option<u64>)>,
    /// The oldest of those uses.
    pub(super) since: Option<Micros>,
}

impl Coverage {
    /// Coverage of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks believed to be there, contiguous from the root.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Their tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// When the block of it that was used least recently was used; absent without predictions.
    #[must_use]
    pub fn since(&self) -> Option<Micros> {
        self.since
    }

    pub(super) fn clear(&mut self) {
        self.blocks = 0;
        self.tokens = 0;
        self.since = None;
        self.uses.clear();
    }

    pub(super) fn push(&mut self, end: u32, used: Option<u64>) {
        match self.uses.last_mut() {
            Some(last) if last.1 == used => last.0 = end,
            _ => self.uses.push((end, used)),
        }
    }

    /// The decision that last used block `index`, if the block is covered and predicted.
    pub(super) fn used(&self, index: u32) -> Option<u64> {
        let stretch = self.uses.iter().find(|(end, _)| index < *end);
        stretch.and_then(|(_, used)| *used)
    }
}
