//! What does a worker's host tier still hold of the contexts that had to give way?
//!
//! What a cache gives up goes there, what came first is dropped first, and a session takes its part
//! back with its next turn. O(log contexts) each, and O(contexts that go). It knows no turns, no programs
//! and no time: a context is known by its place in the order of giving up.
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::room::Rank;

/// The host tier beside one worker's cache; without a capacity it holds nothing.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    capacity: u64,
    held: u64,
    /// What has been there longest comes first.
    order: BTreeMap<u64, Rank>,
    parts: HashMap<Rank, Part>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    tokens: u32,
    number: u64,
}

impl Shelf {
    /// Changes how many tokens it holds.
    pub(super) fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.fit();
    }

    /// Tokens of this context.
    pub(super) fn tokens(&self, of: Rank) -> u32 {
        self.parts.get(&of).map_or(0, |part| part.tokens)
    }

    /// `tokens` more of a context come here.
    pub(super) fn put(&mut self, of: Rank, tokens: u32) {
        if self.capacity == 0 || tokens == 0 {
            return;
        }
        let before = self.take(of);
        self.next += 1;
        let part = Part {
            tokens: before.saturating_add(tokens),
            number: self.next,
        };
        self.held += u64::from(part.tokens);
        self.order.insert(part.number, of);
        self.parts.insert(of, part);
        self.fit();
    }

    /// What is here of a context leaves. Returns how much that was.
    pub(super) fn take(&mut self, of: Rank) -> u32 {
        let Some(part) = self.parts.remove(&of) else {
            return 0;
        };
        self.order.remove(&part.number);
        self.held -= u64::from(part.tokens);
        part.tokens
    }

    pub(super) fn clear(&mut self) {
        self.held = 0;
        self.order.clear();
        self.parts.clear();
    }

    /// Sums and orders hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let sum: u64 = self.parts.values().map(|p| u64::from(p.tokens)).sum();
        assert_eq!((self.held, sum <= self.capacity), (sum, true));
        assert_eq!(self.order.len(), self.parts.len());
        for (number, of) in &self.order {
            assert_eq!(self.parts[of].number, *number);
            assert!(self.parts[of].tokens > 0);
        }
    }

    fn fit(&mut self) {
        while self.held > self.capacity
            && let Some((&number, &of)) = self.order.first_key_value()
        {
            let Some(part) = self.parts.get_mut(&of) else {
                self.order.remove(&number);
                continue;
            };
            let most = u32::try_from(self.held - self.capacity).unwrap_or(u32::MAX);
            let cut = part.tokens.min(most);
            part.tokens -= cut;
            self.held -= u64::from(cut);
            if part.tokens == 0 {
                self.order.remove(&number);
                self.parts.remove(&of);
            }
        }
    }
}
