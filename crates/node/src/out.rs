//! The array that a call fills: where each number stands. JS reads the same places.

use warmpath_core::ReservationId;
use warmpath_core::continuity::{Breach, Lock};
use warmpath_core::receipt::Trust;
use warmpath_core::scheduler::{Outcome, Placement, Scheduler, Settled, Submitted, Verdict};

use crate::choice;

/// Where settled holds start; before it stand the common head and the decision.
pub(crate) const SETTLED: usize = 18;
/// Numbers of one settled hold.
pub(crate) const SETTLED_SLOTS: usize = 11;
/// The shortest array that a call accepts: one settled hold a call makes progress.
pub(crate) const LEAST: usize = SETTLED + SETTLED_SLOTS;

/// Where the decision starts.
const DECISION: usize = 4;
/// Where it says whether what cannot travel has to be taken out.
const STRIPPED: usize = 16;
/// What locks the turn.
const LOCK: usize = 17;
const NOBODY: f64 = -1.0;
/// What a submit returns when the text of the whole prompt is needed after all.
pub(crate) const AGAIN: u32 = 2;

/// Why the model answers: the number of the reason, times 2, and 1 if the session changes its model.
fn why(core: &Scheduler, go: &Placement) -> f64 {
    core.receipt(go.receipt).map_or(NOBODY, |receipt| {
        let (reason, is_switch) = choice::reason(receipt);
        f64::from(2 * reason as u8 + u8::from(is_switch))
    })
}

/// Writes the answer to a submit. Returns 0 for go, 1 for hold.
pub(crate) fn submitted(core: &Scheduler, submitted: &Submitted, out: &mut [f64]) -> u32 {
    let derived = submitted.derived.unwrap_or_default();
    out[13] = (derived >> 32) as f64;
    out[14] = (derived & 0xffff_ffff) as f64;
    out[15] = submitted.program.map_or(NOBODY, |program| program as f64);
    out[LOCK] = f64::from(match submitted.lock {
        Lock::Free => 0u8,
        Lock::ToolLoop => 1,
        Lock::ProviderState => 2,
        Lock::Both => 3,
    });
    out[DECISION] = submitted.reservation.0 as f64;
    out[DECISION + 1] = f64::from(submitted.target.0);
    out[DECISION + 5] = f64::from(submitted.prompt_tokens);
    match &submitted.verdict {
        Verdict::Go(go) => {
            placed(core, submitted.reservation, go, out);
            0
        }
        Verdict::Hold => {
            out[DECISION + 2] = NOBODY;
            out[DECISION + 3] = NOBODY;
            out[DECISION + 4] = NOBODY;
            out[DECISION + 6] = 0.0;
            out[DECISION + 7] = 0.0;
            out[DECISION + 8] = NOBODY;
            out[STRIPPED] = 0.0;
            1
        }
    }
}

/// Writes where a turn goes; leaves the length of its prompt as it stands.
pub(crate) fn placed(core: &Scheduler, id: ReservationId, go: &Placement, out: &mut [f64]) {
    out[DECISION] = id.0 as f64;
    out[DECISION + 1] = f64::from(go.target.0);
    out[DECISION + 2] = f64::from(go.worker.0);
    out[DECISION + 3] = rank(go);
    out[DECISION + 4] = go.receipt as f64;
    out[DECISION + 6] = f64::from(go.predicted_cached_tokens);
    out[DECISION + 7] = f64::from(match go.trust {
        Trust::None => 0u8,
        Trust::Predicted => 1,
        Trust::Exact => 2,
        Trust::Degraded => 3,
    });
    out[DECISION + 8] = why(core, go);
    out[STRIPPED] = stripped(go);
}

/// Copies what [`placed`] has written, and nothing else.
pub(crate) fn copy_placed(decision: &[f64; SETTLED], out: &mut [f64]) {
    out[DECISION..DECISION + 5].copy_from_slice(&decision[DECISION..DECISION + 5]);
    out[DECISION + 6..DECISION + 9].copy_from_slice(&decision[DECISION + 6..DECISION + 9]);
    out[STRIPPED] = decision[STRIPPED];
}

/// Whether what cannot travel has to be taken out of the turn.
fn stripped(go: &Placement) -> f64 {
    f64::from(u8::from(go.breach == Breach::Stripped))
}

/// The rank to ask for, if there is one.
fn rank(go: &Placement) -> f64 {
    go.rank.map_or(NOBODY, f64::from)
}

/// Writes one settled hold.
pub(crate) fn settled(core: &Scheduler, settled: &Settled, out: &mut [f64]) {
    let (code, go) = match &settled.outcome {
        Outcome::Go(go) => (0u8, Some(go)),
        Outcome::Closed => (2, None),
        Outcome::HoldLimit(_) => (3, None),
        Outcome::OwnerUnavailable => (4, None),
        Outcome::NoWorker => (5, None),
        Outcome::StateLost => (6, None),
    };
    let expected = match settled.outcome {
        Outcome::HoldLimit(expected) => expected,
        _ => None,
    };
    out.copy_from_slice(&[
        settled.reservation.0 as f64,
        f64::from(code),
        go.map_or(NOBODY, |go| f64::from(go.target.0)),
        go.map_or(NOBODY, |go| f64::from(go.worker.0)),
        go.map_or(NOBODY, rank),
        go.map_or(NOBODY, |go| go.receipt as f64),
        go.map_or(0.0, |go| f64::from(go.predicted_cached_tokens)),
        settled.held.0 as f64,
        go.map_or(NOBODY, |go| why(core, go)),
        go.map_or(0.0, stripped),
        expected.map_or(NOBODY, |expected| expected.0 as f64),
    ]);
}
