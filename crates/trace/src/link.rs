//! What does each turn wait for, and in which order do turns stand?
//!
//! Where the trace says what a turn waits for, that is taken, and turns are moved only as far as
//! needed for the awaited one to stand first. Where it only has times, the rules are:
//!
//! 1. A turn waits for every turn of its session that had ended when it started and that no turn
//!    before it waited for: one for a plain loop, all branches for a fan-in.
//! 2. If there is none, it is a branch: it waits for what ended last; if nothing had ended, it
//!    starts as long after the start of its latest sibling as it did.
//! 3. The first turn of a child session waits for the parent's turn that had started last: for its
//!    end if it had ended, else for its start.
//! 4. The parent's first turn after the last end of a child also waits for the child.
//! 5. The delay is the time from the latest of the awaited ends to the start.
//!
//! Sessions that were recorded together on one clock, each file a play of its own, are kept together as
//! published replays of such files keep them: the delay of 5. is that of each awaited end of the
//! session's own, and of every other session of the file a turn waits for what had ended last there,
//! without a delay.
//!
//! So what comes later in a replay is only what had to, and a slower answer pushes what depended on
//! it. It is a sweep over the turns in the order of their starts; a turn costs the running siblings
//! and the unfinished children of its session.
use std::num::NonZeroU32;

use hashbrown::HashMap;
use warmpath_core::Micros;

use crate::blocks::BlockStore;
use crate::builder::{NewStart, NewTurn, WorkloadBuilder};
use crate::collect::{Named, Packed, PackedTiming, PackedWait};
use crate::error::{ErrorKind, Fault, TraceError};
use crate::measured;
use crate::traced::Clock;
use crate::turn::{Moment, Wait};
use crate::workload::Workload;

/// What a collector has collected.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) sessions: &'a [Named],
    pub(crate) turns: &'a [Packed],
    pub(crate) waits: &'a [PackedWait],
    pub(crate) ids: &'a HashMap<u128, u32>,
}

/// Takes the fault of a turn: counts it, or ends the reading.
pub(crate) type Skip<'a> = dyn FnMut(u32, Fault) -> Result<(), TraceError> + 'a;

/// The workload.
pub(crate) fn workload(
    input: &Input<'_>,
    block_tokens: NonZeroU32,
    prompts: BlockStore,
    skip: &mut Skip<'_>,
) -> Result<Workload, TraceError> {
    let mut out = Output {
        builder: WorkloadBuilder::with_prompts(block_tokens, prompts),
        session: add_sessions(input.sessions),
        placed: vec![None; input.turns.len()],
    };
    for &session in &out.session.order {
        let named = &input.sessions[session as usize];
        let parent = named
            .parent
            .map(|parent| out.session.index[parent as usize]);
        let added = out.builder.add_session(&named.name, parent);
        debug_assert!(added.is_ok(), "names are unique and parents stand before");
    }
    for turn in order_of_given(input, skip)? {
        out.place_given(input, turn, skip)?;
    }
    for clock in [Clock::Replay, Clock::Wall] {
        measured::place(input, clock, &mut out);
    }
    Ok(out.builder.finish())
}

/// The workload while it is made.
pub(crate) struct Output {
    builder: WorkloadBuilder,
    session: SessionOrder,
    /// Where each collected turn stands in the workload.
    placed: Vec<Option<u32>>,
}

struct SessionOrder {
    /// Collected sessions, parents first.
    order: Vec<u32>,
    /// The index in the workload of each collected session.
    index: Vec<u32>,
}

impl Output {
    /// Adds a turn with waits that name collected turns.
    pub(crate) fn place(
        &mut self,
        input: &Input<'_>,
        turn: u32,
        at: Micros,
        waits: &mut Vec<Wait>,
    ) {
        waits.retain_mut(|wait| match self.placed[wait.turn as usize] {
            Some(placed) => {
                wait.turn = placed;
                true
            }
            None => false,
        });
        let packed = &input.turns[turn as usize];
        let start = if waits.is_empty() {
            NewStart::At(at)
        } else {
            NewStart::AfterNotBefore(waits, not_before(packed.timing, at))
        };
        self.placed[turn as usize] = Some(self.builder.turns());
        self.builder.place(
            &NewTurn {
                session: self.session.index[packed.session as usize],
                input_tokens: packed.input_tokens,
                output_tokens: packed.output_tokens,
                next: packed.next,
                blocks: &[],
                start,
            },
            turn,
        );
    }

