//! How is a workload made so that nobody has to doubt it afterwards?
//!
//! The builder takes sessions and turns in order and refuses what points nowhere: an unknown or
//! doubled session, a parent or a wait that does not stand before, a size of 0, more blocks than
//! the prompt has room for. What it refuses changes nothing, so a lenient reader skips and goes on.
//!
//! It does not know formats, files or lines; a reader adds those to the error. A turn costs its
//! blocks; a session costs its name.
use std::fmt;
use std::num::NonZeroU32;

use hashbrown::HashTable;
use warmpath_core::Micros;
use xxhash_rust::xxh3::xxh3_64;

use crate::blocks::BlockStore;
use crate::turn::{Next, Start, Turn, Wait, Waits};
use crate::workload::{SessionInfo, Workload};

/// Why a turn or session was not taken. The builder is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadError {
    /// A name is taken, or the parent is not there yet (a session cannot be its own parent).
    Session(String),
    /// A turn names a session or waits for a turn that is not there yet, or waits for nothing.
    Reference(String),
    /// A size is out of its range.
    Size(String),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(detail) | Self::Reference(detail) | Self::Size(detail) => {
                f.write_str(detail)
            }
        }
    }
}

impl std::error::Error for WorkloadError {}

/// A turn that is to be added.
#[derive(Clone, Copy, Debug)]
pub struct NewTurn<'a> {
    /// Index of its session.
    pub session: u32,
    /// Tokens of the prompt; at least 1.
    pub input_tokens: u32,
    /// Tokens of the answer; at least 1.
    pub output_tokens: u32,
    /// What its session does afterwards, as far as the trace says.
    pub next: Next,
    /// Blocks of the prompt, each a number below `u32::MAX`; equal numbers are equal blocks.
    pub blocks: &'a [u32],
    /// When it starts.
    pub start: NewStart<'a>,
}

