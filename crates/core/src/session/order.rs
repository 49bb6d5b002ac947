//! Idle sessions, the one that has been idle longest first: a doubly linked list over slot numbers.
//! Every call is O(1); slots that are in the list once are never in it twice.

/// The end of the list.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    listed: bool,
}

const UNLISTED: Link = Link {
    previous: NIL,
    next: NIL,
    listed: false,
};

/// Slots in the order in which they became idle.
#[derive(Debug)]
pub(super) struct Order {
    links: Vec<Link>,
    first: u32,
    last: u32,
    listed: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            first: NIL,
            last: NIL,
            listed: 0,
        }
    }
}

impl Order {
    /// The slot that has been listed longest.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Slots that are listed.
    pub(super) fn len(&self) -> usize {
        self.listed
    }

    /// Lists `slot` last, wherever it was before.
    pub(super) fn push_last(&mut self, slot: u32) {
        self.remove(slot);
        let index = slot as usize;
        if index >= self.links.len() {
            self.links.resize(index + 1, UNLISTED);
        }
        self.links[index] = Link {
            previous: self.last,
            next: NIL,
            listed: true,
        };
        match self.last {
            NIL => self.first = slot,
            last => self.links[last as usize].next = slot,
        }
        self.last = slot;
        self.listed += 1;
    }

    /// Takes `slot` out; nothing happens when it is not listed.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(&link) = self.links.get(slot as usize).filter(|link| link.listed) else {
            return;
        };
        match link.previous {
            NIL => self.first = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        match link.next {
            NIL => self.last = link.previous,
            next => self.links[next as usize].previous = link.previous,
        }
        self.links[slot as usize] = UNLISTED;
        self.listed -= 1;
    }
}
