//! What is wrong with a trace: each kind by its name, with file and line, and what lenient makes of
//! the same bytes.
mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use common::{lenient, show};
use flate2::Compression;
use flate2::write::GzEncoder;
use warmpath_trace::{
    ErrorKind, Format, Leniency, Options, Place, Report, TraceError, read, read_bytes,
};

const ROW: &str = r#"{"timestamp":1,"input_length":600,"output_length":5,"hash_ids":[1,2]}"#;

fn strict(bytes: impl AsRef<[u8]>) -> TraceError {
    let result = read_bytes(Path::new("bad.jsonl"), bytes.as_ref(), &Options::default());
    result.expect_err("it is bad")
}

/// Kind and line of the error, and how many turns are left when it is skipped.
fn outcome(lines: &[&str]) -> (ErrorKind, Place, usize) {
    let text = lines.join("\n");
    let error = strict(&text);
    assert_eq!(error.file(), Path::new("bad.jsonl"));
    assert!(error.to_string().starts_with("bad.jsonl"), "{error}");
    let left = match read_bytes(Path::new("bad.jsonl"), text.as_bytes(), &lenient()) {
        Ok(loaded) => {
            let counted: Vec<_> = loaded.report.skipped.into_iter().collect();
            assert_eq!(counted, [(error.kind(), 1)]);
            loaded.workload.turns().len()
        }
        Err(left) => {
            assert_eq!((left.kind(), left.place()), (error.kind(), error.place()));
            0
        }
    };
    (error.kind(), error.place(), left)
}

#[test]
fn a_truncated_gzip_stream() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for time in 0..5_000 {
        let row = ROW.replacen('1', &time.to_string(), 1);
        writeln!(encoder, "{row}").expect("to memory");
    }
    let whole = encoder.finish().expect("to memory");
    let cut = &whole[..whole.len() / 2];
    let error = strict(cut);
    assert_eq!(error.kind(), ErrorKind::Truncated);
    let Place::Line(line) = error.place() else {
        panic!("{error}")
    };
    let loaded = read_bytes(Path::new("cut"), cut, &lenient()).expect("what was whole");
    assert_eq!(loaded.workload.turns().len() as u64, line - 1);
    assert_eq!(loaded.report.skipped[&ErrorKind::Truncated], 1);
}

#[test]
fn records_out_of_order() {
    let early = ROW.replace("\"timestamp\":1", "\"timestamp\":0.5");
    let got = outcome(&[ROW, &early, ROW]);
    assert_eq!(got, (ErrorKind::OutOfOrder, Place::Line(2), 2));
}

#[test]
fn unknown_versions() {
    let header = r#"{"schema":"dynamo.agentic_mooncake","version":3,"block_size":64}"#;
    assert_eq!(outcome(&[header, ROW]).0, ErrorKind::UnknownVersion);
    let record = r#"{"timestamp":0,"event":{"schema":"dynamo.request.trace.v2","event_type":"request_end","event_time_unix_ms":1}}"#;
    assert_eq!(
        outcome(&[record]),
        (ErrorKind::UnknownVersion, Place::Line(1), 0)
    );
}

#[test]
fn negative_times() {
    let row = ROW.replace(":1,", ":-1,");
    assert_eq!(
        outcome(&[&row, ROW]),
        (ErrorKind::NegativeTime, Place::Line(1), 1)
    );
    let weka = r#"{"id":"w","block_size":4,"requests":[{"t":-0.5,"type":"n","in":4,"out":1}]}"#;
    let error = strict(weka);
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::NegativeTime, Place::Record(1))
    );
}

