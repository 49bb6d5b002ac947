//! What holds for any load of the engine, and that skipped steps are the steps.
use std::collections::HashMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use warmpath_trace::Workload;

use super::*;
use crate::HostTier;
use crate::fleet::{SessionShape, generate};

const MS: Nanos = 1_000_000;

#[derive(Clone, Debug)]
enum Call {
    /// The next turn of this session.
    Turn(u32),
    /// Gives up what was submitted so many calls ago.
    Cancel(u64),
}

fn calls() -> impl Strategy<Value = Vec<(Nanos, Call)>> {
    let call = prop_oneof![
        8 => (0..4u32).prop_map(Call::Turn),
        1 => (0..6u64).prop_map(Call::Cancel),
    ];
    proptest::collection::vec((0..800 * MS, call), 1..30)
}

fn configs() -> impl Strategy<Value = ExtentConfig> {
    let host = proptest::option::of((100..4_000u64, 0..20_000_000u64));
    let room = (300..6_000u64, prop_oneof![Just(0), 1..300u32]);
    (room, 1..5u32, 50..400u32, any::<[bool; 2]>(), host).prop_map(
        |((capacity_tokens, shared_tokens), max_running, chunk_tokens, [shortest, lease], host)| {
            ExtentConfig {
                capacity_tokens,
                max_running,
                chunk_tokens,
                block_tokens: 16,
                prefill: match shortest {
                    true => PrefillOrder::Shortest,
                    false => PrefillOrder::Fcfs,
                },
                eviction: match lease {
                    true => Eviction::LeaseEnd,
                    false => Eviction::Lru,
                },
                host: host.map(|(capacity_tokens, load_ps)| HostTier {
                    capacity_tokens,
                    load_ps,
                }),
                shared_tokens,
                step: StepCost::default(),
            }
        },
    )
}

fn workload() -> Workload {
    let shape = SessionShape {
        sessions: 4,
        turns: 12.0,
        block_tokens: 16,
        system_prompts: 0,
        added_tokens: 150,
        output_tokens: 40,
        ..SessionShape::default()
    };
    generate(&shape, 5).unwrap()
}

/// How the clock is driven.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    /// From event to event.
    Events,
    /// One step after the other, nothing foreseen.
    Steps,
}

struct Run {
    events: Vec<EngineEvent>,
    stats: ExtentStats,
    gaps: Histogram,
    running: u64,
    resident: u64,
}

fn run(config: &ExtentConfig, workload: &Workload, calls: &[(Nanos, Call)], pace: Pace) -> Run {
    let mut content = Content::new(workload, NonZeroU32::new(16).unwrap()).unwrap();
    let mut engine = ExtentEngine::new(config.clone());
    let mut events = Vec::new();
    let mut turns: Vec<Vec<u32>> = vec![Vec::new(); 4];
    for (index, turn) in workload.turns().iter().enumerate() {
        turns[turn.session as usize].insert(0, index as u32);
    }
    let until = |engine: &mut ExtentEngine, content: &mut Content<'_>, at, events: &mut _| {
        while pace == Pace::Steps && engine.next_event().is_some_and(|next| next < at) {
            engine.look_again();
            let next = engine.next_event().unwrap();
            if next >= at {
                break;
            }
            engine.settle(next, content, events);
            engine.begin(content, events);
        }
        if pace == Pace::Steps {
            engine.look_again();
        }
        engine.settle(at, content, events);
    };
    let mut at = 0;
    for (id, (wait, call)) in (1u64..).zip(calls) {
        at += wait;
        until(&mut engine, &mut content, at, &mut events);
        match *call {
            Call::Turn(session) => {
                let Some(turn) = turns[session as usize].pop() else {
                    continue;
                };
                let info = &workload.turns()[turn as usize];
                let request = ExtentRequest {
                    id,
                    session: session.into(),
                    turn,
                    prompt: info.input_tokens,
                    output: info.output_tokens,
                };
                engine.submit(at, request, &mut content, &mut events);
            }
            Call::Cancel(back) => engine.cancel(id.saturating_sub(back), &mut events),
        }
        engine.begin(&mut content, &mut events);
    }
    while let Some(next) = engine.next_event() {
        let at = next.max(engine.now);
        until(&mut engine, &mut content, at, &mut events);
        engine.begin(&mut content, &mut events);
        assert!(engine.contexts.resident() <= config.capacity_tokens);
    }
    Run {
        events,
        stats: engine.stats,
        gaps: engine.gaps.clone(),
        running: engine.contexts.running(),
        resident: engine.contexts.resident(),
    }
}

