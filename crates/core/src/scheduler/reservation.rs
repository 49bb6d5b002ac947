//! Turns from submit to end: what each one occupies, and what must be settled when it ends.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::admission::Refusal;
use crate::block::{Chain, Memo, Namespace};
use crate::continuity::{Breach, Lock, LockNote, ModelNote};
use crate::id::{GroupId, Micros, PlaceId, ProgramId, ReservationId, TargetId, WorkerId};
use crate::prefix::{Coverage, Entered};
use crate::receipt::{Followed, HoldNote, Origin, Volatile};
use crate::session::SessionId;

use super::recall::Body;
use super::rendered::Begun;
use super::scoring::Form;
use super::timing::Timed;
use super::topology::Apart;
use super::turn::TurnKind;

/// What a turn does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for admission.
    Held,
    /// It was sent to this worker, as this receipt says.
    Running { worker: WorkerId, receipt: u64 },
}

/// Where a turn may go, as far as that is decided.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) target: TargetId,
    pub(super) group: GroupId,
    /// Targets that may take over when this one cannot; empty when a lock forbids it.
    pub(super) alternatives: Vec<TargetId>,
    pub(super) pin: Option<WorkerId>,
    /// Workers that have failed this turn.
    pub(super) excluded: Vec<WorkerId>,
    pub(super) apart: Apart,
    pub(super) is_detour: bool,
    /// A lasting fault has taken the session away from its target.
    pub(super) is_moved: bool,
    pub(super) lock: LockNote,
    /// What going to one of the alternatives would do with the lock; `Kept` where that is forbidden.
    pub(super) may_breach: Breach,
    /// The lock's owner is away, and admission has not been asked.
    pub(super) is_waiting: bool,
}

impl Route {
    /// The turn may go elsewhere, as the settings allow; without a lock nothing changes.
    pub(super) fn break_lock(&mut self) {
        if self.may_breach == Breach::Kept {
            return;
        }
        self.pin = None;
        self.lock.lock = Lock::Free;
        self.lock.passed_over += 1;
        self.lock.breach = self.may_breach;
    }
}

/// What a decision counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Believed {
    pub(super) place: PlaceId,
    /// In all tiers, and in the shared store.
    pub(super) tokens: u32,
    /// Of these, in the store only.
    pub(super) pool: u32,
}

/// One turn between its submit and its end.
#[derive(Debug)]
pub(super) struct Reservation {
    /// Kept here as well: the session may end before its turn does.
    pub(super) tenant: Arc<str>,
    pub(super) session: SessionId,
    pub(super) program: Option<ProgramId>,
    pub(super) kind: TurnKind,
    /// Whether its session has a loop of tool calls open.
    pub(super) is_in_loop: bool,
    /// The worker that has called the tools whose results it brings; only where sessions leave a worker.
    pub(super) answers_to: Option<WorkerId>,
    pub(super) route: Route,
    pub(super) chain: Chain,
    /// What is known of a prompt of text by tokens, where earlier answers say it.
    pub(super) begun: Option<Box<Begun>>,
    /// What the session's next turn may be hashed by.
    pub(super) memo: Option<Memo>,
    /// What the session's next body may be held against.
    pub(super) body: Option<Arc<Body>>,
    /// What was believed of the worker's cache before the turn went there.
    pub(super) coverage: Coverage,
    /// Where that was, and how much of the prompt was counted there.
    pub(super) believed: Option<Believed>,
    /// What its times will teach, where that is wanted.
    pub(super) timed: Option<Timed>,
    /// What sending it there has entered: where the engine tells, and where the router counts.
    pub(super) entered: SmallVec<[Entered; 2]>,
    /// Whose blocks these were.
    pub(super) entered_in: Namespace,
    /// Whether the worker that it is on now has computed its prompt.
    pub(super) has_token: bool,
    pub(super) form: Form,
    pub(super) origin: Origin,
    /// Tokens of the prompt, where the caller brought each of them.
    pub(super) counted_tokens: Option<u32>,
    pub(super) offers_tools: bool,
    pub(super) is_salted: bool,
    /// Bytes of canonical text, for the token rate; 0 when the caller brought tokens.
    pub(super) text_bytes: u32,
    pub(super) volatile: Option<Volatile>,
    /// How its model was chosen, until its receipt is written.
    pub(super) model: Option<Arc<ModelNote>>,
    pub(super) since: Micros,
    /// How urgent it is where turns wait.
    pub(super) priority: i16,
    pub(super) wait: Wait,
    pub(super) state: State,
}

