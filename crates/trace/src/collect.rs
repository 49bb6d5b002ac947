//! How do the records of all files become one workload?
//!
//! Records come in any order of sessions. What each one holds is packed at once: its blocks go to
//! the store of prompts, its names become indices, so that memory stays what the workload needs.
//! At the end parents are set before children, turns are ordered, and what each waits for is either
//! what the trace says or what its times let one infer ([`crate::link`]).
//!
//! It does not know formats. It trusts a reader's sizes, and nothing about names: parents may come
//! late, twice, in circles, or never.
use std::num::NonZeroU32;
use std::path::Path;

use hashbrown::{HashMap, HashTable};
use warmpath_core::Micros;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::blocks::BlockStore;
use crate::error::{ErrorKind, Fault, Place, TraceError};
use crate::link;
use crate::skip::Skips;
use crate::traced::{Clock, Dependency, Relation, Scope, Timing, TracedTurn};
use crate::turn::{Moment, Next};
use crate::workload::Workload;

/// A record, packed. Its prompt has the same index.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) session: u32,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) next: Next,
    pub(crate) timing: PackedTiming,
    pub(crate) file: u32,
    place: Place,
}

/// When a packed record started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedTiming {
    Measured {
        start: Micros,
        end: Micros,
        clock: Clock,
    },
    /// At a time, or after the previous record of its session.
    Given { at: Micros, after: Option<u32> },
    /// After those of a range of dependencies.
    Depends { at: Micros, from: u32, until: u32 },
}

/// A dependency by name: a hash of the id, since ids may be long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedWait {
    pub(crate) id: u128,
    pub(crate) moment: Moment,
    pub(crate) delay: Micros,
    relation: Relation,
}

/// A session, by the order of its first mention.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: Box<str>,
    pub(crate) parent: Option<u32>,
    /// Where it stands among all: by file, then as the file says.
    pub(crate) rank: (u32, u32),
    last: Option<u32>,
}

impl Named {
    /// Whether it has a request.
    pub(crate) fn is_there(&self) -> bool {
        self.last.is_some()
    }
}

/// Collects records.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    block_tokens: Option<NonZeroU32>,
    prompts: BlockStore,
    turns: Vec<Packed>,
    waits: Vec<PackedWait>,
    sessions: Vec<Named>,
    names: HashTable<u32>,
    ids: HashMap<u128, u32>,
    /// Global ids below this are their own numbers.
    dense: u32,
    global: HashMap<u64, u32>,
    parts: HashMap<(u32, u64), u32>,
    next_block: u32,
    files: Vec<Box<Path>>,
    scratch: Vec<u32>,
}

impl Collector {
    /// A file begins: ids of requests and of parts mean something new.
    pub(crate) fn begin_file(&mut self, path: &Path) {
        self.parts.clear();
        self.files.push(path.into());
    }

    /// Takes a record, or says what is wrong with it; then at most names of sessions are kept.
    pub(crate) fn add(&mut self, turn: TracedTurn, place: Place) -> Result<(), Fault> {
        self.check(&turn)?;
        let index = self.index();
        let session = match &turn.session {
            Some(name) => self.session(name),
            None => self.session(&self.alone(&turn)),
        };
        if let (Some(rank), None) = (turn.rank, self.sessions[session as usize].last) {
            self.sessions[session as usize].rank = (self.file(), rank);
        }
        let parent = turn.parent.as_deref().map(|name| self.session(name));
        if let Some(parent) = parent {
            self.set_parent(session, parent)?;
        }
        let previous = self.sessions[session as usize].last;
        let alike = previous.or_else(|| self.sessions[parent? as usize].last);
        self.push_prompt(&turn, alike)?;
        let timing = self.pack(turn.timing, previous);
        if let Some(id) = &turn.id {
            self.ids.insert(self.id(id), index);
        }
        self.sessions[session as usize].last = Some(index);
        self.turns.push(Packed {
            session,
            input_tokens: turn.input_tokens,
            output_tokens: turn.output_tokens,
            next: turn.next,
            timing,
            file: self.file(),
            place,
        });
        Ok(())
    }

