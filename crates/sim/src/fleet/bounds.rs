//! How much of the prompts could have been reused at best?
//!
//! Turns in the order of the workload against one cache that never forgets, and against one pooled
//! cache of a given size that forgets the least recently used block. They are points of reference: a
//! fleet that runs turns in another order can come out a little above the pooled one. O(blocks of all
//! prompts); 9 bytes a distinct block.
use serde::Serialize;
use warmpath_trace::Workload;

/// What caches of all workers together could have given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Prompt tokens of all turns.
    pub prompt_tokens: u64,
    /// Of these, found in a cache without end.
    pub infinite_tokens: u64,
    /// Of these, found in one cache of the size asked for.
    pub pooled_tokens: u64,
}

impl Bounds {
    /// Share of the prompt tokens that a cache without end would have had.
    #[must_use]
    pub fn infinite(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| self.infinite_tokens as f64 / self.prompt_tokens as f64)
    }

    /// Share of the prompt tokens that one pooled cache would have had.
    #[must_use]
    pub fn pooled(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| self.pooled_tokens as f64 / self.prompt_tokens as f64)
    }
}

/// The bounds of a workload with a pooled cache of `cache_tokens`.
#[must_use]
pub fn bounds(workload: &Workload, cache_tokens: u64) -> Bounds {
    let size = workload.block_tokens().get();
    let most = (cache_tokens / u64::from(size)) as usize;
    let mut pool = Lru::new(workload.distinct_blocks() as usize);
    let mut seen = vec![false; workload.distinct_blocks() as usize];
    let mut bounds = Bounds::default();
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns().iter().enumerate() {
        workload.read_blocks(index, &mut blocks);
        // The last token is always computed, so its block never counts.
        let usable = blocks.len().min(((turn.input_tokens - 1) / size) as usize);
        let found = |has: &dyn Fn(u32) -> bool| {
            let hits = blocks[..usable].iter().take_while(|&&block| has(block));
            hits.count() as u64 * u64::from(size)
        };
        bounds.prompt_tokens += u64::from(turn.input_tokens);
        bounds.infinite_tokens += found(&|block| seen[block as usize]);
        bounds.pooled_tokens += found(&|block| pool.has(block));
        let complete = blocks.len().min((turn.input_tokens / size) as usize);
        for &block in blocks[..complete].iter().rev() {
            seen[block as usize] = true;
            pool.touch(block);
        }
        pool.shrink(most);
    }
    bounds
}

const NONE: u32 = u32::MAX;

/// A ring of blocks in order of use, linked through two arrays.
struct Lru {
    older: Vec<u32>,
    newer: Vec<u32>,
    is_in: Vec<bool>,
    oldest: u32,
    newest: u32,
    count: usize,
}

impl Lru {
    fn new(blocks: usize) -> Self {
        Self {
            older: vec![NONE; blocks],
            newer: vec![NONE; blocks],
            is_in: vec![false; blocks],
            oldest: NONE,
            newest: NONE,
            count: 0,
        }
    }

    fn has(&self, block: u32) -> bool {
        self.is_in[block as usize]
    }

    fn touch(&mut self, block: u32) {
        if self.has(block) {
            self.take(block);
        }
        let older = std::mem::replace(&mut self.newest, block);
        match older {
            NONE => self.oldest = block,
            _ => self.newer[older as usize] = block,
        }
        self.older[block as usize] = older;
        self.newer[block as usize] = NONE;
        self.is_in[block as usize] = true;
        self.count += 1;
    }

    fn shrink(&mut self, most: usize) {
        while self.count > most {
            self.take(self.oldest);
        }
    }

    fn take(&mut self, block: u32) {
        let (older, newer) = (self.older[block as usize], self.newer[block as usize]);
        match older {
            NONE => self.oldest = newer,
            _ => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.older[newer as usize] = older,
        }
        self.is_in[block as usize] = false;
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use warmpath_core::Micros;
    use warmpath_trace::{NewStart, NewTurn, Next, WorkloadBuilder};

    #[test]
    fn a_small_pool_forgets_what_a_large_one_keeps() {
        let mut builder = WorkloadBuilder::new(NonZeroU32::new(10).unwrap());
        for (name, blocks) in [("a", [0, 1]), ("b", [2, 3]), ("c", [0, 1])] {
            let session = builder.add_session(name, None).unwrap();
            let turn = NewTurn {
                session,
                input_tokens: 25,
                output_tokens: 1,
                next: Next::Unknown,
                blocks: &blocks,
                start: NewStart::At(Micros(0)),
            };
            builder.add_turn(&turn).unwrap();
        }
        let workload = builder.finish();
        let with = |tokens| {
            let found = bounds(&workload, tokens);
            (found.infinite_tokens, found.pooled_tokens)
        };
        assert_eq!(with(40), (20, 20));
        assert_eq!(with(30), (20, 10), "the tail went first");
        assert_eq!(with(20), (20, 0));
        assert_eq!(bounds(&workload, 40).infinite(), Some(20.0 / 75.0));
    }
}
