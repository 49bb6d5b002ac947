//! The calls that change the fleet of a scheduler that runs.
//!
//! Groups are only ever added: one that nothing belongs to any more costs an empty row.
use napi::bindgen_prelude::{External, Float64Array, Result};
use napi_derive::napi;

use warmpath_core::load::Untracked;
use warmpath_core::scheduler::{Departure, Health};
use warmpath_core::{GroupId, TargetId, WorkerId};
use warmpath_feed::Whose;

use crate::error::{Code, guard, invalid, refused};
use crate::feed::IDLE_SLICE;
use crate::handle::{Handle, State};
use crate::journal::{Act, bare};
use crate::options::{Group, NewTarget, NewWorker};
use crate::report::disagreement;
use crate::scheduler::{known_u64, room, time};

/// Adds an empty group (JSON). Returns its number.
#[napi]
pub(crate) fn add_group(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    group: String,
) -> Result<u32, Code> {
    guard(|| {
        let options = Group::parse(&group)?.options();
        let kept = bare(&group)?;
        let added = handle.change(|state| {
            state.note(time(now), || Act::AddGroup { options: kept });
            state.core.add_group(time(now), options)
        });
        Ok(added.map_err(|e| refused(&e))?.0)
    })
}

/// Adds a target (JSON). Returns its number.
#[napi]
pub(crate) fn add_target(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    target: String,
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        let kept = bare(&target)?;
        let target = NewTarget::parse(&target)?;
        handle.call(room(&mut out)?, |state, _| {
            let now = state.core.status().now;
            state.note(now, || Act::AddTarget { options: kept });
            state.add_target(target)
        })
    })
}

/// Gives a target what another one of its name and group (JSON) says of its model, and its detail.
#[napi]
pub(crate) fn revise_target(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    target: u32,
    revised: String,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        let kept = bare(&revised)?;
        let revised = NewTarget::parse(&revised)?;
        handle.call(room(&mut out)?, |state, _| {
            let now = state.core.status().now;
            state.note(now, || Act::ReviseTarget {
                target,
                options: kept,
            });
            state.revise_target(TargetId(target), revised)
        })
    })
}

/// Gives a target no new turns; its name is free.
#[napi]
pub(crate) fn remove_target(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    target: u32,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            let now = state.core.status().now;
            state.note(now, || Act::RemoveTarget { target });
            let removed = state.core.remove_target(TargetId(target));
            removed.map_err(|e| refused(&e))
        })
    })
}

/// Gives a worker another detail.
#[napi]
pub(crate) fn revise_worker(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    worker: u32,
    detail: String,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            state.revise_worker(WorkerId(worker), detail)
        })
    })
}

/// Sets how many tokens a worker's cache holds; absent when it is not known.
#[napi]
pub(crate) fn set_capacity(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    tokens: Option<f64>,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        let counted =
            |tokens| known_u64(tokens).ok_or_else(|| invalid("tokens are a whole number"));
        let capacity = tokens.map(counted).transpose()?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Capacity {
                worker,
                tokens: capacity,
            });
            let State { core, settled, .. } = state;
            let set = core.set_capacity(time(now), WorkerId(worker), capacity, settled);
            set.map_err(|e| refused(&e))
        })
    })
}

/// Says what a worker does that did not come through here: turns, and the tokens that they hold.
#[napi]
pub(crate) fn set_untracked(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    requests: u32,
    tokens: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        let tokens = known_u64(tokens).ok_or_else(|| invalid("tokens are a whole number"))?;
        let untracked = Untracked { requests, tokens };
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Untracked {
                worker,
                requests,
                tokens,
            });
            let State { core, settled, .. } = state;
            let set = core.set_untracked(time(now), WorkerId(worker), untracked, settled);
            set.map_err(|e| refused(&e))
        })
    })
}

