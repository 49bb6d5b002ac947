//! Which blocks does each prompt of a workload have, in little memory?
//!
//! A prompt mostly repeats the one before it in its session and adds a few blocks that nobody has
//! used before. So block ids are dense numbers in order of first sight, which makes what is new one
//! [`Run`] of consecutive numbers, and each prompt is a [`Piece`]: how much of an earlier prompt it
//! keeps, and its own runs. Reading a prompt walks its pieces from the last block to the first; a
//! walk is at most [`MAX_DEPTH`] pieces, since a deeper prompt is written out in full.
//!
//! It does not know what a block holds, nor what a session is: the caller says which earlier prompt
//! is likely to be alike. Adding and reading cost the prompt's blocks. Memory: 16 bytes a prompt
//! and 8 a run, whatever the length of the prompts.

/// Pieces that one prompt may be made of.
const MAX_DEPTH: u16 = 64;

/// Consecutive numbers: `first`, `first + 1`, and so on, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Index of the piece whose head is kept, with how many blocks of it.
    base: Option<Base>,
    /// Blocks of the whole prompt.
    blocks: u32,
    /// End of this piece's runs; they begin where those of the piece before it end.
    runs_end: u32,
    depth: u16,
}

#[derive(Clone, Copy, Debug)]
struct Base {
    piece: u32,
    keep: u32,
}

/// The block ids of all prompts, prompts numbered from 0 in the order of `push`.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockStore {
    pieces: Vec<Piece>,
    runs: Vec<Run>,
    scratch: Vec<u32>,
    /// One more than the highest id.
    distinct: u32,
}

impl BlockStore {
    /// Prompts pushed so far.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// How many ids there are, if they are dense: one more than the highest.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Blocks of a prompt.
    pub(crate) fn blocks(&self, prompt: usize) -> u32 {
        self.pieces[prompt].blocks
    }

    /// Adds a prompt. `alike` is an earlier prompt that may begin in the same way.
    pub(crate) fn push(&mut self, ids: &[u32], alike: Option<usize>) {
        let base = alike.and_then(|prompt| self.base_for(ids, prompt));
        let keep = base.map_or(0, |base| base.keep);
        self.push_runs(&ids[keep as usize..]);
        let depth = base.map_or(0, |base| self.pieces[base.piece as usize].depth + 1);
        self.pieces.push(Piece {
            base,
            blocks: index(ids.len()),
            runs_end: index(self.runs.len()),
            depth,
        });
    }

    /// Writes the block ids of a prompt over `out`.
    pub(crate) fn read(&self, prompt: usize, out: &mut Vec<u32>) {
        let mut piece = prompt;
        let mut end = self.pieces[prompt].blocks as usize;
        out.clear();
        out.resize(end, 0);
        loop {
            let at = self.pieces[piece];
            let keep = at.base.map_or(0, |base| base.keep as usize);
            let mut from = keep;
            for run in &self.runs[self.runs_start(piece)..at.runs_end as usize] {
                let ids = run.first..run.first + run.len;
                for (slot, id) in out[from.min(end)..end].iter_mut().zip(ids) {
                    *slot = id;
                }
                from += run.len as usize;
            }
            end = end.min(keep);
            match at.base {
                Some(base) => piece = base.piece as usize,
                None => return,
            }
        }
    }

    fn base_for(&mut self, ids: &[u32], alike: usize) -> Option<Base> {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.read(alike, &mut scratch);
        let common = ids.iter().zip(&scratch).take_while(|(a, b)| a == b);
        let keep = index(common.count());
        self.scratch = scratch;
        // What is kept may all come from a piece further up: a shorter walk for every reader.
        let mut piece = alike;
        while let Some(base) = self.pieces[piece].base.filter(|base| keep <= base.keep) {
            piece = base.piece as usize;
        }
        let shallow = self.pieces[piece].depth + 1 < MAX_DEPTH;
        (keep > 0 && shallow).then_some(Base {
            piece: index(piece),
            keep,
        })
    }

    fn push_runs(&mut self, ids: &[u32]) {
        let start = self.runs.len();
        for &id in ids {
            self.distinct = self.distinct.max(id + 1);
            match self.runs[start..].last_mut() {
                Some(run) if id.checked_sub(run.first) == Some(run.len) => run.len += 1,
                _ => self.runs.push(Run { first: id, len: 1 }),
            }
        }
    }

    fn runs_start(&self, piece: usize) -> usize {
        match piece {
            0 => 0,
            _ => self.pieces[piece - 1].runs_end as usize,
        }
    }
}

/// An index that the workload's bounds keep below 2^32.
fn index(n: usize) -> u32 {
    u32::try_from(n).expect("a workload has fewer than 2^32 turns and runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(store: &BlockStore, prompt: usize) -> Vec<u32> {
        let mut out = vec![7; 3];
        store.read(prompt, &mut out);
        out
    }

    #[test]
    fn a_growing_prompt_costs_one_run_a_turn() {
        let mut store = BlockStore::default();
        let mut ids: Vec<u32> = Vec::new();
        for turn in 0..1_000u32 {
            ids.extend(turn * 2..turn * 2 + 2);
            store.push(&ids, turn.checked_sub(1).map(|t| t as usize));
        }
        assert_eq!(read(&store, 999), ids);
        assert_eq!(store.runs.len(), 1_000);
    }

    proptest! {
        #[test]
        fn what_was_pushed_is_read(
            prompts in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<bool>(), prop::collection::vec(0u32..6, 0..12)),
                1..200,
            ),
        ) {
            let mut store = BlockStore::default();
            let mut naive: Vec<Vec<u32>> = Vec::new();
            for (pick, related, tail) in &prompts {
                let alike = (!naive.is_empty()).then(|| pick.index(naive.len()));
                let mut ids = Vec::new();
                if let (Some(alike), true) = (alike, *related) {
                    ids.clone_from(&naive[alike]);
                    ids.truncate(ids.len().saturating_sub(tail.len() / 3));
                }
                ids.extend(tail);
                store.push(&ids, alike);
                naive.push(ids);
            }
            for (prompt, ids) in naive.iter().enumerate() {
                prop_assert_eq!(&read(&store, prompt), ids);
                prop_assert_eq!(store.blocks(prompt) as usize, ids.len());
            }
        }
    }
}
