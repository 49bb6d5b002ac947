//! The calls of a scheduler: read the arguments, call the core under the lock, write the answer.
//!
//! `now` is in microseconds since the Unix epoch; ids are numbers below 2^53. `out` is the caller's
//! array (see `out.rs`); every call that takes it fills in when to wake and what was settled.
use napi::bindgen_prelude::{External, Float64Array, Result};
use napi_derive::napi;

use warmpath_core::admission::Tool;
use warmpath_core::continuity::Reason;
use warmpath_core::receipt::{HoldReason, Reported};
use warmpath_core::scheduler::{Completion, Fault, derived_hash};
use warmpath_core::session::Phase;
use warmpath_core::{Micros, ReservationId, TargetId, WorkerId};

use crate::error::{Code, guard, invalid, refused};
use crate::feed::{IDLE_SLICE, TURN_SLICE};
use crate::frame::{Frame, answer_ids, text};
use crate::handle::{Handle, State, Wake, check};
use crate::journal::{Act, bare};
use crate::models::NewModel;
use crate::{out as slots, report};

/// Opens a scheduler. `wake` is called when another thread has settled a hold of this handle.
#[napi(ts_return_type = "SchedulerHandle")]
pub(crate) fn open_scheduler(
    options: String,
    #[napi(ts_arg_type = "() => void")] wake: Wake,
) -> Result<External<Handle>, Code> {
    guard(|| Handle::open(&options, wake).map(External::new))
}

/// Opens or joins the scheduler of that name in this process; the first caller's options count.
#[napi(ts_return_type = "SchedulerHandle")]
pub(crate) fn shared_scheduler(
    name: String,
    options: String,
    #[napi(ts_arg_type = "() => void")] wake: Wake,
) -> Result<External<Handle>, Code> {
    guard(|| Handle::join(name, &options, wake).map(External::new))
}

/// Refuses options as opening a scheduler with them would; opens nothing.
#[napi]
pub(crate) fn check_options(options: String) -> Result<(), Code> {
    guard(|| check(&options))
}

/// Ends this handle's holds; later turns are refused.
#[napi]
pub(crate) fn close_scheduler(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| handle.close(time(now), room(&mut out)?))
}

/// Items of a conversation fit into so many bits of what `recall_body` returns.
const ITEM_BITS: u32 = 21;

/// The arrays that conversations are in.
const MEMBERS: [&[u8]; 2] = [b"messages", b"input"];

/// Compares a body with the session's last one. `names`: tenant and session, back to back as UTF-8.
/// `member`: 0 for messages, 1 for input. Returns 0 when there is nothing to compare with; else a
/// number for the submit of this turn, times 2^21, and how many items need not be sent with it.
#[napi]
pub(crate) fn recall_body(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    names: &[u8],
    tenant_bytes: u32,
    body: &[u8],
    member: u32,
) -> Result<f64, Code> {
    guard(|| {
        let names = names.split_at_checked(tenant_bytes as usize);
        let (tenant, session) = names.ok_or_else(|| invalid("names are shorter than they say"))?;
        let (tenant, session) = (text("tenant", tenant)?, text("session", session)?);
        let member = MEMBERS
            .get(member as usize)
            .ok_or_else(|| invalid("member is 0 for messages or 1 for input"))?;
        Ok(handle.change(|state| {
            let recalled = state.core.recall(tenant, session, body, member);
            let recalled = recalled.filter(|recalled| recalled.items() < 1 << ITEM_BITS);
            recalled.map_or(0.0, |recalled| {
                let items = recalled.items();
                let ticket = state.keep_recalled(recalled);
                f64::from(ticket) * f64::from(1 << ITEM_BITS) + items as f64
            })
        }))
    })
}

/// Takes a turn in. Returns 0 for go, 1 for hold, 2 when it must come again with all of its text.
#[napi]
pub(crate) fn submit_turn(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    head: &[u32],
    ids: &[u8],
    prompt: &[u8],
    mut out: Float64Array,
) -> Result<u32, Code> {
    guard(|| {
        handle.check_open()?;
        let frame = Frame { head, ids, prompt };
        let out = room(&mut out)?;
        let mut decision = [0.0; slots::SETTLED];
        let verdict = handle.call(out, |state, mailbox| {
            state.hear(time(now), TURN_SLICE);
            let ticket = frame.ticket();
            let recalled = ticket.and_then(|ticket| state.take_recalled(ticket));
            if ticket.is_some() && recalled.is_none() {
                return Ok(slots::AGAIN);
            }
            let State {
                core,
                lists,
                settled,
                journal,
                ..
            } = state;
            let turn = frame.read(lists, recalled.as_ref())?;
            let submitted = core.submit(time(now), &turn, settled);
            if let Some(journal) = journal {
                let taken = submitted.as_ref().ok();
                let known = (taken.map(|s| s.reservation), taken.and_then(|s| s.derived));
                journal.submitted(time(now), &frame, known, core);
            }
            let submitted = match submitted {
                Err(error) if error.is_not_recalled() => return Ok(slots::AGAIN),
                submitted => submitted.map_err(|e| refused(&e))?,
            };
            state.hold(submitted.reservation, mailbox);
            Ok(slots::submitted(&state.core, &submitted, &mut decision))
        })?;
        out[4..slots::SETTLED].copy_from_slice(&decision[4..]);
        Ok(verdict)
    })
}

