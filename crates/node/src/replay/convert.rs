//! A workload, or a recording, written for other tools.
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, Result};
use napi_derive::napi;
use serde_json::json;

use warmpath_trace::{
    Extras, Loaded, PerfettoWriter, Written, records, write_agentic, write_mooncake,
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
            let written = create(&path)
                .and_then(|mut out| {
                    let written = write(&loaded, extras, &mut out)?;
                    out.flush()?;
                    Ok(written)
                })
                .map_err(|error| unwritable(&path, &error))?;
            Ok(json!({ "rows": written.rows, "approximated": written.approximated }).to_string())
        }))
    })
}

type Out = BufWriter<File>;

/// What rows call the model, which a workload does not know.
const MODEL: &str = "model";

fn create(path: &str) -> std::io::Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path)?))
}

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
            let mut writer = create(&path)
                .and_then(PerfettoWriter::new)
                .map_err(failed)?;
            let (mut rows, mut fault) = (0u64, None);
            records(&sources, &mut |record, _, _| {
                rows += 1;
                let written = writer.write(&record);
                if let (Err(error), None) = (written, &fault) {
                    fault = Some(error);
                }
                Ok(())
            })
            .map_err(|error| unreadable(&error))?;
            match fault {
                Some(error) => Err(failed(error)),
                None => writer.finish().map_err(failed),
            }?;
            Ok(json!({ "rows": rows, "approximated": 0 }).to_string())
        }))
    })
}
