//! The least expected price, of this turn and of those that it commits the session to.
//!
//! Only a free turn has a choice. The price of answering it with a model is this prompt (what its cache
//! has at the price of a read, the rest at that of a write), the answer, what the shortfall of its
//! quality is worth, and the expected price of the turns to come, which looks *through the coming lock*:
//! the model of a free turn is kept for the loop of tools that follows. The lowest price is taken; a
//! difference of no more than the fee of a switch stays.
//!
//! What is to come is a small [`table`] per route, from [`counts`] of what its sessions have done. A
//! decision is O(models): tables are kept (see [`cache`]). Counters only; deterministic.
mod cache;
mod counts;
mod state;
mod table;

use hashbrown::HashMap;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use super::bill::{Bill, Billed};
use super::lock::Lock;
use super::model::{Grade, Usd};
use super::policy::{Decision, Reason, Weighed};
use super::question::{Question, Row};
use crate::{Error, Result};

use cache::{Cache, Key};
use counts::{Chances, Counts};
use state::State;
use table::{Outlook, Table, checkout};

/// Models that are weighed; further ones of an alias are not.
pub const MAX_MODELS: usize = 8;
/// Routes with counts of their own; one that is not known yet, or too many, has those of all.
const MAX_ROUTES: usize = 1_024;
/// Tokens of a step while nothing is known.
const STEP: u32 = 500;

/// A kind of work: sessions of one are expected to resemble each other. The caller's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteId(pub u64);

impl RouteId {
    /// The route of that name; no name is the route of everybody.
    #[must_use]
    pub fn named(name: &[u8]) -> Self {
        match name {
            [] => Self::default(),
            name => Self(xxh3_64(name)),
        }
    }
}

/// What of quality is worth money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// What is lacking against the grade that was asked for.
    #[default]
    Shortfall,
    /// What is lacking against the best model.
    Quality,
}

/// What a user may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookaheadConfig {
    /// What a point of quality is worth for one turn, in dollars; finite, at least 0.
    pub lambda: f64,
    /// What a point of quality is.
    pub value: Value,
    /// A switch must save more than this; at least 0.
    pub fee: Usd,
    /// No weaker model answers a free turn, where there is a stronger one.
    pub floor: Grade,
    /// How prompts are paid for.
    pub bill: Bill,
}

impl Default for LookaheadConfig {
    fn default() -> Self {
        Self {
            lambda: 0.5,
            value: Value::Shortfall,
            fee: Usd(0.0),
            floor: Grade::Small,
            bill: Bill::Ledger,
        }
    }
}

/// A turn as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whose counts.
    pub route: RouteId,
    /// The grade asked for.
    pub grade: Grade,
    /// Whether the session was held to its model.
    pub is_locked: bool,
    /// Free turns since the last locked one.
    pub free_turns: u32,
    /// Whether every cache was cold.
    pub is_cold: bool,
}

impl Asked {
    fn state(&self) -> State {
        State::new(self.grade, self.is_locked, self.free_turns)
    }
}

/// What answering with one model is expected to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// This prompt.
    pub prompt: Usd,
    /// Of its tokens, those that are not read from the model's cache.
    pub cold_tokens: u32,
    /// The answer.
    pub answer: Usd,
    /// Quality that is lacking, in [0, 1].
    pub shortfall: f64,
    /// The turns to come.
    pub later: Usd,
    /// Whether it is strong enough.
    pub is_allowed: bool,
}

impl Terms {
    /// The sum, where a point of quality is worth `lambda` dollars.
    #[must_use]
    pub fn total(&self, lambda: f64) -> Usd {
        self.prompt + self.answer + Usd(lambda * self.shortfall) + self.later
    }
}

/// What a decision was made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LookaheadTerms {
    /// By row.
    pub rows: SmallVec<[Terms; 4]>,
    /// What a point of quality was worth, in dollars.
    pub lambda: f64,
    /// What a switch had to save.
    pub fee: Usd,
    /// Chance that the next turn is locked.
    pub lock_next: f64,
    /// Turns expected to come.
    pub expected_turns: f64,
    /// Tokens of an answer that were reckoned with.
    pub answer_tokens: f64,
    /// Which state of the counts was believed.
    pub epoch: u64,
}

/// The counts of a route and how often they have grown by an eighth.
#[derive(Debug, Default)]
struct Route {
    number: u32,
    counts: Counts,
    epoch: u64,
    next_epoch: u64,
}

