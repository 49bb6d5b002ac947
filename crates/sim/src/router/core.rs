//! The shipped core behind its public door, called as a gateway calls it.
//!
//! Each method is one call that a gateway makes, with what a gateway knows at that time: the blocks of
//! the prompt at submit, the usage at the end, the timer when the core has asked for it. Every call
//! may settle holds. Nothing is decided here; what is converted is time (the core counts
//! microseconds) and names (a turn's number against its reservation).
use std::num::NonZeroU32;
use std::rc::Rc;

use hashbrown::HashMap;

use warmpath_core::hint::Action;
use warmpath_core::receipt::{Reported, Trust};
use warmpath_core::scheduler::{
    Completion, Fault, FeedOptions, Health, Outcome, Placement, Prompt, Scheduler,
    Settled as CoreSettled, Turn, TurnKind, Verdict, WorkerOptions,
};
use warmpath_core::session::Phase;
use warmpath_core::{Micros, ReservationId, Result, TargetId, WorkerId};
use warmpath_trace::Next;

use super::ear::{Ear, Told};
use super::options::{CoreOptions, Farewell};
use super::{
    Answer, CacheMessage, Gauges, IndexCost, Offer, Presence, Promise, Router, Settled, Usage,
};
use crate::event::Nanos;

/// A turn in the core's hands.
#[derive(Clone, Copy, Debug)]
struct Taken {
    id: ReservationId,
    /// What the core has said of the cache that it was sent to.
    promised: Option<Promise>,
}

/// The shipped core.
#[derive(Debug)]
pub struct CoreRouter {
    label: String,
    core: Scheduler,
    target: TargetId,
    farewell: Farewell,
    reservations: HashMap<u64, Taken>,
    turns: HashMap<ReservationId, u64>,
    settled: Vec<CoreSettled>,
    calls: u64,
    /// The turn that completed last, and until when the core wants its session's cache kept.
    kept: Option<(u64, Nanos)>,
    /// Of each worker; empty where engines tell nothing.
    ears: Vec<Ear>,
    block_tokens: NonZeroU32,
}

impl CoreRouter {
    /// A core with one group of workers 0 to `workers` - 1 and one target.
    ///
    /// # Errors
    /// What the core refuses.
    pub fn new(options: CoreOptions) -> Result<Self> {
        let mut core = Scheduler::new(options.config)?;
        let start = Micros(0);
        let block_tokens = NonZeroU32::new(options.group.block_tokens).unwrap_or(NonZeroU32::MIN);
        let group = core.add_group(start, options.group)?;
        let target = core.add_target("model", group)?;
        let (mut settled, mut ears) = (Vec::new(), Vec::new());
        for worker in 0..options.workers {
            let worker = WorkerOptions {
                name: format!("worker-{worker}"),
                group,
                capacity_tokens: options.capacity_tokens,
            };
            let worker = core.add_worker(start, worker, &mut settled)?;
            if let Some(recovery) = options.events {
                let ranks = NonZeroU32::MIN;
                core.add_feed(start, worker, FeedOptions { ranks })?;
                ears.push(Ear::new(worker, recovery));
            }
        }
        Ok(Self {
            label: options.label,
            core,
            target,
            farewell: options.farewell,
            reservations: HashMap::new(),
            turns: HashMap::new(),
            settled,
            calls: 0,
            kept: None,
            ears,
            block_tokens,
        })
    }

    /// The core, for a look.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.core
    }

    /// The reservation of a turn that is held or under way.
    fn reservation(&mut self, turn: u64) -> Option<ReservationId> {
        self.calls += 1;
        self.reservations.get(&turn).map(|taken| taken.id)
    }

    fn forget(&mut self, turn: u64) -> Option<ReservationId> {
        self.calls += 1;
        let id = self.reservations.remove(&turn)?.id;
        self.turns.remove(&id);
        Some(id)
    }

    /// The turn goes to a worker.
    fn sent(&mut self, turn: u64, placement: &Placement) -> u32 {
        if let Some(taken) = self.reservations.get_mut(&turn) {
            taken.promised = Some(Promise {
                tokens: placement.predicted_cached_tokens,
                is_exact: placement.trust == Trust::Exact,
            });
        }
        placement.worker.0
    }

    /// The ear for a worker, and whom it tells.
    fn ear(&mut self, now: Nanos, worker: u32) -> Option<(&mut Ear, Told<'_>)> {
        let told = Told {
            core: &mut self.core,
            now: micros(now),
            block_tokens: self.block_tokens,
        };
        Some((self.ears.get_mut(worker as usize)?, told))
    }

    /// Passes on what the last call has settled.
    fn deliver(&mut self, out: &mut Vec<Settled>) {
        let mut list = std::mem::take(&mut self.settled);
        for settled in list.drain(..) {
            let Some(&turn) = self.turns.get(&settled.reservation) else {
                continue;
            };
            let worker = match settled.outcome {
                Outcome::Go(placement) => Some(self.sent(turn, &placement)),
                Outcome::OwnerUnavailable
                | Outcome::StateLost
                | Outcome::NoWorker
                | Outcome::HoldLimit(_)
                | Outcome::Closed => {
                    self.turns.remove(&settled.reservation);
                    self.reservations.remove(&turn);
                    None
                }
            };
            out.push(Settled { turn, worker });
        }
        self.settled = list;
    }
}

