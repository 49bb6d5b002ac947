//! A store that several engines share behind their own caches.
//!
//! What an engine has computed goes there at once and at no cost (copies run beside the computation), and
//! whoever needs it loads it from there, at what [`crate::HostTier::load_ps`] of its configuration says. The
//! store drops what was written longest ago. Whoever wants to know what it has takes its changes.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shelf::Shelf;

/// Something that has changed in a store. Blocks by their chain hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreChange {
    /// It has this block from now on.
    Stored(u64),
    /// It has dropped this block.
    Removed(u64),
}

/// One store; clones are the same one.
#[derive(Clone, Debug)]
pub struct Store(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    shelf: Shelf,
    changes: Vec<StoreChange>,
}

impl Store {
    /// Room for so many blocks.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            shelf: Shelf::new(blocks),
            changes: Vec::new(),
        })))
    }

    /// What has changed since the last call, in order.
    #[must_use]
    pub fn take_changes(&self) -> Vec<StoreChange> {
        std::mem::take(&mut self.state().changes)
    }

    /// Blocks found one after the other from the first hash on.
    pub(crate) fn find(&self, hashes: &[u64]) -> usize {
        self.state().shelf.find(hashes)
    }

    pub(crate) fn put(&self, hash: u64) {
        let mut state = self.state();
        let is_new = state.shelf.find(&[hash]) == 0;
        let dropped = state.shelf.put(hash);
        if is_new {
            state.changes.push(StoreChange::Stored(hash));
        }
        state.changes.extend(dropped.map(StoreChange::Removed));
    }

    /// A panic elsewhere leaves no half of a change behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_what_was_written_longest_ago_goes() {
        let store = Store::new(2);
        for hash in [1, 2, 1, 3] {
            store.clone().put(hash);
        }
        use StoreChange::{Removed, Stored};
        assert_eq!(
            store.take_changes(),
            [Stored(1), Stored(2), Stored(3), Removed(2)]
        );
        assert_eq!(store.take_changes(), []);
        assert_eq!((store.find(&[1, 3]), store.find(&[2])), (2, 0));
    }
}
