//! Which pages of a shared store are whole?
//!
//! A store tells of objects, and engines read pages: a page can be read when every object that its layout
//! needs is there, and not a moment earlier. Objects are a set: a store tells of one again when it has
//! another copy, and of its end once, when the last one is gone. Knows no store's keys and no prompts.
//!
//! O(1) an object. A page costs an entry of the map (13 to 26 bytes, by its load), its name, and a bit an
//! object, in words.
use hashbrown::HashMap;

use crate::error::Result;

mod layout;

pub use layout::{Layout, MAX_PARTS, Part};

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// Nothing.
    None,
    /// It can be read from now on.
    Whole,
    /// It cannot be read any more.
    Broken,
}

/// The pages of one store.
#[derive(Clone, Debug)]
pub struct Pool {
    layout: Layout,
    parts: u32,
    /// By name.
    slots: HashMap<u64, u32>,
    /// By slot: one bit an object that is there.
    bits: Vec<u64>,
    free: Vec<u32>,
    limit: usize,
    whole: usize,
    refused: u64,
    foreign: u64,
}

impl Pool {
    /// An empty store of pages that are cut so, of which at most `limit` are remembered.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a layout of more than [`MAX_PARTS`].
    pub fn new(layout: Layout, limit: usize) -> Result<Self> {
        Ok(Self {
            parts: layout.parts()?,
            layout,
            slots: HashMap::new(),
            bits: Vec::new(),
            free: Vec::new(),
            limit,
            whole: 0,
            refused: 0,
            foreign: 0,
        })
    }

    /// How its pages are cut.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// An object is there.
    pub fn put(&mut self, page: u64, part: &Part) -> PageChange {
        let Some(number) = self.layout.number(part) else {
            self.foreign += 1;
            return PageChange::None;
        };
        let Some(slot) = self.slot_for(page) else {
            self.refused += 1;
            return PageChange::None;
        };
        let was_whole = self.is_full(slot);
        let (word, bit) = place_of(number);
        self.page_mut(slot)[word] |= bit;
        match !was_whole && self.is_full(slot) {
            true => {
                self.whole += 1;
                PageChange::Whole
            }
            false => PageChange::None,
        }
    }

    /// No copy of an object is left. One that nobody has told of changes nothing.
    pub fn take(&mut self, page: u64, part: &Part) -> PageChange {
        let Some(number) = self.layout.number(part) else {
            self.foreign += 1;
            return PageChange::None;
        };
        let Some(&slot) = self.slots.get(&page) else {
            return PageChange::None;
        };
        let was_whole = self.is_full(slot);
        let (word, bit) = place_of(number);
        let words = self.page_mut(slot);
        words[word] &= !bit;
        if words.iter().all(|&word| word == 0) {
            self.slots.remove(&page);
            self.free.push(slot);
        }
        match was_whole && !self.is_full(slot) {
            true => {
                self.whole -= 1;
                PageChange::Broken
            }
            false => PageChange::None,
        }
    }

    /// Whether a page can be read.
    #[must_use]
    pub fn is_whole(&self, page: u64) -> bool {
        let slot = self.slots.get(&page);
        slot.is_some_and(|&slot| self.is_full(slot))
    }

    /// Forgets all pages, and gives their memory back.
    pub fn clear(&mut self) {
        self.slots = HashMap::new();
        self.bits = Vec::new();
        self.free = Vec::new();
        self.whole = 0;
    }

    /// Pages of which there is something.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slots.len()
    }

    /// Pages that can be read.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// Objects that were not remembered because there were too many pages.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Objects that pages of this layout do not have: it is another one.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Memory in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.allocation_size() + self.bits.capacity() * 8 + self.free.capacity() * 4
    }

    fn words(&self) -> usize {
        self.parts.div_ceil(u64::BITS) as usize
    }

    fn page_mut(&mut self, slot: u32) -> &mut [u64] {
        let words = self.words();
        &mut self.bits[slot as usize * words..][..words]
    }

    fn is_full(&self, slot: u32) -> bool {
        let words = self.words();
        let page = &self.bits[slot as usize * words..][..words];
        page.iter().map(|word| word.count_ones()).sum::<u32>() == self.parts
    }

    fn slot_for(&mut self, page: u64) -> Option<u32> {
        if let Some(&slot) = self.slots.get(&page) {
            return Some(slot);
        }
        if self.slots.len() >= self.limit {
            return None;
        }
        let words = self.words();
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.bits.len() / words).ok()?;
                self.bits.resize(self.bits.len() + words, 0);
                slot
            }
        };
        self.slots.insert(page, slot);
        Some(slot)
    }
}

fn place_of(number: u32) -> (usize, u64) {
    ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
}

#[cfg(test)]
mod tests;
