//! Who of those that wait goes first?
//!
//! Higher levels go first, and within a level the tenants share by weight: start-time fair queueing
//! (Goyal, Vin and Cheng 1996), in tokens of prompt to be computed. Each tenant has a start, which
//! grows by the cost of what goes, over its weight; the least start is next, and of equal ones the
//! turn that came first. So a flood holds only itself. One tenant's turns of one level go by their
//! [`Rank`], without one as they came. A tenant is charged when its turn goes, not when it comes, so what
//! is withdrawn costs nothing.
//!
//! Lower levels do not starve: after [`PASSES`] turns in a row that have passed an older one of a
//! lower level, the oldest of those goes.
//!
//! Turns may wait in several lanes, such as one for each worker that some are bound to; the first of
//! the lanes that are open is asked for. A tenant has one start over all lanes. O(log waiting) a call
//! and lane, times the levels in use; who is ahead of a turn is counted by tenants, see [`Line`] for
//! what one costs. Starts of tenants that do not wait are kept while they are ahead, at most
//! [`MAX_IDLE`] of them.
mod line;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use self::line::{Entry, Line, Sum};
use super::queue::Rank;
use crate::{ReservationId, Result};

/// Turns in a row that may pass an older one of a lower level.
pub const PASSES: u32 = 7;
/// Tenants, or turns of a policy that keeps no sums, that are counted one by one to tell a place.
pub const COUNTED: usize = 512;
/// Tenants that do not wait and whose starts are kept.
const MAX_IDLE: usize = 65_536;
/// A start grows by so much for a token, at the least weight.
const SCALE: u64 = 1_000_000;
/// The weight of tenants that none was set for, in thousandths.
const ONE: u32 = 1_000;

/// A tenant, as a hash of its name: two that collide share their queue, nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(u64);

impl TenantKey {
    /// The tenant of that name; empty is one too.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
    }
}

/// For whom a turn asks, and how urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claimant {
    /// Who pays.
    pub tenant: TenantKey,
    /// Its priority: higher goes first, below 0 goes after the ordinary.
    pub priority: i16,
}

/// What a tenant's turns weigh against those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(Arc<HashMap<TenantKey, u32>>);

impl Weights {
    /// By name, in thousandths of the weight of others: 1 to 1,000,000.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a weight outside that.
    pub fn new<'a>(named: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self> {
        let mut weights = HashMap::new();
        for (name, weight) in named {
            if !(1..=1_000_000).contains(&weight) {
                return Err(crate::Error::invalid_argument(format!(
                    "the weight of tenant \"{name}\" is {weight}; it must be 1 to 1000000 thousandths"
                )));
            }
            weights.insert(TenantKey::of(name), weight);
        }
        Ok(Self(Arc::new(weights)))
    }

    fn of(&self, tenant: TenantKey) -> u32 {
        self.0.get(&tenant).copied().unwrap_or(ONE)
    }
}

/// Who goes before a turn that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// So many turns of those that wait for the same, if nobody comes or leaves and nobody has waited
    /// too long; at least so many where more than [`COUNTED`] would have to be looked at one by one.
    pub turns: usize,
    /// Which of them is why it does not go.
    pub behind: Behind,
}

impl Ahead {
    /// The turn's own place, from 1.
    #[must_use]
    pub fn place(&self) -> usize {
        self.turns.saturating_add(1)
    }
}

/// Behind whom a turn has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Those who came before.
    Earlier,
    /// Turns of other tenants that came later too, because its own has had or asks for more.
    Share,
    /// Turns of a higher priority.
    Priority,
}

