//! A recording as a picture: what each session and each worker did when.
//!
//! The output is the JSON of Chrome's trace viewer, which Perfetto opens. Process 1 has a track for
//! each session: its turns, and in each what was hold, prefill and decode. Process 2 has a track for
//! each worker, where turns overlap. Times are those of the records, from the first one's on.
//!
//! One record is written at a time; memory is one entry a session and a worker.
use std::io::{self, Write};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use serde::Serialize;

use crate::record::{Record, Request};

const SESSIONS: u32 = 1;
const WORKERS: u32 = 2;

#[derive(Serialize)]
struct Slice<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args<'a>>,
}

#[derive(Default, Serialize)]
struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
}

/// Writes records as a picture.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: W,
    sessions: HashMap<String, u32>,
    workers: HashMap<u64, u32>,
}

/// The moments of a request, microseconds since 1970: records come as their requests end, so the first one
/// is not the one that began first, and viewers pass over what is before their zero.
struct Moments {
    received: f64,
    sent: f64,
    first_token: Option<f64>,
    end: f64,
}

impl<W: Write> PerfettoWriter<W> {
    /// Begins a picture.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        let mut writer = Self {
            out,
            sessions: HashMap::new(),
            workers: HashMap::new(),
        };
        // The first event has no comma before it.
        let name = metadata("process_name", "sessions", SESSIONS, 0);
        serde_json::to_writer(&mut writer.out, &name)?;
        writer.slice(&metadata("process_name", "workers", WORKERS, 0))?;
        Ok(writer)
    }

    /// Adds a record; records of other events than requests leave no trace in it.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let event = &record.event;
        let Some(request) = &event.request else {
            return Ok(());
        };
        let Some(moments) = Self::moments(record, request) else {
            return Ok(());
        };
        let ours = event.warmpath.as_ref();
        let theirs = event.agent_context.as_ref();
        let session = ours
            .and_then(|ours| ours.session.as_deref())
            .or_else(|| theirs.map(|theirs| theirs.session_id.as_str()))
            .unwrap_or(&request.request_id);
        let turn = ours.and_then(|ours| ours.turn);
        let name = turn.map_or_else(|| "turn".to_owned(), |turn| format!("turn {turn}"));
        let track = self.session_track(session)?;
        self.turn(&name, track, &moments, request)?;
        let worker = request.worker.as_ref();
        match worker.and_then(|worker| worker.decode_worker_id.or(worker.prefill_worker_id)) {
            Some(worker) => self.on_worker(worker, session, &moments, request),
            None => Ok(()),
        }
    }

    /// Ends the picture.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn moments(record: &Record, request: &Request) -> Option<Moments> {
        let micros = |millis: f64| millis * 1_000.0;
        let (received, held, first_token, end) =
            match record.event.warmpath.as_ref().and_then(|ours| ours.timings) {
                Some(own) => (own.received, own.held, own.first_token, own.end),
                None => {
                    let received = request.timing.request_received_ms? as f64;
                    let first_token = request.timing.ttft_ms.map(|ttft| received + ttft);
                    let total = request.timing.total_time_ms?;
                    (received, 0.0, first_token, received + total)
                }
            };
        let moments = Moments {
            received: micros(received),
            sent: micros(received + held),
            first_token: first_token.map(micros),
            end: micros(end),
        };
        let is_drawable = moments.received.is_finite() && moments.end.is_finite();
        (is_drawable && moments.end >= moments.received).then_some(moments)
    }

    fn turn(
        &mut self,
        name: &str,
        track: u32,
        moments: &Moments,
        request: &Request,
    ) -> io::Result<()> {
        let mut part = |name, from: f64, until: f64, args| {
            // What JSON cannot say would damage the whole picture.
            if !(from.is_finite() && until.is_finite()) {
                return Ok(());
            }
            self.slice(&Slice {
                name,
                cat: "turn",
                ph: "X",
                ts: from,
                dur: Some((until - from).max(0.0)),
                pid: SESSIONS,
                tid: track,
                id: None,
                args,
            })
        };
        part(name, moments.received, moments.end, Some(args(request)))?;
        if moments.sent > moments.received {
            part("hold", moments.received, moments.sent, None)?;
        }
        if let Some(first_token) = moments.first_token {
            part("prefill", moments.sent, first_token, None)?;
            part("decode", first_token, moments.end, None)?;
        }
        Ok(())
    }

    fn on_worker(
        &mut self,
        worker: u64,
        session: &str,
        moments: &Moments,
        request: &Request,
    ) -> io::Result<()> {
        let new = self.workers.len() as u32 + 1;
        let track = match self.workers.entry(worker) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => {
                unknown.insert(new);
                let name = format!("worker {worker}");
                self.slice(&metadata("thread_name", &name, WORKERS, new))?;
                new
            }
        };
        for (ph, ts) in [("b", moments.sent), ("e", moments.end)] {
            if ts.is_finite() {
                self.slice(&Slice {
                    name: session,
                    cat: "request",
                    ph,
                    ts,
                    dur: None,
                    pid: WORKERS,
                    tid: track,
                    id: Some(&request.request_id),
                    args: None,
                })?;
            }
        }
        Ok(())
    }

    fn session_track(&mut self, session: &str) -> io::Result<u32> {
        if let Some(&track) = self.sessions.get(session) {
            return Ok(track);
        }
        let track = self.sessions.len() as u32 + 1;
        self.sessions.insert(session.to_owned(), track);
        self.slice(&metadata("thread_name", session, SESSIONS, track))?;
        Ok(track)
    }

    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        self.out.write_all(b",\n")?;
        Ok(serde_json::to_writer(&mut self.out, slice)?)
    }
}

fn args(request: &Request) -> Args<'_> {
    Args {
        name: None,
        input_tokens: request.input_tokens,
        output_tokens: request.output_tokens,
        cached_tokens: request.cached_tokens,
    }
}

fn metadata<'a>(what: &'static str, name: &'a str, pid: u32, tid: u32) -> Slice<'a> {
    Slice {
        name: what,
        cat: "__metadata",
        ph: "M",
        ts: 0.0,
        dur: None,
        pid,
        tid,
        id: None,
        args: Some(Args {
            name: Some(name),
            ..Args::default()
        }),
    }
}
