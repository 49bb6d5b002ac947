//! Turns that wait for another one to compute the long beginning that they share.
//!
//! Sub-agents that start together, or a batch over one document, send the same cold beginning at once. Sent at
//! once, each computes it (own engines) or pays for writing it (hosted caches, which are readable from the first
//! token on: facts of providers, docs/guides). So the first to go is the **leader**; whoever comes while it has
//! no token, and shares at least so many tokens with it that nobody has cached, waits for that token. A leader
//! that fails, is cancelled or goes to another group, or whose worker takes no others any more, lets its
//! followers go: the first becomes leader, if it goes, and the rest follow it. Nobody waits longer than the limit, all waits of a turn together.
//!
//! Leaders are found by marks, the hashes of their blocks at depths that are powers of two: a turn that shares n
//! blocks with a leader finds it by a mark at more than n / 2. Of several leaders that share a mark the first
//! counts. O(log blocks) a turn, and O(workers of the group) more where a leader is found; an end is O(its own
//! followers × a submit).

use std::collections::VecDeque;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::block::Chain;
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, ReservationId, WorkerId};
use crate::receipt::{Candidate, FollowEnd, Followed};

use super::Scheduler;
use super::config::FanOutConfig;
use super::reservation::{Reservation, State};
use super::topology::Health;
use super::turn::{Outcome, Settled, Verdict};

/// Where a leader can be found: its group, and the hash of one of its blocks.
type Mark = (GroupId, u64);

/// A turn whose prompt is being computed.
#[derive(Debug)]
struct Leader {
    marks: SmallVec<[Mark; 12]>,
    worker: WorkerId,
    /// Tokens of its prompt that the worker had when it went.
    cached: u32,
    /// In the order in which they came.
    followers: Vec<ReservationId>,
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(super) struct FanOut {
    by_mark: HashMap<Mark, ReservationId>,
    leaders: HashMap<ReservationId, Leader>,
    /// Until when each turn that follows does so; some may have stopped.
    limits: VecDeque<(Micros, ReservationId)>,
}

/// A turn that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    leader: ReservationId,
    /// Tokens that both have and nobody has cached.
    tokens: u32,
}

impl FanOutConfig {
    /// Checks what it says.
    pub(super) fn validate(&self) -> Result<()> {
        match self.min_tokens {
            0 => Err(Error::invalid_argument(
                "min_tokens of fan_out is 0; it must be at least 1",
            )),
            _ => Ok(()),
        }
    }
}

impl FanOut {
    /// The turn with this prompt computes it from now on. One that leads already does so elsewhere.
    fn lead(&mut self, id: ReservationId, group: GroupId, chain: &Chain, to: (WorkerId, u32)) {
        let (worker, cached) = to;
        let before = self.end(id);
        let depths = (0..u32::BITS).map(|bits| 1_usize << bits);
        let depths = depths.take_while(|&depth| depth <= chain.len());
        let cold = depths.filter(|&depth| chain.tokens_of(depth) > cached);
        let marks: SmallVec<[Mark; 12]> = cold
            .map(|depth| (group, chain.hashes()[depth - 1]))
            .collect();
        for &mark in &marks {
            self.by_mark.entry(mark).or_insert(id);
        }
        let leader = Leader {
            marks,
            worker,
            cached,
            followers: before.map_or_else(Vec::new, |leader| leader.followers),
        };
        self.leaders.insert(id, leader);
    }

    /// The turn leads nobody any more.
    fn end(&mut self, id: ReservationId) -> Option<Leader> {
        let leader = self.leaders.remove(&id)?;
        for mark in &leader.marks {
            if self.by_mark.get(mark) == Some(&id) {
                self.by_mark.remove(mark);
            }
        }
        Some(leader)
    }

    /// The leader whose mark is deepest in this prompt.
    fn nearest(&self, group: GroupId, chain: &Chain) -> Option<ReservationId> {
        if self.by_mark.is_empty() {
            return None;
        }
        let deepest = chain.len().checked_ilog2()?;
        let depths = (0..=deepest).rev().map(|bits| 1_usize << bits);
        let mut marks = depths.map(|depth| (group, chain.hashes()[depth - 1]));
        marks.find_map(|mark| self.by_mark.get(&mark).copied())
    }

