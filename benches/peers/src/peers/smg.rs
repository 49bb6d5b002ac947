//! SMG's `kv-index`: `ChainIndex`, one block map a worker.
//!
//! Look-ups use the form that allocates nothing and write an array that is there already: the fastest
//! that it has.
use kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};

use super::{Index, Prompt, SMG, Stretch};

/// In any scenario.
const MOST_WORKERS: usize = 64;

enum Event {
    Store(u32, Option<SequenceHash>, Vec<StoredBlock>),
    Remove(u32, Vec<SequenceHash>),
    Clear(u32),
}

pub(super) struct Smg {
    index: ChainIndex,
    /// By its worker id.
    maps: Vec<ChainBlockMap>,
    /// Its worker id by ours.
    workers: Vec<u32>,
    prompt: Vec<ContentHash>,
    /// By its worker id; cleared outside the timer.
    scores: Box<[u32; MOST_WORKERS]>,
    queue: Vec<Event>,
}

impl Smg {
    pub(super) fn new(workers: usize) -> Self {
        assert!(
            workers <= MOST_WORKERS,
            "answers have room for fewer workers"
        );
        let index = ChainIndex::with_max_workers(workers);
        let intern = |w| {
            let id = index.intern_worker(&format!("http://worker-{w}"));
            id.expect("the index was made for so many workers")
        };
        let workers: Vec<u32> = (0..workers).map(intern).collect();
        let maps = workers.iter().map(|_| ChainBlockMap::new()).collect();
        Self {
            index,
            scores: Box::new([0; MOST_WORKERS]),
            maps,
            workers,
            prompt: Vec::new(),
            queue: Vec::new(),
        }
    }
}

impl Index for Smg {
    fn name(&self) -> &'static str {
        SMG
    }

    fn ready_find(&mut self, prompt: &Prompt<'_>) {
        self.prompt.clear();
        self.prompt
            .extend(prompt.locals.iter().map(|&local| ContentHash(local)));
        self.scores.fill(0);
    }

    fn find(&mut self) {
        let scores = &mut self.scores;
        // A store into an array leaves the peer's compare loop its registers. A list that may grow,
        // or the map that `find_matches` returns, makes the loop two to three times as slow.
        let report = |worker: u32, score| scores[worker as usize % MOST_WORKERS] = score;
        self.index
            .score_into(&self.prompt, |content| content.0, false, report);
    }

    fn answer(&mut self) -> u64 {
        self.scores.iter().map(|&score| u64::from(score)).sum()
    }

    fn ready_store(&mut self, worker: usize, stored: &Stretch<'_>) {
        let pairs = stored.names.iter().zip(stored.locals);
        let blocks = pairs.map(|(&name, &local)| StoredBlock {
            seq_hash: SequenceHash(name),
            content_hash: ContentHash(local),
        });
        let parent = stored.parent.map(SequenceHash);
        let event = Event::Store(self.workers[worker], parent, blocks.collect());
        self.queue.push(event);
    }

    fn ready_remove(&mut self, worker: usize, names: &[u64]) {
        let names = names.iter().map(|&name| SequenceHash(name));
        self.queue
            .push(Event::Remove(self.workers[worker], names.collect()));
    }

    fn ready_clear(&mut self, worker: usize) {
        self.queue.push(Event::Clear(self.workers[worker]));
    }

    fn apply(&mut self) {
        for event in self.queue.drain(..) {
            match event {
                Event::Store(worker, parent, blocks) => {
                    let map = &mut self.maps[worker as usize];
                    let stored = self.index.apply_stored(worker, &blocks, parent, map);
                    stored.expect("every parent was stored before");
                }
                Event::Remove(worker, names) => {
                    let map = &mut self.maps[worker as usize];
                    self.index.apply_removed(worker, &names, map);
                }
                Event::Clear(worker) => {
                    let map = &mut self.maps[worker as usize];
                    self.index.apply_cleared(worker, map);
                }
            }
        }
    }

    fn rest(&mut self) {
        self.prompt = Vec::new();
        self.queue = Vec::new();
    }
}
