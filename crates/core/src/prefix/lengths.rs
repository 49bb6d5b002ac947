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

    fn end_of(&self, block: usize) -> u32 {
        match self {
            Self::Uniform(each) => each.saturating_mul(block as u32 + 1),
            Self::Ends { before, ends } => ends[block] - before,
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

    /// Tokens of the blocks in `span`. O(1).
    pub(super) fn tokens(&self, (from, to): Span) -> u32 {
        match self {
            Self::Uniform(each) => each.saturating_mul(to - from),
            Self::Ends(ends) => {
                let end = |blocks: u32| match blocks {
                    0 => 0,
                    n => ends[n as usize - 1],
                };
                end(to) - end(from)
            }
        }
    }

    /// Appends the lengths of `more` blocks to those of `len`.
    pub(super) fn push(&mut self, len: usize, more: usize, new: NewLengths<'_>) {
        match (&*self, new) {
            (_, NewLengths::Uniform(each)) if len == 0 => *self = Self::Uniform(each),
            (Self::Uniform(mine), NewLengths::Uniform(theirs)) if *mine == theirs => {}
            _ => {
                let ends = self.ends(len);
                let before = ends.last().copied().unwrap_or(0);
                ends.reserve_exact(more);
                ends.extend((0..more).map(|i| before.saturating_add(new.end_of(i))));
            }
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

    fn ends(&mut self, len: usize) -> &mut Vec<u32> {
        if let Self::Uniform(each) = *self {
            let ends = (1..=len as u32).map(|n| each.saturating_mul(n));
            *self = Self::Ends(ends.collect());
        }
        match self {
            Self::Ends(ends) => ends,
            Self::Uniform(_) => unreachable!("made so above"),
        }
    }
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
}
