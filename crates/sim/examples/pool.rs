//! `cargo run --release -p warmpath-sim --example pool -- [--json FILE]`: what does it cost to know what a
//! shared store has, and what does it save?
//!
//! Agent sessions over engines whose caches are too small for them, three times: without a store; with one
//! that the engines share and the router knows nothing of; and with one whose objects the core is told of.
//! All that without a gate and behind the one that lets cold prompts in one after the other (`lease`).
//! Everything but the processor time of the upkeep is of a virtual clock, and the same on any machine.
#![allow(clippy::print_stdout, reason = "a command prints its result")]
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use warmpath_core::admission::LeaseConfig;
use warmpath_core::block::{Seed, TokenBlocks};
use warmpath_core::event::{CacheEvent, FeedNotice};
use warmpath_core::pool::{Layout, Part};
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_core::receipt::Reported;
use warmpath_core::scheduler::{
    AdmissionConfig, Completion, Config, FeedOptions, GroupOptions, Outcome as Settles, Placement,
    PoolOptions, Prompt, Scheduler, Settled, Turn, TurnKind, Verdict, WorkerOptions,
};
use warmpath_core::{GroupId, Micros, ReservationId, TargetId, WorkerId};
use warmpath_sim::{
    Engine, EngineConfig, EngineEvent, EventKind, HostTier, Nanos, Request, Store, StoreChange,
};

type Failure = Box<dyn Error>;

const WORKERS: u32 = 4;
const SESSIONS: u32 = 96;
const TURNS: u32 = 10;
const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
/// Of one engine.
const CACHE_TOKENS: u32 = 131_072;
const STORE_TOKENS: u32 = 4_194_304;
/// Four ranks, keys and values apart.
const RANKS: u32 = 4;
const OBJECTS: u32 = 2 * RANKS;
const SHARED_PROMPT: u32 = 4_096;
const ANSWER: u32 = 160;
const SECOND: Nanos = 1_000_000_000;

/// What the router knows of the store that the engines have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knows {
    /// There is none.
    NoStore,
    Nothing,
    Objects,
}

#[derive(Default)]
struct Outcome {
    prompt_tokens: u64,
    computed_tokens: u64,
    cached_tokens: u64,
    promised_tokens: u64,
    /// Promised and not there when the engine looked.
    broken_tokens: u64,
    first_tokens: Vec<Nanos>,
    busy: Nanos,
    ended: Nanos,
    objects: u64,
    upkeep: Duration,
    page_bytes: f64,
}

/// A session: all its tokens so far.
struct Session {
    tokens: Vec<u32>,
    turns: u32,
}

struct Running {
    session: u32,
    reservation: ReservationId,
    submitted: Nanos,
    prompt: u32,
    predicted: u32,
    cached: Option<u32>,
    /// Of each block of prompt and answer.
    locals: Vec<u64>,
}

struct World {
    knows: Knows,
    core: Scheduler,
    engines: Vec<Engine>,
    store: Store,
    sessions: Vec<Session>,
    /// When each session goes on.
    agenda: BTreeSet<(Nanos, u32)>,
    running: HashMap<u64, Running>,
    waiting: HashMap<ReservationId, Waiting>,
    settled: Vec<Settled>,
    next: u64,
    out: Outcome,
}

/// A turn that may have to wait.
struct Waiting {
    session: u32,
    submitted: Nanos,
    tokens: Vec<u32>,
}

fn main() -> Result<(), Failure> {
    let mut rows = Vec::new();
    let lease = AdmissionConfig::Lease(LeaseConfig::default());
    for (name, admission) in [("none", AdmissionConfig::None), ("lease", lease)] {
        compare(name, admission, &mut rows)?;
    }
    for row in &rows {
        println!("{row}");
    }
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--json") {
        let file = args.next().ok_or("--json needs a file")?;
        std::fs::write(file, serde_json::json!({ "rows": rows }).to_string())?;
    }
    Ok(())
}

