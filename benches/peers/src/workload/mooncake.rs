//! Reads Mooncake's conversation trace (gzip, one request a line): 512-token blocks, ids of contents
//! that are global, no sessions.
use std::fs::File as Handle;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::GzDecoder;
use serde::Deserialize;

use super::File;

#[derive(Deserialize)]
struct Request {
    /// Milliseconds.
    timestamp: f64,
    hash_ids: Vec<u32>,
}

/// The requests of one file, each a session of one turn.
pub(crate) fn read(path: &Path) -> Result<File, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let handle = Handle::open(path).map_err(|error| unreadable(&error))?;
    let lines = BufReader::new(GzDecoder::new(BufReader::new(handle))).lines();
    let mut file = File::default();
    for (session, line) in (0..).zip(lines) {
        let line = line.map_err(|error| unreadable(&error))?;
        let request: Request = serde_json::from_str(&line).map_err(|error| unreadable(&error))?;
        let ids = &request.hash_ids;
        file.push(request.timestamp / 1e3, session, ids, ids.len());
    }
    Ok(file)
}
