//! Where does a session stay?
//!
//! Each chain of a session (a program) has a home: the worker that took its last turn, unless that was a
//! detour. A home is worth something only while its cache has something of the session, so it has no
//! lifetime of its own: whoever places a turn looks at what the worker's cache has of the prompt now. This
//! room remembers homes and says how much one may weigh; it knows no cache, no load and no health.
//!
//! A home is neither the target nor the model that a session is bound to: those are continuity's, and
//! a session that is answered by another model for a turn keeps its home here. O(1) a turn; as many entries
//! as there are programs, and one leaves with its program.
use hashbrown::HashMap;

use crate::id::{ProgramId, WorkerId};

/// How strongly a session stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not at all: what is cached counts in the cost, and nothing else does.
    #[default]
    Off,
    /// Home is cheaper by a bounded credit.
    Soft,
    /// Home takes every turn while it is up and warm, whatever its load.
    Hard,
}

/// The settings of affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityConfig {
    /// How strongly.
    pub mode: Mode,
    /// Tokens of prompt that a warm home may have to compute more than another worker and still be chosen
    /// (with [`Mode::Hard`]: that the worker of a session's parent may). What is warm there bounds it too.
    pub credit_tokens: u32,
}

impl Default for AffinityConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            credit_tokens: 4_096,
        }
    }
}

/// Whose worker a turn is drawn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The chain's own home.
    Own,
    /// That of the session's longest other chain, or of the session that spawned it: the chain is new.
    Parent,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The turn went there.
    Stayed,
    /// It is warm, and another worker costs less even so.
    Moved,
    /// Its cache has nothing of the session's own any more.
    Cold,
    /// It cannot take the turn for now: the session returns.
    Detour,
    /// It gives its sessions away, is limited, or has been removed.
    Left,
}

/// What affinity had to do with a decision; part of the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityNote {
    /// The worker in question.
    pub worker: WorkerId,
    /// Why that one.
    pub tie: Tie,
    /// What came of it.
    pub came: Came,
}

/// The homes of all programs that have one.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    by_program: HashMap<ProgramId, WorkerId>,
}

impl Homes {
    /// The program's home.
    pub(crate) fn of(&self, program: ProgramId) -> Option<WorkerId> {
        self.by_program.get(&program).copied()
    }

    /// The program lives there from now on.
    pub(crate) fn settle(&mut self, program: ProgramId, worker: WorkerId) {
        self.by_program.insert(program, worker);
    }

    /// The program will not come back.
    pub(crate) fn leave(&mut self, program: ProgramId) {
        self.by_program.remove(&program);
    }
}
