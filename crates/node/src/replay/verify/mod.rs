//! Does a recorded trace of decisions decide the same again?
//!
//! A scheduler whose receipts are recorded whole also records what it was told ([`crate::journal`]). A
//! fresh one is told the same, and each decision that it makes is held against its receipt, term by term,
//! up to the first that differs. Where that cannot be done, it is said why, and each receipt is checked by
//! itself: its costs are computed again from its own terms, and the choice must be one of the best.
mod differ;
mod recorded;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hashbrown::HashSet;
use napi::bindgen_prelude::{AsyncTask, Result};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};

use self::recorded::{Recorded, Recording};
use warmpath_trace::Leniency;

use super::background::{Background, background};
use crate::error::{Code, guard, invalid};
use crate::journal::Act;
use crate::journal::again::{Again, Decided};

/// Which recordings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    paths: Vec<PathBuf>,
    /// Lines that cannot be read are missing, and no error.
    #[serde(default)]
    lenient: bool,
}

/// Why a decision was not made again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// The record has no steps.
    NoSteps,
    /// Steps of another version.
    OtherForm,
    /// Steps are missing before it.
    Missing,
    /// It follows from what engines told of their caches.
    Engines,
    /// It follows from what a snapshot held.
    Snapshot,
    /// It follows from prompts of which only a part came.
    Recalled,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Self::NoSteps => "no-steps",
            Self::OtherForm => "other-form",
            Self::Missing => "missing",
            Self::Engines => "engines",
            Self::Snapshot => "snapshot",
            Self::Recalled => "recalled",
        }
    }
}

/// A decision that came out otherwise.
struct Difference {
    request: String,
    session: Option<String>,
    what: String,
    recorded: Value,
    /// `None`: there is no such decision now.
    now: Option<Value>,
}

/// Where steps are missing.
struct Gap {
    /// The last request that was decided again before it.
    after: Option<String>,
    steps: u64,
}

/// What was checked so far.
#[derive(Default)]
struct Checked {
    /// Decisions made again.
    again: u64,
    /// Receipts checked by themselves, by why.
    alone: BTreeMap<Why, u64>,
    /// Of these, receipts that name no candidates.
    bare: u64,
    gaps: Vec<Gap>,
    difference: Option<Difference>,
}

/// Decides recorded decisions again, in the background. Options as JSON: `paths`, `lenient`. Returns what was checked
/// and the first difference, as JSON.
#[napi(ts_return_type = "Promise<string>")]
pub fn verify_decisions(options: String) -> Result<AsyncTask<Background<String>>, Code> {
    guard(|| {
        let request: Request =
            serde_json::from_str(&options).map_err(|e| invalid(format!("verify: {e}")))?;
        Ok(background(move || verify(&request)))
    })
}

fn verify(request: &Request) -> Result<String, Code> {
    let leniency = match request.lenient {
        true => Leniency::Lenient,
        false => Leniency::Strict,
    };
    let found = recorded::read(&request.paths, leniency)?;
    let of: usize = found.all.iter().map(|one| one.decisions.len()).sum();
    let schedulers = found.all.iter().filter(|one| !one.steps.is_empty()).count();
    let mut checked = Checked::default();
    for recording in found.all {
        checked.recording(recording)?;
        if checked.difference.is_some() {
            break;
        }
    }
    let alone: BTreeMap<_, _> = checked
        .alone
        .iter()
        .map(|(why, count)| (why.name(), count))
        .collect();
    let gaps = checked.gaps.iter();
    Ok(json!({
        "decisions": checked.again,
        "of": of,
        "schedulers": schedulers,
        "alone": alone,
        "withoutReceipt": found.without,
        "withoutCandidates": checked.bare,
        "passedOver": found.passed_over.files,
        "unreadable": found.passed_over.lines,
        "gaps": gaps
            .map(|gap| json!({ "after": gap.after, "steps": gap.steps }))
            .collect::<Vec<_>>(),
        "difference": checked.difference.map(|difference| json!({
            "request": difference.request,
            "session": difference.session,
            "what": difference.what,
            "recorded": difference.recorded,
            "now": difference.now,
        })),
    })
    .to_string())
}

