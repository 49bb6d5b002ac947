//! What is in flight on each worker?
//!
//! A reservation occupies a worker from begin to end: its uncached tokens until the first token, its
//! blocks (one that several turns share counts once), and itself. The ledger is exact under any
//! order of events: what a reservation added is written down and taken back once, so a late, double
//! or unknown event changes nothing and says so. Nothing expires; whoever begins must end, and a
//! worker that is lost takes its reservations with it.
//!
//! O(depth) to begin and end, O(1) to read a worker's load; the tokens of a prompt that are in flight
//! already are found like cached ones, in O(changes × log depth). It trusts chains to be prefixes
//! (a turn holds all its blocks from the root). It knows nothing of caches, costs or time.
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use smallvec::SmallVec;

use crate::block::Chain;
use crate::steps::{Layers, Steps};
use crate::table::ByHash;
use crate::{ReservationId, WorkerId};

/// Emptied hash lists are kept for the next turns, up to so many.
const SPARE_LISTS: usize = 64;

/// What one worker has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Tokens still to be computed before a first token, over all its turns.
    pub prefill_tokens: u64,
    /// Tokens of the distinct blocks of its turns.
    pub block_tokens: u64,
    /// Turns.
    pub requests: u32,
}

/// What became of a begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It counts.
    Entered,
    /// A reservation of this id is in flight; nothing changed.
    DuplicateId,
    /// There is no such worker; nothing changed.
    UnknownWorker,
}

/// What became of a later event of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It counts; the reservation is, or was, on this worker.
    Done(WorkerId),
    /// The same event came before; nothing changed.
    Already(WorkerId),
    /// No such reservation (any more): never begun, ended, or lost with its worker; nothing changed.
    Unknown,
}

/// How many turns of one worker use a block, and with how many tokens it was entered.
#[derive(Clone, Copy, Debug)]
struct Use {
    worker: u32,
    turns: u32,
    tokens: u32,
}

#[derive(Clone, Debug)]
struct Held {
    worker: WorkerId,
    /// Tokens still to be computed; absent once there was a first token.
    prefill_tokens: Option<u32>,
    hashes: Vec<u64>,
}

/// Who uses one block: one worker as a rule, and that one costs no allocation.
type Uses = SmallVec<[Use; 1]>;

/// The load of all workers.
#[derive(Clone, Debug, Default)]
pub struct LoadLedger {
    /// By worker.
    workers: Vec<Option<WorkerLoad>>,
    held: HashMap<ReservationId, Held>,
    /// Who uses a block, ascending by worker.
    blocks: ByHash<Uses>,
    spare: Vec<Vec<u64>>,
}

impl LoadLedger {
    /// A ledger without workers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a worker with nothing in flight. False, and no change, when it is registered.
    pub fn add_worker(&mut self, worker: WorkerId) -> bool {
        if self.workers.len() <= worker.index() {
            self.workers.resize(worker.index() + 1, None);
        }
        let known = &mut self.workers[worker.index()];
        let new = known.is_none();
        known.get_or_insert_default();
        new
    }

    /// Forgets a worker and everything in flight on it. Returns how many turns that was; absent when
    /// there is no such worker. O(all reservations): losing a worker is rare.
    pub fn remove_worker(&mut self, worker: WorkerId) -> Option<usize> {
        self.workers.get(worker.index())?.as_ref()?;
        let on_it = self.held.iter().filter(|(_, held)| held.worker == worker);
        let lost: Vec<_> = on_it.map(|(id, _)| *id).collect();
        for id in &lost {
            self.end(*id);
        }
        debug_assert_eq!(self.load(worker), Some(WorkerLoad::default()));
        self.workers[worker.index()] = None;
        Some(lost.len())
    }

    /// A turn starts on `worker`: `chain` are its blocks, `uncached_tokens` what has to be computed.
    pub fn begin(
        &mut self,
        id: ReservationId,
        worker: WorkerId,
        chain: &Chain,
        uncached_tokens: u32,
    ) -> Begun {
        let Some(Some(load)) = self.workers.get_mut(worker.index()) else {
            return Begun::UnknownWorker;
        };
        let Entry::Vacant(vacant) = self.held.entry(id) else {
            return Begun::DuplicateId;
        };
        let mut hashes = self.spare.pop().unwrap_or_default();
        hashes.extend_from_slice(chain.hashes());
        for (i, &hash) in hashes.iter().enumerate() {
            let users = self.blocks.entry(hash).or_default();
            load.block_tokens += enter(users, worker, chain.block_tokens(i));
        }
        load.prefill_tokens += u64::from(uncached_tokens);
        load.requests += 1;
        vacant.insert(Held {
            worker,
            prefill_tokens: Some(uncached_tokens),
            hashes,
        });
        Begun::Entered
    }

