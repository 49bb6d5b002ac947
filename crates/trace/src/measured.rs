//! What did each measured turn wait for? The rules stand in [`crate::link`]; this is their sweep.
//!
//! Turns are taken by start, then end, then the order of the files, so that whatever had ended when
//! a turn started has been seen. Per session it keeps the turns that nobody waited for, the latest
//! one that somebody did, and the children whose end is still ahead.
use hashbrown::HashMap;
use warmpath_core::Micros;

use crate::collect::PackedTiming;
use crate::link::{Input, Output};
use crate::traced::Clock;
use crate::turn::{Moment, Wait};

/// A turn with its times.
#[derive(Clone, Copy, Debug)]
struct Span {
    turn: u32,
    session: u32,
    start: Micros,
    end: Micros,
}

/// What is known of a session at one moment of the sweep.
#[derive(Clone, Debug, Default)]
struct State {
    /// Turns that no other waits for yet.
    unawaited: Vec<Span>,
    /// The one that ended last of those that others wait for.
    awaited: Option<Span>,
    /// The one that started last.
    latest: Option<Span>,
    /// The end of its last turn, known before the sweep.
    last_end: Option<Micros>,
    /// Children whose turns nobody waits for yet.
    children: Vec<u32>,
}

/// Adds all turns that were measured by `clock`.
pub(crate) fn place(input: &Input<'_>, clock: Clock, out: &mut Output) {
    let spans = spans(input, clock);
    let zero = match clock {
        Clock::Replay => Micros(0),
        Clock::Wall => spans.first().map_or(Micros(0), |first| first.start),
    };
    let mut states = vec![State::default(); input.sessions.len()];
    for span in &spans {
        let last_end = &mut states[span.session as usize].last_end;
        *last_end = (*last_end).max(Some(span.end));
    }
    for (child, named) in input.sessions.iter().enumerate() {
        if let (Some(parent), Some(_)) = (named.parent, states[child].last_end) {
            states[parent as usize].children.push(child as u32);
        }
    }
    let streams = match clock {
        Clock::Replay => streams(input, &spans),
        Clock::Wall => HashMap::new(),
    };
    let (mut waits, mut beside) = (Vec::new(), Vec::new());
    for span in &spans {
        waits.clear();
        beside.clear();
        if let Some(sessions) = streams.get(&input.turns[span.turn as usize].file) {
            let others = sessions.iter().filter(|&&other| other != span.session);
            let ended = others.filter_map(|&other| states[other as usize].last_ended(span.start));
            beside.extend(ended.map(|other| after(&other, Micros(0))));
        }
        infer(input, &mut states, span, clock, &mut waits);
        // What waits for nobody has a time of its own.
        let is_free = waits.is_empty();
        for wait in beside.iter().filter(|_| !is_free) {
            if waits.iter().all(|other: &Wait| other.turn != wait.turn) {
                waits.push(*wait);
            }
        }
        out.place(input, span.turn, span.start.since(zero), &mut waits);
    }
}

/// The sessions of each file.
fn streams(input: &Input<'_>, spans: &[Span]) -> HashMap<u32, Vec<u32>> {
    let mut streams: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut seen = vec![false; input.sessions.len()];
    for span in spans {
        if !std::mem::replace(&mut seen[span.session as usize], true) {
            let file = input.turns[span.turn as usize].file;
            streams.entry(file).or_default().push(span.session);
        }
    }
    streams
}

impl State {
    /// The turn that ended last of those that were over by then.
    fn last_ended(&self, now: Micros) -> Option<Span> {
        let over = self.unawaited.iter().chain(&self.awaited);
        let over = over.filter(|span| span.end <= now);
        over.copied().max_by_key(|span| (span.end, span.turn))
    }
}

fn spans(input: &Input<'_>, wanted: Clock) -> Vec<Span> {
    let mut spans = Vec::new();
    for (turn, packed) in input.turns.iter().enumerate() {
        match packed.timing {
            PackedTiming::Measured { start, end, clock } if clock == wanted => spans.push(Span {
                turn: turn as u32,
                session: packed.session,
                start,
                end,
            }),
            _ => {}
        }
    }
    spans.sort_by_key(|span| (span.start, span.end, span.turn));
    spans
}

fn infer(
    input: &Input<'_>,
    states: &mut [State],
    span: &Span,
    clock: Clock,
    waits: &mut Vec<Wait>,
) {
    let now = span.start;
    let mut ended = take_ended(&mut states[span.session as usize], now);
    let own = ended.len();
    ended.extend(join_children(states, span));
    let state = &states[span.session as usize];
    if own == 0 {
        // A branch, or the first of its session.
        let before = state.awaited.filter(|_| ended.is_empty());
        let sibling = state.latest.filter(|_| state.awaited.is_none());
        match before.or(sibling) {
            Some(other) => waits.push(since(&other, now)),
            None if state.latest.is_none() => {
                let parent = latest_above(input, states, span.session);
                waits.extend(parent.map(|parent| since(&parent, now)));
            }
            None => {}
        }
    }
    let latest = ended.iter().map(|span| span.end).max();
    let common = latest.map_or(Micros(0), |latest| now.since(latest));
    waits.extend(ended.iter().enumerate().map(|(index, span)| {
        after(
            span,
            match clock {
                Clock::Wall => common,
                Clock::Replay if index < own => now.since(span.end),
                Clock::Replay => Micros(0),
            },
        )
    }));
    let state = &mut states[span.session as usize];
    let candidates = ended[..own].iter().copied().chain(state.awaited);
    state.awaited = candidates.max_by_key(|span| (span.end, span.turn));
    state.unawaited.push(*span);
    state.latest = Some(*span);
}

fn take_ended(state: &mut State, now: Micros) -> Vec<Span> {
    let mut ended = Vec::new();
    state.unawaited.retain(|span| {
        let over = span.end <= now;
        if over {
            ended.push(*span);
        }
        !over
    });
    ended
}

/// The last turns of the children that were over when this turn started.
fn join_children(states: &mut [State], span: &Span) -> Vec<Span> {
    let mut children = std::mem::take(&mut states[span.session as usize].children);
    let mut joined = Vec::new();
    children.retain(|&child| {
        let child = &mut states[child as usize];
        // A child that has turns at the same moment may not be through with them.
        let over = child.last_end.is_some_and(|end| end <= span.start);
        if over {
            joined.append(&mut child.unawaited);
        }
        !over
    });
    states[span.session as usize].children = children;
    joined
}

/// The turn that started last in the nearest ancestor that has any.
fn latest_above(input: &Input<'_>, states: &[State], session: u32) -> Option<Span> {
    let mut above = input.sessions[session as usize].parent;
    while let Some(session) = above {
        if let Some(latest) = states[session as usize].latest {
            return Some(latest);
        }
        above = input.sessions[session as usize].parent;
    }
    None
}

fn after(other: &Span, delay: Micros) -> Wait {
    Wait {
        turn: other.turn,
        moment: Moment::End,
        delay,
    }
}

/// After the end of another turn if it had ended, else after its start.
fn since(other: &Span, now: Micros) -> Wait {
    let (moment, from) = if other.end <= now {
        (Moment::End, other.end)
    } else {
        (Moment::Start, other.start)
    };
    Wait {
        turn: other.turn,
        moment,
        delay: now.since(from),
    }
}
