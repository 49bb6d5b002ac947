//! Who of those that wait at the gates goes first, of which class?
//!
//! Classes share what is computed by deficit round robin ([`rounds`](Rounds)); within a class higher
//! priorities go first and tenants share by weight ([`FairQueue`]); and one tenant's turns go by their
//! [`Rank`] in the order of their class. Without classes there is one that takes all.
//!
//! What an order lets pass for ever has an age at which it goes before the others of its tenant: it is
//! ranked anew once, when that has come. O(log waiting) a call and lane, times the classes.
use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::fair::{Ahead, Claimant, FairQueue, Weights};
use crate::{Micros, ReservationId};

mod config;
mod order;
mod rounds;

pub use config::{ClassConfig, QueueConfig};
pub(crate) use order::{Ask, Rank};
pub use order::{Order, Priorities};
pub use rounds::MAX_CLASSES;
use rounds::Rounds;

/// What has to be computed for a turn is looked at again before it goes, when that is so old.
const REFRESH_AFTER: Micros = Micros::from_secs(10);

/// Those that wait.
#[derive(Debug)]
pub(super) struct Queue<L> {
    config: QueueConfig,
    classes: Vec<Class<L>>,
    rounds: Rounds,
    turns: HashMap<ReservationId, Waiting>,
    /// Those that may be passed for too long, by since when they wait.
    young: BTreeSet<(Micros, ReservationId)>,
}

#[derive(Debug)]
struct Class<L> {
    order: Order,
    most: Option<u32>,
    fair: FairQueue<L>,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    class: usize,
    ask: Ask,
    is_old: bool,
    /// When its tokens were counted.
    counted: Micros,
}

/// How a turn asks to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    pub(super) claimant: Claimant,
    /// What has to be computed for it.
    pub(super) tokens: u32,
    /// When it began to wait.
    pub(super) since: Micros,
}

/// A class of the queue as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassState<'a> {
    /// Its name.
    pub name: &'a str,
    /// Turns that wait in it.
    pub waiting: usize,
    /// Turns that it was too full for.
    pub refused: u64,
}

impl<'a> ClassState<'a> {
    /// One that nobody has come to.
    pub(crate) const fn empty(name: &'a str) -> Self {
        Self {
            name,
            waiting: 0,
            refused: 0,
        }
    }
}

