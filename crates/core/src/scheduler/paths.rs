//! Which paths are in use, and by whom?
//!
//! A program's path is entered when its turn goes to a worker, follows it turn by turn, and leaves the
//! worker's working set when the program is paused, ends, or is forgotten. A turn without a name that
//! left the last prompt of its session (an edited message, a compacted history) is recognised by how
//! far it goes along with one: further than that session's first prompt, which others may have begun
//! with too, and further than with any other. O(1) in the number of programs.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::admission::Standing;
use crate::block::{Chain, Memo, Namespace};
use crate::id::{PlaceId, ProgramId, WorkerId};
use crate::prefix::{Frontier, PrefixIndex};
use crate::session::{
    Claim, OpenedPath, Returning, Session, SessionId, SessionName, SessionRegistry,
};

use super::Scheduler;
use super::recall::Body;
use super::tally::Churn;

/// A program's way through the index.
#[derive(Debug)]
struct Path {
    session: SessionId,
    frontier: Frontier,
    /// Blocks of the prompt that it began with.
    opened: u32,
    /// What the next prompt may be hashed by; absent where the last one was hashed without.
    memo: Option<Memo>,
    /// What the next body may be held against; absent where the last one came without its bytes.
    body: Option<Arc<Body>>,
    /// Whose blocks it has used last.
    namespace: Namespace,
}

/// What a program has sent, and what its next turn may be read by.
pub(super) struct Sent<'a> {
    pub(super) chain: &'a Chain,
    pub(super) memo: Option<Memo>,
    pub(super) body: Option<Arc<Body>>,
}

/// A prompt that a session has sent before: what the next one is likely to continue.
pub(super) struct Known<'a> {
    /// Absent where there was nothing to continue yet, so that one is made now.
    pub(super) memo: Option<&'a Memo>,
    prefix: &'a PrefixIndex,
    path: &'a Path,
}

impl Known<'_> {
    /// Replaces `chain` by the first `blocks` blocks of it; false when they are not known.
    pub(super) fn retrace(&self, blocks: usize, chain: &mut Chain) -> bool {
        self.path.retrace(self.prefix, blocks, chain)
    }
}

impl Path {
    /// Replaces `chain` by the first `blocks` blocks of it, in the common namespace; false when they
    /// are not known.
    fn retrace(&self, prefix: &PrefixIndex, blocks: usize, chain: &mut Chain) -> bool {
        let known = prefix.retrace(&self.frontier, blocks, chain);
        if known {
            chain.is_of(self.namespace);
            chain.enter(Namespace::COMMON);
        }
        known
    }
}

/// The paths of all programs that need their blocks.
#[derive(Debug, Default)]
pub(super) struct Paths {
    by_program: HashMap<ProgramId, Path>,
    /// Sessions whose paths have changed, while a snapshot is being written.
    pub(super) moved: Option<BTreeSet<SessionId>>,
}

impl Paths {
    /// The program's turn with this prompt went to `place`.
    pub(super) fn follow(
        &mut self,
        prefix: &mut PrefixIndex,
        (program, session): (ProgramId, SessionId),
        place: PlaceId,
        sent: Sent<'_>,
    ) {
        let Sent { chain, memo, body } = sent;
        self.note(session);
        let before = self.by_program.remove(&program);
        let opened = before.as_ref().map_or(chain.len() as u32, |p| p.opened);
        let frontier = prefix.follow(program, place, chain, before.map(|p| p.frontier));
        if let Some(frontier) = frontier {
            let path = Path {
                session,
                frontier,
                opened,
                memo,
                body,
                namespace: chain.namespace(),
            };
            self.by_program.insert(program, path);
        }
    }

    /// The program no longer needs its blocks.
    pub(super) fn leave(&mut self, prefix: &mut PrefixIndex, program: ProgramId) {
        if let Some(path) = self.by_program.remove(&program) {
            self.note(path.session);
            prefix.leave(program, path.frontier);
        }
    }

    fn note(&mut self, session: SessionId) {
        if let Some(moved) = &mut self.moved {
            moved.insert(session);
        }
    }

    /// The program's path in the numbers that a snapshot uses.
    pub(super) fn image(&self, program: ProgramId) -> Option<OpenedPath> {
        let Path {
            frontier, opened, ..
        } = self.by_program.get(&program)?;
        Some(OpenedPath {
            path: frontier.image(),
            opened: *opened,
        })
    }

    /// Enters a path that a snapshot had, which began with so many blocks.
    pub(super) fn enter(&mut self, branch: &Returning, opened: u32, frontier: Frontier) {
        let path = Path {
            session: branch.session,
            frontier,
            opened,
            memo: None,
            body: None,
            namespace: Namespace::COMMON,
        };
        self.by_program.insert(branch.program, path);
    }

    /// Nobody needs anything at `place` any more. O(programs): the fleet changes rarely.
    pub(super) fn leave_all(&mut self, prefix: &mut PrefixIndex, place: PlaceId) {
        let here = |path: &Path| prefix.is_at(&path.frontier, place);
        let own = self.by_program.iter().filter(|(_, path)| here(path));
        let mut own: Vec<ProgramId> = own.map(|(program, _)| *program).collect();
        own.sort_unstable();
        for program in own {
            self.leave(prefix, program);
        }
    }