/// The order of those that wait.
#[derive(Debug)]
pub(super) struct FairQueue<L> {
    levels: BTreeMap<Reverse<i16>, Level<L>>,
    tickets: HashMap<ReservationId, Place<L>>,
    weights: Weights,
    next: u64,
    passed: u32,
    /// Turns in a row that may pass an older one of a lower level.
    most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place<L> {
    priority: i16,
    tenant: TenantKey,
    lane: L,
    rank: Rank,
}

/// The turns of one priority.
#[derive(Debug)]
struct Level<L> {
    /// The least start of those that waited when the last one went.
    now: u64,
    flows: HashMap<TenantKey, Flow<L>>,
    lanes: BTreeMap<L, Lane>,
    /// Starts of tenants that do not wait.
    idle: BTreeSet<(u64, TenantKey)>,
}

/// The turns of a level that wait for the same.
#[derive(Debug, Default)]
struct Lane {
    /// Each tenant's first, by its start.
    heads: BTreeSet<(u64, Rank, TenantKey)>,
    arrivals: BTreeMap<u64, ReservationId>,
}

/// The turns of one tenant in a level.
#[derive(Debug)]
struct Flow<L> {
    start: u64,
    waiting: usize,
    lanes: BTreeMap<L, Line>,
}

impl<L: Copy + Ord> FairQueue<L> {
    pub(super) fn new(weights: Weights) -> Self {
        Self {
            levels: BTreeMap::new(),
            tickets: HashMap::new(),
            weights,
            next: 0,
            passed: 0,
            most: PASSES,
        }
    }

