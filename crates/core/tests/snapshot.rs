//! A scheduler that was written down while it went on, and one that has read it.
//!
//! The second must know what the first knew at the last slice, no less and no more: who is whose
//! session, which worker has what, who owns which id. Both then go on with the same turns, and say the
//! same of each. Whatever else is read instead of a snapshot is refused, and changes nothing.
use std::collections::BTreeMap;

use proptest::prelude::*;
use warmpath_core::admission::ThunderAgentConfig;
use warmpath_core::affinity::{AffinityConfig, AffinityNote, Came, Mode, Tie};
use warmpath_core::continuity::Owner;
use warmpath_core::load::Untracked;
use warmpath_core::receipt::Reported;
use warmpath_core::scheduler::{
    AdmissionConfig, Completion, Config, GroupOptions, Health, Ids, Limits, Placement, Prompt,
    Scheduler, Segment, Submitted, Turn, Verdict, WorkerOptions,
};
use warmpath_core::session::Phase;
use warmpath_core::snapshot::{Downtime, Dropped, Progress, RestoreOptions, Restored};
use warmpath_core::{Micros, ReservationId, Result, TargetId, WorkerId};

const FLEET: [(&str, [&str; 2]); 2] = [("m", ["a", "b"]), ("n", ["c", "d"])];

#[derive(Clone, Debug)]
enum Op {
    Submit(Ask),
    Complete(u8, bool, Option<u32>),
    Cancel(u8),
    Advance(u64),
    EndSession(u8),
    Health(u8, u8),
}

/// A turn to be made.
#[derive(Clone, Debug)]
struct Ask {
    /// The first six have names.
    session: u8,
    path: Vec<u8>,
    is_text: bool,
    targets: u8,
    worker: u8,
    answers: Option<u8>,
}

fn ask() -> impl Strategy<Value = Ask> {
    (
        0..9_u8,
        prop::collection::vec(0..3_u8, 1..6),
        any::<bool>(),
        0..3_u8,
        0..2_u8,
        prop::option::weighted(0.3, 0..3_u8),
    )
        .prop_map(|(session, path, is_text, targets, worker, answers)| Ask {
            session,
            path,
            is_text,
            targets,
            worker,
            answers,
        })
}

const HEALTHS: [Health; 4] = [Health::Up, Health::Draining, Health::Down, Health::Removed];

/// Workers get the first so many healths.
fn op(healths: u8) -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => ask().prop_map(Op::Submit),
        5 => (any::<u8>(), any::<bool>(), prop::option::of(0..400_u32))
            .prop_map(|(n, tools, cached)| Op::Complete(n, tools, cached)),
        1 => any::<u8>().prop_map(Op::Cancel),
        2 => (0..200_u64).prop_map(Op::Advance),
        1 => (0..6_u8).prop_map(Op::EndSession),
        1 => (0..4_u8, 0..healths).prop_map(|(w, h)| Op::Health(w, h)),
    ]
}

/// The scheduler, and what its caller keeps.
struct World {
    scheduler: Scheduler,
    live: Vec<ReservationId>,
    now: u64,
    /// Calls so far: no two come in the same microsecond.
    calls: u64,
}

/// A fleet whose sessions stay where they are.
fn fleet(limits: Limits, names: &[(&str, [&str; 2])]) -> Scheduler {
    let affinity = AffinityConfig {
        mode: Mode::Hard,
        ..AffinityConfig::default()
    };
    fleet_of(
        Config {
            limits,
            affinity,
            ..Config::default()
        },
        names,
    )
}

/// A fleet that holds turns and pauses sessions.
fn strict_fleet() -> Scheduler {
    let policy = ThunderAgentConfig::default();
    fleet_of(
        Config {
            admission: AdmissionConfig::ThunderAgent(policy),
            ..Config::default()
        },
        &FLEET,
    )
}

