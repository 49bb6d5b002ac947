//! Every program and turn of the policy, with the sums and orders over them kept in step.
//!
//! [`Table::edit`] is the only way to change a program: it takes the program out of each sum and
//! order, lets the caller change it, and puts it back, O(log programs). So a sum can only be wrong
//! if this file is. Knows no rule of the policy: what to change, and when, is its caller's affair.
use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::config::ThunderAgentConfig;
use super::ledger::Ledger;
use super::program::{Gate, Lane, Program, ResumeGroup, Turn};
use crate::admission::{Kind, Phase, Release};
use crate::{Micros, ProgramId, ReservationId, WorkerId};

/// The orders over programs; each program is in those that its record puts it into.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) ledger: Ledger,
    /// Paused programs in the order of coming back.
    pub(super) resume: BTreeSet<(ResumeGroup, u32, ProgramId)>,
    /// Programs whose current turn is held, longest first.
    pub(super) held: BTreeSet<(Micros, ProgramId)>,
    /// Acting programs, longest idle first.
    pub(super) idle: BTreeSet<(Micros, ProgramId)>,
    pub(super) marked: usize,
    pub(super) programs: usize,
}

impl Orders {
    fn insert(&mut self, config: &ThunderAgentConfig, id: ProgramId, program: &Program) {
        self.ledger.add(config, id, program);
        if program.is_paused() {
            self.resume.insert((program.group(), program.charged, id));
        }
        if let Some(since) = program.held_since {
            self.held.insert((since, id));
        }
        if let (Phase::Acting, Some(since)) = (program.state.phase, program.idle_since) {
            self.idle.insert((since, id));
        }
        self.marked += usize::from(program.state.marked);
        self.programs += 1;
    }

    fn remove(&mut self, config: &ThunderAgentConfig, id: ProgramId, program: &Program) {
        self.ledger.remove(config, id, program);
        if program.is_paused() {
            self.resume.remove(&(program.group(), program.charged, id));
        }
        if let Some(since) = program.held_since {
            self.held.remove(&(since, id));
        }
        if let Some(since) = program.idle_since {
            self.idle.remove(&(since, id));
        }
        self.marked -= usize::from(program.state.marked);
        self.programs -= 1;
    }
}

/// Programs, turns and the orders over them.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) config: ThunderAgentConfig,
    lanes: HashMap<ProgramId, Lane>,
    turns: HashMap<ReservationId, Turn>,
    pub(super) orders: Orders,
    /// Turns not released.
    waiting: usize,
    /// Programs whose reported progress is not in the sums yet, each once.
    stale: Vec<ProgramId>,
    /// Programs that were paused since somebody asked.
    pub(super) pauses: Vec<ProgramId>,
}

