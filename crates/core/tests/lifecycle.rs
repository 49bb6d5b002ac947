//! A turn's life under any order of events, against a model that only counts.
//!
//! Whatever comes in whatever order (late ends, double ends, lost workers, times that go backwards,
//! sessions that end in mid-turn), every hold is settled exactly once, every reservation ends exactly
//! once, and when all have ended nothing is left: no load, no waiting turn, no charge of a turn.
use std::collections::BTreeMap;

use proptest::prelude::*;
use warmpath_core::admission::{
    ClassConfig, GateConfig, LeaseConfig, Order, Priorities, QueueConfig, ThunderAgentConfig,
};
use warmpath_core::affinity::{AffinityConfig, Mode};
use warmpath_core::continuity::{ContinuityConfig, WhenDown};
use warmpath_core::prefix::Coverage;
use warmpath_core::receipt::Reported;
use warmpath_core::scheduler::{
    AdmissionConfig, Completion, Config, Departure, FanOutConfig, Fault, Found, GroupOptions,
    Health, Ids, Outcome, Prompt, Scheduler, Settled, Turn, TurnKind, Verdict, WorkerOptions,
};
use warmpath_core::session::Phase;
use warmpath_core::{Micros, ReservationId, TargetId, WorkerId};

const WORKERS: u32 = 4;

#[derive(Clone, Debug)]
enum Op {
    Submit {
        session: u8,
        blocks: u16,
        targets: u8,
        is_final: bool,
        answers: Option<u8>,
    },
    FirstToken(u8),
    Progress(u8, u32),
    Complete(u8, Option<u32>, bool, Option<u8>),
    Cancel(u8),
    Reroute(u8),
    Health(u8, u8),
    Advance(u32),
    Back(u32),
    EndSession(u8),
    /// A worker gives so many sessions away, 0 for all, within so many milliseconds.
    Depart(u8, u8, u32),
    /// A worker's cache is emptied.
    Reset(u8),
    /// A worker's cache has room for so many tokens from now on.
    Capacity(u8, u32),
}

