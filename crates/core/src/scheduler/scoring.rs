//! What a turn would cost on each worker of a group: overlap, load, then the cost of each row.
//!
//! O(blocks + workers of the group); allocates nothing once the lists have grown.

use std::num::NonZeroU32;

use crate::block::{self, Chain, Seed, TokenRate};
use crate::id::{GroupId, PlaceId, WorkerId};
use crate::load::{LoadLedger, Shared};
use crate::prefix::{Overlap, PrefixIndex};
use crate::receipt::{Candidate, Receipt, Volatile};
use crate::score::kv::{KvConfig, KvCost, KvLoad, KvRow, KvTurn, Prefill, Role};
use crate::score::pace::{Pace, Paces};
use crate::score::patience::relief;

use super::departures::Departures;
use super::feed::{Credit, Source};
use super::stays::Draw;
use super::topology::{Topology, Worker};
use super::turn::{Prompt, Segment, SegmentKind, Turn};

/// Lists that a decision fills and the next one fills again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) overlap: Overlap,
    /// Of the tokens that a prompt of text is known to begin with.
    pub(super) begun: Overlap,
    pub(super) shared: Shared,
    /// The worker that the turn of the last score is drawn to.
    pub(super) draw: Option<Draw>,
    pub(super) rows: Vec<Candidate>,
    pub(super) costs: Vec<f64>,
    pub(super) weights: Vec<f64>,
    identity: Chain,
    pub(super) lengths: Vec<u32>,
    /// All segments of a prompt of which some came from elsewhere.
    pub(super) segments: Vec<Segment>,
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
    /// Also this one, though its sessions leave.
    bound: Option<WorkerId>,
    /// What the prompt came as.
    form: Form,
    /// What is known better than by the index.
    account: Option<Account>,
    /// What a prompt of text begins with, in tokens.
    begun: Option<&'a Chain>,
}

/// What a prompt came as: engines' events speak of tokens only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// Tokens, or hashes of them.
    #[default]
    Tokens,
    /// Text.
    Text,
}

/// What admission's own account says of the prompt in the workers' caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Where the session's context is.
    pub(super) home: WorkerId,
    /// Tokens of the prompt that it has there.
    pub(super) kept: u32,
    /// Tokens of the prompt behind those that its host tier has.
    pub(super) hosted: u32,
    /// Tokens of the prompt that other sessions need too, which the index is right about.
    pub(super) shared: u32,
}

impl Account {
    /// Tokens of the prompt that `worker` has, of which the index predicts `predicted`.
    fn correct(self, worker: WorkerId, predicted: u32) -> u32 {
        let shared = predicted.min(self.shared);
        match worker == self.home {
            true => self.kept.max(shared),
            false => shared,
        }
    }

    /// Tokens that `worker` has in its host tier behind the `overlap` ones.
    fn hosted(self, worker: WorkerId, overlap: u32) -> u32 {
        match worker == self.home {
            true => (self.kept + self.hosted).saturating_sub(overlap),
            false => 0,
        }
    }
}

impl<'a> Wanted<'a> {
    /// Only `pin`, or any but `excluded`.
    pub(super) fn of(pin: Option<WorkerId>, excluded: &'a [WorkerId], form: Form) -> Self {
        Self {
            pin,
            excluded,
            bound: None,
            form,
            account: None,
            begun: None,
        }
    }

    /// The same, with what admission knows.
    pub(super) fn accounted(self, account: Option<Account>) -> Self {
        Self { account, ..self }
    }

    /// The same, of a prompt of text that begins with these tokens.
    pub(super) fn begun(self, begun: Option<&'a Chain>) -> Self {
        Self { begun, ..self }
    }

    /// Whether something of the prompt is known in the words of engines.
    fn is_told(&self) -> bool {
        self.form == Form::Tokens || self.begun.is_some()
    }

    /// The same, where the session may stay on this worker though others leave it.
    pub(super) fn bound_to(self, bound: Option<WorkerId>) -> Self {
        Self { bound, ..self }
    }

    /// Only `pin`, or any.
    pub(super) fn pinned(pin: Option<WorkerId>, form: Form) -> Self {
        Self::of(pin, &[], form)
    }

    fn admits(&self, worker: WorkerId) -> bool {
        self.pin.is_none_or(|pin| pin == worker) && !self.excluded.contains(&worker)
    }

    /// Whether it may be taken although the sessions of a worker leave.
    fn holds_on_to(&self, worker: WorkerId) -> bool {
        self.pin == Some(worker) || self.bound == Some(worker)
    }
}

