//! What the policies are worth, as rows with goals: each row says what was asked for and whether it holds.
//!
//! The published figures first, then `lookahead` against them and against the clairvoyant optimum. A row
//! that asks for the best under a bound searches what a point of quality is worth (lambda), as a user
//! would who has that bound. Learning is always included: every run begins with a policy that has seen
//! nothing. About a minute on one core.

use warmpath_core::continuity::{
    Bill, Grade, LookaheadConfig, Model, Policy, PolicyConfig, SaarConfig, Usd, Value,
};

use super::{
    Billing, Mutation, Objective, Plan, SCENARIOS, SEEDS, SESSIONS, Session, Totals, clairvoyant,
    generate, play, published_models,
};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceRow {
    /// Its name; stable.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// What it is counted in.
    pub unit: &'static str,
    /// The same figure of what it is compared with.
    pub peer: Option<f64>,
    /// What was asked for, as text.
    pub goal: Option<String>,
    /// Whether the figure is that.
    pub holds: Option<bool>,
}

/// How a figure is to compare with its goal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    Is(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl EvidenceRow {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str, goal: Goal) -> Self {
        let (text, holds) = match goal {
            Goal::Is(wanted) => (format!("{wanted}"), value == wanted),
            Goal::AtMost(most) => (format!("<= {most}"), value <= most),
            Goal::AtLeast(least) => (format!(">= {least}"), value >= least),
        };
        Self {
            name: format!("continuity.{}", name.into()),
            value,
            unit,
            peer: None,
            goal: Some(text),
            holds: Some(holds),
        }
    }

    fn beside(mut self, peer: f64) -> Self {
        self.peer = Some(peer);
        self
    }
}

/// Every row.
#[must_use]
pub fn evidence() -> Vec<EvidenceRow> {
    let sessions = generate(&SEEDS, SESSIONS, Mutation::None);
    let fresh = generate(&[1, 2, 3, 4, 5], SESSIONS, Mutation::None);
    let mut rows = published(&sessions);
    rows.extend(bounded("lookahead", &sessions));
    rows.extend(bounded("lookahead.fresh-seeds", &fresh));
    rows.extend(by_scenario(&sessions));
    rows.extend(dominating(&sessions));
    rows.extend(regrets());
    rows.extend(cold_start());
    rows
}

fn saar() -> Vec<Policy> {
    let of = |expected_turns| {
        let config = SaarConfig {
            expected_turns: Some(expected_turns),
            ..SaarConfig::default()
        };
        policy(PolicyConfig::Saar(config))
    };
    SCENARIOS
        .iter()
        .map(|scenario| of(scenario.expected_turns))
        .collect()
}

fn policy(config: PolicyConfig) -> Policy {
    Policy::new(config).unwrap_or_default()
}

fn sum(totals: &[Totals]) -> Totals {
    let mut all = Totals::default();
    totals.iter().for_each(|totals| all.add(totals));
    all
}

/// How one row is played.
#[derive(Clone, Copy)]
struct Play<'a> {
    models: &'a [Model; 3],
    billing: Billing,
    sessions: &'a [Session],
}

impl<'a> Play<'a> {
    fn like_for_like(models: &'a [Model; 3], sessions: &'a [Session]) -> Self {
        Self {
            models,
            billing: Billing::Share,
            sessions,
        }
    }

    fn each(&self, mut policies: Vec<Policy>) -> [Totals; SCENARIOS.len()] {
        let plan = Plan {
            models: self.models,
            billing: self.billing,
        };
        play(&plan, &mut policies, self.sessions)
    }

    fn all(&self, policies: Vec<Policy>) -> Totals {
        sum(&self.each(policies))
    }

    fn lookahead(&self, value: Value, lambda: f64, fee: f64) -> Vec<Policy> {
        let bill = match self.billing {
            Billing::Physical => Bill::Ledger,
            Billing::Share | Billing::Uncached => Bill::Published,
        };
        vec![policy(PolicyConfig::Lookahead(LookaheadConfig {
            lambda,
            value,
            fee: Usd(fee),
            bill,
            ..LookaheadConfig::default()
        }))]
    }

    fn at(&self, value: Value, lambda: f64) -> Totals {
        self.all(self.lookahead(value, lambda, 0.0))
    }
}

/// Lambdas between which a search looks, and how often it halves that.
const LEAST: f64 = 0.01;
const MOST: f64 = 10.0;
const HALVINGS: u32 = 14;

/// The last totals on the side where `is_enough` holds: quality is worth as much as that needs
/// (`is_more`: as much as that allows).
fn search(
    is_more: bool,
    run: impl Fn(f64) -> Totals,
    is_enough: impl Fn(&Totals) -> bool,
) -> Totals {
    let (mut low, mut high) = (LEAST, MOST);
    let mut found = run(if is_more { low } else { high });
    for _ in 0..HALVINGS {
        let middle = libm::sqrt(low * high);
        let totals = run(middle);
        let holds = is_enough(&totals);
        if holds {
            found = totals;
        }
        match holds == is_more {
            true => low = middle,
            false => high = middle,
        }
    }
    found
}

