//! What the core knows, as JSON text for people and tools: receipts, candidates, fleet, figures.
use serde_json::{Map, Value, json};

use warmpath_core::admission::{Refusal, Why};
use warmpath_core::affinity::{AffinityNote, Came, Tie};
use warmpath_core::continuity::{Breach, Lock, LockNote};
use warmpath_core::receipt::{
    AdmissionNote, Candidate, Ending, Evidence, FollowEnd, Followed, HoldReason, Receipt, Trust,
};
use warmpath_core::scheduler::{
    CHURN_STEPS, Departure, Disagreement, HOLD_STEPS, Health, HoldEnd, Leaving, Scheduler, Worker,
};
use warmpath_core::{Micros, TargetId, WorkerId};

use warmpath_feed::StreamStatus;

use crate::choice;
use crate::handle::State;

/// Turns that a status shows waiting.
const MOST_WAITING: usize = 100;

/// The receipt with this number; `None` when it has left the ring or never was.
pub(crate) fn receipt(state: &State, id: u64) -> Option<String> {
    let receipt = state.core.receipt(id)?;
    Some(receipt_value(&state.core, receipt).to_string())
}

/// The rows of a look, the cheapest first.
pub(crate) fn candidates(core: &Scheduler, target: TargetId, rows: &[Candidate]) -> String {
    let rows: Vec<Value> = rows.iter().map(|row| candidate(core, row)).collect();
    json!({ "target": target_name(core, target), "candidates": rows }).to_string()
}

/// The fleet, with what the callers wanted to find again.
pub(crate) fn topology(state: &State) -> String {
    let topology = state.core.topology();
    let targets = topology.targets().iter().zip(&state.target_details);
    let workers = topology.workers().iter().zip(&state.worker_details);
    json!({
        "epoch": state.epoch(),
        "groups": topology.groups(),
        "targets": targets
            .map(|(target, detail)| json!({
                "name": target.name,
                "group": target.group.0,
                "removed": target.is_removed,
                "detail": detail,
            }))
            .collect::<Vec<_>>(),
        "workers": workers
            .map(|(worker, detail)| json!({
                "name": worker.name,
                "group": worker.group.0,
                "health": health(worker.health),
                "capacityTokens": worker.capacity_tokens,
                "detail": detail,
            }))
            .collect::<Vec<_>>(),
    })
    .to_string()
}

/// Figures for an operator.
pub(crate) fn status(state: &State, now: Micros) -> String {
    let core = &state.core;
    let status = core.status();
    let prefix = core.prefix().stats();
    let anomalies = prefix.anomalies;
    let counters = status.counters;
    let workers: Vec<Value> = (0..)
        .map(WorkerId)
        .zip(core.topology().workers())
        .filter(|(_, worker)| worker.health != Health::Removed)
        .map(|(id, known)| worker(state, id, known))
        .collect();
    let targets = core.topology().targets().iter().filter(|t| !t.is_removed);
    let targets: Vec<&str> = targets.map(|t| t.name.as_str()).collect();
    json!({
        "sessions": status.sessions,
        "sessionsEvicted": status.sessions_evicted,
        "reservations": status.reservations,
        "holds": status.holds,
        "paused": status.paused,
        "owners": status.owners,
        "ownersForgotten": status.owners_forgotten,
        "receipts": status.receipts,
        "waiting": waiting(core, now),
        "queue": queue(core),
        "workers": workers,
        "targets": targets,
        "pools": state.pool_figures(),
        "prefix": {
            "blocks": prefix.blocks,
            "runs": prefix.runs,
            "anchors": prefix.anchors,
            "bytes": prefix.bytes,
            "copies": anomalies.copies,
            "evicted": prefix.evicted,
        },
        "counters": {
            "submitted": counters.submitted,
            "held": counters.held,
            "completed": counters.completed,
            "cancelled": counters.cancelled,
            "rerouted": counters.rerouted,
        },
        "anomalies": {
            "lateCalls": counters.late_calls,
            "clockStepsBack": counters.clock_steps_back,
            "unknownPlace": anomalies.unknown_place,
            "unknownParent": anomalies.unknown_parent,
            "unknownName": anomalies.unknown_name,
            "strayEvents": status.stray_events,
            "selfParent": anomalies.self_parent,
            "cycle": anomalies.cycle,
            "otherParent": anomalies.other_parent,
            "repeated": anomalies.repeated,
            "wrongBlockSize": anomalies.wrong_block_size,
            "unnamed": anomalies.unnamed,
            "notHeld": anomalies.not_held,
        },
    })
    .to_string()
}

