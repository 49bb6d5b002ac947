//! What admission is worth on recorded sessions, as JSON rows.
//!
//! `cargo run --release -p warmpath-sim --example admission -- SESSIONS FILE [PART...]`: from a folder of
//! recorded coding sessions, to a file; all parts, or those that are named. `WARMPATH_THREADS`: how many
//! runs at once, 2 unless said.
use std::error::Error;
use std::path::PathBuf;

use serde_json::json;
use warmpath_sim::pressure::{PARTS, evidence};
use warmpath_trace::{Options, SideChains, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let sessions: PathBuf = args.next().ok_or("which sessions?")?.into();
    let file = args.next().ok_or("to which file?")?;
    let asked: Vec<String> = args.collect();
    if let Some(unknown) = asked.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("{unknown} is none of {}", PARTS.join(", ")).into());
    }
    let threads = match std::env::var("WARMPATH_THREADS") {
        Ok(text) => text.parse()?,
        Err(_) => 2,
    };
    let options = Options {
        side_chains: SideChains::Kept,
        ..Options::default()
    };
    let workload = read(&[sessions], &options)?.workload;
    let mut rows = Vec::new();
    for part in PARTS {
        if asked.is_empty() || asked.iter().any(|asked| asked == part) {
            rows.extend(evidence(&workload, part, threads)?);
        }
    }
    std::fs::write(
        file,
        serde_json::to_string_pretty(&json!({ "rows": rows }))?,
    )?;
    Ok(())
}
