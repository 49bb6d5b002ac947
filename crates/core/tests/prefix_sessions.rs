//! Real sessions of a coding agent, replayed through the index by predictions alone.
//!
//! Whatever the router believes of a place must be what a cache of that size would have that served
//! the same turns: the longest common head with what it has kept, at every turn. The cache here is
//! naive: it drops blocks one by one, least recently used first, and of one turn the deepest first.
//! The trace is public and not part of the repository: without it the test is ignored and says so,
//! which is why it has a harness of its own.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::read::GzDecoder;
use serde::Deserialize;
use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, Tier};
use warmpath_core::{Micros, PlaceId, WorkerId};

const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
/// In blocks: what a small accelerator, a large one and an endless one can hold. The sessions are
/// 1,500 blocks deep as a rule and 438,000 together.
const CAPACITIES: [Option<usize>; 3] = [Some(12_000), Some(40_000), None];
/// Sessions that run side by side.
const TOGETHER: usize = 12;

#[derive(Deserialize)]
struct Session {
    requests: Vec<Request>,
}

/// A turn, or an agent that was called and has turns of its own.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    t: f64,
    #[serde(default, rename = "in")]
    tokens: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
    #[serde(default)]
    requests: Vec<Request>,
}

/// The complete blocks of a turn, each unlike those of other sessions.
struct Turn {
    at: f64,
    blocks: Vec<u64>,
}

fn collect(session: u64, requests: &[Request], turns: &mut Vec<Turn>) {
    for request in requests {
        let complete = (request.tokens / BLOCK) as usize;
        let ids = &request.hash_ids[..complete.min(request.hash_ids.len())];
        if !ids.is_empty() {
            let blocks = ids.iter().map(|id| session << 32 | id).collect();
            turns.push(Turn {
                at: request.t,
                blocks,
            });
        }
        collect(session, &request.requests, turns);
    }
}

