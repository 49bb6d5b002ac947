//! Each format, read from a committed file: the whole workload.
mod common;

use std::fs;
use std::path::Path;

use common::{fixture, show};
use warmpath_trace::{
    Format, Leniency, Options, PerfettoWriter, Record, Workload, for_each, read, read_bytes,
    records,
};

fn load(name: &str, format: Format) -> Workload {
    let loaded = read(&[fixture(name)], &Options::default()).expect("reads");
    assert!(
        loaded
            .report
            .files
            .iter()
            .all(|(_, found)| *found == format)
    );
    loaded.workload
}

#[test]
fn mooncake_rows_arrive_or_follow() {
    let workload = load("mooncake-sessions.jsonl", Format::Mooncake);
    assert_eq!(workload.block_tokens().get(), 512);
    let want = "\
s at 10000 700->50 Unknown [0, 1]
turn 1 at 20250 500->1 End [0]
s end(0)+30000 1300->50 Unknown [0, 1, 2]
s end(2)+100000 1400->50 Unknown []
s end(3)+50000 1500->50 End [0, 1, 2]
";
    assert_eq!(show(&workload), want);
}

#[test]
fn agentic_rows_wait_for_what_they_name() {
    let want = "\
main at 5500 1000->20 Unknown [0, 1]
child<main end(0)+3000 600->1 End [0, 3]
main end(0)+42000 end(1)+42000 1400->20 End [0, 1, 2]
";
    assert_eq!(show(&load("agentic-v1.jsonl", Format::Mooncake)), want);
}

#[test]
fn typed_dependencies_and_ids_of_plays() {
    let workload = load("agentic-v2.jsonl", Format::Mooncake);
    assert_eq!(workload.block_tokens().get(), 64);
    let want = "\
p:root at 0 130->9 Unknown [0, 1, 2]
p:sub<p:root start(0)+200000 64->9 End [0]
p:root end(0)+100500 end(1)+0 200->9 End [0, 1, 3]
q:root at 10000 64->9 End [4]
";
    assert_eq!(show(&workload), want);
}

#[test]
fn weka_sessions_spawn_and_join() {
    let want = "\
w at 0 9->4 Tool [0, 1]
w/a.0<w start(0)+500000 4->1 Tool [3]
w/side.1<w end(0)+250000 end(1)+0 5->1 End [0]
w/a.0<w end(1)+1500000 end(0)+0 end(2)+0 8->1 End [3, 4]
w end(0)+3000000 end(2)+0 end(3)+0 12->1 End [0, 1, 2]
";
    let workload = load("weka.json", Format::Weka);
    assert_eq!(workload.block_tokens().get(), 4);
    assert_eq!(show(&workload), want);
}

/// Requests of one session: time in seconds, blocks; each takes a second.
fn weka(requests: &[(u32, &[u64])]) -> String {
    let entries = requests.iter().map(|(t, blocks)| {
        let tokens = blocks.len() * 4;
        format!(
            r#"{{"type":"n","t":{t},"api_time":1,"model":"m","in":{tokens},"out":1,"hash_ids":{blocks:?}}}"#
        )
    });
    let entries: Vec<String> = entries.collect();
    format!(
        r#"{{"id":"w","block_size":4,"requests":[{}]}}"#,
        entries.join(",")
    )
}

