//! What a policy is asked: the models that could take a turn, and what its session has done so far.

use super::lock::Lock;
use super::lookahead::RouteId;
use super::model::Model;

/// Where the past stops to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The session was silent for longer than its cache lives.
    Idle,
    /// The caller says that the task is another one.
    Drift,
    /// The prompt has little in common with the last one: a new conversation, or a compaction.
    NewConversation,
    /// The session's own model cannot read the history any more.
    TooLong,
}

/// A model that could take the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// What is known of it.
    pub model: Model,
    /// Prompt tokens that its cache has, contiguous from the root.
    pub warm_tokens: u32,
}

/// What the session has done so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// The row of its model; `None` when it has none, or that one is not among the rows.
    pub current: Option<usize>,
    /// Turns before this one.
    pub turns: u32,
    /// How often its model has changed.
    pub switches: u32,
    /// Free turns since the last locked one. A session begins with 1: its first turns are not those
    /// that follow a loop.
    pub free_turns: u32,
    /// Tokens by which its prompt grows a turn, on average; 0 when unknown.
    pub step_tokens: u32,
}

impl Default for Past {
    fn default() -> Self {
        Self {
            current: None,
            turns: 0,
            switches: 0,
            free_turns: 1,
            step_tokens: 0,
        }
    }
}

/// A turn as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question<'a> {
    /// What holds the session to its model; a policy may be set to disregard it.
    pub lock: Lock,
    /// Where the past stops to bind.
    pub boundary: Option<Boundary>,
    /// The models that could take it, in order of preference. Not empty.
    pub rows: &'a [Row],
    /// The row of the base choice; below `rows.len()`.
    pub asked: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, tokens that earlier turns have sent or been answered.
    pub history_tokens: u32,
    /// What kind of work it is: sessions of one route are expected to resemble each other.
    pub route: RouteId,
    /// What the session has done.
    pub past: Past,
}

impl Question<'_> {
    /// Whether nothing came before this turn.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.past.turns == 0
    }

    /// The row of the session's model, or that of the base choice where it has none.
    #[must_use]
    pub fn current_or_asked(&self) -> usize {
        self.past.current.unwrap_or(self.asked)
    }

    pub(super) fn asked_model(&self) -> &Model {
        &self.rows[self.asked].model
    }
}
