//! What does one worker have room for, and whose context goes first when it has none?
//!
//! Running contexts stay. Idle ones stand in the order in which the worker's engine gives them up;
//! what is missing is taken from the tail of the first. Two sums split them into those whose lease
//! runs and those that may go. O(log contexts) each, and O(contexts that go). It knows no turns, and
//! no time but the one that it is told.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::config::WHOLE;
use super::refill::Refill;
use super::shelf::Shelf;
use super::table::Run;
use crate::{Micros, ProgramId};

/// How many sessions that are back it takes to change its mind about a tier.
const MEMORY: u64 = 16;

/// A place in the order of giving up; the second part makes it unique.
pub(super) type Rank = (Micros, u64);

/// Whether a context still has a claim on its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Its lease runs until then.
    Leased(Micros),
    /// Its lease has run out, or nobody will come back for it.
    Spent,
}

/// A context that no turn is using.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) program: ProgramId,
    pub(super) tokens: u32,
    pub(super) claim: Claim,
}

/// One worker.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) is_live: bool,
    /// Tokens that its cache holds; `None`: unlimited.
    pub(super) capacity: Option<u64>,
    idle: BTreeMap<Rank, Idle>,
    /// The leases that run, by their end.
    ends: BTreeSet<(Micros, Rank)>,
    /// The end that the table waits for.
    pub(super) armed: Option<Micros>,
    leased: u64,
    spent: u64,
    /// The first whose lease runs.
    first_leased: Option<Rank>,
    /// Tokens of those that stand before it.
    front: u64,
    /// Contexts of its turns, a shared prefix as often as it is used.
    pub(super) running: u64,
    /// Turns.
    pub(super) turns: usize,
    /// Cold turns without a first token.
    pub(super) refills: usize,
    pub(super) refill: Refill,
    /// The tier behind its cache.
    pub(super) shelf: Shelf,
    /// How much of what had to give way was still in slower tiers when its session came back. Basis
    /// points, of late.
    pub(super) regained: u32,
}

impl Room {
    /// Tokens of idle contexts whose lease runs.
    pub(super) fn leased(&self) -> u64 {
        self.leased
    }

    /// Tokens of idle contexts that may go.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Tokens of idle contexts that cannot go without one whose lease runs: those behind the first
    /// such one, as the engine gives them up.
    pub(super) fn claimed(&self) -> u64 {
        self.leased + self.spent - self.front
    }

    /// What of [`Self::claimed`] this context is.
    pub(super) fn claimed_by(&self, rank: Rank) -> u64 {
        match self.idle.get(&rank) {
            Some(idle) if !self.is_front(rank) => idle.tokens.into(),
            _ => 0,
        }
    }

    pub(super) fn idle(&self, rank: Rank) -> Option<Idle> {
        self.idle.get(&rank).copied()
    }

    #[cfg(test)]
    pub(super) fn contexts(&self) -> impl Iterator<Item = (Rank, Idle)> {
        self.idle.iter().map(|(&rank, &idle)| (rank, idle))
    }

    /// When the first of the leases that run ends.
    pub(super) fn next_end(&self) -> Option<Micros> {
        self.ends.first().map(|&(end, _)| end)
    }

    /// Whether it stands before every context whose lease runs.
    fn is_front(&self, rank: Rank) -> bool {
        self.first_leased.is_none_or(|first| rank < first)
    }

    pub(super) fn insert(&mut self, rank: Rank, idle: Idle) {
        let tokens = u64::from(idle.tokens);
        if tokens == 0 {
            return;
        }
        match idle.claim {
            Claim::Leased(end) => {
                self.leased += tokens;
                self.ends.insert((end, rank));
            }
            Claim::Spent => self.spent += tokens,
        }
        let before = self.idle.insert(rank, idle);
        debug_assert_eq!(before, None, "ranks are unique");
        if self.is_front(rank) {
            match idle.claim {
                Claim::Spent => self.front += tokens,
                Claim::Leased(_) => self.stop_at(rank),
            }
        }
    }

    /// The lease of this context, which stands before all others that run, is the first now.
    fn stop_at(&mut self, rank: Rank) {
        let behind = self.idle.range((Bound::Excluded(rank), Bound::Unbounded));
        let spent = behind.take_while(|(_, idle)| idle.claim == Claim::Spent);
        self.front -= spent.map(|(_, idle)| u64::from(idle.tokens)).sum::<u64>();
        self.first_leased = Some(rank);
    }

    /// The lease of this context, if it was the first that ran, does not run any more. The contexts that
    /// are passed stand before the first one from now on.
    fn pass(&mut self, rank: Rank) {
        if self.first_leased != Some(rank) {
            return;
        }
        self.first_leased = None;
        for (&rank, idle) in self.idle.range(rank..) {
            match idle.claim {
                Claim::Spent => self.front += u64::from(idle.tokens),
                Claim::Leased(_) => {
                    self.first_leased = Some(rank);
                    break;
                }
            }
        }
    }

