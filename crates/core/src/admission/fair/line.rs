//! The turns of one tenant that wait for the same, in the order in which they go.
//!
//! A sorted list in chunks of at most [`CHUNK`], each with the sums of what is in it, so that who
//! goes before a turn is counted a chunk at a time: O(waiting / [`CHUNK`]) for the place of one,
//! O(log waiting + [`CHUNK`]) to put one in or take it out. Of 40,000 that wait, one place costs what
//! some hundred additions do.
use crate::ReservationId;
use crate::admission::queue::Rank;

/// Turns in a chunk, at most.
const CHUNK: usize = 128;

/// A turn that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its place among those of its tenant, with its number: of two that wait the later one has the
    /// greater.
    pub(super) rank: Rank,
    pub(super) ticket: ReservationId,
    /// What its tenant's start grows by when it goes. Above 0.
    pub(super) cost: u64,
}

/// Turns in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) turns: usize,
    pub(super) cost: u64,
    /// The greatest number.
    newest: u64,
}

impl Sum {
    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            turns: self.turns + other.turns,
            cost: self.cost.saturating_add(other.cost),
            newest: self.newest.max(other.newest),
        }
    }

    fn of(entry: &Entry) -> Self {
        Self {
            turns: 1,
            cost: entry.cost,
            newest: entry.rank.number(),
        }
    }

    /// Whether one of them came after this one.
    pub(super) fn has_later(&self, number: u64) -> bool {
        self.turns > 0 && self.newest > number
    }
}

/// Turns by rank.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// None is empty.
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    entries: Vec<Entry>,
    sum: Sum,
}

impl Chunk {
    fn new(entries: Vec<Entry>) -> Self {
        let sum = entries.iter().map(Sum::of).fold(Sum::default(), Sum::and);
        Self { entries, sum }
    }

    fn last(&self) -> Option<Rank> {
        self.entries.last().map(|entry| entry.rank)
    }
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The next to go.
    pub(super) fn first(&self) -> Option<&Entry> {
        self.chunks.first()?.entries.first()
    }

    /// The turns as they go.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries)
    }

    /// Puts a turn in its place.
    pub(super) fn insert(&mut self, entry: Entry) {
        let at = self
            .chunk_of(entry.rank)
            .min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(at) else {
            return self.chunks.push(Chunk::new(vec![entry]));
        };
        let within = chunk.entries.partition_point(|e| e.rank < entry.rank);
        chunk.entries.insert(within, entry);
        chunk.sum = chunk.sum.and(Sum::of(&entry));
        if chunk.entries.len() > CHUNK {
            // Most turns come last: what is before them stays nearly full.
            let half = match within + 1 == chunk.entries.len() {
                true => CHUNK,
                false => CHUNK / 2,
            };
            let rest = chunk.entries.split_off(half);
            *chunk = Chunk::new(std::mem::take(&mut chunk.entries));
            self.chunks.insert(at + 1, Chunk::new(rest));
        }
    }

    /// Takes a turn out.
    pub(super) fn remove(&mut self, rank: Rank) -> Option<Entry> {
        let at = self.chunk_of(rank);
        let chunk = self.chunks.get_mut(at)?;
        let within = chunk.entries.binary_search_by_key(&rank, |e| e.rank);
        let entry = chunk.entries.remove(within.ok()?);
        chunk.sum.turns -= 1;
        chunk.sum.cost -= entry.cost;
        if chunk.entries.is_empty() {
            self.chunks.remove(at);
        } else if chunk.sum.newest == rank.number() {
            let numbers = chunk.entries.iter().map(|entry| entry.rank.number());
            chunk.sum.newest = numbers.max().unwrap_or(0);
        }
        Some(entry)
    }

    /// Those before this one.
    pub(super) fn before(&self, rank: Rank) -> Sum {
        self.while_so(|_, entry| entry.rank < rank)
    }

    /// Those whose start, and of equal ones whose rank, is less than this one's; the first starts
    /// at `start`.
    pub(super) fn starting_before(&self, start: u64, than: (u64, Rank)) -> Sum {
        self.while_so(|sum, entry| (start.saturating_add(sum.cost), entry.rank) < than)
    }

    /// Those for which something holds that holds for none behind the first for which it does not;
    /// it is asked of an entry and of the sum of those before it.
    fn while_so(&self, holds: impl Fn(&Sum, &Entry) -> bool) -> Sum {
        let mut sum = Sum::default();
        for chunk in &self.chunks {
            let whole = sum.and(chunk.sum);
            let Some(last) = chunk.entries.last() else {
                continue;
            };
            let before_last = Sum {
                cost: whole.cost.saturating_sub(last.cost),
                ..whole
            };
            if holds(&before_last, last) {
                sum = whole;
                continue;
            }
            for entry in &chunk.entries {
                if !holds(&sum, entry) {
                    break;
                }
                sum = sum.and(Sum::of(entry));
            }
            break;
        }
        sum
    }

    /// The chunk that has this rank, if one has.
    fn chunk_of(&self, rank: Rank) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.last() < Some(rank))
    }
}

#[cfg(test)]
mod tests;
