//! How are sessions written down, a slice at a time, and read again?
//!
//! Session by session with their branches, and with the path and the home of each branch, which the caller
//! knows.
//! Nothing in flight is written: after a restart every branch is idle, and what it had in flight may be
//! sent again. Sessions that change between slices are noted and written again. When they are read,
//! the ones that were used last are kept, as many as there is room for. O(what a slice writes); reading
//! is O(sessions × log sessions).
use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::branch::Branch;
use super::{
    Claim, MAX_BRANCHES, Session, SessionId, SessionName, SessionRegistry, scoped_frontier,
};
use crate::Result;
use crate::id::{Micros, ProgramId, TargetId};
use crate::prefix::PathImage;
use crate::snapshot::{Budget, Encode, Progress, Reader, invalid};

/// A look at a session costs at least so many bytes' time: it lies in several pieces of memory.
const SESSION_UNITS: usize = 512;

/// A path, and the blocks of the prompt that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedPath {
    pub(crate) path: PathImage,
    pub(crate) opened: u32,
}

/// Where a branch is, in the numbers of the scheduler that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) path: Option<OpenedPath>,
    /// The worker that it stays with.
    pub(crate) home: Option<u32>,
}

/// The sessions as a snapshot has them.
#[derive(Debug, Default)]
pub(crate) struct SessionsImage {
    sessions: BTreeMap<u32, SessionImage>,
    derived: u64,
    next_program: u64,
    evicted: u64,
}

#[derive(Debug)]
struct SessionImage {
    tenant: Box<str>,
    name: SessionName,
    parent: Option<Box<str>>,
    binding: Option<u32>,
    turns: u64,
    last_used: Micros,
    branches: Vec<(Branch, Whereabouts)>,
}

/// A branch that has come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returning {
    pub(crate) session: SessionId,
    pub(crate) program: ProgramId,
    pub(crate) was: Whereabouts,
}

impl SessionRegistry {
    /// A snapshot begins; one that was being written is void.
    pub(crate) fn watch(&mut self) {
        self.watch = Some(Box::default());
    }

    /// No snapshot is being written any more.
    pub(crate) fn unwatch(&mut self) {
        self.watch = None;
    }

    /// Tells a snapshot that is being written that something about a session has changed.
    pub(crate) fn note(&mut self, id: SessionId) {
        if let Some(watch) = &mut self.watch {
            watch.note(id.slot, 0);
        }
    }

    /// Writes sessions that have not been written yet.
    pub(crate) fn write(
        &mut self,
        place_of: impl Fn(ProgramId) -> Whereabouts,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Some(mut watch) = self.watch.take() else {
            return Progress::Done;
        };
        let progress = loop {
            let slot = watch.cursor().0;
            if slot as usize >= self.slots.len() {
                watch.finish();
                break Progress::Done;
            }
            if budget.is_spent() {
                break Progress::More;
            }
            if self.slots[slot as usize].session.is_some() {
                self.write_session(slot, &place_of, budget, out);
            }
            budget.charge(1);
            watch.pass();
        };
        self.watch = Some(watch);
        progress
    }

    /// Writes again what has changed since it was written.
    pub(crate) fn write_changed(
        &mut self,
        place_of: impl Fn(ProgramId) -> Whereabouts,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Some(mut watch) = self.watch.take() else {
            return Progress::Done;
        };
        while !budget.is_spent()
            && let Some((slot, _)) = watch.take()
        {
            self.write_session(slot, &place_of, budget, out);
        }
        let progress = match watch.has_changes() {
            true => Progress::More,
            false => Progress::Done,
        };
        self.watch = Some(watch);
        progress
    }

    /// Writes the counts.
    pub(crate) fn write_counts(&self, out: &mut Vec<u8>) {
        out.put_u64(self.derived);
        out.put_u64(self.next_program);
        out.put_u64(self.evicted);
    }

    /// Writes one session, or that there is none.
    fn write_session(
        &self,
        slot: u32,
        place_of: impl Fn(ProgramId) -> Whereabouts,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.put_u32(slot);
        let session = self.slots.get(slot as usize);
        let session = session.and_then(|slot| slot.session.as_ref());
        out.put_u8(u8::from(session.is_some()));
        if let Some(session) = session {
            session.write(place_of, out);
        }
        budget.charge(SESSION_UNITS + out.len() - start);
    }

    /// A registry with room for `max_sessions` that holds what is left of a snapshot, and where its
    /// branches were. `target_of` finds the snapshot's targets among ours, `moved` puts its times on
    /// our clock.
    pub(crate) fn rebuild(
        image: SessionsImage,
        max_sessions: usize,
        target_of: impl Fn(u32) -> Option<TargetId>,
        moved: impl Fn(Micros) -> Micros,
    ) -> (Self, Vec<Returning>) {
        let mut registry = Self::new(max_sessions);
        (registry.derived, registry.evicted) = (image.derived, image.evicted);
        registry.next_program = image.next_program;
        let mut sessions: Vec<_> = image.sessions.into_values().collect();
        sessions.sort_by_key(|session| session.last_used);
        let surplus = sessions.len().saturating_sub(registry.max_sessions);
        let mut returning = Vec::new();
        for session in sessions.into_iter().skip(surplus) {
            registry.take_in(session, &target_of, &moved, &mut returning);
        }
        (registry, returning)
    }