#[test]
fn missing_fields() {
    for field in [
        "\"timestamp\":1,",
        "\"input_length\":600,",
        "\"output_length\":5,",
    ] {
        let row = ROW.replace(field, "");
        assert_eq!(
            outcome(&[ROW, &row]),
            (ErrorKind::MissingField, Place::Line(2), 1),
            "{field}"
        );
    }
    let error = strict(r#"{"id":"w","requests":[{"t":0,"type":"n","in":4,"out":1}]}"#);
    assert_eq!(error.kind(), ErrorKind::MissingField);
    let record = r#"{"timestamp":0,"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1,"request":{}}}"#;
    assert_eq!(strict(record).kind(), ErrorKind::MissingField);
}

#[test]
fn more_blocks_than_fit_name_the_option() {
    let row = ROW.replace("[1,2]", "[1,2,3]");
    assert_eq!(
        outcome(&[ROW, &row]),
        (ErrorKind::InvalidValue, Place::Line(2), 1)
    );
    let error = strict(&row).to_string();
    assert!(error.ends_with("read it with --block N"), "{error}");
    let said = row.replacen('{', r#"{"warmpath":{"block_tokens":200},"#, 1);
    let read = read_bytes(
        Path::new("said.jsonl"),
        said.as_bytes(),
        &Options::default(),
    );
    assert_eq!(
        read.expect("its size is said")
            .workload
            .block_tokens()
            .get(),
        200
    );
}

#[test]
fn mixed_block_sizes() {
    let record = |id: &str, tokens: u32| {
        format!(
            r#"{{"timestamp":0,"event":{{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,"request":{{"request_id":"{id}","input_tokens":64,"output_tokens":1,"total_time_ms":1,"replay":{{"trace_block_size":{tokens},"input_length":64,"input_sequence_hashes":[1]}}}}}}}}"#
        )
    };
    let got = outcome(&[&record("a", 64), &record("b", 32), &record("c", 64)]);
    assert_eq!(got, (ErrorKind::BlockSize, Place::Line(2), 2));
    let got = outcome(&[&record("a", 64), &record("a", 64)]);
    assert_eq!(got, (ErrorKind::Duplicate, Place::Line(2), 1));
}

#[test]
fn sessions_that_are_their_own_parents() {
    let row = |session: &str, parent: &str| {
        ROW.replace(
            "\"timestamp\"",
            &format!(r#""session_id":"{session}","warmpath":{{"parent":"{parent}"}},"timestamp""#),
        )
    };
    let got = outcome(&[ROW, &row("a", "a")]);
    assert_eq!(got, (ErrorKind::Parent, Place::Line(2), 1));
    let got = outcome(&[&row("a", "b"), &row("b", "c"), &row("c", "a")]);
    assert_eq!(got, (ErrorKind::Parent, Place::Line(3), 2));
    let got = outcome(&[&row("a", "b"), &row("a", "c")]);
    assert_eq!(got, (ErrorKind::Parent, Place::Line(2), 1));
}

#[test]
fn huge_numbers() {
    for (from, to) in [
        ("600", "4294967296"),
        ("600", "1e30"),
        ("600", "-600"),
        ("600", "6.5"),
        ("600", "0"),
        (":1,", ":1e300,"),
        (":1,", ":18446744073709551615,"),
        ("[1,2]", "[1,18446744073709551616]"),
        ("[1,2]", "[1,-2]"),
        ("[1,2]", "[1,2,3]"),
    ] {
        let row = ROW.replace(from, to);
        assert_eq!(
            outcome(&[ROW, &row]),
            (ErrorKind::InvalidValue, Place::Line(2), 1),
            "{to}"
        );
    }
    let row = ROW.replace("600", "1e400");
    assert_eq!(
        outcome(&[ROW, &row]),
        (ErrorKind::InvalidValue, Place::Line(2), 1)
    );
}

#[test]
fn deep_json() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let row = ROW.replace("[1,2]", &deep);
    assert_eq!(outcome(&[ROW, &row]).0, ErrorKind::InvalidValue);
    // Where it is passed over, it does no harm.
    let row = ROW.replace("\"hash_ids\"", &format!("\"x\":{deep},\"hash_ids\""));
    assert!(read_bytes(Path::new("x"), row.as_bytes(), &Options::default()).is_ok());
    let agents = r#"{"type":"subagent","t":0,"agent_id":"a","requests":["#;
    let nested = format!(
        r#"{{"id":"w","block_size":4,"requests":[{}{}]}}"#,
        agents.repeat(10_000),
        "]}".repeat(10_000)
    );
    assert_eq!(strict(nested).kind(), ErrorKind::TooDeep);
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = ROW.as_bytes().to_vec();
    bytes.extend(b"\n{\"x\":\"\xff\"}\n");
    let error = strict(&bytes);
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Encoding, Place::Line(2))
    );
    let weka = b"{\"id\":\"\xff\",\"block_size\":4,\"requests\":[]}";
    assert_eq!(strict(weka).kind(), ErrorKind::Encoding);
}

