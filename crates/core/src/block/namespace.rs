//! Whose cache is this prompt for?
//!
//! Equal prompts of two models, or under two salts, share nothing in a cache, but which model answers
//! is decided when the prompt has been hashed. So a chain can be moved: each of its hashes is masked
//! with the number of its namespace, and masking it once more takes it back. O(blocks), a word each.
use super::{Chain, PLAIN, Seed};

/// What sets the prompts of one cache apart from those of another on the same worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace(u64);

impl Namespace {
    /// The one whose hashes are the published ones.
    pub const COMMON: Self = Self(0);

    /// That of a list of names, each framed by its length; of none, the common one.
    #[must_use]
    pub fn of(names: &[&[u8]]) -> Self {
        Self(Seed::framed(names).get() ^ PLAIN)
    }

    /// Apart from what either is apart from.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl Chain {
    /// Whose blocks these are.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// The hashes as they are in the common namespace.
    pub fn common_hashes(&self) -> impl Iterator<Item = u64> {
        self.hashes.iter().map(|hash| hash ^ self.namespace.0)
    }

    /// Moves the chain to another namespace. O(blocks), nothing when it is there.
    pub fn enter(&mut self, namespace: Namespace) {
        let Namespace(mask) = self.namespace.and(namespace);
        if mask != 0 {
            self.hashes.iter_mut().for_each(|hash| *hash ^= mask);
        }
        self.namespace = namespace;
    }

    /// Says that the hashes are those of a namespace, as they were read from where it is not known.
    pub(crate) fn is_of(&mut self, namespace: Namespace) {
        self.namespace = namespace;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::hash_tokens;
    use std::num::NonZeroU32;

    fn chain() -> Chain {
        let mut chain = Chain::new();
        let ids: Vec<u32> = (0..64).collect();
        hash_tokens(
            &ids,
            NonZeroU32::new(16).unwrap(),
            Seed::default(),
            &mut chain,
        );
        chain
    }

    #[test]
    fn equal_prompts_share_no_block_across_namespaces() {
        let names: [&[&[u8]]; 5] = [&[], &[b"a"], &[b"b"], &[b"a", b"b"], &[b"ab"]];
        let mut seen = std::collections::BTreeSet::new();
        for names in names {
            let mut chain = chain();
            chain.enter(Namespace::of(names));
            seen.extend(chain.hashes().iter().copied());
        }
        assert_eq!(seen.len(), names.len() * chain().len());
    }

    #[test]
    fn a_chain_comes_back_as_it_was() {
        let (mut moved, a, b) = (chain(), Namespace::of(&[b"a"]), Namespace::of(&[b"b"]));
        moved.enter(a);
        moved.enter(b.and(a));
        assert!(moved.common_hashes().eq(chain().hashes().iter().copied()));
        moved.enter(Namespace::COMMON);
        assert_eq!(moved, chain());
        assert_eq!(Namespace::of(&[]), Namespace::COMMON);
    }

    #[test]
    fn an_emptied_chain_is_of_the_common_namespace() {
        let mut moved = chain();
        moved.enter(Namespace::of(&[b"a"]));
        moved.clear();
        assert_eq!(moved.namespace(), Namespace::COMMON);
    }
}