    /// Whether there is no request.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The workload of all records, and how many sessions name a parent that has none.
    pub(crate) fn finish(mut self, skips: &mut Skips) -> Result<(Workload, u64), TraceError> {
        let Some(block_tokens) = self.block_tokens.filter(|_| !self.turns.is_empty()) else {
            let fault = Fault::new(ErrorKind::Empty, "there is no request in it");
            let file = self.files.first().map_or(Path::new(""), |file| file);
            return Err(TraceError::new(fault, file, Place::File));
        };
        self.global = HashMap::new();
        self.parts = HashMap::new();
        self.adopt(skips)?;
        let orphans = self.leave_absent_parents();
        let prompts = std::mem::take(&mut self.prompts);
        let input = link::Input {
            sessions: &self.sessions,
            turns: &self.turns,
            waits: &self.waits,
            ids: &self.ids,
        };
        let mut skip = |turn: u32, fault: Fault| {
            let error = self.error(turn, fault);
            match error.kind() {
                ErrorKind::UnknownReference => skips.take_link(error),
                _ => skips.take(error),
            }
        };
        let workload = link::workload(&input, block_tokens, prompts, &mut skip)?;
        Ok((workload, orphans))
    }

    /// The parent of each session becomes the nearest of its ancestors that has a request. Returns how many
    /// have none then.
    fn leave_absent_parents(&mut self) -> u64 {
        let mut orphans = 0;
        for session in 0..self.sessions.len() {
            let named = self.sessions[session].parent;
            let mut above = named;
            while let Some(at) = above.filter(|&at| !self.sessions[at as usize].is_there()) {
                above = self.sessions[at as usize].parent;
            }
            let is_there = self.sessions[session].is_there();
            orphans += u64::from(is_there && named.is_some() && above.is_none());
            self.sessions[session].parent = above;
        }
        orphans
    }

    /// Sets the parents that only a dependency names: whose turn spawned a session's first turn.
    fn adopt(&mut self, skips: &mut Skips) -> Result<(), TraceError> {
        let mut seen = vec![false; self.sessions.len()];
        for turn in 0..self.index() {
            let packed = &self.turns[turn as usize];
            let session = packed.session;
            if std::mem::replace(&mut seen[session as usize], true) {
                continue;
            }
            let PackedTiming::Depends { from, until, .. } = packed.timing else {
                continue;
            };
            let waits = &self.waits[from as usize..until as usize];
            let spawn = waits.iter().find(|wait| wait.relation == Relation::Spawn);
            let spawner = spawn.and_then(|wait| self.ids.get(&wait.id));
            let parent = spawner.map(|&spawner| self.turns[spawner as usize].session);
            let Some(parent) = parent.filter(|&parent| parent != session) else {
                continue;
            };
            if self.sessions[session as usize].parent.is_none()
                && let Err(fault) = self.set_parent(session, parent)
            {
                skips.take_link(self.error(turn, fault))?;
            }
        }
        Ok(())
    }

    fn error(&self, turn: u32, fault: Fault) -> TraceError {
        let turn = &self.turns[turn as usize];
        TraceError::new(fault, &self.files[turn.file as usize], turn.place)
    }

    fn check(&mut self, turn: &TracedTurn) -> Result<(), Fault> {
        let block_tokens = *self.block_tokens.get_or_insert(turn.block_tokens);
        if turn.block_tokens != block_tokens {
            let detail = format!(
                "blocks of {} tokens after blocks of {block_tokens}: traces with blocks of two \
                 sizes have to be read apart",
                turn.block_tokens
            );
            return Err(Fault::new(ErrorKind::BlockSize, detail));
        }
        let most = turn.input_tokens.div_ceil(block_tokens.get()) as usize;
        if turn.blocks.len() > most {
            let (blocks, tokens) = (turn.blocks.len(), turn.input_tokens);
            return Err(Fault::invalid(format!(
                "{blocks} blocks of {block_tokens} tokens in a prompt of {tokens}"
            )));
        }
        if turn.session.is_some() && turn.session == turn.parent {
            let detail = "a session that is its own parent";
            return Err(Fault::new(ErrorKind::Parent, detail));
        }
        let known = |id: &String| self.ids.contains_key(&self.id(id));
        if let Some(id) = turn.id.as_ref().filter(|id| known(id)) {
            let detail = format!("request {id:?} is there twice");
            return Err(Fault::new(ErrorKind::Duplicate, detail));
        }
        if self.turns.len() >= u32::MAX as usize / 4 {
            return Err(Fault::invalid("more requests than can be numbered"));
        }
        Ok(())
    }