/// What a worker whose events are asked for has handed out, or why it could not be asked. Returns how many
/// events of use were in it; null when nobody is asked (any more).
#[napi]
pub(crate) fn pulled_events(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    text: &[u8],
    failure: String,
    mut out: Float64Array,
) -> Result<Option<u32>, Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            let answer = match failure.as_str() {
                "" => Ok(text),
                why => Err(why),
            };
            let count = state.ear.pulled(worker, answer);
            state.hear(time(now), IDLE_SLICE);
            Ok(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
        })
    })
}

/// Where the prompts and the events of a group differ, as JSON; null where they do not.
#[napi]
pub(crate) fn group_disagreement(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    group: u32,
) -> Result<Option<String>, Code> {
    guard(|| {
        Ok(handle.look(|state| {
            let (id, found) = state.core.disagreement(GroupId(group))?;
            let worker = state.core.topology().worker(id).ok()?;
            let mut value = disagreement(&found);
            value["worker"] = worker.name.as_str().into();
            Some(value.to_string())
        }))
    })
}

/// Turns in flight on a worker, the tokens that they hold, and its capacity or -1; null when it is not there.
#[napi]
pub(crate) fn worker_load(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    worker: u32,
) -> Result<Option<Vec<f64>>, Code> {
    guard(|| {
        Ok(handle.look(|state| {
            let (id, core) = (WorkerId(worker), &state.core);
            let capacity = core.topology().worker(id).ok()?.capacity_tokens;
            let load = core.load().load(id)?;
            let capacity = capacity.map_or(-1.0, |tokens| tokens as f64);
            let (turns, tokens) = (f64::from(load.requests), load.block_tokens as f64);
            Some(vec![turns, tokens, capacity])
        }))
    })
}

/// Puts a worker (JSON) in the place of one that is there, under its name. Returns its number.
#[napi]
pub(crate) fn replace_worker(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    old: u32,
    worker: String,
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        let kept = bare(&worker)?;
        let worker = NewWorker::parse(&worker)?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::ReplaceWorker {
                worker: old,
                options: kept,
            });
            state.replace_worker(time(now), WorkerId(old), worker)
        })
    })
}

/// Adds a worker (JSON). Returns its number.
#[napi]
pub(crate) fn add_worker(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: String,
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        let kept = bare(&worker)?;
        let worker = NewWorker::parse(&worker)?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::AddWorker { options: kept });
            state.add_worker(time(now), worker)
        })
    })
}

/// Sets whether a worker takes turns: 0 up, 1 draining, 2 down, 3 removed for good, 4 limited.
#[napi]
pub(crate) fn set_health(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    health: u32,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        let number = health;
        let health = health_of(health)?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Health {
                worker,
                health: number,
            });
            let State { core, settled, .. } = state;
            let set = core.set_health(time(now), WorkerId(worker), health, settled);
            set.map_err(|e| refused(&e))?;
            if health == Health::Removed {
                state.ear.deafen(Whose::Worker(worker));
            }
            Ok(())
        })
    })
}

/// Has a worker give its sessions away until a time: so many of them, or, for 0, all, and then it drains.
#[napi]
pub(crate) fn depart_worker(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    sessions: u32,
    until: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        let (departure, until) = (departure_of(sessions), time(until));
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Depart {
                worker,
                sessions,
                until: until.0,
            });
            let State { core, settled, .. } = state;
            let departed = core.depart(time(now), WorkerId(worker), departure, until, settled);
            departed.map_err(|e| refused(&e))
        })
    })
}

/// So many sessions, or for 0 all.
pub(crate) fn departure_of(sessions: u32) -> Departure {
    match sessions {
        0 => Departure::Drain,
        sessions => Departure::Shed(sessions),
    }
}

/// By its number.
pub(crate) fn health_of(number: u32) -> Result<Health, Code> {
    match number {
        0 => Ok(Health::Up),
        1 => Ok(Health::Draining),
        2 => Ok(Health::Down),
        3 => Ok(Health::Removed),
        4 => Ok(Health::Limited),
        _ => Err(invalid(
            "health is 0 up, 1 draining, 2 down, 3 removed or 4 limited",
        )),
    }
}
