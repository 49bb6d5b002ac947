//! Why could a message not be read at all?
use std::fmt;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// It ends before it should, or promises more than it has.
    Truncated,
    /// It is not of the encoding.
    Malformed,
    /// It is something, but no batch of events.
    NotABatch,
    /// It is longer than any batch.
    TooLong,
}

/// A message that could not be read. Nothing of it was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    kind: ErrorKind,
}

impl WireError {
    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) const fn truncated() -> Self {
        Self::of(ErrorKind::Truncated)
    }

    pub(crate) const fn malformed() -> Self {
        Self::of(ErrorKind::Malformed)
    }

    pub(crate) const fn not_a_batch() -> Self {
        Self::of(ErrorKind::NotABatch)
    }

    pub(crate) const fn too_long() -> Self {
        Self::of(ErrorKind::TooLong)
    }

    const fn of(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Truncated => "the message ends before it should",
            ErrorKind::Malformed => "the message is not of the expected encoding",
            ErrorKind::NotABatch => "the message is no batch of events",
            ErrorKind::TooLong => "the message is longer than any batch",
        })
    }
}

impl std::error::Error for WireError {}

pub(crate) type Result<T> = std::result::Result<T, WireError>;
