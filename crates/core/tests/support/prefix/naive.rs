//! What a place holds, in the plainest words: for each block, how many copies or which prediction.
//!
//! It shares no code and no idea with the index: no runs, no intervals, no anchors. Credit is counted
//! block by block from the root.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::world::{BLOCK, Node, World};

/// Further copies of one block than this are not believed.
const MAX_FURTHER: u32 = 64;

/// What is known of a block at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// By the engine's word, in so many copies.
    Exact(u32),
    /// When and by which decision it was used last.
    Predicted(u64, u64),
}

/// How an engine finds names for its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// By content: always the same name for a block.
    Dialect(u32),
    /// By counting: a block that comes again has another name.
    Numbers(Numbers),
}

/// Which block has which number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    now: BTreeMap<Node, u64>,
    before: BTreeMap<Node, u64>,
    last: u64,
}

impl Numbers {
    /// The number that the block has at present.
    pub(crate) fn get(&self, node: Node) -> Option<u64> {
        self.now.get(&node).copied()
    }

    /// The number that the block had last; zero when it never had one.
    pub(crate) fn last(&self, node: Node) -> u64 {
        let before = || self.before.get(&node).copied();
        self.get(node).or_else(before).unwrap_or(0)
    }

    pub(crate) fn count(&mut self, node: Node) -> u64 {
        self.last += 1;
        self.now.insert(node, self.last);
        self.last
    }

    fn forget(&mut self, node: Node) {
        if let Some(number) = self.now.remove(&node) {
            self.before.insert(node, number);
        }
    }

    /// Takes back the numbers of blocks that were never stored after all.
    pub(crate) fn keep(&mut self, kept: impl Fn(Node) -> bool) {
        self.now.retain(|&node, _| kept(node));
    }
}

/// What one place holds.
pub(crate) struct NaivePlace {
    pub(crate) domain: u32,
    pub(crate) words: Words,
    pub(crate) capacity: Option<u64>,
    pub(crate) ttl: Option<u64>,
    blocks: Vec<Option<Held>>,
    held: u64,
    /// Predictions by age: those of one decision deepest first.
    ages: BTreeSet<(u64, Reverse<u32>, Node)>,
    /// Blocks that were lost and won since the last look; a loss is `false`.
    pub(crate) changes: Vec<(Node, bool)>,
}

impl NaivePlace {
    pub(crate) fn new(world: &World, domain: u32, words: Words) -> Self {
        Self {
            domain,
            words,
            capacity: None,
            ttl: None,
            blocks: vec![None; world.len() as usize],
            held: 0,
            ages: BTreeSet::new(),
            changes: Vec::new(),
        }
    }

    pub(crate) fn get(&self, node: Node) -> Option<Held> {
        self.blocks[node as usize]
    }

    pub(crate) fn is_exact(&self, node: Node) -> bool {
        matches!(self.get(node), Some(Held::Exact(_)))
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.held
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.held * u64::from(BLOCK.get())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Node, Held)> {
        let held = (0..).zip(&self.blocks);
        held.filter_map(|(node, held)| Some((node, (*held)?)))
    }

    fn set(&mut self, world: &World, node: Node, held: Option<Held>) {
        let age = |held| match held {
            Some(Held::Predicted(_, decision)) => {
                Some((decision, Reverse(world.depth(node)), node))
            }
            _ => None,
        };
        let old = std::mem::replace(&mut self.blocks[node as usize], held);
        if let Some(old) = age(old) {
            self.ages.remove(&old);
        }
        self.ages.extend(age(held));
        if old.is_some() != held.is_some() {
            self.changes.push((node, held.is_some()));
            match held {
                Some(_) => self.held += 1,
                None => self.held -= 1,
            }
        }
        if let (Words::Numbers(numbers), Some(Held::Exact(_))) = (&mut self.words, old)
            && !matches!(held, Some(Held::Exact(_)))
        {
            numbers.forget(node);
        }
    }

    /// The engine stored the block. Whether it is a copy more.
    pub(crate) fn store(&mut self, world: &World, node: Node) -> bool {
        let again = match self.get(node) {
            Some(Held::Exact(copies)) => Some((copies + 1).min(MAX_FURTHER + 1)),
            _ => None,
        };
        self.set(world, node, Some(Held::Exact(again.unwrap_or(1))));
        again.is_some()
    }

    /// One copy of the block goes. Whether there was one.
    pub(crate) fn remove(&mut self, world: &World, node: Node) -> bool {
        let rest = match self.get(node) {
            None => return false,
            Some(Held::Exact(copies)) if copies > 1 => Some(Held::Exact(copies - 1)),
            Some(_) => None,
        };
        self.set(world, node, rest);
        true
    }

    /// Numbers were given to blocks that the index refused: they mean nothing.
    pub(crate) fn take_back_numbers(&mut self) {
        let blocks = &self.blocks;
        if let Words::Numbers(numbers) = &mut self.words {
            numbers.keep(|node| matches!(blocks[node as usize], Some(Held::Exact(_))));
        }
    }

    pub(crate) fn clear(&mut self, world: &World) {
        let all: Vec<Node> = self.all().map(|(node, _)| node).collect();
        for node in all {
            self.set(world, node, None);
        }
    }

    /// A decision sends the path here. Returns how many of its blocks were not held.
    pub(crate) fn predict(
        &mut self,
        world: &World,
        path: &[Node],
        at: u64,
        decision: u64,
    ) -> usize {
        let mut new = 0;
        for &node in path {
            new += usize::from(self.get(node).is_none());
            if !self.is_exact(node) {
                self.set(world, node, Some(Held::Predicted(at, decision)));
            }
        }
        self.fit(world);
        new
    }

    /// Least recently used first; of one decision the deepest.
    pub(crate) fn fit(&mut self, world: &World) {
        while self.capacity.is_some_and(|c| self.tokens() > c)
            && let Some(&(_, _, node)) = self.ages.first()
        {
            self.set(world, node, None);
        }
    }

    pub(crate) fn expire(&mut self, world: &World, now: u64) {
        let Some(ttl) = self.ttl else { return };
        while let Some(&(_, _, node)) = self.ages.first()
            && let Some(Held::Predicted(at, _)) = self.get(node)
            && at.saturating_add(ttl) <= now
        {
            self.set(world, node, None);
        }
    }

    /// Forgets all that was predicted and used no later than by `decision`.
    pub(crate) fn forget_until(&mut self, world: &World, decision: u64) {
        while let Some(&(used, _, node)) = self.ages.first()
            && used <= decision
        {
            self.set(world, node, None);
        }
    }

    /// Blocks of the path that are here without a gap from block `from` on, those before included.
    pub(crate) fn reach(&self, path: &[Node], from: usize) -> usize {
        let further = path.get(from..).unwrap_or_default().iter();
        from + further
            .take_while(|&&node| self.get(node).is_some())
            .count()
    }

    /// When the first prediction is due to go.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let &(_, _, node) = self.ages.first()?;
        match self.get(node)? {
            Held::Predicted(at, _) => Some(at.saturating_add(self.ttl?)),
            Held::Exact(_) => None,
        }
    }
}
