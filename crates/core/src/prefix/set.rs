//! Which places? A set of slots, of any width.
//!
//! One bit a slot, two words without an allocation. Canonical: no zero words at the end, so that equal
//! sets compare equal and an empty one is empty at a glance.
use smallvec::SmallVec;

const BITS: u32 = u64::BITS;

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotSet {
    words: SmallVec<[u64; 2]>,
}

impl SlotSet {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        let word = self.words.get((slot / BITS) as usize);
        word.is_some_and(|word| word >> (slot % BITS) & 1 == 1)
    }

    pub(super) fn insert(&mut self, slot: u32) {
        let word = (slot / BITS) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (slot % BITS);
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(word) = self.words.get_mut((slot / BITS) as usize) {
            *word &= !(1 << (slot % BITS));
            self.trim();
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// How many are in it besides `slot`.
    pub(super) fn others(&self, slot: u32) -> usize {
        self.len() - usize::from(self.contains(slot))
    }

    /// Becomes a copy of `other`; allocates nothing once it has been as wide.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// Keeps what is in `other` too.
    pub(super) fn keep(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word &= theirs;
        }
        self.trim();
    }

    /// Takes out what is in `other`.
    pub(super) fn take_out(&mut self, other: &Self) {
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word &= !theirs;
        }
        self.trim();
    }

    /// The set with these bits, after `first` words without any.
    pub(super) fn of_words(first: usize, words: &[u64]) -> Self {
        let mut set = Self::default();
        set.words.resize(first, 0);
        set.words.extend_from_slice(words);
        set.trim();
        set
    }

    /// The bits, lowest slot first.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        (0..).zip(&self.words).flat_map(|(index, &word)| {
            let bits = std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)));
            bits.take_while(|w| *w != 0)
                .map(move |w| index * BITS + w.trailing_zeros())
        })
    }

    /// Bytes outside the struct itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self.words.spilled() {
            true => self.words.capacity() * size_of::<u64>(),
            false => 0,
        }
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set_of(slots: &BTreeSet<u32>) -> SlotSet {
        let mut set = SlotSet::default();
        slots.iter().for_each(|&slot| set.insert(slot));
        set
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            a in prop::collection::btree_set(0_u32..300, 0..12),
            b in prop::collection::btree_set(0_u32..300, 0..12),
            slot in 0_u32..300,
        ) {
            let (left, right) = (set_of(&a), set_of(&b));
            prop_assert!(left.iter().eq(a.iter().copied()));
            prop_assert_eq!((left.len(), left.is_empty()), (a.len(), a.is_empty()));
            prop_assert_eq!(left.contains(slot), a.contains(&slot));
            prop_assert_eq!(left.others(slot), a.iter().filter(|&&s| s != slot).count());
            let mut set = SlotSet::default();
            set.copy_from(&left);
            set.keep(&right);
            prop_assert_eq!(&set, &set_of(&(&a & &b)));
            set.copy_from(&left);
            set.take_out(&right);
            prop_assert_eq!(&set, &set_of(&(&a - &b)));
            set.copy_from(&left);
            set.remove(slot);
            prop_assert_eq!(&set, &set_of(&(&a - &BTreeSet::from([slot]))));
        }
    }
}