    /// The turn waits for nobody any more.
    pub(super) fn leave(&mut self, leader: ReservationId, id: ReservationId) {
        if let Some(leader) = self.leaders.get_mut(&leader) {
            leader.followers.retain(|&follower| follower != id);
        }
    }
}

impl Scheduler {
    /// A turn that has been taken in waits for the one that computes its beginning, or is handed to
    /// admission.
    pub(super) fn follow_or_ask(
        &mut self,
        id: ReservationId,
        settled: &mut Vec<Settled>,
    ) -> Result<Verdict> {
        if self.follow(id) {
            let limit = self
                .config
                .fan_out
                .map(|config| self.now.plus(config.max_wait));
            self.fan_out.limits.extend(limit.map(|until| (until, id)));
            return Ok(Verdict::Hold);
        }
        self.ask_admission(id, settled)
    }

    /// Lets the turn wait for a leader, if there is one that is worth it.
    fn follow(&mut self, id: ReservationId) -> bool {
        let Some(found) = self.leader_of(id) else {
            return false;
        };
        let Some(turn) = self.reservations.get_mut(id) else {
            return false;
        };
        turn.wait.following = Some(found.leader);
        turn.wait.followed = Some(Followed {
            leader: found.leader,
            tokens: found.tokens,
            ended: FollowEnd::Waiting,
        });
        if let Some(leader) = self.fan_out.leaders.get_mut(&found.leader) {
            leader.followers.push(id);
        }
        self.note_hold(id);
        true
    }

    fn leader_of(&mut self, id: ReservationId) -> Option<Found> {
        let least = self.config.fan_out?.min_tokens;
        let turn = self.reservations.get(id)?;
        let leader = self.fan_out.nearest(turn.route.group, &turn.chain)?;
        let lead = self.reservations.get(leader)?;
        let common = common_blocks(&turn.chain, &lead.chain);
        let shared = turn.chain.tokens_of(common);
        if shared < least {
            return None;
        }
        let turn = self.reservations.remove(id)?;
        self.placer().score_for(id, &turn, None);
        let tokens = self.gain(leader, shared);
        self.reservations.insert(id, turn);
        (tokens >= least).then_some(Found { leader, tokens })
    }

    /// Tokens of the prompt scored last that the leader is about to leave where the turn may read them,
    /// beyond what the turn could read without it.
    fn gain(&self, leader: ReservationId, shared: u32) -> u32 {
        let Some(lead) = self.fan_out.leaders.get(&leader) else {
            return 0;
        };
        let rows = self.scratch.candidates().iter();
        let there = rows.clone().find(|row| row.worker == lead.worker);
        let readable = there.map_or(0, Candidate::cached_tokens).min(shared);
        let elsewhere = rows.filter(|row| row.worker != lead.worker);
        let without = elsewhere.map(Candidate::cached_tokens).max().unwrap_or(0);
        readable.saturating_sub(without.max(lead.cached))
    }

    /// A turn has been sent to a worker: whether others may wait for it.
    pub(super) fn lead(&mut self, id: ReservationId, turn: &Reservation) {
        let Some(config) = self.config.fan_out else {
            return;
        };
        let State::Running { worker, .. } = turn.state else {
            return;
        };
        let cached = turn.believed.map_or(0, |believed| believed.tokens);
        let is_cold = turn.chain.tokens().saturating_sub(cached) >= config.min_tokens;
        if is_cold || self.fan_out.leaders.contains_key(&id) {
            let group = turn.route.group;
            self.fan_out.lead(id, group, &turn.chain, (worker, cached));
        }
    }

    /// A turn that has failed on its worker computes its prompt on another one.
    pub(super) fn lead_elsewhere(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        has_left: bool,
        settled: &mut Vec<Settled>,
    ) {
        if has_left {
            self.end_lead(id, FollowEnd::Failed, settled);
        }
        self.lead(id, turn);
    }

