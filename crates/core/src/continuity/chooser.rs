//! The room as the scheduler uses it: a policy, one that only watches, the models that targets have, and
//! the course of each branch.
//!
//! Branches are the registry's; what is known of one leaves with it. A choice costs O(rows).

use hashbrown::HashMap;

use super::base::{BaseRule, Traits, first_met};
use super::course::Course;
use super::lock::{Lock, WhenDown};
use super::lookahead::{Asked, MAX_MODELS, RouteId};
use super::model::{Abilities, Model};
use super::note::ModelNote;
use super::policy::{Policy, PolicyConfig};
use super::question::{Boundary, Question, Row};
use crate::Result;
use crate::id::{Micros, ProgramId, TargetId};

/// How models are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContinuityConfig {
    /// Who decides.
    pub policy: PolicyConfig,
    /// Who is asked as well, without anything coming of it but a line in the receipt.
    pub shadow: Option<PolicyConfig>,
    /// When the issuer of a tool call is down.
    pub tool_owner_down: WhenDown,
    /// When the keeper of provider state is down.
    pub state_owner_down: WhenDown,
    /// How long a turn waits for such an owner to come back.
    pub owner_wait: Micros,
}

impl Default for ContinuityConfig {
    fn default() -> Self {
        Self {
            policy: PolicyConfig::default(),
            shadow: None,
            tool_owner_down: WhenDown::default(),
            state_owner_down: WhenDown::default(),
            owner_wait: OWNER_WAIT,
        }
    }
}

/// Longer than an engine needs to come back from a failed health check, shorter than the minute after
/// which proxies give up on an answer that has not begun.
const OWNER_WAIT: Micros = Micros::from_secs(30);

impl ContinuityConfig {
    /// The setting of the lock that decides.
    pub(crate) fn when_down(&self, lock: Lock) -> WhenDown {
        match lock {
            Lock::ProviderState => self.state_owner_down,
            Lock::Free | Lock::ToolLoop | Lock::Both => self.tool_owner_down,
        }
    }
}

/// What a turn says about model choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The base choice; absent, by the rules, else the first of the turn's targets that is up.
    pub base: Option<TargetId>,
    /// What kind of work it is.
    pub route: RouteId,
    /// Whether the task is another one than before.
    pub is_drift: bool,
    /// Tokens that the answer may have; 0 when unknown.
    pub max_answer_tokens: u32,
    /// Whether all provider state that it leans on can be taken out of it.
    pub can_strip: bool,
    /// What its model has to take.
    pub needs: Abilities,
}

/// A free turn and what could take it.
pub(crate) struct Candidates<'a> {
    pub(crate) targets: &'a [TargetId],
    pub(crate) rows: &'a [Row],
    pub(crate) prompt_tokens: u32,
    pub(crate) history_tokens: u32,
    pub(crate) boundary: Option<Boundary>,
    pub(crate) base: Base,
}

/// The base choice; none: the first of the turn's targets that is up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base {
    pub(crate) target: Option<TargetId>,
    /// The place of the rule that made it, if one did.
    pub(crate) rule: Option<usize>,
}

/// Chooses models.
#[derive(Debug)]
pub(crate) struct Chooser {
    config: ContinuityConfig,
    policy: Policy,
    shadow: Option<Policy>,
    courses: HashMap<ProgramId, Course>,
    models: Vec<Model>,
    rules: Vec<BaseRule>,
}

impl Chooser {
    pub(crate) fn new(config: ContinuityConfig) -> Result<Self> {
        Ok(Self {
            config,
            policy: Policy::new(config.policy)?,
            shadow: config.shadow.map(Policy::new).transpose()?,
            courses: HashMap::new(),
            models: Vec::new(),
            rules: Vec::new(),
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

    pub(crate) fn set_rules(&mut self, rules: Vec<BaseRule>) {
        self.rules = rules;
    }

    /// The base choice: the caller's, else by the first rule that the turn meets.
    pub(crate) fn base(&self, ask: &Ask, turn: &Traits, targets: &[TargetId]) -> Base {
        let (rule, target) = match ask.base {
            Some(target) => (None, Some(target)),
            None => first_met(&self.rules, turn, targets).unzip(),
        };
        Base { target, rule }
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
            lock: Lock::Free,
            boundary: candidates.boundary,
            rows: &candidates.rows[..targets.len()],
            asked: self.base_row(candidates.base, targets),
            prompt_tokens: candidates.prompt_tokens,
            history_tokens: candidates.history_tokens,
            route: ask.route,
            past: course.past(row_of),
        };
        let decision = self.policy.decide(&question);
        let shadow = self.shadow.as_mut().map(|shadow| shadow.decide(&question));
        ModelNote {
            rule: candidates.base.rule,
            ..ModelNote::new(&self.config, targets, &question, decision, shadow)
        }
    }

    /// The base choice, or, where it cannot take the turn, the next stronger one that can.
    fn base_row(&self, base: Base, targets: &[TargetId]) -> usize {
        let Some(base) = base.target else { return 0 };
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

    /// The branch has been moved to `target` for good.
    pub(crate) fn rebind(&mut self, program: ProgramId, target: TargetId) {
        if let Some(course) = self.courses.get_mut(&program) {
            course.rebind(target);
        }
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
