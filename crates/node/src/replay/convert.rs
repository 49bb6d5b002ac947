//! A workload, or a recording, written for other tools.
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use napi::bindgen_prelude::{AsyncTask, Result};
use napi_derive::napi;
use serde_json::json;

use warmpath_trace::{
    Extras, Leniency, Loaded, PerfettoWriter, Written, records, write_agentic, write_mooncake,
};

use super::background::{Background, background};
use super::workload::Handle;
use crate::error::{Code, guard, invalid, unreadable, unwritable};

/// Writes a workload as `mooncake` or `agentic-mooncake`, in the background. `extras`: also what only
/// Warmpath reads, under a key of its own. Returns rows written and rows approximated, as JSON.
#[napi(ts_return_type = "Promise<string>")]
pub fn write_workload(
    #[napi(ts_arg_type = "WorkloadHandle")] handle: &Handle,
    path: String,
    format: String,
    extras: bool,
) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        let write: fn(&Loaded, Extras, &mut Out) -> std::io::Result<Written> = match format.as_str()
        {
            "mooncake" => |loaded, extras, out| write_mooncake(&loaded.workload, extras, out),
            "agentic-mooncake" => {
                |loaded, extras, out| write_agentic(&loaded.workload, MODEL, extras, out)
            }
            _ => return Err(invalid("format must be mooncake or agentic-mooncake")),
        };
        let extras = match extras {
            true => Extras::Keep,
            false => Extras::Leave,
        };
        let loaded = Arc::clone(handle);
        Ok(background(move || {
            let written = Out::create(&path)
                .and_then(|mut out| {
                    let written = write(&loaded, extras, &mut out)?;
                    out.finish()?;
                    Ok(written)
                })
                .map_err(|error| unwritable(&path, &error))?;
            Ok(json!({ "rows": written.rows, "approximated": written.approximated }).to_string())
        }))
    })
}

/// A file that is written, compressed if its name says so.
enum Out {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
        }
    }
}

impl Out {
    fn create(path: &str) -> std::io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(match path.ends_with(".gz") {
            true => Self::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Self::Plain(file),
        })
    }

    /// Writes what has gathered and ends the file.
    fn finish(self) -> std::io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Gzip(out) => out.finish()?.flush(),
        }
    }
}

/// What rows call the model, which a workload does not know.
const MODEL: &str = "model";

/// Writes recordings of our own as a picture for Perfetto, in the background. Returns the records
/// seen, as JSON.
#[napi(ts_return_type = "Promise<string>")]
pub fn write_perfetto(
    sources: Vec<String>,
    path: String,
) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        let sources: Vec<PathBuf> = sources.into_iter().map(PathBuf::from).collect();
        Ok(background(move || {
            let failed = |error: std::io::Error| unwritable(&path, &error);
            let begin = || Out::create(&path).and_then(PerfettoWriter::new);
            // What is there stays as long as nothing could be read.
            let mut writer = None;
            let (mut rows, mut fault) = (0u64, None);
            records(&sources, Leniency::Strict, &mut |record, _, _| {
                rows += 1;
                if fault.is_some() {
                    return Ok(());
                }
                let begun = match writer.take() {
                    Some(begun) => Ok(begun),
                    None => begin(),
                };
                let written = begun.and_then(|mut begun: PerfettoWriter<Out>| {
                    begun.write(&record)?;
                    Ok(begun)
                });
                match written {
                    Ok(begun) => writer = Some(begun),
                    Err(error) => fault = Some(error),
                }
                Ok(())
            })
            .map_err(|error| unreadable(&error))?;
            match fault {
                Some(error) => Err(failed(error)),
                None => writer
                    .map_or_else(begin, Ok)
                    .and_then(PerfettoWriter::finish)
                    .and_then(Out::finish)
                    .map_err(failed),
            }?;
            Ok(json!({ "rows": rows, "approximated": 0 }).to_string())
        }))
    })
}
