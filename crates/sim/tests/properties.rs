//! What holds for any load, any configuration and a cancellation at any time.
use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use warmpath_sim::{
    End, Engine, EngineConfig, EngineEvent, EventKind, Nanos, Preemption, Prefill, Request, Reuse,
    Timing,
};

const MS: Nanos = 1_000_000;

#[derive(Clone, Debug)]
struct Turn {
    at: Nanos,
    /// Prompts are cut from few texts, so that beginnings are shared.
    text: u32,
    prompt: u32,
    output: u32,
    cancel_after: Option<Nanos>,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (
        0..200 * MS,
        0..3u32,
        1..400u32,
        1..60u32,
        proptest::option::weighted(0.2, 0..300 * MS),
    );
    let turn = turn.prop_map(|(at, text, prompt, output, cancel_after)| Turn {
        at,
        text,
        prompt,
        output,
        cancel_after,
    });
    proptest::collection::vec(turn, 1..14)
}

fn configs() -> impl Strategy<Value = EngineConfig> {
    let sizes = (
        prop_oneof![Just(4u32), Just(16)],
        4..60u32,
        1..6u32,
        8..300u32,
    );
    (sizes, any::<[bool; 4]>()).prop_map(
        |((block_size, blocks, seqs, batched), [oldest, whole, never, fixed])| EngineConfig {
            block_size,
            num_gpu_blocks: blocks,
            max_num_seqs: seqs,
            max_num_batched_tokens: batched,
            preemption: if oldest {
                Preemption::Oldest
            } else {
                Preemption::Newest
            },
            prefill: if whole {
                Prefill::Whole
            } else {
                Prefill::Chunked
            },
            reuse: if never { Reuse::Never } else { Reuse::Prefix },
            timing: if fixed {
                Timing::Fixed {
                    prefill_ms: 3.0,
                    decode_ms: 1.0,
                }
            } else {
                Timing::Polynomial
            },
            ..EngineConfig::default()
        },
    )
}

fn request(id: u64, turn: &Turn, block_size: u32) -> Request {
    let prompt: Vec<u32> = (0..turn.prompt)
        .map(|i| turn.text * 1000 + i / 50)
        .collect();
    let output: Vec<u32> = (0..turn.output)
        .map(|i| turn.text * 1000 + (turn.prompt + i) / 50)
        .collect();
    Request::new(id, &prompt, &output, block_size).expect("neither part is empty")
}

#[derive(Clone, Copy)]
enum Pace {
    /// From event to event, as `next_event` says.
    Events,
    /// Straight to each arrival and cancellation.
    Leaps,
}

fn play(config: &EngineConfig, turns: &[Turn], pace: Pace) -> (Engine, Vec<EngineEvent>) {
    let mut engine = Engine::new(config.clone()).expect("a valid configuration");
    let mut events = Vec::new();
    for (id, turn) in turns.iter().enumerate() {
        engine
            .submit(turn.at, request(id as u64, turn, config.block_size))
            .expect("a new id");
    }
    let mut cancels: Vec<(Nanos, u64)> = turns
        .iter()
        .enumerate()
        .filter_map(|(id, t)| t.cancel_after.map(|after| (t.at + after, id as u64)))
        .collect();
    cancels.sort_unstable();
    for (at, id) in cancels {
        if let Pace::Events = pace {
            while let Some(next) = engine.next_event().filter(|next| *next < at) {
                engine.advance(next, &mut events);
            }
        }
        engine.advance(at, &mut events);
        engine.cancel(id, &mut events);
    }
    let mut steps = 0;
    while let Some(next) = engine.next_event() {
        engine.advance(next, &mut events);
        steps += 1;
        assert!(steps < 100_000, "the engine does not come to rest");
    }
    (engine, events)
}

/// Follows the announced cache; its size at the end.
fn findable(events: &[EngineEvent]) -> usize {
    let mut cache = HashSet::new();
    for event in events {
        match &event.kind {
            EventKind::Stored { parent, hashes, .. } => {
                assert!(
                    parent.is_none_or(|p| cache.contains(&p)),
                    "a parent is stored before its child"
                );
                for hash in hashes {
                    assert!(cache.insert(*hash), "stored twice");
                }
            }
            EventKind::Removed { hashes } => {
                for hash in hashes {
                    assert!(cache.remove(hash), "removed without having been stored");
                }
            }
            _ => {}
        }
    }
    cache.len()
}

