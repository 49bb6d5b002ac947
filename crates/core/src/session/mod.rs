//! Whose turn is it: sessions by name or by what they have sent, their parents and their branches.
//!
//! Identity is passive. A name (scoped by tenant) finds its session; a turn without a name belongs
//! to the session whose last prompt it extends, and starts a session of its own otherwise, so a
//! shared system prompt alone never joins two. The registry knows nothing of workers or models
//! beyond the target that a session is bound to.
//!
//! Every call is O(1) in the number of sessions; a turn without a name probes one map per block of
//! its own prompt. The registry is bounded by count: the session that has been idle longest leaves
//! first, and one with a turn in flight never does.
mod branch;
mod order;
mod snapshot;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::id::{Micros, ProgramId, TargetId};
use crate::snapshot::Watch;
pub use branch::{Branch, Phase};
use order::Order;
pub(crate) use snapshot::{OpenedPath, Returning, SessionsImage, Whereabouts};

/// How many concurrent chains of one session are told apart. Further ones share the last place and
/// are not tracked by admission.
pub const MAX_BRANCHES: usize = 8;

/// A session in the registry. Valid until [`SessionRegistry::remove`] or eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    slot: u32,
    generation: u32,
}

/// What a session is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionName {
    /// The client named it.
    Named(Box<str>),
    /// The client did not; the number is unique among the sessions that have been.
    Derived(u64),
}

/// One chain of reasoning and tool calls, with the branches that run beside it.
#[derive(Debug)]
pub struct Session {
    tenant: Arc<str>,
    name: SessionName,
    parent: Option<Box<str>>,
    branches: Vec<Branch>,
    /// The target that answered last without a detour.
    pub binding: Option<TargetId>,
    /// Turns begun.
    pub turns: u64,
    in_flight: u32,
    last_used: Micros,
}

impl Session {
    /// The tenant that the name is scoped by; empty when there is none.
    #[must_use]
    pub fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// What the session is called.
    #[must_use]
    pub fn name(&self) -> &SessionName {
        &self.name
    }

    /// The name of the session that spawned this one.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// When a turn of it began or ended last.
    #[must_use]
    pub fn last_used(&self) -> Micros {
        self.last_used
    }

    /// The branch that a prompt with this identity chain would go on with, and whether it begins with
    /// all of that branch's last prompt. O(branches).
    #[must_use]
    pub fn branch_for(&self, chain: &[u64]) -> Option<(&Branch, bool)> {
        let branch = &self.branches[branch::continued(&self.branches, chain)?];
        Some((branch, branch.is_extended_by(chain)))
    }

    /// Its branches; the first is the one that has lived longest.
    #[must_use]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }
}

/// Where a turn belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The session.
    pub session: SessionId,
    /// The chain within it, as admission knows it. `None` when the session already has
    /// [`MAX_BRANCHES`] chains in flight: the turn is load, but nobody holds it.
    pub program: Option<ProgramId>,
    /// The program that was replaced because its chain ended here.
    pub replaced: Option<ProgramId>,
    /// Whether the last answer of the chain has called tools.
    pub was_acting: bool,
}

/// How a turn says who it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Scopes every name; empty for none.
    pub tenant: &'a str,
    /// The session's name, if the client sent one.
    pub session: Option<&'a str>,
    /// The name of the session that spawned it. Ignored when equal to `session`.
    pub parent: Option<&'a str>,
}

/// What a turn has sent, as far as identity cares.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The chain hashes of its prompt, without what changes with each conversation.
    pub chain: &'a [u64],
    /// The length of its prompt.
    pub tokens: u32,
}

/// All live sessions.
#[derive(Debug)]
pub struct SessionRegistry {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_name: HashTable<u32>,
    /// Last block of the last prompt of unnamed sessions, scoped by tenant.
    by_frontier: HashMap<u64, SessionId>,
    by_derived: HashMap<u64, SessionId>,
    /// Unnamed sessions so far.
    derived: u64,
    /// Names are the clients' strings, so the table is keyed against crafted collisions. No map here
    /// is ever iterated: the key cannot reach a decision.
    hasher: DefaultHashBuilder,
    order: Order,
    next_program: u64,
    max_sessions: usize,
    evicted: u64,
    /// There while a snapshot is being written.
    watch: Option<Box<Watch>>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    session: Option<Session>,
}