/// The classes of the queue.
fn queue(core: &Scheduler) -> Vec<Value> {
    let classes = core.queue_classes().into_iter();
    let row = classes.map(
        |class| json!({ "class": class.name, "waiting": class.waiting, "refused": class.refused }),
    );
    row.collect()
}

/// The turns that have waited longest, as it is now: the core's own time stands still between its events.
fn waiting(core: &Scheduler, now: Micros) -> Vec<Value> {
    let gone = now.since(core.status().now).0;
    let held = core.longest_held(MOST_WAITING).into_iter();
    let classes = core.queue_classes();
    held.map(|held| {
        let (tenant, session) = core.holder(held.reservation).unwrap_or_default();
        json!({
            "reservation": held.reservation.0,
            "session": session,
            "tenant": tenant,
            "place": Some(held.place).filter(|&place| place > 0),
            "why": held.why.name(),
            "waitedMs": milliseconds(Micros(held.waited.0.saturating_add(gone))),
            "expectedMs": held.expected.map(|left| milliseconds(Micros(left.0.saturating_sub(gone)))),
            "priority": held.priority,
            "class": held.class.map(|class| classes[class].name),
        })
    })
    .collect()
}

/// Counts for whoever watches; what each is called stands in src/telemetry.
pub(crate) fn counts(state: &State) -> String {
    let core = &state.core;
    let (status, tally, policy) = (core.status(), core.tally(), core.policy_counts());
    let named = |names: &[&str], counts: &[u64]| -> Map<String, Value> {
        let pairs = names.iter().zip(counts);
        pairs
            .map(|(name, &count)| ((*name).to_owned(), json!(count)))
            .collect()
    };
    let running = status.reservations - status.holds;
    json!({
        "sessions": { "reasoning": status.sessions - status.idle, "acting": status.idle },
        "paused": status.paused,
        "turns": { "running": running, "held": status.holds },
        "submitted": status.counters.submitted,
        "ended": {
            "completed": status.counters.completed,
            "cancelled": status.counters.cancelled - tally.failed,
            "failed": tally.failed,
        },
        "rerouted": status.counters.rerouted,
        "switches": tally.switches,
        "holds": named(&HoldReason::ALL.map(HoldReason::name), &tally.holds),
        "holdEnds": named(&HoldEnd::ALL.map(HoldEnd::name), &tally.hold_ends),
        "holdTimes": {
            "steps": HOLD_STEPS.map(|step| step as f64 / 1_000.0),
            "counts": tally.hold_times,
            "sum": tally.held_for.0 as f64 / 1e6,
        },
        "policy": {
            "pauses": policy.pauses,
            "resumes": policy.resumes,
            "forced": policy.forced,
            "marks": policy.marks,
            "surrendered": policy.surrendered,
            "warm": policy.warm,
            "cold": policy.cold,
            "untracked": policy.untracked,
        },
        "tokens": {
            "prompt": tally.prompt_tokens,
            "predicted": tally.predicted_tokens,
            "reportedPrompt": tally.reported[0],
            "cached": tally.reported[1],
            "completion": tally.reported[2],
        },
        "churn": {
            "steps": CHURN_STEPS,
            "branches": core.branches_so_far(),
            "reached": { "pauses": tally.churn[0], "moves": tally.churn[1] },
            "sum": { "pauses": tally.befallen[0], "moves": tally.befallen[1] },
        },
    })
    .to_string()
}

