//! What the next pass computes.
//!
//! Running requests come first, in the order of their admission: one token each, or the next part
//! of a prompt. What is left of the token budget admits waiting requests in order of arrival, and
//! the first that does not fit stops the rest. A request that lacks a block makes another one give
//! its blocks up; then nothing is admitted in the same pass. The order of these steps decides the
//! digits of every later time and follows the recorded engine (tests/golden_engine.rs).
use crate::config::Work;
use crate::config::{Preemption, Prefill, Reuse};
use crate::engine::Engine;
use crate::event::{End, EngineEvent, EventKind};
use crate::pool::BlockId;
use crate::sequence::Sequence;

/// Whether a running request lost its place while the pass was put together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    Kept,
    Disturbed,
}

/// What an engine has of a prompt.
struct Found {
    /// Blocks in the cache.
    hits: Vec<BlockId>,
    /// Blocks in the host tier behind those.
    loaded: usize,
}

impl Engine {
    /// Books the work of the next pass and says what it is. Nothing is booked if all that was done
    /// is ending or pre-empting a request.
    pub(crate) fn schedule(&mut self, events: &mut Vec<EngineEvent>) -> Work {
        let mut budget = self.config.max_num_batched_tokens;
        if self.schedule_running(&mut budget, events) == Batch::Kept {
            self.admit_waiting(&mut budget, events);
        }
        self.bill()
    }

    fn schedule_running(&mut self, budget: &mut u32, events: &mut Vec<EngineEvent>) -> Batch {
        let mut batch = Batch::Kept;
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let sequence = &self.running[index];
            let tokens = (sequence.length() - sequence.computed).min(*budget);
            if self.outgrown(sequence.length()) {
                let sequence = self.running.remove(index);
                self.leave(sequence, End::CacheFull, events);
                continue;
            }
            let blocks = self.config.blocks_for(sequence.computed + tokens) - sequence.held();
            let mut place = Some(index);
            while self.pool.available() < blocks {
                batch = Batch::Disturbed;
                place = self.preempt(place, events);
                if place.is_none() {
                    return batch;
                }
            }
            if let Some(place) = place {
                let size = self.config.block_size;
                self.running[place].grant(tokens, blocks, &mut self.pool, size);
                *budget -= tokens;
            }
            // The index is not moved back when an older request gave way, so the next one misses
            // this pass.
            index += 1;
        }
        batch
    }

    /// Takes the blocks of the request whose turn it is to give way; says where the one at `place`
    /// is now, if it was not that one.
    fn preempt(&mut self, place: Option<usize>, events: &mut Vec<EngineEvent>) -> Option<usize> {
        let victim = match self.config.preemption {
            Preemption::Newest => self.running.len().checked_sub(1)?,
            Preemption::Oldest => 0,
        };
        let mut sequence = self.running.remove(victim);
        sequence.release(&mut self.pool);
        self.stats.preemptions += 1;
        events.push(EngineEvent {
            at: self.now,
            kind: EventKind::Preempted { id: sequence.id },
        });
        self.waiting.push_front(sequence);
        match place? {
            place if place == victim => None,
            place if victim < place => Some(place - 1),
            place => Some(place),
        }
    }

    fn admit_waiting(&mut self, budget: &mut u32, events: &mut Vec<EngineEvent>) {
        while *budget > 0 && (self.running.len() as u64) < u64::from(self.config.max_num_seqs) {
            let Some(sequence) = self.waiting.pop_front() else {
                return;
            };
            if self.outgrown(sequence.length()) {
                self.leave(sequence, End::CacheFull, events);
                continue;
            }
            let hits = self.cached_blocks(&sequence);
            let loaded = match self.config.reuse {
                Reuse::Prefix => sequence.hosted(hits.len(), &self.pool, self.config.block_size),
                Reuse::Never => 0,
            };
            let found = (hits.len() + loaded) as u32;
            let fresh = sequence.length() - found * self.config.block_size;
            let splits = fresh > *budget;
            let in_use = hits.iter().filter(|b| self.pool.is_used(**b)).count() as u32;
            let needed = self.config.blocks_for(sequence.length()) - in_use;
            if needed > self.pool.available() || (splits && self.config.prefill == Prefill::Whole) {
                self.waiting.push_front(sequence);
                return;
            }
            let tokens = fresh.min(*budget);
            *budget -= tokens;
            let found = Found { hits, loaded };
            self.admit(sequence, found, tokens, events);
        }
    }

    fn admit(
        &mut self,
        mut sequence: Sequence,
        found: Found,
        tokens: u32,
        events: &mut Vec<EngineEvent>,
    ) {
        let size = self.config.block_size;
        sequence.adopt(found.hits, &mut self.pool, size);
        sequence.load(found.loaded, &mut self.pool, size);
        self.loading += u64::from(size) * found.loaded as u64;
        if sequence.admissions == 0 {
            self.stats.query_tokens += u64::from(sequence.prompt);
            self.stats.hit_tokens += u64::from(sequence.computed);
        }
        sequence.admissions += 1;
        let kind = EventKind::Admitted {
            id: sequence.id,
            cached_tokens: sequence.computed,
        };
        events.push(EngineEvent { at: self.now, kind });
        let blocks = self.config.blocks_for(sequence.computed + tokens) - sequence.held();
        sequence.grant(tokens, blocks, &mut self.pool, size);
        self.running.push(sequence);
    }

    fn cached_blocks(&self, sequence: &Sequence) -> Vec<BlockId> {
        match self.config.reuse {
            Reuse::Prefix => sequence.hits(&self.pool, self.config.block_size).collect(),
            Reuse::Never => Vec::new(),
        }
    }

    /// What the booked tokens are, as far as their cost goes: the tokens of an answer that are
    /// computed again after a pre-emption cost no prefill.
    fn bill(&mut self) -> Work {
        let mut work = Work {
            loaded_tokens: std::mem::take(&mut self.loading),
            ..Work::default()
        };
        self.stats.loaded_tokens += work.loaded_tokens;
        for sequence in self.running.iter().filter(|s| s.granted > 0) {
            let reached = sequence.computed + sequence.granted;
            if sequence.computed < sequence.prompt {
                let end = reached.min(sequence.prompt);
                work.prefills += 1;
                work.prefix_tokens += u64::from(sequence.computed);
                work.reached_tokens += u64::from(end);
                self.stats.prompt_tokens += u64::from(end - sequence.computed);
            }
            if sequence.produced > 0 && reached == sequence.length() {
                work.decodes += 1;
                work.decode_tokens += u64::from(sequence.length());
            }
        }
        work
    }
}
