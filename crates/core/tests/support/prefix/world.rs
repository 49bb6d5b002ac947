//! The blocks that can exist, and what engines call them.
//!
//! A world is a fixed tree of blocks, so that a naive index can be an array by block. Names are not
//! the chain hashes: an engine speaks a dialect, a domain shifts which number means which block (so
//! that two domains use the same numbers for different content, and for neighbours at that).
use std::num::NonZeroU32;

use warmpath_core::block::{Chain, Seed, hash_content};

/// Tokens in each block.
pub(crate) const BLOCK: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// A block: a path from the root.
pub(crate) type Node = u32;

/// All blocks that can exist.
pub(crate) struct World {
    parents: Vec<Option<Node>>,
    depths: Vec<u32>,
    paths: Vec<Box<[Node]>>,
    contents: Vec<u64>,
    locals: Vec<u64>,
    chains: Vec<Chain>,
}

impl World {
    /// Every path of at most `depth` out of `arity` contents.
    pub(crate) fn full(arity: u32, depth: u32) -> Self {
        let mut world = Self::empty();
        let mut above = vec![None];
        for _ in 0..depth {
            let mut next = Vec::new();
            for parent in above {
                for content in 0..arity {
                    next.push(Some(world.grow(parent, content.into())));
                }
            }
            above = next;
        }
        world.hash_all();
        world
    }

    /// `nodes` blocks: long stretches that fork here and there, at most `depth` deep.
    pub(crate) fn long(nodes: u32, depth: u32, mut random: impl FnMut(u32) -> u32) -> Self {
        let mut world = Self::empty();
        for node in 0..nodes {
            let last = node.checked_sub(1);
            let parent = match random(100) {
                0..=91 => last,
                92..=97 if node > 0 => Some(random(node)),
                _ => None,
            };
            let parent = parent.filter(|&p| world.depths[p as usize] < depth);
            world.grow(parent, node.into());
        }
        world.hash_all();
        world
    }

    fn empty() -> Self {
        Self {
            parents: Vec::new(),
            depths: Vec::new(),
            paths: Vec::new(),
            contents: Vec::new(),
            locals: Vec::new(),
            chains: Vec::new(),
        }
    }

    fn grow(&mut self, parent: Option<Node>, content: u64) -> Node {
        let depth = parent.map_or(0, |p| self.depths[p as usize]);
        self.parents.push(parent);
        self.depths.push(depth + 1);
        self.contents.push(content);
        self.locals.push(local_hash(content));
        self.parents.len() as Node - 1
    }

    fn hash_all(&mut self) {
        self.paths = (0..self.len()).map(|node| self.trace(node)).collect();
        self.chains = (0..self.len()).map(|node| self.hash(node)).collect();
    }

    fn hash(&self, node: Node) -> Chain {
        let path = self.path(node);
        let contents: Vec<u64> = path.iter().map(|&n| self.contents[n as usize]).collect();
        let mut chain = Chain::new();
        hash_content(&contents, BLOCK, None, Seed::default(), &mut chain);
        chain
    }

    pub(crate) fn len(&self) -> u32 {
        self.parents.len() as u32
    }

    pub(crate) fn parent(&self, node: Node) -> Option<Node> {
        self.parents[node as usize]
    }

    pub(crate) fn depth(&self, node: Node) -> u32 {
        self.depths[node as usize]
    }

    /// From the root to the block itself.
    pub(crate) fn path(&self, node: Node) -> &[Node] {
        &self.paths[node as usize]
    }

    fn trace(&self, node: Node) -> Box<[Node]> {
        let mut path: Vec<Node> = std::iter::successors(Some(node), |&n| self.parent(n)).collect();
        path.reverse();
        path.into()
    }

    pub(crate) fn chain(&self, node: Node) -> &Chain {
        &self.chains[node as usize]
    }

    /// The hash of the block's own content.
    pub(crate) fn local(&self, node: Node) -> u64 {
        self.locals[node as usize]
    }

    /// What a domain's engines of one dialect call the block.
    pub(crate) fn name(&self, domain: u32, dialect: u32, node: Node) -> u64 {
        let number = (node + domain) % self.len();
        mix(u64::from(dialect) << 32 | u64::from(number))
    }

    /// A path of contents, for people.
    pub(crate) fn tell(&self, node: Node) -> String {
        let path = self.path(node);
        let contents = path.iter().map(|&n| self.contents[n as usize].to_string());
        match path.len() {
            0..=6 => contents.collect::<Vec<_>>().join("."),
            n => format!("#{node}({n} deep)"),
        }
    }
}

/// The hash of one content apart from any prompt.
pub(crate) fn local_hash(content: u64) -> u64 {
    let mut chain = Chain::new();
    hash_content(&[content], BLOCK, None, Seed::default(), &mut chain);
    chain.hashes()[0]
}

/// Spreads a number over 64 bits; a bijection.
pub(crate) fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