    fn take_in(
        &mut self,
        image: SessionImage,
        target_of: impl Fn(u32) -> Option<TargetId>,
        moved: impl Fn(Micros) -> Micros,
        returning: &mut Vec<Returning>,
    ) {
        let named = match &image.name {
            SessionName::Named(name) => Some(name.clone()),
            SessionName::Derived(_) => None,
        };
        let claim = Claim {
            tenant: &image.tenant,
            session: named.as_deref(),
            parent: image.parent.as_deref(),
        };
        let is_named = named.is_some();
        let id = self.open(claim, image.name, &mut Vec::new());
        let sent = image.branches.iter().filter(|(b, _)| b.has_sent());
        for (branch, _) in sent.filter(|_| !is_named) {
            let frontier = scoped_frontier(&image.tenant, branch.frontier());
            self.by_frontier.insert(frontier, id);
        }
        let branches = image.branches.iter();
        returning.extend(branches.map(|&(ref branch, was)| Returning {
            session: id,
            program: branch.program,
            was,
        }));
        if let Some(session) = self.get_mut(id) {
            session.binding = image.binding.and_then(target_of);
            session.turns = image.turns;
            session.branches = image.branches.into_iter().map(|(b, _)| b).collect();
        }
        self.touch(moved(image.last_used), id);
    }
}

impl Session {
    fn write(&self, place_of: impl Fn(ProgramId) -> Whereabouts, out: &mut Vec<u8>) {
        out.put_text(&self.tenant);
        match &self.name {
            SessionName::Named(name) => {
                out.put_u8(1);
                out.put_text(name);
            }
            SessionName::Derived(number) => {
                out.put_u8(0);
                out.put_u64(*number);
            }
        }
        out.put_u8(u8::from(self.parent.is_some()));
        if let Some(parent) = &self.parent {
            out.put_text(parent);
        }
        out.put_u8(u8::from(self.binding.is_some()));
        if let Some(binding) = self.binding {
            out.put_u32(binding.0);
        }
        out.put_u64(self.turns);
        out.put_u64(self.last_used.0);
        out.put_len(self.branches.len());
        for branch in &self.branches {
            branch.write(out);
            let Whereabouts { path, home } = place_of(branch.program);
            out.put_u8(u8::from(path.is_some()));
            if let Some(OpenedPath { path, opened }) = path {
                out.put_u32(path.slot);
                out.put_u32(path.run);
                out.put_u32(path.offset);
                out.put_u32(opened);
            }
            out.put_u8(u8::from(home.is_some()));
            if let Some(home) = home {
                out.put_u32(home);
            }
        }
    }
}

impl SessionsImage {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Reads records of sessions; the last one of a session counts.
    pub(crate) fn read(&mut self, mut reader: Reader<'_>) -> Result<()> {
        while !reader.is_empty() {
            let slot = reader.u32()?;
            match reader.option(SessionImage::read)? {
                Some(session) => self.sessions.insert(slot, session),
                None => self.sessions.remove(&slot),
            };
        }
        Ok(())
    }

    /// Reads the counts, and checks that no two sessions are one.
    pub(crate) fn read_counts(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.derived = reader.u64()?;
        self.next_program = reader.u64()?;
        self.evicted = reader.u64()?;
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        let mut programs = HashSet::new();
        for session in self.sessions.values() {
            let is_new = match &session.name {
                SessionName::Named(name) => names.insert((&*session.tenant, &**name)),
                SessionName::Derived(number) => numbers.insert(*number),
            };
            let branches = &mut session.branches.iter();
            let are_new = branches.all(|(branch, _)| {
                let program = branch.program.0;
                program < self.next_program && programs.insert(program)
            });
            if !is_new || !are_new {
                return Err(invalid("a session is in it twice"));
            }
        }
        match self.next_program.max(self.derived).max(self.evicted) <= u64::MAX / 2 {
            true => Ok(()),
            false => Err(invalid("a count is too large")),
        }
    }
}

impl SessionImage {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let tenant = reader.text()?.into();
        let name = match reader.flag()? {
            true => SessionName::Named(reader.text()?.into()),
            false => SessionName::Derived(reader.u64()?),
        };
        let parent = reader.option(|reader| reader.text().map(Box::from))?;
        let binding = reader.option(Reader::u32)?;
        let turns = reader.u64()?;
        let last_used = Micros(reader.u64()?);
        let branches = reader.list(Branch::LEAST_BYTES, |reader| {
            let branch = Branch::read(reader)?;
            let path = reader.option(|reader| {
                Ok(OpenedPath {
                    path: PathImage {
                        slot: reader.u32()?,
                        run: reader.u32()?,
                        offset: reader.u32()?,
                    },
                    opened: reader.u32()?,
                })
            })?;
            let home = reader.option(Reader::u32)?;
            Ok((branch, Whereabouts { path, home }))
        })?;
        match branches.len() <= MAX_BRANCHES && turns <= u64::MAX / 2 {
            true => Ok(Self {
                tenant,
                name,
                parent,
                binding,
                turns,
                last_used,
                branches,
            }),
            false => Err(invalid("a session has too many branches or turns")),
        }
    }
}
