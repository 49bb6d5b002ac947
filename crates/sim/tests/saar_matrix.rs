//! The published experiment, digit for digit, with the shipped policies.
//!
//! Totals of all ten published policies; rows of each scenario and seed where the published tables are
//! at hand, which are public and not part of the repository: without them that test is ignored and says
//! so, which is why this has a harness of its own.
#![allow(
    clippy::print_stdout,
    reason = "a harness of its own prints its result"
)]
use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest, Sha256};
use warmpath_core::continuity::{Grade, Policy, PolicyConfig, SaarConfig};
use warmpath_sim::matrix::{
    Billing, Mutation, Plan, SCENARIOS, SEEDS, SESSIONS, Session, Totals, generate, play,
    published_models, trace_lines,
};

const TRACE: &str = "cb55582a947302130c7f80477e913cf12216bae62f8c650a13eb854cfaab30b5";

/// Switches, unsafe ones in loops and away from state, after drift and idleness, turns of the frontier
/// model, dollars, and mean quality.
type Row = (u32, [u32; 2], [u32; 2], u32, f64, f64);

fn main() {
    let sessions = generate(&SEEDS, SESSIONS, Mutation::None);
    the_sessions_are_the_published_ones(&sessions);
    the_first_sessions_models_are_the_published_ones(&sessions);
    all_policies_have_their_published_totals(&sessions);
    a_constant_beats_the_published_policy(&sessions);
    match published_rows() {
        Some(rows) => each_scenario_and_seed_has_its_published_row(&sessions, &rows),
        None => println!("ignored, the published tables are not here: rows by scenario and seed"),
    }
}

fn the_sessions_are_the_published_ones(sessions: &[Session]) {
    let mut hash = Sha256::new();
    trace_lines(sessions).for_each(|line| hash.update(line));
    let mut hex = String::new();
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}").expect("a String takes everything");
    }
    assert_eq!(hex, TRACE);
    let turns = sessions.iter().map(|session| session.turns.len());
    assert_eq!(turns.sum::<usize>(), 21_600);
}

fn the_first_sessions_models_are_the_published_ones(sessions: &[Session]) {
    let base = |session: &Session| -> String {
        let letter = |grade| match grade {
            Grade::Small => 'S',
            Grade::Middle => 'M',
            Grade::Large => 'F',
        };
        session.turns.iter().map(|turn| letter(turn.base)).collect()
    };
    let drift = sessions
        .iter()
        .find(|s| s.scenario == 5)
        .expect("a session");
    assert_eq!(base(&sessions[0]), "SMMMSSSSMMMMMMSMMF");
    assert_eq!(base(drift), "SFFFSSSMFFFMMFFFMF");
    assert_eq!(
        (sessions[0].turns[0].history, drift.turns[0].history),
        (931, 3725)
    );
}

/// The published policy as a scenario has it, with one part changed.
fn saar(change: impl Fn(&mut SaarConfig)) -> Vec<Policy> {
    let of = |scenario: &warmpath_sim::matrix::Scenario| {
        let mut config = SaarConfig {
            expected_turns: Some(scenario.expected_turns),
            ..SaarConfig::default()
        };
        change(&mut config);
        Policy::new(PolicyConfig::Saar(config)).expect("a good setting")
    };
    SCENARIOS.iter().map(of).collect()
}

fn one(config: PolicyConfig) -> Vec<Policy> {
    vec![Policy::new(config).expect("a good setting")]
}

fn totals(billing: Billing, mut policies: Vec<Policy>, sessions: &[Session]) -> Totals {
    let models = published_models(None);
    let plan = Plan {
        models: &models,
        billing,
    };
    let mut all = Totals::default();
    play(&plan, &mut policies, sessions)
        .iter()
        .for_each(|t| all.add(t));
    all
}

fn all_policies_have_their_published_totals(sessions: &[Session]) {
    let share = Billing::Share;
    let rows: [(&str, Billing, Vec<Policy>, Row); 10] = [
        (
            "single-turn",
            Billing::Uncached,
            one(PolicyConfig::SingleTurn),
            (9709, [3404, 432], [798, 278], 9529, 1_725.484_812, 0.8230),
        ),
        (
            "sticky-session",
            share,
            one(PolicyConfig::Sticky),
            (340, [0, 0], [0, 34], 0, 23.222_197, 0.6797),
        ),
        (
            "initial",
            share,
            saar(|config| *config = SaarConfig::initial()),
            (1810, [0, 200], [218, 390], 6724, 501.764_771, 0.8108),
        ),
        (
            "no-tool-lock",
            share,
            saar(|config| config.tool_lock = false),
            (2431, [760, 0], [574, 494], 9040, 689.412_056, 0.8309),
        ),
        (
            "no-context-portability",
            share,
            saar(|config| config.state_lock = false),
            (2138, [0, 200], [574, 390], 6828, 520.820_821, 0.8043),
        ),
        (
            "no-drift-reset",
            share,
            saar(|config| config.drift_reset = false),
            (1637, [0, 0], [200, 390], 3146, 322.520_177, 0.7748),
        ),
        (
            "no-idle-boundary",
            share,
            saar(|config| config.idle_reset = false),
            (1555, [0, 0], [574, 53], 3200, 342.606_122, 0.7803),
        ),
        (
            "no-remaining-prior",
            share,
            saar(|config| config.expected_turns = None),
            (2039, [0, 0], [574, 390], 3538, 369.124_497, 0.7850),
        ),
        (
            "no-frontier-cost",
            share,
            saar(|config| config.price_pressure = false),
            (2528, [0, 0], [574, 399], 7370, 780.784_126, 0.8070),
        ),
        (
            "full",
            share,
            saar(|_| {}),
            (2011, [0, 0], [574, 390], 3538, 367.423_428, 0.7777),
        ),
    ];
    for (name, billing, policies, expected) in rows {
        let got = totals(billing, policies, sessions);
        let row = (
            got.switches,
            [got.unsafe_switches.tool, got.unsafe_switches.state],
            [got.drift_switches, got.idle_switches],
            got.frontier_turns,
            round(got.cost, 6),
            round(got.mean_quality(), 4),
        );
        assert_eq!(row, expected, "{name}");
    }
    println!("ok, ten policies");
}

