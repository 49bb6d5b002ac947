//! The room as the scheduler uses it: a policy, one that only watches, the models that targets have, and
//! the course of each branch.
//!
//! Branches are the registry's; what is known of one leaves with it. A choice costs O(rows).

use hashbrown::HashMap;

use super::course::Course;
use super::lookahead::{Asked, MAX_MODELS, RouteId};
use super::model::Model;
use super::note::ModelNote;
use super::policy::{Policy, PolicyConfig};
use super::question::{Boundary, Question, Row};
use crate::Result;
use crate::id::{ProgramId, TargetId};

/// What happens when the owner of a lock cannot take the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// The turn is refused; waiting and stripping are up to the caller.
    #[default]
    Fail,
    /// The turn is free, and the receipt says so.
    Escape,
}

/// How models are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContinuityConfig {
    /// Who decides.
    pub policy: PolicyConfig,
    /// Who is asked as well, without anything coming of it but a line in the receipt.
    pub shadow: Option<PolicyConfig>,
    /// When the issuer of a tool call is down.
    pub tool_owner_down: WhenDown,
    /// When the keeper of provider state is down.
    pub state_owner_down: WhenDown,
}

/// What a turn says about model choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The base choice; absent, the first of the turn's targets that is up.
    pub base: Option<TargetId>,
    /// What kind of work it is.
    pub route: RouteId,
    /// Whether the task is another one than before.
    pub is_drift: bool,
    /// Tokens that the answer may have; 0 when unknown.
    pub max_answer_tokens: u32,
}

/// A free turn and what could take it.
pub(crate) struct Candidates<'a> {
    pub(crate) targets: &'a [TargetId],
    pub(crate) rows: &'a [Row],
    pub(crate) prompt_tokens: u32,
    pub(crate) history_tokens: u32,
    pub(crate) boundary: Option<Boundary>,
}

/// Chooses models.
#[derive(Debug)]
pub(crate) struct Chooser {
    config: ContinuityConfig,
    policy: Policy,
    shadow: Option<Policy>,
    courses: HashMap<ProgramId, Course>,
    models: Vec<Model>,
}

impl Chooser {
    pub(crate) fn new(config: ContinuityConfig) -> Result<Self> {
        Ok(Self {
            config,
            policy: Policy::new(config.policy)?,
            shadow: config.shadow.map(Policy::new).transpose()?,
            courses: HashMap::new(),
            models: Vec::new(),
        })
    }

    pub(crate) fn config(&self) -> &ContinuityConfig {
        &self.config
    }

    /// Whether anybody wants to know about a turn that several models could take.
    pub(crate) fn is_asked(&self) -> bool {
        self.config.policy != PolicyConfig::Bound || self.shadow.is_some()
    }

    pub(crate) fn model(&self, target: TargetId) -> Model {
        self.models.get(target.index()).copied().unwrap_or_default()
    }

    pub(crate) fn set_model(&mut self, target: TargetId, model: Model) {
        if self.models.len() <= target.index() {
            self.models.resize(target.index() + 1, Model::default());
        }
        self.models[target.index()] = model;
    }

    pub(crate) fn course(&self, program: ProgramId) -> Option<&Course> {
        self.courses.get(&program)
    }

    /// Who answers a free turn of the branch whose course this is.
    pub(crate) fn choose(
        &mut self,
        ask: &Ask,
        course: &Course,
        candidates: &Candidates<'_>,
    ) -> ModelNote {
        let targets = &candidates.targets[..candidates.targets.len().min(MAX_MODELS)];
        let row_of = |target| targets.iter().position(|&row| row == target);
        let question = Question {
            lock: super::Lock::Free,
            boundary: candidates.boundary,
            rows: &candidates.rows[..targets.len()],
            asked: self.base_row(ask, targets),
            prompt_tokens: candidates.prompt_tokens,
            history_tokens: candidates.history_tokens,
            route: ask.route,
            past: course.past(row_of),
        };
        let decision = self.policy.decide(&question);
        let shadow = self.shadow.as_mut().map(|shadow| shadow.decide(&question));
        ModelNote::new(&self.config, targets, &question, decision, shadow)
    }

    /// The base choice, or, where it cannot take the turn, the next stronger one that can.
    fn base_row(&self, ask: &Ask, targets: &[TargetId]) -> usize {
        let Some(base) = ask.base else { return 0 };
        let grade = self.model(base).grade;
        let same = targets.iter().position(|&target| target == base);
        let stronger = || targets.iter().position(|&t| self.model(t).grade >= grade);
        same.or_else(stronger).unwrap_or(targets.len() - 1)
    }

    /// A turn of the branch goes to `target`; `before` is what its session was bound to if nothing is
    /// known of the branch yet.
    pub(crate) fn go_on(
        &mut self,
        program: ProgramId,
        before: Option<TargetId>,
        mut asked: Asked,
        (target, prompt_tokens): (TargetId, u32),
    ) {
        let course = self.courses.entry(program);
        let course = course.or_insert_with(|| Course::starting_on(before));
        asked.free_turns = course.free_turns();
        // Both learn from the same courses; the course itself moves once.
        if let Some(shadow) = &mut self.shadow {
            course.clone().go_on(shadow, asked, target, prompt_tokens);
        }
        course.go_on(&mut self.policy, asked, target, prompt_tokens);
    }

    pub(crate) fn answered(&mut self, program: ProgramId, tokens: u32) {
        if let Some(course) = self.courses.get(&program) {
            course.answered(&mut self.policy, tokens);
            if let Some(shadow) = &mut self.shadow {
                course.answered(shadow, tokens);
            }
        }
    }

    pub(crate) fn end(&mut self, program: ProgramId) {
        if let Some(course) = self.courses.remove(&program) {
            if let Some(shadow) = &mut self.shadow {
                course.clone().end(shadow);
            }
            course.end(&mut self.policy);
        }
    }
}
