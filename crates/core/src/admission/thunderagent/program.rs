//! One program and one turn as the ThunderAgent policy keeps them.
//!
//! Plain records. Whoever changes a program goes through `Table::edit`, which keeps sums and orders
//! in step; nothing here knows of other programs or of workers' loads.
use std::collections::VecDeque;

use crate::admission::{Begin, Phase, ProgramState, Standing};
use crate::{Micros, ReservationId, WorkerId};

/// A program: what callers see of it, and what undoing and ordering need.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) state: ProgramState,
    /// Since when it has been acting; nothing while it reasons.
    pub(super) idle_since: Option<Micros>,
    /// The tokens that sums and orders hold for it; `state.tokens` runs ahead of it between a
    /// progress report and the next call that renews.
    pub(super) charged: u32,
    /// Since when its current turn has been held.
    pub(super) held_since: Option<Micros>,
    /// What cancelling its current turn does.
    pub(super) undo: Undo,
}

/// How to take back the start of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// No turn is under way.
    Nothing,
    /// The turn created the program.
    Forget,
    /// The program was like this before.
    Restore(ProgramState, Option<Micros>),
}

/// Where a paused program stands in the order of coming back: groups first, then small contexts.
/// A first turn, or an idle program that has had only one, goes after waiting older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResumeGroup {
    Returning,
    New,
    Idle,
}

impl ResumeGroup {
    pub(super) const ALL: [Self; 3] = [Self::Returning, Self::New, Self::Idle];
}

impl Program {
    /// A program at the start of its first turn, placed nowhere yet.
    pub(super) fn new(tokens: u32) -> Self {
        Self {
            state: ProgramState {
                phase: Phase::Reasoning,
                standing: Standing::Active,
                worker: None,
                tokens,
                steps: 1,
                marked: false,
            },
            idle_since: None,
            charged: tokens,
            held_since: None,
            undo: Undo::Forget,
        }
    }

    /// The start of a further turn. The estimate replaces the exact count, downwards too.
    pub(super) fn step(&mut self, prompt_tokens: u32) {
        self.undo = Undo::Restore(self.state, self.idle_since);
        self.state.steps = self.state.steps.saturating_add(1);
        self.state.phase = Phase::Reasoning;
        self.idle_since = None;
        if prompt_tokens > 0 {
            self.state.tokens = prompt_tokens;
        }
    }

    /// The end of a turn. A marked program is paused here, whatever the load is by now.
    pub(super) fn finish(&mut self, now: Micros, context_tokens: Option<u32>) {
        self.state.tokens = context_tokens.unwrap_or(self.state.tokens);
        self.state.phase = Phase::Acting;
        self.idle_since = Some(now);
        self.held_since = None;
        self.undo = Undo::Nothing;
        if self.state.marked {
            self.pause();
        }
    }

    /// Takes its room away.
    pub(super) fn pause(&mut self) {
        self.state.standing = Standing::Paused;
        self.state.worker = None;
        self.state.marked = false;
    }

    /// Gives it room on `worker`.
    pub(super) fn resume(&mut self, worker: Option<WorkerId>) {
        self.state.standing = Standing::Active;
        self.state.worker = worker;
        self.held_since = None;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state.standing == Standing::Paused
    }

    /// The worker whose sum it counts in.
    pub(super) fn home(&self) -> Option<WorkerId> {
        match self.state.standing {
            Standing::Active => self.state.worker,
            Standing::Paused => None,
        }
    }

    pub(super) fn group(&self) -> ResumeGroup {
        match self.state.phase {
            _ if self.state.steps <= 1 => ResumeGroup::New,
            Phase::Reasoning => ResumeGroup::Returning,
            Phase::Acting => ResumeGroup::Idle,
        }
    }
}

/// The turns of one program in order of arrival; the first is the current one. Outlives the
/// program's record, since a final turn runs without one.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) program: Option<Program>,
    pub(super) queue: VecDeque<ReservationId>,
    /// The program was ended while turns of it were under way.
    pub(super) ending: bool,
}

/// A turn that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) begin: Begin,
    pub(super) gate: Gate,
}

/// On which side of the door a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Held,
    /// Let through, with the worker that admission chose at that moment.
    Released(Option<WorkerId>),
}
