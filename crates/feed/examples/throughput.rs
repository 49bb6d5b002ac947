//! `cargo run --release -p warmpath-feed --example throughput -- [--json FILE]`: can one core keep up with
//! eight engines, and what does a decision pay for it?
//!
//! Everything from a publisher's frames to the index, on one thread and in its CPU time (counted by the
//! kernel once a tick, so only over the whole): order, decoding, hashing of tokens, the queue, and
//! application in slices, as the gateway does it. Each message stores
//! sixteen blocks of sixteen tokens and removes sixteen older ones, so that every engine's cache stays
//! full at 65,536 blocks. In a second pass a decision is made
//! after every slice, beside decisions without one; those are wall time, and mean something on an idle
//! machine only.
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use warmpath_core::pool::Layout;
use warmpath_core::scheduler::{
    Config, FeedOptions, GroupOptions, PoolOptions, Prompt, Scheduler, Turn, WorkerOptions,
};
use warmpath_core::{GroupId, Micros, TargetId, WorkerId};
use warmpath_feed::{Contents, Inbox, Parcel, Stream, StreamKey};
use warmpath_wire::{Change, ObjectDecoder, ObjectKey};

const WORKERS: u32 = 8;
const BLOCK: u32 = 16;
const BLOCKS: u64 = 16;
const CACHE: u64 = 65_536;
/// What a decision applies first, as in the addon.
const SLICE: usize = 512;
const GOAL: f64 = 1e6;

fn main() {
    let mut world = World::new();
    let full = CACHE / BLOCKS;
    let mut run = |rounds: std::ops::Range<u64>, decisions: Option<&mut Vec<u64>>| {
        let messages: Vec<Messages> = rounds.map(messages).collect();
        let (from, began) = (world.told, cpu_nanos());
        world.play(&messages, decisions);
        (world.told - from) as f64 * 1e9 / (cpu_nanos() - began).max(1) as f64
    };
    run(0..full, None);
    let per_second = run(full..2 * full, None);
    let mut loaded = Vec::new();
    run(2 * full..2 * full + 512, Some(&mut loaded));
    let (objects, page_bytes) = pool();
    let mut idle = Vec::new();
    (0..loaded.len()).for_each(|n| world.decide(n as u32, &mut idle));
    let rows = [
        row(
            "events.block_events_per_cpu_second",
            per_second,
            "1/s",
            Some(GOAL),
        ),
        row("pool.object_events_per_cpu_second", objects, "1/s", None),
        row("pool.bytes_per_page", page_bytes, "B", None),
        row(
            "events.submit_idle_p50",
            quantile(&mut idle, 0.5),
            "us",
            None,
        ),
        row(
            "events.submit_idle_p99",
            quantile(&mut idle, 0.99),
            "us",
            None,
        ),
        row(
            "events.submit_loaded_p50",
            quantile(&mut loaded, 0.5),
            "us",
            None,
        ),
        row(
            "events.submit_loaded_p99",
            quantile(&mut loaded, 0.99),
            "us",
            None,
        ),
    ];
    report(&rows);
}

/// Pages of the pool below; each of eight ranks' keys and values.
const PAGES: u64 = 32_768;
const RANKS: u32 = 8;
const PAGE_OBJECTS: u64 = 2 * RANKS as u64;
/// A Mooncake master sends no more at once.
const OBJECTS: u64 = 64;

