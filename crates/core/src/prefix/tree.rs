//! Which blocks exist, what hangs below what, and who holds each?
//!
//! One node a block, found by its chain hash. A node lists its holders in ascending order; a holder
//! is *rooted* there when it holds every ancestor too. Only the rooted ones earn credit, and how
//! many there are never grows with depth, which is what lets a look-up jump (see `steps`). Rootedness
//! is kept up to date when holders come and go: O(1) for the usual order (parents first, leaves
//! leave first), O(children of the nodes below) when a hole opens or closes.
//!
//! A node lives while somebody holds it or something hangs below it; so a hole keeps what is stranded
//! behind it. This file knows nothing of time, capacity or trust.
//!
//! Invariants: (1) `rooted` is the number of rooted holders; (2) a rooted holder of a node is a
//! rooted holder of its parent; (3) a childless node has a holder.
use std::collections::BTreeSet;
use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;
use smallvec::SmallVec;

mod compact;

/// A node's index in the arena; valid until that node is freed.
pub(super) type NodeId = u32;

/// Chain hashes are uniform already: hashing them again would only cost.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A map keyed by chain hash.
pub(crate) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

/// One place's claim to one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) place: u32,
    /// Where the place keeps what it knows of this block.
    pub(super) slot: u32,
    /// How many children of this node the place holds too.
    below: u32,
    rooted: bool,
}

#[derive(Clone, Debug)]
struct Node {
    hash: u64,
    parent: Option<NodeId>,
    first_child: Option<NodeId>,
    next_sibling: Option<NodeId>,
    previous_sibling: Option<NodeId>,
    tokens: u32,
    rooted: u32,
    used: u64,
    /// Most blocks are held by one place, and that one costs no allocation and no further look-up.
    holders: SmallVec<[Holder; 1]>,
}

