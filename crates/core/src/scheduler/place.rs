//! Where a turn goes among the workers of its group: overlap, load and cost, then the choice.
//!
//! Costs O(blocks + workers of the group), and allocates nothing once its lists have grown.

use std::num::NonZeroU32;

use crate::block::{self, Chain, Seed, TokenRate};
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, ReservationId, TargetId, WorkerId};
use crate::load::{LoadLedger, Shared};
use crate::prefix::{self, Overlap, PrefixIndex};
use crate::receipt::{
    AdmissionNote, Candidate, Ending, MAX_CANDIDATES, PromptNote, Receipt, Reported, Trust,
    Volatile,
};
use crate::score::kv::{KvConfig, KvCost, KvLoad, KvRow, KvTurn, Prefill, Role};
use crate::score::softmax::{self, Temperature};
use crate::session::SessionName;

use super::Scheduler;
use super::reservation::{Reservation, State};
use super::topology::Topology;
use super::turn::{Placement, Prompt, Segment, SegmentKind, Settled, Turn};

/// Lists that a decision fills and the next one fills again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    overlap: Overlap,
    shared: Shared,
    rows: Vec<Candidate>,
    costs: Vec<f64>,
    weights: Vec<f64>,
    identity: Chain,
    pub(super) lengths: Vec<u32>,
}

impl Scratch {
    /// The rows of the last score.
    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.rows
    }

    /// The blocks that identify an unnamed turn: its chain, without what changes with each
    /// conversation. A named turn is identified by its name, so its chain is as good.
    pub(super) fn identity_chain<'a>(&'a mut self, turn: &Turn<'_>, chain: &'a [u64]) -> &'a [u64] {
        let Prompt::Text { bytes, segments } = turn.prompt else {
            return chain;
        };
        let is_volatile = |s: &Segment| s.kind == SegmentKind::Volatile;
        if turn.session.is_some() || !segments.iter().any(is_volatile) {
            return chain;
        }
        let mut stable = Vec::with_capacity(bytes.len());
        self.lengths.clear();
        let mut rest = bytes;
        for segment in segments {
            let (text, tail) = rest.split_at(rest.len().min(segment.bytes as usize));
            rest = tail;
            if !is_volatile(segment) {
                stable.extend_from_slice(text);
                self.lengths.push(segment.bytes);
            }
        }
        let rate = TokenRate::default();
        block::hash_text(
            &stable,
            &self.lengths,
            rate,
            Seed::default(),
            &mut self.identity,
        );
        self.identity.hashes()
    }
}

/// Which workers may be considered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// Only this one.
    pin: Option<WorkerId>,
    /// Not these.
    excluded: &'a [WorkerId],
}

impl Wanted<'_> {
    /// Only `pin`, or any.
    pub(super) fn pinned(pin: Option<WorkerId>) -> Self {
        Self { pin, excluded: &[] }
    }

    fn admits(&self, worker: WorkerId) -> bool {
        self.pin.is_none_or(|pin| pin == worker) && !self.excluded.contains(&worker)
    }
}

/// The rooms that a score reads.
struct Scorer<'a> {
    topology: &'a Topology,
    prefix: &'a PrefixIndex,
    load: &'a LoadLedger,
    config: KvConfig,
}

impl Scorer<'_> {
    /// Replaces `scratch.rows` by the workers of `group` that may take the turn.
    fn score(&self, group: GroupId, chain: &Chain, wanted: &Wanted<'_>, scratch: &mut Scratch) {
        self.prefix.find(chain, &mut scratch.overlap);
        self.load.shared(chain, &mut scratch.shared);
        scratch.rows.clear();
        for (id, worker) in self.topology.up(group) {
            if !wanted.admits(id) {
                continue;
            }
            let load = self.load.load(id).unwrap_or_default();
            scratch.rows.push(Candidate {
                worker: id,
                cost: 0.0,
                overlap_tokens: scratch.overlap.tokens_at(worker.place),
                prefill_tokens: load.prefill_tokens,
                active_tokens: load.block_tokens,
                additional_tokens: additional(chain, scratch.shared.tokens_at(id)),
                requests: load.requests,
            });
        }
        let unit = self.topology.groups[group.index()].block_tokens;
        let cost = kv_cost(self.config, chain.tokens(), unit, &scratch.rows);
        for row in &mut scratch.rows {
            row.cost = cost.of(&kv_row(row, unit), 0.0);
        }
    }
}