/// What may happen to sessions' homes while no worker gives its sessions away.
fn home_op() -> impl Strategy<Value = Op> {
    let stays = |op: &Op| !matches!(op, Op::Depart(..) | Op::Health(..) | Op::Reroute(_));
    prop_oneof![
        8 => op().prop_filter("homes stay", stays).prop_map(|op| match op {
            // One that answers to its issuer waits for that.
            Op::Submit { session, blocks, is_final, .. } => Op::Submit {
                session: session % 3 + 1,
                blocks,
                targets: 0,
                is_final,
                answers: None,
            },
            other => other,
        }),
        1 => (0..2u8).prop_map(Op::Reset),
        1 => (0..2u8, 0..3_000u32).prop_map(|(worker, tokens)| Op::Capacity(worker, tokens)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let submit = (
        0..6u8,
        0..40u16,
        0..3u8,
        prop::bool::weighted(0.1),
        prop::option::of(0..4u8),
    )
        .prop_map(|(session, blocks, targets, is_final, answers)| Op::Submit {
            session,
            blocks,
            targets,
            is_final,
            answers,
        });
    prop_oneof![
        6 => submit,
        1 => any::<u8>().prop_map(Op::FirstToken),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(i, n)| Op::Progress(i, n)),
        4 => (any::<u8>(), any::<Option<u32>>(), any::<bool>(), prop::option::of(0..4u8))
            .prop_map(|(i, n, tools, call)| Op::Complete(i, n, tools, call)),
        2 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<u8>().prop_map(Op::Reroute),
        1 => (0..WORKERS as u8, 0..4u8).prop_map(|(w, h)| Op::Health(w, h)),
        2 => (0..20_000u32).prop_map(Op::Advance),
        1 => (0..60_000u32).prop_map(Op::Back),
        1 => (0..6u8).prop_map(Op::EndSession),
        1 => (0..WORKERS as u8, 0..3u8, 0..30_000u32).prop_map(|(w, n, ms)| Op::Depart(w, n, ms)),
    ]
}

/// Each order with each meaning of a priority, with and without classes.
fn queue() -> impl Strategy<Value = QueueConfig> {
    let order = prop::sample::select(vec![Order::Fcfs, Order::Wspt, Order::Lcfs]);
    let priorities = prop::sample::select(vec![
        Priorities::Strict,
        Priorities::HeadStart,
        Priorities::Published,
    ]);
    let age = prop::option::of(1..40u64);
    let classes = prop::option::of((1..2_000u32, prop::option::of(1..4u32)));
    (order, priorities, age, classes).prop_map(|(order, priorities, age, classes)| QueueConfig {
        order,
        priorities,
        max_age: age.map(Micros::from_secs),
        classes: classes.map_or_else(Vec::new, |(quantum, max_waiting)| {
            let short = ClassConfig {
                name: "short".to_owned(),
                quantum,
                max_waiting,
                max_tokens: Some(1_000),
                ..ClassConfig::default()
            };
            let low = ClassConfig {
                name: "low".to_owned(),
                order: Some(Order::Lcfs),
                priorities: (i16::MIN, -1),
                ..ClassConfig::default()
            };
            let rest = ClassConfig {
                name: "rest".to_owned(),
                max_waiting,
                ..ClassConfig::default()
            };
            vec![short, low, rest]
        }),
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Held,
    Running,
    Ended,
}

/// Half of the sessions are another tenant's.
fn tenant_of(session: u8) -> &'static str {
    if session.is_multiple_of(2) {
        ""
    } else {
        "other"
    }
}

/// The scheduler and what a caller would remember of it.
struct World {
    scheduler: Scheduler,
    settled: Vec<Settled>,
    lives: BTreeMap<ReservationId, Life>,
    now: u64,
    /// Whether turns wait for the owner of their lock.
    waits: bool,
    /// Whether all sessions begin alike.
    is_alike: bool,
    /// Turns that a worker may run at once.
    most: Option<u32>,
}

impl World {
    fn new(policy: AdmissionConfig, hold_limit: Option<Micros>) -> Self {
        Self::with(policy, hold_limit, WhenDown::Fail)
    }

    fn with(policy: AdmissionConfig, hold_limit: Option<Micros>, when_down: WhenDown) -> Self {
        let config = Config {
            admission: policy,
            hold_limit,
            continuity: ContinuityConfig {
                tool_owner_down: when_down,
                ..ContinuityConfig::default()
            },
            ..Config::default()
        };
        Self::of(config)
    }

    fn of(config: Config) -> Self {
        // A worker may be kept by sessions that do nothing for a while.
        let waits = config.continuity.tool_owner_down == WhenDown::Wait
            || config.gates.max_sessions.is_some();
        let most = config.gates.max_running;
        let mut scheduler = Scheduler::new(config).unwrap();
        let mut settled = Vec::new();
        for (name, workers) in [("m", ["a", "b"]), ("n", ["c", "d"])] {
            let group = scheduler
                .add_group(Micros(0), GroupOptions::default())
                .unwrap();
            scheduler.add_target(name, group).unwrap();
            for name in workers {
                let worker = WorkerOptions {
                    name: name.to_owned(),
                    group,
                    capacity_tokens: Some(3_000),
                };
                scheduler
                    .add_worker(Micros(0), worker, &mut settled)
                    .unwrap();
            }
        }
        Self {
            scheduler,
            settled,
            lives: BTreeMap::new(),
            now: 1_000_000,
            waits,
            is_alike: false,
            most,
        }
    }

    fn nth(&self, n: u8) -> Option<ReservationId> {
        let len = self.lives.len();
        (len > 0).then(|| *self.lives.keys().nth(usize::from(n) % len).unwrap())
    }

    fn apply(&mut self, op: &Op) {
        let now = Micros(self.now);
        match *op {
            Op::Submit { .. } => self.submit(op),
            Op::FirstToken(n) => {
                if let Some(id) = self.nth(n) {
                    self.scheduler.first_token(now, id, &mut self.settled);
                }
            }
            Op::Progress(n, tokens) => {
                if let Some(id) = self.nth(n) {
                    self.scheduler.progress(now, id, tokens, &mut self.settled);
                }
            }
            Op::Complete(n, tokens, tools, call) => self.complete(n, tokens, tools, call),
            Op::Cancel(n) => {
                if let Some(id) = self.nth(n) {
                    let found = self.scheduler.cancel(now, id, &mut self.settled);
                    self.end(id, found);
                }
            }
            Op::Reroute(n) => {
                if let Some(id) = self.nth(n) {
                    let moved = self
                        .scheduler
                        .reroute(now, id, Fault::Passing, &mut self.settled);
                    self.check_settled();
                    assert!(moved.is_err() || self.lives[&id] == Life::Running);
                }
            }
            Op::Health(worker, health) => {
                let health = [Health::Up, Health::Draining, Health::Down, Health::Removed]
                    [usize::from(health)];
                let id = WorkerId(u32::from(worker));
                let _ = self
                    .scheduler
                    .set_health(now, id, health, &mut self.settled);
            }
            Op::Advance(ms) => {
                self.now += u64::from(ms) * 1_000;
                self.scheduler.advance(Micros(self.now), &mut self.settled);
            }
            Op::Back(ms) => {
                let earlier = self.now.saturating_sub(u64::from(ms) * 1_000);
                self.scheduler.advance(Micros(earlier), &mut self.settled);
            }
            Op::Depart(worker, sessions, ms) => {
                let departure = match sessions {
                    0 => Departure::Drain,
                    sessions => Departure::Shed(sessions.into()),
                };
                let until = now.plus(Micros::from_millis(ms.into()));
                let id = WorkerId(u32::from(worker));
                let (core, settled) = (&mut self.scheduler, &mut self.settled);
                let _ = core.depart(now, id, departure, until, settled);
            }
            Op::Reset(worker) => {
                let id = WorkerId(u32::from(worker));
                let _ = self.scheduler.reset_cache(now, id);
            }
            Op::Capacity(worker, tokens) => {
                let (id, tokens) = (WorkerId(u32::from(worker)), Some(u64::from(tokens)));
                let (core, settled) = (&mut self.scheduler, &mut self.settled);
                let _ = core.set_capacity(now, id, tokens, settled);
            }
            Op::EndSession(session) => {
                let name = format!("s{session}");
                self.scheduler
                    .end_session(now, tenant_of(session), &name, &mut self.settled);
            }
        }
        self.check_settled();
    }

    fn submit(&mut self, op: &Op) {
        let &Op::Submit {
            session,
            blocks,
            targets,
            is_final,
            answers,
        } = op
        else {
            return;
        };
        let name = format!("s{session}");
        let hashes: Vec<u64> = (0..u64::from(blocks))
            .map(|i| {
                if self.is_alike {
                    i
                } else {
                    u64::from(session) * 1_000 + i
                }
            })
            .collect();
        let asked: &[TargetId] = match targets {
            0 => &[TargetId(0)],
            1 => &[TargetId(1)],
            _ => &[TargetId(0), TargetId(1)],
        };
        let answered = answers.map(|call| [call]);
        let turn = Turn {
            tenant: tenant_of(session),
            session: (session > 0).then_some(name.as_str()),
            parent: (session > 3).then_some("s1"),
            kind: if is_final {
                TurnKind::Final
            } else {
                TurnKind::Ordinary
            },
            priority: i16::from(session % 3) - 1,
            tool_results: Ids {
                bytes: answered.as_ref().map_or(&[], |id| id.as_slice()),
                lengths: if answers.is_some() { &[1] } else { &[] },
            },
            ..Turn::new(
                asked,
                Prompt::Hashes {
                    hashes: &hashes,
                    tokens: None,
                },
            )
        };
        let submitted = self
            .scheduler
            .submit(Micros(self.now), &turn, &mut self.settled);
        if let Ok(submitted) = submitted {
            let life = match submitted.verdict {
                Verdict::Go(_) => Life::Running,
                Verdict::Hold => Life::Held,
            };
            let before = self.lives.insert(submitted.reservation, life);
            assert_eq!(before, None, "a reservation's number came twice");
        }
    }

    fn complete(&mut self, n: u8, tokens: Option<u32>, tools: bool, call: Option<u8>) {
        let Some(id) = self.nth(n) else { return };
        let issued = call.map(|call| [call]);
        let completion = Completion {
            reported: Reported {
                prompt_tokens: tokens,
                cached_tokens: tokens.map(|n| n / 3),
                completion_tokens: tokens.map(|n| n / 2),
            },
            phase: Some(if tools {
                Phase::Acting
            } else {
                Phase::Reasoning
            }),
            tool_calls: Ids {
                bytes: issued.as_ref().map_or(&[], |id| id.as_slice()),
                lengths: if call.is_some() { &[1] } else { &[] },
            },
            state: Ids::default(),
        };
        let now = Micros(self.now);
        let found = self
            .scheduler
            .complete(now, id, &completion, &mut self.settled);
        self.end(id, found);
    }

    /// An end was called for; `found` says whether it was the first. A timer that ran first may
    /// have failed the hold just before.
    fn end(&mut self, id: ReservationId, found: Found) {
        self.take_settled();
        let life = self.lives.insert(id, Life::Ended);
        let was_live = life != Some(Life::Ended);
        assert_eq!(found.is_ended(), was_live, "{id:?} {life:?}");
        self.check_counts();
    }

    fn check_settled(&mut self) {
        self.take_settled();
        self.check_counts();
        if !self.waits {
            self.check_nobody_waits_for_nothing();
        }
    }

    fn take_settled(&mut self) {
        for settled in std::mem::take(&mut self.settled) {
            let life = match settled.outcome {
                Outcome::Go(_) => Life::Running,
                _ => Life::Ended,
            };
            let before = self.lives.insert(settled.reservation, life);
            assert_eq!(before, Some(Life::Held), "{settled:?} was not held");
        }
    }

    fn check_counts(&self) {
        let count = |life| self.lives.values().filter(|&&l| l == life).count();
        let status = self.scheduler.status();
        assert_eq!(status.holds, count(Life::Held));
        assert_eq!(
            status.reservations,
            count(Life::Held) + count(Life::Running)
        );
        // Only a turn that its own worker has failed goes to a full one.
        let most = self.most.filter(|_| status.counters.rerouted == 0);
        for worker in (0..WORKERS).map(WorkerId) {
            let load = self.scheduler.load().load(worker).unwrap_or_default();
            assert!(
                most.is_none_or(|most| load.requests <= most),
                "{worker:?} {load:?}"
            );
        }
        // No more branches have reached a step than there were, and none without the one before.
        for reached in &self.scheduler.tally().churn {
            assert!(reached[0] <= self.scheduler.branches_so_far());
            assert!(reached.is_sorted_by(|before, after| before >= after));
        }
        // Every turn has ended in one way, or has not; and so has every hold.
        let counters = status.counters;
        let ended = counters.completed + counters.cancelled;
        assert_eq!(counters.submitted, ended + status.reservations as u64);
        let holds_ended: u64 = self.scheduler.tally().hold_ends.iter().sum();
        assert_eq!(counters.held, holds_ended + status.holds as u64);
    }

    /// Whoever waits while a worker is idle has something in the cache of another one.
    fn check_homes_are_warm(&self) {
        let core = &self.scheduler;
        let pair = [0, 1].map(WorkerId);
        let idle =
            |worker: &&WorkerId| core.load().load(**worker).unwrap_or_default().requests == 0;
        let Some(idle) = pair.iter().find(idle) else {
            return;
        };
        let held = self.lives.iter().filter(|&(_, &life)| life == Life::Held);
        for (&id, _) in held {
            let warm = pair.iter().filter(|&worker| worker != idle).any(|&worker| {
                let mut coverage = Coverage::new();
                let place = core.place_of(worker).unwrap();
                core.prefix()
                    .coverage(place, core.chain(id).unwrap(), &mut coverage);
                coverage.blocks() > 0
            });
            assert!(warm, "{idle:?} is idle, and {:?} waits", core.held(id));
        }
    }

    /// A fleet on which nothing runs keeps nobody waiting.
    fn check_nobody_waits_for_nothing(&self) {
        let status = self.scheduler.status();
        let is_idle = status.reservations == status.holds;
        assert!(!is_idle || status.holds == 0, "{status:?}");
    }

    fn assert_nothing_is_left(mut self) {
        let live: Vec<_> = self.lives.keys().copied().collect();
        for id in live {
            let found = self
                .scheduler
                .cancel(Micros(self.now), id, &mut self.settled);
            self.end(id, found);
        }
        let status = self.scheduler.status();
        assert_eq!((status.reservations, status.holds), (0, 0));
        for worker in (0..WORKERS).map(WorkerId) {
            let load = self.scheduler.load().load(worker).unwrap_or_default();
            assert_eq!(load, warmpath_core::load::WorkerLoad::default());
        }
        for group in (0..2).map(warmpath_core::GroupId) {
            let admission = self.scheduler.admission(group).unwrap();
            assert_eq!(admission.waiting(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_turn_ends_exactly_once_whatever_happens(ops in prop::collection::vec(op(), 0..120)) {
        let mut world = World::new(AdmissionConfig::None, None);
        for op in &ops {
            world.apply(op);
        }
        world.assert_nothing_is_left();
    }

    #[test]
    fn an_owner_is_waited_for_up_to_the_bound_and_no_longer(
        ops in prop::collection::vec(op(), 0..120),
        is_admitted: bool,
    ) {
        let policy = match is_admitted {
            true => AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
            false => AdmissionConfig::None,
        };
        let mut world = World::with(policy, None, WhenDown::Wait);
        for op in &ops {
            world.apply(op);
        }
        world.apply(&Op::Advance(31_000));
        world.check_nobody_waits_for_nothing();
        world.assert_nothing_is_left();
    }

    #[test]
    fn a_hold_is_settled_exactly_once_whatever_happens(
        ops in prop::collection::vec(op(), 0..120),
        limit in prop::option::of(1_000..60_000u64),
    ) {
        let policy = AdmissionConfig::ThunderAgent(ThunderAgentConfig::default());
        let mut world = World::new(policy, limit.map(Micros::from_millis));
        for op in &ops {
            world.apply(op);
        }
        world.assert_nothing_is_left();
    }

    #[test]
    fn turns_behind_gates_end_once_and_nobody_waits_for_nothing(
        ops in prop::collection::vec(op(), 0..120),
        policy in 0..3_u8,
        max_running in prop::option::of(1..4_u32),
        max_sessions in prop::option::of(1..4_u32),
        limit in prop::option::weighted(0.3, 1_000..60_000u64),
        queue in queue(),
    ) {
        let mut world = World::of(Config {
            admission: match policy {
                0 => AdmissionConfig::None,
                1 => AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
                _ => AdmissionConfig::Lease(LeaseConfig::default()),
            },
            gates: GateConfig {
                max_running,
                max_sessions,
                session_idle: Micros::from_secs(20),
            },
            queue,
            hold_limit: limit.map(Micros::from_millis),
            ..Config::default()
        });
        for op in &ops {
            world.apply(op);
        }
        // By then whoever is idle has lost its place to somebody who waits.
        for _ in 0..40 {
            world.apply(&Op::Advance(21_000));
        }
        world.check_nobody_waits_for_nothing();
        world.assert_nothing_is_left();
    }

    #[test]
    fn homes_leaders_and_leaving_workers_lose_no_turn(
        ops in prop::collection::vec(op(), 0..120),
        (mode, policy) in (0..3usize, 0..3u8),
        (is_alike, waits) in any::<(bool, bool)>(),
        max_running in prop::option::of(1..3_u32),
        queue in queue(),
    ) {
        let run = || {
            let mut config = Config {
                admission: match policy {
                    0 => AdmissionConfig::None,
                    1 => AdmissionConfig::ThunderAgent(ThunderAgentConfig::default()),
                    _ => AdmissionConfig::Lease(LeaseConfig::default()),
                },
                affinity: AffinityConfig {
                    mode: [Mode::Off, Mode::Soft, Mode::Hard][mode],
                    credit_tokens: 512,
                },
                fan_out: Some(FanOutConfig {
                    max_wait: Micros::from_secs(5),
                    min_tokens: 256,
                }),
                gates: GateConfig {
                    max_running,
                    ..GateConfig::default()
                },
                queue: queue.clone(),
                ..Config::default()
            };
            config.continuity.tool_owner_down = match waits {
                true => WhenDown::Wait,
                false => WhenDown::Fail,
            };
            let mut world = World::of(config);
            world.is_alike = is_alike;
            for op in &ops {
                world.apply(op);
            }
            let receipts: Vec<_> = (1..=200)
                .filter_map(|id| world.scheduler.receipt(id).map(|r| format!("{r:?}")))
                .collect();
            world.assert_nothing_is_left();
            receipts
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn with_hard_homes_nobody_waits_for_a_cold_one_while_another_worker_is_idle(
        ops in prop::collection::vec(home_op(), 0..120),
        max_running in 1..3_u32,
        queue in queue(),
    ) {
        let mut world = World::of(Config {
            affinity: AffinityConfig {
                mode: Mode::Hard,
                ..AffinityConfig::default()
            },
            gates: GateConfig {
                max_running: Some(max_running),
                ..GateConfig::default()
            },
            queue,
            ..Config::default()
        });
        for op in &ops {
            world.apply(op);
            // A cache that is emptied is noticed at once, what leaves it otherwise within a second.
            let wait = if matches!(op, Op::Reset(_) | Op::Capacity(..)) { 0 } else { 1_000 };
            world.apply(&Op::Advance(wait));
            world.check_homes_are_warm();
        }
        world.assert_nothing_is_left();
    }

    #[test]
    fn the_same_events_give_the_same_answers(ops in prop::collection::vec(op(), 0..80)) {
        let run = |ops: &[Op]| {
            let policy = AdmissionConfig::ThunderAgent(ThunderAgentConfig::default());
            let mut world = World::new(policy, None);
            for op in ops {
                world.apply(op);
            }
            let receipts: Vec<_> = (1..=200)
                .filter_map(|id| world.scheduler.receipt(id).map(|r| format!("{r:?}")))
                .collect();
            (world.scheduler.status(), receipts)
        };
        prop_assert_eq!(run(&ops), run(&ops));
    }
}
