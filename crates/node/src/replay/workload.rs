//! A workload behind a handle: read from traces or made from a seed, then looked at.
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, External, Result};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};

use warmpath_sim::fleet::{bounds, generate};
use warmpath_trace::{
    Format, Leniency, Loaded, Options, Report, Selection, SideChains, Start, Workload, read,
};

use super::background::{Background, background};
use super::shape::Shape;
use crate::error::{Code, guard, invalid, unreadable};

/// A workload that several runs may read at once.
pub(crate) type Handle = External<Arc<Loaded>>;

/// Which traces, and how they are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sources {
    paths: Vec<PathBuf>,
    format: Option<String>,
    #[serde(default)]
    lenient: bool,
    block_tokens: Option<NonZeroU32>,
    /// Side chains that a recording does not mark stay turns of their session.
    #[serde(default)]
    keep_side_chains: bool,
    #[serde(default)]
    select: Wanted,
}

/// Which part of it is wanted; all of it unless said.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    first_turns: Option<u32>,
    largest_context: Option<u32>,
    smallest: Option<u32>,
    /// Arrivals and pauses pass so many times as fast.
    faster: Option<NonZeroU32>,
}

impl Wanted {
    fn selection(&self) -> Selection {
        Selection {
            first_turns: self.first_turns,
            largest_context: self.largest_context,
            smallest: self.smallest,
            faster: self.faster,
            ..Selection::default()
        }
    }
}

impl Sources {
    fn options(&self) -> Result<Options, Code> {
        let format = self.format.as_deref().map(|name| {
            Format::named(name).ok_or_else(|| invalid(format!("no format is called {name}")))
        });
        Ok(Options {
            leniency: match self.lenient {
                true => Leniency::Lenient,
                false => Leniency::Strict,
            },
            format: format.transpose()?,
            block_tokens: self.block_tokens,
            side_chains: match self.keep_side_chains {
                true => SideChains::Kept,
                false => SideChains::Split,
            },
            ..Options::default()
        })
    }
}

/// Reads traces as one workload, in the background. Options as JSON: `paths` of files and folders,
/// `format`, `lenient`, `blockTokens`, `keepSideChains`, `select`.
#[napi(ts_return_type = "Promise<WorkloadHandle>")]
pub fn read_workload(options: String) -> Result<AsyncTask<Background<Handle>>, Code> {
    guard(|| {
        let sources: Sources =
            serde_json::from_str(&options).map_err(|e| invalid(format!("traces: {e}")))?;
        let options = sources.options()?;
        Ok(background(move || {
            let mut loaded = read(&sources.paths, &options).map_err(|error| unreadable(&error))?;
            let selection = sources.select.selection();
            if selection != Selection::default() {
                loaded.workload = loaded.workload.select(&selection);
            }
            Ok(External::new(Arc::new(loaded)))
        }))
    })
}

/// Makes a workload from a seed; the shape of its sessions as JSON, everything in it optional.
#[napi(ts_return_type = "WorkloadHandle")]
pub fn generate_workload(shape: String, seed: u32) -> Result<Handle, Code> {
    guard(|| {
        let shape = Shape::parse(&shape)?;
        let workload = generate(&shape, seed.into()).map_err(|e| invalid(e.to_string()))?;
        let report = Report::default();
        Ok(External::new(Arc::new(Loaded { workload, report })))
    })
}

/// What is in a workload and what was left out of it, as JSON. O(turns).
#[napi]
pub fn workload_summary(
    #[napi(ts_arg_type = "WorkloadHandle")] handle: &Handle,
) -> Result<String, Code> {
    guard(|| {
        let Loaded { workload, report } = &***handle;
        let mut summary = figures(workload);
        summary["files"] = report
            .files
            .iter()
            .map(|(path, format)| json!({ "path": path, "format": format.name() }))
            .collect();
        summary["ignored"] = report
            .ignored
            .iter()
            .map(|(path, why)| json!({ "path": path, "why": why }))
            .collect();
        summary["orphans"] = report.orphans.into();
        let counts = report.unlinked.iter();
        summary["unlinked"] = counts
            .map(|(kind, count)| (kind.name().to_owned(), (*count).into()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        summary["skipped"] = report
            .skipped
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), (*count).into()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        Ok(summary.to_string())
    })
}

fn figures(workload: &Workload) -> Value {
    let turns = workload.turns();
    let sum =
        |of: fn(&warmpath_trace::Turn) -> u32| turns.iter().map(|t| u64::from(of(t))).sum::<u64>();
    let latest = turns.iter().filter_map(|turn| match turn.start {
        Start::At(at) => Some(at.0),
        Start::After(_) => None,
    });
    json!({
        "blockTokens": workload.block_tokens(),
        "sessions": workload.sessions().len(),
        "subSessions": workload.sessions().iter().filter(|s| s.parent.is_some()).count(),
        "turns": turns.len(),
        "promptTokens": sum(|turn| turn.input_tokens),
        "outputTokens": sum(|turn| turn.output_tokens),
        "largestPromptTokens": turns.iter().map(|turn| turn.input_tokens).max().unwrap_or(0),
        "openTurns": latest.clone().count(),
        "lastArrivalMs": latest.max().unwrap_or(0) as f64 / 1_000.0,
    })
}

/// What caches of all workers together could have given, as JSON: one that never forgets, and one
/// pooled cache of `cache_tokens`. In the background.
#[napi(ts_return_type = "Promise<string>")]
pub fn workload_bounds(
    #[napi(ts_arg_type = "WorkloadHandle")] handle: &Handle,
    cache_tokens: f64,
) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        if !(1.0..=9e15).contains(&cache_tokens) {
            return Err(invalid("cacheTokens must be 1 to 9e15"));
        }
        let loaded = Arc::clone(handle);
        Ok(background(move || {
            let found = bounds(&loaded.workload, cache_tokens as u64);
            serde_json::to_string(&found).map_err(|e| invalid(e.to_string()))
        }))
    })
}
