//! Does the prefix index stay right and small under a billion block events, many of them wrong?
//!
//! Engines serve conversations that grow, fork from shared heads, end and are replaced by new ones.
//! What they say of it gets lost, comes twice, comes late, and is void after clears, restarts and
//! changes of domain. A naive model hears the same: an array of copies for each place. Each answer of
//! the index is compared with it as it comes, and at every checkpoint all that there is; memory is
//! printed beside it. The first difference ends the run with an error.
//!
//! `cargo run --release -p warmpath-core --example soak -- --events 1e9 --seed 1`
#![allow(clippy::print_stdout, reason = "a program by hand prints its result")]
use std::error::Error;
use std::num::NonZeroU32;
use std::time::Instant;

use warmpath_core::block::{Chain, Seed, hash_content};
use warmpath_core::prefix::{
    Anomalies, Overlap, PlaceOptions, PrefixIndex, PrefixStats, StoredBlock, StoredBlocks, Tier,
};
use warmpath_core::{PlaceId, WorkerId};

mod world;

use world::{LONGEST, Node, Random, Talk, World};

const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
const PLACES: usize = 8;
/// Conversations at one time, and shared heads that they fork from.
const TALKS: u32 = 1_500;
const HEADS: u32 = 20;
/// The most blocks that an engine keeps.
const CAPACITY: u32 = 60_000;
const DOMAINS: u32 = 2;
const DIALECTS: u32 = 3;
/// Further copies that the index believes in, as documented.
const MAX_COPIES: u8 = 65;
/// Checkpoints are so many block events apart.
const CHECKPOINT: u64 = 50_000_000;

type Fault = Box<dyn Error>;

/// What an engine says.
#[derive(Clone)]
enum Event {
    /// Blocks of one conversation from one on, to before another.
    Stored(Node, Node),
    Removed(Vec<Node>),
}

/// One place: what the engine has, what the model believes, and what is on the way.
struct Place {
    id: PlaceId,
    voice: (u32, u32),
    /// Blocks that the engine has of each conversation.
    has: Vec<u32>,
    total: u32,
    copies: Vec<u8>,
    believed: u64,
    late: Option<Event>,
}

struct Soak {
    random: Random,
    world: World,
    index: PrefixIndex,
    places: Vec<Place>,
    /// For each block: at how many places it is, and how many children need it.
    needs: Vec<u32>,
    needed: usize,
    /// By domain and dialect: whether the block was ever called so.
    given: Vec<Vec<bool>>,
    anomalies: Anomalies,
    /// Block events so far, and what else happened.
    events: u64,
    faults: u64,
    clears: u64,
    /// Room to work in.
    blocks: Vec<StoredBlock>,
    names: Vec<u64>,
    chain: Chain,
    overlap: Overlap,
}

/// Fails unless the two are equal.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Fault> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, should be {expected:?}").into()),
    }
}

impl Soak {
    fn new(seed: u64) -> Self {
        let all = ((TALKS + HEADS) * LONGEST) as usize;
        let talk = |n| Talk {
            round: 0,
            fork: None,
            blocks: if n < HEADS { 8 + n * 4 } else { 0 },
        };
        let mut soak = Self {
            random: Random(seed),
            world: World {
                talks: (0..TALKS + HEADS).map(talk).collect(),
            },
            index: PrefixIndex::new(1 << 30),
            places: Vec::new(),
            needs: vec![0; all],
            needed: 0,
            given: vec![vec![false; all]; (DOMAINS * DIALECTS) as usize],
            anomalies: Anomalies::default(),
            events: 0,
            faults: 0,
            clears: 0,
            blocks: Vec::new(),
            names: Vec::new(),
            chain: Chain::new(),
            overlap: Overlap::new(),
        };
        for n in 0..PLACES as u32 {
            let domain = n / 6;
            let id = soak.register(n as usize, domain);
            soak.places.push(Place {
                id,
                voice: (domain, n % 6 / 4),
                has: vec![0; (TALKS + HEADS) as usize],
                total: 0,
                copies: vec![0; all],
                believed: 0,
                late: None,
            });
        }
        soak
    }

