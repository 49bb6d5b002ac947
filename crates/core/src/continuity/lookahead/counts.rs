//! What the sessions of a route have done so far, as counts, and what is expected of the next one.
//!
//! Every chance is shrunk towards a weak prior: needs persist. Counters only; nothing decays or draws.

use super::super::model::Grade;
use super::state::{STATES, State};

/// Ages that are told apart; older sessions share buckets, one for each doubling.
const AGES: usize = 48;
/// Ages with a bucket of their own.
const YOUNG: u32 = 32;

/// Tokens of an answer while there was none.
const ANSWER: u32 = 300;

/// Weight of the prior against counted transitions, in transitions.
const PRIOR_WEIGHT: f64 = 0.05;
/// Chance that the next turn asks for the same grade, a priori.
const PERSIST: f64 = 0.6;
/// Chance that the next turn is locked, a priori.
const LOCK: f64 = 0.5;
/// Weight and share of the prior of sessions that end and of turns that find a cold cache, in turns.
const END_WEIGHT: f64 = 8.0;
const COLD_WEIGHT: f64 = 4.0;
const COLD: f64 = 1.0 / 16.0;

/// What has been counted.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    transitions: [[u32; STATES]; STATES],
    ends: [u32; AGES],
    at_risk: [u32; AGES],
    turns: u64,
    cold: u64,
    /// Sum of the tokens by which second prompts were longer than first ones, and how many there were.
    /// Later steps say nothing about a session without any: they grow with the history.
    first_growth: (u64, u64),
    /// Sum of the tokens of answers, and how many there were, by the grade asked for.
    answers: [(u64, u64); Grade::ALL.len()],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            transitions: [[0; STATES]; STATES],
            ends: [0; AGES],
            at_risk: [0; AGES],
            turns: 0,
            cold: 0,
            first_growth: (0, 0),
            answers: [(0, 0); Grade::ALL.len()],
        }
    }
}

fn bucket(age: u32) -> usize {
    let older = (age / YOUNG).checked_ilog2().map_or(0, |n| n + 1);
    match older {
        0 => age as usize,
        n => (YOUNG + n - 1).min(AGES as u32 - 1) as usize,
    }
}

impl Counts {
    /// Turns seen.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// A session of that age went on, from one state to the next.
    pub(super) fn went_on(&mut self, age: u32, from: State, to: State, is_cold: bool) {
        let cell = &mut self.transitions[from.index()][to.index()];
        *cell = cell.saturating_add(1);
        self.at_risk[bucket(age)] = self.at_risk[bucket(age)].saturating_add(1);
        self.turns += 1;
        self.cold += u64::from(is_cold);
    }

    /// A session ended after so many turns.
    pub(super) fn ended(&mut self, age: u32) {
        let bucket = bucket(age);
        self.ends[bucket] = self.ends[bucket].saturating_add(1);
        self.at_risk[bucket] = self.at_risk[bucket].saturating_add(1);
    }

    pub(super) fn first_grew(&mut self, tokens: u32) {
        add(&mut self.first_growth, tokens);
    }

    pub(super) fn answered(&mut self, asked: Grade, tokens: u32) {
        add(&mut self.answers[asked.index()], tokens);
    }

    /// Tokens by which a session's prompt grows at first; `None` when none has.
    pub(super) fn mean_first_growth(&self) -> Option<u32> {
        mean(self.first_growth)
    }

    /// Tokens of an answer where that grade is asked for; of any answer where none was.
    pub(super) fn mean_answer(&self, asked: Grade) -> f64 {
        let all = || {
            let sums = self.answers.iter();
            mean(sums.fold((0, 0), |(tokens, count), of| (tokens + of.0, count + of.1)))
        };
        let own = mean(self.answers[asked.index()]);
        f64::from(own.or_else(all).unwrap_or(ANSWER))
    }
}

fn add((sum, count): &mut (u64, u64), tokens: u32) {
    *sum = sum.saturating_add(u64::from(tokens));
    *count += 1;
}

fn mean((sum, count): (u64, u64)) -> Option<u32> {
    u32::try_from(sum.checked_div(count)?).ok()
}

/// What is expected of a route.
pub(super) struct Chances<'a> {
    pub(super) counts: &'a Counts,
    /// Chance of each state to be followed by each.
    pub(super) next: [[f64; STATES]; STATES],
    /// Chance that a turn finds every cache cold.
    pub(super) cold: f64,
}

impl<'a> Chances<'a> {
    pub(super) fn new(counts: &'a Counts) -> Self {
        let mut next = [[0.0; STATES]; STATES];
        for (row, state) in next.iter_mut().zip(State::all()) {
            *row = transitions(state, counts);
        }
        Self {
            counts,
            next,
            cold: (counts.cold as f64 + COLD_WEIGHT * COLD) / (counts.turns as f64 + COLD_WEIGHT),
        }
    }

    /// Chance that a session that has had `age` turns has another one.
    pub(super) fn survives(&self, age: u32) -> f64 {
        let (ends, at_risk) = (&self.counts.ends, &self.counts.at_risk);
        let bucket = bucket(age);
        1.0 - (f64::from(ends[bucket]) + 1.0) / (f64::from(at_risk[bucket]) + END_WEIGHT)
    }

    /// Chance that the turn after one in `from` is locked.
    pub(super) fn lock_next(&self, from: State) -> f64 {
        let locked = State::all().filter(|state| state.is_locked());
        locked
            .map(|state| self.next[from.index()][state.index()])
            .sum()
    }
}

fn transitions(from: State, counts: &Counts) -> [f64; STATES] {
    let row = &counts.transitions[from.index()];
    let total = row.iter().map(|&n| f64::from(n)).sum::<f64>() + PRIOR_WEIGHT;
    let mut chances = prior(from);
    for (chance, &n) in chances.iter_mut().zip(row) {
        *chance = (f64::from(n) + PRIOR_WEIGHT * *chance) / total;
    }
    chances
}

/// Needs persist, and locks come as often as not.
fn prior(from: State) -> [f64; STATES] {
    let mut chances = [0.0; STATES];
    for grade in Grade::ALL {
        let share = match grade.index() == from.grade() {
            true => PERSIST,
            false => (1.0 - PERSIST) / 2.0,
        };
        let (locked, free) = from.successors(grade.index());
        chances[locked] += LOCK * share;
        chances[free] += (1.0 - LOCK) * share;
    }
    chances
}
