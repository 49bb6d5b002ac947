//! One chain of turns, as far as model choice cares: which model it has, and how it goes on.
//!
//! A policy that learns does so here, from what happens anyway: a turn that follows another, an answer,
//! an end. A few dozen bytes a branch; every call is O(1).

use super::lookahead::Asked;
use super::policy::Policy;
use super::question::Past;
use crate::id::TargetId;

/// The course of a branch.
#[derive(Clone, Debug)]
pub struct Course {
    current: Option<TargetId>,
    turns: u32,
    switches: u32,
    free_turns: u32,
    prompt_tokens: u32,
    step_tokens: u32,
    last: Option<Asked>,
}

impl Default for Course {
    fn default() -> Self {
        Self::starting_on(None)
    }
}

/// A new figure counts as much as all before it: steps grow with the history.
fn blend(before: u32, new: u32) -> u32 {
    match before {
        0 => new,
        before => before / 2 + new / 2 + (before & new & 1),
    }
}

impl Course {
    /// A branch that has had no turn; `current` is what its session was bound to, if anything.
    #[must_use]
    pub fn starting_on(current: Option<TargetId>) -> Self {
        let Past { free_turns, .. } = Past::default();
        Self {
            current,
            turns: 0,
            switches: 0,
            free_turns,
            prompt_tokens: 0,
            step_tokens: 0,
            last: None,
        }
    }

    /// The model that answered last.
    #[must_use]
    pub fn current(&self) -> Option<TargetId> {
        self.current
    }

    /// Free turns since the last locked one.
    #[must_use]
    pub fn free_turns(&self) -> u32 {
        self.free_turns
    }

    /// What is asked of a policy about it; `row_of` finds a target among the rows.
    #[must_use]
    pub fn past(&self, row_of: impl Fn(TargetId) -> Option<usize>) -> Past {
        Past {
            current: self.current.and_then(row_of),
            turns: self.turns,
            switches: self.switches,
            free_turns: self.free_turns,
            step_tokens: self.step_tokens,
        }
    }

    /// A turn that asked so, with a prompt of so many tokens, goes to `target`.
    pub fn go_on(
        &mut self,
        policy: &mut Policy,
        asked: Asked,
        target: TargetId,
        prompt_tokens: u32,
    ) {
        let growth = prompt_tokens.saturating_sub(self.prompt_tokens);
        if let Some(last) = self.last.replace(asked) {
            self.step_tokens = blend(self.step_tokens, growth);
            if let Some(lookahead) = policy.lookahead_mut() {
                lookahead.went_on(self.turns, last, asked, growth);
            }
        }
        self.switches += u32::from(self.current.is_some_and(|current| current != target));
        self.current = Some(target);
        self.prompt_tokens = prompt_tokens;
        self.turns += 1;
        self.free_turns = match asked.is_locked {
            true => 0,
            false => self.free_turns.saturating_add(1),
        };
    }

    /// Its last turn goes to `target` instead, and so does what follows.
    pub fn rebind(&mut self, target: TargetId) {
        self.switches += u32::from(self.current.is_some_and(|current| current != target));
        self.current = Some(target);
    }

    /// The answer had so many tokens.
    pub fn answered(&self, policy: &mut Policy, tokens: u32) {
        if let (Some(lookahead), Some(asked)) = (policy.lookahead_mut(), self.last) {
            lookahead.answered(asked, tokens);
        }
    }

    /// It has ended, or is forgotten.
    pub fn end(self, policy: &mut Policy) {
        if let (Some(lookahead), Some(asked)) = (policy.lookahead_mut(), self.last) {
            lookahead.ended(asked.route, self.turns);
        }
    }
}
