//! The engines of a fleet: which of them is due, and what all of them did together.
//!
//! It keeps the time of each engine's next event, so that an event of one costs a look at a list of
//! numbers and not at the others. An engine that dies is replaced by an empty one; what it had done
//! still counts. It does not know turns beyond their numbers, nor the router.
use super::config::EngineModel;
use super::content::Content;
use super::error::FleetError;
use super::machine::{Job, Machine, Occupancy, Tally};
use crate::event::{EngineEvent, Nanos};
use crate::histogram::Histogram;
use crate::streak::BlockNews;

#[derive(Debug)]
pub(crate) struct Engines {
    /// What each is.
    models: Vec<EngineModel>,
    news: BlockNews,
    machines: Vec<Machine>,
    /// When something happens next; the end of time when nothing will.
    due: Vec<Nanos>,
    is_up: Vec<bool>,
    /// Of engines that died.
    past: Tally,
    past_gaps: Histogram,
    /// What was done before the measurement began.
    before: Tally,
}

/// What a prompt finds where it goes, and where it would find most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) taken: u32,
    pub(crate) best: u32,
}

impl Engines {
    pub(crate) fn new(models: Vec<EngineModel>, news: BlockNews) -> Result<Self, FleetError> {
        let machines = models.iter().map(|model| Machine::new(model, news));
        let machines: Vec<_> = machines.collect::<Result<_, _>>()?;
        Ok(Self {
            news,
            due: vec![Nanos::MAX; models.len()],
            is_up: vec![true; models.len()],
            models,
            machines,
            past: Tally::default(),
            past_gaps: Histogram::default(),
            before: Tally::default(),
        })
    }

    pub(crate) fn count(&self) -> u32 {
        self.machines.len() as u32
    }

    /// When the first of them is due.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.due.iter().copied().min().filter(|&at| at < Nanos::MAX)
    }

    pub(crate) fn is_due(&self, worker: u32, now: Nanos) -> bool {
        self.due[worker as usize] <= now
    }

    pub(crate) fn is_up(&self, worker: u32) -> bool {
        self.is_up.get(worker as usize).copied().unwrap_or(false)
    }

    /// Moves one engine's clock; a pass that is due then is not begun.
    pub(crate) fn settle(
        &mut self,
        worker: u32,
        now: Nanos,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        self.machines[worker as usize].settle(now, content, events);
        self.look(worker);
    }

    /// Begins a pass that is due.
    pub(crate) fn begin(
        &mut self,
        worker: u32,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        self.machines[worker as usize].begin(content, events);
        self.look(worker);
    }

    /// What the prompt finds on `worker`, and at most on any that is up. O(workers + blocks found).
    pub(crate) fn offered(&self, worker: u32, job: &Job<'_>, content: &mut Content<'_>) -> Offered {
        let mut offered = Offered { taken: 0, best: 0 };
        for other in (0..self.count()).filter(|&other| self.is_up(other)) {
            let found = self.machines[other as usize].overlap(job, content);
            offered.best = offered.best.max(found);
            if other == worker {
                offered.taken = found;
            }
        }
        offered
    }

    /// A turn arrives at `worker` now.
    pub(crate) fn submit(
        &mut self,
        worker: u32,
        now: Nanos,
        job: &Job<'_>,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        let machine = &mut self.machines[worker as usize];
        machine.settle(now, content, events);
        machine.submit(now, job, content, events);
        self.look(worker);
    }

    /// A turn on `worker` is given up now.
    pub(crate) fn cancel(
        &mut self,
        worker: u32,
        now: Nanos,
        id: u64,
        content: &mut Content<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        let machine = &mut self.machines[worker as usize];
        machine.settle(now, content, events);
        machine.cancel(id, events);
        self.look(worker);
    }

    pub(crate) fn lease(&mut self, worker: u32, session: u64, until: Nanos) {
        self.machines[worker as usize].lease(session, until);
    }

    /// The engine is gone, with all that it had.
    pub(crate) fn die(&mut self, worker: u32, now: Nanos, content: &mut Content<'_>) {
        let machine = &mut self.machines[worker as usize];
        self.past = self.past.plus(&machine.tally());
        if let Some(gaps) = machine.gaps() {
            self.past_gaps.merge(gaps);
        }
        if let Ok(mut empty) = Machine::new(&self.models[worker as usize], self.news) {
            empty.settle(now, content, &mut Vec::new());
            *machine = empty;
        }
        self.is_up[worker as usize] = false;
        self.look(worker);
    }

    pub(crate) fn come_back(&mut self, worker: u32, now: Nanos, content: &mut Content<'_>) {
        self.machines[worker as usize].settle(now, content, &mut Vec::new());
        self.is_up[worker as usize] = true;
    }

    /// The measurement begins now: what was done so far does not count.
    pub(crate) fn mark(&mut self) {
        self.before = self.total();
        self.past_gaps.clear();
        for gaps in self.machines.iter_mut().filter_map(Machine::gaps) {
            gaps.clear();
        }
    }

    /// What all of them did since the mark.
    pub(crate) fn done(&self) -> Tally {
        self.total().minus(&self.before)
    }

    /// Time between tokens since the mark.
    pub(crate) fn gaps(&mut self) -> Histogram {
        let mut all = self.past_gaps.clone();
        for gaps in self.machines.iter_mut().filter_map(Machine::gaps) {
            all.merge(gaps);
        }
        all
    }

    /// What they are doing, together.
    pub(crate) fn occupancy(&self) -> Occupancy {
        self.machines
            .iter()
            .map(Machine::occupancy)
            .fold(Occupancy::default(), |sum, one| Occupancy {
                running: sum.running + one.running,
                waiting: sum.waiting + one.waiting,
            })
    }

    fn total(&self) -> Tally {
        let tallies = self.machines.iter().map(Machine::tally);
        tallies.fold(self.past, |sum, one| sum.plus(&one))
    }

    fn look(&mut self, worker: u32) {
        let next = self.machines[worker as usize].next_event();
        self.due[worker as usize] = next.unwrap_or(Nanos::MAX);
    }
}