fn fleet_of(config: Config, names: &[(&str, [&str; 2])]) -> Scheduler {
    let mut scheduler = Scheduler::new(config).expect("the settings are right");
    for (target, workers) in names {
        let options = GroupOptions {
            block_tokens: 10,
            ttl: Some(Micros::from_secs(300)),
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).unwrap();
        scheduler.add_target(target, group).unwrap();
        for name in workers {
            let worker = WorkerOptions {
                name: (*name).to_owned(),
                group,
                capacity_tokens: Some(400),
            };
            let added = scheduler.add_worker(Micros(0), worker, &mut Vec::new());
            added.unwrap();
        }
    }
    scheduler
}

fn tokens(path: &[u8]) -> Vec<u32> {
    path.iter().flat_map(|&id| [u32::from(id); 10]).collect()
}

fn seconds(n: u64) -> Micros {
    Micros::from_secs(n)
}

impl World {
    fn new(limits: Limits) -> Self {
        Self::with(fleet(limits, &FLEET))
    }

    fn with(scheduler: Scheduler) -> Self {
        Self {
            scheduler,
            live: Vec::new(),
            now: 1_000,
            calls: 0,
        }
    }

    fn tick(&mut self) -> Micros {
        self.calls += 1;
        seconds(self.now).plus(Micros(self.calls))
    }

    fn submit(&mut self, ask: &Ask) -> Result<Submitted> {
        let now = self.tick();
        with_turn(ask, |turn| {
            self.scheduler.submit(now, turn, &mut Vec::new())
        })
    }

    fn nth(&mut self, n: u8) -> Option<ReservationId> {
        let len = self.live.len();
        (len > 0).then(|| self.live.remove(usize::from(n) % len))
    }

    fn apply(&mut self, op: &Op) {
        let now = self.tick();
        match op {
            Op::Submit(ask) => {
                if let Ok(submitted) = self.submit(ask) {
                    self.live.push(submitted.reservation);
                }
            }
            Op::Complete(n, uses_tools, cached) => {
                let Some(id) = self.nth(*n) else { return };
                let call = [*n % 3];
                let completion = Completion {
                    reported: Reported {
                        prompt_tokens: Some(100),
                        cached_tokens: *cached,
                        completion_tokens: Some(5),
                    },
                    phase: Some(match uses_tools {
                        true => Phase::Acting,
                        false => Phase::Reasoning,
                    }),
                    tool_calls: id_list(&call, &[1]),
                    state: id_list(&call, &[1]),
                };
                self.scheduler
                    .complete(now, id, &completion, &mut Vec::new());
            }
            Op::Cancel(n) => {
                if let Some(id) = self.nth(*n) {
                    self.scheduler.cancel(now, id, &mut Vec::new());
                }
            }
            Op::Advance(by) => {
                self.now += by;
                let now = self.tick();
                self.scheduler.advance(now, &mut Vec::new());
            }
            Op::EndSession(n) => {
                let name = format!("s{n}");
                self.scheduler.end_session(now, "t", &name, &mut Vec::new());
            }
            Op::Health(worker, health) => {
                let health = HEALTHS[usize::from(*health)];
                let worker = WorkerId(u32::from(*worker));
                let set = self
                    .scheduler
                    .set_health(now, worker, health, &mut Vec::new());
                // One that was removed stays so.
                assert!(set.is_ok() || set.is_err_and(|e| e.code() == "UNKNOWN_ID"));
            }
        }
    }

    /// Writes the whole of a snapshot that has been begun, or all of one.
    fn write(&mut self) -> Vec<u8> {
        let mut snapshot = self.scheduler.snapshot();
        let mut out = Vec::new();
        let now = self.tick();
        let done = self
            .scheduler
            .write_snapshot(now, &mut snapshot, usize::MAX, &mut out);
        assert_eq!(done, Ok(Progress::Done));
        out
    }

    fn restored(&self, bytes: &[u8], limits: Limits) -> (Self, Restored) {
        let mut again = Self::new(limits);
        (again.now, again.calls) = (self.now, self.calls);
        let now = again.tick();
        let restored = again
            .scheduler
            .restore(now, bytes, RestoreOptions::default());
        let workers = self.scheduler.topology().workers().iter();
        for (id, worker) in (0..).zip(workers) {
            let set = again
                .scheduler
                .set_health(now, WorkerId(id), worker.health, &mut Vec::new());
            set.expect("the worker is there");
        }
        (again, restored.expect("it is whole"))
    }

