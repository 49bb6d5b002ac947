//! Which blocks does a turn's prompt have, as engines and routers are told?
//!
//! A workload numbers its blocks; a fleet may replay one session several times at once (instances),
//! and its engines may cut blocks larger or smaller. This room turns (instance, turn) into one
//! content id for each complete block of an engine: equal where the workload says that the blocks are
//! equal, and different between instances of a session, except for blocks that several sessions
//! share. Tokens that the workload gives no block for, and answers, are shared with nobody.
//!
//! Cost: the blocks of the prompt. It trusts the workload, which its builder has checked.
use std::num::NonZeroU32;

use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_trace::Workload;

use super::error::FleetError;
use crate::random::mix;

/// Instance 0 is the workload itself; higher ones are further copies of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnKey {
    pub(crate) instance: u32,
    pub(crate) turn: u32,
}

/// Set in ids of blocks that nobody else has.
const OWN: u64 = 1 << 63;
/// An id is (instance, block of the workload, part of it); a workload block has at most 256 parts.
const INSTANCE_SHIFT: u32 = 40;

/// How blocks of the engines lie in those of the workload.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// So many to one of the workload.
    Parts(u32),
    /// One to so many of the workload.
    Joined(u32),
}

/// The blocks of all turns.
#[derive(Debug)]
pub(crate) struct Content<'a> {
    workload: &'a Workload,
    block_tokens: NonZeroU32,
    cut: Cut,
    /// Blocks of the workload that several sessions have; empty while there is one instance.
    shared: Vec<bool>,
    one: Vec<u32>,
    other: Vec<u32>,
    ids: Vec<u64>,
    chain: Chain,
}

impl<'a> Content<'a> {
    /// For engines with blocks of `block_tokens`.
    ///
    /// # Errors
    /// When neither block size is a multiple of the other, or one is over 256 times the other.
    pub(crate) fn new(
        workload: &'a Workload,
        block_tokens: NonZeroU32,
    ) -> Result<Self, FleetError> {
        let (whole, part) = (workload.block_tokens().get(), block_tokens.get());
        let cut = match (whole % part, part % whole) {
            (0, _) if whole / part <= 256 => Cut::Parts(whole / part),
            (_, 0) => Cut::Joined(part / whole),
            _ => return Err(FleetError::block_size(part, whole)),
        };
        Ok(Self {
            workload,
            block_tokens,
            cut,
            shared: Vec::new(),
            one: Vec::new(),
            other: Vec::new(),
            ids: Vec::new(),
            chain: Chain::new(),
        })
    }

    /// Keeps instances apart except for what several sessions share. O(blocks of the workload).
    pub(crate) fn allow_instances(&mut self) {
        let mut owner = vec![u32::MAX; self.workload.distinct_blocks() as usize];
        self.shared = vec![false; owner.len()];
        for (index, turn) in self.workload.turns().iter().enumerate() {
            self.workload.read_blocks(index, &mut self.one);
            for &block in &self.one {
                let owner = &mut owner[block as usize];
                if *owner == u32::MAX {
                    *owner = turn.session;
                }
                self.shared[block as usize] |= *owner != turn.session;
            }
        }
    }