    /// Every other place is the host tier of the one before.
    fn register(&mut self, place: usize, domain: u32) -> PlaceId {
        let options = PlaceOptions {
            domain,
            ..PlaceOptions::default()
        };
        let tier = [Tier::Device, Tier::Host][place % 2];
        let worker = WorkerId(place as u32 / 2);
        self.index
            .add_place(worker, 0, tier, options)
            .expect("a new place")
    }

    /// A turn of some conversation at some place, and what follows from it.
    fn turn(&mut self) -> Result<(), Fault> {
        let talk = HEADS + self.random.below(TALKS);
        let place = self.random.below(PLACES as u32) as usize;
        if self.world.talks[talk as usize].blocks == 0 {
            self.begin(talk);
        }
        let more = 1 + self.random.below(60);
        let blocks = &mut self.world.talks[talk as usize].blocks;
        *blocks = (*blocks + more).min(LONGEST);
        let is_over = *blocks == LONGEST;
        if let Some(fork) = self.world.talks[talk as usize].fork {
            self.serve(place, fork / LONGEST, fork % LONGEST + 1)?;
        }
        self.serve(place, talk, self.world.talks[talk as usize].blocks)?;
        while self.places[place].total > CAPACITY {
            self.evict(place)?;
        }
        if is_over {
            self.end(talk)?;
        }
        self.mishap(place)
    }

    fn begin(&mut self, talk: u32) {
        let head = self.random.below(HEADS);
        let blocks = self.world.talks[head as usize].blocks;
        let fork = head * LONGEST + self.random.below(blocks);
        self.world.talks[talk as usize].fork = (!self.random.one_in(10)).then_some(fork);
    }

    /// The engine stores what it lacks of the first `blocks` of a conversation.
    fn serve(&mut self, place: usize, talk: u32, blocks: u32) -> Result<(), Fault> {
        let has = self.places[place].has[talk as usize];
        for from in (has..blocks).step_by(64) {
            let to = blocks.min(from + 64);
            self.places[place].has[talk as usize] = to;
            self.places[place].total += to - from;
            let first = talk * LONGEST;
            self.say(place, Event::Stored(first + from, first + to))?;
        }
        Ok(())
    }

    /// The engine drops the end of a conversation, and now and then something in its middle.
    fn evict(&mut self, place: usize) -> Result<(), Fault> {
        let talk = HEADS + self.random.below(TALKS);
        let has = self.places[place].has[talk as usize];
        if has == 0 {
            return Ok(());
        }
        let gone = match self.random.one_in(4) {
            true => has,
            false => has.min(1 + self.random.below(200)),
        };
        self.places[place].has[talk as usize] -= gone;
        self.places[place].total -= gone;
        let first = talk * LONGEST;
        let nodes = (first + has - gone..first + has).rev();
        self.say(place, Event::Removed(nodes.collect()))?;
        if self.random.one_in(30) {
            // A hole that the engine fills at once.
            let left = has - gone;
            let at = first + self.random.below(left.max(1));
            if left > 0 {
                self.say(place, Event::Removed(vec![at]))?;
                self.say(place, Event::Stored(at, at + 1))?;
            }
        }
        Ok(())
    }

    /// What is said may be lost, come twice, or come after what is said next.
    fn say(&mut self, place: usize, event: Event) -> Result<(), Fault> {
        self.faults += 1;
        match self.random.below(600) {
            0 => return Ok(()),
            1 => self.hear(place, &event)?,
            2 => {
                let before = self.places[place].late.replace(event);
                return before.map_or(Ok(()), |event| self.hear(place, &event));
            }
            _ => self.faults -= 1,
        }
        self.hear(place, &event)?;
        match self.places[place].late.take() {
            Some(event) => self.hear(place, &event),
            None => Ok(()),
        }
    }

    fn hear(&mut self, place: usize, event: &Event) -> Result<(), Fault> {
        match event {
            Event::Stored(from, to) => self.store(place, *from, *to),
            Event::Removed(nodes) => self.remove(place, nodes),
        }
    }

