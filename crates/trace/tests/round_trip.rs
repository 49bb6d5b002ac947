//! What is written is read as the same workload, or the same record.
use std::num::NonZeroU32;
use std::path::Path;

use proptest::prelude::*;
use warmpath_core::Micros;
use warmpath_trace::{
    AgentContext, Event, Extras, FinishReason, Moment, NewStart, NewTurn, Next, Options,
    PerfettoWriter, PhaseAfter, REQUEST_TRACE_SCHEMA, Record, RecordWriter, Replay, Request,
    RequestTiming, Timings, ToolCall, Wait, Warmpath, WorkerInfo, Workload, WorkloadBuilder, read,
    read_bytes, write_agentic, write_mooncake,
};

const BLOCK: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// A turn to be made: which session, its sizes, blocks and what it waits for.
#[derive(Clone, Debug)]
struct Plan {
    session: prop::sample::Index,
    new_session: bool,
    has_parent: bool,
    input: u32,
    output: u32,
    keep: usize,
    fresh: usize,
    next: Next,
    waits: Vec<(prop::sample::Index, bool, u64)>,
    at: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let next = prop_oneof![Just(Next::Tool), Just(Next::Person), Just(Next::Unknown)];
    let waits = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<bool>(), 0..1u64 << 40),
        1..4,
    );
    let sizes = (0u32..200, 1u32..500, 0usize..8, 0usize..6);
    (
        any::<prop::sample::Index>(),
        any::<bool>(),
        any::<bool>(),
        sizes,
        next,
        waits,
        0..1u64 << 30,
    )
        .prop_map(
            |(session, new_session, has_parent, (extra, output, keep, fresh), next, waits, at)| {
                Plan {
                    session,
                    new_session,
                    has_parent,
                    input: extra,
                    output,
                    keep,
                    fresh,
                    next,
                    waits,
                    at,
                }
            },
        )
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Sessions in which each turn follows the one before.
    Loops,
    /// Anything.
    Graph,
}

fn workload(plans: &[Plan], shape: Shape) -> Workload {
    let mut builder = WorkloadBuilder::new(BLOCK);
    let mut sessions = 0u32;
    let mut arrived = 0u64;
    let mut prompts: Vec<Vec<u32>> = Vec::new();
    let mut fresh_block = 0u32;
    for plan in plans {
        let session = if sessions == 0 || plan.new_session {
            let parent = (plan.has_parent && sessions > 0)
                .then(|| plan.session.index(sessions as usize) as u32);
            prompts.push(Vec::new());
            sessions += 1;
            builder
                .add_session(&format!("s{}", sessions - 1), parent)
                .expect("new")
        } else {
            plan.session.index(sessions as usize) as u32
        };
        let prompt = &mut prompts[session as usize];
        prompt.truncate(prompt.len().saturating_sub(plan.keep));
        prompt.extend(fresh_block..fresh_block + plan.fresh as u32);
        fresh_block += plan.fresh as u32;
        let last = builder.last_turn(session);
        let waits: Vec<Wait> = match (shape, last) {
            (Shape::Loops, last) => last
                .into_iter()
                .map(|turn| Wait {
                    turn,
                    moment: Moment::End,
                    delay: Micros(plan.waits[0].2),
                })
                .collect(),
            (Shape::Graph, _) if builder.turns() == 0 || plan.at % 3 == 0 => Vec::new(),
            (Shape::Graph, _) => plan
                .waits
                .iter()
                .map(|(turn, starts, delay)| Wait {
                    turn: turn.index(builder.turns() as usize) as u32,
                    moment: if *starts { Moment::Start } else { Moment::End },
                    delay: Micros(*delay),
                })
                .collect(),
        };
        let start = if waits.is_empty() {
            arrived += plan.at;
            NewStart::At(Micros(arrived))
        } else {
            NewStart::After(&waits)
        };
        let turn = NewTurn {
            session,
            input_tokens: prompt.len() as u32 * BLOCK.get() + plan.input + 1,
            output_tokens: plan.output,
            next: plan.next,
            blocks: prompt,
            start,
        };
        builder.add_turn(&turn).expect("right by construction");
    }
    builder.finish()
}

fn again(bytes: &[u8]) -> Workload {
    let loaded = read_bytes(Path::new("written.jsonl"), bytes, &Options::default());
    loaded.expect("what was written is read").workload
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 \\-_:/\\\\\"é\u{1F600}]{1,12}"
}

