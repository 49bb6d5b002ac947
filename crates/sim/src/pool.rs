//! The cache: a fixed number of blocks, each free, in use, or kept for reuse.
//!
//! Answers: which blocks of this prompt are here, and which block may be written next? It knows
//! nothing of requests, time or order of work. A block in use is counted by its users; one without
//! users that has an identity stays findable until it is the least recently released and room is
//! needed. Two blocks may carry one identity (two requests computed the same prompt's last block);
//! the older is found first, and the identity is gone only with the last of them. Every call is
//! O(1) a block.
use hashbrown::HashMap;

use crate::shelf::Shelf;
use crate::store::Store;

/// A block of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

/// What a change of the cache looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Stored {
        parent: Option<u64>,
        hash: u64,
        origin: Origin,
    },
    Removed {
        hash: u64,
    },
}

/// Whose block it was first: block `index` of the request `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) id: u64,
    pub(crate) index: u32,
}

#[derive(Clone, Debug, Default)]
struct Block {
    users: u32,
    hash: Option<u64>,
    /// Neighbours in the order of release, only while unused with an identity.
    older: Option<u32>,
    newer: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    blocks: Vec<Block>,
    /// Blocks without users and without identity.
    blank: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
    found: HashMap<u64, Copies>,
    used: u32,
    changes: Vec<Change>,
    lower: Lower,
}

/// What is behind the cache.
#[derive(Debug)]
pub(crate) enum Lower {
    Nothing,
    /// Memory of its own, which takes what is evicted.
    Host(Shelf),
    /// A store of several engines, which takes whatever is computed.
    Shared(Store),
}

/// The blocks of one identity, oldest first; nearly always one.
#[derive(Debug)]
struct Copies {
    first: u32,
    rest: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(size: u32, lower: Lower) -> Self {
        Self {
            lower,
            blocks: vec![Block::default(); size as usize],
            blank: (0..size).rev().collect(),
            oldest: None,
            newest: None,
            found: HashMap::new(),
            used: 0,
            changes: Vec::new(),
        }
    }

    /// Blocks that some request uses.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Blocks that may be taken: blank ones and ones that can be evicted.
    pub(crate) fn available(&self) -> u32 {
        self.blocks.len() as u32 - self.used
    }

    /// Blocks that carry an identity, in use or not.
    pub(crate) fn identified(&self) -> usize {
        self.found.values().map(|c| 1 + c.rest.len()).sum()
    }

    /// Blocks found one after the other from the first hash on.
    pub(crate) fn find<'a>(&'a self, hashes: &'a [u64]) -> impl Iterator<Item = BlockId> + 'a {
        hashes
            .iter()
            .map_while(|h| self.found.get(h).map(|c| BlockId(c.first)))
    }

    /// Blocks that the tier behind it has, one after the other from the first hash on.
    pub(crate) fn hosted(&self, hashes: &[u64]) -> usize {
        match &self.lower {
            Lower::Nothing => 0,
            Lower::Host(host) => host.find(hashes),
            Lower::Shared(store) => store.find(hashes),
        }
    }

    /// A block of the tier behind it is in the cache again.
    pub(crate) fn came_back(&mut self, hash: u64) {
        if let Lower::Host(host) = &mut self.lower {
            host.take(hash);
        }
    }

    pub(crate) fn is_used(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].users > 0
    }

    /// Adds a user to a block that `find` gave.
    pub(crate) fn share(&mut self, block: BlockId) {
        if self.blocks[block.0 as usize].users == 0 {
            self.unlink(block.0);
            self.used += 1;
        }
        self.blocks[block.0 as usize].users += 1;
    }

    /// Takes a block to write to; the least recently released one loses its identity if no blank
    /// one is left. `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<BlockId> {
        let id = self.blank.pop().or_else(|| self.evict())?;
        self.blocks[id as usize].users = 1;
        self.used += 1;
        Some(BlockId(id))
    }

    /// Gives a block in use its identity, so that it can be found from now on.
    pub(crate) fn identify(
        &mut self,
        block: BlockId,
        parent: Option<u64>,
        hash: u64,
        origin: Origin,
    ) {
        self.blocks[block.0 as usize].hash = Some(hash);
        match self.found.get_mut(&hash) {
            Some(copies) => copies.rest.push(block.0),
            None => {
                self.found.insert(
                    hash,
                    Copies {
                        first: block.0,
                        rest: Vec::new(),
                    },
                );
                self.changes.push(Change::Stored {
                    parent,
                    hash,
                    origin,
                });
                if let Lower::Shared(store) = &self.lower {
                    store.put(hash);
                }
            }
        }
    }

    /// Removes a user; the last one leaves the block to be found or overwritten.
    pub(crate) fn release(&mut self, block: BlockId) {
        let entry = &mut self.blocks[block.0 as usize];
        debug_assert!(entry.users > 0, "a block is released once for each user");
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        self.used -= 1;
        if self.blocks[block.0 as usize].hash.is_some() {
            self.link(block.0);
        } else {
            self.blank.push(block.0);
        }
    }

    /// Whether there are changes that nobody has moved out.
    pub(crate) fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Moves the changes since the last call out.
    pub(crate) fn drain_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    fn evict(&mut self) -> Option<u32> {
        let id = self.oldest?;
        self.unlink(id);
        let hash = self.blocks[id as usize].hash.take()?;
        self.forget(hash, id);
        Some(id)
    }

    fn forget(&mut self, hash: u64, id: u32) {
        let Some(copies) = self.found.get_mut(&hash) else {
            return;
        };
        if copies.first != id {
            copies.rest.retain(|&other| other != id);
        } else if copies.rest.is_empty() {
            self.found.remove(&hash);
            self.changes.push(Change::Removed { hash });
            if let Lower::Host(host) = &mut self.lower {
                host.put(hash);
            }
        } else {
            copies.first = copies.rest.remove(0);
        }
    }

    fn link(&mut self, id: u32) {
        let older = self.newest.replace(id);
        match older {
            Some(o) => self.blocks[o as usize].newer = Some(id),
            None => self.oldest = Some(id),
        }
        let entry = &mut self.blocks[id as usize];
        entry.older = older;
        entry.newer = None;
    }

    fn unlink(&mut self, id: u32) {
        let (older, newer) = {
            let entry = &mut self.blocks[id as usize];
            (entry.older.take(), entry.newer.take())
        };
        match older {
            Some(o) => self.blocks[o as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(n) => self.blocks[n as usize].older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { id: 1, index: 0 };

    #[test]
    fn the_least_recently_released_block_goes_first() {
        let mut pool = Pool::new(2, Lower::Nothing);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert_eq!(pool.take(), None);
        pool.identify(a, None, 10, ORIGIN);
        pool.identify(b, Some(10), 20, ORIGIN);
        pool.release(b);
        pool.release(a);
        assert_eq!(pool.available(), 2);
        pool.take().unwrap();
        assert_eq!(pool.find(&[10, 20]).count(), 1);
        let changes: Vec<_> = pool.drain_changes().collect();
        assert_eq!(changes.last(), Some(&Change::Removed { hash: 20 }));
    }

    #[test]
    fn an_identity_lives_as_long_as_one_copy() {
        let mut pool = Pool::new(2, Lower::Nothing);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.identify(a, None, 10, ORIGIN);
        pool.identify(b, None, 10, ORIGIN);
        pool.release(a);
        pool.take().unwrap();
        assert_eq!(pool.find(&[10]).next(), Some(b));
        assert_eq!(pool.drain_changes().count(), 1);
        assert_eq!(pool.identified(), 1);
    }
}
