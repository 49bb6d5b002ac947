//! What the policies of model choice are worth on the published experiment and beyond, as JSON rows.
//!
//! `cargo run --release -p warmpath-sim --example matrix [FILE [matrix | adversary]]`: to a file, or to the
//! standard output; one of the two, or both.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::error::Error;

use serde_json::json;
use warmpath_sim::adversary::adversary;
use warmpath_sim::matrix::{EvidenceRow, evidence};

fn main() -> Result<(), Box<dyn Error>> {
    let row = |row: &EvidenceRow| {
        json!({
            "name": row.name,
            "value": row.value,
            "unit": row.unit,
            "peer": row.peer,
            "ratio": row.peer.filter(|&peer| peer != 0.0).map(|peer| row.value / peer),
            "goal": row.goal,
            "holds": row.holds,
        })
    };
    let only = std::env::args().nth(2);
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let mut found = Vec::new();
    if wants("matrix") {
        found.extend(evidence());
    }
    if wants("adversary") {
        found.extend(adversary()?);
    }
    let rows: Vec<_> = found.iter().map(row).collect();
    let text = serde_json::to_string_pretty(&json!({ "rows": rows }))?;
    match std::env::args().nth(1) {
        Some(file) => std::fs::write(file, text)?,
        None => println!("{text}"),
    }
    Ok(())
}