    pub(super) fn remove(&mut self, rank: Rank) -> Option<Idle> {
        let idle = self.idle.remove(&rank)?;
        let tokens = u64::from(idle.tokens);
        match idle.claim {
            Claim::Leased(end) => {
                self.leased -= tokens;
                self.ends.remove(&(end, rank));
            }
            Claim::Spent => self.spent -= tokens,
        }
        match idle.claim {
            Claim::Leased(_) => self.pass(rank),
            Claim::Spent if self.is_front(rank) => self.front -= tokens,
            Claim::Spent => {}
        }
        Some(idle)
    }

    /// The context has no claim any more.
    pub(super) fn spend(&mut self, rank: Rank) {
        if let Some(end) = self.lapse(rank) {
            self.ends.remove(&(end, rank));
        }
    }

    /// Takes the claim from a context; when its lease would have ended, if it had one.
    fn lapse(&mut self, rank: Rank) -> Option<Micros> {
        let idle = self.idle.get_mut(&rank)?;
        let Claim::Leased(end) = std::mem::replace(&mut idle.claim, Claim::Spent) else {
            return None;
        };
        let tokens = u64::from(idle.tokens);
        self.leased -= tokens;
        self.spent += tokens;
        self.pass(rank);
        Some(end)
    }

    /// The context's lease ends then instead. One that stands before every lease that runs stays without
    /// a claim: those behind it cannot be kept for it.
    pub(super) fn extend(&mut self, rank: Rank, end: Micros) {
        let is_behind = !self.is_front(rank);
        let Some(idle) = self.idle.get_mut(&rank).filter(|_| is_behind) else {
            return;
        };
        match std::mem::replace(&mut idle.claim, Claim::Leased(end)) {
            Claim::Leased(before) => {
                self.ends.remove(&(before, rank));
            }
            Claim::Spent => {
                self.leased += u64::from(idle.tokens);
                self.spent -= u64::from(idle.tokens);
            }
        }
        self.ends.insert((end, rank));
    }

    /// Ends the leases that are due; false when none is.
    pub(super) fn expire(&mut self, now: Micros) -> bool {
        let mut any = false;
        while let Some(&(end, rank)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            self.lapse(rank);
            any = true;
        }
        any
    }

    /// Takes the tails of idle contexts until all fit beside `running` tokens; those of which
    /// nothing is left go to `gone`.
    pub(super) fn make_room(&mut self, running: u64, gone: &mut Vec<ProgramId>) {
        let Some(capacity) = self.capacity else {
            return;
        };
        let held = running.saturating_add(self.leased + self.spent);
        let mut missing = held.saturating_sub(capacity);
        while missing > 0
            && let Some((&rank, &idle)) = self.idle.first_key_value()
        {
            let cut = u64::from(idle.tokens).min(missing);
            missing -= cut;
            self.cut(rank, cut as u32);
            self.shelf.put(rank, cut as u32);
            if cut == u64::from(idle.tokens) {
                gone.push(idle.program);
            }
        }
    }

    /// A turn runs here.
    pub(super) fn occupy(&mut self, run: &Run) {
        self.running += u64::from(run.tokens);
        self.turns += 1;
        self.refills += usize::from(run.is_refill);
    }

    /// Takes tokens from the tail of a context.
    fn cut(&mut self, rank: Rank, tokens: u32) {
        let is_front = self.is_front(rank);
        let Some(idle) = self.idle.get_mut(&rank) else {
            return;
        };
        if idle.tokens == tokens {
            self.remove(rank);
            return;
        }
        idle.tokens -= tokens;
        match idle.claim {
            Claim::Leased(_) => self.leased -= u64::from(tokens),
            Claim::Spent => self.spent -= u64::from(tokens),
        }
        if is_front {
            self.front -= u64::from(tokens);
        }
    }

    /// A session is back whose context had lost `lost` tokens, of which slower tiers had `found`.
    pub(super) fn regain(&mut self, lost: u32, found: u32) {
        if lost > 0 {
            let share = u64::from(found.min(lost)) * WHOLE / u64::from(lost);
            let before = u64::from(self.regained);
            self.regained = ((before * (MEMORY - 1) + share) / MEMORY) as u32;
        }
    }

    /// Forgets all idle contexts: the worker has lost its cache.
    pub(super) fn clear(&mut self, gone: &mut Vec<ProgramId>) {
        gone.extend(self.idle.values().map(|idle| idle.program));
        self.idle.clear();
        self.ends.clear();
        self.shelf.clear();
        (self.leased, self.spent, self.front) = (0, 0, 0);
        self.first_leased = None;
    }
}
