//! What can be wrong with a trace, and where?
//!
//! A [`Fault`] is what a parser knows: the kind and what it saw. Whoever knows the file and the line
//! makes a [`TraceError`] of it. Kinds are few and stable, since lenient readers count by them.
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file system said no.
    Io,
    /// The file, or the compressed stream in it, ends too early.
    Truncated,
    /// The compressed stream is damaged.
    Compression,
    /// No format that is known here, or a folder without a trace in it.
    UnknownFormat,
    /// A version of the format that is not known here.
    UnknownVersion,
    /// There is no record in it.
    Empty,
    /// Not JSON.
    Syntax,
    /// Not UTF-8.
    Encoding,
    /// A line that is longer than allowed.
    LineTooLong,
    /// JSON that is nested deeper than allowed.
    TooDeep,
    /// A field that must be there is not.
    MissingField,
    /// A field has a value of the wrong type or out of range.
    InvalidValue,
    /// A time or a duration below zero, or an end before its start.
    NegativeTime,
    /// A record that is earlier than the one before it, where the format is in order.
    OutOfOrder,
    /// Blocks of another size than those before.
    BlockSize,
    /// A session that is its own parent, or its own ancestor, or has two parents.
    Parent,
    /// Two records with one id.
    Duplicate,
    /// A record waits for one that is not there.
    UnknownReference,
    /// Records that wait for each other.
    Cycle,
}

impl ErrorKind {
    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Truncated => "truncated",
            Self::Compression => "compression",
            Self::UnknownFormat => "unknown-format",
            Self::UnknownVersion => "unknown-version",
            Self::Empty => "empty",
            Self::Syntax => "syntax",
            Self::Encoding => "encoding",
            Self::LineTooLong => "line-too-long",
            Self::TooDeep => "too-deep",
            Self::MissingField => "missing-field",
            Self::InvalidValue => "invalid-value",
            Self::NegativeTime => "negative-time",
            Self::OutOfOrder => "out-of-order",
            Self::BlockSize => "block-size",
            Self::Parent => "parent",
            Self::Duplicate => "duplicate",
            Self::UnknownReference => "unknown-reference",
            Self::Cycle => "cycle",
        }
    }
}

/// What is wrong, for somebody who knows where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
    /// Its line, where the parser alone knows it: counted in what it was given.
    pub(crate) line: Option<u64>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            line: None,
        }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(ErrorKind::MissingField, format!("{field} is missing"))
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidValue, detail)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => ErrorKind::Compression,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// A record of a file that is one JSON value, counted from 1.
    Record(u64),
}

/// Why a trace cannot be read: the file, the place in it, and what is wrong there. The caller can
/// show it, or read on with [`Leniency::Lenient`](crate::Leniency::Lenient).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    fault: Fault,
    file: PathBuf,
    place: Place,
}

impl TraceError {
    pub(crate) fn new(fault: Fault, file: &Path, place: Place) -> Self {
        let place = match (place, fault.line) {
            (Place::File, Some(line)) => Place::Line(line),
            (place, _) => place,
        };
        Self {
            fault,
            file: file.to_owned(),
            place,
        }
    }

    /// What is wrong with a line, as one who looks deeper into a record sees it.
    #[must_use]
    pub fn in_line(kind: ErrorKind, detail: impl Into<String>, file: &Path, line: u64) -> Self {
        Self::new(Fault::new(kind, detail), file, Place::Line(line))
    }

    /// The same with more words before what is wrong.
    pub(crate) fn with_prefix(mut self, words: &str) -> Self {
        self.fault.detail.insert_str(0, words);
        self
    }

    /// What is wrong, without where.
    pub(crate) fn detail(&self) -> &str {
        &self.fault.detail
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.fault.kind
    }

    /// The file as the caller named it.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where in the file.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.place {
            Place::File => write!(f, "{file}: ")?,
            Place::Line(line) => write!(f, "{file}:{line}: ")?,
            Place::Record(record) => match self.fault.line {
                Some(line) => write!(f, "{file}:{line}, record {record}: ")?,
                None => write!(f, "{file}, record {record}: ")?,
            },
        }
        f.write_str(&self.fault.detail)
    }
}

impl std::error::Error for TraceError {}
