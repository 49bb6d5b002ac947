//! Everything that a caller can do wrong, or that the state of the world does not allow.
//!
//! One opaque error with a stable [`Error::code`]. A caller can do two things with it: show the
//! message, or branch on the code. Nothing else about it is promised.
use std::fmt;

/// The result of a core call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call was refused. The call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    InvalidArgument,
    DuplicateId,
    UnknownId,
    NoWorker,
    OwnerUnavailable,
    StateLost,
    TooManyReservations,
    QueueFull,
    SnapshotInvalid,
    SnapshotVersion,
    SnapshotSuperseded,
    SnapshotNotFresh,
    NotRecalled,
}

impl Error {
    /// The stable code of this error, without the `WARMPATH_` that the binding puts before it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::InvalidArgument => "INVALID_ARGUMENT",
            Kind::DuplicateId => "DUPLICATE_ID",
            Kind::UnknownId => "UNKNOWN_ID",
            Kind::NoWorker => "NO_WORKER",
            Kind::OwnerUnavailable => "OWNER_UNAVAILABLE",
            Kind::StateLost => "STATE_LOST",
            Kind::TooManyReservations => "TOO_MANY_RESERVATIONS",
            Kind::QueueFull => "QUEUE_FULL",
            Kind::SnapshotInvalid => "SNAPSHOT_INVALID",
            Kind::SnapshotVersion => "SNAPSHOT_VERSION",
            Kind::SnapshotSuperseded => "SNAPSHOT_SUPERSEDED",
            Kind::SnapshotNotFresh => "SNAPSHOT_NOT_FRESH",
            Kind::NotRecalled => "NOT_RECALLED",
        }
    }

    /// An argument has a value that is not allowed; `detail` names it and what is allowed.
    pub(crate) fn invalid_argument(detail: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, detail)
    }

    /// Something with this name exists already.
    pub(crate) fn duplicate_id(detail: impl Into<String>) -> Self {
        Self::new(Kind::DuplicateId, detail)
    }

    /// Nothing with this name exists (any more).
    pub(crate) fn unknown_id(detail: impl Into<String>) -> Self {
        Self::new(Kind::UnknownId, detail)
    }

    /// No worker of the targets asked for can take the turn now.
    pub(crate) fn no_worker(detail: impl Into<String>) -> Self {
        Self::new(Kind::NoWorker, detail)
    }

    /// The turn may only go to the owner of its state, and that one cannot take it.
    pub(crate) fn owner_unavailable(detail: impl Into<String>) -> Self {
        Self::new(Kind::OwnerUnavailable, detail)
    }

    /// The turn may only go to the owner of its state, and that one never can.
    pub(crate) fn state_lost(detail: impl Into<String>) -> Self {
        Self::new(Kind::StateLost, detail)
    }

    /// The bound on turns in flight is reached.
    pub(crate) fn too_many_reservations(detail: impl Into<String>) -> Self {
        Self::new(Kind::TooManyReservations, detail)
    }

    /// As many turns of its class wait as are allowed.
    pub(crate) fn queue_full(detail: impl Into<String>) -> Self {
        Self::new(Kind::QueueFull, detail)
    }

    /// The bytes are no snapshot, or not a whole and undamaged one.
    pub(crate) fn snapshot_invalid(detail: impl Into<String>) -> Self {
        Self::new(Kind::SnapshotInvalid, detail)
    }

    /// The snapshot has a format that is not read here.
    pub(crate) fn snapshot_version(detail: impl Into<String>) -> Self {
        Self::new(Kind::SnapshotVersion, detail)
    }

    /// The snapshot that was being written is void: another one was begun, or one was read.
    pub(crate) fn snapshot_superseded(detail: impl Into<String>) -> Self {
        Self::new(Kind::SnapshotSuperseded, detail)
    }

    /// What a snapshot is to be read into has a state of its own already.
    pub(crate) fn snapshot_not_fresh(detail: impl Into<String>) -> Self {
        Self::new(Kind::SnapshotNotFresh, detail)
    }

    /// The session has sent something else since the body was held against its last one.
    pub(crate) fn not_recalled() -> Self {
        Self::new(Kind::NotRecalled, "the session has gone on meanwhile")
    }

    /// Whether the turn has to be submitted again, with the text of its whole prompt.
    #[must_use]
    pub fn is_not_recalled(&self) -> bool {
        self.kind == Kind::NotRecalled
    }

    fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}
