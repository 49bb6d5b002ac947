//! Which part of a workload is wanted?
//!
//! A [`Selection`] leaves out sessions, with all that they spawned, by their size, and cuts what
//! remains to its first turns and its pauses to a length. What is left out is not waited for: a turn
//! that would have waited for a turn that was cut off waits for the last one of that session that
//! stayed, and a session that a cut turn would have spawned goes too. Sizes of a session are those of
//! it and all its descendants, after the cut.
//!
//! It knows no format and no fleet. O(blocks of all prompts).
use std::num::NonZeroU32;

use warmpath_core::Micros;

use crate::builder::{NewStart, NewTurn, WorkloadBuilder};
use crate::turn::{Moment, Start, Turn, Wait};
use crate::workload::Workload;

/// What is wanted of a workload. The default is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only so many turns of each session, from its first.
    pub first_turns: Option<u32>,
    /// Sessions that others spawned are left out.
    pub only_roots: bool,
    /// Sessions with fewer turns of their own are left out.
    pub least_turns: u32,
    /// Sessions are left out of which some prompt has more tokens.
    pub largest_prompt: Option<u32>,
    /// Sessions are left out of which some prompt and its answer together have more tokens.
    pub largest_context: Option<u32>,
    /// Of those that remain, the ones with the fewest prompt tokens in all, so many; of equals, the
    /// ones that stand first.
    pub smallest: Option<u32>,
    /// Longer pauses between turns are cut to this; the times of the trace are then forgotten.
    pub longest_pause: Option<Micros>,
    /// Arrivals and pauses pass so many times as fast; they are rounded down to whole microseconds.
    pub faster: Option<NonZeroU32>,
}

/// Size of a session with its descendants.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    own_turns: u32,
    prompt_tokens: u64,
    largest_prompt: u32,
    largest_context: u32,
}

impl Workload {
    /// The part of it that is wanted.
    #[must_use]
    pub fn select(&self, selection: &Selection) -> Self {
        let cut = self.cut(selection);
        let wanted = self.wanted(selection, &cut);
        let mut part = Part::new(self, selection);
        part.add_sessions(&wanted);
        for (index, turn) in self.turns().iter().enumerate() {
            if !cut[index] {
                part.add_turn(index, turn);
            }
        }
        part.builder.finish()
    }

    /// Whether each turn is behind the first ones of its session that are wanted.
    fn cut(&self, selection: &Selection) -> Vec<bool> {
        let most = selection.first_turns.unwrap_or(u32::MAX);
        let mut seen = vec![0u32; self.sessions().len()];
        let turns = self.turns().iter().map(|turn| {
            let seen = &mut seen[turn.session as usize];
            *seen = seen.saturating_add(1);
            *seen > most
        });
        turns.collect()
    }

    /// Whether each session is wanted.
    fn wanted(&self, selection: &Selection, cut: &[bool]) -> Vec<bool> {
        // A parent stands before its children, so one pass finds every root.
        let mut roots: Vec<u32> = Vec::with_capacity(self.sessions().len());
        for (index, session) in self.sessions().iter().enumerate() {
            let root = session.parent.map(|parent| roots[parent as usize]);
            roots.push(root.unwrap_or(index as u32));
        }
        let is_root = |session: u32| roots[session as usize] == session;
        let mut sizes = vec![Size::default(); roots.len()];
        for (turn, _) in self.turns().iter().zip(cut).filter(|(_, cut)| !**cut) {
            if selection.only_roots && !is_root(turn.session) {
                continue;
            }
            let size = &mut sizes[roots[turn.session as usize] as usize];
            size.own_turns += u32::from(is_root(turn.session));
            size.prompt_tokens += u64::from(turn.input_tokens);
            size.largest_prompt = size.largest_prompt.max(turn.input_tokens);
            let context = turn.input_tokens.saturating_add(turn.output_tokens);
            size.largest_context = size.largest_context.max(context);
        }
        let mut kept: Vec<u32> = (0..roots.len() as u32)
            .filter(|&session| is_root(session) && selection.allows(&sizes[session as usize]))
            .collect();
        if let Some(smallest) = selection.smallest {
            kept.sort_by_key(|&session| sizes[session as usize].prompt_tokens);
            kept.truncate(smallest as usize);
        }
        let mut wanted = vec![false; roots.len()];
        for session in kept {
            wanted[session as usize] = true;
        }
        let sessions = 0..roots.len() as u32;
        sessions
            .map(|session| {
                wanted[roots[session as usize] as usize]
                    && (is_root(session) || !selection.only_roots)
            })
            .collect()
    }
}

