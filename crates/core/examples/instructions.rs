//! The work that `npm run bench:instructions` counts the instructions of.
//!
//! `instructions SCENARIO` sets the scene and then calls `measured`, which is all that is counted; it
//! prints how many operations that was. The scenes are an index as a router has it: sessions of forty
//! turns on eight workers, blocks of 64 tokens, opaque names, events of at most 128 blocks.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::hint::black_box;
use std::num::NonZeroU32;

use warmpath_core::admission::LeaseConfig;
use warmpath_core::block::{Chain, Seed, hash_content, hash_tokens};
use warmpath_core::continuity::PolicyConfig;
use warmpath_core::prefix::{Overlap, PlaceOptions, PrefixIndex, StoredBlock, StoredBlocks, Tier};
use warmpath_core::scheduler::{
    AdmissionConfig, Config, GroupOptions, Prompt, Scheduler, WorkerOptions,
};
use warmpath_core::{Micros, PlaceId, ProgramId, WorkerId};

#[path = "support/choices.rs"]
mod choices;
#[path = "support/gates.rs"]
mod gates;
#[path = "support/turns.rs"]
mod turns;

use turns::Written;

const BLOCK: NonZeroU32 = NonZeroU32::new(64).unwrap();
const WORKERS: u32 = 8;
const SESSIONS: u64 = 32;
const TURNS: usize = 40;
const BLOCKS_A_TURN: usize = 51;
const EVENT: usize = 128;

/// A session's prompt after all its turns, as the parts that events speak of.
struct Session {
    place: PlaceId,
    chain: Chain,
    blocks: Vec<StoredBlock>,
}

