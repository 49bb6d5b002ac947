//! What do engines call the blocks of a run?
//!
//! An engine's own hashes are opaque: equal content may have different names on different engines, and
//! one number may mean different content in two hash domains. A column holds the names that engines of
//! one domain gave to a stretch of the run; engines that disagree get a column each. A column lives
//! while a place that was named by it holds a block of the run. O(columns) a look; there is one, as a
//! rule.
use smallvec::SmallVec;

use super::exact::StoredBlock;
use super::held::Span;
use super::run::{give_back, grow};
use super::set::SlotSet;
use super::sieve::Sieve;
use crate::table::spread;

/// More columns than this and a naming is refused: so many engines that agree on content and on
/// nothing else would make the names larger than the content.
pub(super) const MAX_COLUMNS: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) domain: u32,
    pub(super) start: u32,
    pub(super) hashes: Vec<u64>,
    /// Whose words these are.
    pub(super) slots: SlotSet,
}

impl Column {
    pub(super) fn end(&self) -> u32 {
        self.start + self.hashes.len() as u32
    }

    fn at(&self, offset: u32) -> Option<u64> {
        let index = offset.checked_sub(self.start)?;
        self.hashes.get(index as usize).copied()
    }

    /// How many of `blocks`, the first of which is at `offset`, have these names.
    fn agreeing(&self, offset: u32, blocks: &[StoredBlock]) -> usize {
        let Some(from) = offset.checked_sub(self.start) else {
            return 0;
        };
        let known = self.hashes.get(from as usize..).unwrap_or_default();
        let pairs = known.iter().zip(blocks);
        pairs.take_while(|(known, new)| **known == new.name).count()
    }
}

/// Where `name` is. Stretch by stretch without a way out in between, so that it becomes vector code.
fn position(hashes: &[u64], name: u64) -> Option<usize> {
    const STRETCH: usize = 32;
    let is_in = |stretch: &[u64]| stretch.iter().fold(false, |found, &h| found | (h == name));
    let stretch = hashes.chunks(STRETCH).position(is_in)?;
    let from = stretch * STRETCH;
    let within = hashes[from..].iter().position(|&hash| hash == name)?;
    Some(from + within)
}

/// A name as a uniform hash: two domains may use the same numbers for different things.
pub(super) fn key(domain: u32, name: u64) -> u64 {
    spread(name ^ u64::from(domain).rotate_left(40))
}

/// The names of a run's blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Most runs have one.
    pub(super) columns: SmallVec<[Column; 1]>,
    /// Of all that is in them, where somebody searches them often.
    sieve: Option<Sieve>,
}

/// Where names are being given: whose, and in which domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
    pub(super) slot: u32,
    pub(super) domain: u32,
}

/// What a place that names blocks had of them before, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Had {
    /// Nothing: what it called them before is void.
    Nothing,
    /// Some of them: it may call them by several names, one a copy.
    Some,
}

impl Names {
    /// Whether the block at `offset` is called `name` in `domain`.
    pub(super) fn is(&self, domain: u32, offset: u32, name: u64) -> bool {
        let own = self.columns.iter().filter(|c| c.domain == domain);
        own.into_iter().any(|c| c.at(offset) == Some(name))
    }

    /// The name of the block at `offset` in the words of that voice, else in its domain.
    pub(super) fn get(&self, voice: Voice, offset: u32) -> Option<u64> {
        let own = self.columns.iter().filter(|c| c.domain == voice.domain);
        let named = own.filter_map(|c| Some((c.slots.contains(voice.slot), c.at(offset)?)));
        named.max_by_key(|(own, _)| *own).map(|(_, name)| name)
    }

    /// The offset of the block of `span` that `domain` calls `name`. O(blocks), at memory speed.
    pub(super) fn scan(&self, domain: u32, (from, to): Span, name: u64) -> Option<u32> {
        let own = self.columns.iter().filter(|c| c.domain == domain);
        own.into_iter().find_map(|column| {
            let skipped = from.saturating_sub(column.start);
            let end = to.min(column.end()).checked_sub(column.start)?;
            let within = column.hashes.get(skipped as usize..end as usize)?;
            let found = position(within, name)?;
            Some(column.start + skipped + found as u32)
        })
    }

    /// Makes it quick to say that a name is not here, until further names come. O(names).
    pub(super) fn sift(&mut self) {
        let count = self.columns.iter().map(|c| c.hashes.len()).sum();
        let keys = self.from(0).map(|(domain, _, name)| key(domain, name));
        self.sieve = Some(Sieve::new(count, keys));
    }