#[test]
fn side_chains_hang_where_they_have_most_in_common() {
    let text = weka(&[
        (0, &[1, 2, 3, 4]),
        // Shares two blocks with the chain, which goes on with three.
        (10, &[1, 2, 9, 9, 9]),
        // Has nothing in common with anybody.
        (20, &[7, 8]),
        // Has most in common with the side chain, which goes on as well.
        (30, &[1, 2, 9, 6]),
        (40, &[1, 2, 9, 9, 9, 5]),
        (50, &[1, 2, 3, 6]),
    ]);
    let bytes = text.as_bytes();
    let loaded = read_bytes(Path::new("w.json"), bytes, &Options::default()).expect("a session");
    let want = "\
w at 0 16->1 Unknown [0, 1, 2, 3]
w/side.1<w end(0)+9000000 20->1 Unknown [0, 1, 4, 4, 4]
w/side.2 at 20000000 8->1 End [5, 6]
w/side.3<w/side.1 end(1)+19000000 end(0)+0 end(2)+0 16->1 End [0, 1, 4, 7]
w/side.1<w end(1)+29000000 end(3)+0 end(0)+0 end(2)+0 24->1 End [0, 1, 4, 4, 4, 8]
w end(0)+49000000 end(4)+0 end(2)+0 16->1 End [0, 1, 2, 7]
";
    assert_eq!(show(&loaded.workload), want);
}

#[test]
fn request_traces_of_both_makers() {
    let want = "\
main at 0 100->10 Tool [0, 1]
child<main end(0)+2000000 70->1 End [0, 2]
main end(0)+1000250 end(1)+1000250 170->5 End [0, 1, 3]
";
    assert_eq!(
        show(&load("request-trace.jsonl", Format::RequestTrace)),
        want
    );
}

#[test]
fn transcripts_of_claude_code_with_a_sub_agent() {
    let workload = load("claude-code", Format::ClaudeCode);
    let names: Vec<&str> = workload
        .sessions()
        .iter()
        .map(|session| &*session.name)
        .collect();
    let session = "5d88d25b-cc65-4c90-80a7-e0045bdd64d6";
    assert_eq!(names, [session, &format!("{session}/a6e14ffe5acd6bbbb")]);
    assert_eq!(workload.sessions()[1].parent, Some(0));
    let shown = show(&workload).replace(session, "s");
    let heads: Vec<&str> = shown
        .lines()
        .map(|line| line.split(" [").next().unwrap_or(""))
        .collect();
    assert_eq!(
        heads,
        [
            "s at 0 16000->20 Tool",
            "s/a6e14ffe5acd6bbbb<s end(0)+27000 9000->20 Tool",
            "s/a6e14ffe5acd6bbbb<s end(1)+79000 9700->3 End",
            "s end(0)+10000 end(2)+10000 16700->3 End",
        ]
    );
    let (mut first, mut last) = (Vec::new(), Vec::new());
    workload.read_blocks(0, &mut first);
    workload.read_blocks(3, &mut last);
    assert_eq!((first.len(), last.len()), (16_000 / 64, 16_700 / 64));
    assert_eq!(first[..], last[..first.len()]);
}

#[test]
fn rollouts_of_codex_with_a_sub_agent() {
    let workload = load("codex", Format::Codex);
    assert_eq!(workload.sessions()[1].parent, Some(0));
    let shown = show(&workload);
    let heads = shown.lines().map(|line| {
        let head = line.split(" [").next().unwrap_or("");
        head.split_once(' ').map_or("", |(_, rest)| rest)
    });
    assert_eq!(
        heads.collect::<Vec<_>>(),
        [
            "at 0 12000->5 Tool",
            "end(0)+40000 12700->5 Tool",
            "start(1)+4000 11000->5 End",
            "end(1)+26000 end(2)+26000 13400->5 End",
        ]
    );
    assert!(workload.distinct_blocks() < 2 * 13_400 / 64);
}

/// Before it had lines of its own, usage was an event, after the tool's output and repeated.
#[test]
fn older_rollouts_give_the_same() {
    let path = "codex/2026/11/30/\
                rollout-2026-11-30T05-55-49-01a22b06-1a1a-7f82-bd56-039994fb1f29.jsonl";
    let path = fixture(path);
    let text = fs::read_to_string(&path).expect("fixture");
    let new = read_bytes(&path, text.as_bytes(), &Options::default()).expect("new");
    let mut old = String::new();
    for line in text
        .lines()
        .filter(|line| !line.contains("token_usage_record"))
    {
        let times = 1 + usize::from(line.contains("\"token_count\""));
        for _ in 0..times {
            old.push_str(line);
            old.push('\n');
        }
    }
    let old = read_bytes(&path, old.as_bytes(), &Options::default()).expect("old");
    assert_eq!(show(&old.workload), show(&new.workload));
}

