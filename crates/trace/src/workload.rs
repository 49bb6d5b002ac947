//! What is replayed: turns, each of one session, with their sizes, blocks and what they wait for.
//!
//! Every reader makes a [`Workload`] and the simulator drives one, so neither knows the other's
//! formats. It holds no content: a block is a number that is equal exactly where two prompts had
//! the same block at the same place after the same beginning, or where the trace said so.
//!
//! A turn starts at a time (open loop) or when others have started or ended (closed loop). What a
//! turn waits for always stands before it in `turns`, so one pass in order can resolve everything.
//!
//! It does not know workers, policies or clocks. [`WorkloadBuilder`](crate::WorkloadBuilder) checks
//! each reference, so a finished workload can be trusted. Memory: about 60 bytes a turn, 16 a wait, and 8 for each run
//! of blocks that the session had not sent before, whatever the length of the prompts.
use std::num::NonZeroU32;

use warmpath_core::Micros;

use crate::blocks::BlockStore;
use crate::turn::{Start, Turn, Wait};

/// A workload that is replayed.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) block_tokens: NonZeroU32,
    pub(crate) sessions: Vec<SessionInfo>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) blocks: BlockStore,
    pub(crate) distinct_blocks: u32,
}

/// A session of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its name in the trace; unique within the workload.
    pub name: Box<str>,
    /// Index of the session that spawned it; always smaller than its own.
    pub parent: Option<u32>,
}

impl Workload {
    /// Tokens of a block.
    #[must_use]
    pub fn block_tokens(&self) -> NonZeroU32 {
        self.block_tokens
    }

    /// All sessions; a parent stands before its children.
    #[must_use]
    pub fn sessions(&self) -> &[SessionInfo] {
        &self.sessions
    }

    /// All turns; what a turn waits for stands before it.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// What a turn waits for: all of it must be over. Empty for an open-loop start.
    #[must_use]
    pub fn waits(&self, start: Start) -> &[Wait] {
        match start {
            Start::At(_) => &[],
            Start::After(waits) => {
                &self.waits[waits.from as usize..(waits.from + waits.len) as usize]
            }
        }
    }

    /// When a turn started in the trace, from the beginning of the replay: a replay that keeps the
    /// trace's times starts nothing earlier. 0 where the trace does not say.
    #[must_use]
    pub fn not_before(&self, start: Start) -> Micros {
        match start {
            Start::At(time) => time,
            Start::After(waits) => waits.not_before,
        }
    }

    /// How many blocks the prompt of turn `index` has: at most its tokens over
    /// [`Workload::block_tokens`], rounded up (the last one may be partly filled).
    ///
    /// # Panics
    /// When there is no such turn.
    #[must_use]
    pub fn block_count(&self, index: usize) -> u32 {
        self.blocks.blocks(self.turns[index].prompt as usize)
    }

    /// Writes the blocks of the prompt of turn `index` over `out`. Numbers are dense, in order of
    /// first sight, below [`Workload::distinct_blocks`]. Cost: the blocks, and a walk of at most
    /// 64 steps; allocates only to grow `out`.
    ///
    /// # Panics
    /// When there is no such turn.
    pub fn read_blocks(&self, index: usize, out: &mut Vec<u32>) {
        self.blocks.read(self.turns[index].prompt as usize, out);
    }

    /// How many different blocks all prompts have together.
    #[must_use]
    pub fn distinct_blocks(&self) -> u32 {
        self.distinct_blocks
    }
}

/// Two workloads are equal if a replay cannot tell them apart: same sessions, turns, waits and
/// blocks. Costs all blocks.
impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.block_tokens == other.block_tokens
            && self.sessions == other.sessions
            && self.turns.len() == other.turns.len()
            && self.same_turns(other)
    }
}

impl Eq for Workload {}

impl Workload {
    fn same_turns(&self, other: &Self) -> bool {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        let pairs = self.turns.iter().zip(&other.turns).enumerate();
        pairs.into_iter().all(|(index, (a, b))| {
            self.read_blocks(index, &mut mine);
            other.read_blocks(index, &mut theirs);
            let start = match (a.start, b.start) {
                (Start::After(_), Start::After(_)) => self.waits(a.start) == other.waits(b.start),
                (a, b) => a == b,
            };
            let (sizes_a, sizes_b) = (
                (a.session, a.input_tokens, a.output_tokens, a.next),
                (b.session, b.input_tokens, b.output_tokens, b.next),
            );
            start && sizes_a == sizes_b && mine == theirs
        })
    }
}