    /// What is known of a turn before it is made: its target, and the overlap at each worker.
    fn known(&mut self, ask: &Ask) -> Option<(TargetId, BTreeMap<WorkerId, u32>)> {
        let now = self.tick();
        let found = with_turn(ask, |turn| {
            let turn = Turn { pin: None, ..*turn };
            self.scheduler.candidates(now, &turn, &mut Vec::new())
        });
        let (target, rows) = found.ok()?;
        let rows = rows.iter().map(|row| (row.worker, row.overlap_tokens));
        Some((target, rows.collect()))
    }

    /// What the home of its session had to do with where a turn went.
    fn stay(&self, verdict: &Verdict) -> Option<AffinityNote> {
        let Verdict::Go(placement) = verdict else {
            return None;
        };
        self.scheduler.receipt(placement.receipt)?.affinity
    }

    fn seen(&self) -> impl PartialEq + std::fmt::Debug {
        let status = self.scheduler.status();
        let workers = (0..4).map(|w| {
            let place = self.scheduler.place_of(WorkerId(w));
            let tokens = place.map(|place| self.scheduler.prefix().tokens(place));
            (tokens, self.scheduler.working_set(WorkerId(w)))
        });
        let is_there = |owner: &Owner| {
            let worker = self.scheduler.topology().worker(owner.worker);
            worker.is_ok_and(|worker| worker.health != Health::Removed)
        };
        let owner = |id| self.scheduler.state_owner("t", &[id]).filter(is_there);
        let owners = (0..3_u8).map(owner);
        (
            (status.sessions, status.counters),
            workers.collect::<Vec<_>>(),
            owners.collect::<Vec<_>>(),
        )
    }
}