/// Objects of SGLang's pages through a shared store's messages, from the bytes to the tree, whose blocks an
/// engine has told of: how many a CPU second, and what a page costs in memory beside the tree.
fn pool() -> (f64, f64) {
    let mut world = World::new();
    let group = GroupId(0);
    let layout = Layout {
        tensor: NonZeroU32::new(RANKS).expect("not zero"),
        halves: NonZeroU32::new(2).expect("not zero"),
        ..Layout::default()
    };
    let options = PoolOptions {
        layout,
        pages: PAGES as usize,
    };
    let added = world.scheduler.add_pool(Micros(1), group, options);
    added.expect("a pool");
    let rounds: Vec<Messages> = (0..PAGES / BLOCKS / u64::from(WORKERS))
        .map(messages)
        .collect();
    world.play(&rounds, None);
    let names: Vec<u64> = (0..WORKERS)
        .flat_map(|worker| {
            (0..PAGES / u64::from(WORKERS)).map(move |n| u64::from(worker) << 48 | (n + 1))
        })
        .collect();
    let mut objects = names
        .iter()
        .flat_map(|&name| (0..PAGE_OBJECTS).map(move |part| (name, part)));
    let mut sent = Vec::new();
    while let Some(first) = objects.next() {
        let batch = std::iter::once(first).chain(objects.by_ref().take(OBJECTS as usize - 1));
        sent.push(object_message(batch.collect()));
    }
    let began = cpu_nanos();
    let mut decoder = ObjectDecoder::new();
    for message in &sent {
        let mut events = Vec::new();
        decoder.decode(message, &mut events).expect("a message");
        for event in &events {
            let key = ObjectKey::parse(event.key).expect("a key");
            let page = key.page_name().expect("a name");
            let is_there = event.change == Change::Stored;
            world
                .scheduler
                .apply_object(Micros(1), group, (page, &key.part()), is_there);
        }
    }
    let nanos = (cpu_nanos() - began).max(1) as f64;
    let status = world.scheduler.pool_status(group).expect("a pool");
    assert_eq!((status.whole, status.unplaced), (PAGES as usize, 0));
    let count = (PAGES * PAGE_OBJECTS) as f64;
    (count * 1e9 / nanos, status.bytes as f64 / PAGES as f64)
}

/// Stores of these objects, as a master tells of them.
fn object_message(objects: Vec<(u64, u64)>) -> Vec<u8> {
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend([0xd9, text.len() as u8]);
        bytes.extend(text.as_bytes());
    };
    let mut bytes = vec![0x93, 0xcf];
    bytes.extend(1_789_095_808_500_u64.to_be_bytes());
    bytes.extend([0xdc, 0, objects.len() as u8]);
    for (name, part) in objects {
        let half = if part % 2 == 0 { 'k' } else { 'v' };
        let key = format!("{name:016x}{:048}_{}_{half}", 0, part / 2);
        bytes.push(0x83);
        for (field, value) in [
            ("event_type", "stored"),
            ("medium", "cpu"),
            ("object_key", &key),
        ] {
            text(&mut bytes, field);
            text(&mut bytes, value);
        }
    }
    bytes.push(0);
    bytes
}

struct World {
    scheduler: Scheduler,
    inbox: Arc<Inbox>,
    streams: Vec<Stream>,
    told: u64,
}

impl World {
    fn new() -> Self {
        let mut scheduler = Scheduler::new(Config::default()).expect("a scheduler");
        let options = GroupOptions {
            block_tokens: BLOCK,
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).expect("a group");
        scheduler.add_target("model", group).expect("a target");
        let inbox = Arc::new(Inbox::new());
        let streams = (0..WORKERS).map(|worker| {
            let options = WorkerOptions {
                name: worker.to_string(),
                group,
                capacity_tokens: Some(CACHE * u64::from(BLOCK)),
            };
            let id = scheduler.add_worker(Micros(0), options, &mut Vec::new());
            let ranks = NonZeroU32::MIN;
            let added = scheduler.add_feed(Micros(0), id.expect("a worker"), FeedOptions { ranks });
            added.expect("a feed");
            let key = StreamKey::Rank { worker, rank: 0 };
            Stream::new(key, Arc::clone(&inbox), Contents::Blocks, false)
        });
        let streams = streams.collect();
        Self {
            scheduler,
            inbox,
            streams,
            told: 0,
        }
    }

    /// A message of each worker, then slices until nothing waits, and so on.
    fn play(&mut self, rounds: &[Messages], mut decisions: Option<&mut Vec<u64>>) {
        for messages in rounds {
            for (stream, parts) in self.streams.iter_mut().zip(messages) {
                stream.message(Micros(1), parts);
            }
            let mut is_more = true;
            while is_more {
                let began = Instant::now();
                is_more = self.apply();
                let Some(decisions) = decisions.as_deref_mut() else {
                    continue;
                };
                let applying = began.elapsed().as_nanos() as u64;
                self.decide(decisions.len() as u32, decisions);
                if let Some(last) = decisions.last_mut() {
                    *last += applying;
                }
            }
        }
    }

