//! What was asked of a fleet, according to these files?
//!
//! [`read()`] is the door: files and folders in, one workload out. [`for_each`] is the stream below
//! it, for whoever wants to see each request once. A reader of a format turns records into
//! [`TracedTurn`]s and knows nothing of workloads; what is wrong with one record it says without
//! knowing the file, and [`Context`] adds the place and decides whether reading goes on.
//!
//! Reading costs the bytes; memory is that of the workload, one record, and for formats with ids of
//! their own a table of these. The same bytes give the same workload.
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use crate::collect::Collector;
use crate::detect::{Format, detect};
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::input::{self, Bytes, Lines, Named};
use crate::skip::{Faults, Leniency, Skips};
use crate::traced::TracedTurn;
use crate::workload::Workload;

mod claude_code;
mod codex;
mod mooncake;
mod otel;
mod request_trace;
mod transcript;
mod weka;
mod whole;

/// How to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a faulty record costs.
    pub leniency: Leniency,
    /// The format of all files; `None` looks at each.
    pub format: Option<Format>,
    /// Tokens of a block where the format does not say: 512 for Mooncake rows and 64 otherwise
    /// unless set.
    pub block_tokens: Option<NonZeroU32>,
    /// Bytes of the longest line that is read; 64 MiB unless set.
    pub max_line_bytes: usize,
    /// What becomes of side chains that a recording does not mark.
    pub side_chains: SideChains,
}

/// What becomes of requests that go on with another prompt than the session's, where a recording does
/// not say that they are a sub-agent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideChains {
    /// They are sessions of their own, spawned by the session.
    #[default]
    Split,
    /// They are turns of the session, as recorded.
    Kept,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            leniency: Leniency::Strict,
            format: None,
            block_tokens: None,
            max_line_bytes: 64 * 1024 * 1024,
            side_chains: SideChains::Split,
        }
    }
}

impl Options {
    fn block_tokens_or(&self, tokens: u32) -> NonZeroU32 {
        let default = NonZeroU32::new(tokens).unwrap_or(NonZeroU32::MIN);
        self.block_tokens.unwrap_or(default)
    }
}

/// What was read and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were read, with their formats, in order.
    pub files: Vec<(PathBuf, Format)>,
    /// Files of a folder that are no trace, and why not.
    pub ignored: Vec<(PathBuf, String)>,
    /// Records that were left out, by kind.
    pub skipped: BTreeMap<ErrorKind, u64>,
    /// What records said of others and was left out, by kind: waits, and parents that cannot be.
    pub unlinked: BTreeMap<ErrorKind, u64>,
    /// Sessions whose parent has no request in the trace; they have none then.
    pub orphans: u64,
}

/// A workload, and what was left out of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The workload.
    pub workload: Workload,
    /// How it came about.
    pub report: Report,
}

/// Reads files and folders as one workload.
///
/// # Errors
/// A [`TraceError`] that names file and line, for the first fault when strict; when lenient only
/// if a source cannot be listed or nothing at all could be read.
pub fn read(sources: &[PathBuf], options: &Options) -> Result<Loaded, TraceError> {
    let mut reading = Reading::new(options);
    for found in input::list(sources)? {
        let path = found.path.as_path();
        reading.file(path, found.named, &|| input::open(path))?;
    }
    reading.finish()
}

/// Reads one file that is in memory already, as [`read()`] reads one from disk. `name` is for
/// errors, and for formats that number their sessions by file.
///
/// # Errors
/// As [`read()`].
pub fn read_bytes(name: &Path, bytes: &[u8], options: &Options) -> Result<Loaded, TraceError> {
    let mut reading = Reading::new(options);
    reading.file(name, Named::Itself, &|| {
        input::decompress(Cursor::new(bytes.to_vec()))
    })?;
    reading.finish()
}

