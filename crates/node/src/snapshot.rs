//! A snapshot as it crosses the boundary: out in slices, into the caller's array, and in as a whole.
//!
//! Each call does one slice, as much as fits the array, under the lock, and gives the lock back. What
//! did not fit stays here until the next call.
use napi::bindgen_prelude::{External, Float64Array, Result, Uint8Array};
use napi_derive::napi;
use parking_lot::Mutex;
use serde_json::json;

use warmpath_core::scheduler::Snapshot;
use warmpath_core::snapshot::{Downtime, Exact, RestoreOptions, Restored};

use crate::error::{Code, guard, invalid, refused};
use crate::handle::Handle;
use crate::journal::Act;
use crate::scheduler::{room, time};

/// A snapshot that is being written.
pub(crate) struct Writing {
    /// Absent once it was given up.
    snapshot: Option<Snapshot>,
    slice: Vec<u8>,
    /// Bytes of the slice that have been handed out.
    taken: usize,
}

/// Begins a snapshot; one that another caller is writing is void from now on.
#[napi(ts_return_type = "SnapshotHandle")]
pub(crate) fn begin_snapshot(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<External<Mutex<Writing>>, Code> {
    guard(|| {
        let snapshot = handle.change(|state| state.core.snapshot());
        Ok(External::new(Mutex::new(Writing {
            snapshot: Some(snapshot),
            slice: Vec::new(),
            taken: 0,
        })))
    })
}

/// Writes the next bytes of the snapshot to `out`. Returns how many; 0 when there are no more.
#[napi]
pub(crate) fn write_snapshot(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    #[napi(ts_arg_type = "SnapshotHandle")] writing: &External<Mutex<Writing>>,
    now: f64,
    mut out: Uint8Array,
) -> Result<u32, Code> {
    guard(|| {
        // SAFETY: JS is single-threaded and waits for this synchronous call, and no JS runs before the
        // slice is dropped, so nothing else views these bytes.
        let out = unsafe { out.as_mut() };
        let mut writing = writing.lock();
        if writing.taken == writing.slice.len() {
            let Writing {
                snapshot,
                slice,
                taken,
            } = &mut *writing;
            *taken = 0;
            slice.clear();
            if let Some(snapshot) = snapshot {
                let written = handle.change(|state| {
                    state
                        .core
                        .write_snapshot(time(now), snapshot, out.len(), slice)
                });
                written.map_err(|e| refused(&e))?;
            }
        }
        let rest = &writing.slice[writing.taken..];
        let more = rest.len().min(out.len());
        out[..more].copy_from_slice(&rest[..more]);
        writing.taken += more;
        Ok(more as u32)
    })
}

/// Gives a snapshot up, written or not: the scheduler no longer notes what changes.
#[napi]
pub(crate) fn end_snapshot(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    #[napi(ts_arg_type = "SnapshotHandle")] writing: &External<Mutex<Writing>>,
) -> Result<(), Code> {
    guard(|| {
        if let Some(snapshot) = writing.lock().snapshot.take() {
            handle.change(|state| state.core.end_snapshot(snapshot));
        }
        Ok(())
    })
}

/// Takes over what a snapshot holds; the engines' own word is 0 dropped, 1 taken as predicted, 2 kept.
/// Returns what came of it, as JSON.
#[napi]
pub(crate) fn restore_snapshot(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    bytes: &[u8],
    exact: u32,
    mut out: Float64Array,
) -> Result<String, Code> {
    guard(|| {
        handle.check_open()?;
        let exact = match exact {
            0 => Exact::Drop,
            1 => Exact::AsPredicted,
            2 => Exact::Keep,
            _ => return Err(invalid("exact is 0 drop, 1 as predicted or 2 keep")),
        };
        let options = RestoreOptions {
            exact,
            downtime: Downtime::SameClock,
        };
        let restored = handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Restored);
            let restored = state.core.restore(time(now), bytes, options);
            restored.map_err(|e| refused(&e))
        });
        restored.map(|restored| report(&restored))
    })
}

fn report(restored: &Restored) -> String {
    let dropped = restored.dropped;
    json!({
        "blocks": restored.blocks,
        "sessions": restored.sessions,
        "owners": restored.owners,
        "dropped": {
            "places": dropped.places,
            "resized": dropped.resized,
            "blocks": dropped.held,
            "sessions": dropped.sessions,
            "owners": dropped.owners,
        },
    })
    .to_string()
}
