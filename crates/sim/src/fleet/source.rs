//! Which turn starts next, and when?
//!
//! A replay starts each turn of the workload once: at its time, or when what it waits for is over. A
//! population keeps a number of sessions alive and draws a new one for each that finishes. Both are
//! told of starts and ends and answer with arrivals, those of one time in the order of their sessions,
//! which is that of their files; neither knows engines, routers or what a turn
//! costs. A turn that was refused or given up counts as over, so that the replay goes on.
//!
//! O(turns that wait for it) an end; memory 16 bytes a turn and 16 a wait of the workload.
use serde::Serialize;
use warmpath_core::Micros;
use warmpath_trace::{Moment, Start, Workload};

use super::agenda::{Agenda, Item};
use super::config::PopulationConfig;
use super::content::TurnKey;
use super::error::FleetError;
use crate::event::Nanos;
use crate::random::Random;

pub(crate) fn nanos(time: Micros) -> Nanos {
    time.0.saturating_mul(1_000)
}

/// Where turns come from.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Replay(Replay<'a>),
    Population(Population<'a>),
}

impl Source<'_> {
    /// A turn has been handed to the router.
    pub(crate) fn started(&mut self, now: Nanos, key: TurnKey, agenda: &mut Agenda) {
        match self {
            Self::Replay(replay) => replay.reached(now, key.turn, Moment::Start, agenda),
            Self::Population(_) => {}
        }
    }

    /// A turn is over, however it ended. True when its session is over too.
    pub(crate) fn ended(&mut self, now: Nanos, key: TurnKey, agenda: &mut Agenda) -> bool {
        match self {
            Self::Replay(replay) => {
                replay.reached(now, key.turn, Moment::End, agenda);
                replay.ended(key.turn)
            }
            Self::Population(population) => population.ended(now, key, agenda),
        }
    }

    /// Time of the next turn that waits for nothing else.
    pub(crate) fn next_open(&self) -> Option<Nanos> {
        match self {
            Self::Replay(replay) => replay.next_open(),
            Self::Population(_) => None,
        }
    }

    /// Takes that turn if it is due.
    pub(crate) fn take_open(&mut self, now: Nanos) -> Option<TurnKey> {
        match self {
            Self::Replay(replay) => replay.take_open(now),
            Self::Population(_) => None,
        }
    }
}

/// Whether a replay keeps the times of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Turns start when what they wait for is over.
    Free,
    /// And not before their time in the trace.
    Recorded,
}

/// Every turn once.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    workload: &'a Workload,
    /// Turns with a time of their own, by it and then by their sessions.
    open: Vec<u32>,
    next_open: usize,
    /// Waits that are not over, and the latest time that those that are lead to.
    pending: Vec<(u32, Nanos)>,
    /// Who waits for turn t: `waiters[first[t]..first[t + 1]]`.
    first: Vec<u32>,
    waiters: Vec<Waiter>,
    /// Turns of each session that are not over.
    left: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    turn: u32,
    moment: Moment,
    delay: Micros,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(workload: &'a Workload, pace: Pace) -> Self {
        let turns = workload.turns();
        let mut open = Vec::new();
        let mut pending = vec![(0, 0); turns.len()];
        let mut first = vec![0u32; turns.len() + 1];
        let mut left = vec![0; workload.sessions().len()];
        for (index, turn) in turns.iter().enumerate() {
            left[turn.session as usize] += 1;
            if let Start::At(_) = turn.start {
                open.push(index as u32);
            }
            let waits = workload.waits(turn.start);
            let earliest = match pace {
                Pace::Free => 0,
                Pace::Recorded => nanos(workload.not_before(turn.start)),
            };
            pending[index] = (waits.len() as u32, earliest);
            for wait in waits {
                first[wait.turn as usize + 1] += 1;
            }
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        open.sort_by_key(|&index| (start(workload, index), turns[index as usize].session));
        let unfilled = Waiter {
            turn: 0,
            moment: Moment::End,
            delay: Micros(0),
        };
        let mut waiters = vec![unfilled; first.last().map_or(0, |&n| n as usize)];
        let mut filled = first.clone();
        for (index, turn) in turns.iter().enumerate() {
            for wait in workload.waits(turn.start) {
                let slot = &mut filled[wait.turn as usize];
                waiters[*slot as usize] = Waiter {
                    turn: index as u32,
                    moment: wait.moment,
                    delay: wait.delay,
                };
                *slot += 1;
            }
        }
        Self {
            workload,
            open,
            next_open: 0,
            pending,
            first,
            waiters,
            left,
        }
    }

    fn next_open(&self) -> Option<Nanos> {
        let index = *self.open.get(self.next_open)?;
        Some(start(self.workload, index))
    }

    fn take_open(&mut self, now: Nanos) -> Option<TurnKey> {
        if self.next_open()? > now {
            return None;
        }
        let turn = self.open[self.next_open];
        self.next_open += 1;
        Some(TurnKey { instance: 0, turn })
    }

    fn reached(&mut self, now: Nanos, turn: u32, moment: Moment, agenda: &mut Agenda) {
        let range = self.first[turn as usize]..self.first[turn as usize + 1];
        for slot in range {
            let waiter = self.waiters[slot as usize];
            if waiter.moment != moment {
                continue;
            }
            let (waits, ready) = &mut self.pending[waiter.turn as usize];
            *ready = (*ready).max(now.saturating_add(nanos(waiter.delay)));
            *waits -= 1;
            if *waits == 0 {
                let key = TurnKey {
                    instance: 0,
                    turn: waiter.turn,
                };
                let session = self.workload.turns()[waiter.turn as usize].session;
                let order = u64::from(session) << 32 | u64::from(waiter.turn);
                agenda.add_in_order(*ready, order, Item::Arrive(key));
            }
        }
    }

    fn ended(&mut self, turn: u32) -> bool {
        let session = self.workload.turns()[turn as usize].session;
        let left = &mut self.left[session as usize];
        *left -= 1;
        *left == 0
    }
}