    /// The turn has its first token: nothing is left to be computed before it.
    pub fn first_token(&mut self, id: ReservationId) -> Noted {
        let Some(held) = self.held.get_mut(&id) else {
            return Noted::Unknown;
        };
        let worker = held.worker;
        let Some(tokens) = held.prefill_tokens.take() else {
            return Noted::Already(worker);
        };
        if let Some(Some(load)) = self.workers.get_mut(worker.index()) {
            load.prefill_tokens -= u64::from(tokens);
        }
        Noted::Done(worker)
    }

    /// The turn is over, however it ended.
    pub fn end(&mut self, id: ReservationId) -> Noted {
        let Some(mut held) = self.held.remove(&id) else {
            return Noted::Unknown;
        };
        if let Some(Some(load)) = self.workers.get_mut(held.worker.index()) {
            load.prefill_tokens -= u64::from(held.prefill_tokens.unwrap_or(0));
            load.requests -= 1;
            for &hash in &held.hashes {
                load.block_tokens -= leave(&mut self.blocks, hash, held.worker);
            }
        }
        if self.spare.len() < SPARE_LISTS {
            held.hashes.clear();
            self.spare.push(held.hashes);
        }
        Noted::Done(held.worker)
    }

    /// What a worker has in flight; absent when there is no such worker. O(1).
    #[must_use]
    pub fn load(&self, worker: WorkerId) -> Option<WorkerLoad> {
        self.workers.get(worker.index()).copied().flatten()
    }

    /// Reservations in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How much of `chain` each worker has in flight already: what a turn there would not add. No
    /// allocation once `out` has grown.
    pub fn shared(&self, chain: &Chain, out: &mut Shared) {
        out.ends.clear();
        out.ends.extend_from_slice(chain.ends());
        let layers = LedgerLayers {
            blocks: &self.blocks,
            hashes: chain.hashes(),
        };
        out.steps.walk(chain.len(), &layers);
    }
}

/// Adds a turn of `worker` to a block's users; the tokens that this adds to the worker's blocks.
fn enter(users: &mut Uses, worker: WorkerId, tokens: u32) -> u64 {
    match users.binary_search_by_key(&worker.0, |u| u.worker) {
        Ok(at) => {
            users[at].turns += 1;
            0
        }
        Err(at) => {
            let first = Use {
                worker: worker.0,
                turns: 1,
                tokens,
            };
            users.insert(at, first);
            u64::from(tokens)
        }
    }
}

/// Takes a turn of `worker` off a block's users; the tokens that this takes off the worker's blocks.
fn leave(blocks: &mut ByHash<Uses>, hash: u64, worker: WorkerId) -> u64 {
    let Some(users) = blocks.get_mut(&hash) else {
        return 0;
    };
    let Ok(at) = users.binary_search_by_key(&worker.0, |u| u.worker) else {
        return 0;
    };
    users[at].turns -= 1;
    if users[at].turns > 0 {
        return 0;
    }
    let tokens = users.remove(at).tokens;
    if users.is_empty() {
        blocks.remove(&hash);
    }
    u64::from(tokens)
}

/// How much of one prompt each worker has in flight. Reusable.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    steps: Steps,
    ends: Vec<u32>,
}

impl Shared {
    /// An answer to nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tokens of the prompt's blocks that `worker` has in flight. O(1).
    #[must_use]
    pub fn tokens_at(&self, worker: WorkerId) -> u32 {
        match self.steps.blocks_at(worker.0) {
            0 => 0,
            n => self.ends[n as usize - 1],
        }
    }

    /// Tokens of the prompt's blocks that a turn on `worker` would add. O(1).
    #[must_use]
    pub fn additional_at(&self, worker: WorkerId) -> u32 {
        self.ends
            .last()
            .map_or(0, |all| all - self.tokens_at(worker))
    }
}

struct LedgerLayers<'a> {
    blocks: &'a ByHash<Uses>,
    hashes: &'a [u64],
}

impl Layers for LedgerLayers<'_> {
    fn count(&self, depth: usize) -> usize {
        self.blocks
            .get(&self.hashes[depth])
            .map_or(0, SmallVec::len)
    }

    fn keys(&self, depth: usize, out: &mut Vec<u32>) {
        if let Some(users) = self.blocks.get(&self.hashes[depth]) {
            out.extend(users.iter().map(|u| u.worker));
        }
    }
}

#[cfg(test)]
mod tests;