    pub(crate) fn workload(&self) -> &'a Workload {
        self.workload
    }

    /// One id for each complete block of the prompt.
    pub(crate) fn prompt_ids(&mut self, key: TurnKey) -> &[u64] {
        let tokens = self.workload.turns()[key.turn as usize].input_tokens;
        self.fill(key, tokens);
        &self.ids
    }

    /// One id and one chain hash for each complete block of prompt and answer.
    pub(crate) fn blocks(&mut self, key: TurnKey) -> (&[u64], &[u64]) {
        let turn = &self.workload.turns()[key.turn as usize];
        self.fill(key, turn.input_tokens.saturating_add(turn.output_tokens));
        hash_content(
            &self.ids,
            self.block_tokens,
            None,
            Seed::default(),
            &mut self.chain,
        );
        (&self.ids, self.chain.hashes())
    }

    /// Tokens at the beginning of turn `later` that turn `earlier` of the same session begins with.
    pub(crate) fn common_tokens(&mut self, earlier: u32, later: u32) -> u32 {
        let tokens = |turn: u32| self.workload.turns()[turn as usize].input_tokens;
        let least = tokens(earlier).min(tokens(later));
        if earlier == later {
            return least;
        }
        self.workload.read_blocks(earlier as usize, &mut self.one);
        self.workload.read_blocks(later as usize, &mut self.other);
        let pairs = self.one.iter().zip(&self.other);
        let blocks = pairs.take_while(|(a, b)| a == b).count() as u32;
        blocks
            .saturating_mul(self.workload.block_tokens().get())
            .min(least)
    }

    /// Ids of the complete blocks of the first `tokens` tokens of prompt and answer.
    fn fill(&mut self, key: TurnKey, tokens: u32) {
        let turn = &self.workload.turns()[key.turn as usize];
        let size = self.block_tokens.get();
        self.workload.read_blocks(key.turn as usize, &mut self.one);
        let whole = self.workload.block_tokens().get();
        let known = (self.one.len() as u32).saturating_mul(whole);
        let known = known.min(turn.input_tokens) / size;
        let all = tokens / size;
        self.ids.clear();
        for index in 0..known.min(all) {
            let id = match self.cut {
                Cut::Parts(parts) => {
                    let block = self.one[(index / parts) as usize];
                    self.id(key.instance, block) | u64::from(index % parts)
                }
                Cut::Joined(many) => {
                    let from = (index * many) as usize;
                    let blocks = &self.one[from..from + many as usize];
                    let joined = blocks
                        .iter()
                        .fold(0, |sum, &block| mix(sum ^ self.id(key.instance, block)));
                    joined & !OWN
                }
            };
            self.ids.push(id);
        }
        let own = mix(u64::from(key.instance) << 32 | u64::from(key.turn));
        let rest = known.min(all)..all;
        self.ids
            .extend(rest.map(|index| mix(own.wrapping_add(u64::from(index))) | OWN));
    }

    fn id(&self, instance: u32, block: u32) -> u64 {
        let id = u64::from(block) << 8;
        match self.shared.get(block as usize) {
            Some(false) => u64::from(instance) << INSTANCE_SHIFT ^ id,
            Some(true) | None => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpath_core::Micros;
    use warmpath_trace::{NewStart, NewTurn, Next, WorkloadBuilder};

    fn workload() -> Workload {
        let mut builder = WorkloadBuilder::new(NonZeroU32::new(16).unwrap());
        for (name, blocks) in [("a", [0, 1, 2]), ("b", [0, 3, 4])] {
            let session = builder.add_session(name, None).unwrap();
            for len in 2..=3 {
                let turn = NewTurn {
                    session,
                    input_tokens: len * 16 - 5,
                    output_tokens: 20,
                    next: Next::Tool,
                    blocks: &blocks[..len as usize],
                    start: NewStart::At(Micros(0)),
                };
                builder.add_turn(&turn).unwrap();
            }
        }
        builder.finish()
    }

    fn ids(content: &mut Content<'_>, instance: u32, turn: u32) -> Vec<u64> {
        content.prompt_ids(TurnKey { instance, turn }).to_vec()
    }

    fn tokens(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    #[test]
    fn only_complete_blocks_count_and_copies_differ_where_sessions_do() {
        let workload = workload();
        let mut content = Content::new(&workload, tokens(16)).unwrap();
        content.allow_instances();
        let (a, later) = (ids(&mut content, 1, 0), ids(&mut content, 1, 1));
        assert_eq!((a.len(), later.len()), (1, 2));
        let copy = ids(&mut content, 2, 1);
        assert_eq!(copy[0], later[0], "both sessions begin alike");
        assert_ne!(copy[1], later[1], "but each copy goes on by itself");
        assert_eq!(ids(&mut content, 1, 2), a);
        assert_eq!(content.common_tokens(0, 1), 27);
        let (all, chain) = content.blocks(TurnKey {
            instance: 1,
            turn: 1,
        });
        assert_eq!((all.len(), chain.len()), (3, 3), "43 + 20 tokens");
        assert!(all[2] & OWN > 0);
    }

    #[test]
    fn blocks_are_cut_and_joined() {
        let workload = workload();
        let mut fine = Content::new(&workload, tokens(4)).unwrap();
        assert_eq!(ids(&mut fine, 0, 0).len(), 6);
        let whole = ids(&mut fine, 0, 1);
        assert_eq!(whole[..6], ids(&mut fine, 0, 0));
        let mut coarse = Content::new(&workload, tokens(32)).unwrap();
        assert_eq!(ids(&mut coarse, 0, 1).len(), 1);
        assert_ne!(ids(&mut coarse, 0, 1), ids(&mut coarse, 0, 3));
        assert!(Content::new(&workload, tokens(24)).is_err());
    }
}
