//! What the tests share: where the fixtures are, and a workload as lines to compare.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use warmpath_trace::{Leniency, Moment, Options, Start, Workload};

/// A committed trace.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../__test__/fixtures/traces").join(name)
}

pub(crate) fn lenient() -> Options {
    Options {
        leniency: Leniency::Lenient,
        ..Options::default()
    }
}

/// A turn a line: session, start, tokens in and out, what comes next, blocks.
pub(crate) fn show(workload: &Workload) -> String {
    let mut out = String::new();
    let mut blocks = Vec::new();
    for (index, turn) in workload.turns().iter().enumerate() {
        let session = &workload.sessions()[turn.session as usize];
        out.push_str(&session.name);
        if let Some(parent) = session.parent {
            let _ = write!(out, "<{}", workload.sessions()[parent as usize].name);
        }
        if let Start::At(time) = turn.start {
            let _ = write!(out, " at {}", time.0);
        }
        for wait in workload.waits(turn.start) {
            let moment = match wait.moment {
                Moment::Start => "start",
                Moment::End => "end",
            };
            let _ = write!(out, " {moment}({})+{}", wait.turn, wait.delay.0);
        }
        workload.read_blocks(index, &mut blocks);
        let (input, output, next) = (turn.input_tokens, turn.output_tokens, turn.next);
        let _ = writeln!(out, " {input}->{output} {next:?} {blocks:?}");
    }
    out
}