/// The rooms that a score reads.
pub(super) struct Scorer<'a> {
    pub(super) topology: &'a Topology,
    pub(super) prefix: &'a PrefixIndex,
    pub(super) load: &'a LoadLedger,
    pub(super) departures: &'a Departures,
    pub(super) learnt: &'a Paces,
    pub(super) config: KvConfig,
    pub(super) patience: f64,
}

impl Scorer<'_> {
    /// Replaces `scratch.rows` by the workers of `group` that may take the turn.
    pub(super) fn score(
        &self,
        group: GroupId,
        chain: &Chain,
        wanted: &Wanted<'_>,
        scratch: &mut Scratch,
    ) {
        self.prefix.find(chain, &mut scratch.overlap);
        if let Some(begun) = wanted.begun {
            self.prefix.find(begun, &mut scratch.begun);
        }
        self.load.shared(chain, &mut scratch.shared);
        scratch.rows.clear();
        let known = &self.topology.groups[group.index()];
        let unit = known.block_tokens;
        let shared = known.pool.as_ref().filter(|_| wanted.form == Form::Tokens);
        let pool = shared.and_then(|shared| shared.place());
        let may_leave = self.avoids_leaving(group, wanted);
        for (id, worker) in self.topology.up(group) {
            let leaves = may_leave && self.departures.has(id) && !wanted.holds_on_to(id);
            if leaves || !wanted.admits(id) {
                continue;
            }
            let load = self.load.load(id).unwrap_or_default();
            let others = self.load.untracked(id);
            let credit = self.credit(worker, chain, wanted, scratch);
            let account = wanted.account.filter(|_| !worker.is_told_of(wanted));
            let overlap = account.map_or(credit.device, |a| a.correct(id, credit.device));
            let hosted = account.map_or(credit.host, |a| a.hosted(id, overlap));
            let own = overlap + hosted + credit.disk;
            scratch.rows.push(Candidate {
                worker: id,
                cost: 0.0,
                overlap_tokens: overlap,
                host_tokens: hosted,
                disk_tokens: credit.disk,
                pool_tokens: pool.map_or(0, |pool| self.behind(pool, chain, unit, own)),
                rank: credit.rank,
                prefill_tokens: load.prefill_tokens,
                active_tokens: load.block_tokens + others.tokens,
                additional_tokens: additional(chain, scratch.shared.tokens_at(id)),
                requests: load.requests.saturating_add(others.requests),
                affinity_tokens: 0,
                relief_tokens: 0,
                pace: self.learnt.of(id),
            });
        }
        if self.patience > 0.0 {
            self.relieve(chain.tokens(), &mut scratch.rows);
        }
        let cost = kv_cost(self.config, chain.tokens(), unit, &scratch.rows);
        for row in &mut scratch.rows {
            row.cost = own_cost(&cost, &self.config, row, unit);
        }
    }

    /// Whether somebody may take the turn whose sessions do not leave.
    fn avoids_leaving(&self, group: GroupId, wanted: &Wanted<'_>) -> bool {
        let stays = |id| wanted.admits(id) && !self.departures.has(id);
        !self.departures.is_empty() && self.topology.up(group).any(|(id, _)| stays(id))
    }

    /// What of the prompts that wait at each worker does not count, since this one is long and cold, and has
    /// room nowhere beside what sessions need. O(workers of the group).
    fn relieve(&self, prompt_tokens: u32, rows: &mut [Candidate]) {
        let most = rows.iter().map(Candidate::cached_tokens).max();
        let uncached = prompt_tokens.saturating_sub(most.unwrap_or(0));
        let has_room = |row: &Candidate| {
            let Ok(worker) = self.topology.worker(row.worker) else {
                return true;
            };
            let needed = self.prefix.working_set(worker.place);
            let after = needed.saturating_add(u64::from(uncached));
            worker
                .capacity_tokens
                .is_none_or(|capacity| after <= capacity)
        };
        let nobody_waits = rows.iter().all(|row| row.prefill_tokens == 0);
        if uncached == 0 || nobody_waits || rows.iter().any(has_room) {
            return;
        }
        for row in rows.iter_mut().filter(|row| row.prefill_tokens > 0) {
            let worker = self.topology.worker(row.worker);
            if let Ok(Some(capacity)) = worker.map(|worker| worker.capacity_tokens) {
                let waiting = row.prefill_tokens;
                row.relief_tokens = relief(self.patience, waiting, uncached, capacity);
            }
        }
    }

    /// Tokens that a shared store has behind the `own` ones that the worker has itself. O(runs on the way).
    fn behind(&self, pool: PlaceId, chain: &Chain, unit: NonZeroU32, own: u32) -> u32 {
        // An engine computes the last token of a prompt whatever there is.
        let most = chain.tokens().saturating_sub(1) / unit;
        let reach = self.prefix.reach(pool, chain, own / unit).min(most);
        chain.tokens_of(reach as usize).saturating_sub(own)
    }

    /// What the decision may count at the worker. O(1) without a feed, else O(ranks × runs on the way).
    fn credit(
        &self,
        worker: &Worker,
        chain: &Chain,
        wanted: &Wanted<'_>,
        scratch: &Scratch,
    ) -> Credit {
        let own = || Credit {
            device: self.prefix.credit(worker.place, chain, &scratch.overlap),
            ..Credit::default()
        };
        let Some(feed) = &worker.feed else {
            return own();
        };
        if feed.is_suspended() {
            return Credit::default();
        }
        let told = match wanted.form {
            Form::Tokens => Some((chain, &scratch.overlap)),
            Form::Text => wanted.begun.map(|begun| (begun, &scratch.begun)),
        };
        match (feed.source(), told) {
            (Source::Nobody, _) => Credit::default(),
            (Source::Router, _) | (_, None) => own(),
            (Source::Engine, Some((chain, overlap))) => feed.credit(self.prefix, chain, overlap),
            (Source::Either, Some((chain, overlap))) => {
                let (told, own) = (feed.credit(self.prefix, chain, overlap), own());
                match told.tokens() >= own.tokens() {
                    true => told,
                    false => own,
                }
            }
        }
    }
}

