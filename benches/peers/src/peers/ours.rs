//! Warmpath's `PrefixIndex`, behind the lock that the addon puts around it.
//!
//! One lock a call, as there: a look-up, a prediction, and one for each list of events, which the
//! addon applies as one slice.
use std::num::NonZeroU32;

use parking_lot::Mutex;
use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, StoredBlock, StoredBlocks, Tier};
use warmpath_core::{Micros, PlaceId, WorkerId};

use super::{Index, Prompt, Stretch};

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
    pub(super) index: Mutex<PrefixIndex>,
    pub(super) places: Vec<PlaceId>,
    pub(super) chain: Chain,
    overlap: Overlap,
    queue: Vec<Event>,
    blocks: Vec<StoredBlock>,
    pub(super) now: Micros,
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
        let credited = steps.map(|step| u64::from(step.blocks) * step.count() as u64);
        credited.sum()
    }

    fn predict(&mut self, worker: usize) {
        let mut index = self.index.lock();
        index.predict(self.now, self.places[worker], &self.chain);
    }

    fn ready_store(&mut self, worker: usize, stored: &Stretch<'_>) {
        let pairs = stored.names.iter().zip(stored.locals);
        let blocks = pairs.map(|(&name, &local)| StoredBlock { name, local });
        self.blocks.extend(blocks);
        let event = Event::Store(self.places[worker], stored.parent, stored.names.len());
        self.queue.push(event);
    }

    fn ready_remove(&mut self, worker: usize, names: &[u64]) {
        let event = Event::Remove(self.places[worker], names.to_vec());
        self.queue.push(event);
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
                    let stored = StoredBlocks {
                        parent,
                        block_tokens: BLOCK_TOKENS.get(),
                        blocks,
                    };
                    index.store(place, &stored);
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