/// Tokens of a turn's prompt as its first target is believed to count them.
#[napi]
pub(crate) fn prompt_tokens(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    head: &[u32],
    ids: &[u8],
    prompt: &[u8],
) -> Result<u32, Code> {
    guard(|| {
        let frame = Frame { head, ids, prompt };
        handle.change(|state| {
            let State { core, lists, .. } = state;
            let turn = frame.read(lists, None)?;
            core.prompt_tokens(&turn).map_err(|e| refused(&e))
        })
    })
}

/// Moves a turn that has failed safely to the next candidate; where the fault lasts, its session too.
#[napi]
pub(crate) fn reroute_turn(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    reservation: f64,
    lasts: bool,
    mut out: Float64Array,
) -> Result<(), Code> {
    let id = reservation_id(reservation)?;
    let fault = match lasts {
        true => Fault::Lasting,
        false => Fault::Passing,
    };
    let mut decision = [0.0; slots::SETTLED];
    settling(handle, &mut out, |state| {
        state.note(time(now), || Act::Reroute { turn: id.0, lasts });
        let State { core, settled, .. } = state;
        let placement = core.reroute(time(now), id, fault, settled);
        let placement = placement.map_err(|e| refused(&e))?;
        slots::placed(core, id, &placement, &mut decision);
        Ok(())
    })?;
    slots::copy_placed(&decision, room(&mut out)?);
    Ok(())
}

/// The first token of the answer has come.
#[napi]
pub(crate) fn first_token(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    reservation: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    let id = reservation_id(reservation)?;
    settling(handle, &mut out, |state| {
        state.note(time(now), || Act::FirstToken { turn: id.0 });
        let State { core, settled, .. } = state;
        core.first_token(time(now), id, settled);
        Ok(())
    })
}

/// The worker that answers the turn says what tokens its prompt is. What that changes is what engines'
/// events are found by, and these are in no journal either.
#[napi]
pub(crate) fn learn_tokens(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    reservation: f64,
    tokens: &[u32],
) -> Result<(), Code> {
    guard(|| {
        let id = reservation_id(reservation)?;
        handle.change(|state| state.core.learn_tokens(time(now), id, tokens));
        Ok(())
    })
}

/// The answer has come to its end. `usage`: prompt, cached and completion tokens and whether the
/// model has ended its turn (1) or left tool calls open (0), each -1 when unknown. Returns false
/// when the turn had ended before.
#[napi]
pub(crate) fn complete_turn(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    reservation: f64,
    usage: &[f64],
    lengths: &[u32],
    bytes: &[u8],
    mut out: Float64Array,
) -> Result<bool, Code> {
    guard(|| {
        let id = reservation_id(reservation)?;
        let &[prompt, cached, completion, finished] = usage else {
            return Err(invalid("usage needs 4 numbers"));
        };
        let (tool_calls, state_ids) = answer_ids(lengths, bytes)?;
        let completion = Completion {
            reported: Reported {
                prompt_tokens: known(prompt),
                cached_tokens: known(cached),
                completion_tokens: known(completion),
            },
            phase: match finished {
                0.0 => Some(Phase::Acting),
                1.0 => Some(Phase::Reasoning),
                _ => None,
            },
            tool_calls,
            state: state_ids,
        };
        handle.call(room(&mut out)?, |state, _| {
            if let Some(journal) = &mut state.journal {
                journal.completed(time(now), id, &completion);
            }
            let State { core, settled, .. } = state;
            let found = core.complete(time(now), id, &completion, settled);
            state.drop_holder(id);
            Ok(found.is_ended())
        })
    })
}

