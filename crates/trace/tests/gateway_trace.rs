//! A file that a gateway wrote: this reader must know every field of it, and see its sharing.
mod common;

use std::path::Path;

use common::{fixture, show};
use serde_json::Value;
use warmpath_trace::{Format, Leniency, Options, Record, read, records};

const SAMPLE: &str = "own-gateway.jsonl";

/// Numbers are compared as numbers: one writer has `0`, the other `0.0`.
fn assert_same(written: &Value, read: &Value, path: &str) {
    match (written, read) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| {
                let mut keys: Vec<_> = map.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(a), keys(b), "{path}");
            for (key, value) in a {
                assert_same(value, &b[key], &format!("{path}.{key}"));
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let same = a == b || a.as_f64() == b.as_f64();
            assert!(same, "{path}: {a} and {b}");
        }
        _ => assert_eq!(written, read, "{path}"),
    }
}

#[test]
fn every_field_is_known() {
    let text = std::fs::read_to_string(fixture(SAMPLE)).expect("the sample is committed");
    let mut read_back: Vec<Record> = Vec::new();
    let mut take = |record, _: &Path, _| {
        read_back.push(record);
        Ok(())
    };
    records(&[fixture(SAMPLE)], Leniency::Strict, &mut take).expect("reads");
    assert_eq!(text.lines().count(), read_back.len());
    for (line, record) in text.lines().zip(&read_back) {
        let written: Value = serde_json::from_str(line).expect("JSON");
        let read = serde_json::to_value(record).expect("can be written");
        assert_same(&written, &read, "");
    }
}

#[test]
fn it_is_the_workload_that_the_gateway_served() {
    let loaded = read(&[fixture(SAMPLE)], &Options::default()).expect("reads");
    assert_eq!(loaded.report.files[0].1, Format::RequestTrace);
    assert_eq!(loaded.workload.block_tokens().get(), 64);
    // The blocks of the system prompt are shared, an answer that broke off counts one token.
    let want = "\
main at 0 778->12 Tool [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
main end(0)+60648 893->12 Tool [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14]
main end(1)+50483 1008->9 End [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16]
child<main end(2)+44548 541->9 End [0, 1, 2, 3, 4, 5, 6, 7, 17]
left at 585796 534->1 End [0, 1, 2, 3, 4, 5, 6, 7, 18]
failed at 1063363 534->1 End [0, 1, 2, 3, 4, 5, 6, 7, 19]
prompt-594dd2eaf0ae0803 at 1186571 6->2 End [20]
";
    assert_eq!(show(&loaded.workload), want);
}
