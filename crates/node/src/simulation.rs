//! The native face of the engine model: one engine behind a handle, driven from a JS clock.
//!
//! It converts and locks; what an engine does is decided in the simulator crate. Times are
//! milliseconds of the caller's clock, at least 0. Events are written into the caller's array, five
//! numbers each, so that a pass of many requests costs one crossing and no objects. Changes of the
//! cache are not among them: nothing in JS reads them. A panic or a refused argument leaves the
//! engine as it was.
#![allow(
    unreachable_pub,
    reason = "napi exports public functions; the module itself stays private"
)]
use std::collections::VecDeque;

use napi::bindgen_prelude::{Error, External, Float64Array, Result};
use napi_derive::napi;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use warmpath_sim::{
    End, Engine, EngineConfig, EngineEvent, EventKind, Nanos, Preemption, Prefill, Request, Reuse,
    Timing,
};

use crate::error::{Code, guard, invalid};

/// Numbers an event takes in the caller's array: kind, request, time in ms, value, end.
const EVENT_WIDTH: usize = 5;

/// The largest integer that a JS number tells from its neighbours.
const MOST_ID: f64 = 9_007_199_254_740_991.0;

/// About 285 years: nanoseconds of it still fit the clock.
const MOST_MS: f64 = 9e12;

pub(crate) struct Model {
    engine: Engine,
    /// Happened, but not yet fetched.
    pending: VecDeque<EngineEvent>,
}

impl Model {
    /// Lets `step` drive the engine and keeps what JS can read of its events.
    fn drive<T>(&mut self, step: impl FnOnce(&mut Engine, &mut Vec<EngineEvent>) -> T) -> T {
        let mut events = Vec::new();
        let result = step(&mut self.engine, &mut events);
        self.pending
            .extend(events.into_iter().filter(|e| encode(e).is_some()));
        result
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    block_size: Option<u32>,
    num_gpu_blocks: Option<u32>,
    max_num_seqs: Option<u32>,
    max_num_batched_tokens: Option<u32>,
    chunked_prefill: Option<bool>,
    prefix_caching: Option<bool>,
    preemption: Option<Order>,
    timing: Option<TimingOptions>,
    speedup_ratio: Option<f64>,
    decode_speedup_ratio: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum TimingOptions {
    Polynomial,
    Fixed {
        #[serde(rename = "prefillMs")]
        prefill_ms: f64,
        #[serde(rename = "decodeMs")]
        decode_ms: f64,
    },
}

impl From<Options> for EngineConfig {
    fn from(o: Options) -> Self {
        let d = Self::default();
        Self {
            block_size: o.block_size.unwrap_or(d.block_size),
            num_gpu_blocks: o.num_gpu_blocks.unwrap_or(d.num_gpu_blocks),
            max_num_seqs: o.max_num_seqs.unwrap_or(d.max_num_seqs),
            max_num_batched_tokens: o.max_num_batched_tokens.unwrap_or(d.max_num_batched_tokens),
            prefill: match o.chunked_prefill {
                Some(false) => Prefill::Whole,
                _ => d.prefill,
            },
            host: d.host,
            reuse: match o.prefix_caching {
                Some(false) => Reuse::Never,
                _ => d.reuse,
            },
            preemption: match o.preemption {
                Some(Order::Oldest) => Preemption::Oldest,
                _ => d.preemption,
            },
            timing: match o.timing {
                Some(TimingOptions::Fixed {
                    prefill_ms,
                    decode_ms,
                }) => Timing::Fixed {
                    prefill_ms,
                    decode_ms,
                },
                _ => d.timing,
            },
            speedup_ratio: o.speedup_ratio.unwrap_or(d.speedup_ratio),
            decode_speedup_ratio: o.decode_speedup_ratio.unwrap_or(d.decode_speedup_ratio),
        }
    }
}

/// What `engineStatus` tells; tokens, blocks and requests are counts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    block_size: u32,
    num_gpu_blocks: u32,
    running: u32,
    waiting: u32,
    used_blocks: u32,
    findable_blocks: u32,
    query_tokens: u64,
    hit_tokens: u64,
    prompt_tokens: u64,
    output_tokens: u64,
    preemptions: u64,
    ended: u64,
    passes: u64,
    busy_ms: f64,
    now_ms: f64,
}

fn to_ms(at: Nanos) -> f64 {
    at as f64 / 1e6
}

fn to_nanos(ms: f64) -> Result<Nanos, Code> {
    if !(0.0..=MOST_MS).contains(&ms) {
        return Err(invalid(
            "nowMs must be a number of milliseconds from 0 to 9e12",
        ));
    }
    Ok((ms * 1e6).round() as Nanos)
}

fn to_id(id: f64) -> Result<u64, Code> {
    if id.fract() != 0.0 || !(0.0..=MOST_ID).contains(&id) {
        return Err(invalid("id must be an integer from 0 to 2^53 - 1"));
    }
    Ok(id as u64)
}

fn refused(error: impl std::error::Error) -> Error<Code> {
    invalid(error.to_string())
}

/// The numbers of an event; `None` for what JS does not read.
fn encode(event: &EngineEvent) -> Option<[f64; EVENT_WIDTH]> {
    let (kind, id, value, end) = match event.kind {
        EventKind::Admitted { id, cached_tokens } => (0.0, id, f64::from(cached_tokens), 0.0),
        EventKind::FirstToken { id } => (1.0, id, 1.0, 0.0),
        EventKind::Token { id, produced } => (2.0, id, f64::from(produced), 0.0),
        EventKind::Preempted { id } => (3.0, id, 0.0, 0.0),
        EventKind::Ended { id, end, produced } => {
            let end = match end {
                End::Complete => 0.0,
                End::CacheFull => 1.0,
                End::Rejected => 2.0,
                End::Cancelled => 3.0,
            };
            (4.0, id, f64::from(produced), end)
        }
        EventKind::Stored { .. } | EventKind::Removed { .. } => return None,
    };
    Some([kind, id as f64, to_ms(event.at), value, end])
}

/// Makes an engine from JSON options; a setting outside its range is refused by name.
#[napi(ts_return_type = "EngineHandle")]
pub fn engine_open(options: String) -> Result<External<Mutex<Model>>, Code> {
    guard(|| {
        let options: Options =
            serde_json::from_str(&options).map_err(|e| invalid(format!("engine options: {e}")))?;
        let engine = Engine::new(options.into()).map_err(refused)?;
        Ok(External::new(Mutex::new(Model {
            engine,
            pending: VecDeque::new(),
        })))
    })
}

/// Lets a request arrive whose answer will be exactly `output`. O(tokens).
#[napi]
pub fn engine_submit(
    #[napi(ts_arg_type = "EngineHandle")] handle: &External<Mutex<Model>>,
    now_ms: f64,
    id: f64,
    prompt: &[u32],
    output: &[u32],
) -> Result<(), Code> {
    guard(|| {
        let mut model = handle.lock();
        let size = model.engine.config().block_size;
        let request = Request::new(to_id(id)?, prompt, output, size).map_err(refused)?;
        model
            .engine
            .submit(to_nanos(now_ms)?, request)
            .map_err(refused)
    })
}

/// Moves the clock and writes the events that happened, five numbers each: kind (0 admitted,
/// 1 first token, 2 token, 3 pre-empted, 4 ended), request, time in ms, value (cached tokens when
/// admitted, else tokens made), end (0 complete, 1 cache full, 2 rejected, 3 cancelled). Returns
/// how many it wrote; when the array was too small for all, call again.
#[napi]
pub fn engine_advance(
    #[napi(ts_arg_type = "EngineHandle")] handle: &External<Mutex<Model>>,
    now_ms: f64,
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        let until = to_nanos(now_ms)?;
        let mut model = handle.lock();
        model.drive(|engine, events| engine.advance(until, events));
        // SAFETY: the array belongs to the caller, who is inside this synchronous call; no other
        // reference to its bytes is alive here.
        let out = unsafe { out.as_mut() };
        let mut written = 0;
        for slot in out.chunks_exact_mut(EVENT_WIDTH) {
            let Some(event) = model.pending.pop_front() else {
                break;
            };
            if let Some(numbers) = encode(&event) {
                slot.copy_from_slice(&numbers);
                written += 1;
            }
        }
        Ok(written)
    })
}