fn check_lives(turns: &[Turn], config: &EngineConfig, events: &[EngineEvent]) {
    let mut produced: HashMap<u64, u32> = HashMap::new();
    let mut ends = HashMap::new();
    let mut last = 0;
    for event in events {
        assert!(event.at >= last, "time goes forward");
        last = event.at;
        match event.kind {
            EventKind::FirstToken { id } => assert_eq!(produced.insert(id, 1), None),
            EventKind::Token { id, produced: n } => assert_eq!(produced.insert(id, n), Some(n - 1)),
            EventKind::Ended {
                id,
                end,
                produced: n,
            } => {
                assert_eq!(produced.get(&id).copied().unwrap_or(0), n);
                assert_eq!(ends.insert(id, (end, n)), None, "ended twice");
            }
            EventKind::Admitted { id, .. } | EventKind::Preempted { id } => {
                assert!(!ends.contains_key(&id))
            }
            EventKind::Stored { .. } | EventKind::Removed { .. } => {}
        }
    }
    assert_eq!(ends.len(), turns.len(), "each request ends");
    let fits = |tokens: u32| {
        u64::from(tokens) <= config.capacity_tokens()
            && (config.prefill == Prefill::Chunked || tokens <= config.max_num_batched_tokens)
    };
    for (id, turn) in turns.iter().enumerate() {
        let (end, made) = ends[&(id as u64)];
        match end {
            End::Complete => assert_eq!(made, turn.output),
            End::CacheFull => assert!(!fits(turn.prompt + turn.output) && made > 0),
            End::Rejected => assert!(!fits(turn.prompt)),
            End::Cancelled => assert!(turn.cancel_after.is_some()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_ends_and_every_block_comes_back(config in configs(), turns in turns()) {
        let (engine, events) = play(&config, &turns, Pace::Events);
        let stats = engine.stats();
        prop_assert_eq!((stats.running, stats.waiting, stats.used_blocks), (0, 0, 0));
        prop_assert!(stats.findable_blocks <= config.num_gpu_blocks);
        prop_assert_eq!(stats.ended, turns.len() as u64);
        let announced = findable(&events);
        prop_assert!(announced <= stats.findable_blocks as usize);
        prop_assert_eq!(announced == 0, stats.findable_blocks == 0);
        if config.reuse == Reuse::Never {
            prop_assert_eq!(stats.hit_tokens, 0);
        }
        check_lives(&turns, &config, &events);
    }

    #[test]
    fn the_pace_of_the_caller_changes_nothing(config in configs(), turns in turns()) {
        let (_, small) = play(&config, &turns, Pace::Events);
        let (_, large) = play(&config, &turns, Pace::Leaps);
        prop_assert_eq!(small, large);
    }
}

fn ends(events: &[EngineEvent]) -> Vec<(u64, End, u32)> {
    let mut ends: Vec<_> = events
        .iter()
        .filter_map(|e| match e.kind {
            EventKind::Ended { id, end, produced } => Some((id, end, produced)),
            _ => None,
        })
        .collect();
    ends.sort_by_key(|e| e.0);
    ends
}

#[test]
fn a_request_that_outgrows_the_cache_ends_alone() {
    let config = EngineConfig {
        block_size: 16,
        num_gpu_blocks: 40,
        ..EngineConfig::default()
    };
    let turn = |text, prompt, output| Turn {
        at: 0,
        text,
        prompt,
        output,
        cancel_after: None,
    };
    let turns = [
        turn(0, 600, 60),
        turn(1, 20, 30),
        turn(2, 640, 1),
        turn(0, 641, 1),
    ];
    let (_, events) = play(&config, &turns, Pace::Events);
    // 640 tokens fit: the prompt's 600, and 41 made, the last of which was never computed.
    let expected = [
        (0, End::CacheFull, 41),
        (1, End::Complete, 30),
        (2, End::Complete, 1),
        (3, End::Rejected, 0),
    ];
    assert_eq!(ends(&events), expected);
}

#[test]
fn the_next_turn_reuses_what_the_last_one_said() {
    let mut engine = Engine::new(EngineConfig {
        block_size: 16,
        ..EngineConfig::default()
    })
    .expect("config");
    let (prompt, answer): (Vec<u32>, Vec<u32>) = ((0..100).collect(), (1000..1100).collect());
    let mut events = Vec::new();
    engine
        .submit(0, Request::new(1, &prompt, &answer, 16).expect("request"))
        .expect("submit");
    engine.advance(Nanos::MAX / 4, &mut events);
    let next: Vec<u32> = prompt.iter().chain(&answer).copied().chain(0..40).collect();
    engine
        .submit(0, Request::new(2, &next, &[1], 16).expect("request"))
        .expect("submit");
    events.clear();
    engine.advance(Nanos::MAX / 2, &mut events);
    // 199 of the 200 tokens were computed: the last one made was not.
    assert_eq!(
        events[0].kind,
        EventKind::Admitted {
            id: 2,
            cached_tokens: 192
        }
    );
}

#[test]
fn a_request_that_is_still_here_cannot_come_again() {
    let mut engine = Engine::new(EngineConfig::default()).expect("config");
    let make = || Request::new(1, &[1], &[1], 64).expect("request");
    engine.submit(0, make()).expect("submit");
    assert!(engine.submit(0, make()).is_err());
    let mut events = Vec::new();
    assert!(engine.cancel(1, &mut events));
    assert!(!engine.cancel(1, &mut events));
    assert_eq!(ends(&events), [(1, End::Cancelled, 0)]);
    engine.submit(0, make()).expect("the id is free again");
}

#[test]
fn a_pass_waits_for_those_who_arrive_with_the_end_of_the_last() {
    let config = EngineConfig {
        timing: Timing::Fixed {
            prefill_ms: 10.0,
            decode_ms: 1.0,
        },
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config).expect("config");
    let mut events = Vec::new();
    engine
        .submit(0, Request::new(1, &[1], &[1, 2], 64).expect("request"))
        .expect("submit");
    engine.advance(0, &mut events);
    engine.settle(10 * MS, &mut events);
    assert_eq!(engine.next_event(), Some(10 * MS), "a pass is due");
    engine
        .submit(10 * MS, Request::new(2, &[2], &[1], 64).expect("request"))
        .expect("submit");
    engine.begin(&mut events);
    assert_eq!(engine.next_event(), Some(21 * MS), "both are in one pass");
}