/// The turns of each session, in the order of time.
fn sessions() -> Option<Vec<VecDeque<Turn>>> {
    let base = std::env::var_os("WARMPATH_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = base
        .unwrap_or_else(beside)
        .join("data/claude-code-sessions");
    let entries = std::fs::read_dir(folder).ok()?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let read = |(n, path): (usize, PathBuf)| {
        let file = File::open(&path).expect("a session");
        let reader = BufReader::new(GzDecoder::new(file));
        let session: Session = serde_json::from_reader(reader).expect("a session");
        let mut turns = Vec::new();
        collect(n as u64, &session.requests, &mut turns);
        turns.sort_by(|a, b| a.at.total_cmp(&b.at));
        turns.into()
    };
    Some(files.into_iter().enumerate().map(read).collect())
}

/// All blocks that were ever seen, each by what is above it.
#[derive(Default)]
struct Paths {
    known: HashMap<(u32, u64), u32>,
    /// The last turn of each session, most of which the next one repeats.
    last: HashMap<u64, (Vec<u64>, Rc<[u32]>)>,
}

impl Paths {
    fn of(&mut self, blocks: &[u64]) -> Rc<[u32]> {
        let session = blocks[0] >> 32;
        let mut path = Vec::with_capacity(blocks.len());
        if let Some((before, numbers)) = self.last.get(&session) {
            let same = before
                .iter()
                .zip(blocks)
                .take_while(|(a, b)| a == b)
                .count();
            path.extend_from_slice(&numbers[..same]);
        }
        for &block in &blocks[path.len()..] {
            let above = path.last().copied().unwrap_or(u32::MAX);
            let number = self.known.len() as u32;
            path.push(*self.known.entry((above, block)).or_insert(number));
        }
        let path: Rc<[u32]> = path.into();
        self.last.insert(session, (blocks.to_vec(), path.clone()));
        path
    }
}

/// A cache that keeps the blocks of the turns that it served.
struct Cache {
    capacity: usize,
    /// By block: the last turn that used it, while it is here.
    used: Vec<Option<u32>>,
    held: usize,
    /// What each turn used, as far as it was not looked at yet: number, path, blocks.
    turns: VecDeque<(u32, Rc<[u32]>, usize)>,
}

impl Cache {
    fn new(capacity: Option<usize>) -> Self {
        Self {
            capacity: capacity.unwrap_or(usize::MAX),
            used: Vec::new(),
            held: 0,
            turns: VecDeque::new(),
        }
    }

    fn head(&self, path: &[u32]) -> u32 {
        let is_here = |&&block: &&u32| matches!(self.used.get(block as usize), Some(Some(_)));
        path.iter().take_while(is_here).count() as u32
    }

    fn serve(&mut self, turn: u32, path: Rc<[u32]>) {
        for &block in &*path {
            let block = block as usize;
            if self.used.len() <= block {
                self.used.resize(block + 1, None);
            }
            let before = self.used[block].replace(turn);
            self.held += usize::from(before.is_none());
        }
        let blocks = path.len();
        self.turns.push_back((turn, path, blocks));
        while self.held > self.capacity
            && let Some((oldest, path, left)) = self.turns.front_mut()
        {
            if *left == 0 {
                self.turns.pop_front();
                continue;
            }
            *left -= 1;
            let used = &mut self.used[path[*left] as usize];
            // Else a later turn has used it since.
            if *used == Some(*oldest) {
                *used = None;
                self.held -= 1;
            }
        }
    }
}

struct Replay {
    index: PrefixIndex,
    places: Vec<PlaceId>,
    caches: Vec<Cache>,
    paths: Paths,
    overlap: Overlap,
    chain: Chain,
    turns: u32,
    warm_blocks: [u64; CAPACITIES.len()],
}

impl Replay {
    fn new() -> Self {
        let mut index = PrefixIndex::new(1 << 30);
        let add = |(n, capacity): (u32, &Option<usize>)| {
            let tokens = capacity.map(|blocks| blocks as u64 * u64::from(BLOCK.get()));
            let options = PlaceOptions {
                capacity_tokens: tokens,
                ..PlaceOptions::default()
            };
            let place = index.add_place(WorkerId(n), 0, Tier::Device, options);
            place.expect("a new place")
        };
        let places = (0..).zip(&CAPACITIES).map(add).collect();
        Self {
            index,
            places,
            caches: CAPACITIES.map(Cache::new).into(),
            paths: Paths::default(),
            overlap: Overlap::new(),
            chain: Chain::new(),
            turns: 0,
            warm_blocks: [0; CAPACITIES.len()],
        }
    }

    fn turn(&mut self, turn: &Turn) {
        hash_content(&turn.blocks, BLOCK, None, Seed::default(), &mut self.chain);
        let path = self.paths.of(&turn.blocks);
        self.index.find(&self.chain, &mut self.overlap);
        for (n, &place) in self.places.iter().enumerate() {
            let (found, expected) = (self.overlap.blocks_at(place), self.caches[n].head(&path));
            let deep = path.len();
            assert_eq!(
                found, expected,
                "turn {}, {deep} deep, {:?}",
                self.turns, CAPACITIES[n]
            );
            self.warm_blocks[n] += u64::from(found);
            self.index
                .predict(Micros(self.turns.into()), place, &self.chain);
            self.caches[n].serve(self.turns, path.clone());
            let held = self.caches[n].held as u64 * u64::from(BLOCK.get());
            assert_eq!(self.index.tokens(place), held, "turn {}", self.turns);
        }
        self.turns += 1;
    }
}

fn main() {
    let found = sessions();
    let (passed, ignored) = if found.is_some() { (1, 0) } else { (0, 1) };
    match found {
        Some(sessions) => predicted_overlap_is_what_a_cache_of_that_size_would_have(sessions),
        None => println!("ignored: the public trace is not beside the repository"),
    }
    println!(
        "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 0 filtered out"
    );
}

/// Some sessions side by side, a turn each in turn; one that ends makes room for the next.
fn predicted_overlap_is_what_a_cache_of_that_size_would_have(sessions: Vec<VecDeque<Turn>>) {
    let mut replay = Replay::new();
    let mut waiting = sessions.into_iter();
    let mut running: VecDeque<VecDeque<Turn>> = waiting.by_ref().take(TOGETHER).collect();
    while let Some(mut session) = running.pop_front() {
        match session.pop_front() {
            Some(turn) => {
                replay.turn(&turn);
                running.push_back(session);
            }
            None => running.extend(waiting.next()),
        }
    }
    let Replay {
        turns,
        warm_blocks,
        index,
        ..
    } = replay;
    let [small, large, endless] = warm_blocks;
    assert!(turns > 6_000, "{turns} turns");
    assert!(
        0 < small && small < large && large < endless,
        "{warm_blocks:?}"
    );
    println!(
        "{turns} turns, warm blocks {warm_blocks:?}, {} distinct blocks",
        index.stats().blocks
    );
}
