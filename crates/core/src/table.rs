//! A hash table for keys that are hashes already.
//!
//! A [`Table`] is cut into segments that grow one at a time: no insertion ever pays for moving
//! everything, however much there is. It takes the key as it is, so keys must be spread evenly over 64
//! bits; [`spread`] makes them so where an outsider chose them.
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Spreads a number that somebody else chose over all 64 bits. A bijection: different numbers stay
/// different.
pub(crate) fn spread(n: u64) -> u64 {
    let n = (n ^ (n >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (n >> 32)
}

const SEGMENT_BITS: u32 = 10;

/// A map from uniform hashes to small values, in segments.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    /// Empty until the first insertion.
    segments: Vec<HashTable<(u64, V)>>,
    len: usize,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            len: 0,
        }
    }
}

impl<V: Copy> Table<V> {
    pub(crate) fn get(&self, key: u64) -> Option<V> {
        let segment = self.segments.get(segment_of(key))?;
        segment.find(key, |(k, _)| *k == key).map(|(_, v)| *v)
    }

    /// Sets the value of `key`. Where a segment would have to grow although there are more than
    /// `enough` entries, those that `keep` refuses leave first.
    pub(crate) fn insert(
        &mut self,
        key: u64,
        value: V,
        enough: usize,
        keep: impl Fn(u64, V) -> bool,
    ) {
        if self.segments.is_empty() {
            self.segments.resize_with(1 << SEGMENT_BITS, HashTable::new);
        }
        let segment = &mut self.segments[segment_of(key)];
        if segment.len() == segment.capacity() {
            if self.len > enough {
                let before = segment.len();
                segment.retain(|(k, v)| keep(*k, *v));
                self.len -= before - segment.len();
            }
            // Half full at most, or the next look for what may leave comes too soon to pay.
            let room = segment.len().max(3);
            segment.reserve(room, |(k, _)| *k);
        }
        match segment.entry(key, |(k, _)| *k == key, |(k, _)| *k) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = value,
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                self.len += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let Some(segment) = self.segments.get_mut(segment_of(key)) else {
            return;
        };
        if let Ok(entry) = segment.find_entry(key, |(k, _)| *k == key) {
            entry.remove();
            self.len -= 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives empty memory back. O(entries).
    pub(crate) fn shrink(&mut self) {
        for segment in &mut self.segments {
            segment.shrink_to_fit(|(k, _)| *k);
        }
    }

    /// Forgets everything and gives the memory back.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(HashTable::capacity).sum();
        self.segments.capacity() * size_of::<HashTable<(u64, V)>>()
            + slots * (size_of::<(u64, V)>() + 1) * 8 / 7
    }
}

/// The bits between those that a segment uses itself: it takes the lowest and the highest.
fn segment_of(key: u64) -> usize {
    (key >> 40) as usize & ((1 << SEGMENT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_until_it_is_removed_or_refused() {
        let mut table = Table::default();
        for n in 0..10_000_u64 {
            table.insert(spread(n), n, usize::MAX, |_, _| true);
        }
        table.insert(spread(7), 70, usize::MAX, |_, _| true);
        assert_eq!((table.get(spread(7)), table.len()), (Some(70), 10_000));
        table.remove(spread(8));
        assert_eq!(
            (table.get(spread(8)), table.get(spread(9))),
            (None, Some(9))
        );
        for n in 10_000..40_000_u64 {
            table.insert(spread(n), n, 20_000, |_, v| v >= 9_000);
        }
        assert!((9_000..40_000).all(|n| table.get(spread(n)) == Some(n)));
        assert!(table.len() < 36_000);
        let full = table.bytes();
        (0..39_000).for_each(|n| table.remove(spread(n)));
        table.shrink();
        assert_eq!(
            (table.len(), table.get(spread(39_500))),
            (1_000, Some(39_500))
        );
        assert!(table.bytes() < full / 4);
        table.reset();
        assert_eq!((table.len(), table.get(spread(9_999))), (0, None));
        assert_eq!(table.bytes(), 0);
    }
}
