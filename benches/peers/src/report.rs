//! What came out, and does it reach the goal?
//!
//! Collects one figure a row, system and round, and what the systems answered. A row's peer is the one
//! with the lowest median; its ratios are ours to that peer's, round by round, so that a machine which
//! was slow for a while was so for both. A goal holds by the median. Answers that differ are kept as
//! failures: whatever was measured then, it was not the same work.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::measure::median;
use crate::peers::OURS;

/// Whom a row is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Against {
    /// Whichever peer is best.
    Best,
    Only(&'static str),
}

/// What a row should reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// At most so much of the peer.
    Ratio(f64),
    /// At most so much by itself.
    Value(f64),
    /// It is reported.
    None,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) against: Against,
    pub(crate) goal: Goal,
}

impl Row {
    pub(crate) const fn best(name: &'static str, unit: &'static str, goal: Goal) -> Self {
        let against = Against::Best;
        Self {
            name,
            unit,
            against,
            goal,
        }
    }

    pub(crate) const fn only(
        name: &'static str,
        unit: &'static str,
        peer: &'static str,
        goal: Goal,
    ) -> Self {
        let against = Against::Only(peer);
        Self {
            name,
            unit,
            against,
            goal,
        }
    }
}

/// Figures and answers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By row, then by system: one figure a round.
    cells: BTreeMap<&'static str, BTreeMap<&'static str, Vec<f64>>>,
    /// By what was asked: who answered first, and what.
    answers: BTreeMap<String, (&'static str, u64)>,
    compared: usize,
    failures: Vec<String>,
    warnings: Vec<String>,
}

impl Table {
    /// The figure of a system in the next round. What could not be measured is left out.
    pub(crate) fn put(&mut self, row: &'static str, system: &'static str, value: f64) {
        if value.is_finite() {
            let row = self.cells.entry(row).or_default();
            row.entry(system).or_default().push(value);
        }
    }

    /// What a system answered to `question`: the same for all, in every round.
    pub(crate) fn answer(&mut self, question: &str, system: &'static str, sum: u64) {
        if let Some(text) = self.differs(question, system, sum) {
            self.failures.push(text);
        }
    }

    /// The same where a peer is known to answer wrongly: its difference is a warning.
    pub(crate) fn answer_in_doubt(&mut self, question: &str, system: &'static str, sum: u64) {
        if let Some(text) = self.differs(question, system, sum) {
            self.warn(text);
        }
    }

    fn differs(&mut self, question: &str, system: &'static str, sum: u64) -> Option<String> {
        let first = self.answers.entry(question.to_owned());
        let (other, theirs) = *first.or_insert((system, sum));
        self.compared += 1;
        (theirs != sum).then(|| format!("{question}: {system} answers {sum}, {other} {theirs}"))
    }

    /// Something that a reader of the figures must know; said once.
    pub(crate) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The median of a system's figures.
    pub(crate) fn value(&self, row: &str, system: &str) -> Option<f64> {
        Some(median(self.cells.get(row)?.get(system)?))
    }

    /// The rows that were measured; goals are checked when the workload has its full size.
    pub(crate) fn judge(&self, rows: impl Iterator<Item = Row>, full_size: bool) -> Vec<Judged> {
        let measured = rows.filter_map(|row| self.judge_row(&row, full_size));
        measured.collect()
    }

    fn judge_row(&self, row: &Row, full_size: bool) -> Option<Judged> {
        let cells = self.cells.get(row.name)?;
        let ours = cells.get(OURS)?;
        let peers = cells.iter().filter(|&(&system, _)| match row.against {
            Against::Best => system != OURS,
            Against::Only(peer) => system == peer,
        });
        let peer = peers.min_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
        let ratios = peer.map(|(_, theirs)| {
            let rounds = ours.iter().zip(theirs);
            rounds.map(|(a, b)| a / b).collect::<Vec<f64>>()
        });
        let mut judged = Judged {
            row: *row,
            value: median(ours),
            systems: cells.iter().map(|(&s, v)| (s, median(v))).collect(),
            peer: peer.map(|(&name, _)| name),
            ratio: ratios.as_deref().map(median),
            least: ratios.map(|r| r.into_iter().fold(f64::INFINITY, f64::min)),
            holds: None,
        };
        if full_size {
            judged.holds = judged.check();
        }
        Some(judged)
    }

    pub(crate) fn compared(&self) -> usize {
        self.compared
    }
}

/// A row with what came out.
#[derive(Debug)]
pub(crate) struct Judged {
    row: Row,
    value: f64,
    systems: BTreeMap<&'static str, f64>,
    peer: Option<&'static str>,
    ratio: Option<f64>,
    least: Option<f64>,
    holds: Option<bool>,
}

impl Judged {
    fn check(&self) -> Option<bool> {
        match self.row.goal {
            Goal::Ratio(most) => self.ratio.map(|ratio| ratio <= most),
            Goal::Value(most) => Some(self.value <= most),
            Goal::None => None,
        }
    }