    /// The name of a session of one request. Ids are those of a file, names are not.
    fn alone(&self, turn: &TracedTurn) -> String {
        match (&turn.id, self.file()) {
            (Some(id), 0) => format!("request {id}"),
            (Some(id), file) => format!("request {id} of file {}", file + 1),
            (None, _) => format!("turn {}", self.index()),
        }
    }

    /// A request's id in the file that is read.
    fn id(&self, id: &str) -> u128 {
        xxh3_128_with_seed(id.as_bytes(), self.file().into())
    }

    fn file(&self) -> u32 {
        self.files.len() as u32 - 1
    }

    fn index(&self) -> u32 {
        // `check` bounds it.
        self.turns.len() as u32
    }

    fn session(&mut self, name: &str) -> u32 {
        let hash = xxh3_64(name.as_bytes());
        let sessions = &mut self.sessions;
        let same = |&other: &u32| *sessions[other as usize].name == *name;
        if let Some(&known) = self.names.find(hash, same) {
            return known;
        }
        let index = sessions.len() as u32;
        sessions.push(Named {
            name: name.into(),
            parent: None,
            rank: (self.files.len() as u32 - 1, index),
            last: None,
        });
        self.names.insert_unique(hash, index, |&other| {
            xxh3_64(sessions[other as usize].name.as_bytes())
        });
        index
    }

    fn set_parent(&mut self, session: u32, parent: u32) -> Result<(), Fault> {
        match self.sessions[session as usize].parent {
            Some(known) if known == parent => return Ok(()),
            Some(known) => {
                let known = &self.sessions[known as usize].name;
                let detail = format!("a session with a second parent; its first is {known:?}");
                return Err(Fault::new(ErrorKind::Parent, detail));
            }
            None => {}
        }
        // Each link is checked as it is set, so the walk up ends.
        let mut above = Some(parent);
        while let Some(at) = above {
            if at == session {
                let detail = "a session that is its own ancestor";
                return Err(Fault::new(ErrorKind::Parent, detail));
            }
            above = self.sessions[at as usize].parent;
        }
        self.sessions[session as usize].parent = Some(parent);
        Ok(())
    }

    fn push_prompt(&mut self, turn: &TracedTurn, alike: Option<u32>) -> Result<(), Fault> {
        let mut dense = std::mem::take(&mut self.scratch);
        dense.clear();
        for &id in &turn.blocks {
            let next = self.next_block;
            let block = match turn.scope {
                Scope::Global => self.global_block(id),
                Scope::Part(part) => *self.parts.entry((part, id)).or_insert(next),
            };
            if block == u32::MAX {
                return Err(Fault::invalid("more blocks than can be numbered"));
            }
            self.next_block += u32::from(block == next);
            dense.push(block);
        }
        self.prompts.push(&dense, alike.map(|turn| turn as usize));
        self.scratch = dense;
        Ok(())
    }

    /// The number of a global id. Many traces count blocks in the order of first sight already, and
    /// then need no table: for a million published Mooncake rows that is 0.8 GB less.
    ///
    /// Once another id took a number, `next_block` stays ahead of `dense`, so no number of the
    /// table is ever given out as a dense one.
    fn global_block(&mut self, id: u64) -> u32 {
        if id < u64::from(self.dense) {
            return id as u32;
        }
        if id == u64::from(self.next_block) && self.dense == self.next_block {
            self.dense = self.dense.saturating_add(1);
            return self.next_block;
        }
        *self.global.entry(id).or_insert(self.next_block)
    }

