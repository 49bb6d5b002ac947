//! Which target may answer: locks first, then the session's binding, then the caller's order.
//!
//! A turn that answers tool calls goes back to the target that issued them (tool loop), and one that
//! leans on state that a provider keeps goes to the worker that keeps it (provider state). The two
//! are found by id in [`super::Owners`]; nothing here looks at sessions beyond their binding, nor at loads.
//!
//! A lock never switches silently: when its owner cannot take the turn, the choice is an error. An
//! owner that is not among the targets the client asked for does not lock: the client has asked for
//! another model by name, and the note says so.
use super::owners::Owner;
use crate::error::{Error, Result};
use crate::id::{TargetId, WorkerId};

/// Which lock decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// None: the turn was free.
    #[default]
    Free,
    /// The issuer of the tool calls that the turn answers.
    ToolLoop,
    /// The keeper of the state that the turn leans on.
    ProviderState,
    /// Both, and they agree.
    Both,
}

/// What is known of the owners of a turn's ids; part of the receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockNote {
    /// The lock that decided.
    pub lock: Lock,
    /// Ids that the turn refers to and nobody here has issued (a gateway that was restarted).
    pub unknown: u32,
    /// Ids whose owners contradict the one that decided, or are not among the targets asked for.
    pub passed_over: u32,
    /// The owner could not take the turn, and by setting it went elsewhere.
    pub is_escaped: bool,
}

/// Where a turn may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The target that answers.
    pub target: TargetId,
    /// The one worker that may take it.
    pub pin: Option<WorkerId>,
    /// Why.
    pub note: LockNote,
    /// The bound target was passed over for now; the binding stays.
    pub is_detour: bool,
}

/// What the choice may ask about the fleet.
pub trait Fleet {
    /// Whether some worker of the target can take a turn.
    fn can_serve(&self, target: TargetId) -> bool;
    /// Whether this worker of the target can take a turn.
    fn worker_can_serve(&self, target: TargetId, worker: WorkerId) -> bool;
    /// What an operator calls the target.
    fn target_name(&self, target: TargetId) -> &str;
}

/// What locks a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    tool: Option<Owner>,
    state: Option<Owner>,
    unknown: u32,
    passed_over: u32,
    is_escaped: bool,
}

impl Evidence {
    /// Whether anything locks the turn.
    pub(crate) fn is_locked(&self) -> bool {
        self.tool.is_some() || self.state.is_some()
    }

    /// Whether an answered tool call locks it.
    pub(crate) fn is_tool(&self) -> bool {
        self.tool.is_some()
    }

    /// The same without what locks; the locks that are escaped count as passed over.
    pub(crate) fn escaped(self) -> Self {
        let locks = u32::from(self.tool.is_some()) + u32::from(self.state.is_some());
        Self {
            tool: None,
            state: None,
            passed_over: self.passed_over + locks,
            is_escaped: true,
            ..self
        }
    }

    /// Takes the owner of an answered tool call into account; the first one known decides.
    pub(crate) fn tool_result(&mut self, owner: Option<Owner>, asked: &[TargetId]) {
        Self::weigh(
            owner,
            asked,
            &mut self.tool,
            &mut self.unknown,
            &mut self.passed_over,
        );
    }

    /// Takes the owner of a piece of provider state into account; the first one known decides.
    pub(crate) fn state(&mut self, owner: Option<Owner>, asked: &[TargetId]) {
        Self::weigh(
            owner,
            asked,
            &mut self.state,
            &mut self.unknown,
            &mut self.passed_over,
        );
    }

    fn weigh(
        owner: Option<Owner>,
        asked: &[TargetId],
        held: &mut Option<Owner>,
        unknown: &mut u32,
        passed_over: &mut u32,
    ) {
        match (owner, *held) {
            (None, _) => *unknown += 1,
            (Some(owner), _) if !asked.contains(&owner.target) => *passed_over += 1,
            (Some(owner), None) => *held = Some(owner),
            (Some(owner), Some(first)) if owner.target != first.target => *passed_over += 1,
            (Some(_), Some(_)) => {}
        }
    }
}

/// Chooses the target of a turn.
///
/// # Errors
/// `OWNER_UNAVAILABLE` when a lock's owner cannot take the turn, `NO_WORKER` when no target can.
pub(crate) fn choose(
    asked: &[TargetId],
    evidence: Evidence,
    binding: Option<TargetId>,
    fleet: &impl Fleet,
) -> Result<Choice> {
    let mut note = LockNote {
        lock: Lock::Free,
        unknown: evidence.unknown,
        passed_over: evidence.passed_over,
        is_escaped: evidence.is_escaped,
    };
    let (owner, pin) = match (evidence.tool, evidence.state) {
        (Some(tool), Some(state)) if tool.target == state.target => {
            note.lock = Lock::Both;
            (tool, Some(state.worker))
        }
        (Some(tool), state) => {
            note.lock = Lock::ToolLoop;
            note.passed_over += u32::from(state.is_some());
            (tool, None)
        }
        (None, Some(state)) => {
            note.lock = Lock::ProviderState;
            (state, Some(state.worker))
        }
        (None, None) => return free_choice(asked, binding, note, fleet),
    };
    let is_served = match pin {
        Some(worker) => fleet.worker_can_serve(owner.target, worker),
        None => fleet.can_serve(owner.target),
    };
    if !is_served {
        return Err(Error::owner_unavailable(format!(
            "the turn leans on what target \"{}\" has issued or keeps, and that cannot take it now",
            fleet.target_name(owner.target)
        )));
    }
    Ok(Choice {
        target: owner.target,
        pin,
        note,
        is_detour: false,
    })
}

fn free_choice(
    asked: &[TargetId],
    binding: Option<TargetId>,
    note: LockNote,
    fleet: &impl Fleet,
) -> Result<Choice> {
    let bound = binding.filter(|target| asked.contains(target));
    let served = bound
        .into_iter()
        .chain(asked.iter().copied())
        .find(|&target| fleet.can_serve(target));
    let Some(target) = served else {
        return Err(Error::no_worker("no worker of the targets asked for is up"));
    };
    Ok(Choice {
        target,
        pin: None,
        note,
        is_detour: bound.is_some_and(|bound| bound != target),
    })
}

#[cfg(test)]
mod tests;