/// What a turn adds to a worker that holds `shared` tokens of its blocks already: the rest of the
/// prompt, with the tail that is no block.
fn additional(chain: &Chain, shared: u32) -> u32 {
    chain.tokens().saturating_sub(shared)
}

/// The cost as `rows` set it up.
fn kv_cost(
    config: KvConfig,
    prompt_tokens: u32,
    unit: NonZeroU32,
    rows: &[Candidate],
) -> KvCost<'static> {
    let least = rows.iter().map(|row| row.prefill_tokens).min();
    let turn = KvTurn {
        block_tokens: unit.get(),
        prompt_tokens,
        role: Role::Aggregated,
        prefill: Prefill::Tracked,
        shared: &[],
    };
    KvCost::new(config, turn, least.unwrap_or(0) as f64)
}

/// A candidate in blocks.
fn kv_row(row: &Candidate, unit: NonZeroU32) -> KvRow {
    let blocks = |tokens: f64| tokens / f64::from(unit.get());
    KvRow {
        device: blocks(f64::from(row.overlap_tokens)),
        load: Some(KvLoad {
            prefill_tokens: row.prefill_tokens as f64,
            decode_blocks: blocks(row.active_tokens as f64),
            additional_blocks: blocks(f64::from(row.additional_tokens)),
            requests: f64::from(row.requests),
        }),
        ..KvRow::default()
    }
}

/// Computes the costs of a receipt again, from the receipt alone.
#[must_use]
pub fn recompute(receipt: &Receipt) -> Vec<f64> {
    let unit = NonZeroU32::new(receipt.prompt.unit_tokens).unwrap_or(NonZeroU32::MIN);
    let rows = &receipt.candidates;
    let cost = kv_cost(receipt.weights, receipt.prompt.tokens, unit, rows);
    rows.iter()
        .map(|row| cost.of(&kv_row(row, unit), 0.0))
        .collect()
}

/// The first segment that changes with each conversation, and the tokens before it.
pub(super) fn first_volatile(segments: &[Segment], rate: TokenRate) -> Option<Volatile> {
    let is_volatile = |s: &Segment| s.kind == SegmentKind::Volatile;
    let index = segments.iter().position(is_volatile)?;
    let before = segments[..index].iter().map(|s| u64::from(s.bytes)).sum();
    Some(Volatile {
        segment: u32::try_from(index).unwrap_or(u32::MAX),
        at_token: rate.tokens(before),
    })
}

/// What was picked, and by which draw.
struct Picked {
    index: usize,
    draw: Option<f64>,
}

impl Scheduler {
    /// Scores the workers of `group`; the rows are in the scratch.
    pub(super) fn score(&mut self, group: GroupId, chain: &Chain, wanted: &Wanted<'_>) {
        let scorer = Scorer {
            topology: &self.topology,
            prefix: &self.prefix,
            load: &self.load,
            config: self.config.score,
        };
        scorer.score(group, chain, wanted, &mut self.scratch);
    }

