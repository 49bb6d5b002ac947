//! Which target answers a turn: the locks, then the policy of whoever may choose.
//!
//! A lock goes before everything. A free turn that only one target could take, or that nobody was set up
//! to choose for, goes by the session's binding. Else the question is put together here (which models
//! could take it, what their caches have of it, where the past stops to bind) and the room answers it.
//! O(blocks + workers of the targets asked for).

use crate::block::{Chain, Namespace};
use crate::continuity::{
    self, Asked, Boundary, Candidates, Choice, Course, Evidence, Fleet as _, IdKind, Lock, Model,
    ModelNote, Reason, Row, WhenDown,
};
use crate::error::{Error, Result};
use crate::id::{ProgramId, TargetId};
use crate::session::{Session, SessionId};

use super::Scheduler;
use super::config::UNKNOWN_TTL;
use super::topology::Apart;
use super::turn::Turn;

/// The target of a turn, and how that was decided where there was a choice.
pub(super) struct Chosen {
    pub(super) choice: Choice,
    pub(super) note: Option<Box<ModelNote>>,
}

/// The branch that a turn goes on with.
#[derive(Clone, Copy)]
struct Going {
    program: ProgramId,
    /// Tokens of its last prompt.
    tokens: u32,
    /// Whether the turn begins with all of that.
    is_extended: bool,
}

impl Scheduler {
    /// Says what a target's model is and costs. Takes effect with the next turn.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when there is no such target.
    pub fn set_model(&mut self, target: TargetId, model: Model) -> Result<()> {
        self.topology.target(target)?;
        self.chooser.set_model(target, model);
        Ok(())
    }

    /// The target of a turn, and the one worker that may take it, if only one may.
    pub(super) fn destination(
        &mut self,
        turn: &Turn<'_>,
        known: Option<SessionId>,
        chain: &mut Chain,
    ) -> Result<Chosen> {
        let mut chosen = self.choose(turn, known, chain)?;
        let choice = &mut chosen.choice;
        choice.pin = choice.pin.or(turn.pin);
        let is_served = |pin| self.topology.worker_can_serve(choice.target, pin);
        if !choice.pin.is_none_or(is_served) {
            return Err(Error::no_worker("the worker asked for cannot take turns"));
        }
        Ok(chosen)
    }

    fn choose(
        &mut self,
        turn: &Turn<'_>,
        known: Option<SessionId>,
        chain: &mut Chain,
    ) -> Result<Chosen> {
        let session = known.and_then(|id| self.sessions.get(id));
        let binding = session.and_then(|session| session.binding);
        let choice = self.obey(turn, binding, chain)?;
        let is_free = choice.note.lock == Lock::Free && turn.pin.is_none();
        if !is_free || turn.targets.len() < 2 || !self.chooser.is_asked() {
            return Ok(Chosen { choice, note: None });
        }
        let note = self.ask(turn, known, chain, binding);
        let Some(note) = note else {
            return Ok(Chosen { choice, note: None });
        };
        let choice = match note.decision.reason {
            Reason::Bound => choice,
            _ => Choice {
                target: note.target(),
                // The model of a session that cannot take this turn is still its model.
                is_detour: binding.is_some_and(|bound| {
                    turn.targets.contains(&bound) && !self.topology.can_serve(bound)
                }),
                ..choice
            },
        };
        Ok(Chosen {
            choice,
            note: Some(Box::new(note)),
        })
    }