#[test]
fn empty_files() {
    assert_eq!(strict("").kind(), ErrorKind::Empty);
    assert_eq!(strict("\n \n").kind(), ErrorKind::Empty);
    for format in [
        "request-trace",
        "mooncake",
        "weka",
        "otel",
        "claude-code",
        "codex",
    ] {
        let options = Options {
            format: Format::named(format),
            ..Options::default()
        };
        assert!(
            read_bytes(Path::new("x"), b"", &options).is_err(),
            "{format}"
        );
    }
    let error = strict(r#"{"id":"w","block_size":4,"requests":[]}"#);
    assert_eq!(error.kind(), ErrorKind::Empty);
}

#[test]
fn a_line_beyond_the_bound() {
    let text = format!("{ROW}\n{}\n{ROW}\n", "x".repeat(70 * 1024 * 1024));
    let error = strict(&text);
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::LineTooLong, Place::Line(2))
    );
    let loaded = read_bytes(Path::new("x"), text.as_bytes(), &lenient()).expect("the others");
    assert_eq!(loaded.workload.turns().len(), 2);
}

#[test]
fn requests_that_wait_for_each_other() {
    let row = |id: &str, waits: &str| {
        ROW.replace(
            "\"timestamp\"",
            &format!(r#""request_id":"{id}","wait_for":[{waits}],"timestamp""#),
        )
    };
    // One of the circle is left out, and whoever waits for it goes on without.
    let lines = [
        row("a", "\"b\""),
        row("b", "\"c\""),
        row("c", "\"a\""),
        row("d", "\"a\""),
    ];
    let got = outcome(&lines.each_ref().map(String::as_str));
    assert_eq!(got, (ErrorKind::Cycle, Place::Line(3), 3));
    let got = outcome(&[&row("a", "\"a\""), ROW]);
    assert_eq!(got, (ErrorKind::Cycle, Place::Line(1), 1));
    let lost = row("a", "\"nobody\"");
    let error = strict(&lost);
    assert_eq!(error.kind(), ErrorKind::UnknownReference);
    assert_eq!(error.place(), Place::Line(1));
    // The request is there, only what it waits for is not.
    let Report {
        skipped, unlinked, ..
    } = lenient_report(&lost);
    assert!(skipped.is_empty());
    assert_eq!(unlinked, BTreeMap::from([(ErrorKind::UnknownReference, 1)]));
}

fn lenient_report(text: &str) -> Report {
    let loaded = read_bytes(Path::new("x"), text.as_bytes(), &lenient());
    loaded.expect("something is left").report
}

#[test]
fn where_nothing_is_left_it_is_said_why() {
    let bare = r#"{"timestamp":1,"output_length":5}"#;
    let text = [bare, &ROW.replace("600", "0"), bare].join("\n");
    let error = read_bytes(Path::new("x"), text.as_bytes(), &lenient()).expect_err("nothing");
    assert_eq!(
        error.to_string(),
        "x:1: every record was left out (2 missing-field, 1 invalid-value); the first: \
         input_length is missing"
    );
}

#[test]
fn sizes_are_bounded_and_named() {
    for size in [
        "100000001",
        "2147483648",
        "4294967296",
        "9007199254740993",
        "1e300",
    ] {
        let row = ROW.replace("600", size);
        let error = strict(&row);
        assert_eq!(
            (error.kind(), error.place()),
            (ErrorKind::InvalidValue, Place::Line(1))
        );
        let said = "input_length is too large: a prompt or an answer has at most 100000000 tokens";
        assert_eq!(error.to_string(), format!("bad.jsonl:1: {said}"));
    }
    let most = ROW.replace("600", "100000000");
    assert!(read_bytes(Path::new("x"), most.as_bytes(), &Options::default()).is_ok());
}

#[test]
fn a_parent_without_requests_is_none() {
    let child = |id: &str, parent: &str| {
        recorded(id, 5.0, 1_000).replace(
            r#""warmpath":{"#,
            &format!(r#""warmpath":{{"session":"{id}","parent":"{parent}","#),
        )
    };
    let text = [child("a", "gone"), child("b", "a")].join("\n");
    let loaded = read_bytes(Path::new("x"), text.as_bytes(), &Options::default()).expect("two");
    assert_eq!(loaded.report.orphans, 1);
    let parents: Vec<_> = (loaded.workload.sessions().iter())
        .map(|s| s.parent)
        .collect();
    assert_eq!(parents, [None, Some(0)]);
}

#[test]
fn a_record_out_of_order_costs_itself() {
    let mut lines: Vec<_> = (0..128)
        .map(|n| recorded(&format!("r{n}"), f64::from(n), 1_000 + i64::from(n)))
        .collect();
    lines.swap(10, 97);
    let report = lenient_report(&lines.join("\n"));
    assert_eq!(report.skipped, BTreeMap::from([(ErrorKind::OutOfOrder, 2)]));
    let rows = [0, 9, 1, 2, 3, 4];
    let rows = rows.map(|time| ROW.replacen('1', &time.to_string(), 1));
    let report = lenient_report(&rows.join("\n"));
    assert_eq!(report.skipped, BTreeMap::from([(ErrorKind::OutOfOrder, 1)]));
}

#[test]
fn what_others_have_in_a_folder_is_passed_over() {
    let folder = std::env::temp_dir().join(format!("warmpath-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    // Each looks like a format by a name in it, and has nothing else of one.
    let foreign = [
        ("a.json", r#"{"requests":{"max":3}}"#),
        ("b.jsonl", "{\"event\":\"click\"}\n{\"event\":\"load\"}\n"),
        ("c.json", r#"{"uuid":"x","payload":[1]}"#),
        ("d.json", r#"{"request_id":"x"}"#),
        ("e.json", "[1,2]"),
    ];
    for (name, text) in foreign {
        std::fs::write(folder.join(name), text).expect("written");
    }
    let none = read(std::slice::from_ref(&folder), &Options::default()).expect_err("no trace");
    assert_eq!(none.kind(), ErrorKind::UnknownFormat);
    assert!(none.to_string().contains("none of the"), "{none}");
    std::fs::write(folder.join("z.jsonl"), ROW).expect("a trace");
    for options in [Options::default(), lenient()] {
        let loaded = read(std::slice::from_ref(&folder), &options).expect("one trace");
        let Report {
            files,
            ignored,
            skipped,
            ..
        } = loaded.report;
        let counts = (files.len(), ignored.len(), skipped.len());
        assert_eq!(counts, (1, 5, 0), "{ignored:?}");
    }
    // What has a request in it is a trace, and its faults are faults.
    std::fs::write(folder.join("z.jsonl"), format!("{{}}\n{ROW}")).expect("a trace");
    std::fs::write(
        folder.join("y.jsonl"),
        format!("{{\"request_id\":1}}\n{ROW}"),
    )
    .expect("a trace");
    let error = read(std::slice::from_ref(&folder), &Options::default()).expect_err("a fault");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::MissingField, Place::Line(1))
    );
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn wrong_types_cost_their_record() {
    for wrong in ["\"600\"", "{}", "[600]", "true", "null"] {
        let row = ROW.replace("600", wrong);
        let got = outcome(&[&row, ROW]);
        assert_eq!((got.1, got.2), (Place::Line(1), 1), "{wrong}");
    }
    let got = outcome(&[ROW, "{\"timestamp\":"]);
    assert_eq!(got, (ErrorKind::Truncated, Place::Line(2), 1));
    let got = outcome(&[ROW, "nonsense", ROW]);
    assert_eq!(got, (ErrorKind::Syntax, Place::Line(2), 2));
}

#[test]
fn ends_before_starts() {
    let record = r#"{"timestamp":0,"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,"request":{"request_id":"a","input_tokens":64,"output_tokens":1},"warmpath":{"timings":{"received":10.0,"end":9.5}}}}"#;
    assert_eq!(outcome(&[record]).0, ErrorKind::NegativeTime);
    let span = r#"{"spans":[{"trace_id":"t","start_time":"2026-01-01T00:00:01","end_time":"2026-01-01T00:00:00","attributes":{"gen_ai.operation.name":"chat"}}]}"#;
    let error = strict(span);
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::NegativeTime, Place::Record(1))
    );
}

#[test]
fn files_that_are_not_there_or_no_traces() {
    let missing = read(&[PathBuf::from("no/such/file.jsonl")], &Options::default());
    assert_eq!(missing.expect_err("missing").kind(), ErrorKind::Io);
    let folder = std::env::temp_dir().join(format!("warmpath-trace-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sub")).expect("a folder");
    let empty = read(std::slice::from_ref(&folder), &Options::default());
    assert_eq!(
        empty.expect_err("nothing in it").kind(),
        ErrorKind::UnknownFormat
    );
    std::fs::write(folder.join("note.json"), "{\"a\":1}").expect("a note");
    std::fs::write(folder.join("sub/trace.jsonl"), ROW).expect("a trace");
    let loaded = read(std::slice::from_ref(&folder), &Options::default()).expect("one trace");
    let why = "the first record is of no format that is known".to_owned();
    assert_eq!(loaded.report.ignored, [(folder.join("note.json"), why)]);
    assert_eq!(loaded.workload.turns().len(), 1);
    let named = read(&[folder.join("note.json")], &Options::default());
    assert_eq!(named.expect_err("named").kind(), ErrorKind::UnknownFormat);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn lenient_goes_on_where_strict_ends() {
    let text = [ROW, "{}", &ROW.replace("600", "0"), ROW].join("\n");
    let loaded = read_bytes(Path::new("x"), text.as_bytes(), &lenient()).expect("two");
    assert_eq!(loaded.report.skipped[&ErrorKind::MissingField], 1);
    assert_eq!(loaded.report.skipped[&ErrorKind::InvalidValue], 1);
    assert_eq!(show(&loaded.workload).lines().count(), 2);
    assert_eq!(Options::default().leniency, Leniency::Strict);
}

/// A line of our own trace: milliseconds since the recording began, and since 1970.
fn recorded(id: &str, at: f64, unix: i64) -> String {
    format!(
        r#"{{"timestamp":{at},"event":{{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":{unix},"request":{{"request_id":"{id}","input_tokens":64,"output_tokens":1}},"warmpath":{{"timings":{{"received":{unix}.0,"held":0.0,"end":{unix}.0}}}}}}}}"#
    )
}

#[test]
fn our_own_records_are_in_order() {
    let first = recorded("a", 50.0, 1_050);
    let (same, later) = (recorded("b", 50.0, 1_050), recorded("b", 60.5, 1_060));
    let loaded = read_bytes(
        Path::new("x"),
        [&*first, &same.replace("\"b\"", "\"c\""), &later]
            .join("\n")
            .as_bytes(),
        &Options::default(),
    );
    assert_eq!(loaded.expect("in order").workload.turns().len(), 3);
    let again = [&*first, &recorded("b", 3.0, 9_003)].join("\n");
    let loaded = read_bytes(Path::new("x"), again.as_bytes(), &Options::default());
    assert_eq!(loaded.expect("recorded anew").workload.turns().len(), 2);
    for back in [
        recorded("b", 40.0, 1_040),
        recorded("b", 40.0, 1_050),
        recorded("b", 60.0, 1_049),
    ] {
        let got = outcome(&[&first, &back, &recorded("c", 70.0, 1_070)]);
        assert_eq!(got, (ErrorKind::OutOfOrder, Place::Line(2), 2), "{back}");
    }
}

#[test]
fn our_own_times_are_not_negative() {
    let good = recorded("a", 50.0, 1_050);
    for (from, to) in [
        ("\"timestamp\":50", "\"timestamp\":-50"),
        ("\"event_time_unix_ms\":1050", "\"event_time_unix_ms\":-1"),
        ("\"received\":1050.0", "\"received\":-1050.0"),
        ("\"held\":0.0", "\"held\":-0.5"),
        ("\"end\":1050.0", "\"end\":-1.0"),
        ("\"end\":1050.0", "\"first_token\":-1,\"end\":1050.0"),
        ("\"end\":1050.0", "\"first_token\":1051,\"end\":1050.0"),
        ("\"output_tokens\":1", "\"output_tokens\":1,\"ttft_ms\":-1"),
        (
            "\"output_tokens\":1",
            "\"output_tokens\":1,\"request_received_ms\":-7",
        ),
    ] {
        let bad = good.replace(from, to).replace("\"a\"", "\"b\"");
        assert_ne!(bad, good);
        let got = outcome(&[&good, &bad]);
        assert_eq!(got, (ErrorKind::NegativeTime, Place::Line(2), 1), "{to}");
    }
}

#[test]
fn a_mark_before_the_first_record() {
    let marked = format!("\u{feff}{ROW}\n{ROW}");
    assert_eq!(
        outcome(&[&marked]),
        (ErrorKind::Encoding, Place::Line(1), 1)
    );
    let whole = "\u{feff}{\"id\":\"w\",\"block_size\":4,\"requests\":[]}";
    let error = strict(whole).to_string();
    assert!(
        error.starts_with("bad.jsonl:1: a byte order mark"),
        "{error}"
    );
}

#[test]
fn faults_are_told_in_our_words() {
    let good = recorded("a", 50.0, 1_050);
    for (bad, said) in [
        (
            good.replace("\"timestamp\":50,", ""),
            "bad.jsonl:1: timestamp is missing",
        ),
        (
            good.replace("\"request_id\":\"a\",", ""),
            "bad.jsonl:1: request_id is missing",
        ),
        (
            r#"{"timestamp":0,"event":{"schema":"dynamo.request.trace.v2","data":[]}}"#.to_owned(),
            "bad.jsonl:1: schema \"dynamo.request.trace.v2\" is not known here: dynamo.request.trace.v1 is",
        ),
        (
            "hello".to_owned(),
            "bad.jsonl:1: this is not JSON, at column 1",
        ),
        (
            format!("\n\n{ROW}x"),
            "bad.jsonl:3: something follows the record, at column",
        ),
        (
            good.replace("\"timestamp\":50", "\"timestamp\":\"then\""),
            "bad.jsonl:1: a text stands where a number belongs, at column",
        ),
        (
            "{\"id\":\"w\",\n\"block_size\":4,\n\"requests\":[{]}".to_owned(),
            "bad.jsonl:3, record 1: this is not JSON, at column",
        ),
    ] {
        let error = strict(&bad).to_string();
        assert!(error.starts_with(said), "{error}");
        assert!(!error.contains(" at line "), "{error}");
    }
}
