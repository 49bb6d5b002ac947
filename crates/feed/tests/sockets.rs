//! The whole way over real sockets: recorded messages of an engine, from publisher to index.
#[path = "support/publisher.rs"]
mod publisher;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use publisher::{Log, babble, publish, replay};
use warmpath_core::receipt::Trust;
use warmpath_core::scheduler::{Config, FeedOptions, GroupOptions, Scheduler, WorkerOptions};
use warmpath_core::{Micros, WorkerId};
use warmpath_feed::{
    Contents, Endpoint, Feed, Inbox, Parcel, StreamKey, StreamStatus, Subscription, Whose,
};

/// The payloads of a recorded stream. A missing one fails the test.
fn recorded(capture: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures");
    let path = folder.join(format!("engine-captures/{capture}.jsonl.gz"));
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    lines
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.expect("gzip")).expect("JSON");
            let frames = line["frames"].as_array().expect("frames");
            let hex = frames
                .last()
                .and_then(|frame| frame.as_str())
                .expect("a payload");
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            (0..hex.len()).step_by(2).map(byte).collect()
        })
        .collect()
}

struct World {
    scheduler: Scheduler,
    feed: Feed,
    inbox: Arc<Inbox>,
}

impl World {
    fn new(workers: u32) -> Self {
        let mut scheduler = Scheduler::new(Config::default()).expect("a scheduler");
        let options = GroupOptions {
            block_tokens: 32,
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).expect("a group");
        for number in 0..workers {
            let worker = WorkerOptions {
                name: number.to_string(),
                group,
                capacity_tokens: None,
            };
            let added = scheduler.add_worker(Micros(0), worker, &mut Vec::new());
            let ranks = NonZeroU32::MIN;
            let fed =
                scheduler.add_feed(Micros(0), added.expect("a worker"), FeedOptions { ranks });
            fed.expect("a feed");
        }
        Self {
            scheduler,
            feed: Feed::start().expect("a thread"),
            inbox: Arc::new(Inbox::new()),
        }
    }

    fn subscribe(&self, worker: u32, events: SocketAddr, replay: Option<SocketAddr>) {
        let endpoint = |address| Endpoint::parse(&format!("tcp://{address}")).expect("an endpoint");
        self.feed.subscribe(Subscription {
            key: StreamKey::Rank { worker, rank: 0 },
            contents: Contents::Blocks,
            events: endpoint(events),
            replay: replay.map(endpoint),
            topic: String::new(),
            inbox: Arc::clone(&self.inbox),
            wake: Box::new(|| {}),
        });
    }

    /// Applies what comes, in slices, until `is_done` or for too long.
    fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_done(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: {:?}",
                self.inbox.status()
            );
            let mut out = Vec::new();
            self.inbox.take(256, &mut out);
            if out.is_empty() {
                std::thread::sleep(Duration::from_millis(2));
            }
            for delivery in out {
                let StreamKey::Rank { worker, rank } = delivery.key else {
                    panic!("{:?}", delivery.key);
                };
                let worker = WorkerId(worker);
                match &delivery.parcel {
                    Parcel::Notice(notice) => {
                        self.scheduler.feed_notice(Micros(1), worker, rank, *notice);
                    }
                    Parcel::Events(slice) => slice.iter().for_each(|event| {
                        self.scheduler.apply_event(Micros(1), worker, rank, &event);
                    }),
                    Parcel::Objects(changes) => panic!("{changes:?}"),
                }
            }
        }
    }

    fn trust(&self, worker: u32) -> Trust {
        self.scheduler
            .evidence(WorkerId(worker))
            .expect("a worker")
            .trust
    }

    fn status(&self, worker: u32) -> StreamStatus {
        let key = StreamKey::Rank { worker, rank: 0 };
        let own = self.inbox.status().into_iter().find(|(k, _)| *k == key);
        own.map(|(_, status)| status).unwrap_or_default()
    }

    fn is_at(&self, worker: u32, sequence: u64) -> bool {
        let status = self.status(worker);
        status.sequence == Some(sequence) && status.pending == 0
    }

    fn blocks(&self) -> usize {
        self.scheduler.prefix().stats().blocks
    }
}

fn log(payloads: &[Vec<u8>]) -> Log {
    Arc::new(Mutex::new(payloads.to_vec()))
}

