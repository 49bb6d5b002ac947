//! What may happen to an engine's cache, as the engine tells it?
//!
//! The words between whoever decodes and carries engines' events and the scheduler that believes them.
//! A [`CacheEvent`] is what one cache says of its blocks, in its own names; a [`FeedNotice`] is what the
//! carrier says of the stream itself: whether anything may be missing from it. Borrowed, so that a batch
//! can be applied where it lies. Nothing here is checked; the index counts what cannot be.
use crate::prefix::{StoredBlocks, Tier};

/// What one event of an engine changes in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent<'a> {
    /// Blocks are in this tier, with what they contain.
    Stored {
        /// Where.
        tier: Tier,
        /// Which.
        blocks: StoredBlocks<'a>,
    },
    /// Blocks whose content was told before, of whatever tier, are in this one as well.
    Copied {
        /// Where.
        tier: Tier,
        /// Their names.
        names: &'a [u64],
    },
    /// Blocks have left this tier, or a copy of each has.
    Removed {
        /// From where.
        tier: Tier,
        /// Their names.
        names: &'a [u64],
    },
    /// Every tier is empty.
    Cleared,
}

impl CacheEvent<'_> {
    /// How many blocks it speaks of; one for those that speak of all.
    #[must_use]
    pub fn blocks(&self) -> usize {
        match self {
            Self::Stored { blocks, .. } => blocks.blocks.len(),
            Self::Copied { names, .. } | Self::Removed { names, .. } => names.len(),
            Self::Cleared => 1,
        }
    }
}

/// What is known of an event stream as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedNotice {
    /// What comes next is all that there is from the beginning of the cache on.
    Begun,
    /// Something may be missing. Nothing of the worker counts until [`FeedNotice::Resumed`],
    /// [`FeedNotice::Begun`] or [`FeedNotice::Lost`]; until then the latest doubt is the one there is.
    Suspended(Doubt),
    /// Nothing was missing after all, or it has come late.
    Resumed,
    /// Something is missing for good: what was known of the worker is void. What comes next is true
    /// and not all.
    Lost(Doubt),
}

/// Why a worker's events are not the whole truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// No event has come yet.
    Silent,
    /// The stream was joined late, and what had been before could not be had.
    JoinedLate,
    /// Sequence numbers were skipped.
    Gap,
    /// The connection broke.
    Disconnected,
    /// The publisher began anew.
    Restarted,
    /// A message could not be read.
    Unreadable,
    /// Events came faster than they were taken.
    Flooded,
    /// The gateway itself had the cache emptied.
    Reset,
    /// The engine's blocks are of another size than the prompts are cut into.
    BlockSize,
    /// Prompts and events speak of different tokens.
    Tokens,
    /// A shared store says that it publishes nothing.
    NoEvents,
    /// What a shared store was believed to have is gone, and no event had said so.
    Stale,
    /// Events of several writers whose pages have the same names: which ones are ours nobody has said.
    Ambiguous,
    /// There is a connection again, and nothing has come to say whether it is the same publisher and
    /// nothing was lost.
    Unconfirmed,
    /// There was no room for all that was told: some of it has been forgotten.
    Evicted,
    /// Something was told of that is not known here, and may have taken away what had been told before.
    UnknownEvent,
}

impl Doubt {
    /// Every one, in the order of [`Doubt::index`].
    pub const ALL: [Self; 16] = [
        Self::Silent,
        Self::JoinedLate,
        Self::Gap,
        Self::Disconnected,
        Self::Restarted,
        Self::Unreadable,
        Self::Flooded,
        Self::Reset,
        Self::BlockSize,
        Self::Tokens,
        Self::NoEvents,
        Self::Stale,
        Self::Ambiguous,
        Self::Unconfirmed,
        Self::Evicted,
        Self::UnknownEvent,
    ];

    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::JoinedLate => "joined-late",
            Self::Gap => "gap",
            Self::Disconnected => "disconnected",
            Self::Restarted => "restarted",
            Self::Unreadable => "unreadable",
            Self::Flooded => "flooded",
            Self::Reset => "reset",
            Self::BlockSize => "block-size",
            Self::Tokens => "tokens",
            Self::NoEvents => "no-events",
            Self::Stale => "stale",
            Self::Ambiguous => "ambiguous",
            Self::Unconfirmed => "unconfirmed",
            Self::Evicted => "evicted",
            Self::UnknownEvent => "unknown-event",
        }
    }
}

/// Why prompts and events differ, most likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The engine's blocks have another size.
    BlockSize,
    /// One token more or less: a beginning of sequence that only one side adds.
    Bos,
    /// The engine sees more, and the prompt offers tools: they were left out of the tokens.
    Tools,
    /// Another length: another chat template, or other arguments of it.
    Template,
    /// As long, and the prompt has a salt.
    Salt,
    /// As long, and the prompt offers tools: the keys of their schemas come in another order.
    KeyOrder,
    /// As long, and nothing else is known: another vocabulary, an adapter, another form of hashes.
    Tokens,
}

impl Cause {
    /// A stable name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockSize => "block-size",
            Self::Bos => "bos",
            Self::Tools => "tools",
            Self::Template => "template",
            Self::Salt => "salt",
            Self::KeyOrder => "key-order",
            Self::Tokens => "tokens",
        }
    }
}