/// When a turn that is to be added starts.
#[derive(Clone, Copy, Debug)]
pub enum NewStart<'a> {
    /// This long after the replay began.
    At(Micros),
    /// When all of these, at least one, are over.
    After(&'a [Wait]),
    /// The same, and this long after the replay began if it keeps the times of the trace.
    AfterNotBefore(&'a [Wait], Micros),
}

impl<'a> NewStart<'a> {
    /// What is waited for, and the time before which nothing starts.
    fn waits(self) -> (&'a [Wait], Micros) {
        match self {
            Self::At(time) => (&[], time),
            Self::After(waits) => (waits, Micros(0)),
            Self::AfterNotBefore(waits, time) => (waits, time),
        }
    }
}

/// Makes a [`Workload`], checking every reference and size.
#[derive(Debug)]
pub struct WorkloadBuilder {
    workload: Workload,
    /// The last turn of each session, to share its blocks with the next.
    last_turn: Vec<Option<u32>>,
    /// Indices of sessions by name.
    names: HashTable<u32>,
}

impl WorkloadBuilder {
    /// An empty workload with blocks of `block_tokens` tokens.
    #[must_use]
    pub fn new(block_tokens: NonZeroU32) -> Self {
        Self::with_prompts(block_tokens, BlockStore::default())
    }

    /// An empty workload whose prompts are known already; see [`WorkloadBuilder::place`].
    pub(crate) fn with_prompts(block_tokens: NonZeroU32, blocks: BlockStore) -> Self {
        Self {
            workload: Workload {
                block_tokens,
                sessions: Vec::new(),
                turns: Vec::new(),
                waits: Vec::new(),
                distinct_blocks: blocks.distinct(),
                blocks,
            },
            last_turn: Vec::new(),
            names: HashTable::new(),
        }
    }

    /// Turns so far, which is the index that the next one gets.
    #[must_use]
    pub fn turns(&self) -> u32 {
        size(self.workload.turns.len())
    }

    /// The last turn of a session so far.
    #[must_use]
    pub fn last_turn(&self, session: u32) -> Option<u32> {
        self.last_turn.get(session as usize).copied().flatten()
    }

    /// Adds a session and returns its index.
    ///
    /// # Errors
    /// [`WorkloadError::Session`] when the name is taken or the parent is no session yet.
    pub fn add_session(&mut self, name: &str, parent: Option<u32>) -> Result<u32, WorkloadError> {
        let index = size(self.workload.sessions.len());
        if parent.is_some_and(|parent| parent >= index) {
            let detail = format!("session {name:?} has a parent that is not there before it");
            return Err(WorkloadError::Session(detail));
        }
        let hash = xxh3_64(name.as_bytes());
        let sessions = &mut self.workload.sessions;
        let same = |&other: &u32| *sessions[other as usize].name == *name;
        if self.names.find(hash, same).is_some() {
            let detail = format!("session {name:?} is there twice");
            return Err(WorkloadError::Session(detail));
        }
        sessions.push(SessionInfo {
            name: name.into(),
            parent,
        });
        self.names.insert_unique(hash, index, |&other| {
            xxh3_64(sessions[other as usize].name.as_bytes())
        });
        self.last_turn.push(None);
        Ok(index)
    }

    /// Adds a turn and returns its index.
    ///
    /// # Errors
    /// [`WorkloadError::Reference`] when it names what is not there, [`WorkloadError::Size`] when
    /// a size is 0 or it has more blocks than its prompt can fill.
    pub fn add_turn(&mut self, turn: &NewTurn<'_>) -> Result<u32, WorkloadError> {
        let index = self.turns();
        self.check(turn, index)?;
        let alike = self.last_turn(turn.session);
        let alike = alike.map(|turn| self.workload.turns[turn as usize].prompt as usize);
        let prompt = size(self.workload.blocks.len());
        self.workload.blocks.push(turn.blocks, alike);
        self.workload.distinct_blocks = self.workload.blocks.distinct();
        self.place(turn, prompt);
        Ok(index)
    }

    /// Adds a turn whose references and sizes are right, and whose prompt is stored already.
    pub(crate) fn place(&mut self, turn: &NewTurn<'_>, prompt: u32) {
        let index = self.turns();
        let workload = &mut self.workload;
        let start = match turn.start {
            NewStart::At(time) => Start::At(time),
            NewStart::After(_) | NewStart::AfterNotBefore(..) => {
                let (waits, not_before) = turn.start.waits();
                let from = size(workload.waits.len());
                workload.waits.extend_from_slice(waits);
                let len = size(waits.len());
                Start::After(Waits {
                    from,
                    len,
                    not_before,
                })
            }
        };
        workload.turns.push(Turn {
            session: turn.session,
            start,
            input_tokens: turn.input_tokens,
            output_tokens: turn.output_tokens,
            next: turn.next,
            prompt,
        });
        self.last_turn[turn.session as usize] = Some(index);
    }

    /// The workload. Each session's last turn gets [`Next::End`].
    #[must_use]
    pub fn finish(mut self) -> Workload {
        for &last in self.last_turn.iter().flatten() {
            self.workload.turns[last as usize].next = Next::End;
        }
        self.workload
    }

    fn check(&self, turn: &NewTurn<'_>, index: u32) -> Result<(), WorkloadError> {
        if turn.session as usize >= self.workload.sessions.len() {
            let detail = format!("there is no session {}", turn.session);
            return Err(WorkloadError::Reference(detail));
        }
        if !matches!(turn.start, NewStart::At(_)) {
            let (waits, _) = turn.start.waits();
            if waits.is_empty() {
                let detail = "a turn that waits must wait for something".to_owned();
                return Err(WorkloadError::Reference(detail));
            }
            if let Some(wait) = waits.iter().find(|wait| wait.turn >= index) {
                let detail = format!("turn {index} waits for turn {}, not before it", wait.turn);
                return Err(WorkloadError::Reference(detail));
            }
        }
        if turn.input_tokens == 0 || turn.output_tokens == 0 {
            let detail = "a turn has at least one token in and one out".to_owned();
            return Err(WorkloadError::Size(detail));
        }
        let most = turn.input_tokens.div_ceil(self.workload.block_tokens.get());
        if turn.blocks.len() > most as usize {
            let (blocks, tokens) = (turn.blocks.len(), turn.input_tokens);
            let detail = format!("{blocks} blocks in a prompt of {tokens} tokens");
            return Err(WorkloadError::Size(detail));
        }
        if turn.blocks.contains(&u32::MAX) {
            let detail = format!("block {} is out of range", u32::MAX);
            return Err(WorkloadError::Size(detail));
        }
        Ok(())
    }
}

/// A count that stays below 2^32: a workload that large does not fit into memory anyway.
fn size(n: usize) -> u32 {
    u32::try_from(n).expect("a workload has fewer than 2^32 turns, waits and sessions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Moment;

    fn turn<'a>(session: u32, blocks: &'a [u32], start: NewStart<'a>) -> NewTurn<'a> {
        NewTurn {
            session,
            input_tokens: 32,
            output_tokens: 4,
            next: Next::Tool,
            blocks,
            start,
        }
    }

    fn builder() -> WorkloadBuilder {
        WorkloadBuilder::new(NonZeroU32::new(16).expect("not zero"))
    }

    #[test]
    fn a_session_that_waits_for_its_last_turn() {
        let mut builder = builder();
        let session = builder.add_session("a", None).expect("new");
        let first = turn(session, &[0, 1], NewStart::At(Micros(5)));
        builder.add_turn(&first).expect("first");
        let wait = Wait {
            turn: 0,
            moment: Moment::End,
            delay: Micros(7),
        };
        let waits = [wait];
        let second = turn(session, &[0, 2], NewStart::After(&waits));
        builder.add_turn(&second).expect("second");
        let workload = builder.finish();
        let turns = workload.turns();
        assert_eq!(turns[0].next, Next::Tool);
        assert_eq!(turns[1].next, Next::End);
        assert_eq!(turns[0].start, Start::At(Micros(5)));
        assert_eq!(workload.waits(turns[1].start), [wait]);
        assert_eq!(workload.distinct_blocks(), 3);
        let mut blocks = Vec::new();
        workload.read_blocks(1, &mut blocks);
        assert_eq!(blocks, [0, 2]);
    }

    #[test]
    fn what_is_not_there_is_refused_and_changes_nothing() {
        let mut builder = builder();
        assert!(matches!(
            builder.add_session("a", Some(0)),
            Err(WorkloadError::Session(_))
        ));
        let session = builder.add_session("a", None).expect("new");
        assert!(matches!(
            builder.add_session("a", None),
            Err(WorkloadError::Session(_))
        ));
        let itself = Wait {
            turn: 0,
            moment: Moment::Start,
            delay: Micros(0),
        };
        let itself = [itself];
        for (refused, what) in [
            (turn(1, &[], NewStart::At(Micros(0))), "session"),
            (turn(session, &[], NewStart::After(&[])), "something"),
            (turn(session, &[], NewStart::After(&itself)), "not before"),
            (turn(session, &[1, 2, 3], NewStart::At(Micros(0))), "blocks"),
            (
                turn(session, &[u32::MAX], NewStart::At(Micros(0))),
                "out of range",
            ),
        ] {
            let error = builder.add_turn(&refused).expect_err(what);
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(builder.turns(), 0);
    }
}
