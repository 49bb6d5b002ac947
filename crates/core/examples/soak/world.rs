//! Conversations, their blocks, and what engines call them.

/// The most blocks of one conversation.
pub(crate) const LONGEST: u32 = 1_024;

/// Random numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

pub(crate) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A block: the conversation times its longest length, plus how deep.
pub(crate) type Node = u32;

/// One conversation, or a shared head.
pub(crate) struct Talk {
    /// How many conversations had its room before.
    pub(crate) round: u64,
    /// The last block of a shared head, below which it begins.
    pub(crate) fork: Option<Node>,
    pub(crate) blocks: u32,
}

/// The conversations.
pub(crate) struct World {
    pub(crate) talks: Vec<Talk>,
}

impl World {
    fn talk(&self, node: Node) -> &Talk {
        &self.talks[(node / LONGEST) as usize]
    }

    pub(crate) fn parent(&self, node: Node) -> Option<Node> {
        match node % LONGEST {
            0 => self.talk(node).fork,
            _ => Some(node - 1),
        }
    }

    /// A number for the content; never used again.
    pub(crate) fn content(&self, node: Node) -> u64 {
        self.talk(node).round << 32 | u64::from(node)
    }

    /// What engines of a domain and a dialect call the block. The same number is a neighbouring
    /// block in another domain.
    pub(crate) fn name(&self, voice: (u32, u32), node: Node) -> u64 {
        mix(u64::from(voice.1) << 60 | (self.content(node) + u64::from(voice.0)))
    }

    pub(crate) fn path(&self, node: Node) -> Vec<Node> {
        let mut path: Vec<Node> = std::iter::successors(Some(node), |&n| self.parent(n)).collect();
        path.reverse();
        path
    }
}