impl Router for CoreRouter {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn submit(&mut self, now: Nanos, offer: &Offer<'_>, settled: &mut Vec<Settled>) -> Answer {
        self.calls += 1;
        let is_last = (offer.next, self.farewell) == (Next::End, Farewell::Said);
        let targets = [self.target];
        let turn = Turn {
            session: Some(offer.session),
            parent: offer.parent,
            kind: match is_last {
                true => TurnKind::Final,
                false => TurnKind::Ordinary,
            },
            ..Turn::new(
                &targets,
                Prompt::Hashes {
                    hashes: offer.blocks,
                    tokens: Some(offer.prompt_tokens),
                },
            )
        };
        let submitted = self.core.submit(micros(now), &turn, &mut self.settled);
        let answer = match submitted {
            Ok(submitted) => {
                self.turns.insert(submitted.reservation, offer.turn);
                let taken = Taken {
                    id: submitted.reservation,
                    promised: None,
                };
                self.reservations.insert(offer.turn, taken);
                match submitted.verdict {
                    Verdict::Go(placement) => Answer::Go(self.sent(offer.turn, &placement)),
                    Verdict::Hold => Answer::Hold,
                }
            }
            Err(_) => Answer::Refused,
        };
        self.deliver(settled);
        answer
    }

    fn first_token(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) {
        if let Some(id) = self.reservation(turn) {
            self.core.first_token(micros(now), id, &mut self.settled);
            self.deliver(settled);
        }
    }

    fn complete(&mut self, now: Nanos, turn: u64, usage: &Usage, settled: &mut Vec<Settled>) {
        let Some(id) = self.forget(turn) else {
            return;
        };
        let program = self.core.program_of(id);
        let completion = Completion {
            reported: Reported {
                prompt_tokens: Some(usage.prompt_tokens),
                cached_tokens: Some(usage.cached_tokens),
                completion_tokens: Some(usage.completion_tokens),
            },
            phase: match usage.next {
                Next::Tool => Some(Phase::Acting),
                Next::Person | Next::End => Some(Phase::Reasoning),
                Next::Unknown => None,
            },
            ..Completion::default()
        };
        self.core
            .complete(micros(now), id, &completion, &mut self.settled);
        let hints = self.core.hints().iter().rev();
        let own = hints.filter(|hint| Some(hint.program) == program);
        self.kept = own.map(|hint| (turn, kept_until(hint.action))).next();
        self.deliver(settled);
    }

    fn cancel(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) {
        if let Some(id) = self.forget(turn) {
            self.core.cancel(micros(now), id, &mut self.settled);
            self.deliver(settled);
        }
    }

    fn reroute(&mut self, now: Nanos, turn: u64, settled: &mut Vec<Settled>) -> Option<u32> {
        let id = self.reservation(turn)?;
        let moved = self
            .core
            .reroute(micros(now), id, Fault::Passing, &mut self.settled);
        self.deliver(settled);
        match moved {
            Ok(placement) => Some(self.sent(turn, &placement)),
            Err(_) => {
                self.cancel(now, turn, settled);
                None
            }
        }
    }

    fn set_presence(
        &mut self,
        now: Nanos,
        worker: u32,
        presence: Presence,
        settled: &mut Vec<Settled>,
    ) {
        self.calls += 1;
        let health = match presence {
            Presence::Up => Health::Up,
            Presence::Down => Health::Down,
        };
        let told = self
            .core
            .set_health(micros(now), WorkerId(worker), health, &mut self.settled);
        debug_assert!(told.is_ok(), "the fleet has no other workers than the core");
        if presence == Presence::Down
            && let Some((ear, mut told)) = self.ear(now, worker)
        {
            ear.hang_up(&mut told);
        }
        self.deliver(settled);
    }

    fn hear(&mut self, now: Nanos, worker: u32, message: &Rc<CacheMessage>) -> Option<u64> {
        self.calls += 1;
        let (ear, mut told) = self.ear(now, worker)?;
        ear.hear(&mut told, message)
    }

    fn hear_again(
        &mut self,
        now: Nanos,
        worker: u32,
        messages: &[Rc<CacheMessage>],
    ) -> Option<u64> {
        self.calls += 1;
        let (ear, mut told) = self.ear(now, worker)?;
        ear.hear_again(&mut told, messages)
    }

    fn promised(&self, turn: u64) -> Option<Promise> {
        self.reservations.get(&turn)?.promised
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.core.next_wake().map(|at| at.0.saturating_mul(1_000))
    }

    fn advance(&mut self, now: Nanos, settled: &mut Vec<Settled>) {
        self.calls += 1;
        self.core.advance(micros(now), &mut self.settled);
        self.deliver(settled);
    }

    fn keep_until(&self, turn: u64) -> Option<Nanos> {
        self.kept.filter(|&(of, _)| of == turn).map(|(_, at)| at)
    }

    fn gauges(&self) -> Gauges {
        let status = self.core.status();
        Gauges {
            held: status.holds as u64,
            paused: status.paused as u64,
        }
    }

    fn index_cost(&self) -> Option<IndexCost> {
        let stats = self.core.prefix().stats();
        Some(IndexCost {
            blocks: stats.blocks as u64,
            bytes: stats.bytes as u64,
            calls: self.calls,
        })
    }
}

/// The time that an engine is told; one that has passed puts a cache first in line.
fn kept_until(action: Action) -> Nanos {
    match action {
        Action::Retain { until } => until.0.saturating_mul(1_000),
        Action::Demote => 0,
    }
}

fn micros(now: Nanos) -> Micros {
    Micros(now / 1_000)
}
