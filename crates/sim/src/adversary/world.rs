//! Sessions against the shipped scheduler, and a memory of its own of who issued what.
//!
//! Three models on two accounts each. Whoever was sent a turn issues the ids of its answer; a turn that
//! brings one of them to another model, or provider state to another account, is counted as unsafe. That
//! memory shares nothing with the table that it checks.

use hashbrown::HashMap;

use warmpath_core::continuity::{ContinuityConfig, Lock, PolicyConfig};
use warmpath_core::scheduler::{
    Completion, Config, GroupOptions, Health, Ids, Outcome, Placement, Prompt, Scheduler, Settled,
    Turn, Verdict, WorkerOptions,
};
use warmpath_core::session::Phase;
use warmpath_core::{GroupId, Micros, ReservationId, Result, TargetId, WorkerId};

use crate::matrix::published_models;

/// Every model, the weakest first.
pub(super) const MODELS: [TargetId; 3] = [TargetId(0), TargetId(1), TargetId(2)];
const ACCOUNTS: u32 = 2;

/// What happened in the sessions of a family.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Turns that were served.
    pub(super) turns: u64,
    /// Of these, turns with no lock on them.
    pub(super) free: u64,
    /// Of these, turns for which their conversation changed its model.
    pub(super) switches: u64,
    /// Turns that took an id to where it is not known.
    pub(super) unsafe_turns: u64,
    /// What the family asks for beside that: how often it was tried, and how often it came true.
    pub(super) tried: u64,
    pub(super) came_true: u64,
}

impl Tally {
    /// The other thing that a family asks for was tried.
    pub(super) fn expect(&mut self, holds: bool) {
        self.tried += 1;
        self.came_true += u64::from(holds);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.free += other.free;
        self.switches += other.switches;
        self.unsafe_turns += other.unsafe_turns;
        self.tried += other.tried;
        self.came_true += other.came_true;
    }
}

/// A chain of turns, as its client keeps it.
#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    pub(super) tenant: &'static str,
    pub(super) session: String,
    pub(super) tokens: Vec<u32>,
    /// Calls that its next turn answers.
    pub(super) open: Vec<String>,
    /// What its next turn leans on.
    pub(super) state: Vec<String>,
    model: Option<TargetId>,
}

impl Branch {
    pub(super) fn new(tenant: &'static str, session: String, tokens: Vec<u32>) -> Self {
        Self {
            tenant,
            session,
            tokens,
            ..Self::default()
        }
    }
}

/// What an answer leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub(super) calls: u32,
    pub(super) keeps: bool,
}

/// What became of a turn.
#[derive(Debug)]
pub(super) enum Sent {
    Served(Served),
    Waiting(ReservationId),
    Refused(&'static str),
}

/// A turn at a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) reservation: ReservationId,
    pub(super) placement: Placement,
    pub(super) lock: Lock,
}

#[derive(Clone, Copy, Debug)]
struct Issuer {
    target: TargetId,
    worker: WorkerId,
}

/// A scheduler and its sessions.
pub(super) struct World {
    scheduler: Scheduler,
    pub(super) now: Micros,
    settled: Vec<Settled>,
    issued: HashMap<(&'static str, String), Issuer>,
    workers: Vec<WorkerId>,
    /// How many ids each tenant has seen.
    ids: HashMap<&'static str, u64>,
    pub(super) tally: Tally,
}

impl World {
    pub(super) fn new(policy: PolicyConfig) -> Result<Self> {
        let mut world = Self {
            scheduler: Scheduler::new(Config {
                continuity: ContinuityConfig {
                    policy,
                    ..ContinuityConfig::default()
                },
                ..Config::default()
            })?,
            now: Micros::from_secs(10_000),
            settled: Vec::new(),
            issued: HashMap::new(),
            workers: Vec::new(),
            ids: HashMap::new(),
            tally: Tally::default(),
        };
        for (at, model) in published_models(None).into_iter().enumerate() {
            let group = world
                .scheduler
                .add_group(world.now, GroupOptions::default())?;
            let target = world.scheduler.add_target(&format!("m{at}"), group)?;
            world.scheduler.set_model(target, model)?;
            world.staff(target)?;
        }
        Ok(world)
    }

    /// Gives a model its accounts.
    pub(super) fn staff(&mut self, target: TargetId) -> Result<()> {
        for _ in 0..ACCOUNTS {
            let worker = WorkerOptions {
                name: format!("w{}", self.workers.len()),
                group: GroupId(target.0),
                capacity_tokens: None,
            };
            let added = self
                .scheduler
                .add_worker(self.now, worker, &mut self.settled)?;
            self.workers.push(added);
        }
        Ok(())
    }