impl<L: Copy + Ord> Queue<L> {
    /// A queue without turns, of a configuration that was [checked](QueueConfig::check).
    pub(super) fn new(config: QueueConfig, weights: &Weights) -> Self {
        let class = |order, most| Class {
            order,
            most,
            fair: match config.priorities {
                Priorities::Published => FairQueue::strict(weights.clone()),
                Priorities::Strict | Priorities::HeadStart => FairQueue::new(weights.clone()),
            },
            refused: 0,
        };
        let named = config.classes.iter();
        let mut classes: Vec<_> = named
            .map(|of| class(of.order.unwrap_or(config.order), of.max_waiting))
            .collect();
        if classes.is_empty() {
            classes.push(class(config.order, None));
        }
        let rounds = Rounds::new(config.classes.iter().map(|class| class.quantum));
        Self {
            config,
            classes,
            rounds,
            turns: HashMap::new(),
            young: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether somebody waits in this lane.
    pub(super) fn has(&self, lane: L) -> bool {
        self.classes.iter().any(|class| class.fair.has(lane))
    }

    /// Lanes that somebody waits in.
    pub(super) fn lanes(&self) -> BTreeSet<L> {
        let lanes = self.classes.iter().map(|class| class.fair.lanes());
        lanes.flatten().collect()
    }

    /// Whether the class of such a turn has room for one more. That it has not is counted.
    pub(super) fn has_room(&mut self, claimant: Claimant, tokens: u32) -> bool {
        let class = self.class_for(claimant.priority, tokens);
        let class = &mut self.classes[class];
        let has_room = class
            .most
            .is_none_or(|most| class.fair.len() < most as usize);
        class.refused += u64::from(!has_room);
        has_room
    }

    /// Takes a turn in. A ticket that waits already stays where it is.
    pub(super) fn push(&mut self, ticket: ReservationId, entrant: Entrant, lane: L) {
        if self.turns.contains_key(&ticket) {
            return;
        }
        let Entrant {
            claimant,
            tokens,
            since,
        } = entrant;
        let class = self.class_for(claimant.priority, tokens);
        let (strict, jump) = self.config.priorities.split(claimant.priority);
        let claimant = Claimant {
            priority: strict,
            ..claimant
        };
        self.insert(
            ticket,
            class,
            claimant,
            Ask {
                since,
                tokens,
                jump,
            },
            lane,
        );
    }

    fn insert(
        &mut self,
        ticket: ReservationId,
        class: usize,
        claimant: Claimant,
        ask: Ask,
        lane: L,
    ) {
        let rank = self.rank(class, ask);
        let fair = &mut self.classes[class].fair;
        fair.push_ranked(ticket, claimant, lane, ask.tokens, rank);
        let turn = Waiting {
            class,
            ask,
            is_old: false,
            counted: ask.since,
        };
        self.turns.insert(ticket, turn);
        if self.config.max_age.is_some() && self.may_pass(class) {
            self.young.insert((ask.since, ticket));
        }
    }

    /// The turns that have waited for too long go before the others of their tenant from now on.
    pub(super) fn age(&mut self, now: Micros) {
        let Some(most) = self.config.max_age else {
            return;
        };
        while let Some(&(since, ticket)) = self.young.first()
            && since.plus(most) <= now
        {
            self.young.remove(&(since, ticket));
            if let Some(turn) = self.turns.get_mut(&ticket) {
                turn.is_old = true;
                let fair = &mut self.classes[turn.class].fair;
                fair.rank_anew(ticket, Rank::OLD, turn.ask.tokens);
            }
        }
    }

    /// The next of these lanes.
    pub(super) fn first(&self, open: &[L]) -> Option<ReservationId> {
        if let [only] = &self.classes[..] {
            return only.fair.first(open);
        }
        let class = Rounds::take(&mut { self.rounds }, &self.costs(open))?;
        self.classes[class].fair.first(open)
    }

    /// The first turn of each class that may go, and what it costs.
    fn costs(&self, open: &[L]) -> [Option<u64>; MAX_CLASSES] {
        let mut costs = [None; MAX_CLASSES];
        for (cost, class) in costs.iter_mut().zip(&self.classes) {
            *cost = class.fair.first(open).map(|ticket| self.cost(ticket));
        }
        costs
    }

    fn cost(&self, ticket: ReservationId) -> u64 {
        let turn = self.turns.get(&ticket);
        turn.map_or(1, |turn| u64::from(turn.ask.tokens.max(1)))
    }

    /// The turn goes, and its tenant and class are charged for it; `open` are the lanes that it was the
    /// first of.
    pub(super) fn serve(&mut self, ticket: ReservationId, open: &[L]) {
        let Some(turn) = self.turns.get(&ticket).copied() else {
            return;
        };
        let is_alone = self.classes.len() == 1;
        if !is_alone {
            let paid = self.rounds.take(&self.costs(open));
            debug_assert_eq!(paid, Some(turn.class), "a turn goes when its class pays");
        }
        self.classes[turn.class].fair.serve(ticket, open);
        self.forget(ticket, &turn);
        if !is_alone {
            let next = self.classes[turn.class].fair.first(open);
            let next = next.map(|ticket| self.cost(ticket));
            self.rounds.went(turn.class, next);
        }
    }

    /// The turn waits for something else from now on, as long as it has. False when it does already.
    pub(super) fn move_to(&mut self, ticket: ReservationId, lane: L) -> bool {
        let turn = self.turns.get(&ticket);
        turn.is_some_and(|turn| self.classes[turn.class].fair.move_to(ticket, lane))
    }

    /// The turn is withdrawn. False when it did not wait.
    pub(super) fn remove(&mut self, ticket: ReservationId) -> bool {
        let Some(turn) = self.turns.get(&ticket).copied() else {
            return false;
        };
        self.classes[turn.class].fair.remove(ticket);
        self.forget(ticket, &turn);
        true
    }

    fn forget(&mut self, ticket: ReservationId, turn: &Waiting) {
        self.turns.remove(&ticket);
        self.young.remove(&(turn.ask.since, ticket));
        if self.classes[turn.class].fair.is_empty() {
            self.rounds.emptied(turn.class);
        }
    }

    /// Whether what has to be computed for a turn decides when it goes, and was counted long ago.
    pub(super) fn is_stale(&self, ticket: ReservationId, now: Micros) -> bool {
        let Some(turn) = self.turns.get(&ticket) else {
            return false;
        };
        let counts = self.classes.len() > 1 || self.classes[turn.class].order == Order::Wspt;
        counts && turn.counted.plus(REFRESH_AFTER) <= now
    }

    /// So many tokens have to be computed for a turn, as is known now. It stays in its class.
    pub(super) fn count_anew(&mut self, ticket: ReservationId, tokens: u32, now: Micros) {
        let Some(mut turn) = self.turns.get(&ticket).copied() else {
            return;
        };
        turn.counted = now;
        if turn.ask.tokens != tokens {
            turn.ask.tokens = tokens;
            let rank = match turn.is_old {
                true => Rank::OLD,
                false => self.rank(turn.class, turn.ask),
            };
            self.classes[turn.class]
                .fair
                .rank_anew(ticket, rank, tokens);
        }
        self.turns.insert(ticket, turn);
    }

    /// Whether it waits.
    pub(super) fn contains(&self, ticket: ReservationId) -> bool {
        self.turns.contains_key(&ticket)
    }

    /// Who goes before it of its class and lane.
    pub(super) fn ahead(&self, ticket: ReservationId) -> Option<Ahead> {
        let turn = self.turns.get(&ticket)?;
        self.classes[turn.class].fair.ahead(ticket)
    }

    /// Which class a turn waits in, where there are several, from 0.
    pub(super) fn class_of(&self, ticket: ReservationId) -> Option<usize> {
        let turn = self.turns.get(&ticket)?;
        (!self.config.classes.is_empty()).then_some(turn.class)
    }

    /// Turns that wait in that class.
    pub(super) fn waiting_of(&self, class: usize) -> usize {
        self.classes.get(class).map_or(0, |class| class.fair.len())
    }

    /// The classes that have a name.
    pub(super) fn classes(&self) -> impl Iterator<Item = ClassState<'_>> {
        let named = self.config.classes.iter().zip(&self.classes);
        named.map(|(config, class)| ClassState {
            name: &config.name,
            waiting: class.fair.len(),
            refused: class.refused,
        })
    }

    fn class_for(&self, priority: i16, tokens: u32) -> usize {
        let mut classes = self.config.classes.iter();
        let found = classes.position(|class| class.takes(priority, tokens));
        found.unwrap_or(0)
    }

    /// Whether one that came later may go first, of a class.
    fn may_pass(&self, class: usize) -> bool {
        let has_jumps = self.config.priorities != Priorities::Strict;
        self.classes[class].order.may_pass() || has_jumps
    }

    /// First come, first served without head starts needs no rank.
    fn rank(&self, class: usize, ask: Ask) -> Rank {
        match self.may_pass(class) {
            true => self.classes[class].order.rank(ask),
            false => Rank::default(),
        }
    }
}

#[cfg(test)]
mod golden;
#[cfg(test)]
pub(super) mod tests;