impl SessionRegistry {
    /// An empty registry of at most `max_sessions` sessions (at least one).
    #[must_use]
    pub fn new(max_sessions: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_name: HashTable::new(),
            by_frontier: HashMap::new(),
            by_derived: HashMap::new(),
            derived: 0,
            hasher: DefaultHashBuilder::default(),
            order: Order::default(),
            next_program: 1,
            max_sessions: max_sessions.max(1),
            evicted: 0,
            watch: None,
        }
    }

    /// Live sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live sessions without a turn that runs or waits.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.order.len()
    }

    /// Branches of sessions so far.
    #[must_use]
    pub fn programs(&self) -> u64 {
        self.next_program - 1
    }

    /// The branches of all sessions. O(sessions): for a start, not for decisions.
    pub(crate) fn living(&self) -> impl Iterator<Item = ProgramId> {
        let sessions = self.slots.iter().filter_map(|slot| slot.session.as_ref());
        sessions.flat_map(|session| session.branches.iter().map(|branch| branch.program))
    }

    /// Sessions that left because the registry was full.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The session, unless it has left.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.generation == id.generation)
            .then_some(slot.session.as_ref())
            .flatten()
    }

    /// The session, unless it has left.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        (slot.generation == id.generation)
            .then_some(slot.session.as_mut())
            .flatten()
    }

    /// The session of that name.
    #[must_use]
    pub fn by_name(&self, tenant: &str, name: &str) -> Option<SessionId> {
        let hash = self.name_hash(tenant, name);
        let slot = *self
            .by_name
            .find(hash, |&slot| self.is_named(slot, tenant, name))?;
        Some(self.id_of(slot))
    }

    /// The unnamed session of this tenant that goes by this number.
    #[must_use]
    pub fn by_derived(&self, tenant: &str, derived: u64) -> Option<SessionId> {
        let id = *self.by_derived.get(&derived)?;
        let session = self.get(id)?;
        (*session.tenant == *tenant).then_some(id)
    }

    /// The session that a turn with this claim and identity chain belongs to, if it is known.
    #[must_use]
    pub fn find(&self, claim: Claim<'_>, chain: &[u64]) -> Option<SessionId> {
        match claim.session {
            Some(name) => self.by_name(claim.tenant, name),
            None => self.by_chain(claim.tenant, chain),
        }
    }

    /// Enters a turn that has sent `sent` in the session that is `known` to be its own (see
    /// [`SessionRegistry::find`]), or opens one for it; opens a branch where
    /// another turn of the session is in flight, and counts the turn. Sessions that had to leave
    /// give their programs to `left`.
    pub fn begin(
        &mut self,
        now: Micros,
        known: Option<SessionId>,
        claim: Claim<'_>,
        sent: Sent<'_>,
        left: &mut Vec<ProgramId>,
    ) -> Membership {
        let chain = sent.chain;
        let id = known
            .filter(|id| self.get(*id).is_some())
            .unwrap_or_else(|| {
                let name = match claim.session {
                    Some(name) => SessionName::Named(name.into()),
                    None => SessionName::Derived(self.derive(claim.tenant, chain)),
                };
                self.open(claim, name, left)
            });
        let membership = self.enter(id, sent);
        self.touch(now, id);
        membership
    }

    /// The turn of `program` ended. `phase` is what the session does now; `None` leaves it as it
    /// was (a failed or cancelled turn). Branches that are over beside a longer one leave; their
    /// programs go to `left`.
    pub fn end(
        &mut self,
        now: Micros,
        id: SessionId,
        program: Option<ProgramId>,
        phase: Option<Phase>,
        left: &mut Vec<ProgramId>,
    ) {
        let mut over = Vec::new();
        let Some(session) = self.get_mut(id) else {
            return;
        };
        session.in_flight = session.in_flight.saturating_sub(1);
        if let Some(program) = program {
            branch::end(&mut session.branches, program, phase, &mut over);
        }
        let tenant = Arc::clone(&session.tenant);
        for branch in &over {
            self.forget_frontier(&tenant, branch.frontier(), id);
        }
        left.extend(over.iter().map(|branch| branch.program));
        self.touch(now, id);
    }

    /// Forgets a session; its programs go to `left`.
    pub fn remove(&mut self, id: SessionId, left: &mut Vec<ProgramId>) {
        if self.get(id).is_none() {
            return;
        }
        self.note(id);
        self.order.remove(id.slot);
        let slot = &mut self.slots[id.slot as usize];
        let Some(session) = slot.session.take() else {
            return;
        };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        match &session.name {
            SessionName::Named(name) => self.forget_name(&session.tenant, name, id.slot),
            SessionName::Derived(hash) => {
                self.by_derived.remove(hash);
                for branch in &session.branches {
                    self.forget_frontier(&session.tenant, branch.frontier(), id);
                }
            }
        }
        left.extend(session.branches.iter().map(|branch| branch.program));
    }

    /// Forgets the session that has been idle longest; false when none is idle. O(1).
    pub fn evict_oldest(&mut self, left: &mut Vec<ProgramId>) -> bool {
        let Some(oldest) = self.order.first() else {
            return false;
        };
        self.evicted += 1;
        self.remove(self.id_of(oldest), left);
        true
    }

    /// Forgets the sessions that have been idle for longer than `idle`. O(those that leave).
    pub fn expire(&mut self, now: Micros, idle: Micros, left: &mut Vec<ProgramId>) {
        while let Some(slot) = self.order.first() {
            let id = self.id_of(slot);
            match self.get(id) {
                Some(session) if now.since(session.last_used) > idle => self.remove(id, left),
                _ => return,
            }
        }
    }

    fn open(
        &mut self,
        claim: Claim<'_>,
        name: SessionName,
        left: &mut Vec<ProgramId>,
    ) -> SessionId {
        // Two, so that what a burst of sessions in flight has left behind goes in the end.
        for _ in 0..2 {
            if self.len() >= self.max_sessions {
                self.evict_oldest(left);
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let parent = claim.parent.filter(|parent| claim.session != Some(parent));
        let derived = match name {
            SessionName::Derived(hash) => Some(hash),
            SessionName::Named(_) => None,
        };
        self.slots[slot as usize].session = Some(Session {
            tenant: claim.tenant.into(),
            name,
            parent: parent.map(Into::into),
            branches: Vec::with_capacity(1),
            binding: None,
            turns: 0,
            in_flight: 0,
            last_used: Micros::default(),
        });
        if let Some(name) = claim.session {
            let hash = self.name_hash(claim.tenant, name);
            let (slots, hasher) = (&self.slots, &self.hasher);
            self.by_name
                .insert_unique(hash, slot, |&slot| rehash(slots, hasher, slot));
        }
        let id = self.id_of(slot);
        if let Some(derived) = derived {
            self.by_derived.insert(derived, id);
        }
        id
    }

    /// A name for a session that has none: its first prompt, its tenant and how many came before.
    fn derive(&mut self, tenant: &str, chain: &[u64]) -> u64 {
        self.derived += 1;
        let first = chain.last().copied().unwrap_or_default();
        scoped_frontier(tenant, first ^ self.derived.rotate_left(32))
    }

    /// Puts the turn on a branch of its session and moves that branch's frontier to it.
    fn enter(&mut self, id: SessionId, sent: Sent<'_>) -> Membership {
        let next = ProgramId(self.next_program);
        let Some(session) = self.get_mut(id) else {
            return Membership {
                session: id,
                program: None,
                replaced: None,
                was_acting: false,
            };
        };
        session.turns += 1;
        session.in_flight += 1;
        let unnamed = matches!(session.name, SessionName::Derived(_));
        let tenant = unnamed.then(|| Arc::clone(&session.tenant));
        let entered = branch::enter(&mut session.branches, sent, next);
        if entered.opened() {
            self.next_program += 1;
        }
        if let Some(tenant) = tenant {
            if let Some(previous) = entered.previous_frontier {
                self.forget_frontier(&tenant, previous, id);
            }
            if let Some(&last) = sent.chain.last() {
                self.by_frontier.insert(scoped_frontier(&tenant, last), id);
            }
        }
        Membership {
            session: id,
            program: entered.program,
            replaced: entered.replaced,
            was_acting: entered.was_acting,
        }
    }

    /// The unnamed session of this tenant whose last prompt is the longest head of `chain`.
    fn by_chain(&self, tenant: &str, chain: &[u64]) -> Option<SessionId> {
        if self.by_frontier.is_empty() {
            return None;
        }
        chain.iter().rev().find_map(|&hash| {
            let id = *self.by_frontier.get(&scoped_frontier(tenant, hash))?;
            self.get(id)
                .is_some_and(|session| *session.tenant == *tenant)
                .then_some(id)
        })
    }

    fn touch(&mut self, now: Micros, id: SessionId) {
        self.note(id);
        let Some(session) = self.get_mut(id) else {
            return;
        };
        session.last_used = now;
        if session.in_flight == 0 {
            self.order.push_last(id.slot);
        } else {
            self.order.remove(id.slot);
        }
    }

    fn forget_name(&mut self, tenant: &str, name: &str, slot: u32) {
        let hash = self.name_hash(tenant, name);
        if let Ok(entry) = self.by_name.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
    }

    /// No branch of the session ends there any more, unless another one still does.
    fn forget_frontier(&mut self, tenant: &str, frontier: u64, id: SessionId) {
        let branches = self.get(id).map(Session::branches).unwrap_or_default();
        if branches.iter().any(|branch| branch.frontier() == frontier) {
            return;
        }
        let scoped = scoped_frontier(tenant, frontier);
        if self.by_frontier.get(&scoped) == Some(&id) {
            self.by_frontier.remove(&scoped);
        }
    }

    fn id_of(&self, slot: u32) -> SessionId {
        SessionId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    fn is_named(&self, slot: u32, tenant: &str, name: &str) -> bool {
        self.slots[slot as usize]
            .session
            .as_ref()
            .is_some_and(|session| {
                *session.tenant == *tenant
                    && matches!(&session.name, SessionName::Named(own) if &**own == name)
            })
    }

    fn name_hash(&self, tenant: &str, name: &str) -> u64 {
        self.hasher.hash_one((tenant, name))
    }
}

fn rehash(slots: &[Slot], hasher: &DefaultHashBuilder, slot: u32) -> u64 {
    match &slots[slot as usize].session {
        Some(session) => match &session.name {
            SessionName::Named(name) => hasher.hash_one((&*session.tenant, &**name)),
            SessionName::Derived(_) => 0,
        },
        None => 0,
    }
}

/// A frontier as a key that two tenants never share by sending the same prompt.
fn scoped_frontier(tenant: &str, frontier: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(tenant.as_bytes(), frontier)
}

#[cfg(test)]
mod tests;