fn start(workload: &Workload, index: u32) -> Nanos {
    match workload.turns()[index as usize].start {
        Start::At(time) => nanos(time),
        Start::After(_) => Nanos::MAX,
    }
}

/// A number of live sessions.
#[derive(Debug)]
pub(crate) struct Population<'a> {
    workload: &'a Workload,
    config: PopulationConfig,
    /// The sessions that may be drawn, each as its turns in order.
    sessions: Vec<Vec<u32>>,
    /// Draws without returning, over and over.
    deck: Vec<u32>,
    random: Random,
    /// Of each instance: its session among `sessions`, and its next turn there.
    live: Vec<(u32, u32)>,
    target: usize,
    drawn: Drawn,
}

/// Which sessions of a workload a population draws from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drawn {
    /// Those that it draws.
    pub sessions: u64,
    /// Left out: fewer turns than `least_turns`.
    pub too_short: u64,
    /// Left out: a prompt of `largest_tokens` or more.
    pub too_large: u64,
    /// Left out: spawned by another one.
    pub children: u64,
    /// Turns that a session needs.
    pub least_turns: u64,
    /// Tokens that every prompt must stay below: six tenths of a worker's cache, at most the setting.
    pub largest_tokens: u64,
}

/// Bounds the instances that ids can tell apart.
const MOST_INSTANCES: usize = 1 << 22;

