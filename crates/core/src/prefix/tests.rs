//! The index against a naive one: a map per place from paths to what is known of them.
//!
//! One file an operation: `feeds` (both feeds in any order), `predictions`, `events`,
//! `marks` (what can be read at breakpoints, against a naive list of where was written).
use std::num::NonZeroU32;

use super::*;
use crate::block::{Seed, hash_tokens};

mod events;
mod feeds;
mod marks;
mod paths;
mod predictions;
mod snapshot;

const BLOCK: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// The chain of a path of ids, ten tokens a block.
fn chain(path: &[u32]) -> Chain {
    let ids: Vec<u32> = path.iter().flat_map(|&id| [id; 10]).collect();
    let mut chain = Chain::new();
    hash_tokens(&ids, BLOCK, Seed::default(), &mut chain);
    chain
}

fn hash(path: &[u32]) -> u64 {
    let chain = chain(path);
    *chain.hashes().last().expect("a path of at least one block")
}

/// The last block of a path, called by its chain hash.
fn stored(path: &[u32]) -> StoredBlock {
    let id = path.last().expect("a path of at least one block");
    StoredBlock {
        name: hash(path),
        local: hash(&[*id]),
    }
}

fn store(
    index: &mut PrefixIndex,
    place: PlaceId,
    parent: Option<u64>,
    blocks: &[StoredBlock],
) -> usize {
    let block_tokens = BLOCK.get();
    index.store(
        place,
        &StoredBlocks {
            parent,
            block_tokens,
            blocks,
        },
    )
}

/// The evidence that the place holds all of a path; absent when it does not.
fn trust(index: &PrefixIndex, place: PlaceId, path: &[u32]) -> Option<Trust> {
    let mut coverage = Coverage::new();
    index.coverage(place, &chain(path), &mut coverage);
    let whole = coverage.blocks() as usize == path.len();
    whole.then(|| coverage.trust()).flatten()
}

fn stored_all(path: &[u32]) -> Vec<StoredBlock> {
    (1..=path.len()).map(|n| stored(&path[..n])).collect()
}

fn index_of(places: u32, options: PlaceOptions) -> PrefixIndex {
    let mut index = PrefixIndex::new(1_000_000);
    for worker in 0..places {
        let place = index.add_place(WorkerId(worker), 0, Tier::Device, options);
        assert_eq!(place, Ok(PlaceId(worker)));
    }
    index
}

fn blocks_at(index: &PrefixIndex, place: u32, path: &[u32]) -> u32 {
    let mut overlap = Overlap::new();
    index.find(&chain(path), &mut overlap);
    overlap.blocks_at(PlaceId(place))
}

fn blocks_total(index: &PrefixIndex) -> usize {
    index.stats().blocks
}