#[test]
fn a_recorded_engine_is_known_exactly_however_late_one_joins() {
    let payloads = recorded("vllm-0.32.0-map-live");
    let last = payloads.len() as u64 - 1;
    let mut world = World::new(2);
    let log = log(&payloads);
    let answers = replay(&log);
    world.subscribe(0, publish(&log, 0), Some(answers));
    world.subscribe(1, publish(&log, 30), Some(answers));
    world.until("all of it", |w| w.is_at(0, last) && w.is_at(1, last));
    assert_eq!(
        (world.trust(0), world.trust(1)),
        (Trust::Exact, Trust::Exact)
    );
    let stats = world.scheduler.prefix().stats();
    let anomalies = stats.anomalies;
    assert_eq!(
        (anomalies.unknown_parent, anomalies.wrong_block_size),
        (0, 0)
    );
    let held: Vec<usize> = stats
        .places
        .iter()
        .map(|p| p.blocks)
        .filter(|&n| n > 0)
        .collect();
    assert_eq!(held.len(), 2);
    assert!(
        held[0] == held[1] && held[0] > 0 && held[0] <= 99,
        "{held:?}"
    );
}

#[test]
fn what_is_dropped_on_the_way_is_fetched_and_without_replay_it_is_said() {
    let payloads = recorded("vllm-0.23.0-array-live");
    let log = log(&payloads[..10]);
    let mut world = World::new(2);
    world.subscribe(0, publish(&log, 4), Some(replay(&log)));
    world.subscribe(1, publish(&log, 4), None);
    world.until("the first ten", |w| w.is_at(0, 9) && w.is_at(1, 9));
    assert_eq!(
        (world.trust(0), world.trust(1)),
        (Trust::Exact, Trust::Degraded)
    );
    log.lock().unwrap().extend_from_slice(&payloads[10..]);
    let last = payloads.len() as u64 - 1;
    world.until("the rest", |w| w.is_at(0, last) && w.is_at(1, last));
    // The engine has told that it was emptied, so that from there on everything is known.
    assert_eq!(
        (world.trust(0), world.trust(1)),
        (Trust::Exact, Trust::Exact)
    );
}

#[test]
fn whoever_speaks_another_protocol_disturbs_nobody() {
    let payloads = recorded("vllm-0.32.0-map-live");
    let log = log(&payloads[..5]);
    let mut world = World::new(4);
    world.subscribe(0, publish(&log, 0), Some(replay(&log)));
    world.subscribe(
        1,
        babble(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        None,
    );
    let mut promise = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    promise.extend(b"NULL");
    promise.resize(64, 0);
    promise.extend([4, 25]);
    promise.extend(b"\x05READY\x0bSocket-Type\0\0\0\x03PUB");
    promise.extend([2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    world.subscribe(2, babble(promise), None);
    let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
    world.subscribe(3, nobody, Some(nobody));
    let error = |w: &World, worker| w.status(worker).last_error.unwrap_or_default();
    // A handshake that is done ends the error of the connection before.
    let has_failed = |w: &World, worker| match worker {
        1 => error(w, 1) == "the other side does not speak ZMTP",
        2 => error(w, 2) == "the other side sends a message that is too long",
        _ => !error(w, worker).is_empty(),
    };
    world.until("the good one and the failures of the others", |w| {
        w.is_at(0, 4) && (1..4).all(|worker| has_failed(w, worker))
    });
    assert_eq!(world.trust(0), Trust::Exact);
    world.feed.unsubscribe(&world.inbox, Whose::Worker(2));
    world.until("its end", |w| w.inbox.status().len() == 3);
    assert!(world.blocks() > 0);
}

#[test]
fn an_engine_that_starts_anew_is_known_anew() {
    let payloads = recorded("vllm-0.32.0-map-live");
    let (first, second) = (log(&payloads[..20]), log(&payloads[..3]));
    let mut world = World::new(1);
    let events = publish(&first, 0);
    world.subscribe(0, events, Some(replay(&first)));
    world.until("the first life", |w| w.is_at(0, 19));
    let before = world.blocks();
    world.feed.unsubscribe(&world.inbox, Whose::All);
    world.until("its end", |w| w.inbox.status().is_empty());
    world.subscribe(0, publish(&second, 0), Some(replay(&second)));
    world.until("the second life", |w| {
        !w.inbox.status().is_empty() && w.is_at(0, 2)
    });
    assert_eq!(world.trust(0), Trust::Exact);
    assert!(world.blocks() < before && world.blocks() > 0);
}