    fn apply(&mut self) -> bool {
        let mut deliveries = Vec::new();
        let is_more = self.inbox.take(SLICE, &mut deliveries);
        for delivery in deliveries {
            let StreamKey::Rank { worker, rank } = delivery.key else {
                continue;
            };
            let worker = WorkerId(worker);
            match &delivery.parcel {
                Parcel::Notice(notice) => {
                    self.scheduler.feed_notice(Micros(1), worker, rank, *notice);
                }
                Parcel::Events(slice) => slice.iter().for_each(|event| {
                    self.told += event.blocks() as u64;
                    self.scheduler.apply_event(Micros(1), worker, rank, &event);
                }),
                Parcel::Objects(_) => {}
            }
        }
        is_more
    }

    /// Takes a turn of 64 blocks in and gives it up, and writes down how long taking it in was.
    fn decide(&mut self, n: u32, nanos: &mut Vec<u64>) {
        let tokens: Vec<u32> = (0..64 * BLOCK)
            .map(|at| n.wrapping_mul(7_919) + at)
            .collect();
        let turn = Turn::new(&[TargetId(0)], Prompt::Tokens(&tokens));
        let began = Instant::now();
        let taken = self.scheduler.submit(Micros(1), &turn, &mut Vec::new());
        nanos.push(began.elapsed().as_nanos() as u64);
        let id = taken.expect("a turn").reservation;
        self.scheduler.cancel(Micros(1), id, &mut Vec::new());
    }
}

/// One of each worker.
type Messages = Vec<Vec<Vec<u8>>>;

fn messages(n: u64) -> Messages {
    (0..WORKERS).map(|worker| message(worker, n)).collect()
}

/// Sixteen new blocks below each other, and the sixteen that are the oldest then are removed.
fn message(worker: u32, n: u64) -> Vec<Vec<u8>> {
    let name = |n: u64, block: u64| (u64::from(worker) << 48) | (n * BLOCKS + block + 1);
    let mut bytes = vec![0x93, 0xcb];
    bytes.extend(1.5_f64.to_be_bytes());
    let old = n.checked_sub(CACHE / BLOCKS);
    bytes.push(0x90 + 1 + u8::from(old.is_some()));
    let names = |bytes: &mut Vec<u8>, n: u64| {
        bytes.extend([0xdc, 0, BLOCKS as u8]);
        for block in 0..BLOCKS {
            bytes.push(0xcf);
            bytes.extend(name(n, block).to_be_bytes());
        }
    };
    if let Some(old) = old {
        bytes.extend([0x92, 0xac]);
        bytes.extend(b"BlockRemoved");
        names(&mut bytes, old);
    }
    bytes.extend([0x95, 0xab]);
    bytes.extend(b"BlockStored");
    names(&mut bytes, n);
    bytes.extend([0xc0, 0xdc, ((BLOCKS as u32 * BLOCK) >> 8) as u8, 0]);
    for token in 0..BLOCKS as u32 * BLOCK {
        let token = (n as u32)
            .wrapping_mul(31)
            .wrapping_add(worker * 977)
            .wrapping_add(token);
        bytes.push(0xcd);
        bytes.extend(((token % 60_000 + 256) as u16).to_be_bytes());
    }
    bytes.extend([BLOCK as u8, 0x00]);
    vec![vec![], n.to_be_bytes().to_vec(), bytes]
}

/// What this thread has spent, by the kernel's count; without one, the time that has passed.
fn cpu_nanos() -> u64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    spent.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_nanos() as u64)
    })
}

/// In microseconds.
fn quantile(nanos: &mut [u64], q: f64) -> f64 {
    nanos.sort_unstable();
    let at = (nanos.len() as f64 * q) as usize;
    nanos[at.min(nanos.len() - 1)] as f64 / 1e3
}

fn row(name: &str, value: f64, unit: &str, goal: Option<f64>) -> serde_json::Value {
    let mut row = serde_json::json!({ "name": name, "value": value, "unit": unit });
    if let Some(goal) = goal {
        row["goal"] = format!("at least {goal}").into();
        row["holds"] = (value >= goal).into();
    }
    row
}

fn report(rows: &[serde_json::Value]) {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--json")
        && let Some(file) = args.next()
    {
        let text = serde_json::json!({ "rows": rows }).to_string();
        std::fs::write(file, text).expect("the file can be written");
    }
    use std::io::Write;
    for row in rows {
        writeln!(std::io::stdout(), "{row}").expect("standard output");
    }
}