    /// Whatever a turn has computed is there now, or will not be: its followers go on.
    pub(super) fn end_lead(
        &mut self,
        id: ReservationId,
        how: FollowEnd,
        settled: &mut Vec<Settled>,
    ) {
        let Some(leader) = self.fan_out.end(id) else {
            return;
        };
        for follower in leader.followers {
            let Some(turn) = self.reservations.get_mut(follower) else {
                continue;
            };
            turn.wait.following = None;
            // The first that goes computes what the leader has not, and the rest wait for that one.
            if how == FollowEnd::Failed && self.follow(follower) {
                continue;
            }
            self.go_on(follower, how, settled);
        }
    }

    /// The fleet has changed: nobody waits for what is computed where he may not go. O(leaders).
    pub(super) fn end_lost_leads(&mut self, settled: &mut Vec<Settled>) {
        let takes = |worker| {
            let known = self.topology.worker(worker);
            known.is_ok_and(|known| known.health == Health::Up) && !self.departures.has(worker)
        };
        let leaders = self.fan_out.leaders.iter();
        let lost = leaders.filter(|(_, leader)| !takes(leader.worker));
        let mut lost: Vec<ReservationId> = lost.map(|(&id, _)| id).collect();
        lost.sort_unstable();
        for id in lost {
            self.end_lead(id, FollowEnd::Failed, settled);
        }
    }

    /// A turn stops to follow: admission decides about it as about any other.
    fn go_on(&mut self, id: ReservationId, how: FollowEnd, settled: &mut Vec<Settled>) {
        if let Some(turn) = self.reservations.get_mut(id)
            && let Some(followed) = &mut turn.wait.followed
        {
            followed.ended = how;
        }
        self.ask_for_held(id, settled);
    }

    /// A turn that follows another one does so no more, and nobody decides about it here.
    pub(super) fn stop_following(&mut self, id: ReservationId, turn: &mut Reservation) {
        if let Some(leader) = turn.wait.following.take() {
            self.fan_out.leave(leader, id);
        }
    }

    /// Lets those go that have followed for long enough.
    pub(super) fn expire_follows(&mut self, settled: &mut Vec<Settled>) {
        while let Some(&(until, id)) = self.fan_out.limits.front() {
            let turn = self.reservations.get(id);
            let leader = turn.and_then(|turn| turn.wait.following);
            if leader.is_some() && until > self.now {
                return;
            }
            self.fan_out.limits.pop_front();
            if let Some(leader) = leader {
                self.fan_out.leave(leader, id);
                if let Some(turn) = self.reservations.get_mut(id) {
                    turn.wait.following = None;
                }
                self.go_on(id, FollowEnd::Late, settled);
            }
        }
    }

    /// When the first of them has followed for long enough.
    pub(super) fn next_follow(&self) -> Option<Micros> {
        self.fan_out.limits.front().map(|&(until, _)| until)
    }

    /// The place of a turn among those that follow the same one, from 1. O(those).
    pub(super) fn place_behind(&self, leader: ReservationId, id: ReservationId) -> Option<usize> {
        let followers = &self.fan_out.leaders.get(&leader)?.followers;
        Some(followers.iter().position(|&follower| follower == id)? + 1)
    }

    /// Asks admission about a turn that has been held for another reason.
    pub(super) fn ask_for_held(&mut self, id: ReservationId, settled: &mut Vec<Settled>) {
        let Some(turn) = self.reservations.get(id) else {
            return;
        };
        let held = self.now.since(turn.since);
        let outcome = match self.ask_admission(id, settled) {
            Ok(Verdict::Hold) => return,
            Ok(Verdict::Go(placement)) => Outcome::Go(placement),
            Err(_) => Outcome::NoWorker,
        };
        self.tally.hold_ended(&outcome, held);
        settled.push(Settled {
            reservation: id,
            outcome,
            held,
        });
    }
}

/// How many blocks two prompts have in common. Chain hashes vouch for all before them: O(log blocks).
fn common_blocks(a: &Chain, b: &Chain) -> usize {
    let (a, b) = (a.hashes(), b.hashes());
    let most = a.len().min(b.len());
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match a[middle - 1] == b[middle - 1] {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}