/// The turn will not be answered; `failed`: because the upstream did. Returns false when it had ended before.
#[napi]
pub(crate) fn cancel_turn(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    reservation: f64,
    failed: bool,
    mut out: Float64Array,
) -> Result<bool, Code> {
    guard(|| {
        let id = reservation_id(reservation)?;
        handle.call(room(&mut out)?, |state, _| {
            state.note(time(now), || Act::Cancel { turn: id.0 });
            let State { core, settled, .. } = state;
            let found = match failed {
                true => core.fail(time(now), id, settled),
                false => core.cancel(time(now), id, settled),
            };
            state.drop_holder(id);
            Ok(found.is_ended())
        })
    })
}

/// Runs the timers that are due and empties the mailbox.
#[napi]
pub(crate) fn poll_scheduler(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            state.hear(time(now), IDLE_SLICE);
            state.advance(time(now));
            Ok(())
        })
    })
}

/// How a turn waits at the moment, into the first four numbers of `out`: its place among those that
/// wait for the same, from 1 (0: nobody says); what for, by the number in `hold_reasons`; how much longer
/// that should take, in microseconds (-1: nobody knows); in which of `hold_classes` (-1: there are none).
/// False when it is not held.
#[napi]
pub(crate) fn hold_state(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    reservation: f64,
    mut out: Float64Array,
) -> Result<bool, Code> {
    guard(|| {
        let id = reservation_id(reservation)?;
        let held = handle.look(|state| state.core.held(id));
        let out = room(&mut out)?;
        if let Some(held) = held {
            out[0] = f64::from(held.place);
            out[1] = f64::from(held.why as u8);
            out[2] = held.expected.map_or(-1.0, |expected| expected.0 as f64);
            out[3] = held.class.map_or(-1.0, |class| class as f64);
        }
        Ok(held.is_some())
    })
}

/// The classes that turns wait in, each at its number.
#[napi]
pub(crate) fn hold_classes(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<Vec<String>, Code> {
    guard(|| {
        Ok(handle.look(|state| {
            let classes = state.core.queue_classes().into_iter();
            classes.map(|class| class.name.to_owned()).collect()
        }))
    })
}

/// The reasons of `hold_state`, each at its number.
#[napi]
pub(crate) fn hold_reasons() -> Vec<&'static str> {
    HoldReason::ALL.iter().map(|why| why.name()).collect()
}

/// A tool of a session has begun, for about `expected` microseconds (-1: nobody knows), or ended.
#[napi]
pub(crate) fn tell_tool(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    tenant: String,
    session: String,
    ended: bool,
    expected: f64,
    mut out: Float64Array,
) -> Result<(), Code> {
    let tool = match ended {
        true => Tool::Ended,
        false => Tool::Started {
            expected: known_u64(expected).map(Micros),
        },
    };
    settling(handle, &mut out, |state| {
        if let Some(journal) = &mut state.journal {
            let derived = derived_hash(&session);
            journal.tool_told(time(now), (&tenant, &session), derived, tool);
        }
        let State { core, settled, .. } = state;
        core.tool(time(now), (&tenant, &session), tool, settled);
        Ok(())
    })
}

