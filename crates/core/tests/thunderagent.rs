//! The ThunderAgent policy against recorded runs of the published controller.
//!
//! 45 runs with a virtual clock; after every step the whole visible state must be equal: programs,
//! released turns, sums and counts. A step without an expectation must change nothing.
#[allow(unreachable_pub, reason = "shared by several test programs")]
mod support;

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use warmpath_core::admission::{
    Begin, Kind, Phase, Release, Standing, ThunderAgent, ThunderAgentConfig,
};
use warmpath_core::{Micros, ProgramId, ReservationId, WorkerId};

#[derive(Deserialize)]
struct Run {
    case: u32,
    cfg: Settings,
    caps: Vec<(u32, u64)>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Settings {
    acting_weight: f64,
    buffer: u32,
    pause_target: f64,
    pause_threshold: f64,
    resume_hysteresis: f64,
    resume_timeout_s: f64,
    retention_s: f64,
    tau_s: f64,
}

#[derive(Deserialize)]
struct Step {
    op: Vec<Value>,
    s: Option<Value>,
}

fn points(fraction: f64) -> u32 {
    (fraction * 10_000.0).round() as u32
}

fn seconds(seconds: f64) -> Micros {
    Micros((seconds * 1e6) as u64)
}

impl Settings {
    fn config(&self) -> ThunderAgentConfig {
        let pause = points(self.pause_threshold);
        ThunderAgentConfig {
            pause,
            target: points(self.pause_target),
            resume: pause.saturating_sub(points(self.resume_hysteresis)),
            buffer_tokens: self.buffer,
            acting_weight: points(self.acting_weight),
            acting_half_life: seconds(self.tau_s),
            resume_timeout: seconds(self.resume_timeout_s),
            retention: seconds(self.retention_s),
            ..ThunderAgentConfig::default()
        }
    }
}

/// The number in a recorded name such as `r12`.
fn ticket(name: &Value) -> ReservationId {
    let digits = name.as_str().and_then(|name| name.strip_prefix('r'));
    ReservationId(digits.expect("a request").parse().expect("a number"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn worker(value: &Value) -> Option<WorkerId> {
    value.as_u64().map(|id| WorkerId(id as u32))
}

/// How ticks reach the policy.
#[derive(Clone, Copy, PartialEq)]
enum Ticks {
    /// Every recorded one.
    All,
    /// Only those that it asks for.
    Asked,
}

struct Player {
    policy: ThunderAgent,
    capacity: BTreeMap<u32, u64>,
    ticks: Ticks,
    skipped: usize,
}

impl Player {
    fn new(run: &Run, ticks: Ticks) -> Self {
        let mut policy = ThunderAgent::new(run.cfg.config()).expect("settings");
        let all: Vec<_> = run.caps.iter().collect();
        let workers: Vec<_> = all.iter().map(|&&(w, c)| (WorkerId(w), Some(c))).collect();
        policy.set_workers(Micros(0), &workers);
        Self {
            policy,
            capacity: run.caps.iter().copied().collect(),
            ticks,
            skipped: 0,
        }
    }

    fn play(&mut self, op: &[Value], out: &mut Vec<Release>) {
        let now = Micros::from_millis(number(&op[1]));
        let policy = &mut self.policy;
        match op[0].as_str().expect("an operation") {
            "begin" => {
                let begin = Begin {
                    ticket: ticket(&op[2]),
                    claimant: Default::default(),
                    program: ProgramId(number(&op[3])),
                    prompt_tokens: number(&op[4]) as u32,
                    kind: if op[5] == true {
                        Kind::Final
                    } else {
                        Kind::Turn
                    },
                    pin: worker(&op[6]),
                };
                policy.begin(now, begin, out);
            }
            "sent" => policy.sent(now, ticket(&op[2]), worker(&op[3]).expect("a worker")),
            "progress" => policy.progress(now, ticket(&op[2]), number(&op[3]) as u32),
            "complete" => {
                let tokens = op[3].as_u64().map(|n| n as u32);
                policy.complete(now, ticket(&op[2]), tokens, out);
            }
            "cancel" => policy.cancel(now, ticket(&op[2]), out),
            "workers" => {
                let ids = op[2].as_array().expect("a list").iter();
                let live: Vec<_> = ids
                    .map(|id| (number(id) as u32, self.capacity[&(number(id) as u32)]))
                    .map(|(id, capacity)| (WorkerId(id), Some(capacity)))
                    .collect();
                policy.set_workers(now, &live);
            }
            "tick" => {
                let before = policy.counters().forced;
                match self.ticks {
                    Ticks::All => policy.tick(now, out),
                    Ticks::Asked => {
                        let asked = policy.next_wake().is_some_and(|at| at <= now);
                        self.skipped += usize::from(!asked);
                        policy.advance(now, out);
                    }
                }
                assert_eq!(policy.counters().forced - before, number(&op[2]));
            }
            other => panic!("unknown operation {other}"),
        }
    }

    /// The state in the form of the recording.
    fn picture(&self) -> Value {
        let policy = &self.policy;
        let id = |worker: Option<WorkerId>| worker.map(|worker| worker.0);
        let mut programs: Vec<(String, Value)> = policy
            .programs()
            .into_iter()
            .map(|(program, s)| {
                let name = format!("s{}", program.0);
                let phase = if s.phase == Phase::Reasoning {
                    "r"
                } else {
                    "a"
                };
                let standing = if s.standing == Standing::Active {
                    "a"
                } else {
                    "p"
                };
                let marked = u8::from(s.marked);
                let row = json!([
                    name,
                    phase,
                    standing,
                    id(s.worker),
                    s.tokens,
                    s.steps,
                    marked
                ]);
                (name, row)
            })
            .collect();
        programs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut released: Vec<(String, Value)> = policy
            .released()
            .into_iter()
            .map(|(ticket, worker)| {
                let name = format!("r{}", ticket.0);
                (name.clone(), json!([name, id(worker)]))
            })
            .collect();
        released.sort_by(|a, b| a.0.cmp(&b.0));
        let used: Vec<_> = policy
            .charges()
            .map(|(w, used)| json!([w.0, used]))
            .collect();
        let rows =
            |list: Vec<(String, Value)>| list.into_iter().map(|(_, v)| v).collect::<Vec<_>>();
        let counts = [
            programs.len(),
            policy.paused(),
            policy.marked(),
            policy.waiting(),
            policy.tracked(),
        ];
        json!({ "p": rows(programs), "rel": rows(released), "used": used, "t": counts })
    }
}

fn replay(ticks: Ticks) -> usize {
    let runs: Vec<Run> = support::golden("thunderagent");
    assert_eq!(runs.len(), 45);
    let mut skipped = 0;
    for run in &runs {
        let mut player = Player::new(run, ticks);
        let mut expected = player.picture();
        for (index, step) in run.steps.iter().enumerate() {
            let mut out = Vec::new();
            let before = player.policy.released();
            player.play(&step.op, &mut out);
            if let Some(state) = &step.s {
                expected = state.clone();
            }
            let picture = player.picture();
            assert_eq!(
                picture, expected,
                "{}/{index} after {:?}",
                run.case, step.op
            );
            let mut news = player.policy.released();
            news.retain(|(ticket, _)| before.iter().all(|(known, _)| known != ticket));
            let mut told: Vec<_> = out.iter().map(|r| (r.ticket, r.worker)).collect();
            told.sort_unstable();
            news.sort_unstable();
            assert_eq!(told, news, "{}/{index}: releases", run.case);
        }
        skipped += player.skipped;
    }
    skipped
}

#[test]
fn every_step_of_every_recorded_run_is_equal() {
    replay(Ticks::All);
}

#[test]
fn ticks_that_are_not_asked_for_would_have_changed_nothing() {
    assert!(replay(Ticks::Asked) > 0);
}