proptest! {
    #[test]
    fn a_skipped_step_is_the_step_and_all_room_comes_back(config in configs(), calls in calls()) {
        let workload = workload();
        let skipped = run(&config, &workload, &calls, Pace::Events);
        let stepped = run(&config, &workload, &calls, Pace::Steps);
        prop_assert_eq!(&skipped.events, &stepped.events);
        prop_assert_eq!(skipped.stats, stepped.stats);
        prop_assert!(skipped.gaps == stepped.gaps);
        prop_assert_eq!(skipped.running, 0);
        prop_assert!(skipped.resident <= config.capacity_tokens);
        let mut ends: HashMap<u64, u32> = HashMap::new();
        let mut made = 0;
        for event in &skipped.events {
            if let EventKind::Ended { id, produced, .. } = event.kind {
                *ends.entry(id).or_default() += 1;
                made += u64::from(produced);
            }
        }
        prop_assert!(ends.values().all(|&count| count == 1));
        prop_assert_eq!(made, skipped.stats.output_tokens);
    }
}

#[test]
fn the_next_turn_finds_what_the_last_one_left() {
    let workload = workload();
    let config = ExtentConfig {
        capacity_tokens: 100_000,
        ..ExtentConfig::default()
    };
    let mut content = Content::new(&workload, NonZeroU32::new(16).unwrap()).unwrap();
    let mut engine = ExtentEngine::new(config.clone());
    let mut events = Vec::new();
    let session = workload.turns()[0].session;
    let turns = workload.turns().iter().enumerate();
    let own: Vec<usize> = turns
        .filter(|(_, turn)| turn.session == session)
        .map(|(index, _)| index)
        .collect();
    let mut at = 0;
    for (id, &turn) in own[..2].iter().enumerate() {
        let info = &workload.turns()[turn];
        let request = ExtentRequest {
            id: id as u64,
            session: 0,
            turn: turn as u32,
            prompt: info.input_tokens,
            output: info.output_tokens,
        };
        engine.settle(at, &mut content, &mut events);
        engine.submit(at, request, &mut content, &mut events);
        engine.begin(&mut content, &mut events);
        let began = at;
        while let Some(next) = engine.next_event() {
            at = next.max(at);
            engine.settle(at, &mut content, &mut events);
            engine.begin(&mut content, &mut events);
        }
        let cached = events.iter().rev().find_map(|event| match event.kind {
            EventKind::Admitted { cached_tokens, .. } => Some(cached_tokens),
            _ => None,
        });
        let cached = cached.unwrap();
        if id == 1 {
            let first = &workload.turns()[own[0]];
            assert_eq!(cached, first.input_tokens / 16 * 16);
        }
        let alone = config.alone_ns(info.input_tokens, cached, info.output_tokens);
        assert!(
            (at - began).abs_diff(alone) < MS / 100,
            "{} {alone}",
            at - began
        );
        at += MS;
    }
}

#[test]
fn what_all_prompts_begin_with_is_there_once_and_stays() {
    let workload = workload();
    let config = ExtentConfig {
        capacity_tokens: 1_000,
        shared_tokens: 64,
        ..ExtentConfig::default()
    };
    let mut content = Content::new(&workload, NonZeroU32::new(16).unwrap()).unwrap();
    let mut engine = ExtentEngine::new(config);
    let mut events = Vec::new();
    let mut submit = |engine: &mut ExtentEngine, session, prompt| {
        let request = ExtentRequest {
            id: session,
            session,
            turn: 0,
            prompt,
            output: 1,
        };
        engine.submit(engine.now, request, &mut content, &mut events);
        engine.begin(&mut content, &mut events);
        engine.settle(engine.now + 1_000 * MS, &mut content, &mut events);
        events.drain(..).find_map(|event| match event.kind {
            EventKind::Admitted { cached_tokens, .. } => Some(cached_tokens),
            _ => None,
        })
    };
    assert_eq!(
        submit(&mut engine, 1, 500),
        Some(64),
        "a session that is new"
    );
    assert_eq!(engine.contexts.resident(), 436);
    assert_eq!(submit(&mut engine, 2, 1_001), None, "it can never run");
    assert_eq!(
        submit(&mut engine, 3, 999),
        Some(64),
        "all but a token makes room"
    );
    assert_eq!(engine.contexts.resident(), 936);
    assert_eq!(
        submit(&mut engine, 4, 40),
        Some(39),
        "a prompt that is less"
    );
}
