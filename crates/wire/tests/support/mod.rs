//! Reading the recorded messages. A missing one fails the test that asks for it.
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures/engine-captures")
}

/// Names of the recorded streams, in order.
pub(crate) fn captures() -> Vec<String> {
    let files = std::fs::read_dir(folder()).expect("the fixtures are there");
    let names = files.map(|file| {
        file.expect("a file")
            .file_name()
            .into_string()
            .expect("a name")
    });
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".jsonl.gz")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// The frames of each message of a stream.
pub(crate) fn frames(capture: &str) -> Vec<Vec<Vec<u8>>> {
    let path = folder().join(format!("{capture}.jsonl.gz"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("fixture {}: {e}", path.display()));
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.expect("gzip")).expect("JSON");
            let frames = line["frames"].as_array().expect("frames").iter();
            frames
                .map(|hex| unhex(hex.as_str().expect("text")))
                .collect()
        })
        .collect()
}

/// The payload of each message: the last frame, where there is one.
pub(crate) fn payloads(capture: &str) -> Vec<Vec<u8>> {
    let last = frames(capture).into_iter().filter_map(|mut m| m.pop());
    last.filter(|payload| !payload.is_empty()).collect()
}

pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("hex")
        })
        .collect()
}
