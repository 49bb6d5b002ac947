//! What would an operator want to know of the index?
//!
//! Counts, never lists of blocks; reading them changes nothing.
use crate::{Micros, PlaceId, WorkerId};

use super::Tier;

/// What an engine's event said that cannot be, counted by kind. The event, or the rest of it from
/// there on, had no effect; what was known before stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// A place that is not registered (any more).
    pub unknown_place: u64,
    /// Blocks stored below a parent that the index has never seen or has dropped.
    pub unknown_parent: u64,
    /// A block named without its content, which was never told or has been dropped.
    pub unknown_name: u64,
    /// A block stored below itself.
    pub self_parent: u64,
    /// A block stored below one of its own descendants.
    pub cycle: u64,
    /// A block stored below another parent than the known one.
    pub other_parent: u64,
    /// A block that is in its event twice, or is said to be above itself by way of others in it.
    pub repeated: u64,
    /// Blocks of another size than the place's.
    pub wrong_block_size: u64,
    /// Stores of blocks that too many engines call by too many names already.
    pub unnamed: u64,
    /// No fault: blocks stored that the place had, by its own word, already; each is a copy more.
    pub copies: u64,
    /// A block removed that the place did not have.
    pub not_held: u64,
}

/// The size of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceStats {
    /// Which place.
    pub place: PlaceId,
    /// Whose.
    pub worker: WorkerId,
    /// Its data-parallel rank.
    pub rank: u32,
    /// Its tier.
    pub tier: Tier,
    /// Blocks that it holds, stranded ones included.
    pub blocks: usize,
    /// Their tokens.
    pub tokens: u64,
    /// Its bound, if any.
    pub capacity_tokens: Option<u64>,
    /// Positions where a request wrote, of a place that is read only there.
    pub marks: usize,
}

/// The size of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixStats {
    /// Distinct blocks, each counted once at however many places.
    pub blocks: usize,
    /// Stretches of blocks that they are kept in.
    pub runs: usize,
    /// Blocks that can be found by their engine's name at once.
    pub anchors: usize,
    /// An estimate of the memory taken, in bytes.
    pub bytes: usize,
    /// Blocks that the bound on the whole index pushed out so far.
    pub evicted: u64,
    /// Each registered place, in the order of registration.
    pub places: Vec<PlaceStats>,
    /// Events that could not be true.
    pub anomalies: Anomalies,
    /// The latest time that the index was told.
    pub now: Micros,
}
