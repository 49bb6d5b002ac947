//! What a decision leaves behind: its receipt, and what its report teaches about the prediction.

use crate::id::{Micros, ReservationId, WorkerId};
use crate::receipt::{
    AdmissionNote, Candidate, Evidence, MAX_CANDIDATES, PromptNote, Reported, Trust,
};
use crate::session::{Session, SessionName};

use super::place::{Picked, PickedBy, Placer};
use super::reservation::Reservation;
use super::scoring::{Form, Scratch};

impl Placer<'_> {
    /// Writes down what was picked and from what; returns the receipt's number.
    pub(super) fn write_receipt(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        picked: &Picked,
        (trust, evidence): (Trust, Evidence),
    ) -> u64 {
        let weights = self.weights(turn.route.group);
        let Scratch { rows, costs, .. } = &mut *self.scratch;
        let unit = self.topology.groups[turn.route.group.index()].block_tokens;
        let receipt = self.receipts.push();
        receipt.chosen = keep_cheapest(rows, picked.index, costs, &mut receipt.candidates);
        receipt.eligible = rows.len();
        receipt.at = self.now;
        receipt.reservation = id;
        if let Some(session) = self.sessions.get(turn.session) {
            write_name(session.name(), &mut receipt.session_name);
        }
        receipt.program = turn.program.map(|program| program.0);
        receipt.target = turn.route.target;
        receipt.is_detour = turn.route.is_detour;
        receipt.is_moved = turn.route.is_moved;
        receipt.lock = turn.route.lock;
        receipt.model = turn.model.clone();
        receipt.admission =
            admission_note(turn.waited(self.now), picked.by, rows[picked.index].worker);
        receipt.hold = turn.wait.hold;
        receipt.followed = turn.wait.followed;
        receipt.refusals.extend_from_slice(&turn.wait.refusals);
        receipt.weights = weights;
        receipt.prompt = PromptNote {
            is_tokens: turn.form == Form::Tokens,
            origin: turn.origin,
            tokens: turn.chain.tokens(),
            exact_tokens: turn.exact_tokens(),
            blocks: u32::try_from(turn.chain.len()).unwrap_or(u32::MAX),
            unit_tokens: unit.get(),
            trust,
            evidence,
            volatile: turn.volatile,
            draw: picked.draw,
            temperature: self.config.temperature,
            patience: self.config.patience,
        };
        receipt.id
    }

    /// Holds the engine's count of cached tokens against what was predicted.
    pub(super) fn correct_prediction(&mut self, turn: &Reservation, reported: &Reported) {
        let Some(believed) = turn.believed else {
            return;
        };
        let Some(cached) = in_estimated_tokens(turn, reported) else {
            return;
        };
        if turn.text_bytes > 0 && cached.saturating_add(slack(turn)) >= turn.coverage.tokens() {
            return;
        }
        self.prefix
            .correct(believed.place, &turn.chain, cached, &turn.coverage);
    }
}

/// The engine's cached tokens as positions in the turn's chain, whose lengths are estimates when the
/// prompt came as text: scaled by what the whole prompt turned out to be. `None` when that is unknown.
fn in_estimated_tokens(turn: &Reservation, reported: &Reported) -> Option<u32> {
    let cached = reported.cached_tokens?;
    if turn.text_bytes == 0 {
        return Some(cached);
    }
    let real = u64::from(reported.prompt_tokens.filter(|&n| n > 0)?);
    let scaled = u64::from(cached) * u64::from(turn.chain.tokens()) / real;
    Some(u32::try_from(scaled).unwrap_or(u32::MAX))
}

/// How far an estimated position may be off before a shortfall means something: prose and code of
/// one prompt differ by about an eighth in tokens per byte.
fn slack(turn: &Reservation) -> u32 {
    (turn.coverage.tokens() / 8).max(512)
}

/// Copies the rows, or the cheapest of them with the chosen one; returns where the chosen one is. Rows
/// and what is kept of them ascend by worker. O(rows), most of it one pass over their costs.
fn keep_cheapest(
    rows: &[Candidate],
    chosen: usize,
    costs: &mut Vec<f64>,
    kept: &mut Vec<Candidate>,
) -> usize {
    if rows.len() <= MAX_CANDIDATES {
        kept.extend_from_slice(rows);
        return chosen;
    }
    debug_assert!(rows.is_sorted_by_key(|row| row.worker));
    let others = rows.iter().enumerate().filter(|&(i, _)| i != chosen);
    costs.clear();
    costs.extend(others.map(|(_, row)| row.cost));
    // One place is the chosen one's.
    let most = MAX_CANDIDATES - 1;
    let (below, &mut limit, _) = costs.select_nth_unstable_by(most - 1, f64::total_cmp);
    let cheaper = below.iter().filter(|cost| cost.total_cmp(&limit).is_lt());
    let mut equals = most - cheaper.count();
    let mut place = 0;
    for (i, row) in rows.iter().enumerate() {
        let order = row.cost.total_cmp(&limit);
        if i == chosen {
            place = kept.len();
        } else if order.is_gt() || (order.is_eq() && equals == 0) {
            continue;
        } else if order.is_eq() {
            equals -= 1;
        }
        kept.push(*row);
    }
    place
}

fn admission_note(waited: Option<Micros>, by: PickedBy, worker: WorkerId) -> AdmissionNote {
    match (waited, by) {
        (Some(held), _) => AdmissionNote::Held(held),
        (None, PickedBy::Home) => AdmissionNote::Kept(worker),
        (None, PickedBy::Room) => AdmissionNote::Placed(worker),
        (None, PickedBy::Cost) => AdmissionNote::Free,
    }
}

/// What a session is called.
pub(super) fn called(session: &Session) -> String {
    let mut name = String::new();
    write_name(session.name(), &mut name);
    name
}

fn write_name(name: &SessionName, out: &mut String) {
    match name {
        SessionName::Named(name) => out.push_str(name),
        SessionName::Derived(hash) => out.push_str(&derived_name(*hash)),
    }
}

/// What an unnamed session is called.
#[must_use]
pub fn derived_name(hash: u64) -> String {
    format!("prompt-{hash:016x}")
}

/// What [`derived_name`] made a name of; `None` for a name that it did not make.
#[must_use]
pub fn derived_hash(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("prompt-")?, 16).ok()
}
