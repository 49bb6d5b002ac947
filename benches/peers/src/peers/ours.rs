//! Warmpath's `PrefixIndex`, behind the lock that the addon puts around it.
//!
//! One lock a call, as there: a look-up, a prediction, and one for each list of events, which the
//! addon applies as one slice.
use std::num::NonZeroU32;

use parking_lot::Mutex;
use warmpath_core::block::{Chain, Seed, hash_content, hash_tokens};
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, StoredBlock, Tier};
use warmpath_core::{Micros, PlaceId, WorkerId};

use super::{Index, Named, Prompt, Stretch};

pub(crate) const OURS: &str = "warmpath";

/// The look-up never asks how long a block is, so one number serves every trace.
const BLOCK_TOKENS: NonZeroU32 = NonZeroU32::new(64).expect("above zero");

enum Event {
    /// The blocks are the next so many of `Ours::blocks`.
    Store(PlaceId, Option<u64>, usize),
    Remove(PlaceId, Vec<u64>),
    Clear(PlaceId),
}

pub(super) struct Ours {
    index: Mutex<PrefixIndex>,
    places: Vec<PlaceId>,
    chain: Chain,
    overlap: Overlap,
    queue: Vec<Event>,
    blocks: Vec<StoredBlock>,
    now: Micros,
}

impl Ours {
    pub(super) fn new(workers: usize) -> Self {
        let mut index = PrefixIndex::new(usize::MAX);
        let mut place = |worker| {
            let added = index.add_place(WorkerId(worker), 0, Tier::Device, PlaceOptions::default());
            added.expect("each worker is added once")
        };
        let places = (0..workers as u32).map(&mut place).collect();
        Self {
            index: Mutex::new(index),
            places,
            chain: Chain::new(),
            overlap: Overlap::new(),
            queue: Vec::new(),
            blocks: Vec::new(),
            now: Micros(0),
        }
    }
}

impl Index for Ours {
    fn name(&self) -> &'static str {
        OURS
    }

    fn ready_find(&mut self, prompt: &Prompt<'_>) {
        let seed = Seed::default();
        hash_content(prompt.contents, BLOCK_TOKENS, None, seed, &mut self.chain);
        assert_eq!(self.chain.hashes().last(), prompt.chains.last());
        self.now = self.now.plus(Micros::from_millis(1));
    }

    fn find(&mut self) {
        self.index.lock().find(&self.chain, &mut self.overlap);
    }

    fn answer(&mut self) -> u64 {
        let steps = self.overlap.steps();
        steps
            .map(|step| u64::from(step.blocks) * step.places().count() as u64)
            .sum()
    }

    fn predict(&mut self, worker: usize) {
        let mut index = self.index.lock();
        index.predict(self.now, self.places[worker], &self.chain);
    }

    fn ready_store(&mut self, worker: usize, stored: &Stretch<'_>) {
        let blocks = stored.chains.iter().map(|&hash| StoredBlock {
            hash,
            tokens: BLOCK_TOKENS.get(),
        });
        self.blocks.extend(blocks);
        let parent = stored.parent.map(|parent| parent.chain);
        let event = Event::Store(self.places[worker], parent, stored.chains.len());
        self.queue.push(event);
    }

    fn ready_remove(&mut self, worker: usize, blocks: &[Named]) {
        let names = blocks.iter().map(|block| block.chain);
        self.queue
            .push(Event::Remove(self.places[worker], names.collect()));
    }

    fn ready_clear(&mut self, worker: usize) {
        self.queue.push(Event::Clear(self.places[worker]));
    }

    fn apply(&mut self) {
        let mut index = self.index.lock();
        let mut rest = &self.blocks[..];
        for event in self.queue.drain(..) {
            match event {
                Event::Store(place, parent, count) => {
                    let (blocks, after) = rest.split_at(count);
                    index.store(place, parent, blocks);
                    rest = after;
                }
                Event::Remove(place, names) => {
                    index.remove(place, &names);
                }
                Event::Clear(place) => index.clear(place),
            }
        }
        drop(index);
        self.blocks.clear();
    }

    fn rest(&mut self) {
        self.chain = Chain::new();
        self.overlap = Overlap::new();
        self.queue = Vec::new();
        self.blocks = Vec::new();
    }
}

/// Hashes the turns of one session.
pub(crate) struct SessionHasher {
    block_tokens: NonZeroU32,
    chain: Chain,
}

impl SessionHasher {
    pub(crate) fn new(block_tokens: NonZeroU32) -> Self {
        Self {
            block_tokens,
            chain: Chain::new(),
        }
    }

    /// Forgets the session; its first prompt is `ids`, or none so far.
    pub(crate) fn begin(&mut self, ids: &[u32]) {
        self.next(ids);
    }

    /// Hashes the session's next prompt. The core keeps no chain of a session yet, so all of it.
    pub(crate) fn next(&mut self, ids: &[u32]) {
        hash_tokens(ids, self.block_tokens, Seed::default(), &mut self.chain);
    }

    /// The last chain hash of the prompt at hand; zero without a block.
    pub(crate) fn last(&self) -> u64 {
        self.chain.hashes().last().copied().unwrap_or(0)
    }
}
