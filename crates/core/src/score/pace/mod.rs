//! How long do a prompt's and an answer's tokens take on this worker, beside the others of its group?
//!
//! A cost in blocks takes all workers for equally fast. Here their turns tell: the time from go to first
//! token against the tokens that had to be computed until then (those that waited before it too), and the
//! time of an answer against its tokens, what else ran and how much of the cache that read. One fit for
//! the group ([`fit`]) says what such a work takes as a rule; a worker's **pace** is what its own turns
//! took over what they take on the usual worker, in hundredths. The usual worker is the lower median, so
//! that one outlier, however slow, makes none of its equals look quick beside a twin that has few turns:
//!
//! ```text
//! rule  = lower median of (own times / own fitted times)   over the group's workers that have turns
//! pace  = (own times / rule + prior) / (own fitted times + prior)
//! cost  = prefill·prefill_pace·(uncached work) + decode_pace·(blocks in use)
//! ```
//! So a cost is time in units of the group's usual block. The prior weighs like [`PRIOR`] turns of the
//! group: a new worker is taken for a usual one, and a worker that nobody sends turns to becomes one again.
//! Turns that took longer than their like count little, since the quick ones show what the work itself is;
//! a pace within [`BAND`] of the usual one is the usual one, so that workers of one kind decide as if
//! nothing was learnt. Before a group is known, so does everybody. O(1) a turn, amortised: every
//! [`REFRESH`] turns the paces of a group are computed again. Knows no clock, no tree and no ledger.

mod fetch;
mod fit;

use smallvec::SmallVec;

use crate::score::kv::{KvConfig, KvLoad};
use crate::{Error, GroupId, Micros, Result, WorkerId};

use fetch::Fetch;
use fit::{Fit, Sums, Work};

/// Turns of the group that the belief in a usual worker weighs.
const PRIOR: f64 = 8.0;
/// Turns of a group before anything is said.
const KNOWN: f64 = 16.0;
/// Turns of a worker before its own pace says what is slow there.
const OWN: f64 = 4.0;
/// What a turn counts that took longer than its like.
const SLOW: f64 = 0.25;
/// Times are believed within this factor of what was expected.
const MOST: f64 = 8.0;
/// A pace within this factor of the usual one is the usual one.
const BAND: f64 = 1.25;
/// Turns after which the paces of a group are computed again, if it has no more workers than that.
const REFRESH: usize = 16;
/// A worker that has had no turn for this long is half forgotten.
const HALF: f64 = 600e6;
/// Amounts above these count alike, whatever their size: tokens of a prompt, of an answer.
const UNITS: [f64; 2] = [4_096.0, 64.0];
/// Answers of fewer tokens say nothing.
const SHORTEST: u32 = 16;

/// How long a worker takes over the usual one of its group, in hundredths: 100 is as long, 300 is three
/// times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// For a token of a prompt; 12 to 800.
    pub prefill: u16,
    /// For a token of an answer; 12 to 800.
    pub decode: u16,
}

impl Default for Pace {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Pace {
    /// As everybody, or not known.
    pub const USUAL: Self = Self {
        prefill: 100,
        decode: 100,
    };

    /// What a prompt's token takes, over the usual time.
    #[must_use]
    pub fn prefill(self) -> f64 {
        f64::from(self.prefill) / 100.0
    }

    /// What an answer's token takes, over the usual time.
    #[must_use]
    pub fn decode(self) -> f64 {
        f64::from(self.decode) / 100.0
    }

    /// The weights of the cost on this worker: its prompts cost its time, and what comes from a slower
    /// tier costs the same time everywhere.
    #[must_use]
    pub fn weigh(self, config: &KvConfig) -> KvConfig {
        if self.prefill == Self::USUAL.prefill {
            return *config;
        }
        let pace = self.prefill();
        let credit = |usual: f64| (1.0 - (1.0 - usual) / pace).clamp(0.0, 1.0);
        KvConfig {
            prefill_scale: config.prefill_scale * pace,
            host_credit: credit(config.host_credit),
            disk_credit: credit(config.disk_credit),
            pool_credit: credit(config.pool_credit),
            ..*config
        }
    }

    /// What is in flight there, as the usual worker would feel it.
    #[must_use]
    pub fn feel(self, load: KvLoad) -> KvLoad {
        let pace = self.decode();
        KvLoad {
            prefill_tokens: load.prefill_tokens,
            decode_blocks: load.decode_blocks * pace,
            additional_blocks: load.additional_blocks * pace,
            requests: load.requests * pace,
        }
    }
}

/// A prompt that a worker has computed.
#[derive(Clone, Copy, Debug)]
pub struct Prefilled {
    /// From go to first token.
    pub time: Micros,
    /// Tokens that had to be computed before this prompt's own.
    pub waiting: u64,
    /// Tokens of the prompt that were computed.
    pub computed: u32,
    /// Tokens of the prompt that were cached, in whatever tier.
    pub cached: u32,
    /// Of these, those that came from host memory, from disk and from a shared store.
    pub fetched: [u32; 3],
}

/// An answer that a worker has given.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// From first token to last.
    pub time: Micros,
    /// Tokens after the first.
    pub tokens: u32,
    /// Turns that ran there meanwhile, this one too.
    pub requests: u32,
    /// Tokens of context that these had.
    pub context: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Prefill,
    Decode,
}