    pub(super) fn is_sifted(&self) -> bool {
        self.sieve.is_some()
    }

    /// False where no block can be called so.
    pub(super) fn may_have(&self, domain: u32, name: u64) -> bool {
        let sieve = self.sieve.as_ref();
        sieve.is_none_or(|sieve| sieve.may_have(key(domain, name)))
    }

    /// Whether some name of the block at `offset` satisfies `is_it`, which gets (domain, name).
    pub(super) fn any(&self, offset: u32, is_it: impl Fn(u32, u64) -> bool) -> bool {
        let mut named = self
            .columns
            .iter()
            .filter_map(|c| Some((c.domain, c.at(offset)?)));
        named.any(|(domain, name)| is_it(domain, name))
    }

    /// Every name from block `from` on: (domain, offset, name).
    pub(super) fn from(&self, from: u32) -> impl Iterator<Item = (u32, u32, u64)> {
        self.columns.iter().flat_map(move |column| {
            let named = (column.start..).zip(&column.hashes);
            let rest = named.skip(from.saturating_sub(column.start) as usize);
            rest.map(|(offset, &name)| (column.domain, offset, name))
        })
    }

    /// How many of `blocks`, the first of which is at `offset`, are called so already. They are from
    /// now on this voice's words too.
    pub(super) fn join(&mut self, voice: Voice, offset: u32, blocks: &[StoredBlock]) -> usize {
        let own = self.columns.iter_mut().filter(|c| c.domain == voice.domain);
        for column in own {
            let agreeing = column.agreeing(offset, blocks);
            if agreeing > 0 {
                column.slots.insert(voice.slot);
                return agreeing;
            }
        }
        0
    }

    /// Gives names to the blocks from `offset` on. False when there are too many columns already.
    pub(super) fn give(
        &mut self,
        voice: Voice,
        offset: u32,
        blocks: &[StoredBlock],
        had: Had,
    ) -> bool {
        let mut done = self.join(voice, offset, blocks);
        if done < blocks.len() {
            self.sieve = None;
        }
        while done < blocks.len() {
            let at = offset + done as u32;
            let rest = &blocks[done..];
            let joined = self.join(voice, at, rest);
            done += joined;
            if joined == 0 && had == Had::Nothing && self.rename(voice, at, rest) {
                done = blocks.len();
            } else if joined == 0 {
                let Some(column) = self.column_for(voice, at) else {
                    return false;
                };
                let hashes = &mut self.columns[column].hashes;
                grow(hashes, rest.len());
                hashes.extend(rest.iter().map(|block| block.name));
                done = blocks.len();
            }
        }
        true
    }

    /// Writes over the names that nobody but this voice used, or an engine that calls content anew
    /// each time would fill column after column. False when there are none at `offset`.
    fn rename(&mut self, voice: Voice, offset: u32, blocks: &[StoredBlock]) -> bool {
        let mut own = self.columns.iter_mut().filter(|c| {
            c.domain == voice.domain && c.slots.others(voice.slot) == 0 && c.at(offset).is_some()
        });
        let Some(column) = own.next() else {
            return false;
        };
        let old = &mut column.hashes[(offset - column.start) as usize..];
        let within = old.len().min(blocks.len());
        for (old, new) in old.iter_mut().zip(blocks) {
            *old = new.name;
        }
        let further = &blocks[within..];
        grow(&mut column.hashes, further.len());
        column.hashes.extend(further.iter().map(|block| block.name));
        true
    }

    /// The column that this voice goes on with at `offset`: the one that ends there.
    fn column_for(&mut self, voice: Voice, offset: u32) -> Option<usize> {
        let fits = |c: &Column| c.domain == voice.domain && c.end() == offset;
        let own = |c: &Column| fits(c) && c.slots.contains(voice.slot);
        let spoken = self
            .columns
            .iter()
            .any(|c| c.domain == voice.domain && c.slots.contains(voice.slot));
        let found = match spoken {
            true => self.columns.iter().position(own),
            false => self.columns.iter().position(fits),
        };
        if let Some(found) = found {
            self.columns[found].slots.insert(voice.slot);
            return Some(found);
        }
        if self.columns.len() >= MAX_COLUMNS {
            return None;
        }
        let mut slots = SlotSet::default();
        slots.insert(voice.slot);
        self.columns.push(Column {
            domain: voice.domain,
            start: offset,
            hashes: Vec::new(),
            slots,
        });
        Some(self.columns.len() - 1)
    }

