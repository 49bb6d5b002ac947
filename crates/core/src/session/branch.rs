//! The chains of one session. Most sessions have one. A client that sends two requests of a session
//! at once (a title beside the first turn, parallel tools) gets a branch for the second, so that
//! neither waits for the other and neither takes the other's place in the conversation.

use std::cmp::Reverse;

use crate::Result;
use crate::id::ProgramId;
use crate::snapshot::{Encode, Reader};

use super::{MAX_BRANCHES, Sent};

/// What a session does between the end of a turn and the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A turn is in flight or waits, or the model has ended its answer.
    #[default]
    Reasoning,
    /// Tool calls are open: the client runs tools and comes back.
    Acting,
}

/// One chain of turns.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The chain, as admission knows it.
    pub program: ProgramId,
    /// What it does.
    pub phase: Phase,
    root: u64,
    frontier: u64,
    depth: usize,
    tokens: u32,
    in_flight: bool,
}

impl Branch {
    /// The last block of its last prompt.
    #[must_use]
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// The length of its last prompt.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Whether a turn of this chain is in flight.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.in_flight
    }

    /// Bytes that [`Self::write`] writes.
    pub(super) const LEAST_BYTES: usize = 33;

    /// Writes what is known of it beside what it has in flight.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.program.0);
        out.put_u8(match self.phase {
            Phase::Reasoning => 0,
            Phase::Acting => 1,
        });
        out.put_u64(self.root);
        out.put_u64(self.frontier);
        out.put_u32(u32::try_from(self.depth).unwrap_or(u32::MAX));
        out.put_u32(self.tokens);
    }

    /// Reads what [`Self::write`] has written.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            program: ProgramId(reader.u64()?),
            phase: match reader.flag()? {
                false => Phase::Reasoning,
                true => Phase::Acting,
            },
            root: reader.u64()?,
            frontier: reader.u64()?,
            depth: reader.u32()? as usize,
            tokens: reader.u32()?,
            in_flight: false,
        })
    }

    /// Whether its last prompt had any block.
    pub(super) fn has_sent(&self) -> bool {
        self.depth > 0
    }

    fn is_at_rest(&self) -> bool {
        !self.in_flight && self.phase == Phase::Reasoning
    }

    /// Whether a prompt begins with all of its last one.
    pub(super) fn is_extended_by(&self, chain: &[u64]) -> bool {
        self.has_sent() && chain.get(self.depth - 1) == Some(&self.frontier)
    }
}

/// What entering a branch did.
pub(super) struct Entered {
    pub(super) program: Option<ProgramId>,
    pub(super) replaced: Option<ProgramId>,
    pub(super) previous_frontier: Option<u64>,
    /// Tool calls of the chain were open.
    pub(super) was_acting: bool,
    opened: bool,
}

impl Entered {
    /// Whether the program id that was offered has been used.
    pub(super) fn opened(&self) -> bool {
        self.opened
    }
}

/// Puts a turn on the branch that it continues, or on a new one called `next` when that branch is
/// busy. An unrelated turn of a session that is idle and has no tool calls open goes on in its first
/// branch: the conversation was started again. One that comes while tools run is a side request.
pub(super) fn enter(branches: &mut Vec<Branch>, sent: Sent<'_>, next: ProgramId) -> Entered {
    let idle = continued(branches, sent.chain);
    if let Some(index) = idle {
        let branch = &mut branches[index];
        let previous_frontier = branch.frontier;
        let was_acting = branch.phase == Phase::Acting;
        advance(branch, sent);
        return Entered {
            program: Some(branch.program),
            replaced: None,
            previous_frontier: Some(previous_frontier),
            was_acting,
            opened: false,
        };
    }
    let mut entered = Entered {
        program: None,
        replaced: None,
        previous_frontier: None,
        was_acting: false,
        opened: false,
    };
    if branches.len() >= MAX_BRANCHES {
        let Some(index) = branches.iter().position(|branch| !branch.in_flight) else {
            return entered;
        };
        let gone = branches.remove(index);
        entered.replaced = Some(gone.program);
        entered.previous_frontier = Some(gone.frontier);
    }
    let mut branch = Branch {
        program: next,
        phase: Phase::Reasoning,
        root: 0,
        frontier: 0,
        depth: 0,
        tokens: 0,
        in_flight: false,
    };
    advance(&mut branch, sent);
    branches.push(branch);
    entered.program = Some(next);
    entered.opened = true;
    entered
}

/// Ends the turn of `program`. Then every branch leaves that is at rest (nothing in flight, no tool
/// calls open) beside a longer one: the conversation is the longest chain, whichever of them was
/// opened or ends first.
pub(super) fn end(
    branches: &mut Vec<Branch>,
    program: ProgramId,
    phase: Option<Phase>,
    left: &mut Vec<Branch>,
) {
    let ended = branches.iter_mut().find(|b| b.program == program);
    let Some(branch) = ended else { return };
    branch.in_flight = false;
    if let Some(phase) = phase {
        branch.phase = phase;
    }
    let longest = branches
        .iter()
        .min_by_key(|b| (Reverse(b.tokens), b.program))
        .map(|b| b.program);
    left.extend(branches.extract_if(.., |b| b.is_at_rest() && Some(b.program) != longest));
}

fn advance(branch: &mut Branch, Sent { chain, tokens }: Sent<'_>) {
    branch.root = chain.first().copied().unwrap_or_default();
    branch.frontier = chain.last().copied().unwrap_or_default();
    branch.depth = chain.len();
    branch.tokens = tokens;
    branch.phase = Phase::Reasoning;
    branch.in_flight = true;
}

/// The idle branch that `chain` continues: the deepest one that it extends, else one with the same
/// first block, else the first one when nothing is in flight and no tool calls are open.
pub(super) fn continued(branches: &[Branch], chain: &[u64]) -> Option<usize> {
    let idle = || branches.iter().enumerate().filter(|(_, b)| !b.in_flight);
    let extended = idle()
        .filter(|(_, branch)| branch.is_extended_by(chain))
        .max_by_key(|(_, branch)| branch.depth);
    let related = || idle().find(|(_, branch)| chain.first() == Some(&branch.root));
    let restarted = || {
        idle()
            .next()
            .filter(|_| branches.iter().all(Branch::is_at_rest))
    };
    extended
        .or_else(related)
        .or_else(restarted)
        .map(|(index, _)| index)
}