    fn store(&mut self, place: usize, from: Node, to: Node) -> Result<(), Fault> {
        let voice = self.places[place].voice;
        let above = self.world.parent(from);
        self.blocks.clear();
        for node in from..to {
            let content = self.world.content(node);
            hash_content(&[content], BLOCK, None, Seed::default(), &mut self.chain);
            let local = self.chain.hashes()[0];
            self.blocks.push(StoredBlock {
                name: self.world.name(voice, node),
                local,
            });
        }
        let event = StoredBlocks {
            parent: above.map(|node| self.world.name(voice, node)),
            block_tokens: BLOCK.get(),
            blocks: &self.blocks,
        };
        let stored = self.index.store(self.places[place].id, &event);
        self.events += self.blocks.len() as u64;
        // Open where a name was given and nobody stands for it any more: what the index says counts.
        let is_known = match above {
            Some(node) if !self.stands(voice, node) => stored > 0 && self.was_given(voice, node),
            _ => true,
        };
        let expected = if is_known { self.blocks.len() } else { 0 };
        same("stored", stored, expected)?;
        if !is_known {
            self.anomalies.unknown_parent += 1;
            return Ok(());
        }
        let given = &mut self.given[(voice.0 * DIALECTS + voice.1) as usize];
        given[from as usize..to as usize].fill(true);
        for node in from..to {
            let copies = &mut self.places[place].copies[node as usize];
            let is_new = *copies == 0;
            *copies = (*copies + 1).min(MAX_COPIES);
            match is_new {
                true => self.change(place, node, 1),
                false => self.anomalies.copies += 1,
            }
        }
        Ok(())
    }

    fn remove(&mut self, place: usize, nodes: &[Node]) -> Result<(), Fault> {
        let voice = self.places[place].voice;
        self.names.clear();
        let names = nodes.iter().map(|&node| self.world.name(voice, node));
        self.names.extend(names);
        let removed = self.index.remove(self.places[place].id, &self.names);
        self.events += nodes.len() as u64;
        let mut expected = 0;
        for &node in nodes {
            let copies = &mut self.places[place].copies[node as usize];
            if *copies > 0 {
                *copies -= 1;
                expected += 1;
                if *copies == 0 {
                    self.change(place, node, -1);
                }
            }
        }
        self.anomalies.not_held += (nodes.len() - expected) as u64;
        same("removed", removed, expected)
    }

    /// Whether somebody who calls it so has the block.
    fn stands(&self, voice: (u32, u32), node: Node) -> bool {
        let mut speakers = self.places.iter().filter(|p| p.voice == voice);
        speakers.any(|p| p.copies[node as usize] > 0)
    }

    fn was_given(&self, voice: (u32, u32), node: Node) -> bool {
        self.given[(voice.0 * DIALECTS + voice.1) as usize][node as usize]
    }

    /// The place has the block now, or has it no longer.
    fn change(&mut self, place: usize, node: Node, by: i32) {
        let believed = &mut self.places[place].believed;
        *believed = believed.wrapping_add_signed(by.into());
        let turns_at = u32::from(by > 0);
        let mut at = Some(node);
        while let Some(node) = at {
            let needs = &mut self.needs[node as usize];
            *needs = needs.wrapping_add_signed(by);
            if *needs != turns_at {
                return;
            }
            self.needed = self.needed.wrapping_add_signed(by as isize);
            at = self.world.parent(node);
        }
    }

    /// Nobody has anything of the conversation any more; another one takes its room.
    fn end(&mut self, talk: u32) -> Result<(), Fault> {
        let all = talk * LONGEST..(talk + 1) * LONGEST;
        for place in 0..PLACES {
            let here = &mut self.places[place];
            here.total -= std::mem::take(&mut here.has[talk as usize]);
            if let Some(event) = here.late.take() {
                self.hear(place, &event)?;
            }
            let copies = &self.places[place].copies;
            let held = all.clone().rev();
            let held = held.flat_map(|n| std::iter::repeat_n(n, copies[n as usize].into()));
            let held: Vec<Node> = held.collect();
            if !held.is_empty() {
                self.remove(place, &held)?;
            }
        }
        for given in &mut self.given {
            given[all.start as usize..all.end as usize].fill(false);
        }
        let talk = &mut self.world.talks[talk as usize];
        (talk.round, talk.blocks, talk.fork) = (talk.round + 1, 0, None);
        Ok(())
    }