/// The forest of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    by_hash: ByHash<NodeId>,
    /// Childless nodes that were used at all, least recently used first.
    leaves: BTreeSet<(u64, NodeId)>,
    /// For each place, how many blocks it holds without being rooted there.
    stranded: Vec<u32>,
    work: Vec<NodeId>,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(super) fn find(&self, hash: u64) -> Option<NodeId> {
        self.by_hash.get(&hash).copied()
    }

    /// The node of `hash`, looked for first where a conversation's next block usually is: a path is
    /// laid down in one go, so the neighbour in the arena costs no look-up in a table of all blocks.
    pub(super) fn find_below(&self, above: Option<NodeId>, hash: u64) -> Option<NodeId> {
        let child = above.and_then(|node| self.nodes[node as usize].first_child);
        match child {
            Some(child) if self.nodes[child as usize].hash == hash => Some(child),
            _ => self.find(hash),
        }
    }

    pub(super) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node as usize].parent
    }

    pub(super) fn tokens(&self, node: NodeId) -> u32 {
        self.nodes[node as usize].tokens
    }

    pub(super) fn rooted(&self, node: NodeId) -> usize {
        self.nodes[node as usize].rooted as usize
    }

    /// The rooted holders, ascending.
    pub(super) fn rooted_places(&self, node: NodeId) -> impl Iterator<Item = u32> {
        let holders = self.nodes[node as usize].holders.iter();
        holders.filter(|h| h.rooted).map(|h| h.place)
    }

    pub(super) fn holder(&self, node: NodeId, place: u32) -> Option<Holder> {
        let index = self.holder_index(node, place)?;
        Some(self.nodes[node as usize].holders[index])
    }

    /// Adds a node below `parent`. Until somebody holds it, [`Tree::prune`] would free it; until it is
    /// touched, it is not among the leaves, so that a long new path enters there once.
    pub(super) fn insert(&mut self, hash: u64, parent: Option<NodeId>, tokens: u32) -> NodeId {
        let node = Node {
            hash,
            parent,
            first_child: None,
            next_sibling: parent.and_then(|p| self.nodes[p as usize].first_child),
            previous_sibling: None,
            tokens,
            rooted: 0,
            used: 0,
            holders: SmallVec::new(),
        };
        let next = node.next_sibling;
        let id = self.place_node(node);
        if let Some(next) = next {
            self.nodes[next as usize].previous_sibling = Some(id);
        }
        if let Some(p) = parent {
            let above = &mut self.nodes[p as usize];
            if above.first_child.replace(id).is_none() && above.used > 0 {
                self.leaves.remove(&(above.used, p));
            }
        }
        self.by_hash.insert(hash, id);
        id
    }

    fn place_node(&mut self, node: Node) -> NodeId {
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as NodeId
            }
        }
    }

    /// Says when the node was last used; `used` only grows and starts at 1.
    pub(super) fn touch(&mut self, node: NodeId, used: u64) {
        let at = &mut self.nodes[node as usize];
        let before = std::mem::replace(&mut at.used, used);
        if at.first_child.is_none() {
            if before > 0 {
                self.leaves.remove(&(before, node));
            }
            self.leaves.insert((used, node));
        }
    }

    /// The childless node that was used least recently.
    pub(super) fn oldest_leaf(&self) -> Option<NodeId> {
        self.leaves.first().map(|&(_, node)| node)
    }

    /// Some holder of a node.
    pub(super) fn any_holder(&self, node: NodeId) -> Option<Holder> {
        self.nodes[node as usize].holders.last().copied()
    }

    /// Makes `place` a holder; it must not be one.
    pub(super) fn hold(&mut self, node: NodeId, place: u32, slot: u32) {
        let rooted = match self.parent(node) {
            None => true,
            Some(parent) => self.count_below(parent, place, 1),
        };
        let at = &mut self.nodes[node as usize];
        let index = at.holders.partition_point(|h| h.place < place);
        debug_assert!(at.holders.get(index).is_none_or(|h| h.place != place));
        let holder = Holder {
            place,
            slot,
            below: 0,
            rooted,
        };
        at.holders.insert(index, holder);
        at.rooted += u32::from(rooted);
        if self.stranded.len() <= place as usize {
            self.stranded.resize(place as usize + 1, 0);
        }
        if self.stranded[place as usize] > 0 {
            self.adopt(node, place, index);
        }
        self.stranded[place as usize] += u32::from(!rooted);
    }

    /// Takes `place` off the holders, and frees the node, and any ancestor, that nothing keeps.
    pub(super) fn release(&mut self, node: NodeId, place: u32) {
        let Some(index) = self.holder_index(node, place) else {
            return;
        };
        let at = &mut self.nodes[node as usize];
        let holder = at.holders.remove(index);
        at.rooted -= u32::from(holder.rooted);
        self.stranded[place as usize] -= u32::from(!holder.rooted);
        if let Some(parent) = self.parent(node) {
            self.count_below(parent, place, -1);
        }
        if holder.rooted && holder.below > 0 {
            self.spread(node, place, false);
        }
        self.prune(node);
    }

    fn holder_index(&self, node: NodeId, place: u32) -> Option<usize> {
        let holders = &self.nodes[node as usize].holders;
        holders.binary_search_by_key(&place, |h| h.place).ok()
    }

    /// A child of `node` joined or left what `place` holds. Returns whether `place` is rooted here.
    fn count_below(&mut self, node: NodeId, place: u32, change: i32) -> bool {
        let Some(index) = self.holder_index(node, place) else {
            return false;
        };
        let holder = &mut self.nodes[node as usize].holders[index];
        holder.below = holder.below.saturating_add_signed(change);
        holder.rooted
    }

    /// A new holder may close a hole: finds its children, and roots them when it is rooted itself.
    fn adopt(&mut self, node: NodeId, place: u32, index: usize) {
        let mut work = std::mem::take(&mut self.work);
        self.push_children(node, &mut work);
        let held = |id: &NodeId| self.holder_index(*id, place).is_some();
        let below = work.iter().filter(|id| held(id)).count() as u32;
        work.clear();
        self.work = work;
        let holder = &mut self.nodes[node as usize].holders[index];
        holder.below = below;
        if holder.rooted && below > 0 {
            self.spread(node, place, true);
        }
    }

    /// Carries a change of rootedness of `place` at `node` to what it holds below.
    fn spread(&mut self, node: NodeId, place: u32, rooted: bool) {
        let mut work = std::mem::take(&mut self.work);
        self.push_children(node, &mut work);
        while let Some(below) = work.pop() {
            let Some(index) = self.holder_index(below, place) else {
                continue;
            };
            let at = &mut self.nodes[below as usize];
            let holder = &mut at.holders[index];
            if holder.rooted == rooted {
                continue;
            }
            holder.rooted = rooted;
            let (more, change) = (holder.below > 0, if rooted { 1 } else { -1 });
            at.rooted = at.rooted.saturating_add_signed(change);
            let stranded = &mut self.stranded[place as usize];
            *stranded = stranded.saturating_add_signed(-change);
            if more {
                self.push_children(below, &mut work);
            }
        }
        self.work = work;
    }

    fn push_children(&self, node: NodeId, out: &mut Vec<NodeId>) {
        let mut child = self.nodes[node as usize].first_child;
        while let Some(id) = child {
            out.push(id);
            child = self.nodes[id as usize].next_sibling;
        }
    }

    /// Frees `node` and its ancestors up to the first that somebody holds or something hangs below.
    pub(super) fn prune(&mut self, node: NodeId) {
        let mut next = Some(node);
        while let Some(id) = next {
            let at = &self.nodes[id as usize];
            if at.first_child.is_some() || !at.holders.is_empty() {
                return;
            }
            next = at.parent;
            self.unlink(id);
        }
    }

    fn unlink(&mut self, id: NodeId) {
        let at = &mut self.nodes[id as usize];
        at.holders = SmallVec::new();
        let (hash, used, parent) = (at.hash, at.used, at.parent);
        let (previous, next) = (at.previous_sibling, at.next_sibling);
        if let Some(next) = next {
            self.nodes[next as usize].previous_sibling = previous;
        }
        match (previous, parent) {
            (Some(previous), _) => self.nodes[previous as usize].next_sibling = next,
            (None, Some(parent)) => self.drop_first_child(parent, next),
            (None, None) => {}
        }
        self.leaves.remove(&(used, id));
        self.by_hash.remove(&hash);
        self.free.push(id);
    }

    fn drop_first_child(&mut self, parent: NodeId, next: Option<NodeId>) {
        let at = &mut self.nodes[parent as usize];
        at.first_child = next;
        if next.is_none() {
            self.leaves.insert((at.used, parent));
        }
    }

    /// Bytes of the tables, with what they hold in reserve.
    pub(super) fn bytes(&self) -> usize {
        let spilled = self.nodes.iter().filter(|n| n.holders.spilled());
        let holders: usize = spilled.map(|n| n.holders.capacity()).sum();
        self.nodes.capacity() * size_of::<Node>()
            + holders * size_of::<Holder>()
            + self.free.capacity() * size_of::<NodeId>()
            + self.by_hash.capacity() * (size_of::<(u64, NodeId)>() + 1)
            + self.leaves.len() * size_of::<(u64, NodeId)>()
    }
}
