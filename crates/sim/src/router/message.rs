//! What engines publish of their caches, as it leaves them.
//!
//! One message is what one pass has changed. Messages are numbered, so that whoever hears them knows when
//! one is missing; an engine that starts anew begins at 0 again.

/// What changed in a worker's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// Blocks that can be found from now on, one behind the other.
    Stored {
        /// The engine's name of the block above the first; `None` at the root.
        parent: Option<u64>,
        /// The engine's name of each block: the chain hash of its content.
        names: Vec<u64>,
        /// The content id of each block; as many as there are names.
        blocks: Vec<u64>,
    },
    /// Blocks that are gone.
    Removed {
        /// The engine's names.
        names: Vec<u64>,
    },
}

/// What one pass of an engine has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheMessage {
    /// From 0 on, one more each, for as long as the engine lives.
    pub sequence: u64,
    /// In the order in which they happened.
    pub changes: Vec<CacheChange>,
}
