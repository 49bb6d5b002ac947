//! What does one place hold, and what would it lose first?
//!
//! A place keeps a slot for each block it holds, in one of two rings. Predicted blocks are in order
//! of use; a decision uses a whole path at once and links it leaf first, so that an ancestor is
//! always younger than what hangs below it: taking from the old end keeps coverage contiguous. Exact
//! blocks are the engine's business and never leave by age. O(1) for every operation; knows nothing
//! of the tree but node ids.
use super::tree::NodeId;
use crate::{Micros, WorkerId};

/// How near the engine a cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The accelerator's own memory.
    #[default]
    Device,
    /// Memory of the machine.
    Host,
    /// Storage of the machine.
    Disk,
    /// Another machine.
    External,
}

/// How much a place may hold and for how long a prediction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceOptions {
    /// Predicted blocks go, oldest first, while the place has more tokens than this. Absent: no bound.
    pub capacity_tokens: Option<u64>,
    /// A predicted block unused for so long is gone. Absent: predictions do not age.
    pub ttl: Option<Micros>,
}

/// How good the evidence is that a block is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The engine said so.
    Exact,
    /// The router sent a prompt there that leaves it behind.
    Predicted,
}

/// Ends a ring; private to this file.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) node: NodeId,
    pub(super) trust: Trust,
    /// The number of the decision that last used it, and its time.
    pub(super) used: u64,
    pub(super) at: Micros,
    older: u32,
    younger: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    oldest: u32,
    youngest: u32,
}

const EMPTY: Ring = Ring {
    oldest: NIL,
    youngest: NIL,
};

/// One place and its blocks.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) worker: WorkerId,
    pub(super) rank: u32,
    pub(super) tier: Tier,
    pub(super) options: PlaceOptions,
    pub(super) tokens: u64,
    /// Whether a look at its oldest prediction is due some time.
    pub(super) armed: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    predicted: Ring,
    exact: Ring,
}

impl Place {
    pub(super) fn new(worker: WorkerId, rank: u32, tier: Tier, options: PlaceOptions) -> Self {
        Self {
            worker,
            rank,
            tier,
            options,
            tokens: 0,
            armed: false,
            slots: Vec::new(),
            free: Vec::new(),
            predicted: EMPTY,
            exact: EMPTY,
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// A new block, youngest in its ring.
    pub(super) fn add(&mut self, node: NodeId, trust: Trust, tokens: u32) -> u32 {
        let slot = Slot {
            node,
            trust,
            used: 0,
            at: Micros(0),
            older: NIL,
            younger: NIL,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.link(index);
        self.tokens += u64::from(tokens);
        index
    }

    /// Takes a block out; the caller gives the tokens that it was added with.
    pub(super) fn take(&mut self, slot: u32, tokens: u32) {
        self.unlink(slot);
        self.free.push(slot);
        self.tokens -= u64::from(tokens);
    }

    /// A prediction was used: now the youngest.
    pub(super) fn touch(&mut self, slot: u32, used: u64, at: Micros) {
        self.unlink(slot);
        self.slots[slot as usize].used = used;
        self.slots[slot as usize].at = at;
        self.link(slot);
    }

    /// The engine vouches for a block that was predicted.
    pub(super) fn promote(&mut self, slot: u32) {
        self.unlink(slot);
        self.slots[slot as usize].trust = Trust::Exact;
        self.link(slot);
    }

    /// The prediction that was used least recently.
    pub(super) fn oldest_predicted(&self) -> Option<(u32, Slot)> {
        let index = self.predicted.oldest;
        let slot = self.slots.get(index as usize)?;
        Some((index, *slot))
    }

    /// Some block of this place.
    pub(super) fn any(&self) -> Option<(u32, Slot)> {
        let exact = (
            self.exact.youngest,
            self.slots.get(self.exact.youngest as usize),
        );
        match exact {
            (index, Some(slot)) => Some((index, *slot)),
            (_, None) => self.oldest_predicted(),
        }
    }

    /// Nodes have new names. Free slots name nodes that are gone, so only the living are asked for.
    pub(super) fn rename(&mut self, name: impl Fn(NodeId) -> NodeId) {
        for start in [self.predicted.oldest, self.exact.oldest] {
            let mut next = start;
            while let Some(slot) = self.slots.get_mut(next as usize) {
                slot.node = name(slot.node);
                next = slot.younger;
            }
        }
    }

    /// Gives the memory of an emptied place back.
    pub(super) fn shrink(&mut self) {
        debug_assert_eq!((self.blocks(), self.tokens), (0, 0));
        self.slots = Vec::new();
        self.free = Vec::new();
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.free.capacity() * size_of::<u32>()
    }

    fn ring(&mut self, trust: Trust) -> &mut Ring {
        match trust {
            Trust::Exact => &mut self.exact,
            Trust::Predicted => &mut self.predicted,
        }
    }

    fn link(&mut self, slot: u32) {
        let trust = self.slots[slot as usize].trust;
        let older = std::mem::replace(&mut self.ring(trust).youngest, slot);
        self.slots[slot as usize].older = older;
        self.slots[slot as usize].younger = NIL;
        match older {
            NIL => self.ring(trust).oldest = slot,
            _ => self.slots[older as usize].younger = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot {
            trust,
            older,
            younger,
            ..
        } = self.slots[slot as usize];
        match older {
            NIL => self.ring(trust).oldest = younger,
            _ => self.slots[older as usize].younger = younger,
        }
        match younger {
            NIL => self.ring(trust).youngest = older,
            _ => self.slots[younger as usize].older = older,
        }
    }
}
