//! Public traces, read whole, against what is known of them. They are not part of the project: where
//! they are absent the tests say so and pass.
use std::path::{Path, PathBuf};

use warmpath_trace::{Format, Moment, Options, SideChains, Start, Workload, read};

fn data(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is not there", path.display());
    None
}

fn load(path: PathBuf, format: Format) -> Workload {
    let loaded = read(&[path], &Options::default()).expect("reads without a fault");
    assert!(loaded.report.skipped.is_empty());
    assert!(
        loaded
            .report
            .files
            .iter()
            .all(|(_, found)| *found == format)
    );
    loaded.workload
}

fn input_tokens(workload: &Workload) -> u64 {
    workload
        .turns()
        .iter()
        .map(|turn| u64::from(turn.input_tokens))
        .sum()
}

/// Share of the blocks that an infinite cache would have had.
fn reuse(workload: &Workload) -> f64 {
    let blocks = (0..workload.turns().len()).map(|turn| u64::from(workload.block_count(turn)));
    let blocks: u64 = blocks.sum();
    1.0 - f64::from(workload.distinct_blocks()) / blocks as f64
}

#[test]
fn mooncake_is_read_whole() {
    let Some(path) = data("mooncake/conversation_trace.jsonl.gz") else {
        return;
    };
    let workload = load(path, Format::Mooncake);
    assert_eq!(workload.turns().len(), 12_031);
    assert_eq!(workload.sessions().len(), 12_031);
    assert_eq!(workload.block_tokens().get(), 512);
    assert!(
        workload
            .turns()
            .iter()
            .all(|turn| matches!(turn.start, Start::At(_)))
    );
    assert!(
        (reuse(&workload) - 0.366).abs() < 0.001,
        "{}",
        reuse(&workload)
    );
    let mut blocks = Vec::new();
    workload.read_blocks(1, &mut blocks);
    assert_eq!(blocks, [&[0][..], &(14..28).collect::<Vec<u32>>()].concat());
}

#[test]
fn all_coding_sessions_are_read() {
    let Some(path) = data("claude-code-sessions") else {
        return;
    };
    let workload = load(path, Format::Weka);
    assert_eq!(workload.turns().len(), 6_397);
    let tops = workload
        .sessions()
        .iter()
        .filter(|session| session.parent.is_none());
    assert_eq!(
        tops.count(),
        96 + 2,
        "two chains share nothing with their file"
    );
    let agents = workload
        .sessions()
        .iter()
        .filter(|session| session.name.contains("agent_"));
    assert_eq!(agents.count(), 25);
    assert_eq!(input_tokens(&workload), 690_822_560);
    assert!(
        (reuse(&workload) - 0.959).abs() < 0.003,
        "{}",
        reuse(&workload)
    );
}

#[test]
fn side_chains_stay_in_their_session_if_they_are_kept() {
    let Some(path) = data("claude-code-sessions/trace_0582.json.gz") else {
        return;
    };
    let turns = |side_chains| {
        let options = Options {
            side_chains,
            ..Options::default()
        };
        let loaded = read(std::slice::from_ref(&path), &options).expect("reads without a fault");
        (
            loaded.workload.sessions().len(),
            loaded.workload.turns().len(),
        )
    };
    let (split, kept) = (turns(SideChains::Split), turns(SideChains::Kept));
    assert!(split.0 > 1);
    assert_eq!(kept, (1, split.1));
}

#[test]
fn the_next_turn_waits_for_the_end_and_the_gap() {
    let Some(path) = data("claude-code-sessions/trace_0004.json.gz") else {
        return;
    };
    let workload = load(path, Format::Weka);
    let turns = workload.turns();
    let main = turns
        .iter()
        .enumerate()
        .filter(|(_, turn)| turn.session == 0);
    let main: Vec<usize> = main.map(|(index, _)| index).collect();
    let [wait] = workload.waits(turns[main[1]].start) else {
        panic!("one wait")
    };
    assert_eq!((wait.turn as usize, wait.moment), (main[0], Moment::End));
    // Recorded: from 0 s on, answered in 15.87 s, and the next one at 51 s.
    assert_eq!(wait.delay.0, 35_130_000);
    assert_eq!(workload.not_before(turns[main[1]].start).0, 51_000_000);
}

#[test]
fn spans_fan_out_and_in() {
    let Some(path) = data("otel-sessions/fan_in_dependencies.json") else {
        return;
    };
    let workload = load(path, Format::Otel);
    assert_eq!(workload.sessions().len(), 1);
    assert_eq!(&*workload.sessions()[0].name, "session_003");
    let waits = |turn: usize| {
        let waits = workload.waits(workload.turns()[turn].start);
        waits
            .iter()
            .map(|wait| (wait.turn, wait.moment, wait.delay.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(waits(0), []);
    assert_eq!(waits(1), [(0, Moment::End, 500_000)]);
    assert_eq!(waits(2), [(0, Moment::End, 1_000_000)]);
    assert_eq!(
        waits(3),
        [(1, Moment::End, 1_000_000), (2, Moment::End, 1_000_000)]
    );
}

#[test]
fn all_spans_are_read() {
    let Some(path) = data("otel-sessions") else {
        return;
    };
    let workload = load(path, Format::Otel);
    assert_eq!(workload.turns().len(), 15 + 9 + 4 + 12 + 5);
    assert_eq!(workload.sessions().len(), 5);
    // Prompts of a few hundred bytes share few whole blocks.
    assert!(reuse(&workload) > 0.04, "{}", reuse(&workload));
}
