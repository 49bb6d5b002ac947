//! The events of a recording, once more through a fresh core.
use hashbrown::HashMap;
use napi::bindgen_prelude::Result;
use serde_json::Value;

use warmpath_core::scheduler::{
    Completion, Config, GroupOptions, Ids, Outcome, Prompt, Scheduler, Settled, Turn, TurnKind,
    Verdict, WorkerOptions,
};
use warmpath_core::score::kv::KvConfig;
use warmpath_core::{Micros, ReservationId, TargetId};

use super::recorded::Recorded;
use super::{Difference, Request, differ};
use crate::error::{Code, refused};
use crate::report::receipt_value;

/// A core as the receipts describe it, and which of its turns are which decisions.
pub(super) struct Again<'a> {
    decisions: &'a [Recorded],
    core: Scheduler,
    targets: HashMap<&'a str, TargetId>,
    reservations: Vec<Option<ReservationId>>,
    turns: HashMap<ReservationId, usize>,
    settled: Vec<Settled>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    FirstToken,
    End,
    Arrive,
}

impl<'a> Again<'a> {
    /// A fleet of the workers that the receipts name, all of one group.
    pub(super) fn new(decisions: &'a [Recorded], request: &Request) -> Result<Self, Code> {
        let first = &decisions[0];
        let config = Config {
            admission: request.admission.config(),
            score: weights(&first.receipt),
            temperature: first.receipt["weights"]["temperature"]
                .as_f64()
                .unwrap_or(0.0),
            seed: request.seed,
            ..Config::default()
        };
        let start = decisions
            .iter()
            .map(|d| d.received)
            .min()
            .unwrap_or_default();
        let mut core = Scheduler::new(config).map_err(|e| refused(&e))?;
        let unit = first.receipt["prompt"]["unitTokens"].as_u64().unwrap_or(1);
        let options = GroupOptions {
            block_tokens: u32::try_from(unit).unwrap_or(u32::MAX),
            ..GroupOptions::default()
        };
        let group = core.add_group(start, options).map_err(|e| refused(&e))?;
        let mut settled = Vec::new();
        for name in names(decisions, workers_of) {
            let worker = WorkerOptions {
                name: name.to_owned(),
                group,
                capacity_tokens: request.capacity_tokens,
            };
            core.add_worker(start, worker, &mut settled)
                .map_err(|e| refused(&e))?;
        }
        let mut targets = HashMap::new();
        for name in names(decisions, |receipt| vec![text(receipt, "target")]) {
            let target = core.add_target(name, group).map_err(|e| refused(&e))?;
            targets.insert(name, target);
        }
        Ok(Self {
            reservations: vec![None; decisions.len()],
            decisions,
            core,
            targets,
            turns: HashMap::new(),
            settled,
        })
    }