    fn goal(&self) -> Option<String> {
        let unit = self.row.unit;
        match (self.row.goal, self.row.against) {
            (Goal::Ratio(most), Against::Best) => Some(format!("at most {most} of the best peer")),
            (Goal::Ratio(most), Against::Only(peer)) => Some(format!("at most {most} of {peer}")),
            (Goal::Value(most), _) => Some(format!("at most {most} {unit}")),
            (Goal::None, _) => None,
        }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "name": self.row.name,
            "value": rounded(self.value),
            "unit": self.row.unit,
        });
        let mut add = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                row[key] = value;
            }
        };
        add("peer", self.peer.map(Value::from));
        add("ratio", self.ratio.map(|r| json!(rounded(r))));
        add("ratioMin", self.least.map(|r| json!(rounded(r))));
        add("goal", self.goal().map(Value::from));
        add("holds", self.holds.map(Value::from));
        let systems = self.systems.iter();
        let systems: BTreeMap<_, _> = systems.map(|(s, &v)| (*s, rounded(v))).collect();
        add("systems", Some(json!(systems)));
        row
    }

    fn line(&self) -> String {
        let mut line = format!("{:<38}", self.row.name);
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), short);
        let ratio = self.ratio.map(|r| format!("{r:.3}"));
        let least = self.least.map(|r| format!("({r:.3})"));
        let _ = write!(
            line,
            "{:>9} {:<9}{:>8} {:<9}{:<14}",
            short(self.value),
            self.row.unit,
            ratio.as_deref().unwrap_or("-"),
            least.as_deref().unwrap_or(""),
            self.peer.unwrap_or("-"),
        );
        for system in SHOWN {
            let _ = write!(line, "{:>10}", cell(self.systems.get(system).copied()));
        }
        let verdict = match self.holds {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        };
        let _ = write!(line, "  {verdict:<7}{}", self.goal().unwrap_or_default());
        line.trim_end().to_owned()
    }
}

const SHOWN: [&str; 4] = [
    crate::peers::SMG,
    crate::peers::RADIX,
    crate::peers::CRTC,
    crate::peers::DYNAMO,
];

/// The rows as a table for people.
pub(crate) fn table(rows: &[Judged]) -> String {
    let mut text = format!(
        "{:<38}{:>9} {:<9}{:>8} {:<9}{:<14}",
        "row", OURS, "unit", "ratio", "(least)", "to peer"
    );
    for system in SHOWN {
        let _ = write!(text, "{:>10}", system.replace("dynamo-", "d-"));
    }
    text.push_str("  goal\n");
    for row in rows {
        text.push_str(&row.line());
        text.push('\n');
    }
    text
}

/// The rows as JSON.
pub(crate) fn json(rows: &[Judged], table: &Table) -> Value {
    let rows: Vec<Value> = rows.iter().map(Judged::json).collect();
    json!({ "rows": rows, "failures": table.failures(), "warnings": table.warnings() })
}

fn rounded(value: f64) -> f64 {
    let digits = 3 - value.abs().max(1e-9).log10().floor() as i32;
    let scale = 10_f64.powi(digits.clamp(0, 9));
    (value * scale).round() / scale
}

fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{RADIX, SMG};

    const ROW: Row = Row::best("row", "ns", Goal::Ratio(0.5));

    fn judged(ours: &[f64], smg: &[f64], radix: &[f64]) -> Judged {
        let mut table = Table::default();
        for (system, values) in [(OURS, ours), (SMG, smg), (RADIX, radix)] {
            values
                .iter()
                .for_each(|&value| table.put("row", system, value));
        }
        let rows = table.judge(std::iter::once(ROW), true);
        rows.into_iter().next().expect("the row was measured")
    }

    #[test]
    fn ratios_are_to_the_best_peer_round_by_round() {
        let row = judged(
            &[10.0, 40.0, 10.0],
            &[20.0, 80.0, 40.0],
            &[90.0, 90.0, 90.0],
        );
        assert_eq!(row.peer, Some(SMG));
        assert_eq!((row.ratio, row.least), (Some(0.5), Some(0.25)));
        assert_eq!((row.value, row.holds), (10.0, Some(true)));
        assert_eq!(row.goal().as_deref(), Some("at most 0.5 of the best peer"));
        assert_eq!(judged(&[11.0], &[20.0], &[90.0]).holds, Some(false));
    }

    #[test]
    fn a_peer_that_could_not_be_measured_is_not_compared() {
        let row = judged(&[10.0], &[f64::NAN], &[40.0]);
        assert_eq!((row.peer, row.ratio), (Some(RADIX), Some(0.25)));
    }

    #[test]
    fn different_answers_are_failures_and_doubtful_ones_warnings() {
        let mut table = Table::default();
        table.answer("sum", SMG, 5);
        table.answer("sum", OURS, 5);
        table.answer_in_doubt("sum", RADIX, 7);
        assert!(table.failures().is_empty());
        assert_eq!(table.warnings(), ["sum: dynamo-radix answers 7, smg 5"]);
        table.answer("sum", OURS, 6);
        assert_eq!(table.failures(), ["sum: warmpath answers 6, smg 5"]);
    }

    #[test]
    fn figures_keep_four_digits() {
        let figures = [0.123_456, 12.345_6, 98_765.4, 0.0].map(rounded);
        assert_eq!(figures, [0.1235, 12.35, 98_765.0, 0.0]);
    }
}