fn millis() -> impl Strategy<Value = f64> {
    (0u64..4_000_000_000_000_000).prop_map(|micros| micros as f64 / 1_000.0)
}

fn record() -> impl Strategy<Value = Record> {
    let who = (
        text(),
        prop::option::of(text()),
        prop::option::of(any::<bool>()),
    );
    let sizes = (
        1u64..100_000,
        0u64..10_000,
        prop::collection::vec(any::<u64>(), 0..6),
    );
    let times = (millis(), 0u64..1 << 32, prop::option::of(0u64..1 << 20));
    (
        any::<u64>(),
        who,
        sizes,
        times,
        prop::option::of(any::<bool>()),
    )
        .prop_map(
            |(
                id,
                (session, parent, session_final),
                (input, output, hashes),
                (received, took, first),
                ours,
            )| {
                let end = received + took as f64 / 1_000.0;
                let parent = parent.filter(|parent| *parent != session);
                Record {
                    timestamp: took as f64 / 8.0,
                    event: Event {
                        schema: REQUEST_TRACE_SCHEMA.to_owned(),
                        event_type: "request_end".to_owned(),
                        event_time_unix_ms: end as u64,
                        event_source: None,
                        agent_context: Some(AgentContext {
                            session_id: session.clone(),
                            parent_session_id: parent.clone(),
                            session_final,
                        }),
                        request: Some(Request {
                            request_id: format!("r{id}"),
                            model: Some("m".to_owned()),
                            input_tokens: Some(input + 64 * hashes.len() as u64),
                            output_tokens: Some(output),
                            cached_tokens: first,
                            timing: RequestTiming {
                                request_received_ms: Some(received as u64),
                                total_time_ms: Some(took as f64 / 1_000.0),
                                ..RequestTiming::default()
                            },
                            worker: Some(WorkerInfo {
                                decode_worker_id: first,
                                ..WorkerInfo::default()
                            }),
                            replay: Some(Replay {
                                trace_block_size: 64,
                                input_length: input + 64 * hashes.len() as u64,
                                input_sequence_hashes: hashes,
                            }),
                            finish_reason_metadata: Some(FinishReason {
                                finish_reason: Some("stop".to_owned()),
                                tool_calls: vec![ToolCall {
                                    name: parent.clone(),
                                    ..ToolCall::default()
                                }],
                            }),
                            ..Request::default()
                        }),
                        warmpath: ours.map(|acting| Warmpath {
                            session: Some(session),
                            parent,
                            turn: Some(id),
                            phase: Some(if acting {
                                PhaseAfter::Acting
                            } else {
                                PhaseAfter::Reasoning
                            }),
                            predicted_cached_tokens: first,
                            tools: vec!["bash".to_owned()],
                            timings: Some(Timings {
                                received,
                                held: 0.25,
                                first_token: None,
                                end,
                            }),
                            receipt: Some(serde_json::json!({"candidates": [1, 2]})),
                            ..Warmpath::default()
                        }),
                    },
                }
            },
        )
}