impl Worker {
    /// Whether of such a prompt what its engine tells counts, or nothing at all.
    fn is_told_of(&self, wanted: &Wanted<'_>) -> bool {
        self.feed.as_ref().is_some_and(|feed| {
            feed.is_suspended() || (wanted.is_told() && feed.source() != Source::Router)
        })
    }
}

impl Form {
    /// What this prompt came as.
    pub(super) fn of(prompt: &Prompt<'_>) -> Self {
        match prompt {
            Prompt::Text { .. } | Prompt::Recalled { .. } => Self::Text,
            Prompt::Tokens(_) | Prompt::Hashes { .. } => Self::Tokens,
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
        host: blocks(f64::from(row.host_tokens)),
        disk: blocks(f64::from(row.disk_tokens)),
        external: 0.0,
        pool: blocks(f64::from(row.pool_tokens)),
        load: Some(KvLoad {
            prefill_tokens: row.prefill_tokens as f64,
            decode_blocks: blocks(row.active_tokens as f64),
            additional_blocks: blocks(f64::from(row.additional_tokens)),
            requests: f64::from(row.requests),
        }),
    }
}

/// Computes the costs of a receipt again, from the receipt alone.
#[must_use]
pub fn recompute(receipt: &Receipt) -> Vec<f64> {
    let unit = NonZeroU32::new(receipt.prompt.unit_tokens).unwrap_or(NonZeroU32::MIN);
    let rows = &receipt.candidates;
    let cost = kv_cost(receipt.weights, receipt.prompt.tokens, unit, rows);
    let weights = &receipt.weights;
    rows.iter()
        .map(|row| with_stay(own_cost(&cost, weights, row, unit), weights, row, unit))
        .collect()
}

/// The published cost of a row at the worker's own pace, less the prompts before it that this one does not
/// mind.
fn own_cost(cost: &KvCost<'_>, config: &KvConfig, row: &Candidate, unit: NonZeroU32) -> f64 {
    if row.pace != Pace::USUAL {
        return paced_cost(cost, config, row, unit);
    }
    cost.of(&kv_row(row, unit), 0.0) - config.prefill_scale * relief_blocks(row, unit)
}

/// The same of a worker that is not as the others. Apart, since it is seldom wanted.
#[cold]
#[inline(never)]
fn paced_cost(cost: &KvCost<'_>, config: &KvConfig, row: &Candidate, unit: NonZeroU32) -> f64 {
    let weights = row.pace.weigh(config);
    let mut blocks = kv_row(row, unit);
    blocks.load = blocks.load.map(|load| row.pace.feel(load));
    cost.weighed(weights).of(&blocks, 0.0) - weights.prefill_scale * relief_blocks(row, unit)
}

fn relief_blocks(row: &Candidate, unit: NonZeroU32) -> f64 {
    row.relief_tokens as f64 / f64::from(unit.get())
}

/// A cost less the prompt that affinity takes off it: as if these tokens did not have to be computed.
pub(super) fn with_stay(cost: f64, config: &KvConfig, row: &Candidate, unit: NonZeroU32) -> f64 {
    let scale = config.prefill_scale * row.pace.prefill();
    cost - scale * f64::from(row.affinity_tokens) / f64::from(unit.get())
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