#[derive(Debug, Default)]
struct Group {
    members: Vec<WorkerId>,
    fits: [Fit; 2],
    /// Times over fitted times, of the usual worker; 0 while it is not known.
    rules: [f64; 2],
    tiers: [Fetch; 3],
    turns: usize,
}

#[derive(Debug, Default)]
struct Member {
    /// Absent when it is gone, or nothing is to be learnt.
    group: Option<GroupId>,
    sums: [Sums; 2],
    last: Micros,
    pace: Pace,
}

/// Checks the share of what is learnt that counts: in [0, 1].
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn validate(share: f64) -> Result<()> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(()),
        false => Err(Error::invalid_argument("pace must be 0 to 1")),
    }
}

/// The paces of all workers.
#[derive(Debug)]
pub struct Paces {
    share: f64,
    groups: Vec<Group>,
    members: Vec<Member>,
}

impl Paces {
    /// Nobody's; `share` of what is learnt counts, in [0, 1]. At 0 nothing is learnt.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self {
            share,
            groups: Vec::new(),
            members: Vec::new(),
        }
    }

    /// Whether anything is learnt.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.share > 0.0
    }

    /// A worker joins a group. O(1).
    pub fn add(&mut self, worker: WorkerId, group: GroupId) {
        if !self.is_on() {
            return;
        }
        if self.groups.len() <= group.index() {
            self.groups.resize_with(group.index() + 1, Group::default);
        }
        if self.members.len() <= worker.index() {
            self.members
                .resize_with(worker.index() + 1, Member::default);
        }
        self.groups[group.index()].members.push(worker);
        self.members[worker.index()].group = Some(group);
    }

    /// A worker is gone, and what it has taught with it. O(workers of its group).
    pub fn remove(&mut self, worker: WorkerId) {
        let Some(member) = self.members.get_mut(worker.index()) else {
            return;
        };
        let group = std::mem::take(member).group;
        if let Some(group) = group.and_then(|group| self.groups.get_mut(group.index())) {
            group.members.retain(|&other| other != worker);
        }
    }

    /// The pace of a worker. O(1).
    #[must_use]
    pub fn of(&self, worker: WorkerId) -> Pace {
        let member = self.members.get(worker.index());
        member.map_or(Pace::USUAL, |member| member.pace)
    }

    /// The weights of a cost in `group`: the configured ones, with the credit of slower tiers as it was
    /// learnt. O(1).
    #[must_use]
    pub fn weights(&self, group: GroupId, config: &KvConfig) -> KvConfig {
        let Some(known) = self.groups.get(group.index()) else {
            return *config;
        };
        let [host, disk, pool] = &known.tiers;
        let learnt = |tier: &Fetch, configured: f64| {
            let credit = tier.credit(configured);
            configured + self.share * (credit - configured)
        };
        KvConfig {
            host_credit: learnt(host, config.host_credit),
            disk_credit: learnt(disk, config.disk_credit),
            pool_credit: learnt(pool, config.pool_credit),
            ..*config
        }
    }

    /// A worker has computed a prompt.
    pub fn prefilled(&mut self, now: Micros, worker: WorkerId, turn: &Prefilled) {
        let work = prompt_work(turn.waiting, turn.computed, turn.cached);
        let fetched = turn
            .fetched
            .iter()
            .map(|&tokens| u64::from(tokens))
            .sum::<u64>();
        if 4 * fetched <= turn.waiting.saturating_add(turn.computed.into()) {
            self.observe(now, worker, Kind::Prefill, &work, turn.time);
        } else if fetched >= u64::from(turn.computed) {
            self.observe_tiers(worker, turn, &work);
        }
    }

    /// A worker has given an answer.
    pub fn decoded(&mut self, now: Micros, worker: WorkerId, turn: &Decoded) {
        if turn.tokens < SHORTEST {
            return;
        }
        let tokens = f64::from(turn.tokens);
        let requests = tokens * f64::from(turn.requests);
        let context = tokens * turn.context as f64 / 1e6;
        let work = [tokens, requests, context];
        self.observe(now, worker, Kind::Decode, &work, turn.time);
    }

    fn observe(&mut self, now: Micros, worker: WorkerId, kind: Kind, work: &Work, time: Micros) {
        let Some(member) = self.members.get_mut(worker.index()) else {
            return;
        };
        let Some(id) = member.group else {
            return;
        };
        let (group, at) = (&mut self.groups[id.index()], kind as usize);
        let fit = &mut group.fits[at];
        let sums = &mut member.sums[at];
        let mut time = time.0 as f64;
        let mut share = 1.0;
        let own = sums.time / fit.time(&sums.work);
        if sums.count >= OWN && own.is_finite() && own > 0.0 {
            let expected = own * fit.time(work);
            time = time.clamp(expected / MOST, expected * MOST);
            share = if time > expected { SLOW } else { 1.0 };
        }
        let weight = 1.0 / work[0].max(UNITS[at]);
        sums.add(work, time, weight, share);
        fit.observe(work, time, share * weight * weight);
        member.last = now;
        group.turns += 1;
        if group.turns >= group.members.len().max(REFRESH) {
            self.refresh(now, id);
        }
    }

    /// What the turn took beyond the work that it had, where nearly all that was fetched is from one tier.
    fn observe_tiers(&mut self, worker: WorkerId, turn: &Prefilled, work: &Work) {
        let Some(member) = self.members.get(worker.index()) else {
            return;
        };
        let Some(group) = member.group.and_then(|id| self.groups.get_mut(id.index())) else {
            return;
        };
        let (fit, rule) = (&group.fits[0], group.rules[0]);
        let all: u32 = turn
            .fetched
            .iter()
            .fold(0, |sum, &more| sum.saturating_add(more));
        let most = |&tokens: &u32| u64::from(tokens) * 5 >= u64::from(all) * 4;
        let Some(tier) = turn.fetched.iter().position(most).filter(|_| rule > 0.0) else {
            return;
        };
        let computed = turn.computed.saturating_add(all);
        let cached = turn.cached.saturating_sub(all);
        let saved = fit.time(&prompt_work(turn.waiting, computed, cached)) - fit.time(work);
        if saved > 0.0 {
            let own = rule * fit.time(work) * member.pace.prefill();
            group.tiers[tier].observe((turn.time.0 as f64 - own) / (rule * saved));
        }
    }

    /// Computes the paces of a group again. O(its workers).
    fn refresh(&mut self, now: Micros, id: GroupId) {
        let group = &mut self.groups[id.index()];
        group.turns = 0;
        let fade = |member: &Member| HALF / (HALF + now.since(member.last).0 as f64);
        let mut typical = [Sums::default(); 2];
        for member in &group.members {
            let member = &self.members[member.index()];
            for (all, own) in typical.iter_mut().zip(&member.sums) {
                all.join(own, fade(member));
            }
        }
        for (at, all) in typical.iter().enumerate() {
            let fit = &group.fits[at];
            let sums = group
                .members
                .iter()
                .map(|id| &self.members[id.index()].sums[at]);
            let known = sums.filter(|own| own.count >= OWN);
            let ratios = known.map(|own| own.time / fit.time(&own.work));
            let usual = lower_median(ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0));
            group.rules[at] = usual.filter(|_| all.count >= KNOWN).unwrap_or(0.0);
        }
        for &worker in &group.members {
            let member = &mut self.members[worker.index()];
            let share = fade(member);
            let [prefill, decode] = [0, 1].map(|at| {
                let (fit, all, own) = (&group.fits[at], &typical[at], &member.sums[at]);
                let rule = group.rules[at];
                if rule == 0.0 {
                    return Pace::USUAL.prefill;
                }
                let prior = PRIOR * fit.time(&all.work) / all.count;
                let fitted = share * fit.time(&own.work);
                in_hundredths(
                    (share * own.time / rule + prior) / (fitted + prior),
                    self.share,
                )
            });
            member.pace = Pace { prefill, decode };
        }
    }
}

/// Tokens to compute, that it is one prompt, and millions of pairs of tokens of its own.
fn prompt_work(waiting: u64, computed: u32, cached: u32) -> Work {
    let tokens = f64::from(computed);
    let pairs = tokens * (f64::from(cached) + tokens / 2.0) / 1e6;
    [waiting as f64 + tokens, 1.0, pairs]
}

/// Of an even number, the lower one of the two in the middle.
fn lower_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: SmallVec<[f64; 32]> = values.collect();
    let middle = values.len().checked_sub(1)? / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// A ratio of times as a pace, of which `share` counts.
fn in_hundredths(ratio: f64, share: f64) -> u16 {
    if !ratio.is_finite() || (1.0 / BAND..=BAND).contains(&ratio) {
        return Pace::USUAL.prefill;
    }
    let bounded = ratio.clamp(1.0 / MOST, MOST);
    libm::round(100.0 * (1.0 + share * (bounded - 1.0))) as u16
}

#[cfg(test)]
mod tests;
