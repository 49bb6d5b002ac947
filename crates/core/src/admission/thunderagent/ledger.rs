//! How much each worker is charged, and who is charged there.
//!
//! A running sum a worker, its acting programs by size, its reasoning ones by mark, and the workers
//! above their threshold. Knows nothing of turns, holds or time. Adding or removing a member is
//! O(log members); choosing a worker is O(live workers), paid only by programs without one.
//! Trusts its caller to remove exactly what it added.
use std::collections::{BTreeMap, BTreeSet};

use super::config::{ThunderAgentConfig, share};
use super::program::Program;
use crate::admission::Phase;
use crate::{ProgramId, WorkerId};

/// Token counts at which something happens to a worker of known capacity.
#[derive(Clone, Copy, Debug)]
struct Limits {
    full: u64,
    pause: u64,
    target: u64,
    resume: u64,
}

#[derive(Debug, Default)]
struct Worker {
    live: bool,
    /// Takes only programs that may stay there, and those that are pinned to it.
    leaving: bool,
    /// `None`: unlimited.
    limits: Option<Limits>,
    used: u64,
    acting: BTreeSet<(u32, ProgramId)>,
    /// (marked, program), so that the unmarked ones come first.
    reasoning: BTreeSet<(bool, ProgramId)>,
}

impl Worker {
    /// Whether the whole capacity has room for `need`.
    fn fits(&self, need: u64) -> bool {
        let free = |l: Limits| l.full.checked_sub(self.used);
        self.live && self.limits.is_none_or(|l| free(l) >= Some(need))
    }

    fn is_empty(&self) -> bool {
        self.acting.is_empty() && self.reasoning.is_empty()
    }

    fn is_over(&self) -> bool {
        self.live && self.limits.is_some_and(|l| self.used > l.pause)
    }

    fn members(&self) -> impl Iterator<Item = ProgramId> {
        let acting = self.acting.iter().map(|&(_, id)| id);
        acting.chain(self.reasoning.iter().map(|&(_, id)| id))
    }
}

/// All workers, live or still charged.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    workers: BTreeMap<WorkerId, Worker>,
    live: usize,
    /// The live set has changed since the last look, even if it has changed back.
    changed: bool,
    over: BTreeSet<WorkerId>,
}

impl Ledger {
    /// What `program` counts on its worker.
    pub(super) fn cost(config: &ThunderAgentConfig, program: &Program) -> u64 {
        let context = match program.state.phase {
            Phase::Reasoning => u64::from(program.charged),
            Phase::Acting => config.weighted(program.charged),
        };
        context + u64::from(config.buffer_tokens)
    }

    pub(super) fn add(&mut self, config: &ThunderAgentConfig, id: ProgramId, program: &Program) {
        let Some(home) = program.home() else { return };
        let worker = self.workers.entry(home).or_default();
        worker.used += Self::cost(config, program);
        match program.state.phase {
            Phase::Acting => worker.acting.insert((program.charged, id)),
            Phase::Reasoning => worker.reasoning.insert((program.state.marked, id)),
        };
        self.settle(home);
    }

    pub(super) fn remove(&mut self, config: &ThunderAgentConfig, id: ProgramId, program: &Program) {
        let Some(home) = program.home() else { return };
        let Some(worker) = self.workers.get_mut(&home) else {
            return;
        };
        worker.used -= Self::cost(config, program);
        match program.state.phase {
            Phase::Acting => worker.acting.remove(&(program.charged, id)),
            Phase::Reasoning => worker.reasoning.remove(&(program.state.marked, id)),
        };
        self.settle(home);
    }

    /// Keeps `over` and the table of workers in step after a change of one worker.
    fn settle(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else {
            return;
        };
        if worker.is_over() {
            self.over.insert(id);
        } else {
            self.over.remove(&id);
        }
        if !worker.live && worker.is_empty() {
            self.workers.remove(&id);
        }
    }

    pub(super) fn set(&mut self, config: &ThunderAgentConfig, id: WorkerId, capacity: Option<u64>) {
        let worker = self.workers.entry(id).or_default();
        worker.limits = capacity.map(|full| Limits {
            full,
            pause: share(full, config.pause),
            target: share(full, config.target),
            resume: share(full, config.resume),
        });
        if !worker.live {
            worker.live = true;
            self.live += 1;
            self.changed = true;
        }
        self.settle(id);
    }

    /// Takes a worker out of the live set; its members are charged there until the next look.
    pub(super) fn unset(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if worker.live {
            worker.live = false;
            self.live -= 1;
            self.changed = true;
        }
        self.settle(id);
    }

    pub(super) fn live(&self) -> impl Iterator<Item = WorkerId> {
        let live = self.workers.iter().filter(|(_, worker)| worker.live);
        live.map(|(&id, _)| id)
    }