/// When something happens next, in ms; -1 if nothing will.
#[napi]
pub fn engine_next(
    #[napi(ts_arg_type = "EngineHandle")] handle: &External<Mutex<Model>>,
) -> Result<f64, Code> {
    guard(|| Ok(handle.lock().engine.next_event().map_or(-1.0, to_ms)))
}

/// Gives a request up; false if it is not in the engine. One that is being computed leaves with
/// the end of the pass under way.
#[napi]
pub fn engine_cancel(
    #[napi(ts_arg_type = "EngineHandle")] handle: &External<Mutex<Model>>,
    id: f64,
) -> Result<bool, Code> {
    guard(|| {
        let id = to_id(id)?;
        Ok(handle
            .lock()
            .drive(|engine, events| engine.cancel(id, events)))
    })
}

/// The engine's counts as JSON.
#[napi]
pub fn engine_status(
    #[napi(ts_arg_type = "EngineHandle")] handle: &External<Mutex<Model>>,
) -> Result<String, Code> {
    guard(|| {
        let model = handle.lock();
        let (stats, config) = (model.engine.stats(), model.engine.config());
        let status = Status {
            block_size: config.block_size,
            num_gpu_blocks: config.num_gpu_blocks,
            running: stats.running,
            waiting: stats.waiting,
            used_blocks: stats.used_blocks,
            findable_blocks: stats.findable_blocks,
            query_tokens: stats.query_tokens,
            hit_tokens: stats.hit_tokens,
            prompt_tokens: stats.prompt_tokens,
            output_tokens: stats.output_tokens,
            preemptions: stats.preemptions,
            ended: stats.ended,
            passes: stats.passes,
            busy_ms: to_ms(stats.busy),
            now_ms: to_ms(model.engine.now()),
        };
        serde_json::to_string(&status).map_err(refused)
    })
}
