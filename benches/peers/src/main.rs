//! Is our prefix index ahead of the public ones, and by how much?
//!
//! Runs every system through the same work in one process, one after the other, round after round,
//! and prints ours beside each, with the ratio to the best peer of each row and whether the row's goal
//! holds. Progress goes to standard error, the table to standard output, rows to a file when asked.
//! It ends with an error when systems answered differently, since then they did not do the same work;
//! a goal that was missed is no error. Linux; the figures are of one thread.
mod alloc;
mod args;
mod measure;
mod peers;
mod report;
mod rows;
mod workload;

use std::cell::OnceCell;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use args::{Command, Options};
use report::{Judged, Row, Table};
use rows::{Context, Obstacle, Scenario, Size};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let done = args::parse(std::env::args().skip(1)).and_then(|command| match command {
        Command::Help => print(args::HELP),
        Command::List => print(&list()),
        Command::Measure(options) => measure(options),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| format!("standard output: {error}"))
}

fn list() -> String {
    let lines = rows::ALL.iter().flat_map(|scenario| {
        let of = |row: &Row| format!("{:<14}{}\n", scenario.name, row.name);
        scenario.rows.iter().map(of)
    });
    lines.collect()
}

fn measure(options: Options) -> Result<(), String> {
    let chosen = choose(&options.only)?;
    let context = Context {
        data: options.data,
        rounds: options.rounds,
        size: options.size,
        naming: options.naming,
        sessions: OnceCell::new(),
        mooncake: OnceCell::new(),
    };
    let mut table = Table::default();
    for scenario in &chosen {
        let begun = Instant::now();
        eprint!("{}: ", scenario.name);
        match (scenario.run)(&context, &mut table) {
            Ok(()) => eprintln!("{:.0} s", begun.elapsed().as_secs_f64()),
            Err(Obstacle::Absent(reason)) => eprintln!("SKIPPED, {reason}"),
            Err(Obstacle::Broken(reason)) => return Err(reason),
        }
    }
    let rows = chosen.iter().flat_map(|scenario| scenario.rows);
    let judged = table.judge(rows.copied(), context.size == Size::Full);
    publish(&judged, &table, options.json.as_deref())
}

/// The scenarios that were asked for; all when nothing was.
fn choose(only: &[String]) -> Result<Vec<&'static Scenario>, String> {
    let asked = |scenario: &Scenario, name: &String| {
        scenario.name == name || scenario.rows.iter().any(|row| row.name.contains(name))
    };
    let unknown = only
        .iter()
        .find(|name| !rows::ALL.iter().any(|s| asked(s, name)));
    if let Some(name) = unknown {
        return Err(format!("there is no row {name}; --list names them"));
    }
    let wanted = |s: &&Scenario| only.is_empty() || only.iter().any(|name| asked(s, name));
    Ok(rows::ALL.iter().filter(wanted).collect())
}

fn publish(judged: &[Judged], table: &Table, file: Option<&Path>) -> Result<(), String> {
    print(&report::table(judged))?;
    if let Some(path) = file {
        let text = format!("{:#}\n", report::json(judged, table));
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for warning in table.warnings() {
        eprintln!("warning: {warning}");
    }
    match table.failures() {
        [] => {
            eprintln!("{} answers compared, all agree", table.compared());
            Ok(())
        }
        failures => Err(format!("answers differ:\n  {}", failures.join("\n  "))),
    }
}