    /// One whose lower levels wait for as long as higher ones come.
    pub(super) fn strict(weights: Weights) -> Self {
        Self {
            most: u32::MAX,
            ..Self::new(weights)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Whether somebody waits in this lane.
    pub(super) fn has(&self, lane: L) -> bool {
        self.levels
            .values()
            .any(|level| level.lanes.contains_key(&lane))
    }

    /// Puts a turn behind those of its tenant. A ticket that waits already stays where it is.
    pub(super) fn push(&mut self, ticket: ReservationId, whose: Claimant, lane: L, tokens: u32) {
        self.push_ranked(ticket, whose, lane, tokens, Rank::default());
    }

    /// Puts a turn among those of its tenant, where its rank says, and behind those of the same rank.
    pub(super) fn push_ranked(
        &mut self,
        ticket: ReservationId,
        whose: Claimant,
        lane: L,
        tokens: u32,
        rank: Rank,
    ) {
        let Claimant { tenant, priority } = whose;
        if self.tickets.contains_key(&ticket) {
            return;
        }
        let rank = rank.numbered(self.next);
        self.next += 1;
        let cost = self.cost(tenant, tokens);
        let level = self.levels.entry(Reverse(priority)).or_default();
        level.push(tenant, lane, Entry { rank, ticket, cost });
        let place = Place {
            priority,
            tenant,
            lane,
            rank,
        };
        self.tickets.insert(ticket, place);
    }

    /// What a tenant's start grows by for so many tokens.
    fn cost(&self, tenant: TenantKey, tokens: u32) -> u64 {
        u64::from(tokens.max(1)) * SCALE / u64::from(self.weights.of(tenant))
    }

    /// The next of these lanes.
    pub(super) fn first(&self, open: &[L]) -> Option<ReservationId> {
        let (&Reverse(top), ticket) = self.levels.iter().find_map(|(priority, level)| {
            let lanes = open.iter().filter_map(|lane| level.lanes.get(lane));
            let first = lanes.filter_map(|lane| lane.heads.first().zip(Some(lane)));
            let (&(_, rank, _), lane) =
                first.min_by_key(|&(&(start, rank, _), _)| (start, rank))?;
            Some((priority, *lane.arrivals.get(&rank.number())?))
        })?;
        if self.passed >= self.most {
            return self
                .oldest_below(top, open)
                .map(|(_, id)| id)
                .or(Some(ticket));
        }
        Some(ticket)
    }

    /// The turn that has waited longest in a level below this one.
    fn oldest_below(&self, priority: i16, open: &[L]) -> Option<(u64, ReservationId)> {
        let below = self.levels.range((
            std::ops::Bound::Excluded(Reverse(priority)),
            std::ops::Bound::Unbounded,
        ));
        let lanes = below.flat_map(|(_, level)| open.iter().filter_map(|l| level.lanes.get(l)));
        let oldest = lanes.filter_map(|lane| lane.arrivals.first_key_value());
        oldest.map(|(&number, &ticket)| (number, ticket)).min()
    }

    /// The turn that has waited longest.
    pub(super) fn oldest(&self) -> Option<ReservationId> {
        let lanes = self.levels.values().flat_map(|level| level.lanes.values());
        let oldest = lanes.filter_map(|lane| lane.arrivals.first_key_value());
        oldest.min().map(|(_, &ticket)| ticket)
    }

    /// The turn goes, and its tenant is charged for it; `open` are the lanes that it was the first of.
    pub(super) fn serve(&mut self, ticket: ReservationId, open: &[L]) {
        let Some(place) = self.tickets.get(&ticket).copied() else {
            return;
        };
        let older = self.oldest_below(place.priority, open);
        self.passed = match older {
            Some((number, _)) if number < place.rank.number() => self.passed.saturating_add(1),
            _ => 0,
        };
        self.take(ticket, true);
    }

    /// The turn waits for something else from now on, as long as it has. False when it does already.
    pub(super) fn move_to(&mut self, ticket: ReservationId, lane: L) -> bool {
        let Some(place) = self.tickets.get_mut(&ticket).filter(|p| p.lane != lane) else {
            return false;
        };
        let before = std::mem::replace(place, Place { lane, ..*place });
        if let Some(level) = self.levels.get_mut(&Reverse(before.priority))
            && let Some(entry) = level.take(&before, false)
        {
            level.push(before.tenant, lane, entry);
        }
        true
    }

    /// The turn has another rank and cost from now on. Among those of its rank it is as old as it was.
    pub(super) fn rank_anew(&mut self, ticket: ReservationId, rank: Rank, tokens: u32) {
        let Some(place) = self.tickets.get_mut(&ticket) else {
            return;
        };
        let rank = rank.numbered(place.rank.number());
        let before = std::mem::replace(place, Place { rank, ..*place });
        let cost = self.cost(before.tenant, tokens);
        if let Some(level) = self.levels.get_mut(&Reverse(before.priority))
            && level.take(&before, false).is_some()
        {
            level.push(before.tenant, before.lane, Entry { rank, ticket, cost });
        }
    }

    /// The turn is withdrawn. False when it did not wait.
    pub(super) fn remove(&mut self, ticket: ReservationId) -> bool {
        self.take(ticket, false)
    }

    fn take(&mut self, ticket: ReservationId, is_charged: bool) -> bool {
        let Some(place) = self.tickets.remove(&ticket) else {
            return false;
        };
        let priority = Reverse(place.priority);
        if let Some(level) = self.levels.get_mut(&priority) {
            level.take(&place, is_charged);
            // Nobody waits any more, so nobody is ahead of anybody.
            if level.lanes.is_empty() {
                self.levels.remove(&priority);
            }
        }
        true
    }

    /// Who goes before it in its lane.
    pub(super) fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        let own = self.tickets.get(&ticket)?;
        let mut higher = 0;
        for (&Reverse(priority), level) in &self.levels {
            let Some(lane) = level.lanes.get(&own.lane) else {
                continue;
            };
            if priority > own.priority {
                higher += lane.arrivals.len();
            } else if priority == own.priority {
                let (turns, is_overtaken) = level.ahead(own, lane);
                let behind = match (higher, is_overtaken) {
                    (1.., _) => Behind::Priority,
                    (0, true) => Behind::Share,
                    (0, false) => Behind::Earlier,
                };
                let turns = higher + turns;
                return Some(Ahead { turns, behind });
            }
        }
        None
    }

    /// Every ticket of a lane as they will go, from 1. O(waiting log waiting).
    #[cfg(test)]
    pub(super) fn places(&self, lane: L, out: &mut Vec<ReservationId>) {
        for level in self.levels.values() {
            let mut keys = Vec::new();
            for flow in level.flows.values() {
                let mut start = flow.start;
                for entry in flow.lanes.get(&lane).into_iter().flat_map(Line::iter) {
                    keys.push((start, entry.rank, entry.ticket));
                    start = start.saturating_add(entry.cost);
                }
            }
            keys.sort_unstable();
            out.extend(keys.into_iter().map(|(_, _, ticket)| ticket));
        }
    }

    /// Lanes that somebody waits in.
    pub(super) fn lanes(&self) -> BTreeSet<L> {
        let lanes = self.levels.values().flat_map(|level| level.lanes.keys());
        lanes.copied().collect()
    }

    /// The tenants' starts, for tests: charges are never forgotten while somebody waits.
    #[cfg(test)]
    fn start(&self, priority: i16, tenant: TenantKey) -> Option<u64> {
        let level = self.levels.get(&Reverse(priority))?;
        level.flows.get(&tenant).map(|flow| flow.start)
    }
}

impl<L> Default for Level<L> {
    fn default() -> Self {
        Self {
            now: 0,
            flows: HashMap::new(),
            lanes: BTreeMap::new(),
            idle: BTreeSet::new(),
        }
    }
}

impl<L: Copy + Ord> Level<L> {
    fn push(&mut self, tenant: TenantKey, lane: L, entry: Entry) {
        let now = self.now;
        let flow = self.flows.entry(tenant).or_insert_with(|| Flow {
            start: now,
            waiting: 0,
            lanes: BTreeMap::new(),
        });
        if flow.waiting == 0 {
            self.idle.remove(&(flow.start, tenant));
            flow.start = flow.start.max(now);
        }
        let own = flow.lanes.entry(lane).or_default();
        let waiting = self.lanes.entry(lane).or_default();
        let first = own.first().map(|first| first.rank);
        if first.is_none_or(|first| entry.rank < first) {
            if let Some(first) = first {
                waiting.heads.remove(&(flow.start, first, tenant));
            }
            waiting.heads.insert((flow.start, entry.rank, tenant));
        }
        waiting.arrivals.insert(entry.rank.number(), entry.ticket);
        own.insert(entry);
        flow.waiting += 1;
    }

