//! The published arithmetic against recorded orders of dequeue.
#[allow(unreachable_pub, reason = "shared with the tests outside")]
#[path = "../../../tests/support/mod.rs"]
mod fixture;

use serde::Deserialize;

use super::*;
use crate::admission::TenantKey;

#[derive(Deserialize)]
#[serde(tag = "k", rename_all = "lowercase")]
enum Row {
    Single {
        id: u32,
        policy: Policy,
        jobs: Vec<(f64, u32, u32, f64, i16)>,
        order: Vec<u64>,
    },
    Classes {
        id: u32,
        quantum: Vec<u32>,
        policy: Vec<Policy>,
        blocked: Vec<u8>,
        jobs: Vec<Job>,
        order: Vec<u64>,
        left: usize,
    },
}

/// Class, arrival, prompt, cached, jump, strict priority, the only worker.
type Job = (usize, f64, u32, u32, f64, i16, Option<u8>);

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    Fcfs,
    Wspt,
    Lcfs,
}

impl From<Policy> for Order {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Fcfs => Self::Fcfs,
            Policy::Wspt => Self::Wspt,
            Policy::Lcfs => Self::Lcfs,
        }
    }
}

/// A job of either kind: arrival in seconds, prompt, cached, jump in seconds.
fn ask(arrival: f64, prompt: u32, cached: u32, jump: f64) -> Ask {
    let micros = |seconds: f64| (seconds * 1e6).round();
    Ask {
        since: Micros(micros(arrival) as u64),
        tokens: prompt.saturating_sub(cached).max(1),
        jump: Priorities::Published.jump(micros(jump) as i64),
    }
}

fn whose(strict: i16) -> Claimant {
    Claimant {
        tenant: TenantKey::default(),
        priority: strict,
    }
}

fn published(classes: Vec<ClassConfig>, order: Order) -> Queue<Option<u8>> {
    let config = QueueConfig {
        order,
        priorities: Priorities::Published,
        max_age: None,
        classes,
    };
    Queue::new(config, &Weights::default())
}

/// Lets all go that may.
fn drain(queue: &mut Queue<Option<u8>>, open: &[Option<u8>]) -> Vec<u64> {
    let next = || {
        let ticket = queue.first(open)?;
        queue.serve(ticket, open);
        Some(ticket.0)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn every_recorded_order_is_equal() {
    let mut kinds = [0, 0];
    for row in fixture::golden::<Row>("queue") {
        match row {
            Row::Single {
                id,
                policy,
                jobs,
                order,
            } => {
                let mut queue = published(Vec::new(), policy.into());
                for (n, &(arrival, prompt, cached, jump, strict)) in jobs.iter().enumerate() {
                    let ask = ask(arrival, prompt, cached, jump);
                    queue.insert(ReservationId(n as u64), 0, whose(strict), ask, None);
                }
                assert_eq!(drain(&mut queue, &[None]), order, "single {id}");
                kinds[0] += 1;
            }
            Row::Classes {
                id,
                quantum,
                policy,
                blocked,
                jobs,
                order,
                left,
            } => {
                let classes = quantum.iter().zip(&policy).enumerate();
                let classes = classes.map(|(n, (&quantum, &policy))| ClassConfig {
                    name: n.to_string(),
                    quantum,
                    order: Some(policy.into()),
                    ..ClassConfig::default()
                });
                let mut queue = published(classes.collect(), Order::Fcfs);
                for (n, job) in jobs.iter().enumerate() {
                    let &(class, arrival, prompt, cached, jump, strict, exact) = job;
                    let ask = ask(arrival, prompt, cached, jump);
                    queue.insert(ReservationId(n as u64), class, whose(strict), ask, exact);
                }
                let lanes = [None, Some(0), Some(1), Some(2)].into_iter();
                let is_open = |lane: &Option<u8>| lane.is_none_or(|id| !blocked.contains(&id));
                let open: Vec<_> = lanes.filter(is_open).collect();
                assert_eq!(drain(&mut queue, &open), order, "classes {id}");
                assert_eq!(queue.len(), left, "classes {id}");
                kinds[1] += 1;
            }
        }
    }
    assert_eq!(kinds, [96, 48]);
}