#[test]
fn what_a_resumed_session_copied_counts_once() {
    let name = "claude-code/5d88d25b-cc65-4c90-80a7-e0045bdd64d6.jsonl";
    let once = read(&[fixture(name)], &Options::default()).expect("once");
    let twice = read(&[fixture(name), fixture(name)], &Options::default()).expect("twice");
    assert_eq!(once.workload, twice.workload);
    assert_eq!(twice.report.files.len(), 2);
}

#[test]
fn the_stream_shows_what_the_workload_has() {
    let mut ids = Vec::new();
    let sources = [fixture("request-trace.jsonl"), fixture("agentic-v1.jsonl")];
    let report =
        for_each(&sources, &Options::default(), &mut |turn| ids.push(turn.id)).expect("reads");
    assert_eq!(
        ids,
        ["r1", "r2", "r3", "a", "c", "b"].map(|id| Some(id.to_owned()))
    );
    assert_eq!(report.files.len(), 2);
}

#[test]
fn the_same_bytes_give_the_same_workload() {
    for name in [
        "claude-code",
        "codex",
        "weka.json",
        "agentic-v2.jsonl",
        "request-trace.jsonl",
    ] {
        let [a, b] = [(); 2].map(|()| read(&[fixture(name)], &Options::default()).expect(name));
        assert_eq!(show(&a.workload), show(&b.workload));
        assert_eq!(a.workload, b.workload);
    }
}

#[test]
fn a_picture_has_a_track_for_each_session_and_worker() {
    let mut writer = PerfettoWriter::new(Vec::new()).expect("to memory");
    let mut draw = |record: Record, _: &Path, _| {
        writer.write(&record).expect("to memory");
        Ok(())
    };
    records(
        &[fixture("request-trace.jsonl")],
        Leniency::Strict,
        &mut draw,
    )
    .expect("reads");
    let picture = writer.finish().expect("to memory");
    let picture: serde_json::Value = serde_json::from_slice(&picture).expect("JSON");
    let events = picture["traceEvents"].as_array().expect("events");
    // Of the clock; what has no time of its own is at 0.
    let times = events.iter().filter_map(|event| event["ts"].as_f64());
    let zero = times.filter(|&time| time > 0.0).fold(f64::MAX, f64::min);
    assert!(zero > 1e15, "{zero}");
    let since = |time: f64| if time > 0.0 { time - zero } else { time };
    let shown = events.iter().map(|event| {
        let named = event["args"]["name"]
            .as_str()
            .map(|name| format!("={name}"));
        format!(
            "{}{} {} {}/{} {} {}",
            event["name"].as_str().unwrap_or(""),
            named.unwrap_or_default(),
            event["ph"].as_str().unwrap_or(""),
            event["pid"],
            event["tid"],
            event["ts"]
                .as_f64()
                .map_or("null".to_owned(), |time| format!("{:?}", since(time))),
            event["dur"]
        )
    });
    let want = "\
process_name=sessions M 1/0 0.0 null
process_name=workers M 2/0 0.0 null
thread_name=main M 1/1 0.0 null
turn X 1/1 0.0 2000000.0
prefill X 1/1 0.0 150500.0
decode X 1/1 150500.0 1849500.0
thread_name=worker 7 M 2/1 0.0 null
main b 2/1 0.0 null
main e 2/1 2000000.0 null
thread_name=child M 1/2 0.0 null
turn X 1/2 4000000.0 3000000.0
turn 1 X 1/1 8000250.0 999750.0
hold X 1/1 8000250.0 12500.0
prefill X 1/1 8012750.0 487250.0
decode X 1/1 8500000.0 500000.0";
    assert_eq!(shown.collect::<Vec<_>>().join("\n"), want);
}