fn published(sessions: &[Session]) -> Vec<EvidenceRow> {
    let models = published_models(None);
    let like = Play::like_for_like(&models, sessions);
    let uncached = Play {
        billing: Billing::Uncached,
        ..like
    };
    let base = uncached.all(vec![policy(PolicyConfig::SingleTurn)]);
    let full = like.all(saar());
    let middle = like.all(vec![policy(PolicyConfig::Constant(Grade::Middle))]);
    let percent = |totals: &Totals| rounded(100.0 * (1.0 - totals.cost / base.cost), 2);
    let count = |name, value: u32, wanted| {
        EvidenceRow::new(name, f64::from(value), "count", Goal::Is(wanted))
    };
    let delta = full.mean_quality() - base.mean_quality();
    vec![
        count("saar.turns", full.turns, 21_600.0),
        count("saar.switches", full.switches, 2_011.0).beside(f64::from(base.switches)),
        count("saar.unsafe", full.unsafe_switches.all(), 0.0)
            .beside(f64::from(base.unsafe_switches.all())),
        EvidenceRow::new("saar.saved", percent(&full), "%", Goal::Is(78.71))
            .beside(percent(&middle)),
        EvidenceRow::new(
            "saar.quality-delta",
            rounded(delta, 4),
            "quality",
            Goal::Is(-0.0453),
        ),
    ]
}

fn rounded(value: f64, places: i32) -> f64 {
    let scale = libm::pow(10.0, f64::from(places));
    libm::round(value * scale) / scale
}

/// The best within SAAR's shortfall, its money, and with no loss of quality.
fn bounded(name: &str, sessions: &[Session]) -> Vec<EvidenceRow> {
    let models = published_models(None);
    let like = Play::like_for_like(&models, sessions);
    let published = like.all(saar());
    let single = like.all(vec![policy(PolicyConfig::SingleTurn)]);
    let delta = |totals: &Totals| totals.mean_quality() - single.mean_quality();
    let shortfall = |lambda| like.at(Value::Shortfall, lambda);
    let quality = |lambda| like.at(Value::Quality, lambda);
    let cheap = search(false, shortfall, |t| {
        t.mean_shortfall() <= published.mean_shortfall()
    });
    let good = search(true, shortfall, |t| t.cost <= published.cost);
    let best = search(true, quality, |t| t.cost <= published.cost);
    let equal = search(false, quality, |t| delta(t) >= 0.0);
    let saved = 100.0 * (1.0 - equal.cost / single.cost);
    let is_unsafe = [cheap, good, best, equal].map(|t| t.unsafe_switches.all());
    let row = |what: &str, value, unit, goal| {
        EvidenceRow::new(format!("{name}.{what}"), value, unit, goal)
    };
    vec![
        row(
            "cost-at-saar-shortfall",
            cheap.cost,
            "$",
            Goal::AtMost(57.5),
        )
        .beside(published.cost),
        row(
            "shortfall-at-saar-cost",
            good.mean_shortfall(),
            "quality",
            Goal::AtMost(0.0345),
        )
        .beside(published.mean_shortfall()),
        row(
            "delta-at-saar-cost",
            delta(&best),
            "quality",
            Goal::AtLeast(0.030),
        )
        .beside(delta(&published)),
        row("saved-at-no-loss", saved, "%", Goal::AtLeast(80.5)),
        row(
            "unsafe",
            f64::from(is_unsafe.iter().sum::<u32>()),
            "count",
            Goal::Is(0.0),
        ),
    ]
}

/// Like for like in each scenario: cheaper than SAAR at its own shortfall, never dearer than each turn
/// for itself.
fn by_scenario(sessions: &[Session]) -> Vec<EvidenceRow> {
    let models = published_models(None);
    let like = Play::like_for_like(&models, sessions);
    let published = like.each(saar());
    let single = like.each(vec![policy(PolicyConfig::SingleTurn)]);
    let dearest = like.each(like.lookahead(Value::Shortfall, 0.7, 0.0));
    let mut rows = Vec::new();
    let mut cheaper = 0;
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        let own: Vec<Session> = sessions
            .iter()
            .filter(|s| s.scenario == at)
            .cloned()
            .collect();
        let own = Play::like_for_like(&models, &own);
        let bound = published[at].mean_shortfall();
        let run = |lambda| own.at(Value::Shortfall, lambda);
        let found = search(false, run, |totals| totals.mean_shortfall() <= bound);
        cheaper += u32::from(found.cost < published[at].cost);
        let name = format!("lookahead.{}.cost-at-saar-shortfall", scenario.name);
        let most = Goal::AtMost(published[at].cost);
        rows.push(EvidenceRow::new(name, found.cost, "$", most).beside(published[at].cost));
        let name = format!("lookahead.{}.cost-at-0.7", scenario.name);
        let most = Goal::AtMost(single[at].cost);
        rows.push(EvidenceRow::new(name, dearest[at].cost, "$", most).beside(single[at].cost));
    }
    let all = Goal::Is(SCENARIOS.len() as f64);
    rows.push(EvidenceRow::new(
        "lookahead.cheaper-scenarios",
        f64::from(cheaper),
        "count",
        all,
    ));
    rows
}