fn round(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

/// What makes the published headline no goal.
fn a_constant_beats_the_published_policy(sessions: &[Session]) {
    let middle = one(PolicyConfig::Constant(Grade::Middle));
    let constant = totals(Billing::Share, middle, sessions);
    let published = totals(Billing::Share, saar(|_| {}), sessions);
    let baseline = totals(Billing::Uncached, one(PolicyConfig::SingleTurn), sessions);
    let saved = |totals: &Totals| round(100.0 * (1.0 - totals.cost / baseline.cost), 2);
    assert_eq!((saved(&published), saved(&constant)), (78.71, 96.58));
    assert_eq!(round(constant.cost, 2), 59.01);
    let delta = published.mean_quality() - baseline.mean_quality();
    assert_eq!(round(delta, 4), -0.0453);
    let shortfall = |totals: &Totals| round(totals.mean_shortfall(), 5);
    assert_eq!(
        (shortfall(&published), shortfall(&constant)),
        (0.070_59, 0.070_59)
    );
    assert_eq!(constant.switches, constant.first_switches);
    let physical = totals(Billing::Physical, saar(|_| {}), sessions);
    assert_eq!(round(physical.cost, 2), 255.39);
}

/// The published rows, by name of their columns.
fn published_rows() -> Option<Vec<Vec<(String, String)>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/saar-matrix/scenario_seed_summary.csv");
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split(',').collect();
    let row = |line: &str| {
        let named = names.iter().zip(line.split(','));
        named
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    };
    Some(lines.map(row).collect())
}

fn each_scenario_and_seed_has_its_published_row(
    sessions: &[Session],
    rows: &[Vec<(String, String)>],
) {
    assert_eq!(rows.len(), SCENARIOS.len() * SEEDS.len());
    for row in rows {
        let field = |name: &str| {
            let found = row.iter().find(|(column, _)| column == name);
            found.map(|(_, value)| value.as_str()).expect("a column")
        };
        let number = |name: &str| field(name).parse::<f64>().expect("a number");
        let own: Vec<Session> = sessions
            .iter()
            .filter(|s| SCENARIOS[s.scenario].name == field("scenario"))
            .filter(|s| s.seed.to_string() == field("seed"))
            .cloned()
            .collect();
        let base = totals(Billing::Uncached, one(PolicyConfig::SingleTurn), &own);
        let full = totals(Billing::Share, saar(|_| {}), &own);
        let got = [
            ("baseline_switches", f64::from(base.switches)),
            ("agentic_switches", f64::from(full.switches)),
            (
                "baseline_tool_loop_switch_violations",
                f64::from(base.unsafe_switches.tool),
            ),
            (
                "agentic_tool_loop_switch_violations",
                f64::from(full.unsafe_switches.tool),
            ),
            (
                "baseline_context_portability_violations",
                f64::from(base.unsafe_switches.state),
            ),
            (
                "agentic_context_portability_violations",
                f64::from(full.unsafe_switches.state),
            ),
            ("agentic_drift_switches", f64::from(full.drift_switches)),
            ("agentic_idle_switches", f64::from(full.idle_switches)),
            ("baseline_frontier_turns", f64::from(base.frontier_turns)),
            ("agentic_frontier_turns", f64::from(full.frontier_turns)),
            ("idle_turns", f64::from(full.idle_turns)),
        ];
        for (name, value) in got {
            assert_eq!(
                value,
                number(name),
                "{} {} {name}",
                field("scenario"),
                field("seed")
            );
        }
        // Rounded as published; some lie on the edge between two.
        let rounded = [
            ("baseline_cost", base.cost, 6),
            ("agentic_cost", full.cost, 6),
            (
                "cost_reduction_pct",
                100.0 * (1.0 - full.cost / base.cost),
                2,
            ),
            ("baseline_mean_quality", base.mean_quality(), 4),
            ("agentic_mean_quality", full.mean_quality(), 4),
        ];
        for (name, value, places) in rounded {
            let half = 0.500_001 * 10_f64.powi(-places);
            let apart = (value - number(name)).abs();
            assert!(
                apart <= half,
                "{} {} {name}",
                field("scenario"),
                field("seed")
            );
        }
    }
    println!("ok, {} rows by scenario and seed", rows.len());
}
