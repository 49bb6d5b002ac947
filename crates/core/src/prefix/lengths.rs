//! How many tokens are in a stretch of a run?
//!
//! Token blocks are all of one size and cost nothing; text blocks have a length each, kept as sums
//! from the start of the run so that any stretch is one subtraction.
use super::held::Span;

/// The lengths of a run's blocks.
#[derive(Clone, Debug)]
pub(super) enum Lengths {
    /// Every block has so many tokens.
    Uniform(u32),
    /// Tokens from the start of the run to the end of each block.
    Ends(Vec<u32>),
}

/// Lengths of blocks that are about to be added.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewLengths<'a> {
    Uniform(u32),
    /// Ends of the blocks, counted from anywhere; `before` is where the first begins.
    Ends {
        before: u32,
        ends: &'a [u32],
    },
}

impl<'a> NewLengths<'a> {
    /// The lengths of blocks that end at `ends`, the first of which begins at `before`.
    pub(super) fn of(before: u32, ends: &'a [u32]) -> Self {
        let first = ends.first().map_or(0, |end| end - before);
        let mut at = before;
        let same = ends.iter().all(|&end| {
            let length = end - at;
            at = end;
            length == first
        });
        match same {
            true => Self::Uniform(first),
            false => Self::Ends { before, ends },
        }
    }

    /// Tokens of the first `blocks` of them.
    fn end(&self, blocks: usize) -> u64 {
        match *self {
            Self::Uniform(each) => u64::from(each) * blocks as u64,
            Self::Ends { .. } if blocks == 0 => 0,
            Self::Ends { before, ends } => u64::from(ends[blocks - 1] - before),
        }
    }
}

impl Lengths {
    pub(super) fn new() -> Self {
        Self::Uniform(0)
    }

    /// What each block has, where all have the same.
    pub(super) fn uniform(&self) -> Option<u32> {
        match self {
            Self::Uniform(each) => Some(*each),
            Self::Ends(_) => None,
        }
    }

    /// Tokens of the blocks in `span`: whatever the lengths, those of two parts are those of the whole.
    /// O(1).
    pub(super) fn tokens(&self, (from, to): Span) -> u64 {
        self.end(to) - self.end(from)
    }

    fn end(&self, blocks: u32) -> u64 {
        match self {
            Self::Uniform(each) => u64::from(*each) * u64::from(blocks),
            Self::Ends(_) if blocks == 0 => 0,
            Self::Ends(ends) => ends[blocks as usize - 1].into(),
        }
    }

    /// Whether the lengths of `more` blocks can be kept beside those of `len`, every one as it is.
    pub(super) fn takes(&self, len: u32, more: usize, new: NewLengths<'_>) -> bool {
        self.is_continued_by(len as usize, new)
            || self.end(len) + new.end(more) <= u64::from(u32::MAX)
    }

    /// Appends the lengths of `more` blocks to those of `len`. What [`Self::takes`] refuses is kept
    /// too short.
    pub(super) fn push(&mut self, len: usize, more: usize, new: NewLengths<'_>) {
        match new {
            NewLengths::Uniform(each) if len == 0 => *self = Self::Uniform(each),
            _ if self.is_continued_by(len, new) => {}
            _ => {
                let before = self.end(len as u32);
                let mut ends = match std::mem::replace(self, Self::new()) {
                    Self::Ends(ends) => ends,
                    Self::Uniform(each) => (1..=len)
                        .map(|n| saturate(u64::from(each) * n as u64))
                        .collect(),
                };
                ends.reserve_exact(more);
                ends.extend((1..=more).map(|n| saturate(before + new.end(n))));
                *self = Self::Ends(ends);
            }
        }
    }

    /// Whether the new blocks are as long as all the others.
    fn is_continued_by(&self, len: usize, new: NewLengths<'_>) -> bool {
        match (self, new) {
            (_, NewLengths::Uniform(_)) if len == 0 => true,
            (Self::Uniform(mine), NewLengths::Uniform(theirs)) => *mine == theirs,
            _ => false,
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        if let Self::Ends(ends) = self {
            ends.truncate(len);
            super::run::give_back(ends);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Uniform(_) => 0,
            Self::Ends(ends) => ends.capacity() * size_of::<u32>(),
        }
    }
}

fn saturate(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_has_the_sum_of_its_blocks() {
        let mut lengths = Lengths::new();
        lengths.push(0, 3, NewLengths::of(100, &[164, 228, 292]));
        assert!(matches!(lengths, Lengths::Uniform(64)));
        lengths.push(3, 1, NewLengths::Uniform(64));
        assert_eq!((lengths.tokens((1, 4)), lengths.heap_bytes()), (192, 0));
        lengths.push(4, 2, NewLengths::of(10, &[15, 22]));
        lengths.push(6, 2, NewLengths::Uniform(1));
        assert_eq!(lengths.tokens((0, 8)), 4 * 64 + 5 + 7 + 2);
        assert_eq!((lengths.tokens((3, 5)), lengths.tokens((2, 2))), (69, 0));
        lengths.truncate(5);
        assert_eq!(lengths.tokens((0, 5)), 4 * 64 + 5);
    }

    #[test]
    fn absurd_lengths_add_up_and_are_not_mixed_with_others() {
        let mut lengths = Lengths::new();
        let absurd = NewLengths::Uniform(u32::MAX);
        lengths.push(0, 3, absurd);
        let parts = lengths.tokens((0, 1)) + lengths.tokens((1, 3));
        assert_eq!(parts, 3 * u64::from(u32::MAX));
        assert!(lengths.takes(3, 1_000, absurd));
        assert!(!lengths.takes(3, 1, NewLengths::Uniform(16)));
        assert!(!lengths.takes(3, 1, NewLengths::of(0, &[16, 20])));
    }
}
