//! Dynamo's `RadixTree`, and its events, which both of its indexes take.
use dynamo_kv_router::RadixTree;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, RouterEvent,
};

use super::{Index, Prompt, RADIX, Stretch};

pub(super) fn locals(prompt: &Prompt<'_>) -> Vec<LocalBlockHash> {
    let locals = prompt.locals.iter().map(|&local| LocalBlockHash(local));
    locals.collect()
}

pub(super) fn sum(scores: &OverlapScores) -> u64 {
    scores
        .scores
        .values()
        .map(|&blocks| u64::from(blocks))
        .sum()
}

pub(super) fn stored(worker: usize, stored: &Stretch<'_>) -> RouterEvent {
    let pairs = stored.names.iter().zip(stored.locals);
    let blocks = pairs.map(|(&name, &local)| KvCacheStoredBlockData {
        block_hash: ExternalSequenceBlockHash(name),
        tokens_hash: LocalBlockHash(local),
        mm_extra_info: None,
    });
    let parent = stored.parent.map(ExternalSequenceBlockHash);
    let data = KvCacheStoreData {
        parent_hash: parent,
        start_position: None,
        blocks: blocks.collect(),
    };
    event(worker, KvCacheEventData::Stored(data))
}

pub(super) fn removed(worker: usize, names: &[u64]) -> RouterEvent {
    let names = names.iter().map(|&name| ExternalSequenceBlockHash(name));
    let data = KvCacheRemoveData {
        block_hashes: names.collect(),
    };
    event(worker, KvCacheEventData::Removed(data))
}

pub(super) fn cleared(worker: usize) -> RouterEvent {
    event(worker, KvCacheEventData::Cleared)
}

fn event(worker: usize, data: KvCacheEventData) -> RouterEvent {
    let event = KvCacheEvent {
        event_id: 0,
        data,
        dp_rank: 0,
    };
    RouterEvent::new(worker as u64, event)
}

pub(super) struct Radix {
    tree: RadixTree,
    prompt: Vec<LocalBlockHash>,
    /// Each look-up takes its prompt for good.
    taken: Vec<LocalBlockHash>,
    scores: OverlapScores,
    queue: Vec<RouterEvent>,
}

impl Radix {
    pub(super) fn new() -> Self {
        Self {
            tree: RadixTree::new(),
            prompt: Vec::new(),
            taken: Vec::new(),
            scores: OverlapScores::new(),
            queue: Vec::new(),
        }
    }
}

impl Index for Radix {
    fn name(&self) -> &'static str {
        RADIX
    }

    fn ready_find(&mut self, prompt: &Prompt<'_>) {
        self.prompt = locals(prompt);
        self.taken = self.prompt.clone();
    }

    fn ready_again(&mut self) {
        self.taken = self.prompt.clone();
    }

    fn find(&mut self) {
        let prompt = std::mem::take(&mut self.taken);
        self.scores = self.tree.find_matches(prompt, false);
    }

    fn answer(&mut self) -> u64 {
        sum(&std::mem::take(&mut self.scores))
    }

    fn ready_store(&mut self, worker: usize, event: &Stretch<'_>) {
        self.queue.push(stored(worker, event));
    }

    fn ready_remove(&mut self, worker: usize, names: &[u64]) {
        self.queue.push(removed(worker, names));
    }

    fn ready_clear(&mut self, worker: usize) {
        self.queue.push(cleared(worker));
    }

    fn apply(&mut self) {
        for event in self.queue.drain(..) {
            let is_removal = matches!(event.event.data, KvCacheEventData::Removed(_));
            let applied = self.tree.apply_event(event);
            // It forgets what is behind a hole, and calls the removal of that an error.
            assert!(applied.is_ok() || is_removal, "{applied:?}");
        }
    }

    fn rest(&mut self) {
        self.prompt = Vec::new();
        self.taken = Vec::new();
        self.queue = Vec::new();
    }
}
