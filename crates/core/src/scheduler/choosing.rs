//! Which target answers a turn: the locks, then the policy of whoever may choose.
//!
//! A lock goes before everything. A free turn that only one target could take, or that nobody was set up
//! to choose for, goes by the session's binding. Else the question is put together here (which models
//! could take it, what their caches have of it, where the past stops to bind) and the room answers it.
//! A [`Guide`] borrows the rooms that are read for it; nothing changes but lists and tables that it keeps.
//! O(blocks + workers of the targets asked for).

use std::borrow::Cow;
use std::sync::Arc;

use crate::block::{Chain, Namespace};
use crate::continuity::{
    self, Asked, Base, BaseRule, Boundary, Candidates, Choice, Chooser, Course, Evidence,
    Fleet as _, IdKind, Lock, Model, ModelNote, Obeyed, Owners, Presence, Reason, Row, Traits,
};
use crate::error::{Error, Result};
use crate::id::{Micros, ProgramId, TargetId};
use crate::prefix::PrefixIndex;
use crate::session::{Session, SessionId, SessionRegistry};

use super::Scheduler;
use super::config::UNKNOWN_TTL;
use super::scoring::Scratch;
use super::topology::{Apart, Topology};
use super::turn::Turn;

/// The target of a turn, and how that was decided where there was a choice.
pub(super) struct Chosen {
    pub(super) choice: Choice,
    pub(super) note: Option<Arc<ModelNote>>,
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

/// The parts of a scheduler that say which target answers.
pub(super) struct Guide<'a> {
    now: Micros,
    topology: &'a Topology,
    sessions: &'a SessionRegistry,
    owners: &'a Owners,
    chooser: &'a mut Chooser,
    prefix: &'a PrefixIndex,
    scratch: &'a mut Scratch,
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

    /// Says which base choice turns have that come without one; the first rule met counts. Takes effect
    /// with the next turn.
    ///
    /// # Errors
    /// `UNKNOWN_ID` when a rule names no target.
    pub fn set_base_rules(&mut self, rules: Vec<BaseRule>) -> Result<()> {
        for rule in &rules {
            self.topology.target(rule.target)?;
        }
        self.chooser.set_rules(rules);
        Ok(())
    }

    /// The parts that say who answers.
    pub(super) fn guide(&mut self) -> Guide<'_> {
        Guide {
            now: self.now,
            topology: &self.topology,
            sessions: &self.sessions,
            owners: &self.owners,
            chooser: &mut self.chooser,
            prefix: &self.prefix,
            scratch: &mut self.scratch,
        }
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
        let base = self.guide().base(turn, chain.tokens());
        let asked = Asked {
            route: turn.ask.route,
            grade: self.chooser.model(base.target.unwrap_or(target)).grade,
            is_locked: chosen.choice.note.lock != Lock::Free,
            free_turns: 0,
            is_cold: chosen.note.as_ref().is_some_and(|note| note.is_cold()),
        };
        self.chooser
            .go_on(program, binding, asked, (target, chain.tokens()));
    }
}

impl Guide<'_> {
    fn base(&self, turn: &Turn<'_>, prompt_tokens: u32) -> Base {
        let traits = Traits {
            prompt_tokens,
            is_tool_loop: turn.tool_results.iter().next().is_some(),
            has: turn.ask.needs,
        };
        self.chooser.base(&turn.ask, &traits, turn.targets)
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
        let presence = self.topology.presence(choice.target, choice.pin);
        if !choice.is_waiting && presence != Presence::Here {
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
                    turn.targets.contains(&bound)
                        && self.topology.presence(bound, None) == Presence::Away
                }),
                ..choice
            },
        };
        Ok(Chosen {
            choice,
            note: Some(Arc::new(note)),
        })
    }

    /// What the locks allow.
    fn obey(&self, turn: &Turn<'_>, binding: Option<TargetId>, chain: &Chain) -> Result<Choice> {
        let evidence = self.owners_of(turn);
        let tokens = chain.tokens();
        let free = |evidence| {
            let fitting = self.fitting(turn, tokens);
            continuity::choose_free(&fitting, evidence, binding, self.topology)
        };
        let Some(owner) = evidence.owner() else {
            return free(evidence);
        };
        let presence = match self.fits(owner.target, turn, tokens) {
            true => self.topology.presence(owner.target, owner.pin),
            false => Presence::Unfit,
        };
        let when_down = self.chooser.config().when_down(owner.note.lock);
        let name = &self.topology.target(owner.target)?.name;
        match continuity::obey(owner, presence, when_down, turn.ask.can_strip, name)? {
            Obeyed::Kept(choice) => Ok(choice),
            Obeyed::Broken(breach) => free(evidence.broken(breach)),
        }
    }

    /// Who owns what the turn refers to.
    fn owners_of(&self, turn: &Turn<'_>) -> Evidence {
        let mut evidence = Evidence::default();
        let is_asked = |target: TargetId| turn.targets.contains(&target);
        let is_gone = |target| {
            self.topology
                .target(target)
                .is_ok_and(|known| known.is_removed)
        };
        for id in turn.tool_results.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::ToolCall, id);
            evidence.tool_result(owner, is_asked);
        }
        for id in turn.state.iter() {
            let owner = self.owners.find(turn.tenant, IdKind::State, id);
            evidence.state(owner, |target| is_asked(target) || is_gone(target));
        }
        evidence
    }

    /// Puts the question together; `None` where no target could take the turn.
    fn ask(
        &mut self,
        turn: &Turn<'_>,
        known: Option<SessionId>,
        chain: &mut Chain,
        binding: Option<TargetId>,
    ) -> Option<ModelNote> {
        let up = |&target: &TargetId| self.topology.can_serve(target);
        let fitting = self.fitting(turn, chain.tokens());
        let mut targets: Vec<TargetId> = fitting.iter().copied().filter(up).collect();
        if targets.is_empty() {
            targets.extend(turn.targets.iter().copied().filter(up));
        }
        if targets.is_empty() {
            return None;
        }
        let targets = targets.as_slice();
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
            base: self.base(turn, chain.tokens()),
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

    /// Whether the model can read a prompt of so many tokens and write the answer.
    fn fits(&self, target: TargetId, turn: &Turn<'_>, prompt_tokens: u32) -> bool {
        let need = prompt_tokens.saturating_add(turn.ask.max_answer_tokens);
        let model = self.chooser.model(target);
        let has_room = model.context_tokens.is_none_or(|tokens| need <= tokens);
        has_room && !model.lacks.meet(turn.ask.needs)
    }

    /// The targets whose models can take the turn; all of them where none can: whoever is asked then
    /// will say so.
    pub(super) fn fitting<'t>(&self, turn: &Turn<'t>, prompt_tokens: u32) -> Cow<'t, [TargetId]> {
        let fits = |&&target: &&TargetId| self.fits(target, turn, prompt_tokens);
        let count = turn.targets.iter().filter(fits).count();
        if count == 0 || count == turn.targets.len() {
            return Cow::Borrowed(turn.targets);
        }
        Cow::Owned(turn.targets.iter().filter(fits).copied().collect())
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