impl Checked {
    /// One scheduler, from its start as far as its steps go without a gap.
    fn recording(&mut self, mut recording: Recording) -> Result<(), Code> {
        let rest = self.decide(&mut recording)?;
        let mut left: Vec<_> = recording.decisions.into_iter().collect();
        left.sort_unstable_by_key(|&(number, _)| number);
        for (_, recorded) in left {
            if self.difference.is_some() {
                break;
            }
            match rest {
                Some(why) => self.alone(&recorded, why),
                None => {
                    let what = "the decision: the turn did not go where this receipt says";
                    self.difference = Some(recorded.differs(what, None));
                }
            }
        }
        Ok(())
    }

    /// Makes decisions again, and takes them out. Returns why it did not go on to the end.
    fn decide(&mut self, recording: &mut Recording) -> Result<Option<Why>, Code> {
        let steps = std::mem::take(&mut recording.steps);
        let Some(first) = steps.first() else {
            return Ok(Some(Why::NoSteps));
        };
        if first.n > 0 {
            self.gaps.push(Gap {
                after: None,
                steps: first.n,
            });
            return Ok(Some(Why::Missing));
        }
        let Ok(Some(mut again)) = Again::start(first) else {
            return Ok(Some(Why::OtherForm));
        };
        let (mut last, mut after) = (0, None);
        let mut decided = HashSet::new();
        for step in &steps[1..] {
            if step.n != last + 1 {
                let steps = step.n - last - 1;
                self.gaps.push(Gap { after, steps });
                return Ok(Some(Why::Missing));
            }
            last = step.n;
            // What this version does not know may have changed anything.
            let Ok(all) = again.step(step) else {
                return Ok(Some(Why::OtherForm));
            };
            for made in all {
                decided.insert(made.turn);
                let Some(recorded) = take(recording, &made) else {
                    continue;
                };
                after = Some(recorded.request.clone());
                if again.is_told_of(made.turn) {
                    self.alone(&recorded, Why::Engines);
                } else {
                    self.compare(&recorded, made);
                }
                if self.difference.is_some() {
                    return Ok(None);
                }
            }
            match step.act {
                Act::Restored => return Ok(Some(Why::Snapshot)),
                Act::Recalled => return Ok(Some(Why::Recalled)),
                _ => {}
            }
        }
        // What engines told may have let other turns go, or let them go elsewhere.
        let told: Vec<u64> = recording
            .decisions
            .iter()
            .filter(|(_, recorded)| again.is_told_of(recorded.turn))
            .map(|(&number, _)| number)
            .collect();
        for number in told {
            if let Some(recorded) = recording.decisions.remove(&number) {
                self.alone(&recorded, Why::Engines);
            }
        }
        // A record may have come without the step that it was made after: its file was the last one.
        let is_beyond = |recorded: &Recorded| !decided.contains(&recorded.turn);
        match recording.decisions.values().all(is_beyond) {
            true => Ok(Some(Why::Missing)),
            false => Ok(None),
        }
    }

    fn compare(&mut self, recorded: &Recorded, made: Decided) {
        self.again += 1;
        let Some((_, now)) = made.receipt else {
            self.difference = Some(recorded.differs("the turn could go nowhere", None));
            return;
        };
        let what = match recorded.turn == made.turn {
            true => differ::first(&recorded.receipt(), &now),
            false => Some("which turn was decided on".to_owned()),
        };
        self.difference = what.map(|what| recorded.differs(&what, Some(now)));
    }

    /// Holds a receipt against its own terms.
    fn alone(&mut self, recorded: &Recorded, why: Why) {
        *self.alone.entry(why).or_default() += 1;
        let receipt = recorded.receipt();
        self.bare += u64::from(differ::rows(&receipt).is_empty());
        let recomputed = differ::recomputed(&receipt);
        self.difference = recomputed.map(|(what, now)| recorded.differs(&what, Some(now)));
    }
}

/// What was recorded of a decision that was made again. A turn that could go nowhere has no receipt: then
/// any of its own is one too many.
fn take(recording: &mut Recording, made: &Decided) -> Option<Recorded> {
    let decisions = &mut recording.decisions;
    let number = match &made.receipt {
        Some((number, _)) => *number,
        None => {
            let own = decisions
                .iter()
                .find(|(_, recorded)| recorded.turn == made.turn);
            *own?.0
        }
    };
    decisions.remove(&number)
}

impl Recorded {
    fn differs(&self, what: &str, now: Option<Value>) -> Difference {
        Difference {
            request: self.request.clone(),
            session: self.session.clone(),
            what: what.to_owned(),
            recorded: self.receipt(),
            now,
        }
    }
}
