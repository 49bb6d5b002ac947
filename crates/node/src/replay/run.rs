//! One run of a fleet in the background: its report, its progress, and a way to stop it.
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napi::bindgen_prelude::{AsyncTask, External, Float64Array, Result};
use napi_derive::napi;

use warmpath_sim::fleet::{Progress, simulate_watched};

use super::background::{Background, background};
use super::scenario::Scenario;
use super::workload::Handle;
use crate::error::{Code, aborted, guard, invalid};

/// What a run and its owner tell each other.
#[derive(Default)]
pub(crate) struct Run {
    is_stopped: AtomicBool,
    arrived: AtomicU64,
    now: AtomicU64,
}

impl Run {
    fn look(&self, progress: Progress) -> ControlFlow<()> {
        self.arrived.store(progress.arrived, Ordering::Relaxed);
        self.now.store(progress.now, Ordering::Relaxed);
        match self.is_stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// A run that has not begun.
#[napi(ts_return_type = "RunHandle")]
pub fn open_run() -> External<Arc<Run>> {
    External::new(Arc::new(Run::default()))
}

/// Runs a workload through a fleet, in the background; the report as JSON, the same bytes as from
/// Rust. Rejects with ABORTED when the run was stopped.
#[napi(ts_return_type = "Promise<string>")]
pub fn simulate_fleet(
    #[napi(ts_arg_type = "WorkloadHandle")] workload: &Handle,
    #[napi(ts_arg_type = "RunHandle")] run: &External<Arc<Run>>,
    scenario: String,
) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        let (loaded, run) = (Arc::clone(workload), Arc::clone(run));
        let scenario = Scenario::parse(&scenario)?;
        let fleet = scenario.fleet(loaded.workload.block_tokens())?;
        fleet.validate().map_err(|e| invalid(e.to_string()))?;
        Ok(background(move || {
            let mut router = scenario.router(&fleet)?;
            let mut watch = |progress| run.look(progress);
            let report = simulate_watched(&loaded.workload, &fleet, &mut *router, &mut watch)
                .map_err(|e| invalid(e.to_string()))?
                .ok_or_else(|| aborted("the run was stopped"))?;
            serde_json::to_string(&report).map_err(|e| invalid(e.to_string()))
        }))
    })
}

/// Writes how far a run is: turns that have arrived, and milliseconds on its clock.
#[napi]
pub fn run_progress(
    #[napi(ts_arg_type = "RunHandle")] run: &External<Arc<Run>>,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        // SAFETY: JS is single-threaded and waits for this synchronous call, and no JS runs before the
        // slice is dropped, so nothing else views these bytes.
        let [arrived, now] = (unsafe { out.as_mut() }) else {
            return Err(invalid("progress is two numbers"));
        };
        *arrived = run.arrived.load(Ordering::Relaxed) as f64;
        *now = run.now.load(Ordering::Relaxed) as f64 / 1e6;
        Ok(())
    })
}

/// Stops a run, under way or yet to begin. Idempotent.
#[napi]
pub fn stop_run(#[napi(ts_arg_type = "RunHandle")] run: &External<Arc<Run>>) {
    run.is_stopped.store(true, Ordering::Relaxed);
}
