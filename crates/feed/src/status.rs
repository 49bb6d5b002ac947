//! What would an operator want to know of a stream?
use warmpath_wire::Tally;

/// One stream, as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamStatus {
    /// Whether there is a connection to the publisher.
    pub is_connected: bool,
    /// The number of the last message taken in; absent before the first.
    pub sequence: Option<u64>,
    /// When that was sent, by the engine's clock, in seconds since the Unix epoch.
    pub sent_at: Option<f64>,
    /// Messages taken in.
    pub messages: u64,
    /// Blocks, or objects of a store, that their events spoke of.
    pub blocks: u64,
    /// Times that numbers were skipped.
    pub gaps: u64,
    /// Times that a publisher began anew.
    pub restarts: u64,
    /// Times that a replay was asked for.
    pub replays: u64,
    /// Times that the stream lost what was waiting, because it was too much.
    pub floods: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Connections that failed or broke.
    pub disconnects: u64,
    /// Events that are waiting to be applied, weighed by their blocks.
    pub pending: usize,
    /// Why there is no connection, to the publisher or to its replay socket, for people; absent once
    /// there is one.
    pub last_error: Option<String>,
    /// What was passed over in messages, by kind.
    pub tally: Tally,
}