impl Selection {
    fn allows(&self, size: &Size) -> bool {
        size.own_turns >= self.least_turns.max(1)
            && size.largest_prompt <= self.largest_prompt.unwrap_or(u32::MAX)
            && size.largest_context <= self.largest_context.unwrap_or(u32::MAX)
    }
}

/// The part while it is made.
struct Part<'a> {
    whole: &'a Workload,
    longest_pause: Option<Micros>,
    faster: u64,
    builder: WorkloadBuilder,
    /// Where each session, turn and block of the whole is in the part.
    sessions: Vec<Option<u32>>,
    turns: Vec<Option<u32>>,
    blocks: Vec<u32>,
    distinct_blocks: u32,
    prompt: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl<'a> Part<'a> {
    fn new(whole: &'a Workload, selection: &Selection) -> Self {
        Self {
            whole,
            longest_pause: selection.longest_pause,
            faster: selection.faster.map_or(1, NonZeroU32::get).into(),
            builder: WorkloadBuilder::new(whole.block_tokens()),
            sessions: vec![None; whole.sessions().len()],
            turns: vec![None; whole.turns().len()],
            blocks: vec![NONE; whole.distinct_blocks() as usize],
            distinct_blocks: 0,
            prompt: Vec::new(),
        }
    }

    fn add_sessions(&mut self, wanted: &[bool]) {
        for (index, session) in self.whole.sessions().iter().enumerate() {
            if wanted[index] {
                let parent = session.parent.and_then(|p| self.sessions[p as usize]);
                self.sessions[index] = self.builder.add_session(&session.name, parent).ok();
            }
        }
    }

    fn add_turn(&mut self, index: usize, turn: &Turn) {
        let Some(session) = self.sessions[turn.session as usize] else {
            return;
        };
        let Some(waits) = self.waits(session, turn) else {
            return;
        };
        self.whole.read_blocks(index, &mut self.prompt);
        for block in &mut self.prompt {
            let number = &mut self.blocks[*block as usize];
            if *number == NONE {
                *number = self.distinct_blocks;
                self.distinct_blocks += 1;
            }
            *block = *number;
        }
        let added = self.builder.add_turn(&NewTurn {
            session,
            input_tokens: turn.input_tokens,
            output_tokens: turn.output_tokens,
            next: turn.next,
            blocks: &self.prompt,
            start: match turn.start {
                Start::At(time) => NewStart::At(self.sooner(time)),
                Start::After(_) => NewStart::AfterNotBefore(&waits, self.not_before(turn)),
            },
        });
        debug_assert!(added.is_ok(), "it was a turn of a workload");
        self.turns[index] = added.ok();
    }

    /// When the turn started in the trace; with shorter pauses that means nothing any more.
    fn not_before(&self, turn: &Turn) -> Micros {
        match self.longest_pause {
            Some(_) => Micros(0),
            None => self.sooner(self.whole.not_before(turn.start)),
        }
    }

    fn sooner(&self, time: Micros) -> Micros {
        Micros(time.0 / self.faster)
    }

    /// What the turn waits for in the part, empty if it waits for nothing; `None` when the turn that
    /// spawned its session is not there.
    fn waits(&self, session: u32, turn: &Turn) -> Option<Vec<Wait>> {
        let is_first = self.builder.last_turn(session).is_none();
        let waits = self.whole.waits(turn.start);
        let mut kept = Vec::with_capacity(waits.len());
        for wait in waits {
            let instead = || {
                let of = self.whole.turns()[wait.turn as usize].session;
                let last = self.sessions[of as usize].and_then(|s| self.builder.last_turn(s));
                last.filter(|_| !is_first)
            };
            let Some(turn) = self.turns[wait.turn as usize].or_else(instead) else {
                continue;
            };
            let delay = match wait.moment {
                Moment::End => self
                    .longest_pause
                    .map_or(wait.delay, |most| wait.delay.min(most)),
                Moment::Start => wait.delay,
            };
            kept.push(Wait {
                turn,
                delay: self.sooner(delay),
                ..*wait
            });
        }
        let is_spawnless = kept.is_empty() && !waits.is_empty();
        (!is_spawnless).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Next;

    /// Adds a turn of a prompt of `blocks` blocks of 10 tokens, an answer of 5, after `waits`.
    fn turn(builder: &mut WorkloadBuilder, session: u32, blocks: &[u32], waits: &[Wait]) -> u32 {
        let turn = NewTurn {
            session,
            input_tokens: blocks.len() as u32 * 10,
            output_tokens: 5,
            next: Next::Tool,
            blocks,
            start: match waits {
                [] => NewStart::At(Micros(7)),
                waits => NewStart::After(waits),
            },
        };
        builder.add_turn(&turn).expect("a turn")
    }

    fn after(turn: u32, seconds: u64) -> Wait {
        Wait {
            turn,
            moment: Moment::End,
            delay: Micros::from_secs(seconds),
        }
    }

    /// "a" of three turns, whose second spawns "a/c" and whose third waits for both; "b" of one turn
    /// with a large prompt.
    fn workload() -> Workload {
        let mut builder = WorkloadBuilder::new(NonZeroU32::new(10).expect("not 0"));
        let b = builder.add_session("b", None).expect("new");
        let a = builder.add_session("a", None).expect("new");
        let child = builder.add_session("a/c", Some(a)).expect("new");
        turn(&mut builder, b, &[9, 8, 7, 6, 5], &[]);
        let one = turn(&mut builder, a, &[0], &[]);
        let two = turn(&mut builder, a, &[0, 1], &[after(one, 100)]);
        let spawned = turn(&mut builder, child, &[2], &[after(two, 1)]);
        let last = turn(&mut builder, child, &[2, 3], &[after(spawned, 1)]);
        turn(
            &mut builder,
            a,
            &[0, 1, 4],
            &[after(two, 3), after(last, 2)],
        );
        builder.finish()
    }

    /// Each turn's session, prompt and waits, as text.
    fn show(workload: &Workload) -> Vec<String> {
        let mut blocks = Vec::new();
        let turns = workload.turns().iter().enumerate();
        let show = turns.map(|(index, turn)| {
            workload.read_blocks(index, &mut blocks);
            let name = &workload.sessions()[turn.session as usize].name;
            let waits = workload.waits(turn.start).iter();
            let waits: Vec<_> = waits
                .map(|wait| format!("{}+{}", wait.turn, wait.delay.0 / 1_000_000))
                .collect();
            format!("{name} {blocks:?} {}", waits.join(" "))
        });
        show.collect()
    }

    fn select(selection: Selection) -> Vec<String> {
        show(&workload().select(&selection))
    }

    #[test]
    fn the_default_is_all_of_it() {
        let whole = workload();
        let all = whole.select(&Selection::default());
        assert_eq!(all.sessions(), whole.sessions());
        assert_eq!(all.turns().len(), whole.turns().len());
        assert_eq!(all.distinct_blocks(), whole.distinct_blocks());
    }

    #[test]
    fn times_can_pass_faster_and_shorter_pauses_are_cut_before_that() {
        let half = Selection {
            faster: NonZeroU32::new(2),
            longest_pause: Some(Micros::from_secs(60)),
            ..Selection::default()
        };
        let whole = [
            "b [0, 1, 2, 3, 4] ",
            "a [5] ",
            "a [5, 6] 1+30",
            "a/c [7] 2+0",
            "a/c [7, 8] 3+0",
            "a [5, 6, 9] 2+1 4+1",
        ];
        assert_eq!(select(half), whole);
        let half = Selection {
            faster: NonZeroU32::new(2),
            ..Selection::default()
        };
        let first = workload().select(&half).turns()[0].start;
        assert_eq!(first, Start::At(Micros(3)));
    }

    #[test]
    fn what_is_too_large_or_too_short_goes_with_its_children() {
        let of_a = [
            "a [0] ",
            "a [0, 1] 0+100",
            "a/c [2] 1+1",
            "a/c [2, 3] 2+1",
            "a [0, 1, 4] 1+3 3+2",
        ];
        for selection in [
            Selection {
                largest_prompt: Some(30),
                ..Selection::default()
            },
            Selection {
                largest_context: Some(54),
                ..Selection::default()
            },
            Selection {
                least_turns: 3,
                ..Selection::default()
            },
        ] {
            assert_eq!(select(selection), of_a);
        }
        let smallest = Selection {
            smallest: Some(1),
            ..Selection::default()
        };
        assert_eq!(
            select(smallest),
            ["b [0, 1, 2, 3, 4] "],
            "50 against 90 tokens"
        );
    }

    #[test]
    fn nobody_waits_for_what_was_cut() {
        let first = |first_turns| Selection {
            first_turns: Some(first_turns),
            least_turns: 1,
            largest_prompt: Some(30),
            ..Selection::default()
        };
        assert_eq!(
            select(first(1)),
            ["a [0] "],
            "the turn that spawned the child is gone"
        );
        assert_eq!(
            select(first(2)),
            ["a [0] ", "a [0, 1] 0+100", "a/c [2] 1+1", "a/c [2, 3] 2+1"]
        );
        let roots = Selection {
            only_roots: true,
            longest_pause: Some(Micros::from_secs(60)),
            ..first(60)
        };
        assert_eq!(
            select(roots),
            ["a [0] ", "a [0, 1] 0+60", "a [0, 1, 2] 1+3"]
        );
    }
}