/// Shows each request of files and folders, in their order.
///
/// # Errors
/// As [`read()`], except for what only the whole shows: parents, cycles, unknown references.
pub fn for_each(
    sources: &[PathBuf],
    options: &Options,
    visit: &mut dyn FnMut(TracedTurn),
) -> Result<Report, TraceError> {
    let mut seen = Seen::default();
    let mut skips = Skips::new(options.leniency);
    let mut report = Report::default();
    for found in input::list(sources)? {
        let path = found.path.as_path();
        let mut context = Context {
            options,
            path,
            named: found.named,
            taken: 0,
            doubtful: None,
            seen: &mut seen,
            skips: &mut skips,
            visit: &mut |turn, _| {
                visit(turn);
                Ok(())
            },
        };
        let outcome = context.file(&|| input::open(path))?;
        report.note(path, outcome);
    }
    (report.skipped, report.unlinked) = skips.into_counts();
    Ok(report)
}

impl Report {
    fn note(&mut self, path: &Path, outcome: Outcome) {
        match outcome {
            Outcome::Read(format) => self.files.push((path.to_owned(), format)),
            Outcome::Foreign(why) => self.ignored.push((path.to_owned(), why)),
            Outcome::LeftOut => {}
        }
    }

    /// Why there is nothing in a folder.
    fn nothing_read(&self) -> Option<TraceError> {
        let (first, why) = self.ignored.first().filter(|_| self.files.is_empty())?;
        let detail = match self.ignored.len() {
            1 => format!("no trace: {why}"),
            n => format!("no trace, as none of the {n} files there: {why}"),
        };
        let fault = Fault::new(ErrorKind::UnknownFormat, detail);
        Some(TraceError::new(fault, first, Place::File))
    }
}

/// Requests of transcripts, which are copied from file to file when a session is resumed.
type Seen = hashbrown::HashSet<u128>;

/// A way to open the same file again.
type Open<'a> = &'a dyn Fn() -> Result<Bytes, Fault>;

struct Reading<'a> {
    options: &'a Options,
    seen: Seen,
    skips: Skips,
    report: Report,
    collector: Collector,
}

impl<'a> Reading<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            seen: Seen::default(),
            skips: Skips::new(options.leniency),
            report: Report::default(),
            collector: Collector::default(),
        }
    }

    fn file(&mut self, path: &Path, named: Named, open: Open<'_>) -> Result<(), TraceError> {
        let collector = &mut self.collector;
        collector.begin_file(path);
        let mut context = Context {
            options: self.options,
            path,
            named,
            taken: 0,
            doubtful: None,
            seen: &mut self.seen,
            skips: &mut self.skips,
            visit: &mut |turn, place| collector.add(turn, place),
        };
        let outcome = context.file(open)?;
        self.report.note(path, outcome);
        Ok(())
    }

    fn finish(mut self) -> Result<Loaded, TraceError> {
        if self.collector.is_empty()
            && let Some(error) = self.skips.nothing_left().or(self.report.nothing_read())
        {
            return Err(error);
        }
        let (workload, orphans) = self.collector.finish(&mut self.skips)?;
        self.report.orphans = orphans;
        (self.report.skipped, self.report.unlinked) = self.skips.into_counts();
        Ok(Loaded {
            workload,
            report: self.report,
        })
    }
}

/// The file that is being read: where requests go, and what a fault costs.
struct Context<'a> {
    options: &'a Options,
    path: &'a Path,
    named: Named,
    /// Requests that were taken from it.
    taken: u64,
    /// Faults before the first request of a file that nobody has named: it may be no trace at all.
    doubtful: Option<Faults>,
    seen: &'a mut Seen,
    skips: &'a mut Skips,
    visit: &'a mut dyn FnMut(TracedTurn, Place) -> Result<(), Fault>,
}

/// What became of a file.
enum Outcome {
    /// It was read.
    Read(Format),
    /// It is no trace, and why.
    Foreign(String),
    /// It could not be read, which is counted.
    LeftOut,
}