    /// Marks every account of a model that has not been removed.
    pub(super) fn mark(&mut self, target: TargetId, health: Health) -> Result<()> {
        let known = self.scheduler.topology().workers().iter();
        let ids: Vec<WorkerId> = known
            .zip(&self.workers)
            .filter(|(w, _)| w.group.0 == target.0 && w.health != Health::Removed)
            .map(|(_, &id)| id)
            .collect();
        for id in ids {
            self.scheduler
                .set_health(self.now, id, health, &mut self.settled)?;
        }
        Ok(())
    }

    /// Sends the branch's next turn.
    pub(super) fn send(&mut self, branch: &mut Branch, base: TargetId) -> Sent {
        let (results, result_lengths) = packed(&branch.open);
        let (state, state_lengths) = packed(&branch.state);
        let mut turn = Turn {
            tenant: branch.tenant,
            session: Some(&branch.session),
            tool_results: Ids {
                bytes: &results,
                lengths: &result_lengths,
            },
            state: Ids {
                bytes: &state,
                lengths: &state_lengths,
            },
            ..Turn::new(&MODELS, Prompt::Tokens(&branch.tokens))
        };
        turn.ask.base = Some(base);
        let submitted = match self.scheduler.submit(self.now, &turn, &mut self.settled) {
            Ok(submitted) => submitted,
            Err(error) => return Sent::Refused(error.code()),
        };
        match submitted.verdict {
            Verdict::Hold => Sent::Waiting(submitted.reservation),
            Verdict::Go(placement) => {
                let served = Served {
                    reservation: submitted.reservation,
                    placement,
                    lock: submitted.lock,
                };
                self.arrived(branch, &served);
                Sent::Served(served)
            }
        }
    }

    /// How a turn that waited has ended, after so many seconds more.
    pub(super) fn await_end(
        &mut self,
        branch: &mut Branch,
        id: ReservationId,
        seconds: u64,
    ) -> Option<Outcome> {
        self.now = self.now.plus(Micros::from_secs(seconds));
        self.scheduler.advance(self.now, &mut self.settled);
        let at = self.settled.iter().position(|s| s.reservation == id)?;
        let outcome = self.settled.swap_remove(at).outcome;
        if let Outcome::Go(placement) = outcome {
            let served = Served {
                reservation: id,
                placement,
                lock: Lock::ToolLoop,
            };
            self.arrived(branch, &served);
        }
        Some(outcome)
    }

    /// A worker gets the turn: does it know what the turn refers to?
    fn arrived(&mut self, branch: &mut Branch, served: &Served) {
        let Placement { target, worker, .. } = served.placement;
        let issuer = |id: &String| self.issued.get(&(branch.tenant, id.clone()));
        let foreign_call = |id| issuer(id).is_some_and(|issuer| issuer.target != target);
        let foreign_state = |id| issuer(id).is_some_and(|issuer| issuer.worker != worker);
        let is_unsafe =
            branch.open.iter().any(foreign_call) || branch.state.iter().any(foreign_state);
        self.tally.turns += 1;
        self.tally.unsafe_turns += u64::from(is_unsafe);
        if served.lock == Lock::Free {
            self.tally.free += 1;
            let moved = branch.model.is_some_and(|before| before != target);
            self.tally.switches += u64::from(moved);
        }
        branch.model = Some(target);
        branch.open.clear();
        branch.state.clear();
    }

    /// The answer of a turn has come, with what it leaves behind for the next one.
    pub(super) fn answer(&mut self, branch: &mut Branch, served: &Served, answer: Answer) {
        let issuer = Issuer {
            target: served.placement.target,
            worker: served.placement.worker,
        };
        // The same texts in every tenant: ids must not be taken for another tenant's.
        let count = self.ids.entry(branch.tenant).or_default();
        *count += 1;
        let id = *count;
        branch.open = (0..answer.calls)
            .map(|n| format!("call_{id}_{n}"))
            .collect();
        branch.state = match answer.keeps {
            true => vec![format!("response:r{id}")],
            false => Vec::new(),
        };
        for id in branch.open.iter().chain(&branch.state) {
            self.issued.insert((branch.tenant, id.clone()), issuer);
        }
        let (calls, call_lengths) = packed(&branch.open);
        let (state, state_lengths) = packed(&branch.state);
        let completion = Completion {
            phase: Some(match answer.calls {
                0 => Phase::Reasoning,
                _ => Phase::Acting,
            }),
            tool_calls: Ids {
                bytes: &calls,
                lengths: &call_lengths,
            },
            state: Ids {
                bytes: &state,
                lengths: &state_lengths,
            },
            ..Completion::default()
        };
        self.scheduler
            .complete(self.now, served.reservation, &completion, &mut self.settled);
    }
}

fn packed(ids: &[String]) -> (Vec<u8>, Vec<u32>) {
    let lengths = ids.iter().map(|id| id.len() as u32).collect();
    (ids.concat().into_bytes(), lengths)
}