/// One setting that beats SAAR on everything at once.
fn dominating(sessions: &[Session]) -> Vec<EvidenceRow> {
    let models = published_models(None);
    let like = Play::like_for_like(&models, sessions);
    let published = like.all(saar());
    let own = like.all(like.lookahead(Value::Shortfall, 0.65, 0.04));
    let later = |totals: &Totals| f64::from(totals.switches - totals.first_switches);
    let rows = [
        ("cost", own.cost, published.cost, "$"),
        (
            "shortfall",
            own.mean_shortfall(),
            published.mean_shortfall(),
            "quality",
        ),
        (
            "under-served",
            f64::from(own.under),
            f64::from(published.under),
            "turns",
        ),
        ("switches", later(&own), later(&published), "count"),
        (
            "quality-lost",
            -own.mean_quality(),
            -published.mean_quality(),
            "quality",
        ),
    ];
    let row = |(name, own, peer, unit)| {
        EvidenceRow::new(
            format!("lookahead.dominates.{name}"),
            own,
            unit,
            Goal::AtMost(peer),
        )
        .beside(peer)
    };
    rows.into_iter().map(row).collect()
}

/// What a run costs against the clairvoyant optimum.
fn regret(play: &Play<'_>, lambda: f64) -> (f64, f64) {
    let best = clairvoyant(
        play.models,
        play.billing,
        Objective::Shortfall(lambda),
        play.sessions,
    );
    let own = play.at(Value::Shortfall, lambda);
    (own.objective(lambda), best.objective(lambda))
}

type Mutated = (&'static str, Mutation, Option<(f64, f64)>);

const MUTATIONS: [Mutated; 12] = [
    ("turns-6", Mutation::Turns(6), None),
    ("turns-9", Mutation::Turns(9), None),
    ("turns-40", Mutation::Turns(40), None),
    ("turns-geometric", Mutation::Geometric(18.0), None),
    ("cached-10", Mutation::None, Some((0.10, 1.0))),
    ("cached-25", Mutation::None, Some((0.25, 1.0))),
    ("cached-50", Mutation::None, Some((0.50, 1.0))),
    ("cached-10-write-125", Mutation::None, Some((0.10, 1.25))),
    ("random-phases", Mutation::RandomPhases, None),
    ("hidden-regime", Mutation::HiddenRegime, None),
    ("noise-3", Mutation::Noise(3.0), None),
    ("no-phase-bonus", Mutation::NoPhaseBonus, None),
];

fn regrets() -> Vec<EvidenceRow> {
    let matrix = [("matrix", Mutation::None, None)];
    let all = matrix.iter().chain(&MUTATIONS);
    let mut rows = Vec::new();
    for (name, mutation, prices) in all {
        let models = published_models(*prices);
        // The optimum of long sessions takes long; one seed of them is enough to see.
        let seeds = if matches!(mutation, Mutation::Turns(40)) {
            &SEEDS[..1]
        } else {
            &SEEDS
        };
        let sessions = generate(seeds, SESSIONS, *mutation);
        let play = Play {
            models: &models,
            billing: Billing::Physical,
            sessions: &sessions,
        };
        for (lambda, on_the_matrix) in [(0.1, 1.03), (0.3, 1.03), (1.0, 1.07)] {
            let most = if *name == "matrix" {
                on_the_matrix
            } else {
                1.20
            };
            let (own, best) = regret(&play, lambda);
            let name = format!("regret.{name}.{lambda}");
            rows.push(EvidenceRow::new(name, own / best, "x", Goal::AtMost(most)));
        }
    }
    rows
}

/// Sessions a route of a policy that has just been started.
const FEW: u32 = 4;
/// Seeds that it is started with anew.
const STARTS: u32 = 20;

/// Regret of a policy that starts with nothing and sees little, all learning included; each route alone.
fn cold_start() -> Vec<EvidenceRow> {
    let models = published_models(None);
    let mut rows = Vec::new();
    for (lambda, most) in [(0.1, 1.05), (0.3, 1.05), (1.0, 1.30)] {
        let (mut own, mut best) = (0.0, 0.0);
        for seed in 1..=STARTS {
            for at in 0..SCENARIOS.len() {
                let mut sessions = generate(&[seed], FEW, Mutation::None);
                sessions.retain(|session| session.scenario == at);
                let play = Play {
                    models: &models,
                    billing: Billing::Physical,
                    sessions: &sessions,
                };
                let (cost, least) = regret(&play, lambda);
                own += cost;
                best += least;
            }
        }
        let name = format!("regret.cold-start.{lambda}");
        rows.push(EvidenceRow::new(name, own / best, "x", Goal::AtMost(most)));
    }
    rows
}
