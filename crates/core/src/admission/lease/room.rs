//! What does one worker have room for, and whose context goes first when it has none?
//!
//! Running contexts stay. Idle ones stand in the order in which the worker's engine gives them up;
//! what is missing is taken from the tail of the first. Two sums split them into those whose lease
//! runs and those that may go. O(log contexts) each, and O(contexts that go). It knows no turns, and
//! no time but the one that it is told.
use std::collections::{BTreeMap, BTreeSet};

use super::refill::Refill;
use crate::{Micros, ProgramId};

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
    /// Tokens of the spent contexts that stand before every leased one.
    front: u64,
    /// Contexts before this are counted there.
    border: Rank,
    /// Contexts of its turns, a shared prefix as often as it is used.
    pub(super) running: u64,
    /// Turns.
    pub(super) turns: usize,
    /// Cold turns without a first token.
    pub(super) refills: usize,
    pub(super) refill: Refill,
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
            Some(idle) if rank >= self.border => idle.tokens.into(),
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
        if rank < self.border {
            self.front += tokens;
        }
        self.advance();
    }

    /// Moves the border up to the first lease that runs. Each context is passed once at most.
    fn advance(&mut self) {
        while let Some((&rank, idle)) = self.idle.range(self.border..).next()
            && idle.claim == Claim::Spent
        {
            self.front += u64::from(idle.tokens);
            self.border = (rank.0, rank.1 + 1);
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
        if rank < self.border {
            self.front -= tokens;
        }
        self.advance();
        Some(idle)
    }

    /// The context has no claim any more.
    pub(super) fn spend(&mut self, rank: Rank) {
        if let Some(idle) = self.remove(rank) {
            let claim = Claim::Spent;
            self.insert(rank, Idle { claim, ..idle });
        }
    }

    /// The context's lease ends then instead. One that stands before every lease that runs stays without
    /// a claim: those behind it cannot be kept for it.
    pub(super) fn extend(&mut self, rank: Rank, end: Micros) {
        let is_behind = rank >= self.border;
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
            self.spend(rank);
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
            if cut == u64::from(idle.tokens) {
                gone.push(idle.program);
            }
        }
    }

    /// Takes tokens from the tail of a context.
    fn cut(&mut self, rank: Rank, tokens: u32) {
        let is_front = rank < self.border;
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

    /// Forgets all idle contexts: the worker has lost its cache.
    pub(super) fn clear(&mut self, gone: &mut Vec<ProgramId>) {
        gone.extend(self.idle.values().map(|idle| idle.program));
        self.idle.clear();
        self.ends.clear();
        (self.leased, self.spent, self.front) = (0, 0, 0);
    }
}
