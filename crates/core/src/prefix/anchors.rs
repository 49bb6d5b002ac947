//! Where is the block that an engine calls so?
//!
//! A cache, not an index: few blocks have an anchor, and one may point to what is no longer there.
//! Every hit is checked against the run it points to. Anchors come from what happens anyway: the last
//! block of an event and the block where a decision found a place's prefix to end, since the next
//! event begins there. Nothing is deleted; a segment of the table that is full drops what has become
//! false before it grows.
use super::forest::Forest;
use super::names::key;
use super::run::{Address, RunId};
use crate::table::Table;

/// Ways from names to blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchors {
    table: Table<Address>,
}

impl Anchors {
    pub(super) fn find(&self, forest: &Forest, domain: u32, name: u64) -> Option<Address> {
        let at = self.table.get(key(domain, name))?;
        forest.is_named(at, domain, name).then_some(at)
    }

    pub(super) fn insert(&mut self, forest: &Forest, domain: u32, name: u64, at: Address) {
        // With an anchor for each block, more are certainly false.
        let enough = forest.blocks();
        let is_true = |key, at| is_true(forest, key, at);
        self.table.insert(key(domain, name), at, enough, is_true);
    }

    /// Gives every named block of the run an anchor.
    pub(super) fn promote(&mut self, forest: &mut Forest, run: RunId) {
        let unanchored = &forest.runs[run];
        for (domain, offset, name) in unanchored.names.from(unanchored.anchored) {
            self.insert(forest, domain, name, Address { run, offset });
        }
        forest.runs[run].all_anchored();
    }

    /// Forgets everything and gives the memory back.
    pub(super) fn reset(&mut self) {
        self.table.reset();
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Whether the block still has a name with this key.
fn is_true(forest: &Forest, of: u64, at: Address) -> bool {
    let run = forest.runs.get(at.run);
    run.is_some_and(|run| {
        run.names
            .any(at.offset, |domain, name| key(domain, name) == of)
    })
}