    fn pack(&mut self, timing: Timing, previous: Option<u32>) -> PackedTiming {
        match timing {
            Timing::Measured { start, end, clock } => PackedTiming::Measured { start, end, clock },
            Timing::Arrival(at) => PackedTiming::Given { at, after: None },
            Timing::Follows(at) => PackedTiming::Given {
                at,
                after: previous,
            },
            Timing::Depends { at, on } => {
                let from = self.waits.len() as u32;
                for wait in &on {
                    let packed = self.pack_wait(wait);
                    self.waits.push(packed);
                }
                let until = self.waits.len() as u32;
                PackedTiming::Depends { at, from, until }
            }
        }
    }

    fn pack_wait(&self, dependency: &Dependency) -> PackedWait {
        PackedWait {
            id: self.id(&dependency.id),
            moment: dependency.moment,
            delay: dependency.delay,
            relation: dependency.relation,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turn(scope: Scope, blocks: Vec<u64>) -> TracedTurn {
        TracedTurn {
            rank: None,
            id: None,
            session: None,
            parent: None,
            input_tokens: 1_000,
            output_tokens: 1,
            block_tokens: NonZeroU32::MIN,
            blocks,
            scope,
            timing: Timing::Arrival(Micros(0)),
            next: Next::Unknown,
        }
    }

    #[test]
    fn ids_of_requests_are_those_of_a_file() {
        let named = |id: &str, on: &[&str]| TracedTurn {
            id: Some(id.to_owned()),
            timing: Timing::Depends {
                at: Micros(0),
                on: on.iter().map(|id| after(id)).collect(),
            },
            ..turn(Scope::Global, vec![])
        };
        let mut collector = Collector::default();
        for path in ["a", "b"] {
            collector.begin_file(Path::new(path));
            for turn in [named("r0", &[]), named("r1", &["r0"])] {
                collector.add(turn, Place::File).expect("new in its file");
            }
        }
        let twice = collector.add(named("r0", &[]), Place::File);
        assert_eq!(twice.expect_err("twice").kind, ErrorKind::Duplicate);
        let workload = collector.finish(&mut Skips::default()).expect("turns").0;
        let awaited = workload.turns().iter().map(|turn| {
            let waits = workload.waits(turn.start);
            waits.iter().map(|wait| wait.turn).collect::<Vec<_>>()
        });
        assert_eq!(
            awaited.collect::<Vec<_>>(),
            [vec![], vec![0], vec![], vec![2]]
        );
        assert_eq!(workload.sessions().len(), 4);
    }

    fn after(id: &str) -> Dependency {
        Dependency {
            id: id.to_owned(),
            moment: Moment::End,
            delay: Micros(0),
            relation: Relation::Sequence,
        }
    }

    proptest! {
        /// Against a table of all: ids that happen to be dense must not be mixed up with others.
        #[test]
        fn equal_blocks_and_only_they_get_one_number(
            prompts in prop::collection::vec(
                (0u32..4, prop::collection::vec(0u64..12, 0..8), any::<bool>()),
                1..30,
            ),
        ) {
            let mut collector = Collector::default();
            let mut naive: HashMap<(usize, Scope, u64), u32> = HashMap::new();
            let mut want = Vec::new();
            let mut file = 0;
            collector.begin_file(Path::new("a"));
            for (scope, ids, is_new_file) in prompts {
                if is_new_file {
                    // Parts are those of a file.
                    file += 1;
                    collector.begin_file(Path::new("b"));
                }
                let scope = scope.checked_sub(2).map_or(Scope::Global, Scope::Part);
                let owner = if scope == Scope::Global { 0 } else { file };
                let numbers = ids.iter().map(|&id| {
                    let next = naive.len() as u32;
                    *naive.entry((owner, scope, id)).or_insert(next)
                });
                want.push(numbers.collect::<Vec<_>>());
                collector.add(turn(scope, ids), Place::File).expect("nothing is wrong");
            }
            let mut skips = Skips::default();
            let workload = collector.finish(&mut skips).expect("there are turns").0;
            let mut blocks = Vec::new();
            for (index, want) in want.iter().enumerate() {
                workload.read_blocks(index, &mut blocks);
                prop_assert_eq!(&blocks, want);
            }
            prop_assert_eq!(workload.distinct_blocks() as usize, naive.len());
        }
    }
}