    /// The first decision that comes out otherwise.
    pub(super) fn run(mut self) -> Result<Option<Difference>, Code> {
        for (at, step, turn) in self.steps() {
            while let Some(wake) = self.core.next_wake().filter(|wake| *wake <= at) {
                self.core.advance(wake, &mut self.settled);
                if let Some(difference) = self.follow() {
                    return Ok(Some(difference));
                }
                if self.core.next_wake() == Some(wake) {
                    break;
                }
            }
            let placed = match step {
                Step::Arrive => self.arrive(at, turn)?,
                Step::FirstToken => self.first_token(at, turn),
                Step::End => self.end(at, turn),
            };
            if let Some(difference) = placed.or_else(|| self.follow()) {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Everything that happened, in its order; decisions of one time in theirs.
    fn steps(&self) -> Vec<(Micros, Step, usize)> {
        let mut steps = Vec::new();
        for (turn, recorded) in self.decisions.iter().enumerate() {
            steps.push((recorded.received, Step::Arrive, turn));
            steps.extend(recorded.first_token.map(|at| (at, Step::FirstToken, turn)));
            steps.push((recorded.end, Step::End, turn));
        }
        steps.sort_unstable();
        steps
    }

    fn arrive(&mut self, at: Micros, turn: usize) -> Result<Option<Difference>, Code> {
        let recorded = &self.decisions[turn];
        let target = self.targets.get(text(&recorded.receipt, "target")).copied();
        let submitted = self.core.submit(
            at,
            &Turn {
                tenant: "",
                session: recorded.session.as_deref(),
                parent: recorded.parent.as_deref(),
                kind: match recorded.is_final {
                    true => TurnKind::Final,
                    false => TurnKind::Ordinary,
                },
                targets: target.as_slice(),
                ask: Default::default(),
                pin: None,
                tool_results: Ids::default(),
                state: Ids::default(),
                // Two models have a cache each.
                cache_salt: recorded.model.as_bytes(),
                prompt: Prompt::Hashes {
                    hashes: &recorded.hashes,
                    tokens: Some(recorded.tokens()),
                },
            },
            &mut self.settled,
        );
        let submitted = submitted.map_err(|error| refused(&error))?;
        self.reservations[turn] = Some(submitted.reservation);
        self.turns.insert(submitted.reservation, turn);
        match submitted.verdict {
            Verdict::Go(placement) => Ok(self.compare(turn, placement.receipt)),
            Verdict::Hold => Ok(None),
        }
    }

    fn first_token(&mut self, at: Micros, turn: usize) -> Option<Difference> {
        let reservation = self.reservations[turn]?;
        self.core.first_token(at, reservation, &mut self.settled);
        None
    }

    fn end(&mut self, at: Micros, turn: usize) -> Option<Difference> {
        let reservation = self.reservations[turn].take()?;
        let recorded = &self.decisions[turn];
        if !recorded.is_completed {
            self.core.cancel(at, reservation, &mut self.settled);
            return None;
        }
        let completion = Completion {
            reported: recorded.reported,
            phase: recorded.phase,
            ..Completion::default()
        };
        self.core
            .complete(at, reservation, &completion, &mut self.settled);
        None
    }

    /// Compares the decisions that the last call has made about held turns.
    fn follow(&mut self) -> Option<Difference> {
        let settled = std::mem::take(&mut self.settled);
        settled.iter().find_map(|settled| {
            let turn = *self.turns.get(&settled.reservation)?;
            match settled.outcome {
                Outcome::Go(placement) => self.compare(turn, placement.receipt),
                _ => Some(Difference {
                    at: turn,
                    what: "the turn could go nowhere".to_owned(),
                    now: Value::Null,
                }),
            }
        })
    }

    fn compare(&self, turn: usize, receipt: u64) -> Option<Difference> {
        let now = receipt_value(&self.core, self.core.receipt(receipt)?);
        let what = differ::first(&self.decisions[turn].receipt, &now)?;
        Some(Difference {
            at: turn,
            what,
            now,
        })
    }
}

fn text<'a>(receipt: &'a Value, name: &str) -> &'a str {
    receipt[name].as_str().unwrap_or_default()
}

fn workers_of(receipt: &Value) -> Vec<&str> {
    let rows = receipt["candidates"].as_array().map(Vec::as_slice);
    let rows = rows.unwrap_or_default().iter();
    rows.map(|row| text(row, "worker")).collect()
}

/// Names in order of first sight.
fn names<'a>(decisions: &'a [Recorded], of: fn(&'a Value) -> Vec<&'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in decisions.iter().flat_map(|recorded| of(&recorded.receipt)) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

pub(super) fn weights(receipt: &Value) -> KvConfig {
    let default = KvConfig::default();
    let weight = |name: &str, or: f64| receipt["weights"][name].as_f64().unwrap_or(or);
    KvConfig {
        overlap_credit: weight("overlapCredit", default.overlap_credit),
        credit_decay: weight("overlapDecay", default.credit_decay),
        prefill_scale: weight("prefillScale", default.prefill_scale),
        request_weight: weight("requestWeight", default.request_weight),
        ..default
    }
}