fn worker(state: &State, id: WorkerId, worker: &Worker) -> Value {
    let core = &state.core;
    let load = core.load().load(id).unwrap_or_default();
    let others = core.load().untracked(id);
    let admission = core.admission(worker.group);
    let cached = core
        .place_of(id)
        .map_or(0, |place| core.prefix().tokens(place));
    json!({
        "id": worker.name,
        "health": health(worker.health),
        "capacityTokens": worker.capacity_tokens,
        "inFlight": load.requests,
        "prefillTokens": load.prefill_tokens,
        "activeTokens": load.block_tokens,
        "untracked": json!({ "requests": others.requests, "tokens": others.tokens }),
        "usedTokens": admission.map_or(0, |admission| admission.used(id)),
        "leasedTokens": admission.map_or(0, |admission| admission.leased(id)),
        "workingSetTokens": core.working_set(id),
        "leaving": core.leaving(id).map(|leaving| self::leaving(&leaving)),
        "predictedCachedTokens": cached,
        "evidence": core.evidence(id).map(|known| evidence(&known)),
        "events": events(state, id),
    })
}

/// What a worker's engine tells; null for one that is not listened to.
fn events(state: &State, id: WorkerId) -> Option<Value> {
    let cached = state.core.engine_cached_tokens(id)?;
    let ranks: Vec<Value> = state.ear.status(id).iter().map(stream).collect();
    Some(json!({
        "cachedTokens": cached,
        "blockTokens": state.core.engine_block_tokens(id),
        "disagreement": state.core.disagreement_of(id).as_ref().map(disagreement),
        "ranks": ranks,
    }))
}

pub(crate) fn disagreement(found: &Disagreement) -> Value {
    json!({
        "cause": found.cause.name(),
        "ours": found.ours,
        "theirs": found.theirs,
        "since": found.since.0 as f64 / 1_000.0,
    })
}

fn stream((rank, status): &(u32, StreamStatus)) -> Value {
    let mut value = publisher(status);
    value["rank"] = json!(rank);
    value["blocks"] = json!(status.blocks);
    value["replays"] = json!(status.replays);
    value
}

/// A shared store's stream.
pub(crate) fn pool_stream(status: &StreamStatus) -> Value {
    let mut value = publisher(status);
    value["objects"] = json!(status.blocks);
    value
}

/// What is the same of whoever publishes.
fn publisher(status: &StreamStatus) -> Value {
    let passed = status.tally.met();
    let passed: Map<String, Value> = passed
        .map(|(oddity, count)| (oddity.name().to_owned(), json!(count)))
        .collect();
    json!({
        "connected": status.is_connected,
        "sequence": status.sequence,
        "sentAt": status.sent_at.map(|seconds| seconds * 1_000.0),
        "messages": status.messages,
        "pending": status.pending,
        "gaps": status.gaps,
        "restarts": status.restarts,
        "floods": status.floods,
        "unreadable": status.unreadable,
        "disconnects": status.disconnects,
        "lastError": status.last_error,
        "passedOver": passed,
    })
}

pub(crate) fn evidence(evidence: &Evidence) -> Value {
    json!({
        "trust": trust(evidence.trust),
        "doubt": evidence.doubt.map(|doubt| doubt.name()),
        "cause": evidence.cause.map(|cause| cause.name()),
        "since": evidence.since.0 as f64 / 1_000.0,
    })
}