    /// When the live set has changed since the last look: the programs on workers outside it. An
    /// empty set is taken for a gap in discovery and not looked at.
    pub(super) fn look(&mut self) -> Vec<ProgramId> {
        if !self.wants_look() {
            return Vec::new();
        }
        self.changed = false;
        let lost = self.workers.values().filter(|worker| !worker.live);
        lost.flat_map(Worker::members).collect()
    }

    /// Whether [`Self::look`] has anything to do.
    pub(super) fn wants_look(&self) -> bool {
        self.changed && self.live > 0
    }

    /// Nobody has said which workers there are, or all are gone.
    pub(super) fn is_blind(&self) -> bool {
        self.live == 0
    }

    /// Whether a worker is live; in a gap of discovery, every worker may be.
    pub(super) fn may_serve(&self, id: WorkerId) -> bool {
        self.is_blind() || self.workers.get(&id).is_some_and(|worker| worker.live)
    }

    pub(super) fn used(&self, id: WorkerId) -> u64 {
        self.workers.get(&id).map_or(0, |worker| worker.used)
    }

    /// Every worker with at least one member and its sum, by id.
    pub(super) fn charged(&self) -> impl Iterator<Item = (WorkerId, u64)> {
        let charged = self.workers.iter().filter(|(_, worker)| !worker.is_empty());
        charged.map(|(&id, worker)| (id, worker.used))
    }

    /// Whether a live worker's whole capacity has room for `need`.
    pub(super) fn has_room(&self, id: WorkerId, need: u64) -> bool {
        self.workers
            .get(&id)
            .is_some_and(|worker| worker.fits(need))
    }

    /// The least charged live worker whose whole capacity has room for `need`, or the pin if it
    /// has; the lowest id among equals.
    pub(super) fn place(&self, need: u64, pin: Option<WorkerId>) -> Option<WorkerId> {
        if let Some(pin) = pin {
            return self.has_room(pin, need).then_some(pin);
        }
        self.place_among(need, |_| true)
    }

    /// The same without a pin, of those that are `open`.
    pub(super) fn place_among(
        &self,
        need: u64,
        open: impl Fn(WorkerId) -> bool,
    ) -> Option<WorkerId> {
        let staying = self.workers.iter().filter(|(_, worker)| !worker.leaving);
        let fitting = staying.filter(|&(&id, worker)| worker.fits(need) && open(id));
        let least = fitting.min_by_key(|&(&id, worker)| (worker.used, id));
        least.map(|(&id, _)| id)
    }

    /// Says which workers take only programs that may stay there.
    pub(super) fn set_leaving(&mut self, leaving: &[WorkerId]) {
        for (id, worker) in &mut self.workers {
            worker.leaving = leaving.contains(id);
        }
    }

    pub(super) fn is_leaving(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.leaving)
    }

    /// Room below the resume ceiling of each live worker, of those that leave or of the others; an
    /// unlimited one has the most.
    pub(super) fn rooms(&self, leaving: bool) -> impl Iterator<Item = (WorkerId, u64)> {
        let live = self.workers.iter().filter(|(_, worker)| worker.live);
        let live = live.filter(move |(_, worker)| worker.leaving == leaving);
        live.map(|(&id, worker)| {
            let ceiling = worker.limits.map_or(u64::MAX, |l| l.resume);
            (id, ceiling.saturating_sub(worker.used))
        })
    }

    /// Capacity less charge of each live worker (negative when overfull), and its acting programs.
    pub(super) fn spare(
        &self,
    ) -> impl Iterator<Item = (WorkerId, i128, impl Iterator<Item = ProgramId>)> {
        let live = self.workers.iter().filter(|(_, worker)| worker.live);
        live.map(|(&id, worker)| {
            let full = worker.limits.map_or(u64::MAX, |l| l.full);
            let acting = worker.acting.iter().map(|&(_, program)| program);
            (id, i128::from(full) - i128::from(worker.used), acting)
        })
    }

    /// The live workers above their pause threshold, by id.
    pub(super) fn over(&self) -> &BTreeSet<WorkerId> {
        &self.over
    }

    /// Whether a worker is above the share at which shedding stops.
    pub(super) fn above_target(&self, id: WorkerId) -> bool {
        let Some(worker) = self.workers.get(&id) else {
            return false;
        };
        worker.limits.is_some_and(|l| worker.used > l.target)
    }

    /// The acting program of a worker with the smallest context; the lowest id among equals.
    pub(super) fn smallest_acting(&self, id: WorkerId) -> Option<ProgramId> {
        let first = self.workers.get(&id)?.acting.first();
        first.map(|&(_, program)| program)
    }

    /// A reasoning program of a worker that is not marked.
    pub(super) fn unmarked(&self, id: WorkerId) -> Option<ProgramId> {
        match self.workers.get(&id)?.reasoning.first() {
            Some(&(false, program)) => Some(program),
            _ => None,
        }
    }
}
