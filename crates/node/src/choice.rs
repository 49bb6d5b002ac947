//! A choice of model, as JSON: the question, the terms, and whether the receipt gives the same again.
use serde_json::{Value, json};

use warmpath_core::continuity::{
    Boundary, Breach, Decision, Grade, Lock, ModelNote, PolicyConfig, Reason, Row, Terms, Weighed,
};
use warmpath_core::receipt::Receipt;
use warmpath_core::scheduler::Scheduler;

use crate::report::target_name;

/// Why the model of a turn answers, and whether its session changes its model with it. A turn that is
/// locked goes back to whose it is, which is no switch, and neither is a detour: the session comes back.
pub(crate) fn reason(receipt: &Receipt) -> (Reason, bool) {
    let chosen = receipt.model.as_ref().map(|note| note.target());
    let is_elsewhere = chosen != Some(receipt.target);
    let by_policy = receipt.model.as_ref().map(|note| note.is_switch());
    match receipt.lock.breach {
        Breach::Escaped => return (Reason::Escaped, by_policy.unwrap_or(true)),
        Breach::Stripped => return (Reason::Stripped, by_policy.unwrap_or(true)),
        Breach::Kept => {}
    }
    match (&receipt.model, receipt.lock.lock) {
        (_, Lock::Free) if is_elsewhere && receipt.is_moved => (Reason::Moved, true),
        (_, Lock::Free) if is_elsewhere && receipt.is_detour => (Reason::Detour, false),
        (Some(note), _) => (note.decision.reason, note.is_switch()),
        (None, Lock::Free) => (Reason::Bound, false),
        (None, Lock::ProviderState) => (Reason::ProviderState, false),
        (None, Lock::ToolLoop | Lock::Both) => (Reason::ToolLoop, false),
    }
}

/// The part of a receipt that says why this model.
pub(crate) fn value(core: &Scheduler, note: &ModelNote) -> Value {
    let again = note.again();
    let rows: Vec<Value> = (0..note.rows.len()).map(|at| row(core, note, at)).collect();
    json!({
        "policy": policy(&note.policy),
        "reason": note.decision.reason.code(),
        "switched": note.is_switch(),
        "asked": target_name(core, note.targets[note.asked]),
        "rule": note.rule,
        "before": note.past.current.map(|row| target_name(core, note.targets[row])),
        "boundary": note.boundary.map(boundary),
        "promptTokens": note.prompt_tokens,
        "historyTokens": note.history_tokens,
        "turns": note.past.turns,
        "switches": note.past.switches,
        "rows": rows,
        "weighed": weighed(&note.decision),
        "again": {
            "target": target_name(core, note.targets[again.row]),
            "reason": again.reason.code(),
            "agrees": again == note.decision,
        },
        "shadow": note.shadow.as_ref().map(|(config, decision)| json!({
            "policy": policy(config),
            "target": target_name(core, note.targets[decision.row]),
            "reason": decision.reason.code(),
        })),
    })
}

/// One model with its terms; money in US dollars.
fn row(core: &Scheduler, note: &ModelNote, at: usize) -> Value {
    let Row { model, warm_tokens } = &note.rows[at];
    let prices = model.prices.map(|p| {
        json!({
            "input": p.input(),
            "cached": p.cached(),
            "write": p.write(),
            "output": p.output(),
        })
    });
    json!({
        "target": target_name(core, note.targets[at]),
        "chosen": at == note.decision.row,
        "grade": grade(model.grade),
        "quality": model.quality.get(),
        "warmTokens": warm_tokens,
        "price": prices,
        "terms": terms(&note.decision, at),
    })
}

fn terms(decision: &Decision, at: usize) -> Option<Value> {
    let Weighed::Lookahead(weighed) = &decision.weighed else {
        return None;
    };
    let row: &Terms = weighed.rows.get(at)?;
    Some(json!({
        "prompt": row.prompt.0,
        "coldTokens": row.cold_tokens,
        "answer": row.answer.0,
        "shortfall": row.shortfall,
        "later": row.later.0,
        "total": row.total(weighed.lambda).0,
        "allowed": row.is_allowed,
    }))
}

fn weighed(decision: &Decision) -> Value {
    match &decision.weighed {
        Weighed::Nothing => Value::Null,
        Weighed::Saar(terms) => json!({
            "gain": terms.gain,
            "cost": terms.cost,
            "mass": terms.mass,
            "warmth": terms.warmth,
            "multiplier": terms.multiplier,
        }),
        Weighed::Lookahead(terms) => json!({
            "lambda": terms.lambda,
            "fee": terms.fee.0,
            "lockNext": terms.lock_next,
            "expectedTurns": terms.expected_turns,
            "answerTokens": terms.answer_tokens,
            "epoch": terms.epoch,
        }),
    }
}

fn policy(config: &PolicyConfig) -> &'static str {
    match config {
        PolicyConfig::Bound => "bound",
        PolicyConfig::LocksOnly => "locks-only",
        PolicyConfig::Sticky => "sticky",
        PolicyConfig::SingleTurn => "single-turn",
        PolicyConfig::Constant(_) => "constant",
        PolicyConfig::Saar(_) => "saar",
        PolicyConfig::Lookahead(_) => "lookahead",
    }
}

fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Small => "small",
        Grade::Middle => "middle",
        Grade::Large => "large",
    }
}

fn boundary(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Idle => "idle",
        Boundary::Drift => "drift",
        Boundary::NewConversation => "new-conversation",
        Boundary::TooLong => "too-long",
    }
}