    /// `slot` holds no block of the run any more.
    pub(super) fn forget(&mut self, slot: u32) {
        self.columns.retain(|column| {
            column.slots.remove(slot);
            !column.slots.is_empty()
        });
    }

    /// The run ends at `len` now.
    pub(super) fn truncate(&mut self, len: u32) {
        self.columns.retain(|column| {
            let keep = len.saturating_sub(column.start) as usize;
            column.hashes.truncate(keep);
            give_back(&mut column.hashes);
            !column.hashes.is_empty()
        });
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let own = match self.columns.spilled() {
            true => self.columns.capacity() * size_of::<Column>(),
            false => 0,
        };
        let columns = self.columns.iter();
        let hashes = columns.map(|c| c.hashes.capacity() * size_of::<u64>() + c.slots.heap_bytes());
        own + hashes.sum::<usize>() + self.sieve.as_ref().map_or(0, Sieve::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(names: &[u64]) -> Vec<StoredBlock> {
        let block = |&name| StoredBlock { name, local: 0 };
        names.iter().map(block).collect()
    }

    fn voice(slot: u32, domain: u32) -> Voice {
        Voice { slot, domain }
    }

    #[test]
    fn engines_that_agree_share_a_column_and_others_get_their_own() {
        let mut names = Names::default();
        assert!(names.give(voice(0, 0), 2, &blocks(&[10, 11, 12]), Had::Nothing));
        assert_eq!(names.join(voice(1, 0), 3, &blocks(&[11, 12, 13])), 2);
        assert!(names.give(voice(1, 0), 3, &blocks(&[11, 12, 13]), Had::Nothing));
        assert!(names.give(voice(2, 0), 0, &blocks(&[20, 21, 22, 23]), Had::Nothing));
        assert!(names.give(voice(3, 1), 0, &blocks(&[10, 11]), Had::Nothing));
        assert_eq!(names.columns.len(), 3);
        assert!(names.is(0, 2, 10) && names.is(0, 5, 13) && names.is(0, 3, 23));
        assert!(!names.is(1, 2, 10) && names.is(1, 0, 10));
        assert_eq!(names.get(voice(2, 0), 2), Some(22));
        assert_eq!(names.get(voice(1, 0), 2), Some(10));
        assert_eq!(
            (names.scan(0, (0, 9), 12), names.scan(0, (3, 9), 10)),
            (Some(4), None)
        );
        assert_eq!(
            (names.scan(0, (0, 4), 12), names.scan(0, (0, 1), 11)),
            (None, None)
        );
        assert!(
            names
                .from(3)
                .eq([(0, 3, 11), (0, 4, 12), (0, 5, 13), (0, 3, 23)])
        );
    }

    #[test]
    fn a_column_goes_with_its_last_speaker_and_with_its_blocks() {
        let mut names = Names::default();
        names.give(voice(0, 0), 0, &blocks(&[1, 2, 3]), Had::Nothing);
        names.give(voice(1, 0), 0, &blocks(&[1, 2, 3]), Had::Nothing);
        names.give(voice(2, 0), 2, &blocks(&[9]), Had::Nothing);
        names.forget(0);
        assert!(names.is(0, 1, 2));
        names.truncate(2);
        assert_eq!((names.is(0, 1, 2), names.is(0, 2, 9)), (true, false));
        names.forget(1);
        assert!(names.columns.is_empty());
    }

    #[test]
    fn what_an_engine_called_a_block_that_it_lost_makes_room_for_the_next_name() {
        let mut names = Names::default();
        names.give(voice(0, 0), 0, &blocks(&[1, 2, 3]), Had::Nothing);
        names.give(voice(0, 0), 1, &blocks(&[7, 8, 9]), Had::Nothing);
        assert_eq!(names.columns.len(), 1);
        assert!(
            names
                .from(0)
                .eq([(0, 0, 1), (0, 1, 7), (0, 2, 8), (0, 3, 9)])
        );
        names.give(voice(1, 0), 0, &blocks(&[1]), Had::Nothing);
        names.give(voice(0, 0), 1, &blocks(&[4]), Had::Nothing);
        assert!(
            names.is(0, 1, 4) && names.is(0, 1, 7),
            "others use that column too"
        );
    }

    #[test]
    fn an_engine_that_calls_everything_new_each_time_is_refused_some_day() {
        let mut names = Names::default();
        let mut give = |n: u64| names.give(voice(0, 0), 0, &blocks(&[n]), Had::Some);
        let given = (0..300).filter(|&n| give(n));
        assert_eq!(given.count(), MAX_COLUMNS);
    }
}
