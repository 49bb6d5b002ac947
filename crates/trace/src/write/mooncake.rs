//! A workload as plain Mooncake rows.
//!
//! The format has arrivals, and sessions whose rows follow each other. What a workload has beyond
//! that is approximated: a turn that waits for several, or for another session, or for a start,
//! follows its session's last turn, or arrives when it would if answers took no time.
//!
//! Rows stand in the order of their arrivals, as readers expect; within a session as they were.
use std::io::{self, Write};

use serde::Serialize;
use warmpath_core::Micros;

use super::{Extra, Extras, Written, extra, line, millis};
use crate::turn::{Moment, Start, Wait};
use crate::workload::Workload;

#[derive(Serialize)]
struct Row<'a> {
    session_id: &'a str,
    input_length: u32,
    output_length: u32,
    hash_ids: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmpath: Option<Extra<'a>>,
}

/// Writes a workload as Mooncake rows. Tokens of a block are not in the format: they stand in the
/// extras of each row, and without these a reader must be told [`Workload::block_tokens`].
///
/// # Errors
/// What `out` says.
pub fn write_mooncake(
    workload: &Workload,
    extras: Extras,
    out: &mut impl Write,
) -> io::Result<Written> {
    let mut written = Written::default();
    let arrivals = arrivals(workload);
    let mut order: Vec<usize> = (0..workload.turns().len()).collect();
    order.sort_by_key(|&turn| arrivals[turn]);
    let mut last: Vec<Option<u32>> = vec![None; workload.sessions().len()];
    let mut blocks = Vec::new();
    for index in order {
        let turn = &workload.turns()[index];
        let before = last[turn.session as usize].replace(index as u32);
        workload.read_blocks(index, &mut blocks);
        let waits = workload.waits(turn.start);
        let (timestamp, delay, is_exact) = match before {
            None => (Some(arrivals[index]), None, waits.is_empty()),
            Some(before) => {
                let plain = |wait: &&Wait| wait.turn == before && wait.moment == Moment::End;
                let delay = waits.iter().find(plain).or(waits.last());
                let delay = delay.map_or(Micros(0), |wait| wait.delay);
                (None, Some(delay), matches!(waits, [wait] if plain(&wait)))
            }
        };
        written.rows += 1;
        written.approximated += u64::from(!is_exact);
        let row = Row {
            session_id: &workload.sessions()[turn.session as usize].name,
            input_length: turn.input_tokens,
            output_length: turn.output_tokens,
            hash_ids: &blocks,
            timestamp: timestamp.map(millis),
            delay: delay.map(millis),
            warmpath: sized(workload, index, before.is_none(), extras),
        };
        line(out, &row)?;
    }
    Ok(written)
}

/// The extras of a turn, with the tokens of a block.
fn sized(workload: &Workload, turn: usize, is_first: bool, extras: Extras) -> Option<Extra<'_>> {
    (extras == Extras::Keep).then(|| Extra {
        block_tokens: Some(workload.block_tokens()),
        ..extra(workload, turn, is_first, extras).unwrap_or_default()
    })
}

/// When each turn would arrive if answers took no time; never before those of its session.
fn arrivals(workload: &Workload) -> Vec<Micros> {
    let mut arrivals: Vec<Micros> = Vec::with_capacity(workload.turns().len());
    let mut last = vec![Micros(0); workload.sessions().len()];
    for turn in workload.turns() {
        let at = match turn.start {
            Start::At(time) => time,
            Start::After(_) => {
                let waits = workload.waits(turn.start).iter();
                let over = waits.map(|wait| arrivals[wait.turn as usize].plus(wait.delay));
                over.max().unwrap_or_default()
            }
        };
        let last = &mut last[turn.session as usize];
        *last = (*last).max(at);
        arrivals.push(*last);
    }
    arrivals
}