impl Route {
    fn count(&mut self, count: impl Fn(&mut Counts)) {
        count(&mut self.counts);
        let turns = self.counts.turns();
        if turns >= self.next_epoch {
            self.epoch += 1;
            self.next_epoch = turns + (turns / 8).max(1);
        }
    }
}

/// The policy with what it has learnt.
#[derive(Debug)]
pub struct Lookahead {
    config: LookaheadConfig,
    routes: HashMap<RouteId, Route>,
    common: Route,
    tables: Cache,
}

impl Lookahead {
    /// # Errors
    /// `INVALID_ARGUMENT` names the setting and what is allowed.
    pub(super) fn new(config: LookaheadConfig) -> Result<Self> {
        let settings = [("lambda", config.lambda), ("fee", config.fee.0)];
        let bad = settings.iter().find(|(_, v)| !(0.0..f64::MAX).contains(v));
        if let Some((name, value)) = bad {
            let detail = format!("{name} is {value}; it must be at least 0 and finite");
            return Err(Error::invalid_argument(detail));
        }
        Ok(Self {
            config,
            routes: HashMap::new(),
            common: Route::default(),
            tables: Cache::default(),
        })
    }

    /// A session went on, after `age` turns, from one turn to the next, and its prompt grew.
    pub(super) fn went_on(&mut self, age: u32, from: Asked, to: Asked, growth_tokens: u32) {
        let (before, after) = (from.state(), to.state());
        self.count(to.route, |counts| {
            counts.went_on(age, before, after, to.is_cold);
            if age == 1 {
                counts.first_grew(growth_tokens);
            }
        });
    }

    /// A session of a route ended after `age` turns.
    pub(super) fn ended(&mut self, route: RouteId, age: u32) {
        self.count(route, |counts| counts.ended(age));
    }

    /// The answer to a turn had so many tokens.
    pub(super) fn answered(&mut self, asked: Asked, tokens: u32) {
        self.count(asked.route, |counts| counts.answered(asked.grade, tokens));
    }

    fn count(&mut self, id: RouteId, count: impl Fn(&mut Counts)) {
        self.common.count(&count);
        let known = self.routes.len();
        if let Some(route) = self.routes.get_mut(&id) {
            route.count(count);
        } else if known < MAX_ROUTES {
            let mut route = Route {
                number: known as u32 + 1,
                ..Route::default()
            };
            route.count(count);
            self.routes.insert(id, route);
        }
    }

    pub(super) fn decide(&mut self, question: &Question<'_>) -> Decision {
        if question.lock != Lock::Free
            && let Some(current) = question.past.current
        {
            return Decision::of(current, Reason::locked(question.lock));
        }
        let terms = self.weigh(question);
        let (row, reason) = verdict(&terms, question.past.current);
        Decision {
            row,
            reason,
            weighed: Weighed::Lookahead(terms),
        }
    }

    fn weigh(&mut self, question: &Question<'_>) -> LookaheadTerms {
        let config = self.config;
        let rows = &question.rows[..question.rows.len().min(MAX_MODELS)];
        let route = self.routes.get(&question.route).unwrap_or(&self.common);
        let exact = outlook(question, &route.counts);
        let (key, rounded) = Key::new(route.number, rows, &exact);
        let table = self.tables.get(key, route.epoch, || {
            let chances = Chances::new(&route.counts);
            Table::new(&config, &chances, rows, &rounded)
        });
        let asked = question.asked_model().grade;
        let answer = route.counts.mean_answer(asked);
        let state = State::new(asked, false, question.past.free_turns);
        let later = |row| Usd(table.later(state, row, warm_other(question, rows, row)));
        LookaheadTerms {
            rows: (0..rows.len())
                .map(|row| terms(&config, question, row, answer, later(row)))
                .collect(),
            lambda: config.lambda,
            fee: config.fee,
            lock_next: table.lock_next[state.index()],
            expected_turns: table.turns,
            answer_tokens: answer,
            epoch: route.epoch,
        }
    }
}

/// A decision made again: what was expected of the turns to come is as recorded, all else is computed.
pub(super) fn again(
    config: &LookaheadConfig,
    question: &Question<'_>,
    recorded: &LookaheadTerms,
) -> Decision {
    let mut weighed = recorded.clone();
    (weighed.lambda, weighed.fee) = (config.lambda, config.fee);
    for (row, recorded) in weighed.rows.iter_mut().enumerate() {
        *recorded = terms(config, question, row, weighed.answer_tokens, recorded.later);
    }
    let (row, reason) = verdict(&weighed, question.past.current);
    Decision {
        row,
        reason,
        weighed: Weighed::Lookahead(weighed),
    }
}