/// How a turn has waited, if it has.
#[derive(Debug, Default)]
pub(super) struct Wait {
    pub(super) was_held: bool,
    /// The class of its group's queue that it waited in last, where that has classes.
    pub(super) class: Option<usize>,
    /// The turn that it waits for, which computes its beginning; admission has not been asked.
    pub(super) following: Option<ReservationId>,
    pub(super) followed: Option<Followed>,
    /// How it began, and why nobody took the turn then.
    pub(super) hold: HoldNote,
    pub(super) refusals: Vec<Refusal>,
}

impl Reservation {
    /// How long the turn has waited; `None` when it went at once.
    pub(super) fn waited(&self, now: Micros) -> Option<Micros> {
        self.wait.was_held.then(|| now.since(self.since))
    }

    /// Tokens of the prompt, from its start, that are known one by one.
    pub(super) fn exact_tokens(&self) -> u32 {
        match self.form {
            Form::Tokens => self.chain.tokens(),
            Form::Text => self.begun.as_ref().map_or(0, |begun| begun.tokens()),
        }
    }
}

/// The turns in flight and held.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    live: HashMap<ReservationId, Reservation>,
    next: u64,
    held: usize,
    /// Turns that were sent to a worker, by group.
    running: Vec<usize>,
    /// Lists of ended turns, to be filled again.
    spare: Vec<Chain>,
    spare_coverages: Vec<Coverage>,
}

/// Lists kept for re-use; more would only hold memory after a burst.
const SPARE_LISTS: usize = 64;

impl Reservations {
    /// Turns in flight and held.
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Turns held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes a turn in under a number of its own.
    pub(super) fn open(&mut self, reservation: Reservation) -> ReservationId {
        self.next += 1;
        let id = ReservationId(self.next);
        self.insert(id, reservation);
        id
    }

    /// An empty chain, with memory from an ended turn where there is one.
    pub(super) fn spare_chain(&mut self) -> Chain {
        self.spare.pop().unwrap_or_default()
    }

    /// An empty coverage, with memory from an ended turn where there is one.
    pub(super) fn spare_coverage(&mut self) -> Coverage {
        self.spare_coverages.pop().unwrap_or_default()
    }

    /// Puts back what [`Self::remove`] gave.
    pub(super) fn insert(&mut self, id: ReservationId, reservation: Reservation) {
        *self.count(&reservation) += 1;
        self.live.insert(id, reservation);
    }

    /// Turns of the group that were sent to a worker and have not ended.
    pub(super) fn running(&self, group: GroupId) -> usize {
        self.running.get(group.index()).copied().unwrap_or(0)
    }

    /// The count that a turn is in.
    fn count(&mut self, reservation: &Reservation) -> &mut usize {
        let group = reservation.route.group.index();
        match reservation.state {
            State::Held => &mut self.held,
            State::Running { .. } => {
                if self.running.len() <= group {
                    self.running.resize(group + 1, 0);
                }
                &mut self.running[group]
            }
        }
    }

    pub(super) fn get(&self, id: ReservationId) -> Option<&Reservation> {
        self.live.get(&id)
    }

    /// The turn, for changes that leave its state and its group alone.
    pub(super) fn get_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        self.live.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: ReservationId) -> Option<Reservation> {
        let reservation = self.live.remove(&id)?;
        *self.count(&reservation) -= 1;
        Some(reservation)
    }

    /// Takes back the memory of a chain.
    pub(super) fn recycle_chain(&mut self, mut chain: Chain) {
        if self.spare.len() < SPARE_LISTS {
            chain.clear();
            self.spare.push(chain);
        }
    }

    /// Takes back the memory of an ended turn.
    pub(super) fn recycle(&mut self, turn: Reservation) {
        if self.spare_coverages.len() < SPARE_LISTS {
            self.spare_coverages.push(turn.coverage);
        }
        self.recycle_chain(turn.chain);
    }

    /// The held turns for which `which` holds, oldest first. O(all turns): for rare events only.
    pub(super) fn held_where(&self, which: impl Fn(&Reservation) -> bool) -> Vec<ReservationId> {
        let mut ids: Vec<_> = self
            .live
            .iter()
            .filter(|(_, r)| r.state == State::Held && which(r))
            .map(|(&id, _)| id)
            .collect();
        ids.sort_unstable();
        ids
    }
}