    /// Now and then a place loses everything.
    fn mishap(&mut self, place: usize) -> Result<(), Fault> {
        match self.random.below(12_000) {
            0 => self.index.clear(self.places[place].id),
            1 => {
                self.index.clear(self.places[place].id);
                self.places[place].voice.1 = self.random.below(DIALECTS);
            }
            2 => {
                let id = self.places[place].id;
                same("removed", self.index.remove_place(id), true)?;
                let domain = self.random.below(DOMAINS);
                self.places[place].id = self.register(place, domain);
                self.places[place].voice.0 = domain;
                same("removed late", self.index.remove(id, &[1]), 0)?;
                self.anomalies.unknown_place += 1;
            }
            _ => return Ok(()),
        }
        self.clears += 1;
        let here = &mut self.places[place];
        (here.total, here.late) = (0, None);
        here.has.fill(0);
        for node in 0..self.needs.len() as Node {
            let copies = &mut self.places[place].copies[node as usize];
            if std::mem::take(copies) > 0 {
                self.change(place, node, -1);
            }
        }
        Ok(())
    }

    /// Compares how much of a conversation each place has.
    fn look(&mut self, talk: u32) -> Result<(), Fault> {
        let blocks = self.world.talks[talk as usize].blocks;
        let Some(last) = blocks.checked_sub(1) else {
            return Ok(());
        };
        let path = self.world.path(talk * LONGEST + last);
        let contents: Vec<u64> = path.iter().map(|&n| self.world.content(n)).collect();
        hash_content(&contents, BLOCK, None, Seed::default(), &mut self.chain);
        self.index.find(&self.chain, &mut self.overlap);
        for place in &self.places {
            let held = path.iter().take_while(|&&n| place.copies[n as usize] > 0);
            let (found, expected) = (self.overlap.blocks_at(place.id), held.count() as u32);
            same("blocks", found, expected)?;
        }
        Ok(())
    }

    /// Compares everything.
    fn checkpoint(&mut self) -> Result<PrefixStats, Fault> {
        for talk in 0..HEADS + TALKS {
            self.look(talk)?;
        }
        let stats = self.index.stats();
        same("anomalies", stats.anomalies, self.anomalies)?;
        same("distinct blocks", stats.blocks, self.needed)?;
        for place in &self.places {
            let tokens = place.believed * u64::from(BLOCK.get());
            same("tokens", self.index.tokens(place.id), tokens)?;
        }
        Ok(stats)
    }
}

/// Resident memory of this process in MiB; absent where the system does not say.
fn resident() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096.0 / 1_048_576.0)
}

fn option(name: &str) -> Option<f64> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)?.parse().ok()
}

fn main() -> Result<(), Fault> {
    let events = option("--events").unwrap_or(1e8) as u64;
    let seed = option("--seed").unwrap_or(1.0) as u64;
    let start = Instant::now();
    let mut soak = Soak::new(seed);
    let mut next = CHECKPOINT;
    println!(
        "block events  faults  clears   blocks  runs  anchors  index MiB  process MiB  seconds"
    );
    while soak.events < events {
        soak.turn()?;
        if soak.random.one_in(16) {
            let talk = HEADS + soak.random.below(TALKS);
            soak.look(talk)?;
        }
        if soak.events >= next.min(events) {
            let stats = soak.checkpoint()?;
            next += CHECKPOINT;
            println!(
                "{:>12}  {:>6}  {:>6}  {:>7}  {:>4}  {:>7}  {:>9.1}  {:>11.1}  {:>7.0}",
                soak.events,
                soak.faults,
                soak.clears,
                stats.blocks,
                stats.runs,
                stats.anchors,
                stats.bytes as f64 / 1_048_576.0,
                resident().unwrap_or(f64::NAN),
                start.elapsed().as_secs_f64(),
            );
        }
    }
    println!("{:?}", soak.anomalies);
    println!("equal to the model at every look and every checkpoint");
    Ok(())
}