impl Context<'_> {
    /// Whether what is read of it is gone, as with a pipe.
    fn is_stream(&self) -> bool {
        fs::metadata(self.path).is_ok_and(|about| !about.is_file())
    }

    /// Reads a file.
    fn file(&mut self, open: Open<'_>) -> Result<Outcome, TraceError> {
        let format = match self.options.format {
            Some(format) => Ok(format),
            None if self.is_stream() => Err(Fault::new(
                ErrorKind::UnknownFormat,
                "it can be read only once: it has to be said which format it is",
            )),
            None => open().and_then(|mut bytes| {
                input::pass_mark(&mut bytes)?;
                detect(bytes)
            }),
        };
        let format = match format {
            Ok(format) => format,
            Err(fault) if self.named == Named::Folder && no_trace(fault.kind) => {
                return Ok(Outcome::Foreign(fault.detail));
            }
            Err(fault) => {
                self.fault(Place::File, fault)?;
                return Ok(Outcome::LeftOut);
            }
        };
        match open() {
            Ok(bytes) => self.records(format, bytes)?,
            Err(fault) => self.fault(Place::File, fault)?,
        }
        match self.doubtful.take() {
            Some(faults) if self.taken == 0 => {
                return Ok(Outcome::Foreign(faults.first.detail().to_owned()));
            }
            Some(faults) => self.skips.take_all(faults)?,
            None if self.named == Named::Folder && self.taken == 0 => {
                return Ok(Outcome::Foreign("there is no new request in it".to_owned()));
            }
            None => {}
        }
        Ok(Outcome::Read(format))
    }

    /// Takes a request.
    fn take(&mut self, turn: TracedTurn, place: Place) -> Result<(), Fault> {
        (self.visit)(turn, place)?;
        self.taken += 1;
        Ok(())
    }

    fn records(&mut self, format: Format, bytes: Bytes) -> Result<(), TraceError> {
        match format {
            Format::RequestTrace => request_trace::read(self, bytes),
            Format::Mooncake => mooncake::read(self, bytes),
            Format::Weka => weka::read(self, bytes),
            Format::Otel => otel::read(self, bytes),
            Format::ClaudeCode => claude_code::read(self, bytes),
            Format::Codex => codex::read(self, bytes),
        }
    }

    /// Hands a request on; a fault of it costs what leniency says.
    fn emit(&mut self, place: Place, turn: Result<TracedTurn, Fault>) -> Result<(), TraceError> {
        match turn.and_then(|turn| self.take(turn, place)) {
            Ok(()) => Ok(()),
            Err(fault) => self.fault(place, fault),
        }
    }

    fn fault(&mut self, place: Place, fault: Fault) -> Result<(), TraceError> {
        let error = TraceError::new(fault, self.path, place);
        if self.named == Named::Folder && self.taken == 0 && no_trace(error.kind()) {
            match &mut self.doubtful {
                Some(faults) => faults.add(error.kind()),
                None => self.doubtful = Some(Faults::of(error)),
            }
            return Ok(());
        }
        if let Some(faults) = self.doubtful.take() {
            self.skips.take_all(faults)?;
        }
        self.skips.take(error)
    }

    /// Shows each line to `take`; a fault of a line costs what leniency says.
    fn lines(
        &mut self,
        bytes: Bytes,
        take: &mut dyn FnMut(&mut Self, u64, &str) -> Result<(), Fault>,
    ) -> Result<(), TraceError> {
        let mut lines = Lines::new(bytes, self.options.max_line_bytes);
        let mut any = false;
        loop {
            let read = lines.next();
            let last = read.as_ref().err().is_some_and(input::is_final);
            let taken = match read {
                Ok(None) => break,
                Ok(Some((number, line))) => take(self, number, line),
                Err(fault) => Err(fault),
            };
            any = true;
            if let Err(fault) = taken {
                self.fault(Place::Line(lines.number()), fault)?;
            }
            if last {
                break;
            }
        }
        if !any {
            let fault = Fault::new(ErrorKind::Empty, "there is no record in it");
            self.fault(Place::File, fault)?;
        }
        Ok(())
    }
}

/// Whether a file of a folder may be something else than a trace, rather than a damaged one.
fn no_trace(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownFormat
            | ErrorKind::Empty
            | ErrorKind::Syntax
            | ErrorKind::Encoding
            | ErrorKind::TooDeep
            | ErrorKind::MissingField
            | ErrorKind::InvalidValue
    )
}