    /// Takes a turn out, and gives it back.
    fn take(&mut self, place: &Place<L>, is_charged: bool) -> Option<Entry> {
        let heads = self.lanes.values().filter_map(|lane| lane.heads.first());
        let least = heads.map(|&(start, ..)| start).min().unwrap_or(0);
        let flow = self.flows.get_mut(&place.tenant)?;
        // Its heads stand for the start that it has now.
        for (lane, line) in &flow.lanes {
            if let (Some(waiting), Some(first)) = (self.lanes.get_mut(lane), line.first()) {
                let head = (flow.start, first.rank, place.tenant);
                waiting.heads.remove(&head);
            }
        }
        let line = flow.lanes.get_mut(&place.lane);
        let entry = line.and_then(|line| line.remove(place.rank))?;
        flow.waiting -= 1;
        if is_charged {
            self.now = self.now.max(least);
            flow.start = flow.start.saturating_add(entry.cost);
        }
        if let Some(waiting) = self.lanes.get_mut(&place.lane) {
            waiting.arrivals.remove(&place.rank.number());
            if waiting.arrivals.is_empty() {
                self.lanes.remove(&place.lane);
            }
        }
        flow.lanes.retain(|_, line| !line.is_empty());
        for (lane, line) in &flow.lanes {
            if let (Some(waiting), Some(first)) = (self.lanes.get_mut(lane), line.first()) {
                let head = (flow.start, first.rank, place.tenant);
                waiting.heads.insert(head);
            }
        }
        if flow.waiting == 0 {
            self.idle.insert((flow.start, place.tenant));
        }
        self.forget_idle();
        Some(entry)
    }

    /// Forgets tenants that do not wait and are not ahead of the others.
    fn forget_idle(&mut self) {
        while let Some(&(start, tenant)) = self.idle.first()
            && (start <= self.now || self.idle.len() > MAX_IDLE)
        {
            self.idle.remove(&(start, tenant));
            self.flows.remove(&tenant);
        }
    }

    /// How many turns of its lane go before this one, and whether one of another tenant came later. Costs
    /// what [`Line::before`] does for each tenant that has one ahead, and knows at most [`COUNTED`] tenants.
    fn ahead(&self, own: &Place<L>, lane: &Lane) -> (usize, bool) {
        let line = |tenant| {
            let flow = self.flows.get(&tenant)?;
            Some((flow.start, flow.lanes.get(&own.lane)?))
        };
        let Some((start, line_of_own)) = line(own.tenant) else {
            return (0, false);
        };
        let before = line_of_own.before(own.rank);
        let key = (start.saturating_add(before.cost), own.rank);
        let heads = lane.heads.iter();
        let ahead = heads.take_while(|&&(start, rank, _)| (start, rank) < key);
        let others = ahead.filter(|&&(_, _, tenant)| tenant != own.tenant);
        let of_others = others.take(COUNTED).map(|&(start, _, tenant)| {
            line(tenant).map_or_else(Sum::default, |(_, line)| line.starting_before(start, key))
        });
        let of_others = of_others.fold(Sum::default(), Sum::and);
        let is_overtaken = of_others.has_later(own.rank.number());
        (before.turns + of_others.turns, is_overtaken)
    }
}

#[cfg(test)]
mod tests;
