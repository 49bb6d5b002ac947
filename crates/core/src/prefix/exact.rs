//! What does an engine's event change?
//!
//! Stores and removals in the engine's own words, already translated to chain hashes. Each block of a
//! store stands below the one before it. What is impossible is counted by kind and ends the event
//! there; blocks before it count, since they were possible. A block that was predicted becomes exact
//! and is not counted twice. Exact blocks do not age and no capacity drives them out: the engine
//! will say when they go.
use super::place::Trust;
use super::tree::{NodeId, Tree};
use super::{Anomalies, PrefixIndex, Seat};
use crate::PlaceId;

/// One block that an engine has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its chain hash.
    pub hash: u64,
    /// Its tokens.
    pub tokens: u32,
}

impl PrefixIndex {
    /// The engine stored `blocks`, one below the other, the first below `parent` or at the root.
    /// Returns how many of them the place has now. O(blocks), O(depth) when the event is impossible.
    pub fn store(&mut self, place: PlaceId, parent: Option<u64>, blocks: &[StoredBlock]) -> usize {
        if self.place(place).is_none() {
            self.anomalies.unknown_place += 1;
            return 0;
        }
        let mut above = None;
        if let Some(hash) = parent {
            above = self.tree.find(hash);
            if above.is_none() {
                self.anomalies.unknown_parent += 1;
                return 0;
            }
        }
        self.uses += 1;
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        for block in blocks {
            let Some(node) = seat(&mut self.tree, above, *block, &mut self.anomalies) else {
                break;
            };
            path.extend(self.hold_exact(place, node));
            above = Some(node);
        }
        for seat in path.iter().rev() {
            self.tree.touch(seat.node, self.uses);
        }
        let stored = path.len();
        self.path = path;
        self.enforce_bound();
        stored
    }

    /// The engine no longer has these blocks. A removal in the middle leaves a hole: credit stops
    /// there, and what is behind it counts again once the hole is filled.
    /// Returns how many the place lost. O(blocks), more where a hole opens.
    pub fn remove(&mut self, place: PlaceId, hashes: &[u64]) -> usize {
        if self.place(place).is_none() {
            self.anomalies.unknown_place += 1;
            return 0;
        }
        let mut removed = 0;
        for &hash in hashes {
            let node = self.tree.find(hash);
            let Some(holder) = node.and_then(|n| self.tree.holder(n, place.0)) else {
                self.anomalies.not_held += 1;
                continue;
            };
            self.drop_slot(place, holder.slot);
            removed += 1;
        }
        removed
    }

    /// The place is empty now: an engine restarted, lost its cache, or events were missed.
    /// O(blocks of the place). Gives memory back.
    pub fn clear(&mut self, place: PlaceId) {
        while let Some((slot, _)) = self.place(place).and_then(|p| p.any()) {
            self.drop_slot(place, slot);
        }
        if let Some(known) = self.place_mut(place) {
            known.shrink();
        }
        if let Some(moves) = self.tree.compact() {
            for known in self.places.iter_mut().flatten() {
                known.rename(|node| moves.of(node));
            }
        }
    }

    fn hold_exact(&mut self, place: PlaceId, node: NodeId) -> Option<Seat> {
        let known = self.places.get_mut(place.index())?.as_mut()?;
        let slot = match self.tree.holder(node, place.0) {
            None => {
                let slot = known.add(node, Trust::Exact, self.tree.tokens(node));
                self.tree.hold(node, place.0, slot);
                slot
            }
            Some(holder) => {
                match known.slot(holder.slot).trust {
                    Trust::Exact => self.anomalies.duplicate += 1,
                    Trust::Predicted => known.promote(holder.slot),
                }
                holder.slot
            }
        };
        Some(Seat { node, slot })
    }
}

/// The node of `block` below `above`; counts why there can be none.
pub(super) fn seat(
    tree: &mut Tree,
    above: Option<NodeId>,
    block: StoredBlock,
    anomalies: &mut Anomalies,
) -> Option<NodeId> {
    let Some(node) = tree.find_below(above, block.hash) else {
        return Some(tree.insert(block.hash, above, block.tokens));
    };
    if tree.parent(node) == above {
        return Some(node);
    }
    let mut ancestors = std::iter::successors(above, |&n| tree.parent(n));
    if above == Some(node) {
        anomalies.self_parent += 1;
    } else if ancestors.any(|n| n == node) {
        anomalies.cycle += 1;
    } else {
        anomalies.other_parent += 1;
    }
    None
}
