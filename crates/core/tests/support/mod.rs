//! Reading the recorded fixtures. A missing one fails the test that asks for it.
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The rows of `__test__/fixtures/golden/{name}.jsonl.gz`.
pub(crate) fn golden<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../__test__/fixtures/golden")
        .join(format!("{name}.jsonl.gz"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("fixture {}: {e}", path.display()));
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| serde_json::from_str(&line.expect("gzip")).expect("a golden row"))
        .collect()
}