    fn place_given(
        &mut self,
        input: &Input<'_>,
        turn: u32,
        skip: &mut Skip<'_>,
    ) -> Result<(), TraceError> {
        let mut waits = Vec::new();
        let at = match input.turns[turn as usize].timing {
            PackedTiming::Given { at, after: None } => at,
            PackedTiming::Given {
                at: delay,
                after: Some(turn),
            } => {
                waits.push(Wait {
                    turn,
                    moment: Moment::End,
                    delay,
                });
                delay
            }
            PackedTiming::Depends { at, from, until } => {
                let named = &input.waits[from as usize..until as usize];
                waits = resolve(input, turn, named, skip)?;
                at
            }
            PackedTiming::Measured { .. } => return Ok(()),
        };
        self.place(input, turn, at, &mut waits);
        Ok(())
    }
}

/// When a turn that waits and would start at `at` without its waits started in the trace.
fn not_before(timing: PackedTiming, at: Micros) -> Micros {
    match timing {
        // A delay: the trace has no time for it.
        PackedTiming::Given { after: Some(_), .. } => Micros(0),
        _ => at,
    }
}

/// The waits of a turn whose other turn is there.
fn resolve(
    input: &Input<'_>,
    turn: u32,
    named: &[PackedWait],
    skip: &mut Skip<'_>,
) -> Result<Vec<Wait>, TraceError> {
    let mut waits = Vec::with_capacity(named.len());
    for wait in named {
        let Some(&turn) = input.ids.get(&wait.id) else {
            skip(turn, unknown_reference())?;
            continue;
        };
        waits.push(Wait {
            turn,
            moment: wait.moment,
            delay: wait.delay,
        });
    }
    Ok(waits)
}

fn unknown_reference() -> Fault {
    let detail = "it waits for a request that is not there";
    Fault::new(ErrorKind::UnknownReference, detail)
}

/// Parents before children, otherwise by rank. Those without a request are no sessions.
fn add_sessions(sessions: &[Named]) -> SessionOrder {
    let mut order = Vec::with_capacity(sessions.len());
    let mut index = vec![u32::MAX; sessions.len()];
    let mut path = Vec::new();
    let mut ranked: Vec<u32> = (0..sessions.len() as u32)
        .filter(|&session| sessions[session as usize].is_there())
        .collect();
    ranked.sort_by_key(|&session| sessions[session as usize].rank);
    for first in ranked {
        // The collector lets no circle of parents in.
        let mut at = Some(first).filter(|&first| index[first as usize] == u32::MAX);
        while let Some(session) = at {
            path.push(session);
            let parent = sessions[session as usize].parent;
            at = parent.filter(|&parent| index[parent as usize] == u32::MAX);
        }
        while let Some(session) = path.pop() {
            index[session as usize] = order.len() as u32;
            order.push(session);
        }
    }
    SessionOrder { order, index }
}

/// The turns whose start the trace gives: each after those that it waits for, otherwise in the
/// order of the files. Those that wait for each other are left out.
fn order_of_given(input: &Input<'_>, skip: &mut Skip<'_>) -> Result<Vec<u32>, TraceError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; input.turns.len()];
    let mut order = Vec::new();
    // A turn, and how many of its waits have been looked at.
    let mut stack: Vec<(u32, u32)> = Vec::new();
    for first in 0..input.turns.len() as u32 {
        if marks[first as usize] == Mark::New {
            marks[first as usize] = Mark::Open;
            stack.push((first, 0));
        }
        while let Some((turn, looked)) = stack.last_mut() {
            let turn = *turn;
            let Some(awaited) = awaited(input, turn, *looked) else {
                stack.pop();
                if marks[turn as usize] == Mark::Open {
                    marks[turn as usize] = Mark::Done;
                    order.push(turn);
                }
                continue;
            };
            *looked += 1;
            let Some(awaited) = awaited else { continue };
            match marks[awaited as usize] {
                Mark::New => {
                    marks[awaited as usize] = Mark::Open;
                    stack.push((awaited, 0));
                }
                Mark::Open => {
                    let detail = "it waits for requests that wait for it";
                    skip(turn, Fault::new(ErrorKind::Cycle, detail))?;
                    // Left out: whoever waits for it does not find it placed.
                    marks[turn as usize] = Mark::Done;
                }
                Mark::Done => {}
            }
        }
    }
    Ok(order)
}

/// The `n`th turn that a turn waits for: none if there are fewer, none inside if it is unknown.
fn awaited(input: &Input<'_>, turn: u32, n: u32) -> Option<Option<u32>> {
    match input.turns[turn as usize].timing {
        PackedTiming::Given { after, .. } if n == 0 => after.map(Some),
        PackedTiming::Depends { from, until, .. } if from + n < until => {
            let id = input.waits[(from + n) as usize].id;
            Some(input.ids.get(&id).copied())
        }
        _ => None,
    }
}