/// The three runs behind one gate.
fn compare(
    gate: &str,
    admission: AdmissionConfig,
    rows: &mut Vec<serde_json::Value>,
) -> Result<(), Failure> {
    let mut row = |name: &str, what: &str, value: f64, unit: &str| {
        let name = format!("pool.{gate}.{name}.{what}");
        rows.push(serde_json::json!({ "name": name, "value": value, "unit": unit }));
    };
    let mut runs = Vec::new();
    for (name, knows) in [
        ("no_store", Knows::NoStore),
        ("unseen", Knows::Nothing),
        ("seen", Knows::Objects),
    ] {
        let mut out = World::new(knows, admission.clone())?.run()?;
        out.first_tokens.sort_unstable();
        let count = out.first_tokens.len();
        let mean = out.first_tokens.iter().sum::<Nanos>() as f64 / count as f64 / 1e9;
        let p95 = out.first_tokens[count * 95 / 100] as f64 / 1e9;
        let share = out.computed_tokens as f64 / out.prompt_tokens as f64;
        let kept = (out.promised_tokens - out.broken_tokens) as f64;
        row(name, "computed_share", share, "of prompt tokens");
        row(name, "first_token_mean", mean, "s");
        row(name, "first_token_p95", p95, "s");
        row(name, "whole_run", out.ended as f64 / 1e9, "s");
        row(name, "engine_busy", out.busy as f64 / 1e9, "s");
        let foreseen = kept / out.cached_tokens as f64;
        row(name, "foreseen_share", foreseen, "of cached tokens");
        row(name, "broken", out.broken_tokens as f64, "tokens");
        runs.push((out, mean));
    }
    let [_, (unseen, before), (known, after)] = &runs[..] else {
        return Err("three runs".into());
    };
    let upkeep = known.upkeep.as_secs_f64();
    let (turns, objects) = (known.first_tokens.len() as f64, known.objects as f64);
    let seconds = known.ended as f64 / 1e9;
    let busy = (unseen.busy as f64 - known.busy as f64) / 1e9;
    for (what, value, unit) in [
        ("objects_per_second", objects / seconds, "1/s of the clock"),
        ("cpu_per_object", upkeep * 1e9 / objects, "ns"),
        ("cpu_per_turn", upkeep * 1e6 / turns, "us"),
        ("bytes_per_page", known.page_bytes, "B"),
        ("engine_time_saved", busy, "s"),
        ("first_token_saved_per_turn", before - after, "s"),
    ] {
        row("upkeep", what, value, unit);
    }
    Ok(())
}

impl World {
    fn new(knows: Knows, admission: AdmissionConfig) -> Result<Self, Failure> {
        let config = Config {
            admission,
            ..Config::default()
        };
        let mut core = Scheduler::new(config)?;
        let options = GroupOptions {
            block_tokens: BLOCK.get(),
            ..GroupOptions::default()
        };
        let start = Micros(0);
        let group = core.add_group(start, options)?;
        core.add_target("model", group)?;
        let store = Store::new((STORE_TOKENS / BLOCK) as usize);
        let mut engines = Vec::new();
        for worker in 0..WORKERS {
            let options = WorkerOptions {
                name: worker.to_string(),
                group,
                capacity_tokens: Some(u64::from(CACHE_TOKENS)),
            };
            let id = core.add_worker(start, options, &mut Vec::new())?;
            let ranks = NonZeroU32::MIN;
            core.add_feed(start, id, FeedOptions { ranks })?;
            core.feed_notice(start, id, 0, FeedNotice::Begun);
            let config = EngineConfig {
                block_size: BLOCK.get(),
                num_gpu_blocks: CACHE_TOKENS / BLOCK,
                host: (knows != Knows::NoStore).then(HostTier::default),
                ..EngineConfig::default()
            };
            engines.push(match knows {
                Knows::NoStore => Engine::new(config)?,
                Knows::Nothing | Knows::Objects => Engine::sharing(config, &store)?,
            });
        }
        if knows == Knows::Objects {
            let layout = Layout {
                tensor: NonZeroU32::new(RANKS).ok_or("ranks")?,
                halves: NonZeroU32::new(2).ok_or("halves")?,
                ..Layout::default()
            };
            let pages = (STORE_TOKENS / BLOCK) as usize;
            core.add_pool(start, group, PoolOptions { layout, pages })?;
            core.pool_notice(start, group, FeedNotice::Begun);
        }
        let sessions = (0..SESSIONS).map(|session| {
            let mut tokens: Vec<u32> = (0..SHARED_PROMPT).collect();
            tokens.extend(drawn(session, 0, 2_048));
            Session { tokens, turns: 0 }
        });
        Ok(Self {
            knows,
            core,
            engines,
            store,
            sessions: sessions.collect(),
            agenda: (0..SESSIONS)
                .map(|session| (u64::from(session) * SECOND / 2, session))
                .collect(),
            running: HashMap::new(),
            waiting: HashMap::new(),
            settled: Vec::new(),
            next: 1,
            out: Outcome::default(),
        })
    }