impl Table {
    pub(super) fn new(config: ThunderAgentConfig) -> Self {
        Self {
            config,
            lanes: HashMap::new(),
            turns: HashMap::new(),
            orders: Orders::default(),
            waiting: 0,
            stale: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// Changes a program and keeps sums and orders in step. Nothing happens without a record.
    pub(super) fn edit(&mut self, id: ProgramId, change: impl FnOnce(&mut Program)) {
        let record = self.lanes.get_mut(&id).and_then(|l| l.program.as_mut());
        let Some(program) = record else { return };
        self.orders.remove(&self.config, id, program);
        let was_paused = program.is_paused();
        change(program);
        if program.is_paused() && !was_paused {
            self.pauses.push(id);
        }
        program.charged = program.state.tokens;
        self.orders.insert(&self.config, id, program);
    }

    /// Puts a new program's record into its lane.
    pub(super) fn create(&mut self, id: ProgramId, program: Program) {
        let lane = self.lanes.entry(id).or_default();
        if let Some(old) = lane.program.take() {
            self.orders.remove(&self.config, id, &old);
        }
        self.orders.insert(&self.config, id, &program);
        lane.program = Some(program);
    }

    /// Forgets a program's record, and its lane when no turn is left in it.
    pub(super) fn forget(&mut self, id: ProgramId) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        if let Some(program) = lane.program.take() {
            self.orders.remove(&self.config, id, &program);
        }
        if lane.queue.is_empty() {
            self.lanes.remove(&id);
        }
    }

    /// Reported growth; in the sums only from the next [`Self::renew`] on.
    pub(super) fn report(&mut self, id: ProgramId, context_tokens: u32) {
        let record = self.lanes.get_mut(&id).and_then(|l| l.program.as_mut());
        let Some(program) = record else { return };
        if context_tokens <= program.state.tokens {
            return;
        }
        if program.state.tokens == program.charged {
            self.stale.push(id);
        }
        program.state.tokens = context_tokens;
    }

    /// Brings reported growth into the sums. O(log programs) a report since the last time.
    pub(super) fn renew(&mut self) {
        for id in std::mem::take(&mut self.stale) {
            self.edit(id, |_| {});
        }
    }

    /// Takes programs off lost workers, then renews the sums.
    pub(super) fn look(&mut self) {
        for id in self.orders.ledger.look() {
            self.edit(id, |program| program.state.worker = None);
        }
        self.renew();
    }

    /// Whether a tick could change more than forget idle programs.
    pub(super) fn is_unsettled(&self) -> bool {
        let Orders { resume, ledger, .. } = &self.orders;
        let pressed = !resume.is_empty() || !ledger.over().is_empty();
        pressed || ledger.wants_look() || !self.stale.is_empty()
    }

    /// The room a program asks for: its context, unweighted, and the buffer.
    pub(super) fn need(&self, id: ProgramId) -> u64 {
        let tokens = self.program(id).map_or(0, |program| program.charged);
        u64::from(tokens) + u64::from(self.config.buffer_tokens)
    }

    /// The program of a turn that is released and not final, and so is its current one.
    pub(super) fn running(&self, ticket: ReservationId) -> Option<ProgramId> {
        let turn = self.turns.get(&ticket)?;
        let runs = turn.gate != Gate::Held && turn.begin.kind == Kind::Turn;
        runs.then_some(turn.begin.program)
    }

    /// Appends a turn to its program's lane and says whether it is the current one.
    pub(super) fn enqueue(&mut self, turn: Turn) -> bool {
        let lane = self.lanes.entry(turn.begin.program).or_default();
        lane.queue.push_back(turn.begin.ticket);
        lane.ending = false;
        self.turns.insert(turn.begin.ticket, turn);
        self.waiting += 1;
        lane.queue.len() == 1
    }

    /// Takes a turn out of its lane, wherever it stands. The lane stays, even when empty.
    pub(super) fn dequeue(&mut self, ticket: ReservationId) {
        let Some(turn) = self.turns.remove(&ticket) else {
            return;
        };
        self.waiting -= usize::from(turn.gate == Gate::Held);
        if let Some(lane) = self.lanes.get_mut(&turn.begin.program) {
            lane.queue.retain(|&queued| queued != ticket);
        }
    }

    /// Drops a lane that has neither turns nor a record worth keeping.
    pub(super) fn tidy(&mut self, id: ProgramId) {
        let Some(lane) = self.lanes.get(&id) else {
            return;
        };
        if lane.queue.is_empty() && (lane.ending || lane.program.is_none()) {
            self.forget(id);
        }
    }

    /// Lets a held turn through.
    pub(super) fn release(
        &mut self,
        ticket: ReservationId,
        worker: Option<WorkerId>,
        out: &mut Vec<Release>,
    ) {
        let Some(turn) = self.turns.get_mut(&ticket) else {
            return;
        };
        if turn.gate != Gate::Held {
            return;
        }
        turn.gate = Gate::Released(worker);
        self.waiting -= 1;
        out.push(Release { ticket, worker });
    }

    /// The program's lane will go with its last turn.
    pub(super) fn end(&mut self, id: ProgramId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.ending = true;
        }
        self.tidy(id);
    }

    pub(super) fn turn(&self, ticket: ReservationId) -> Option<&Turn> {
        self.turns.get(&ticket)
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.values()
    }

    pub(super) fn program(&self, id: ProgramId) -> Option<&Program> {
        self.lanes.get(&id)?.program.as_ref()
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = (ProgramId, &Program)> {
        let lanes = self.lanes.iter();
        lanes.filter_map(|(&id, lane)| Some((id, lane.program.as_ref()?)))
    }

    /// The turns of a program in order; the first is the current one.
    pub(super) fn queue(&self, id: ProgramId) -> impl Iterator<Item = ReservationId> {
        let lane = self.lanes.get(&id);
        lane.into_iter().flat_map(|l| l.queue.iter().copied())
    }

    /// The current turn of a program.
    pub(super) fn current(&self, id: ProgramId) -> Option<&Turn> {
        self.turns.get(self.lanes.get(&id)?.queue.front()?)
    }

    /// Whether a new program would pass the bound.
    pub(super) fn is_full_for(&self, id: ProgramId) -> bool {
        self.lanes.len() >= self.config.max_programs && !self.lanes.contains_key(&id)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn tracked(&self) -> usize {
        self.turns.len()
    }
}
