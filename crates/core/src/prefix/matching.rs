//! How does a cache find what it has of a prompt?
//!
//! Two families. Most caches have the longest common head, in blocks of some size. Some hosted ones
//! write only where a request has its breakpoints, and read only at such positions that a breakpoint
//! of the later request looks back to. Here is what the options of a place say about that, and what
//! they mean for one prompt: where it writes, and where it could read if something was there. What
//! is there is kept elsewhere (`marks`). Numbers come from whoever knows the provider; none is here.
use std::num::NonZeroU32;

use crate::Micros;
use crate::block::Chain;

/// No request keeps anything for longer, whatever it asks: what is held for it must end some time.
const MAX_TTL: Micros = Micros::from_secs(24 * 3600);

/// How a cache finds what it has of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// It has the longest common head.
    Block {
        /// Credit is a multiple of so many tokens.
        unit_tokens: NonZeroU32,
        /// Less than so many tokens are not cached at all.
        min_tokens: u32,
    },
    /// It has what was written at breakpoints.
    Breakpoint(BreakpointRules),
}

impl Default for Matching {
    fn default() -> Self {
        Self::Block {
            unit_tokens: NonZeroU32::MIN,
            min_tokens: 0,
        }
    }
}

impl Matching {
    /// The rules of a cache that is read at breakpoints.
    pub(super) fn rules(&self) -> Option<&BreakpointRules> {
        match self {
            Self::Block { .. } => None,
            Self::Breakpoint(rules) => Some(rules),
        }
    }

    /// What `tokens` of a common head are worth.
    pub(super) fn round(&self, tokens: u32) -> u32 {
        match *self {
            Self::Breakpoint(_) => tokens,
            Self::Block { min_tokens, .. } if tokens < min_tokens => 0,
            Self::Block { unit_tokens, .. } => tokens - tokens % unit_tokens,
        }
    }
}

/// How a cache treats breakpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakpointRules {
    /// A breakpoint reads what was written at most so many content blocks before it. Absent: anything
    /// before it.
    pub lookback: Option<u32>,
    /// A shorter prefix is neither written nor read.
    pub min_tokens: u32,
    /// How long a mark lives whose request did not say.
    pub ttl: Micros,
    /// Whether a read starts that time again.
    pub refresh: Refresh,
    /// Whether a prompt has a breakpoint that nobody set.
    pub implicit: Implicit,
}

/// Whether a read starts the lifetime of a mark again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// It does.
    #[default]
    OnRead,
    /// It ends when the write said it would.
    Never,
}

/// Whether a prompt has a breakpoint that nobody set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Implicit {
    /// A prompt without breakpoints neither reads nor writes.
    #[default]
    None,
    /// The provider puts one at the end by itself.
    AtEnd,
}

/// A prompt and its breakpoints, as a cache takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) chain: &'a Chain,
    pub(super) rules: &'a BreakpointRules,
}

/// Where a prompt can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// At the position asked for.
    Here,
    /// Not there, and nowhere above it but behind so many blocks or fewer.
    AtMost(u32),
}

impl Reader<'_> {
    /// Where the prompt can read, of the positions behind its first `depth` blocks and above. O(log
    /// segments).
    pub(super) fn reach(&self, depth: u32) -> Reach {
        if !self.is_cached(depth) {
            return Reach::AtMost(0);
        }
        let points = self.chain.outline().breakpoints();
        // The nearest breakpoint that is no further up looks back to there if any does.
        let next = points.partition_point(|point| point.block < depth);
        let above = || Reach::AtMost(next.checked_sub(1).map_or(0, |last| points[last].block));
        let explicit = points.get(next).map(|point| point.block);
        let Some(point) = explicit.or(self.implicit()) else {
            return above();
        };
        let contents = |block| self.chain.outline().contents_before(block);
        let (Some(here), Some(there)) = (contents(depth), contents(point)) else {
            return Reach::AtMost(depth - 1);
        };
        match there - here <= self.rules.lookback.unwrap_or(u32::MAX) {
            true => Reach::Here,
            false => above(),
        }
    }

    fn is_cached(&self, depth: u32) -> bool {
        self.chain.tokens_of(depth as usize) >= self.rules.min_tokens
    }

    fn implicit(&self) -> Option<u32> {
        let end = self.chain.len() as u32;
        (self.rules.implicit == Implicit::AtEnd).then_some(end)
    }

    /// Where the prompt writes, and for how long.
    pub(super) fn writes(&self) -> impl Iterator<Item = (u32, Micros)> {
        let explicit = self.chain.outline().breakpoints().iter();
        let explicit = explicit.map(|point| (point.block, point.ttl));
        let last = self.implicit().filter(|&end| end > 0);
        let points = explicit.chain(last.map(|end| (end, None)));
        points
            .filter(|&(block, _)| self.is_cached(block))
            .map(|(block, ttl)| (block, ttl.map_or(self.rules.ttl, |ttl| ttl.min(MAX_TTL))))
    }
}