/// Spreads small numbers, so that they look like hashes.
fn mix(n: u64) -> u64 {
    let n = (n ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The chain of content ids, and what each block is apart from its place.
fn content(ids: &[u64]) -> (Chain, Vec<u64>) {
    let (mut chain, mut one) = (Chain::new(), Chain::new());
    hash_content(ids, BLOCK, None, Seed::default(), &mut chain);
    let locals = ids.iter().map(|&id| {
        hash_content(&[id], BLOCK, None, Seed::default(), &mut one);
        one.hashes()[0]
    });
    (chain, locals.collect())
}

fn session(place: PlaceId, number: u64, depth: usize) -> Session {
    let ids: Vec<u64> = (0..depth as u64).map(|i| number << 32 | i).collect();
    let (chain, locals) = content(&ids);
    let named = chain.hashes().iter().zip(locals);
    let blocks = named.map(|(&hash, local)| StoredBlock {
        name: mix(hash),
        local,
    });
    Session {
        place,
        blocks: blocks.collect(),
        chain,
    }
}

/// The chain of a session's first turns.
fn head(number: u64, blocks: usize) -> Chain {
    let ids: Vec<u64> = (0..blocks as u64).map(|i| number << 32 | i).collect();
    content(&ids).0
}

struct Fleet {
    index: PrefixIndex,
    places: Vec<PlaceId>,
}

fn fleet(workers: u32) -> Fleet {
    let mut index = PrefixIndex::new(usize::MAX);
    let mut add = |w| index.add_place(WorkerId(w), 0, Tier::Device, PlaceOptions::default());
    let places = (0..workers).map(|w| add(w).expect("a new place")).collect();
    Fleet { index, places }
}

fn sessions(fleet: &Fleet) -> Vec<Session> {
    let of = |n: u64| {
        let place = fleet.places[n as usize % fleet.places.len()];
        session(place, n, TURNS * BLOCKS_A_TURN)
    };
    (0..SESSIONS).map(of).collect()
}

/// The engine's events for the blocks that a turn adds.
fn events(index: &mut PrefixIndex, session: &Session, from: usize, to: usize) {
    let mut parent = from.checked_sub(1).map(|at| session.blocks[at].name);
    for blocks in session.blocks[from..to].chunks(EVENT) {
        index.store(
            session.place,
            &StoredBlocks {
                parent,
                block_tokens: BLOCK.get(),
                blocks,
            },
        );
        parent = blocks.last().map(|block| block.name);
    }
}

/// One turn of every session, as a router has it: look-up and decision, then the engine's events.
fn turns(
    index: &mut PrefixIndex,
    sessions: &[Session],
    heads: &[Vec<Chain>],
    turn: usize,
    counted: Counted,
) {
    let mut overlap = Overlap::new();
    for (session, heads) in sessions.iter().zip(heads) {
        let (place, chain) = (session.place, &heads[turn]);
        let decide = |index: &mut PrefixIndex, overlap: &mut Overlap| {
            index.find(chain, overlap);
            black_box(overlap.blocks_at(place));
            index.predict(Micros(turn as u64), place, chain);
        };
        let from = turn * BLOCKS_A_TURN;
        let learn = |index: &mut PrefixIndex| events(index, session, from, from + BLOCKS_A_TURN);
        match counted {
            Counted::Decisions => {
                measured(|| decide(index, &mut overlap));
                learn(index);
            }
            Counted::Events => {
                decide(index, &mut overlap);
                measured(|| learn(index));
            }
            Counted::Nothing => {
                decide(index, &mut overlap);
                learn(index);
            }
        }
    }
}

/// What of a turn is counted.
#[derive(Clone, Copy)]
enum Counted {
    Decisions,
    Events,
    Nothing,
}

#[inline(never)]
fn measured(work: impl FnOnce()) {
    work();
}

/// Blocks that a turn adds, in its decision or in the events that follow.
fn blocks(counted: Counted) -> usize {
    let mut fleet = fleet(WORKERS);
    let sessions = sessions(&fleet);
    let heads = heads();
    for turn in 0..TURNS {
        turns(&mut fleet.index, &sessions, &heads, turn, counted);
    }
    SESSIONS as usize * TURNS * BLOCKS_A_TURN
}

/// The prompt of every turn of every session.
fn heads() -> Vec<Vec<Chain>> {
    let of = |n: u64| (1..=TURNS).map(move |turn| head(n, turn * BLOCKS_A_TURN));
    (0..SESSIONS).map(|n| of(n).collect()).collect()
}

/// Blocks removed as an engine evicts them: the end of a prompt first, sixteen an event.
fn remove() -> usize {
    let mut fleet = fleet(WORKERS);
    let sessions = sessions(&fleet);
    for session in &sessions {
        events(&mut fleet.index, session, 0, session.blocks.len());
    }
    let names = |s: &Session| s.blocks.iter().rev().map(|b| b.name).collect::<Vec<_>>();
    let names: Vec<_> = sessions.iter().map(|s| (s.place, names(s))).collect();
    measured(|| {
        for (place, names) in &names {
            for event in names.chunks(16) {
                fleet.index.remove(*place, event);
            }
        }
    });
    SESSIONS as usize * TURNS * BLOCKS_A_TURN
}

/// Look-ups of a prompt that 64 workers have, all of it.
fn find(depth: usize) -> usize {
    const FINDS: usize = 1_000;
    let mut fleet = fleet(64);
    for &place in &fleet.places {
        let session = session(place, 1, depth);
        fleet.index.predict(Micros(0), place, &session.chain);
        events(&mut fleet.index, &session, 0, depth);
    }
    let asked = session(fleet.places[0], 1, depth);
    let mut overlap = Overlap::new();
    fleet.index.find(&asked.chain, &mut overlap);
    measured(|| {
        for _ in 0..FINDS {
            fleet.index.find(black_box(&asked.chain), &mut overlap);
            black_box(&overlap);
        }
    });
    FINDS
}

/// Sessions going on by a turn each, what that costs besides the decision and the events.
fn follow() -> usize {
    let mut fleet = fleet(WORKERS);
    let sessions = sessions(&fleet);
    let heads = heads();
    let mut frontiers: Vec<_> = sessions.iter().map(|_| None).collect();
    for turn in 0..TURNS {
        turns(&mut fleet.index, &sessions, &heads, turn, Counted::Nothing);
    }
    let mut follow = |turn: usize| {
        for (n, session) in sessions.iter().enumerate() {
            let program = ProgramId(n as u64);
            let before = frontiers[n].take();
            let chain = &heads[n][turn];
            frontiers[n] = fleet.index.follow(program, session.place, chain, before);
        }
    };
    follow(0);
    measured(|| (1..TURNS).for_each(&mut follow));
    SESSIONS as usize * (TURNS - 1)
}

/// Blocks of 64 tokens hashed and chained.
fn hash() -> usize {
    const BLOCKS: usize = 4_096;
    let ids: Vec<u32> = (0..BLOCKS as u32 * BLOCK.get()).collect();
    let mut chain = Chain::new();
    hash_tokens(&ids, BLOCK, Seed::default(), &mut chain);
    measured(|| hash_tokens(black_box(&ids), BLOCK, Seed::default(), &mut chain));
    BLOCKS
}

/// Turns of sessions that go on, from submit to completion. With the bytes of their bodies a message
/// is all of its text that they bring; else they bring the whole text.
fn turn(messages: usize, with_body: bool) -> usize {
    const SESSIONS: u64 = 8;
    const TURNS: usize = 6;
    /// What a session's first turns learn is not counted: from the third on it goes on.
    const LEARNING: usize = 2;
    let mut scheduler = turns::fleet(4);
    let mut at = 1;
    for turn in 0..TURNS {
        for number in 0..SESSIONS {
            at += 1;
            let now = Micros(at);
            let name = format!("session-{number}");
            let Written { text, segments } = turns::prompt(number, messages + turn);
            let body = body(&text, segments.len());
            let mut decide = || {
                let recalled = match with_body {
                    true => scheduler.recall("", &name, &body, b"messages"),
                    false => None,
                };
                let known = recalled.as_ref().map_or(0, |recalled| recalled.items());
                let start: usize = segments[..known].iter().map(|s| s.bytes as usize).sum();
                let (bytes, segments) = (&text[start..], &segments[known..]);
                let prompt = match &recalled {
                    None => Prompt::Text { bytes, segments },
                    Some(recalled) => Prompt::Recalled {
                        recalled,
                        bytes,
                        segments,
                    },
                };
                let submitted = turns::submit(&mut scheduler, now, &name, prompt);
                turns::complete(&mut scheduler, now, &submitted);
            };
            match turn < LEARNING {
                true => decide(),
                false => measured(decide),
            }
        }
    }
    SESSIONS as usize * (TURNS - LEARNING)
}

/// JSON with the messages of a text; none of its characters needs an escape but quotes and backslashes,
/// which are left out.
fn body(text: &[u8], messages: usize) -> Vec<u8> {
    let mut body = b"{\"messages\":[".to_vec();
    for (n, message) in text.chunks(text.len() / messages).enumerate() {
        body.extend_from_slice(if n > 0 {
            b",{\"content\":\""
        } else {
            b"{\"content\":\""
        });
        body.extend(message.iter().filter(|byte| !matches!(byte, b'"' | b'\\')));
        body.extend_from_slice(b"\"}");
    }
    body.extend_from_slice(b"]}");
    body
}

/// A fleet that is there from the start; each worker should cost the same however many there are.
fn workers(count: usize) -> usize {
    let config = Config {
        admission: AdmissionConfig::Lease(LeaseConfig::default()),
        ..Config::default()
    };
    let mut scheduler = Scheduler::new(config).expect("the settings are allowed");
    let group = scheduler.add_group(Micros::default(), GroupOptions::default());
    let group = group.expect("blocks have tokens");
    let fleet = (0..count).map(|number| WorkerOptions {
        name: format!("worker-{number}"),
        group,
        capacity_tokens: Some(1_000_000),
    });
    measured(|| {
        let added = scheduler.add_workers(Micros::default(), fleet, &mut Vec::new());
        black_box(added.expect("their names differ"));
    });
    count
}

fn main() {
    let scenario = std::env::args().nth(1).unwrap_or_default();
    let operations = match scenario.as_str() {
        "store" => blocks(Counted::Events),
        "predict" => blocks(Counted::Decisions),
        "remove" => remove(),
        "find-64" => find(64),
        "find-4096" => find(4_096),
        "find-16384" => find(16_384),
        "follow" => follow(),
        "hash" => hash(),
        "turn-10k" => turn(17, false),
        "turn-100k" => turn(170, false),
        "turn-10k-body" => turn(17, true),
        "turn-100k-body" => turn(170, true),
        "workers-1k" => workers(1_000),
        "workers-16k" => workers(16_000),
        "choice-bound" => choices::choices(PolicyConfig::Bound, |turn| measured(turn)),
        "choice-lookahead" => choices::choices(choices::lookahead(), |turn| measured(turn)),
        "gate-none" => gates::decisions(AdmissionConfig::None, |turn| measured(turn)),
        "gate-lease" => gates::decisions(gates::lease(), |turn| measured(turn)),
        "release-16" => gates::releases(16, |end| measured(end)),
        "release-1024" => gates::releases(1_024, |end| measured(end)),
        "hold-1k" => gates::holds(1_000, |turn| measured(turn)),
        "hold-16k" => gates::holds(16_000, |turn| measured(turn)),
        other => panic!("no scenario is called {other:?}"),
    };
    println!("{operations}");
}