/// A receipt as JSON, with names.
pub(crate) fn receipt_value(core: &Scheduler, receipt: &Receipt) -> Value {
    let rows: Vec<Value> = receipt
        .candidates
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let mut value = candidate(core, row);
            value["chosen"] = json!(index == receipt.chosen);
            value
        })
        .collect();
    let chosen = receipt.chosen();
    json!({
        "id": receipt.id.to_string(),
        "at": receipt.at.0 as f64 / 1_000.0,
        "reservation": receipt.reservation.0,
        "session": receipt.session_name,
        "branch": receipt.program,
        "target": target_name(core, receipt.target),
        "worker": chosen.map(|row| worker_name(core, row.worker)),
        "detour": receipt.is_detour,
        "moved": receipt.is_moved,
        "lock": lock(&receipt.lock),
        "model": receipt.model.as_deref().map(|note| choice::value(core, note)),
        "admission": admission(core, receipt),
        "affinity": receipt.affinity.map(|note| affinity(core, note)),
        "followed": receipt.followed.map(followed),
        "prompt": prompt(receipt),
        "predictedCachedTokens": chosen.map_or(0, Candidate::cached_tokens),
        "trust": trust(receipt.prompt.trust),
        "evidence": evidence(&receipt.prompt.evidence),
        "candidates": rows,
        "eligible": receipt.eligible,
        "weights": weights(receipt),
        "outcome": outcome(&receipt.ending),
    })
}

fn prompt(receipt: &Receipt) -> Value {
    let prompt = &receipt.prompt;
    json!({
        "form": if prompt.is_tokens { "tokens" } else { "text" },
        "origin": prompt.origin.name(),
        "tokens": prompt.tokens,
        "exactTokens": prompt.exact_tokens,
        "blocks": prompt.blocks,
        "unitTokens": prompt.unit_tokens,
        "volatile": prompt.volatile.map(|volatile| json!({
            "segment": volatile.segment,
            "atToken": volatile.at_token,
            "reason": "this part of the prompt differs per conversation, so conversations can share \
                       no more of a cache than what stands before it",
        })),
    })
}

fn weights(receipt: &Receipt) -> Value {
    let weights = &receipt.weights;
    json!({
        "overlapCredit": weights.overlap_credit,
        "overlapDecay": weights.credit_decay,
        "prefillScale": weights.prefill_scale,
        "requestWeight": weights.request_weight,
        "queuePatience": receipt.prompt.patience,
        "hostCredit": weights.host_credit,
        "diskCredit": weights.disk_credit,
        "poolCredit": weights.pool_credit,
        "temperature": receipt.prompt.temperature,
        "draw": receipt.prompt.draw,
    })
}

fn candidate(core: &Scheduler, row: &Candidate) -> Value {
    json!({
        "worker": worker_name(core, row.worker),
        "cost": row.cost,
        "overlapTokens": row.overlap_tokens,
        "hostTokens": row.host_tokens,
        "diskTokens": row.disk_tokens,
        "poolTokens": row.pool_tokens,
        "rank": row.rank,
        "prefillTokens": row.prefill_tokens,
        "activeTokens": row.active_tokens,
        "additionalTokens": row.additional_tokens,
        "requests": row.requests,
        "affinityTokens": row.affinity_tokens,
        "reliefTokens": row.relief_tokens,
        "prefillPace": row.pace.prefill(),
        "decodePace": row.pace.decode(),
    })
}

fn lock(note: &LockNote) -> Value {
    json!({
        "decided": match note.lock {
            Lock::Free => "free",
            Lock::ToolLoop => "tool-loop",
            Lock::ProviderState => "provider-state",
            Lock::Both => "both",
        },
        "unknownIds": note.unknown,
        "passedOver": note.passed_over,
        "escaped": note.breach == Breach::Escaped,
        "stripped": note.breach == Breach::Stripped,
    })
}

fn admission(core: &Scheduler, receipt: &Receipt) -> Value {
    let (verdict, held, worker) = match receipt.admission {
        AdmissionNote::Free => ("free", None, None),
        AdmissionNote::Kept(worker) => ("kept", None, Some(worker)),
        AdmissionNote::Placed(worker) => ("placed", None, Some(worker)),
        AdmissionNote::Held(held) => ("held", Some(held), None),
    };
    let refusals = receipt.refusals.iter();
    json!({
        "verdict": verdict,
        "heldMs": held.map_or(0.0, milliseconds),
        "worker": worker.map(|worker| worker_name(core, worker)),
        "queuedAt": Some(receipt.hold.place).filter(|&place| place > 0),
        "why": receipt.hold.why.map(|why| why.name()),
        "expectedMs": receipt.hold.expected.map(milliseconds),
        "refusals": refusals.map(|refusal| refused(core, refusal)).collect::<Vec<_>>(),
    })
}

