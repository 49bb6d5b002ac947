//! One engine: what waits, what runs, and the clock that moves them.
//!
//! The clock moves only when asked to, from event to event: an arrival, the end of a pass. What a
//! pass computes is decided in `pass.rs`, where blocks live in `pool.rs`. At one moment a pass ends
//! first, then requests arrive, then the next pass begins, so a request that arrives with the end
//! of a pass is part of the next. `settle` and `begin` expose that order to a caller who drives
//! several engines and wants to place requests between the two; `advance` is both.
//! A step costs O(running requests), a submission O(log pending arrivals).
use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashSet;

use crate::config::{ConfigError, EngineConfig, Prefill, Reuse};
use crate::event::{End, EngineEvent, EventKind, Nanos};
use crate::pool::{Change, Lower, Pool};
use crate::request::{Request, RequestError};
use crate::sequence::{Fate, Sequence};
use crate::shelf::Shelf;
use crate::store::Store;
use crate::streak::{Detail, Streak};

/// A modelled engine. See the crate's head for an example.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) now: Nanos,
    pub(crate) pool: Pool,
    pub(crate) waiting: VecDeque<Sequence>,
    pub(crate) running: Vec<Sequence>,
    pub(crate) stats: EngineStats,
    pub(crate) live: HashSet<u64>,
    /// Not yet arrived, by time and then by order of submission.
    arrivals: BTreeMap<(Nanos, u64), Sequence>,
    submissions: u64,
    pub(crate) pass_end: Option<Nanos>,
    pub(crate) detail: Detail,
    pub(crate) streak: Option<Streak>,
    /// Tokens that come back from the host tier for the pass that is put together.
    pub(crate) loading: u64,
}

/// Counts since the engine was made, except for those marked as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Requests in the batch, now.
    pub running: u32,
    /// Requests that arrived and are not in the batch, now.
    pub waiting: u32,
    /// Cache blocks in use, now.
    pub used_blocks: u32,
    /// Cache blocks that a later prompt may find, in use or not, now.
    pub findable_blocks: u32,
    /// Prompt tokens looked up in the cache, at first admissions.
    pub query_tokens: u64,
    /// Of those, the ones found.
    pub hit_tokens: u64,
    /// Prompt tokens computed, those computed again after a pre-emption included.
    pub prompt_tokens: u64,
    /// Tokens that came back from the host tier.
    pub loaded_tokens: u64,
    /// Tokens made.
    pub output_tokens: u64,
    /// Times a request lost its blocks.
    pub preemptions: u64,
    /// Requests that left, however they did.
    pub ended: u64,
    /// Passes begun.
    pub passes: u64,
    /// Time spent in passes, nanoseconds.
    pub busy: Nanos,
}