    fn run(mut self) -> Result<Outcome, Failure> {
        let mut events = Vec::new();
        loop {
            let arrival = self.agenda.first().map(|&(at, _)| at);
            let next = self.engines.iter().filter_map(Engine::next_event).min();
            let wake = self.core.next_wake().map(|at| at.0 * 1_000);
            let wake = wake.filter(|_| !self.waiting.is_empty());
            let Some(now) = arrival.into_iter().chain(next).chain(wake).min() else {
                break;
            };
            let now = now.max(self.out.ended);
            for worker in 0..WORKERS {
                self.engines[worker as usize].advance(now, &mut events);
                for event in events.drain(..) {
                    self.heard(worker, event);
                }
            }
            self.hear_store(now);
            while let Some(&(at, session)) = self.agenda.first().filter(|(at, _)| *at <= now) {
                self.agenda.remove(&(at, session));
                self.submit(now, session)?;
            }
            self.core.advance(micros(now), &mut self.settled);
            self.deliver(now)?;
            self.out.ended = now;
        }
        let stats = self.engines.iter().map(Engine::stats);
        for stats in stats {
            self.out.busy += stats.busy;
            self.out.computed_tokens += stats.prompt_tokens;
        }
        if let Some(status) = self.core.pool_status(GroupId(0)) {
            self.out.page_bytes = status.bytes as f64 / status.pages.max(1) as f64;
        }
        Ok(self.out)
    }

    fn submit(&mut self, now: Nanos, number: u32) -> Result<(), Failure> {
        let session = &self.sessions[number as usize];
        let tokens = session.tokens.clone();
        let name = number.to_string();
        let turn = Turn {
            session: Some(&name),
            kind: match session.turns + 1 == TURNS {
                true => TurnKind::Final,
                false => TurnKind::Ordinary,
            },
            ..Turn::new(&[TargetId(0)], Prompt::Tokens(&tokens))
        };
        let taken = self.core.submit(micros(now), &turn, &mut self.settled)?;
        self.out.prompt_tokens += tokens.len() as u64;
        let waiting = Waiting {
            session: number,
            submitted: now,
            tokens,
        };
        self.waiting.insert(taken.reservation, waiting);
        match taken.verdict {
            Verdict::Go(go) => self.send(now, taken.reservation, &go),
            Verdict::Hold => Ok(()),
        }
    }