    /// What a session that is known by its name has sent last, in its longest idle branch.
    /// O(branches), of which there are few.
    pub(super) fn known<'a>(
        &'a self,
        prefix: &'a PrefixIndex,
        session: &Session,
    ) -> Option<Known<'a>> {
        let (_, path) = self.last(session)?;
        Some(Known {
            memo: path.memo.as_ref(),
            prefix,
            path,
        })
    }

    /// The program that a session which is known by its name has used last in its longest idle
    /// branch, and the body that it sent, if that came.
    pub(super) fn last_body(&self, session: &Session) -> Option<(ProgramId, Option<&Arc<Body>>)> {
        let (program, path) = self.last(session)?;
        Some((program, path.body.as_ref()))
    }

    fn last(&self, session: &Session) -> Option<(ProgramId, &Path)> {
        let idle = session.branches().iter().filter(|b| !b.in_flight());
        let program = idle.max_by_key(|b| b.tokens())?.program;
        Some((program, self.by_program.get(&program)?))
    }

    /// Replaces `chain` by the first `blocks` blocks of what came as `body`; false when the program
    /// has sent another one since, or has left.
    pub(super) fn retrace(
        &self,
        prefix: &PrefixIndex,
        (program, body): (ProgramId, &Arc<Body>),
        blocks: usize,
        chain: &mut Chain,
    ) -> bool {
        let path = self.by_program.get(&program);
        let still = path.filter(|p| p.body.as_ref().is_some_and(|b| Arc::ptr_eq(b, body)));
        still.is_some_and(|path| path.retrace(prefix, blocks, chain))
    }

    pub(super) fn frontier(&self, program: ProgramId) -> Option<&Frontier> {
        self.by_program.get(&program).map(|path| &path.frontier)
    }

    /// The unnamed session that a prompt goes along with beyond what it began with, and further than
    /// with any other.
    pub(super) fn recognise(
        &self,
        prefix: &PrefixIndex,
        sessions: &SessionRegistry,
        claim: Claim<'_>,
        chain: &Chain,
    ) -> Option<SessionId> {
        if claim.session.is_some() || self.by_program.is_empty() {
            return None;
        }
        let (program, common) = prefix.nearest(chain)?;
        let path = self.by_program.get(&program)?;
        let session = sessions.get(path.session)?;
        let is_unnamed = matches!(session.name(), SessionName::Derived(_));
        let mut branches = session.branches().iter();
        let is_idle = branches.any(|b| b.program == program && !b.in_flight());
        let is_it = is_unnamed && is_idle && **session.tenant() == *claim.tenant;
        (is_it && common > path.opened).then_some(path.session)
    }
}

/// Another session on the way of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The other one.
    pub session: SessionId,
    /// How many blocks both have in common.
    pub blocks: u32,
}

impl Scheduler {
    /// Tokens that the sessions at a worker need there together: the union of the paths of those that
    /// are neither paused nor forgotten; zero for an unknown worker. O(1).
    #[must_use]
    pub fn working_set(&self, worker: WorkerId) -> u64 {
        let place = self.place_of(worker);
        place.map_or(0, |place| self.prefix.working_set(place))
    }

    /// The sessions that have blocks in common with this one, those with the most first. O(programs),
    /// since it is a question that people ask; no turn does.
    #[must_use]
    pub fn sharing(&self, session: SessionId) -> Vec<Sharing> {
        let branches = self.sessions.get(session).map(|s| s.branches());
        let own = branches.unwrap_or_default().iter();
        let own: Vec<_> = own.filter_map(|b| self.paths.frontier(b.program)).collect();
        let mut most: BTreeMap<SessionId, u32> = BTreeMap::new();
        for path in self.paths.by_program.values() {
            let common = own.iter().map(|f| self.prefix.common(f, &path.frontier));
            let blocks = most.entry(path.session).or_default();
            *blocks = common.max().unwrap_or(0).max(*blocks);
        }
        let others = most
            .into_iter()
            .map(|(session, blocks)| Sharing { session, blocks });
        let mut others: Vec<Sharing> = others
            .filter(|s| s.session != session && s.blocks > 0)
            .collect();
        others.sort_by_key(|s| std::cmp::Reverse(s.blocks));
        others
    }

    /// Programs that the group's admission has paused need nothing for now.
    pub(super) fn leave_paused(&mut self, group: usize) {
        let mut paused = Vec::new();
        self.admission[group].take_pauses(&mut paused);
        for program in paused {
            self.tally.befell(program, Churn::Pause);
            let state = self.admission[group].state(program);
            if state.is_some_and(|state| state.standing == Standing::Paused) {
                self.paths.leave(&mut self.prefix, program);
            }
        }
    }

    /// What sessions need is never dropped to keep the index within its bound, so sessions go: those
    /// that have been idle longest.
    pub(super) fn make_room(&mut self) {
        let mut left = Vec::new();
        while !self.prefix.fit() && self.sessions.evict_oldest(&mut left) {
            self.forget_programs(&left);
            left.clear();
        }
    }
}
