//! Trace formats: what was asked of a fleet, read and written without content.
//!
//! [`read()`] makes a [`Workload`] of files: our own traces, Mooncake rows of all kinds, recorded
//! coding sessions, OpenTelemetry spans, and the transcripts that coding agents keep. [`for_each`]
//! is the stream below it. [`RecordWriter`], [`write_mooncake`], [`write_agentic`] and
//! [`PerfettoWriter`] write. [`keyed`] hides what block hashes stand for.
//!
//! Whatever the bytes are, the answer is a workload, or an error with file and line; never a panic.
//! The same bytes give the same workload on any machine.
#![forbid(unsafe_code)]

mod blocks;
mod builder;
mod collect;
mod date;
mod detect;
mod error;
mod even;
mod input;
mod keyed;
mod leaf;
mod link;
mod measured;
mod read;
mod record;
mod select;
mod skip;
mod traced;
mod turn;
mod wording;
mod workload;
mod write;

pub use builder::{NewStart, NewTurn, WorkloadBuilder, WorkloadError};
pub use detect::Format;
pub use error::{ErrorKind, Place, TraceError};
pub use even::even_blocks;
pub use keyed::{Key, keyed, keyed_text};
pub use read::{Loaded, Options, Report, SideChains, for_each, read, read_bytes};
pub use record::{
    AgentContext, Event, FinishReason, PassedOver, PhaseAfter, REQUEST_TRACE_SCHEMA, Record,
    Replay, Request, RequestTiming, Timings, ToolCall, Warmpath, WorkerInfo, records,
};
pub use select::Selection;
pub use skip::Leniency;
pub use traced::{Clock, Dependency, Relation, Scope, Timing, TracedTurn};
pub use turn::{Moment, Next, Start, Turn, Wait, Waits};
pub use workload::{SessionInfo, Workload};
pub use write::{Extras, PerfettoWriter, RecordWriter, Written, write_agentic, write_mooncake};
