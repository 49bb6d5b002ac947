//! A place to keep things that are named by small numbers.
//!
//! It grows in pieces, so that growing moves nothing, and gives empty ones back when asked. A number is
//! used again once it was freed. O(1) everything else.

const PIECE: usize = 64;

/// Things by number.
#[derive(Clone, Debug)]
pub(super) struct Arena<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Arena<T> {
    /// How many are alive.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, thing: T) -> u32 {
        self.len += 1;
        if let Some(number) = self.free.pop() {
            let (piece, at) = split(number);
            let things = &mut self.pieces[piece];
            if things.len() <= at {
                things.resize_with(PIECE, || None);
            }
            things[at] = Some(thing);
            return number;
        }
        // An emptied last piece has all its numbers in the free list.
        if self
            .pieces
            .last()
            .is_none_or(|p| p.len() == PIECE || p.is_empty())
        {
            // The first piece starts small: a small index should be small.
            let room = if self.pieces.is_empty() { 4 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        let piece = self.pieces.len() - 1;
        let things = &mut self.pieces[piece];
        things.push(Some(thing));
        (piece * PIECE + things.len() - 1) as u32
    }

    /// Every number is below this.
    pub(super) fn bound(&self) -> u32 {
        (self.pieces.len() * PIECE) as u32
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (piece, at) = split(number);
        self.pieces.get(piece)?.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (piece, at) = split(number);
        self.pieces.get_mut(piece)?.get_mut(at)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let (piece, at) = split(number);
        let thing = self.pieces.get_mut(piece)?.get_mut(at)?.take()?;
        self.len -= 1;
        match self.len {
            0 => *self = Self::default(),
            _ => self.free.push(number),
        }
        Some(thing)
    }

    /// Gives the memory of empty pieces back. O(what it has room for).
    pub(super) fn give_back(&mut self) {
        for piece in &mut self.pieces {
            if piece.iter().all(Option::is_none) {
                *piece = Vec::new();
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pieces = (0_u32..).step_by(PIECE).zip(&self.pieces);
        let things = pieces.flat_map(|(first, piece)| (first..).zip(piece));
        things.filter_map(|(n, thing)| Some((n, thing.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().flatten()
    }

    pub(super) fn bytes(&self) -> usize {
        let things: usize = self.pieces.iter().map(Vec::capacity).sum();
        self.pieces.capacity() * size_of::<Vec<T>>()
            + things * size_of::<Option<T>>()
            + self.free.capacity() * size_of::<u32>()
    }
}

/// For numbers that the caller knows to be alive.
impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("the number is in use")
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("the number is in use")
    }
}

fn split(number: u32) -> (usize, usize) {
    (number as usize / PIECE, number as usize % PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_until_freed_and_memory_comes_back() {
        let mut arena = Arena::default();
        let numbers: Vec<u32> = (0..1_000).map(|n| arena.insert(n)).collect();
        assert!(numbers.iter().copied().eq(0..1_000));
        assert_eq!(arena.remove(500), Some(500));
        assert_eq!((arena.remove(500), arena.remove(5_000)), (None, None));
        assert_eq!((arena.insert(7), arena.get(500)), (500, Some(&7)));
        if let Some(thing) = arena.get_mut(999) {
            *thing = 1;
        }
        assert_eq!(
            arena.iter().map(|(_, t)| t).sum::<i32>(),
            499_500 - 500 + 7 - 998
        );
        let full = arena.bytes();
        for n in 0..999 {
            assert!(arena.remove(n).is_some());
        }
        arena.give_back();
        assert!(arena.bytes() < full);
        assert!((0..500).all(|n| arena.insert(n) != 999));
        assert_eq!((arena.get(999), arena.len()), (Some(&1), 501));
        let numbers: Vec<u32> = arena.iter().map(|(n, _)| n).collect();
        assert_eq!(numbers.len(), 501);
        assert!(numbers.iter().all(|&n| arena.remove(n).is_some()));
        assert_eq!((arena.len(), arena.bytes()), (0, 0));
    }
}
