//! Where do the content blocks of a prompt end, and where did the client put breakpoints?
//!
//! Hosted caches count in content blocks as they were sent (a message's parts, a system block), while
//! a chain cuts long ones further; the outline ties both together by the number of chain blocks
//! before a position. Only positions at the end of a segment are known. It knows nothing of what a
//! provider does with a breakpoint. A lookup costs O(log segments).
use crate::Micros;

use super::text_blocks;

/// More breakpoints than any provider takes; of a longer list the deepest count.
const MAX_BREAKPOINTS: usize = 64;

/// A position where a hosted cache may be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    /// How many blocks of the chain are before it.
    pub block: u32,
    /// How long the client asked the cache to keep what is before it; absent: it did not say.
    pub ttl: Option<Micros>,
}

/// Content blocks and breakpoints of one prompt.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// (chain blocks, content blocks) before the end of each segment, ascending.
    ends: Vec<(u32, u32)>,
    breakpoints: Vec<Breakpoint>,
}

impl Outline {
    /// Appends a segment of canonical text: its length, and how many content blocks it was sent as
    /// (none counts as one).
    pub fn push_segment(&mut self, bytes: u32, contents: u32) {
        let (blocks, before) = self.ends.last().copied().unwrap_or_default();
        let end = (
            blocks.saturating_add(text_blocks(bytes)),
            before.saturating_add(contents.max(1)),
        );
        self.ends.push(end);
    }

    /// A breakpoint stands behind what was appended last.
    pub fn break_here(&mut self, ttl: Option<Micros>) {
        let block = self.ends.last().map_or(0, |&(block, _)| block);
        self.break_after(block, ttl);
    }

    /// A breakpoint stands behind so many blocks of the chain; one that is not behind the others, or
    /// behind nothing, is ignored.
    pub fn break_after(&mut self, block: u32, ttl: Option<Micros>) {
        let last = self.breakpoints.last().map_or(0, |last| last.block);
        if block <= last {
            return;
        }
        if self.breakpoints.len() == MAX_BREAKPOINTS {
            self.breakpoints.remove(0);
        }
        self.breakpoints.push(Breakpoint { block, ttl });
    }

    /// The breakpoints, ascending.
    #[must_use]
    pub fn breakpoints(&self) -> &[Breakpoint] {
        &self.breakpoints
    }

    /// How many content blocks end within the first `block` blocks of the chain; absent where no
    /// segment ends there. In a prompt that did not come as text each block counts as one.
    #[must_use]
    pub fn contents_before(&self, block: u32) -> Option<u32> {
        if self.ends.is_empty() || block == 0 {
            return Some(block);
        }
        let after = self.ends.partition_point(|&(end, _)| end <= block);
        let &(end, contents) = self.ends[..after].last()?;
        (end == block).then_some(contents)
    }

    /// Forgets everything, keeps the room for it.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.breakpoints.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_content_blocks_and_not_cuts() {
        let mut outline = Outline::default();
        for (bytes, contents) in [(10, 1), (3_000, 2), (0, 1), (1_024, 0)] {
            outline.push_segment(bytes, contents);
        }
        outline.break_here(Some(Micros(7)));
        // An empty segment has no block of its own, and still was sent.
        let at = |block| outline.contents_before(block);
        assert_eq!(
            [at(0), at(1), at(4), at(5)],
            [Some(0), Some(1), Some(4), Some(5)]
        );
        assert_eq!([at(2), at(3), at(6)], [None; 3]);
        let ttl = Some(Micros(7));
        assert_eq!(outline.breakpoints(), [Breakpoint { block: 5, ttl }]);
        outline.clear();
        assert_eq!(
            (outline.contents_before(3), outline.breakpoints()),
            (Some(3), &[][..])
        );
    }

    #[test]
    fn breakpoints_ascend_and_are_bounded() {
        let mut outline = Outline::default();
        for block in [0, 3, 3, 2, 4] {
            outline.break_after(block, None);
        }
        let blocks = |outline: &Outline| -> Vec<u32> {
            outline.breakpoints().iter().map(|b| b.block).collect()
        };
        assert_eq!(blocks(&outline), [3, 4]);
        (5..200).for_each(|block| outline.break_after(block, None));
        assert!(blocks(&outline).into_iter().eq(136..200));
    }
}
