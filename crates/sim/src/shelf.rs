//! Which blocks does the host tier of a block engine hold?
//!
//! Blocks by their hash, the one that came first dropped first. It keeps no tree: whoever asks walks a
//! prompt's hashes and stops at the first that is missing. O(1) a block; an entry of the queue stays
//! behind when its block leaves early, until it comes up or the queue is swept.
use std::collections::VecDeque;

use hashbrown::HashMap;

#[derive(Debug)]
pub(crate) struct Shelf {
    most: usize,
    /// When each block came, as a number that grows.
    came: HashMap<u64, u64>,
    queue: VecDeque<(u64, u64)>,
    next: u64,
}

impl Shelf {
    /// Room for `most` blocks.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            came: HashMap::new(),
            queue: VecDeque::new(),
            next: 0,
        }
    }

    /// Blocks found one after the other from the first hash on.
    pub(crate) fn find(&self, hashes: &[u64]) -> usize {
        let held = |hash: &&u64| self.came.contains_key(*hash);
        hashes.iter().take_while(held).count()
    }

    /// A block comes; one that is there counts as new. Returns the one that had to go for it.
    pub(crate) fn put(&mut self, hash: u64) -> Option<u64> {
        self.next += 1;
        self.came.insert(hash, self.next);
        self.queue.push_back((hash, self.next));
        let mut dropped = None;
        while self.came.len() > self.most {
            let (oldest, came) = self.queue.pop_front()?;
            if self.came.get(&oldest) == Some(&came) {
                self.came.remove(&oldest);
                dropped = Some(oldest);
            }
        }
        if self.queue.len() > 2 * self.most + 16 {
            let came = &self.came;
            self.queue.retain(|(hash, at)| came.get(hash) == Some(at));
        }
        dropped
    }

    /// A block goes back into the cache.
    pub(crate) fn take(&mut self, hash: u64) {
        self.came.remove(&hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_first_goes_first_and_only_what_is_whole_is_found() {
        let mut shelf = Shelf::new(3);
        for hash in [1, 2, 3, 1, 4] {
            shelf.put(hash);
        }
        assert_eq!(shelf.find(&[1, 3, 4]), 3, "2 was the oldest");
        assert_eq!(shelf.find(&[1, 2, 3]), 1);
        shelf.take(3);
        shelf.put(5);
        assert_eq!(shelf.find(&[1, 4, 5]), 3);
        assert_eq!(shelf.find(&[3]), 0);
    }
}
