//! Where do decoded events lie until somebody applies them?
//!
//! Three flat lists that are filled, read and emptied again; nothing is allocated once they have grown.
//! An event of many blocks is laid down as several that follow each other, so that applying one of them
//! is bounded work.
use std::ops::Range;

use warmpath_core::event::CacheEvent;
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};

/// No event has more blocks than this.
const MAX_EVENT_BLOCKS: usize = 1024;

/// Decoded events, in order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    entries: Vec<Entry>,
    blocks: Vec<StoredBlock>,
    names: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Stored {
        tier: Tier,
        parent: Option<u64>,
        block_tokens: u32,
        end: usize,
    },
    Copied {
        tier: Tier,
        end: usize,
    },
    Removed {
        tier: Tier,
        end: usize,
    },
    Cleared,
}

/// Where each list ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    entries: usize,
    blocks: usize,
    names: usize,
}

impl Events {
    /// No events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Blocks that they speak of, all together.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len() + self.names.len()
    }

    /// Forgets them and keeps the room.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.blocks.clear();
        self.names.clear();
    }

    /// The events, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            events: self,
            at: Mark {
                entries: 0,
                blocks: 0,
                names: 0,
            },
        }
    }

    pub(crate) fn stored(
        &mut self,
        tier: Tier,
        parent: Option<u64>,
        block_tokens: u32,
        blocks: impl Iterator<Item = StoredBlock>,
    ) {
        let mut from = self.blocks.len();
        self.blocks.extend(blocks);
        let mut parent = parent;
        while from < self.blocks.len() {
            let end = self.blocks.len().min(from + MAX_EVENT_BLOCKS);
            self.entries.push(Entry::Stored {
                tier,
                parent,
                block_tokens,
                end,
            });
            parent = Some(self.blocks[end - 1].name);
            from = end;
        }
    }

    pub(crate) fn copied(&mut self, tier: Tier, names: impl Iterator<Item = u64>) {
        self.named(names, |end| Entry::Copied { tier, end });
    }

    pub(crate) fn removed(&mut self, tier: Tier, names: impl Iterator<Item = u64>) {
        self.named(names, |end| Entry::Removed { tier, end });
    }

    pub(crate) fn cleared(&mut self) {
        self.entries.push(Entry::Cleared);
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            entries: self.entries.len(),
            blocks: self.blocks.len(),
            names: self.names.len(),
        }
    }

    /// Forgets what has come since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.blocks.truncate(mark.blocks);
        self.names.truncate(mark.names);
    }

    fn named(&mut self, names: impl Iterator<Item = u64>, entry: impl Fn(usize) -> Entry) {
        let mut from = self.names.len();
        self.names.extend(names);
        while from < self.names.len() {
            from = self.names.len().min(from + MAX_EVENT_BLOCKS);
            self.entries.push(entry(from));
        }
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = CacheEvent<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Events one after the other.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    events: &'a Events,
    at: Mark,
}

impl<'a> Iterator for Iter<'a> {
    type Item = CacheEvent<'a>;

    fn next(&mut self) -> Option<CacheEvent<'a>> {
        let events = self.events;
        let entry = *events.entries.get(self.at.entries)?;
        self.at.entries += 1;
        Some(match entry {
            Entry::Stored {
                tier,
                parent,
                block_tokens,
                end,
            } => CacheEvent::Stored {
                tier,
                blocks: StoredBlocks {
                    parent,
                    block_tokens,
                    blocks: &events.blocks[up_to(&mut self.at.blocks, end)],
                },
            },
            Entry::Copied { tier, end } => CacheEvent::Copied {
                tier,
                names: &events.names[up_to(&mut self.at.names, end)],
            },
            Entry::Removed { tier, end } => CacheEvent::Removed {
                tier,
                names: &events.names[up_to(&mut self.at.names, end)],
            },
            Entry::Cleared => CacheEvent::Cleared,
        })
    }
}

fn up_to(at: &mut usize, end: usize) -> Range<usize> {
    let from = std::mem::replace(at, end);
    from..end
}