    /// What the locks allow.
    fn obey(&self, turn: &Turn<'_>, binding: Option<TargetId>, chain: &Chain) -> Result<Choice> {
        let mut evidence = Evidence::default();
        for id in turn.tool_results.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::ToolCall, id);
            evidence.tool_result(owner, turn.targets);
        }
        for id in turn.state.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::State, id);
            evidence.state(owner, turn.targets);
        }
        let config = self.chooser.config();
        let when_down = match evidence.is_tool() {
            true => config.tool_owner_down,
            false => config.state_owner_down,
        };
        let obeyed = continuity::choose(turn.targets, evidence, binding, &self.topology);
        let obeyed = obeyed.and_then(|choice| match choice.note.lock {
            Lock::Free => Ok(choice),
            _ if self.fits(choice.target, turn, chain) => Ok(choice),
            _ => Err(Error::owner_unavailable(
                "the turn leans on what a target has issued or keeps whose model cannot read as much",
            )),
        });
        match (obeyed, when_down) {
            (Err(_), WhenDown::Escape) if evidence.is_locked() => {
                let free = evidence.escaped();
                continuity::choose(turn.targets, free, binding, &self.topology)
            }
            (obeyed, _) => obeyed,
        }
    }

    /// Puts the question together; `None` where no target could take the turn.
    fn ask(
        &mut self,
        turn: &Turn<'_>,
        known: Option<SessionId>,
        chain: &mut Chain,
        binding: Option<TargetId>,
    ) -> Option<ModelNote> {
        let up = turn.targets.iter().copied();
        let up: Vec<TargetId> = up.filter(|&t| self.topology.can_serve(t)).collect();
        let fits = up.iter().copied().filter(|&t| self.fits(t, turn, chain));
        let fitting: Vec<TargetId> = fits.collect();
        // Where nobody can read it all, whoever is asked will say so.
        let targets = if fitting.is_empty() { &up } else { &fitting };
        if targets.is_empty() {
            return None;
        }
        let rows = self.rows(targets, Apart::of(turn), chain);
        let identity = self.scratch.identity_chain(turn, chain.hashes());
        let session = known.and_then(|id| self.sessions.get(id));
        let going = session.and_then(|session| going(session, identity));
        let course = going
            .and_then(|going| self.chooser.course(going.program))
            .cloned()
            // A branch beside others owes nothing to them; a session that is only known by what it
            // was bound to does.
            .unwrap_or_else(|| Course::starting_on(going.and(binding)));
        let warm = course.current().and_then(|current| {
            let row = targets.iter().position(|&target| target == current)?;
            Some(rows[row].warm_tokens)
        });
        let candidates = Candidates {
            targets,
            rows: &rows,
            prompt_tokens: chain.tokens(),
            history_tokens: history(going, chain),
            boundary: self.boundary(turn, &course, (session, going), warm),
        };
        Some(self.chooser.choose(&turn.ask, &course, &candidates))
    }

    /// What each target is, and how much of the prompt its caches have. One search for targets in a
    /// row that share theirs.
    fn rows(&mut self, targets: &[TargetId], apart: Apart, chain: &mut Chain) -> Vec<Row> {
        let mut searched = None;
        let mut rows = Vec::with_capacity(targets.len());
        for &target in targets {
            let namespace = self.topology.namespace(target, apart);
            if searched.replace(namespace) != Some(namespace) {
                chain.enter(namespace);
                self.prefix.find(chain, &mut self.scratch.overlap);
            }
            rows.push(self.row(target, chain));
        }
        chain.enter(Namespace::COMMON);
        rows
    }

    fn row(&self, target: TargetId, chain: &Chain) -> Row {
        let overlap = &self.scratch.overlap;
        let group = self.topology.targets()[target.index()].group;
        let warm = self.topology.up(group);
        let warm = warm.map(|(_, worker)| self.prefix.credit(worker.place, chain, overlap));
        Row {
            model: self.chooser.model(target),
            warm_tokens: warm.max().unwrap_or(0),
        }
    }

    /// Whether the model can read the prompt and write the answer.
    fn fits(&self, target: TargetId, turn: &Turn<'_>, chain: &Chain) -> bool {
        let need = chain.tokens().saturating_add(turn.ask.max_answer_tokens);
        let context = self.chooser.model(target).context_tokens;
        context.is_none_or(|tokens| need <= tokens)
    }

    /// Where the past stops to bind; `warm` is what the session's own model has of the prompt, if it
    /// could take the turn.
    fn boundary(
        &self,
        turn: &Turn<'_>,
        course: &Course,
        (session, going): (Option<&Session>, Option<Going>),
        warm: Option<u32>,
    ) -> Option<Boundary> {
        let (current, session) = (course.current()?, session?);
        if turn.ask.is_drift {
            return Some(Boundary::Drift);
        }
        let group = self.topology.target(current).ok()?.group;
        let ttl = self.topology.groups[group.index()].ttl;
        let is_silent = self.now.since(session.last_used()) > ttl.unwrap_or(UNKNOWN_TTL);
        // Without a lifetime of its own a cache keeps what fits, so its content has the last word.
        if is_silent && (ttl.is_some() || warm == Some(0)) {
            return Some(Boundary::Idle);
        }
        if going.is_none_or(|going| !going.is_extended) {
            return Some(Boundary::NewConversation);
        }
        let is_too_long = warm.is_none() && self.topology.can_serve(current);
        is_too_long.then_some(Boundary::TooLong)
    }

    /// The turn of a branch goes where it was chosen to go.
    pub(super) fn note_course(
        &mut self,
        turn: &Turn<'_>,
        program: Option<ProgramId>,
        (chosen, binding): (&Chosen, Option<TargetId>),
        chain: &Chain,
    ) {
        let Some(program) = program.filter(|_| turn.targets.len() > 1) else {
            return;
        };
        if !self.chooser.is_asked() || chosen.choice.is_detour {
            return;
        }
        let target = chosen.choice.target;
        let asked = Asked {
            route: turn.ask.route,
            grade: self.chooser.model(turn.ask.base.unwrap_or(target)).grade,
            is_locked: chosen.choice.note.lock != Lock::Free,
            free_turns: 0,
            is_cold: chosen.note.as_ref().is_some_and(|note| note.is_cold()),
        };
        self.chooser
            .go_on(program, binding, asked, (target, chain.tokens()));
    }
}

/// The branch that a prompt goes on with, if any.
fn going(session: &Session, chain: &[u64]) -> Option<Going> {
    let (branch, is_extended) = session.branch_for(chain)?;
    Some(Going {
        program: branch.program,
        tokens: branch.tokens(),
        is_extended,
    })
}

/// Tokens of the prompt that were there before.
fn history(going: Option<Going>, chain: &Chain) -> u32 {
    let extended = going.filter(|going| going.is_extended);
    extended.map_or(0, |going| going.tokens.min(chain.tokens()))
}