    /// Sends the turns that need not wait any more.
    fn deliver(&mut self, now: Nanos) -> Result<(), Failure> {
        while let Some(settled) = self.settled.pop() {
            let Settles::Go(go) = settled.outcome else {
                return Err("nobody gives up here".into());
            };
            self.send(now, settled.reservation, &go)?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        now: Nanos,
        reservation: ReservationId,
        go: &Placement,
    ) -> Result<(), Failure> {
        let turn = self.waiting.remove(&reservation).ok_or("a turn of ours")?;
        let session = &mut self.sessions[turn.session as usize];
        let answer: Vec<u32> = drawn(turn.session, 1_000 + session.turns, ANSWER).collect();
        session.turns += 1;
        session.tokens.extend(&answer);
        let locals = TokenBlocks::plain(BLOCK, Seed::default()).local_hashes(&session.tokens);
        let request = Request::new(self.next, &turn.tokens, &answer, BLOCK.get())?;
        self.out.promised_tokens += u64::from(go.predicted_cached_tokens);
        let running = Running {
            session: turn.session,
            reservation,
            submitted: turn.submitted,
            prompt: turn.tokens.len() as u32,
            predicted: go.predicted_cached_tokens,
            cached: None,
            locals,
        };
        self.running.insert(self.next, running);
        self.engines[go.worker.index()].submit(now, request)?;
        self.next += 1;
        Ok(())
    }

    fn heard(&mut self, worker: u32, event: EngineEvent) {
        let at = micros(event.at);
        match event.kind {
            EventKind::Admitted { id, cached_tokens } => {
                if let Some(running) = self.running.get_mut(&id)
                    && running.cached.is_none()
                {
                    running.cached = Some(cached_tokens);
                    self.out.cached_tokens += u64::from(cached_tokens);
                    let broken = running.predicted.saturating_sub(cached_tokens);
                    self.out.broken_tokens += u64::from(broken);
                }
            }
            EventKind::FirstToken { id } => {
                if let Some(running) = self.running.get(&id) {
                    let settled = &mut self.settled;
                    self.core.first_token(at, running.reservation, settled);
                    self.out.first_tokens.push(event.at - running.submitted);
                }
            }
            EventKind::Ended { id, .. } => self.ended(event.at, id),
            EventKind::Stored {
                id,
                index,
                parent,
                hashes,
            } => {
                let Some(running) = self.running.get(&id) else {
                    return;
                };
                let locals = running.locals.iter().skip(index as usize);
                let blocks: Vec<StoredBlock> = hashes
                    .iter()
                    .zip(locals)
                    .map(|(&name, &local)| StoredBlock { name, local })
                    .collect();
                let blocks = StoredBlocks {
                    parent,
                    block_tokens: BLOCK.get(),
                    blocks: &blocks,
                };
                let tier = Tier::Device;
                let event = CacheEvent::Stored { tier, blocks };
                self.core.apply_event(at, WorkerId(worker), 0, &event);
            }
            EventKind::Removed { hashes } => {
                let (tier, names) = (Tier::Device, &hashes[..]);
                let event = CacheEvent::Removed { tier, names };
                self.core.apply_event(at, WorkerId(worker), 0, &event);
            }
            EventKind::Token { .. } | EventKind::Preempted { .. } => {}
        }
    }

    fn ended(&mut self, at: Nanos, id: u64) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        let told = Completion {
            reported: Reported {
                prompt_tokens: Some(running.prompt),
                cached_tokens: running.cached,
                completion_tokens: Some(ANSWER),
            },
            ..Completion::default()
        };
        (self.core).complete(micros(at), running.reservation, &told, &mut self.settled);
        let session = &mut self.sessions[running.session as usize];
        if session.turns == TURNS {
            return;
        }
        let (number, turn) = (running.session, session.turns);
        let result = 1_024 + mix(number, turn) % 3_072;
        session.tokens.extend(drawn(number, turn, result));
        // A tool takes between two seconds and half a minute.
        let pause = 2 * SECOND + u64::from(mix(turn, number) % 28_000) * (SECOND / 1_000);
        self.agenda.insert((at + pause, number));
    }

    /// The store's objects, as its master would tell of them.
    fn hear_store(&mut self, now: Nanos) {
        let changes = self.store.take_changes();
        if self.knows != Knows::Objects {
            return;
        }
        let began = Instant::now();
        for change in &changes {
            let (page, is_there) = match *change {
                StoreChange::Stored(page) => (page, true),
                StoreChange::Removed(page) => (page, false),
            };
            for number in 0..OBJECTS {
                let part = Part {
                    tensor: number / 2,
                    half: number % 2,
                    ..Part::default()
                };
                let object = (page, &part);
                (self.core).apply_object(micros(now), GroupId(0), object, is_there);
            }
        }
        self.out.upkeep += began.elapsed();
        self.out.objects += changes.len() as u64 * u64::from(OBJECTS);
    }
}

/// Tokens that no other part of any session has.
fn drawn(session: u32, part: u32, count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |at| mix(mix(session + 1, part), at))
}

fn mix(a: u32, b: u32) -> u32 {
    let mut x = a.wrapping_mul(0x9e37_79b9) ^ b.wrapping_add(0x85eb_ca6b);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

fn micros(at: Nanos) -> Micros {
    Micros(at / 1_000)
}