/// What affinity had to do with a decision.
fn affinity(core: &Scheduler, note: AffinityNote) -> Value {
    json!({
        "worker": worker_name(core, note.worker),
        "tie": match note.tie {
            Tie::Own => "own",
            Tie::Parent => "parent",
        },
        "came": match note.came {
            Came::Stayed => "stayed",
            Came::Moved => "moved",
            Came::Cold => "cold",
            Came::Detour => "detour",
            Came::Left => "left",
        },
    })
}

/// The turn that another one has waited for.
fn followed(followed: Followed) -> Value {
    json!({
        "reservation": followed.leader.0,
        "tokens": followed.tokens,
        "ended": match followed.ended {
            FollowEnd::Waiting => "waiting",
            FollowEnd::Read => "read",
            FollowEnd::Failed => "failed",
            FollowEnd::Late => "late",
        },
    })
}

/// A worker whose sessions leave.
fn leaving(leaving: &Leaving) -> Value {
    json!({
        "sessions": match leaving.departure {
            Departure::Drain => None,
            Departure::Shed(sessions) => Some(sessions),
        },
        "moved": leaving.moved,
        "until": milliseconds(leaving.until),
    })
}

/// Why a worker did not take a turn when it began to wait.
fn refused(core: &Scheduler, refusal: &Refusal) -> Value {
    let worker = worker_name(core, refusal.worker);
    match refusal.why {
        Why::Refill => json!({ "worker": worker, "why": "refill" }),
        Why::Running { have, need } => json!({
            "worker": worker,
            "why": "running",
            "haveTokens": have,
            "needTokens": need,
        }),
        Why::Leases {
            have,
            need,
            next_end,
        } => json!({
            "worker": worker,
            "why": "leases",
            "haveTokens": have,
            "needTokens": need,
            "nextLeaseEnd": next_end.map(milliseconds),
        }),
        Why::MaxRunning { turns, most } => json!({
            "worker": worker,
            "why": "max-running",
            "turns": turns,
            "most": most,
        }),
        Why::MaxSessions {
            sessions,
            most,
            next_end,
        } => json!({
            "worker": worker,
            "why": "max-sessions",
            "sessions": sessions,
            "most": most,
            "nextIdleEnd": next_end.map(milliseconds),
        }),
    }
}

fn milliseconds(time: Micros) -> f64 {
    time.0 as f64 / 1_000.0
}

fn outcome(ending: &Ending) -> Value {
    match ending {
        Ending::Running => json!({ "state": "running" }),
        Ending::Cancelled => json!({ "state": "cancelled" }),
        Ending::Failed => json!({ "state": "failed" }),
        Ending::Rerouted => json!({ "state": "rerouted" }),
        Ending::Completed(reported) => json!({
            "state": "completed",
            "promptTokens": reported.prompt_tokens,
            "cachedTokens": reported.cached_tokens,
            "completionTokens": reported.completion_tokens,
        }),
    }
}

fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::None => "none",
        Trust::Predicted => "predicted",
        Trust::Exact => "exact",
        Trust::Degraded => "degraded",
    }
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Up => "up",
        Health::Draining => "draining",
        Health::Down => "down",
        Health::Limited => "limited",
        Health::Removed => "removed",
    }
}

fn worker_name(core: &Scheduler, id: WorkerId) -> &str {
    core.topology()
        .worker(id)
        .map_or("?", |worker| &worker.name)
}

pub(crate) fn target_name(core: &Scheduler, id: TargetId) -> &str {
    core.topology()
        .target(id)
        .map_or("?", |target| &target.name)
}