proptest! {
    #[test]
    fn agentic_rows(plans in prop::collection::vec(plan(), 1..40)) {
        let workload = workload(&plans, Shape::Graph);
        let mut bytes = Vec::new();
        let written = write_agentic(&workload, "m", Extras::Keep, &mut bytes).expect("to memory");
        prop_assert_eq!(written.rows, plans.len() as u64);
        prop_assert_eq!(written.approximated, 0);
        prop_assert_eq!(again(&bytes), workload);
    }

    #[test]
    fn mooncake_rows(plans in prop::collection::vec(plan(), 1..40)) {
        let workload = workload(&plans, Shape::Loops);
        let mut bytes = Vec::new();
        let written = write_mooncake(&workload, Extras::Keep, &mut bytes).expect("to memory");
        prop_assert_eq!(written.approximated, 0);
        // Rows stand by arrival, which need not be the order that turns had: compare by session.
        let read = again(&bytes);
        prop_assert_eq!(by_session(&read), by_session(&workload));
        // And once they do, nothing changes any more.
        let mut second = Vec::new();
        write_mooncake(&read, Extras::Keep, &mut second).expect("to memory");
        prop_assert_eq!(again(&second), read);
    }

    #[test]
    fn mooncake_rows_of_any_workload(plans in prop::collection::vec(plan(), 1..40)) {
        let workload = workload(&plans, Shape::Graph);
        let mut bytes = Vec::new();
        write_mooncake(&workload, Extras::Keep, &mut bytes).expect("to memory");
        prop_assert_eq!(again(&bytes).turns().len(), plans.len());
    }

    #[test]
    fn records(records in prop::collection::vec(record(), 1..20)) {
        let mut writer = RecordWriter::new(Vec::new());
        let mut picture = PerfettoWriter::new(Vec::new()).expect("to memory");
        for record in &records {
            writer.write(record).expect("to memory");
            picture.write(record).expect("to memory");
        }
        let bytes = writer.into_inner();
        let text = String::from_utf8(bytes).expect("text");
        let read: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
        prop_assert_eq!(&read, &records);
        let mut rewritten = RecordWriter::new(Vec::new());
        for record in &read {
            rewritten.write(record).expect("to memory");
        }
        let rewritten = rewritten.into_inner();
        prop_assert_eq!(rewritten, text.as_bytes());
        let picture = picture.finish().expect("to memory");
        let picture: serde_json::Value = serde_json::from_slice(&picture).expect("JSON");
        prop_assert!(picture["traceEvents"].as_array().is_some_and(|events| events.len() > 2));
    }
}

/// Sessions that begin at one time stand in the order of their files, however long their first turns took.
#[test]
fn several_files_in_one_keep_their_order() {
    let line = |session: &str, at: u64, end: u64| {
        format!(
            r#"{{"timestamp":{end},"event":{{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":{end},"request":{{"request_id":"{session}{at}","input_tokens":64,"output_tokens":1}},"warmpath":{{"session":"{session}","timings":{{"received":{at}.0,"end":{end}.0}}}}}}}}"#
        )
    };
    let folder = std::env::temp_dir().join(format!("warmpath-order-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = [("a", 90), ("b", 50), ("c", 70)].map(|(session, end)| {
        let path = folder.join(session);
        let text = [line(session, 10, end), line(session, 100, 120)].join("\n");
        std::fs::write(&path, text).expect("written");
        path
    });
    let first = read(&files, &Options::default()).expect("reads").workload;
    let names = |workload: &Workload| -> Vec<_> {
        workload
            .sessions()
            .iter()
            .map(|s| s.name.to_string())
            .collect()
    };
    assert_eq!(names(&first), ["a", "b", "c"]);
    let mut bytes = Vec::new();
    write_agentic(&first, "m", Extras::Keep, &mut bytes).expect("to memory");
    assert_eq!(again(&bytes), first);
    let mut bytes = Vec::new();
    write_mooncake(&first, Extras::Keep, &mut bytes).expect("to memory");
    assert_eq!(names(&again(&bytes)), ["a", "b", "c"]);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Each session with its turns: start, sizes, what comes next, and how many blocks each turn has in
/// common with the one before.
fn by_session(workload: &Workload) -> Vec<(String, Option<String>, Vec<String>)> {
    let name = |session: u32| workload.sessions()[session as usize].name.to_string();
    let mut all: Vec<(String, Option<String>, Vec<String>)> = Vec::new();
    for (index, session) in workload.sessions().iter().enumerate() {
        let mut turns = Vec::new();
        let mut before = Vec::new();
        for (at, turn) in workload.turns().iter().enumerate() {
            if turn.session as usize != index {
                continue;
            }
            let mut blocks = Vec::new();
            workload.read_blocks(at, &mut blocks);
            let common = blocks
                .iter()
                .zip(&before)
                .take_while(|(a, b)| a == b)
                .count();
            let start = match turn.start {
                warmpath_trace::Start::At(time) => format!("at {}", time.0),
                after => format!(
                    "{:?}",
                    workload
                        .waits(after)
                        .iter()
                        .map(|wait| wait.delay)
                        .collect::<Vec<_>>()
                ),
            };
            let (input, output, next) = (turn.input_tokens, turn.output_tokens, turn.next);
            turns.push(format!(
                "{start} {input} {output} {next:?} {common} of {}",
                blocks.len()
            ));
            before = blocks;
        }
        all.push((session.name.to_string(), session.parent.map(name), turns));
    }
    all.sort();
    all
}
