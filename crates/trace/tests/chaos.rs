//! Any bytes at all: every reader answers with a workload or an error, never with a panic, and what
//! it gives can be read.
mod common;

use std::fs;
use std::path::Path;

use common::{fixture, lenient};
use proptest::prelude::*;
use warmpath_trace::{Format, Leniency, Options, read_bytes};

const FORMATS: [Format; 6] = [
    Format::RequestTrace,
    Format::Mooncake,
    Format::Weka,
    Format::Otel,
    Format::ClaudeCode,
    Format::Codex,
];

const SPAN: &str = r#"{"trace_id":"t","spans":[{"trace_id":"t","span_id":"s","start_time":"2026-02-25T10:00:00.5","end_time":"2026-02-25T10:00:02Z","attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":"[{\"role\":\"user\",\"content\":\"hello\"}]","gen_ai.output.text":"hi"}},{"trace_id":"t","span_id":"u","start_time":"2026-02-25T10:00:01.5","end_time":"2026-02-25T10:00:02+00:00","attributes":{"gen_ai.operation.name":"chat","gen_ai.usage.input_tokens":70,"gen_ai.usage.output_tokens":7}}]}"#;

fn valid(format: Format) -> Vec<Vec<u8>> {
    let names: &[&str] = match format {
        Format::RequestTrace => &["request-trace.jsonl"],
        Format::Mooncake => &[
            "mooncake-sessions.jsonl",
            "agentic-v1.jsonl",
            "agentic-v2.jsonl",
        ],
        Format::Weka => &["weka.json"],
        Format::ClaudeCode => &["claude-code/5d88d25b-cc65-4c90-80a7-e0045bdd64d6.jsonl"],
        Format::Codex => &[
            "codex/2026/11/30/rollout-2026-11-30T05-55-49-01a22b06-1a1a-7f82-bd56-039994fb1f29.jsonl",
        ],
        _ => return vec![SPAN.as_bytes().to_vec()],
    };
    names
        .iter()
        .map(|name| fs::read(fixture(name)).expect("fixture"))
        .collect()
}

/// Reads as each format and by looking, strict and lenient, and looks at what comes out.
fn read_all(bytes: &[u8]) {
    for format in FORMATS.map(Some).into_iter().chain([None]) {
        for leniency in [Leniency::Strict, Leniency::Lenient] {
            let options = Options {
                format,
                leniency,
                ..Options::default()
            };
            let Ok(loaded) = read_bytes(Path::new("chaos"), bytes, &options) else {
                continue;
            };
            let workload = loaded.workload;
            let mut blocks = Vec::new();
            for (index, turn) in workload.turns().iter().enumerate() {
                workload.read_blocks(index, &mut blocks);
                assert!(
                    blocks
                        .iter()
                        .all(|block| *block < workload.distinct_blocks())
                );
                assert!((turn.session as usize) < workload.sessions().len());
                assert!(turn.input_tokens > 0 && turn.output_tokens > 0);
                let waits = workload.waits(turn.start);
                assert!(waits.iter().all(|wait| (wait.turn as usize) < index));
            }
            let mut sessions = workload.sessions().iter().enumerate();
            assert!(
                sessions.all(|(at, session)| session
                    .parent
                    .is_none_or(|parent| (parent as usize) < at))
            );
        }
    }
}

/// A change to a valid file.
#[derive(Clone, Debug)]
enum Change {
    Byte(prop::sample::Index, u8),
    Cut(prop::sample::Index, prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
    Number(prop::sample::Index, &'static str),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    let numbers = prop::sample::select(vec![
        "-1",
        "0",
        "1e308",
        "4294967295",
        "18446744073709551615",
        "0.1",
        "null",
        "\"x\"",
        "[]",
        "{}",
        "true",
    ]);
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (index(), index()).prop_map(|(from, until)| Change::Cut(from, until)),
        (index(), index()).prop_map(|(from, until)| Change::Repeat(from, until)),
        (index(), numbers).prop_map(|(at, number)| Change::Number(at, number)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    let range = |from: &prop::sample::Index, until: &prop::sample::Index| {
        let (from, until) = (from.index(bytes.len()), until.index(bytes.len()));
        from.min(until)..from.max(until)
    };
    match change {
        Change::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Cut(from, until) => {
            let range = range(from, until);
            bytes.drain(range);
        }
        Change::Repeat(from, until) => {
            let range = range(from, until);
            let part = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, part);
        }
        Change::Number(at, number) => {
            let at = at.index(bytes.len());
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let Some(from) = bytes[at..].iter().position(is_digit).map(|from| at + from) else {
                return;
            };
            let len = bytes[from..]
                .iter()
                .take_while(|byte| is_digit(byte))
                .count();
            bytes.splice(from..from + len, number.bytes());
        }
    }
}

#[test]
fn the_valid_files_are_valid() {
    for format in FORMATS {
        for bytes in valid(format) {
            let loaded =
                read_bytes(Path::new("valid"), &bytes, &Options::default()).expect("valid");
            assert_eq!(loaded.report.files[0].1, format);
            assert!(
                read_bytes(Path::new("valid"), &bytes, &lenient())
                    .expect("valid")
                    .report
                    .skipped
                    .is_empty()
            );
            read_all(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
        let mut compressed = vec![0x1f, 0x8b];
        compressed.extend(&bytes);
        read_all(&compressed);
    }

    #[test]
    fn damaged_files(
        format in prop::sample::select(FORMATS.to_vec()),
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let files = valid(format);
        let mut bytes = which.get(&files).clone();
        for change in &changes {
            apply(&mut bytes, change);
        }
        read_all(&bytes);
    }
}