/// What answering with one row costs.
fn terms(
    config: &LookaheadConfig,
    question: &Question<'_>,
    row: usize,
    answer_tokens: f64,
    later: Usd,
) -> Terms {
    let rows = &question.rows[..question.rows.len().min(MAX_MODELS)];
    let Row { model, warm_tokens } = &rows[row];
    let billed = Billed {
        tokens: f64::from(question.prompt_tokens),
        warm: f64::from(*warm_tokens),
        history: f64::from(question.history_tokens),
        is_locked: false,
        is_switched: question.past.current.is_some_and(|current| current != row),
    };
    let strongest = rows.iter().map(|row| row.model.grade).max();
    let floor = config.floor.min(strongest.unwrap_or_default());
    Terms {
        prompt: config.bill.prompt(model, &billed),
        cold_tokens: (billed.tokens - config.bill.cached(model.grade, &billed)) as u32,
        answer: model.prices.unwrap_or_default().answer(answer_tokens),
        shortfall: shortfall(config.value, rows, question.asked_model().grade, &rows[row]),
        later,
        is_allowed: model.grade >= floor,
    }
}

/// Who answers, by what was weighed.
fn verdict(terms: &LookaheadTerms, current: Option<usize>) -> (usize, Reason) {
    let total = |row: usize| terms.rows[row].total(terms.lambda);
    let allowed = (0..terms.rows.len()).filter(|&row| terms.rows[row].is_allowed);
    let cheapest = allowed.min_by(|&a, &b| total(a).0.total_cmp(&total(b).0));
    let Some(cheapest) = cheapest else {
        return (current.unwrap_or(0), Reason::Bound);
    };
    let stays = |&row: &usize| {
        terms.rows.get(row).is_some_and(|row| row.is_allowed)
            && total(row) <= total(cheapest) + terms.fee
    };
    match current.filter(stays) {
        Some(row) if total(row) > total(cheapest) => (row, Reason::WithinFee),
        Some(row) => (row, Reason::Cheapest),
        None => (cheapest, Reason::Cheapest),
    }
}

/// Quality that `row` lacks where `asked` was asked for.
fn shortfall(value: Value, rows: &[Row], asked: Grade, row: &Row) -> f64 {
    let wanted = match value {
        Value::Shortfall => quality_of(rows, asked),
        Value::Quality => rows
            .iter()
            .map(|r| r.model.quality.get())
            .fold(0.0, f64::max),
    };
    (wanted - row.model.quality.get()).max(0.0)
}

/// The quality of a grade: the best model's of it, or of the next grade that has one.
fn quality_of(rows: &[Row], grade: Grade) -> f64 {
    let of = |wanted: &dyn Fn(Grade) -> bool| {
        let rows = rows.iter().filter(|row| wanted(row.model.grade));
        rows.map(|row| row.model.quality.get()).reduce(f64::max)
    };
    let same = of(&|other| other == grade);
    same.or_else(|| of(&|other| other < grade)).unwrap_or(0.0)
}

/// Another row whose cache has at least half of the prompt, if `row` answers; itself when there is none.
fn warm_other(question: &Question<'_>, rows: &[Row], row: usize) -> usize {
    let is_warm = |&other: &usize| {
        other != row && u64::from(rows[other].warm_tokens) * 2 > u64::from(question.prompt_tokens)
    };
    let others = (0..rows.len()).filter(is_warm);
    let price = |other: usize| checkout(&rows[other]);
    others
        .max_by(|&a, &b| price(a).total_cmp(&price(b)).then(b.cmp(&a)))
        .unwrap_or(row)
}

/// The session as it is expected to go on.
fn outlook(question: &Question<'_>, counts: &Counts) -> Outlook {
    let step = match question.past.step_tokens {
        0 => counts.mean_first_growth().unwrap_or(STEP),
        own => own,
    };
    Outlook {
        age: question.past.turns + 1,
        prompt: f64::from(question.prompt_tokens),
        step: f64::from(step),
        fresh: f64::from(
            question
                .prompt_tokens
                .saturating_sub(question.history_tokens),
        ),
    }
}