impl<'a> Population<'a> {
    /// A population for a fleet of which each worker's cache holds `capacity` tokens.
    ///
    /// # Errors
    /// When no session fits.
    pub(crate) fn new(
        workload: &'a Workload,
        config: &PopulationConfig,
        capacity: u64,
        workers: u32,
        seed: u64,
    ) -> Result<Self, FleetError> {
        let mut sessions = vec![Vec::new(); workload.sessions().len()];
        for (index, turn) in workload.turns().iter().enumerate() {
            let turns = &mut sessions[turn.session as usize];
            if turns.len() < config.turns as usize {
                turns.push(index as u32);
            }
        }
        let input = |turn: &u32| workload.turns()[*turn as usize].input_tokens;
        let too_large = u64::from(config.too_large).min(capacity / 10 * 6);
        let mut index = 0;
        let mut drawn = Drawn {
            largest_tokens: too_large,
            least_turns: u64::from(config.least_turns.max(1)),
            ..Drawn::default()
        };
        sessions.retain(|turns| {
            let is_child = workload.sessions()[index].parent.is_some();
            index += 1;
            let largest = turns.iter().map(input).max().unwrap_or(0);
            let (count, is_drawn) = if is_child {
                (&mut drawn.children, false)
            } else if (turns.len() as u64) < drawn.least_turns {
                (&mut drawn.too_short, false)
            } else if u64::from(largest) >= too_large {
                (&mut drawn.too_large, false)
            } else {
                (&mut drawn.sessions, true)
            };
            *count += 1;
            is_drawn
        });
        let (sum, count) = sessions
            .iter()
            .flatten()
            .fold((0u64, 0u64), |(sum, count), turn| {
                (sum + u64::from(input(turn)), count + 1)
            });
        if count == 0 {
            return Err(FleetError::new(format!(
                "no session of the trace can be drawn: {} have fewer than {} turns, {} a prompt of {too_large} \
                 tokens or more, {} are sub-sessions; replay it as recorded, or with a larger cache",
                drawn.too_short, drawn.least_turns, drawn.too_large, drawn.children,
            )));
        }
        let fleet = capacity as f64 * f64::from(workers);
        let target = match config.sessions {
            Some(sessions) => f64::from(sessions),
            None => (config.pressure * fleet / (sum as f64 / count as f64)).round(),
        };
        if target > MOST_INSTANCES as f64 / 2.0 {
            return Err(FleetError::new("the population would be too large"));
        }
        Ok(Self {
            workload,
            config: config.clone(),
            sessions,
            deck: Vec::new(),
            random: Random::fork(seed, 1),
            live: Vec::new(),
            target: (target as usize).max(1),
            drawn,
        })
    }

    /// Which sessions it draws from.
    pub(crate) fn drawn(&self) -> Drawn {
        self.drawn
    }

    /// How many sessions are alive at any time.
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// Enters the first sessions, each somewhere in its course and at some time of the longest gap:
    /// the population begins as it goes on.
    pub(crate) fn begin(&mut self, agenda: &mut Agenda) {
        for _ in 0..self.target {
            let session = self.draw();
            let turns = self.sessions[session as usize].len() as u64;
            let turn = self.random.below(turns) as u32;
            let at = self.random.below(self.config.longest_gap.max(1));
            self.enter(at, session, turn, agenda);
        }
    }

    fn ended(&mut self, now: Nanos, key: TurnKey, agenda: &mut Agenda) -> bool {
        let (session, turn) = self.live[key.instance as usize - 1];
        let turns = &self.sessions[session as usize];
        if let Some(&next) = turns.get(turn as usize + 1) {
            self.live[key.instance as usize - 1].1 = turn + 1;
            let gap = self.gap(next).min(self.config.longest_gap);
            let key = TurnKey {
                instance: key.instance,
                turn: next,
            };
            agenda.add(now.saturating_add(gap), Item::Arrive(key));
            return false;
        }
        if self.live.len() < MOST_INSTANCES {
            let session = self.draw();
            self.enter(now, session, 0, agenda);
        }
        true
    }

    /// Time between the last end before it in its session and `turn`.
    fn gap(&self, turn: u32) -> Nanos {
        let turns = self.workload.turns();
        let own = turns[turn as usize].session;
        let waits = self.workload.waits(turns[turn as usize].start);
        let own_waits = waits
            .iter()
            .filter(|wait| turns[wait.turn as usize].session == own);
        own_waits.map(|wait| nanos(wait.delay)).min().unwrap_or(0)
    }

    fn draw(&mut self) -> u32 {
        if self.deck.is_empty() {
            self.deck = (0..self.sessions.len() as u32).collect();
            for last in (1..self.deck.len()).rev() {
                let other = self.random.below(last as u64 + 1) as usize;
                self.deck.swap(last, other);
            }
        }
        self.deck.pop().unwrap_or(0)
    }

    fn enter(&mut self, at: Nanos, session: u32, turn: u32, agenda: &mut Agenda) {
        self.live.push((session, turn));
        let key = TurnKey {
            instance: self.live.len() as u32,
            turn: self.sessions[session as usize][turn as usize],
        };
        agenda.add(at, Item::Arrive(key));
    }

    /// Whether the turn is the last that its session takes here.
    pub(crate) fn is_last(&self, key: TurnKey) -> bool {
        let (session, turn) = self.live[key.instance as usize - 1];
        self.sessions[session as usize].len() == turn as usize + 1
    }
}