/// What has happened so far, as JSON.
#[napi]
pub(crate) fn counts(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<String, Code> {
    guard(|| Ok(handle.look(report::counts)))
}

/// Every worker that could take the turn now, the cheapest first, as JSON.
#[napi]
pub(crate) fn candidates(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    head: &[u32],
    ids: &[u8],
    prompt: &[u8],
    mut out: Float64Array,
) -> Result<String, Code> {
    guard(|| {
        let frame = Frame { head, ids, prompt };
        handle.call(room(&mut out)?, |state, _| {
            state.hear(time(now), TURN_SLICE);
            state.advance(time(now));
            let State {
                core,
                lists,
                settled,
                ..
            } = state;
            let turn = frame.read(lists, None)?;
            let (target, rows) = core
                .candidates(time(now), &turn, settled)
                .map_err(|e| refused(&e))?;
            Ok(report::candidates(core, target, &rows))
        })
    })
}

/// A worker's cache has been emptied by whoever calls; nothing of it counts from now on.
#[napi]
pub(crate) fn reset_cache(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    worker: u32,
    mut out: Float64Array,
) -> Result<(), Code> {
    guard(|| {
        handle.call(room(&mut out)?, |state, _| {
            // What the engine had said before is not to come after.
            state.hear(time(now), usize::MAX);
            state.note(time(now), || Act::ResetCache { worker });
            let reset = state.core.reset_cache(time(now), WorkerId(worker));
            reset.map_err(|e| refused(&e))
        })
    })
}

/// Forgets a session.
#[napi]
pub(crate) fn end_session(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
    tenant: String,
    session: String,
    mut out: Float64Array,
) -> Result<(), Code> {
    settling(handle, &mut out, |state| {
        if let Some(journal) = &mut state.journal {
            let derived = derived_hash(&session);
            journal.session_ended(time(now), (&tenant, &session), derived);
        }
        let State { core, settled, .. } = state;
        core.end_session(time(now), &tenant, &session, settled);
        Ok(())
    })
}

/// The target and the worker that keep a piece of provider state; null when nobody is known to.
#[napi]
pub(crate) fn state_owner(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    tenant: String,
    state_id: String,
) -> Result<Option<Vec<u32>>, Code> {
    guard(|| {
        let owner = handle.look(|state| state.core.state_owner(&tenant, state_id.as_bytes()));
        Ok(owner.map(|owner| vec![owner.target.0, owner.worker.0]))
    })
}

/// The target and the worker that issued a tool call; null when nobody is known to.
#[napi]
pub(crate) fn tool_owner(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    tenant: String,
    call: String,
) -> Result<Option<Vec<u32>>, Code> {
    guard(|| {
        let owner = handle.look(|state| state.core.tool_owner(&tenant, call.as_bytes()));
        Ok(owner.map(|owner| vec![owner.target.0, owner.worker.0]))
    })
}

/// Says what a target's model is and costs, as JSON. Takes effect with the next turn.
#[napi]
pub(crate) fn set_model(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    target: u32,
    model: String,
) -> Result<(), Code> {
    guard(|| {
        let card = bare(&model)?;
        let model = NewModel::parse(&model)?;
        handle.change(|state| {
            let now = state.core.status().now;
            state.note(now, || Act::SetModel {
                target,
                model: card,
            });
            let set = state.core.set_model(TargetId(target), model);
            set.map_err(|e| refused(&e))
        })
    })
}

/// The fleet, as JSON.
#[napi]
pub(crate) fn topology(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<String, Code> {
    guard(|| Ok(handle.look(report::topology)))
}

/// A receipt, as JSON; null when it has left the ring or never was.
#[napi]
pub(crate) fn receipt(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    id: f64,
) -> Result<Option<String>, Code> {
    guard(|| Ok(known_u64(id).and_then(|id| handle.look(|state| report::receipt(state, id)))))
}

/// The codes of docs/reasons.md, each at the number that `out` has for it.
#[napi]
pub(crate) fn reason_codes() -> Vec<&'static str> {
    Reason::ALL.iter().map(|reason| reason.code()).collect()
}

/// Figures for an operator, as JSON. Changes nothing: the core is not told the time.
#[napi]
pub(crate) fn status(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    now: f64,
) -> Result<String, Code> {
    guard(|| {
        let now = time(now);
        Ok(handle.look(|state| report::status(state, now)))
    })
}

/// Panics while it holds the scheduler's lock, as a fault of the core would: with it a test can show
/// that the process, the lock and the scheduler survive one.
#[napi]
pub(crate) fn provoke_panic(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
) -> Result<(), Code> {
    guard(|| handle.look(|_| panic!("provoked")))
}

/// Calls the core under the lock and delivers what that has settled.
fn settling<T>(
    handle: &External<Handle>,
    out: &mut Float64Array,
    f: impl FnOnce(&mut State) -> Result<T, Code>,
) -> Result<T, Code> {
    guard(|| handle.call(room(out)?, |state, _| f(state)))
}

/// The caller's array, long enough for the head, a decision and one settled hold.
pub(crate) fn room(out: &mut Float64Array) -> Result<&mut [f64], Code> {
    // SAFETY: JS is single-threaded and waits for this synchronous call, and no JS runs before the
    // slice is dropped, so nothing else views these bytes.
    let out = unsafe { out.as_mut() };
    if out.len() < slots::LEAST {
        return Err(invalid(format!("out needs {} elements", slots::LEAST)));
    }
    Ok(out)
}

/// A time from JS: not a number and negative ones are the start of time, and the core then takes
/// them as "no time has passed".
pub(crate) fn time(now: f64) -> Micros {
    Micros(known_u64(now).unwrap_or(0))
}

pub(crate) fn reservation_id(id: f64) -> Result<ReservationId, Code> {
    known_u64(id)
        .map(ReservationId)
        .ok_or_else(|| invalid("a reservation is a whole number"))
}

/// A token count from JS; what is no count is unknown, what is beyond 32 bits is the largest.
fn known(tokens: f64) -> Option<u32> {
    known_u64(tokens).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

pub(crate) fn known_u64(n: f64) -> Option<u64> {
    (n.is_finite() && n >= 0.0 && n.fract() == 0.0).then_some(n as u64)
}
