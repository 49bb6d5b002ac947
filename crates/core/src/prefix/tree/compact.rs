//! How does memory come back when most of a tree is gone?
//!
//! Freed nodes are used again, so a tree that only breathes never moves. After a place was cleared it
//! may be left with a fraction of its nodes, spread over the arena; then they are moved together and
//! everything that names a node is told. O(nodes before), paid for by the nodes that were freed.
use super::{ByHash, Node, NodeId, Tree};

/// Smaller arenas are not worth moving; under test they are, so that random events move them.
const MIN_NODES: usize = if cfg!(test) { 2 } else { 64 };

/// Where each node went.
pub(in crate::prefix) struct Moves(Vec<NodeId>);

impl Moves {
    /// The present id of a node that lived before the move.
    pub(in crate::prefix) fn of(&self, node: NodeId) -> NodeId {
        self.0[node as usize]
    }
}

impl Tree {
    /// Gives memory back once less than a quarter of the nodes is left. Absent when nothing moved.
    pub(in crate::prefix) fn compact(&mut self) -> Option<Moves> {
        if self.by_hash.is_empty() {
            *self = Self::default();
            return None;
        }
        if self.nodes.len() < MIN_NODES || self.len() * 4 >= self.nodes.len() {
            return None;
        }
        let moves = self.number();
        let mut nodes = Vec::with_capacity(self.len());
        let mut by_hash = ByHash::default();
        by_hash.reserve(self.len());
        for (old, node) in (0..).zip(std::mem::take(&mut self.nodes)) {
            if self.by_hash.get(&node.hash) == Some(&old) {
                by_hash.insert(node.hash, moves.of(old));
                nodes.push(renamed(node, &moves));
            }
        }
        self.nodes = nodes;
        self.by_hash = by_hash;
        self.free = Vec::new();
        self.work = Vec::new();
        self.leaves = std::mem::take(&mut self.leaves)
            .into_iter()
            .map(|(used, node)| (used, moves.of(node)))
            .collect();
        Some(moves)
    }

    /// Numbers the living in their present order; the freed get numbers that nobody asks for.
    fn number(&self) -> Moves {
        let mut next = 0;
        let numbers = (0..).zip(&self.nodes).map(|(old, node)| {
            let number = next;
            next += NodeId::from(self.by_hash.get(&node.hash) == Some(&old));
            number
        });
        Moves(numbers.collect())
    }
}

fn renamed(node: Node, moves: &Moves) -> Node {
    let of = |id: Option<NodeId>| id.map(|id| moves.of(id));
    Node {
        parent: of(node.parent),
        first_child: of(node.first_child),
        next_sibling: of(node.next_sibling),
        previous_sibling: of(node.previous_sibling),
        ..node
    }
}