impl Engine {
    /// An empty engine at time 0. Takes memory for `num_gpu_blocks` entries of 40 bytes.
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        let lower = lower(&config);
        Self::before(config, lower)
    }

    /// An empty engine that shares a store with others, in place of a host tier: what loading from it
    /// costs is what the configuration says of that.
    pub fn sharing(config: EngineConfig, store: &Store) -> Result<Self, ConfigError> {
        Self::before(config, Lower::Shared(store.clone()))
    }

    fn before(config: EngineConfig, lower: Lower) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            pool: Pool::new(config.num_gpu_blocks, lower),
            config,
            now: 0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            stats: EngineStats::default(),
            live: HashSet::new(),
            arrivals: BTreeMap::new(),
            submissions: 0,
            pass_end: None,
            detail: Detail::EveryToken,
            streak: None,
            loading: 0,
        })
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The time up to which everything has happened.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Lets `request` arrive at `at`, or at once if that is past. Requests of the same moment
    /// arrive in the order of these calls. Refuses an id that is still in the engine.
    pub fn submit(&mut self, at: Nanos, request: Request) -> Result<(), RequestError> {
        if !self.live.insert(request.id) {
            return Err(RequestError::DuplicateId(request.id));
        }
        let at = at.max(self.now);
        self.arrivals
            .insert((at, self.submissions), Sequence::new(request));
        self.submissions += 1;
        Ok(())
    }

    /// When something happens next, if nothing is submitted before. The present moment means that
    /// a pass is due: call `begin`.
    pub fn next_event(&self) -> Option<Nanos> {
        let pass = match (self.streak, self.pass_end) {
            (Some(streak), _) => Some(streak.end),
            (None, Some(end)) => Some(end),
            (None, None) => self.has_work().then_some(self.now),
        };
        self.next_arrival().into_iter().chain(pass).min()
    }

    fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves the clock to `until` and appends what happens on the way, that moment included.
    /// A time in the past moves nothing, but begins a pass that is due.
    pub fn advance(&mut self, until: Nanos, events: &mut Vec<EngineEvent>) {
        self.settle(until, events);
        self.begin(events);
    }

    /// As `advance`, but a pass that is due at `until` itself is not begun.
    pub fn settle(&mut self, until: Nanos, events: &mut Vec<EngineEvent>) {
        loop {
            self.arrive(events);
            if self.pass_end.is_none() && self.has_work() {
                if self.now >= until {
                    return;
                }
                self.begin(events);
                if self.pass_end.is_some() || !self.has_work() {
                    continue;
                }
                break;
            }
            let arrival = self.next_arrival();
            self.skip(arrival.map_or(until, |at| at.min(until)));
            match arrival.into_iter().chain(self.pass_end).min() {
                Some(at) if at <= until => self.now = at,
                _ => break,
            }
            if self.pass_end == Some(self.now) {
                self.end_pass(events);
            }
        }
        self.now = self.now.max(until);
    }

    /// Begins a pass now if there is work for one and none is under way.
    pub fn begin(&mut self, events: &mut Vec<EngineEvent>) {
        self.arrive(events);
        while self.pass_end.is_none() && self.has_work() {
            let before = (self.running.len(), self.waiting.len());
            let preemptions = self.stats.preemptions;
            let work = self.schedule(events);
            if self.running.iter().any(|s| s.granted > 0) {
                let cost = self.config.pass_ns(&work);
                self.stats.passes += 1;
                self.stats.busy = self.stats.busy.saturating_add(cost);
                self.pass_end = Some(self.now.saturating_add(cost));
                if self.stats.preemptions == preemptions {
                    self.streak = self.foresee();
                }
            } else if before == (self.running.len(), self.waiting.len()) {
                // An attempt without work has ended or pre-empted a request. One that has not would
                // be repeated for ever, and only a lost block can cause it.
                debug_assert!(false, "a request that fits is admitted when nothing runs");
                return;
            }
        }
    }

    /// Gives a request up, wherever it is; false if it is not in the engine. One that is part of
    /// the pass under way leaves at the end of that pass, as on a real engine; the others now.
    pub fn cancel(&mut self, id: u64, events: &mut Vec<EngineEvent>) -> bool {
        if !self.live.contains(&id) {
            return false;
        }
        // Whoever waited behind it may have room now.
        self.streak = None;
        if let Some(index) = self.running.iter().position(|s| s.id == id) {
            if self.pass_end.is_some() {
                self.running[index].fate = Fate::Cancelled;
            } else {
                let sequence = self.running.remove(index);
                self.leave(sequence, End::Cancelled, events);
            }
        } else if let Some(index) = self.waiting.iter().position(|s| s.id == id) {
            if let Some(sequence) = self.waiting.remove(index) {
                self.leave(sequence, End::Cancelled, events);
            }
        } else if let Some(key) = self
            .arrivals
            .iter()
            .find(|(_, s)| s.id == id)
            .map(|(k, _)| *k)
            && let Some(sequence) = self.arrivals.remove(&key)
        {
            self.leave(sequence, End::Cancelled, events);
        }
        true
    }

    /// What it holds and what it did. O(findable blocks).
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            used_blocks: self.pool.used(),
            findable_blocks: self.pool.identified() as u32,
            ..self.stats
        }
    }

    /// Tokens of a prompt of `length` tokens with these blocks that an admission would find now.
    pub(crate) fn overlap(&self, hashes: &[u64], length: u32) -> u32 {
        if self.config.reuse == Reuse::Never {
            return 0;
        }
        let size = self.config.block_size;
        let usable = (length.saturating_sub(1) / size) as usize;
        let hashes = &hashes[..usable.min(hashes.len())];
        let found = self.pool.find(hashes).count();
        let hosted = self.pool.hosted(&hashes[found..]);
        (found + hosted) as u32 * size
    }

    /// Releases what `sequence` holds and reports its end.
    pub(crate) fn leave(
        &mut self,
        mut sequence: Sequence,
        end: End,
        events: &mut Vec<EngineEvent>,
    ) {
        sequence.release(&mut self.pool);
        self.live.remove(&sequence.id);
        self.stats.ended += 1;
        let kind = EventKind::Ended {
            id: sequence.id,
            end,
            produced: sequence.produced,
        };
        events.push(EngineEvent { at: self.now, kind });
    }

    fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Moves what has arrived by now into the queue, or out if it can never run.
    fn arrive(&mut self, events: &mut Vec<EngineEvent>) {
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let sequence = entry.remove();
            if self.outgrown(sequence.length()) {
                self.leave(sequence, End::Rejected, events);
            } else {
                self.waiting.push_back(sequence);
                self.streak = None;
            }
        }
    }

    /// Whether a request of this length cannot run even alone.
    pub(crate) fn outgrown(&self, length: u32) -> bool {
        let too_long_for_a_pass =
            self.config.prefill == Prefill::Whole && length > self.config.max_num_batched_tokens;
        too_long_for_a_pass || self.config.blocks_for(length) > self.config.num_gpu_blocks
    }

    /// Makes the results of the pass visible.
    fn end_pass(&mut self, events: &mut Vec<EngineEvent>) {
        self.pass_end = None;
        self.streak = None;
        self.publish_changes(events);
        let mut leaving = false;
        for sequence in &mut self.running {
            let granted = std::mem::take(&mut sequence.granted);
            if sequence.fate == Fate::Cancelled {
                leaving = true;
                continue;
            }
            sequence.computed += granted;
            if granted > 0 && sequence.computed == sequence.length() {
                sequence.produced += 1;
                self.stats.output_tokens += 1;
                self.detail.token(self.now, sequence, events);
            }
            leaving |= sequence.produced == sequence.output;
        }
        if leaving {
            self.retire(events);
        }
    }

    /// Lets go whom the pass has brought to the end.
    fn retire(&mut self, events: &mut Vec<EngineEvent>) {
        let mut index = 0;
        while let Some(sequence) = self.running.get(index) {
            let end = match sequence.fate {
                Fate::Cancelled => End::Cancelled,
                Fate::Wanted if sequence.produced == sequence.output => End::Complete,
                Fate::Wanted => {
                    index += 1;
                    continue;
                }
            };
            let sequence = self.running.remove(index);
            self.leave(sequence, end, events);
        }
    }

    /// Reports the cache's changes, joining what follows on each other.
    fn publish_changes(&mut self, events: &mut Vec<EngineEvent>) {
        if !self.detail.wants_blocks() {
            self.pool.drain_changes();
            return;
        }
        let at = self.now;
        let mut open = None;
        for change in self.pool.drain_changes() {
            open = Some(match (open.take(), change) {
                (
                    Some(EventKind::Stored {
                        id,
                        index,
                        parent,
                        mut hashes,
                    }),
                    Change::Stored {
                        parent: Some(before),
                        hash,
                        origin,
                    },
                ) if hashes.last() == Some(&before) && origin.id == id => {
                    hashes.push(hash);
                    EventKind::Stored {
                        id,
                        index,
                        parent,
                        hashes,
                    }
                }
                (Some(EventKind::Removed { mut hashes }), Change::Removed { hash }) => {
                    hashes.push(hash);
                    EventKind::Removed { hashes }
                }
                (done, change) => {
                    events.extend(done.map(|kind| EngineEvent { at, kind }));
                    change.into()
                }
            });
        }
        events.extend(open.map(|kind| EngineEvent { at, kind }));
    }
}

/// The host tier of an engine, if it has one.
fn lower(config: &EngineConfig) -> Lower {
    let Some(host) = config.host else {
        return Lower::Nothing;
    };
    let blocks = host.capacity_tokens / u64::from(config.block_size);
    Lower::Host(Shelf::new(blocks as usize))
}
