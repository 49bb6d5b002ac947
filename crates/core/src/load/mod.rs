//! What is in flight on each worker?
//!
//! A reservation occupies a worker from begin to end: its uncached tokens until the first token, its
//! blocks (one that several turns share counts once), and itself. The ledger is exact under any
//! order of events: what a reservation added is written down and taken back once, so a late, double
//! or unknown event changes nothing and says so. Nothing expires; whoever begins must end, and a
//! worker that is lost takes its reservations with it.
//!
//! To begin and to end cost the stretches that the turn shares with others in flight and a copy of
//! what is new in it (`runs.rs`), to read a worker's load O(1). It trusts chains to be prefixes (a turn
//! holds all its blocks from the root). It knows nothing of caches, costs or time.
//!
//! A map with an entry a block lost: it took 76 % of the time of a simulation with long prompts.
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::block::Chain;
use crate::{ReservationId, WorkerId};

mod reached;
mod runs;

use reached::Reached;
use runs::{RunId, Runs};

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

/// What a worker does that did not come through here, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Turns, waiting ones included.
    pub requests: u32,
    /// Tokens of cache that they hold.
    pub tokens: u64,
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

#[derive(Clone, Debug)]
struct Held {
    worker: WorkerId,
    /// Tokens still to be computed; absent once there was a first token.
    prefill_tokens: Option<u32>,
    /// Where its blocks end.
    last: RunId,
}

/// The load of all workers.
#[derive(Clone, Debug, Default)]
pub struct LoadLedger {
    /// By worker.
    workers: Vec<Option<WorkerLoad>>,
    /// By worker; those beyond its end have nothing.
    untracked: Vec<Untracked>,
    held: HashMap<ReservationId, Held>,
    runs: Runs,
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
        self.set_untracked(worker, Untracked::default());
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
        let (last, added) = self.runs.enter(worker, chain);
        load.block_tokens += added;
        load.prefill_tokens += u64::from(uncached_tokens);
        load.requests += 1;
        vacant.insert(Held {
            worker,
            prefill_tokens: Some(uncached_tokens),
            last,
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
        let Some(held) = self.held.remove(&id) else {
            return Noted::Unknown;
        };
        if let Some(Some(load)) = self.workers.get_mut(held.worker.index()) {
            load.prefill_tokens -= u64::from(held.prefill_tokens.unwrap_or(0));
            load.requests -= 1;
            load.block_tokens -= self.runs.leave(held.worker, held.last);
        }
        Noted::Done(held.worker)
    }

    /// What a worker has in flight; absent when there is no such worker. O(1).
    #[must_use]
    pub fn load(&self, worker: WorkerId) -> Option<WorkerLoad> {
        self.workers.get(worker.index()).copied().flatten()
    }

    /// Takes note of what a worker does for others. Returns what it was before.
    pub fn set_untracked(&mut self, worker: WorkerId, untracked: Untracked) -> Untracked {
        if self.untracked.len() <= worker.index() {
            if untracked == Untracked::default() {
                return untracked;
            }
            self.untracked
                .resize(worker.index() + 1, Untracked::default());
        }
        std::mem::replace(&mut self.untracked[worker.index()], untracked)
    }

    /// What a worker does for others, as far as anybody has said. O(1).
    #[must_use]
    pub fn untracked(&self, worker: WorkerId) -> Untracked {
        let known = self.untracked.get(worker.index());
        known.copied().unwrap_or_default()
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
        let Shared { way, reached, .. } = out;
        self.runs.shared(chain.hashes(), way, reached);
    }
}

/// How much of one prompt each worker has in flight. Reusable.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    reached: Reached,
    ends: Vec<u32>,
    way: Vec<(RunId, u32)>,
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
        match self.reached.of(worker.0) {
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

#[cfg(test)]
mod tests;