/// Makes the turn and lends it.
fn with_turn<R>(ask: &Ask, run: impl FnOnce(&Turn<'_>) -> R) -> R {
    let ids = tokens(&ask.path);
    let text: Vec<u8> = ask.path.iter().flat_map(|&id| [id; 300]).collect();
    let segments = vec![Segment::plain(300); ask.path.len()];
    let session = format!("s{}", ask.session);
    let parent = format!("s{}", ask.session / 2);
    let targets: &[TargetId] = match ask.targets {
        0 => &[TargetId(0)],
        1 => &[TargetId(1)],
        _ => &[TargetId(0), TargetId(1)],
    };
    let answers: Vec<u8> = ask.answers.into_iter().collect();
    run(&Turn {
        tenant: "t",
        session: (ask.session < 6).then_some(session.as_str()),
        parent: (ask.session % 2 == 1).then_some(parent.as_str()),
        pin: (ask.targets < 2).then_some(WorkerId(u32::from(ask.targets * 2 + ask.worker))),
        tool_results: id_list(&answers, &[1]),
        ..Turn::new(
            targets,
            match ask.is_text {
                true => Prompt::Text {
                    bytes: &text,
                    segments: &segments,
                },
                false => Prompt::Tokens(&ids),
            },
        )
    })
}

fn id_list<'a>(bytes: &'a [u8], lengths: &'a [u32]) -> Ids<'a> {
    Ids { bytes, lengths }
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        prop_oneof![3..8_usize, Just(1_000)],
        2..6_usize,
        20..100_usize,
    )
        .prop_map(|(sessions, owners, blocks)| Limits {
            sessions,
            owners,
            blocks,
            session_idle: seconds(900),
            ..Limits::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn two_that_know_the_same_say_the_same(
        limits in limits(),
        before in prop::collection::vec(op(3), 0..40),
        between in prop::collection::vec((1..6_000_usize, op(3)), 0..25),
        budget in 1..6_000_usize,
        after in prop::collection::vec(ask(), 1..25),
    ) {
        let mut world = World::new(limits);
        before.iter().for_each(|op| world.apply(op));
        let mut snapshot = world.scheduler.snapshot();
        let mut bytes = Vec::new();
        let mut progress = Progress::More;
        for (budget, op) in &between {
            if progress == Progress::Done {
                break;
            }
            let now = world.tick();
            progress = world.scheduler.write_snapshot(
                now, &mut snapshot, *budget, &mut bytes,
            ).unwrap();
            if progress == Progress::More {
                world.apply(op);
            }
        }
        // What is in flight is not written: it has ended, one way or the other, before we compare.
        if progress == Progress::More {
            while !world.live.is_empty() {
                world.apply(&Op::Cancel(0));
            }
        }
        while progress == Progress::More {
            let now = world.tick();
            let written = world.scheduler.write_snapshot(now, &mut snapshot, budget, &mut bytes);
            progress = written.unwrap();
        }
        // What was in flight may have been more than the bounds allow; a restore sees to that at once.
        let fits = world.scheduler.status().sessions <= limits.sessions
            && world.scheduler.prefix().stats().blocks <= limits.blocks;
        let quiet = world.live.is_empty() && fits;
        let (mut again, restored) = world.restored(&bytes, limits);
        if !quiet {
            return Ok(());
        }
        prop_assert_eq!(again.seen(), world.seen());
        prop_assert_eq!(restored.sessions, world.scheduler.status().sessions);
        for ask in &after {
            prop_assert_eq!(again.known(ask), world.known(ask), "{:?}", ask);
            // To one worker: equal costs are decided by a draw that no snapshot keeps.
            let ask = &Ask { targets: ask.targets % 2, ..ask.clone() };
            let (a, b) = (again.submit(ask), world.submit(ask));
            match (a, b) {
                (Ok(a), Ok(b)) => {
                    prop_assert_eq!((a.target, a.lock, a.derived), (b.target, b.lock, b.derived));
                    prop_assert_eq!(a.program, b.program);
                    prop_assert_eq!(again.stay(&a.verdict), world.stay(&b.verdict), "{:?}", ask);
                    for (world, id) in [(&mut again, a.reservation), (&mut world, b.reservation)] {
                        world.live.push(id);
                        world.apply(&Op::Complete(0, true, None));
                    }
                }
                (a, b) => prop_assert_eq!(a.map(|_| ()), b.map(|_| ())),
            }
        }
    }

    #[test]
    fn holds_pauses_and_workers_that_leave_are_seen_in_it(
        before in prop::collection::vec(op(4), 0..40),
        between in prop::collection::vec((1..6_000_usize, op(4)), 0..40),
    ) {
        let mut world = World::with(strict_fleet());
        before.iter().for_each(|op| world.apply(op));
        let mut snapshot = world.scheduler.snapshot();
        let mut bytes = Vec::new();
        for (budget, op) in &between {
            let now = world.tick();
            let written = world.scheduler.write_snapshot(now, &mut snapshot, *budget, &mut bytes);
            if written == Ok(Progress::Done) {
                break;
            }
            world.apply(op);
        }
        let now = world.tick();
        while world.scheduler.write_snapshot(now, &mut snapshot, 5_000, &mut bytes)
            == Ok(Progress::More) {}
        let mut again = strict_fleet();
        again.restore(now, &bytes, RestoreOptions::default()).expect("it is whole");
        let again = World::with(again);
        prop_assert_eq!(again.seen(), world.seen());
    }

    #[test]
    fn what_is_no_snapshot_changes_nothing(
        ops in prop::collection::vec(op(4), 0..40),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..20),
    ) {
        let mut world = World::new(Limits::default());
        ops.iter().for_each(|op| world.apply(op));
        let good = world.write();
        let mut fresh = World::new(Limits::default());
        let mut refuse = |bytes: &[u8]| {
            let read = fresh.scheduler.restore(seconds(1), bytes, RestoreOptions::default());
            read.expect_err("it is damaged").code()
        };
        assert_eq!(refuse(&bytes), "SNAPSHOT_INVALID");
        for (at, bit) in &flips {
            let at = at.index(good.len());
            assert_eq!(refuse(&good[..at]), "SNAPSHOT_INVALID");
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            let code = refuse(&flipped);
            assert!(["SNAPSHOT_INVALID", "SNAPSHOT_VERSION"].contains(&code));
        }
        let now = seconds(world.now);
        let read = fresh.scheduler.restore(now, &good, RestoreOptions::default());
        assert_eq!(read.map(|r| r.sessions), Ok(world.scheduler.status().sessions));
    }
}

fn ask_of(session: u8, path: &[u8]) -> Ask {
    Ask {
        session,
        path: path.to_vec(),
        is_text: false,
        targets: 2,
        worker: 0,
        answers: None,
    }
}

fn go(world: &mut World, ask: &Ask) -> Placement {
    let submitted = world.submit(ask).expect("somebody is up");
    world.live.push(submitted.reservation);
    match submitted.verdict {
        Verdict::Go(placement) => placement,
        Verdict::Hold => panic!("nothing is held here"),
    }
}

#[test]
fn a_restart_is_not_noticed_by_a_session() {
    let mut world = World::new(Limits::default());
    let mut ask = Ask {
        targets: 1,
        worker: 1,
        ..ask_of(1, &[1, 2, 3])
    };
    go(&mut world, &ask);
    world.apply(&Op::Complete(0, true, None));
    go(&mut world, &ask_of(2, &[1, 0]));
    let bytes = world.write();
    world.now += 10;
    let (mut again, restored) = world.restored(&bytes, Limits::default());
    assert_eq!((restored.blocks, restored.sessions), (4, 2));
    assert_eq!(restored.dropped, Dropped::default());
    // The tool result leads to the issuer, whose cache is as warm as it was.
    ask = Ask {
        targets: 2,
        path: vec![1, 2, 3, 0],
        answers: Some(0),
        ..ask
    };
    let placement = go(&mut again, &ask);
    assert_eq!(
        (placement.target, placement.worker),
        (TargetId(1), WorkerId(3))
    );
    assert_eq!(placement.predicted_cached_tokens, 30);
    assert_eq!(again.scheduler.status().sessions, 2);
    assert_eq!(again.scheduler.status().counters.submitted, 3);
}

#[test]
fn a_session_is_at_home_after_a_restart() {
    let mut world = World::new(Limits::default());
    let mut ask = Ask {
        targets: 0,
        worker: 1,
        ..ask_of(1, &[1, 2, 3])
    };
    go(&mut world, &ask);
    world.apply(&Op::Complete(0, true, None));
    let bytes = world.write();
    let (mut again, _) = world.restored(&bytes, Limits::default());
    let busy = Untracked {
        requests: 50,
        tokens: 1_000_000,
    };
    let home = WorkerId(1);
    let set = again
        .scheduler
        .set_untracked(seconds(world.now + 1), home, busy, &mut Vec::new());
    set.expect("the worker is there");
    again.now += 2;
    ask.path.push(0);
    let free = |ask: &Ask, world: &mut World| {
        let now = world.tick();
        let submitted = with_turn(ask, |turn| {
            let turn = Turn { pin: None, ..*turn };
            world.scheduler.submit(now, &turn, &mut Vec::new())
        });
        let verdict = submitted.expect("somebody is up").verdict;
        let Verdict::Go(placement) = verdict else {
            panic!("nothing is held here");
        };
        (placement.worker, world.stay(&verdict))
    };
    let stayed = AffinityNote {
        worker: home,
        tie: Tie::Own,
        came: Came::Stayed,
    };
    assert_eq!(free(&ask, &mut again), (home, Some(stayed)));
    // Nobody else is drawn there.
    let stranger = Ask {
        session: 2,
        path: vec![2, 2],
        ..ask
    };
    assert_eq!(free(&stranger, &mut again), (WorkerId(0), None));
}

#[test]
fn what_is_older_than_its_time_is_not_believed() {
    let mut world = World::new(Limits::default());
    go(&mut world, &ask_of(1, &[1, 2]));
    let bytes = world.write();
    let after = |downtime: Downtime, now| {
        let mut again = World::new(Limits::default());
        let options = RestoreOptions {
            downtime,
            ..RestoreOptions::default()
        };
        let restored = again.scheduler.restore(seconds(now), &bytes, options);
        let restored = restored.expect("it is whole");
        let held = |w| {
            let place = again.scheduler.place_of(WorkerId(w)).expect("it is there");
            again.scheduler.prefix().tokens(place)
        };
        assert_eq!(
            (0..4).map(held).sum::<u64>(),
            20 - 10 * restored.dropped.held
        );
        (restored.dropped.held, restored.sessions)
    };
    assert_eq!(after(Downtime::SameClock, world.now + 299), (0, 1));
    assert_eq!(after(Downtime::SameClock, world.now + 301), (2, 1));
    assert_eq!(after(Downtime::SameClock, world.now - 500), (0, 1));
    assert_eq!(after(Downtime::Known(seconds(300)), world.now), (2, 1));
    assert_eq!(after(Downtime::Known(seconds(7 * 3_600)), 100_000), (2, 0));
}

#[test]
fn only_the_same_worker_for_the_same_target_is_the_same() {
    let mut world = World::new(Limits::default());
    for worker in [0, 1] {
        let ask = Ask {
            targets: 0,
            worker,
            ..ask_of(worker, &[1, 2])
        };
        go(&mut world, &ask);
        world.apply(&Op::Complete(0, true, None));
    }
    let bytes = world.write();
    let read = |names: &[(&str, [&str; 2])]| {
        let mut scheduler = fleet(Limits::default(), names);
        let now = seconds(world.now);
        let restored = scheduler.restore(now, &bytes, RestoreOptions::default());
        let restored = restored.expect("it is whole");
        let owner = scheduler.state_owner("t", &[0]);
        (
            restored.dropped.places,
            restored.dropped.held,
            owner.map(|o| o.worker),
        )
    };
    assert_eq!(read(&FLEET), (0, 0, Some(WorkerId(1))));
    assert_eq!(read(&[("m", ["b", "x"])]), (1, 2, Some(WorkerId(0))));
    assert_eq!(read(&[("m", ["x", "y"]), ("n", ["a", "b"])]), (2, 4, None));
}

#[test]
fn one_snapshot_at_a_time_and_only_into_an_empty_scheduler() {
    let mut world = World::new(Limits::default());
    go(&mut world, &ask_of(1, &[1, 2]));
    let now = seconds(world.now);
    let mut first = world.scheduler.snapshot();
    let mut second = world.scheduler.snapshot();
    let mut out = Vec::new();
    let voided = world
        .scheduler
        .write_snapshot(now, &mut first, 1_000, &mut out);
    assert_eq!(voided.expect_err("void").code(), "SNAPSHOT_SUPERSEDED");
    world.scheduler.end_snapshot(first);
    assert!(out.is_empty());
    let written = world
        .scheduler
        .write_snapshot(now, &mut second, usize::MAX, &mut out);
    assert_eq!(written, Ok(Progress::Done));
    let length = out.len();
    let again = world
        .scheduler
        .write_snapshot(now, &mut second, usize::MAX, &mut out);
    assert_eq!((again, out.len()), (Ok(Progress::Done), length));
    let refused = world
        .scheduler
        .restore(now, &out, RestoreOptions::default());
    assert_eq!(refused.expect_err("in use").code(), "SNAPSHOT_NOT_FRESH");
}

#[test]
fn a_slice_keeps_to_its_budget() {
    let mut world = World::new(Limits::default());
    for n in 0..40_u8 {
        let path: Vec<u8> = (0..30).map(|i| n.wrapping_mul(7).wrapping_add(i)).collect();
        let ask = Ask {
            session: n % 6,
            ..ask_of(0, &path)
        };
        go(&mut world, &ask);
        world.apply(&Op::Complete(0, false, None));
    }
    let mut snapshot = world.scheduler.snapshot();
    let (mut slices, mut largest, mut length) = (0, 0, 0);
    let mut out = Vec::new();
    let now = seconds(world.now);
    while world
        .scheduler
        .write_snapshot(now, &mut snapshot, 1_000, &mut out)
        == Ok(Progress::More)
    {
        slices += 1;
        largest = largest.max(out.len() - length);
        length = out.len();
    }
    assert!(slices > 5, "{slices}");
    assert!(largest < 1_500, "{largest}");
}