    /// Sends a turn that admission has let go to a worker: the one where admission keeps it, else
    /// the cheapest. The decision counts at once, as load and as predicted coverage.
    ///
    /// # Errors
    /// `NO_WORKER` when nobody may take it. The reservation then still stands.
    pub(super) fn place(&mut self, id: ReservationId, kept: Option<WorkerId>) -> Result<Placement> {
        let Some(mut turn) = self.reservations.remove(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let wanted = Wanted {
            pin: turn.pin,
            excluded: &turn.excluded,
        };
        self.score(turn.group, &turn.chain, &wanted);
        let picked = self.pick(kept);
        let placed = match picked {
            Some(picked) => Ok(self.settle_on(id, &mut turn, &picked, kept)),
            None => Err(Error::no_worker(
                "no worker of the turn's target can take it",
            )),
        };
        self.reservations.insert(id, turn);
        placed
    }

    /// Moves a turn that its worker has failed, before the first byte of an answer, to the next
    /// candidate: another worker of its target, else another target that the client asked for.
    ///
    /// # Errors
    /// `OWNER_UNAVAILABLE` when only that worker may take it, `NO_WORKER` when nobody else can,
    /// `UNKNOWN_ID` when the turn has ended or is held. The reservation still stands; cancel it.
    pub fn reroute(
        &mut self,
        now: Micros,
        id: ReservationId,
        settled: &mut Vec<Settled>,
    ) -> Result<Placement> {
        self.advance(now, settled);
        let Some(turn) = self.reservations.get_mut(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let State::Running { worker, receipt } = turn.state else {
            return Err(Error::unknown_id("the turn is held"));
        };
        if turn.pin.is_some() {
            return Err(Error::owner_unavailable(
                "only the worker that failed may take the turn",
            ));
        }
        if !turn.excluded.contains(&worker) {
            turn.excluded.push(worker);
        }
        self.load.end(id);
        if let Some(receipt) = self.receipts.get_mut(receipt) {
            receipt.ending = Ending::Rerouted;
        }
        self.counters.rerouted += 1;
        match self.place(id, None) {
            Ok(placement) => Ok(placement),
            Err(error) => self.detour(id, settled).ok_or(error),
        }
    }

    /// The other targets that the client asked for, in order; the first whose admission lets the
    /// turn go at once and that has a worker takes it.
    fn detour(&mut self, id: ReservationId, settled: &mut Vec<Settled>) -> Option<Placement> {
        let alternatives = std::mem::take(&mut self.reservations.get_mut(id)?.alternatives);
        alternatives
            .into_iter()
            .find_map(|target| self.detour_to(id, target, settled))
    }

    fn detour_to(
        &mut self,
        id: ReservationId,
        target: TargetId,
        settled: &mut Vec<Settled>,
    ) -> Option<Placement> {
        let group = self.topology.target(target).ok()?.group;
        let turn = self.reservations.get_mut(id)?;
        let previous = turn.group;
        (turn.target, turn.group, turn.notes.is_detour) = (target, group, true);
        let mut releases = Vec::new();
        if group != previous {
            if turn.program.is_some() {
                self.admission[previous.index()].cancel(self.now, id, &mut releases);
                self.release(previous.index(), std::mem::take(&mut releases), settled);
            }
            self.begin_admission(id, &mut releases);
            let own = releases.iter().position(|release| release.ticket == id)?;
            releases.remove(own);
        }
        let placed = self.place(id, None).ok();
        self.release(group.index(), releases, settled);
        placed
    }

    /// Chooses among the rows of the last score.
    fn pick(&mut self, kept: Option<WorkerId>) -> Option<Picked> {
        let Scratch {
            rows,
            costs,
            weights,
            ..
        } = &mut self.scratch;
        if let Some(kept) = kept
            && let Some(index) = rows.iter().position(|row| row.worker == kept)
        {
            return Some(Picked { index, draw: None });
        }
        match Temperature::new(self.config.temperature) {
            Err(_) => {
                let index = self.ties.cheapest(rows.iter().map(|row| row.cost))?;
                Some(Picked { index, draw: None })
            }
            Ok(temperature) => {
                costs.clear();
                costs.extend(rows.iter().map(|row| row.cost));
                softmax::probabilities(costs, temperature, weights);
                let draw = self.ties.unit();
                let index = softmax::pick(weights, draw)?;
                Some(Picked {
                    index,
                    draw: Some(draw),
                })
            }
        }
    }

    fn settle_on(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        picked: &Picked,
        kept: Option<WorkerId>,
    ) -> Placement {
        let row = self.scratch.rows[picked.index];
        let worker = row.worker;
        let cached = row.overlap_tokens;
        let trust = self.trust(worker, &turn.chain, cached);
        let receipt = self.write_receipt(id, turn, picked, kept, trust);
        let uncached = turn.chain.tokens().saturating_sub(cached);
        self.load.begin(id, worker, &turn.chain, uncached);
        if let Ok(known) = self.topology.worker(worker) {
            let place = known.place;
            self.prefix.coverage(place, &turn.chain, &mut turn.coverage);
            self.prefix.predict(self.now, place, &turn.chain);
        }
        if turn.program.is_some() {
            self.admission[turn.group.index()].sent(self.now, id, worker);
        }
        turn.state = State::Running { worker, receipt };
        Placement {
            target: turn.target,
            worker,
            predicted_cached_tokens: cached,
            trust,
            receipt,
        }
    }

    /// How good the evidence behind the deepest covered block is.
    fn trust(&self, worker: WorkerId, chain: &Chain, cached: u32) -> Trust {
        let blocks = chain.ends().partition_point(|&end| end <= cached);
        let deepest = blocks.checked_sub(1).map(|last| chain.hashes()[last]);
        let place = self.topology.worker(worker).map(|worker| worker.place);
        let evidence = match (deepest, place) {
            (Some(hash), Ok(place)) => self.prefix.trust(place, hash),
            _ => None,
        };
        match evidence {
            Some(prefix::Trust::Exact) => Trust::Exact,
            Some(prefix::Trust::Predicted) => Trust::Predicted,
            None => Trust::None,
        }
    }

    fn write_receipt(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        picked: &Picked,
        kept: Option<WorkerId>,
        trust: Trust,
    ) -> u64 {
        let rows = &self.scratch.rows;
        let unit = self.topology.groups[turn.group.index()].block_tokens;
        let receipt = self.receipts.push();
        receipt.chosen = keep_cheapest(rows, picked.index, &mut receipt.candidates);
        receipt.eligible = rows.len();
        receipt.at = self.now;
        receipt.reservation = id;
        receipt.session = Some(turn.session);
        if let Some(session) = self.sessions.get(turn.session) {
            write_name(session.name(), &mut receipt.session_name);
        }
        receipt.program = turn.program.map(|program| program.0);
        receipt.target = turn.target;
        receipt.is_detour = turn.notes.is_detour;
        receipt.lock = turn.notes.lock;
        receipt.admission = admission_note(turn.waited(self.now), kept, rows[picked.index].worker);
        receipt.weights = self.config.score;
        receipt.prompt = PromptNote {
            tokens: turn.chain.tokens(),
            blocks: u32::try_from(turn.chain.len()).unwrap_or(u32::MAX),
            unit_tokens: unit.get(),
            trust,
            volatile: turn.notes.volatile,
            draw: picked.draw,
            temperature: self.config.temperature,
        };
        receipt.id
    }

    /// Holds the engine's count of cached tokens against what was predicted.
    pub(super) fn correct_prediction(
        &mut self,
        turn: &Reservation,
        worker: WorkerId,
        reported: &Reported,
    ) {
        let Ok(known) = self.topology.worker(worker) else {
            return;
        };
        let Some(cached) = in_estimated_tokens(turn, reported) else {
            return;
        };
        if turn.text_bytes > 0 && cached.saturating_add(slack(turn)) >= turn.coverage.tokens() {
            return;
        }
        self.prefix
            .correct(known.place, &turn.chain, cached, &turn.coverage);
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

/// Copies the rows, or the cheapest of them with the chosen one; returns where the chosen one is.
fn keep_cheapest(rows: &[Candidate], chosen: usize, kept: &mut Vec<Candidate>) -> usize {
    kept.extend_from_slice(rows);
    if rows.len() <= MAX_CANDIDATES {
        return chosen;
    }
    let worker = rows[chosen].worker;
    kept.swap(0, chosen);
    kept[1..].select_nth_unstable_by(MAX_CANDIDATES - 2, |a, b| {
        a.cost.total_cmp(&b.cost).then(a.worker.cmp(&b.worker))
    });
    kept.truncate(MAX_CANDIDATES);
    kept.sort_unstable_by_key(|row| row.worker);
    kept.iter()
        .position(|row| row.worker == worker)
        .unwrap_or_default()
}

fn admission_note(
    waited: Option<Micros>,
    kept: Option<WorkerId>,
    worker: WorkerId,
) -> AdmissionNote {
    match (waited, kept.filter(|&kept| kept == worker)) {
        (None, None) => AdmissionNote::Free,
        (None, Some(worker)) => AdmissionNote::Kept(worker),
        (Some(held), None) => AdmissionNote::Held(held),
        (Some(held), Some(worker)) => AdmissionNote::HeldFor(held, worker),
    }
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
