//! Which target may answer: locks first, then the session's binding, then the caller's order.
//!
//! A turn that answers tool calls goes back to the target that issued them (tool loop), and one that
//! leans on state that a provider keeps goes to the worker that keeps it (provider state). The two
//! are found by id in [`super::Owners`]; nothing here looks at sessions beyond their binding, nor at loads.
//!
//! A lock never switches silently: what happens when its owner cannot take the turn is the setting of
//! the lock that decides ([`WhenDown`]), and the note says what came of it. An owner that is not among
//! the targets the client asked for does not lock: the client has asked for another model by name, and
//! the note says so.
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

/// What happens when the owner of a lock cannot take the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// It is waited for, up to a bound, and then the turn is refused.
    #[default]
    Wait,
    /// The turn is refused.
    Fail,
    /// The turn is free without what cannot travel; refused where that cannot be taken out of it.
    Strip,
    /// The turn is free as it is, and the receipt says so.
    Escape,
}

/// Whether an owner can take a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It can.
    Here,
    /// Not now: it is down or drains.
    Away,
    /// Not for a while: it takes nothing from us, because of a quota or of our credentials.
    Limited,
    /// Never again: it has been removed.
    Gone,
    /// Its model cannot take as much, or something of that kind.
    Unfit,
}

/// What a turn did with its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breach {
    /// It was obeyed, or there was none.
    #[default]
    Kept,
    /// The turn went elsewhere as it was.
    Escaped,
    /// The turn went elsewhere without what cannot travel.
    Stripped,
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
    /// Whether the owner could not take the turn, and by setting it went elsewhere.
    pub breach: Breach,
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
    /// The owner is away, and the turn waits for it.
    pub is_waiting: bool,
}

/// What the choice may ask about the fleet.
pub trait Fleet {
    /// Whether some worker of the target can take a turn.
    fn can_serve(&self, target: TargetId) -> bool;
    /// Whether the target, or the one worker of it that may, can take a turn.
    fn presence(&self, target: TargetId, pin: Option<WorkerId>) -> Presence;
}

/// What locks a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    tool: Option<Owner>,
    state: Option<Owner>,
    unknown: u32,
    passed_over: u32,
    breach: Breach,
}

impl Evidence {
    /// The same without what locks; the locks that are broken count as passed over.
    pub(crate) fn broken(self, breach: Breach) -> Self {
        let locks = u32::from(self.tool.is_some()) + u32::from(self.state.is_some());
        Self {
            tool: None,
            state: None,
            passed_over: self.passed_over + locks,
            breach,
            ..self
        }
    }

    /// Whom the locks name; `None` for a free turn.
    pub(crate) fn owner(&self) -> Option<Choice> {
        let mut note = self.note();
        let (owner, pin) = match (self.tool, self.state) {
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
            (None, None) => return None,
        };
        Some(Choice {
            target: owner.target,
            pin,
            note,
            is_detour: false,
            is_waiting: false,
        })
    }

    fn note(&self) -> LockNote {
        LockNote {
            lock: Lock::Free,
            unknown: self.unknown,
            passed_over: self.passed_over,
            breach: self.breach,
        }
    }

    /// Takes the owner of an answered tool call into account; the first one known decides. `may_decide`
    /// says whether an owner is among those asked for.
    pub(crate) fn tool_result(
        &mut self,
        owner: Option<Owner>,
        may_decide: impl Fn(TargetId) -> bool,
    ) {
        Self::weigh(
            owner,
            may_decide,
            &mut self.tool,
            &mut self.unknown,
            &mut self.passed_over,
        );
    }

    /// Takes the owner of a piece of provider state into account; the first one known decides. One that
    /// has been removed decides too: nobody else has what it kept.
    pub(crate) fn state(&mut self, owner: Option<Owner>, may_decide: impl Fn(TargetId) -> bool) {
        Self::weigh(
            owner,
            may_decide,
            &mut self.state,
            &mut self.unknown,
            &mut self.passed_over,
        );
    }

    fn weigh(
        owner: Option<Owner>,
        may_decide: impl Fn(TargetId) -> bool,
        held: &mut Option<Owner>,
        unknown: &mut u32,
        passed_over: &mut u32,
    ) {
        match (owner, *held) {
            (None, _) => *unknown += 1,
            (Some(owner), _) if !may_decide(owner.target) => *passed_over += 1,
            (Some(owner), None) => *held = Some(owner),
            (Some(owner), Some(first)) if owner.target != first.target => *passed_over += 1,
            (Some(_), Some(_)) => {}
        }
    }
}

/// What the setting of a lock has made of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// It goes where the lock says, now or when that is back.
    Kept(Choice),
    /// It is free.
    Broken(Breach),
}

/// What the setting of a lock makes of a turn whose owner is as `presence` says. `name` is what the
/// owner is called.
///
/// # Errors
/// `OWNER_UNAVAILABLE` when a repeat may help, `STATE_LOST` when none will.
pub(crate) fn obey(
    owner: Choice,
    presence: Presence,
    when_down: WhenDown,
    can_strip: bool,
    name: &str,
) -> Result<Obeyed> {
    match (presence, when_down) {
        (Presence::Here, _) => return Ok(Obeyed::Kept(owner)),
        (_, WhenDown::Escape) => return Ok(Obeyed::Broken(Breach::Escaped)),
        (_, WhenDown::Strip) if can_strip => return Ok(Obeyed::Broken(Breach::Stripped)),
        (Presence::Away | Presence::Limited, WhenDown::Wait) => {
            return Ok(Obeyed::Kept(Choice {
                is_waiting: true,
                ..owner
            }));
        }
        _ => {}
    }
    let what = format!("the turn leans on what target \"{name}\" has issued or keeps");
    Err(match presence {
        Presence::Here | Presence::Away | Presence::Limited => {
            Error::owner_unavailable(format!("{what}, and that cannot take it now"))
        }
        Presence::Gone => Error::state_lost(format!("{what}, and that has been removed")),
        Presence::Unfit => Error::state_lost(format!(
            "{what}, and its model cannot take as much, or not of that kind"
        )),
    })
}

/// Chooses the target of a turn whose locks, if any, are broken: the session's, else the first that is up.
///
/// # Errors
/// `NO_WORKER` when no target can take it.
pub(crate) fn choose_free(
    asked: &[TargetId],
    evidence: Evidence,
    binding: Option<TargetId>,
    fleet: &impl Fleet,
) -> Result<Choice> {
    let bound = binding.filter(|target| asked.contains(target));
    let served = bound
        .into_iter()
        .chain(asked.iter().copied())
        .find(|&target| fleet.can_serve(target));
    let Some(target) = served else {
        return Err(Error::no_worker(
            "no worker of the targets asked for takes turns now",
        ));
    };
    Ok(Choice {
        target,
        pin: None,
        note: evidence.note(),
        is_detour: bound.is_some_and(|bound| fleet.presence(bound, None) == Presence::Away),
        is_waiting: false,
    })
}

#[cfg(test)]
mod tests;
