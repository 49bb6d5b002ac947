//! Any sequence of calls, checked after every one against what follows from the records alone.
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::admission::{Phase, ProgramState, Standing};

#[derive(Clone, Debug)]
enum Op {
    Begin {
        program: u64,
        tokens: u32,
        kind: Kind,
        pin: Option<u32>,
    },
    Sent {
        turn: usize,
        worker: u32,
    },
    Progress {
        turn: usize,
        tokens: u32,
    },
    Complete {
        turn: usize,
        tokens: Option<u32>,
    },
    Cancel {
        turn: usize,
    },
    Workers {
        live: Vec<(u32, Option<u64>)>,
    },
    End {
        program: u64,
    },
    Tick,
}

/// An operation and by how many milliseconds the clock moves before it, which may be back.
type Timed = (i64, Op);

fn tokens() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..6_000_u32, 1 => Just(u32::MAX)]
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![9 => Just(Kind::Turn), 1 => Just(Kind::Final)];
    let pin = proptest::option::weighted(0.15, 0..4_u32);
    let capacity = proptest::option::weighted(0.9, 0..12_000_u64);
    let turn = || 0..1_000_usize;
    prop_oneof![
        8 => (0..9_u64, tokens(), kind, pin)
            .prop_map(|(program, tokens, kind, pin)| Op::Begin { program, tokens, kind, pin }),
        2 => (turn(), 0..4_u32).prop_map(|(turn, worker)| Op::Sent { turn, worker }),
        2 => (turn(), tokens()).prop_map(|(turn, tokens)| Op::Progress { turn, tokens }),
        6 => (turn(), proptest::option::of(tokens()))
            .prop_map(|(turn, tokens)| Op::Complete { turn, tokens }),
        2 => turn().prop_map(|turn| Op::Cancel { turn }),
        1 => proptest::collection::btree_map(0..4_u32, capacity, 0..4)
            .prop_map(|live| Op::Workers { live: live.into_iter().collect() }),
        1 => (0..9_u64).prop_map(|program| Op::End { program }),
        3 => Just(Op::Tick),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Timed>> {
    let step = prop_oneof![8 => 0..3_000_i64, 1 => -2_000..0_i64, 1 => 5_000..70_000_i64];
    proptest::collection::vec((step, op()), 1..120)
}

fn config() -> ThunderAgentConfig {
    ThunderAgentConfig {
        acting_weight: 5_000,
        resume_timeout: Micros::from_secs(60),
        retention: Micros::from_secs(90),
        max_programs: 7,
        ..ThunderAgentConfig::default()
    }
}

/// Drives a policy and keeps the little that a caller would know.
struct Driver {
    policy: ThunderAgent,
    now: Micros,
    begun: u64,
    held: BTreeSet<ReservationId>,
    running: BTreeSet<ReservationId>,
    live: BTreeSet<WorkerId>,
    /// Workers that `sent` named while they were dead: the published fault leaves them charged.
    haunted: BTreeSet<WorkerId>,
}

impl Driver {
    fn new() -> Self {
        let mut driver = Self {
            policy: ThunderAgent::new(config()).expect("settings"),
            now: Micros::from_secs(1_000),
            begun: 0,
            held: BTreeSet::new(),
            running: BTreeSet::new(),
            live: BTreeSet::new(),
            haunted: BTreeSet::new(),
        };
        let two = vec![(0, Some(10_000)), (1, Some(10_000))];
        driver.apply(&Op::Workers { live: two });
        driver
    }

    /// A ticket: of a turn that lives, mostly; else one that has ended or never was.
    fn pick(&self, turn: usize) -> ReservationId {
        let all: Vec<_> = self.held.union(&self.running).copied().collect();
        match all.get(turn % (all.len() + 1)) {
            Some(&ticket) => ticket,
            None => ReservationId(turn as u64),
        }
    }

    fn ended(&mut self, ticket: ReservationId) {
        self.held.remove(&ticket);
        self.running.remove(&ticket);
    }

    fn step(&mut self, (by, op): &Timed) -> Vec<Release> {
        let now = self.now.0.saturating_add_signed(by * 1_000);
        self.now = Micros(now);
        self.apply(op)
    }

    fn apply(&mut self, op: &Op) -> Vec<Release> {
        let (now, mut out) = (self.now, Vec::new());
        match *op {
            Op::Begin {
                program,
                tokens,
                kind,
                pin,
            } => {
                // Far from the tickets that `pick` invents.
                let ticket = ReservationId(1_000_000 + self.begun);
                self.begun += 1;
                self.held.insert(ticket);
                let begin = Begin {
                    ticket,
                    claimant: Default::default(),
                    program: ProgramId(program),
                    prompt_tokens: tokens,
                    kind,
                    pin: pin.map(WorkerId),
                };
                self.policy.begin(now, begin, &mut out);
            }
            Op::Sent { turn, worker } => {
                let worker = WorkerId(worker);
                if !self.live.contains(&worker) {
                    self.haunted.insert(worker);
                }
                self.policy.sent(now, self.pick(turn), worker);
            }
            Op::Progress { turn, tokens } => self.policy.progress(now, self.pick(turn), tokens),
            Op::Complete { turn, tokens } => {
                let ticket = self.pick(turn);
                self.ended(ticket);
                self.policy.complete(now, ticket, tokens, &mut out);
            }
            Op::Cancel { turn } => {
                let ticket = self.pick(turn);
                self.ended(ticket);
                self.policy.cancel(now, ticket, &mut out);
            }
            Op::Workers { ref live } => {
                let live: Vec<_> = live.iter().map(|&(id, c)| (WorkerId(id), c)).collect();
                self.live = live.iter().map(|&(id, _)| id).collect();
                self.policy.set_workers(now, &live);
            }
            Op::End { program } => self.policy.end_program(now, ProgramId(program)),
            Op::Tick => self.policy.tick(now, &mut out),
        }
        for release in &out {
            assert!(
                self.held.remove(&release.ticket),
                "released twice or after its end"
            );
            self.running.insert(release.ticket);
        }
        out
    }
}

/// Sums, orders and counts from the records alone.
fn audit(policy: &ThunderAgent) {
    let table = &policy.table;
    let (mut used, mut resume, mut held, mut idle) = (
        BTreeMap::new(),
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
    );
    for (id, program) in table.programs() {
        let state = &program.state;
        match state.standing {
            Standing::Paused => {
                assert!(state.worker.is_none() && !state.marked);
                resume.insert((program.group(), program.charged, id));
            }
            Standing::Active => {
                if let Some(worker) = state.worker {
                    let half = u64::from(state.phase == Phase::Acting);
                    *used.entry(worker).or_insert(0) += (u64::from(program.charged) >> half) + 100;
                }
            }
        }
        let current = table.current(id);
        assert_eq!(state.phase == Phase::Acting, current.is_none());
        assert_eq!(state.phase == Phase::Acting, program.idle_since.is_some());
        let waits = current.is_some_and(|turn| turn.gate == Gate::Held);
        assert_eq!(waits, program.held_since.is_some());
        assert_eq!(
            waits,
            state.phase == Phase::Reasoning && program.is_paused()
        );
        held.extend(program.held_since.map(|since| (since, id)));
        idle.extend(program.idle_since.map(|since| (since, id)));
    }
    assert_eq!(
        table.orders.ledger.charged().collect::<BTreeMap<_, _>>(),
        used
    );
    assert_eq!(table.orders.resume, resume);
    assert_eq!(table.orders.held, held);
    assert_eq!(table.orders.idle, idle);
    assert_eq!(
        table.orders.marked,
        table.programs().filter(|(_, p)| p.state.marked).count()
    );
    assert_eq!(table.orders.programs, table.programs().count());
    assert!(table.programs().count() <= config().max_programs);
}

type Picture = (Vec<(ProgramId, ProgramState)>, Vec<(WorkerId, u64)>);

fn picture(policy: &ThunderAgent) -> Picture {
    (policy.programs(), policy.charges().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_orders_and_holds_follow_from_the_records(ops in ops()) {
        let mut driver = Driver::new();
        for timed in &ops {
            driver.step(timed);
            audit(&driver.policy);
            prop_assert_eq!(driver.policy.waiting(), driver.held.len());
            for (place, &ticket) in (1..).zip(&driver.held) {
                prop_assert!(driver.policy.is_held(ticket), "{place}");
                prop_assert!(driver.policy.ahead(ticket).is_some());
            }
            if matches!(timed.1, Op::Begin { .. } | Op::Tick) && !driver.live.is_empty() {
                for (worker, _) in driver.policy.charges() {
                    let fine = driver.live.contains(&worker) || driver.haunted.contains(&worker);
                    prop_assert!(fine, "{worker:?} is dead and charged");
                }
            }
            if matches!(timed.1, Op::Tick) {
                let clock = driver.policy.wake.clock();
                for &(since, _) in &driver.policy.table.orders.held {
                    prop_assert!(clock.since(since) < config().resume_timeout);
                }
            }
        }
    }

    #[test]
    fn nothing_is_left_when_everything_has_ended(ops in ops()) {
        let mut driver = Driver::new();
        for timed in &ops {
            driver.step(timed);
        }
        while let Some(&ticket) = driver.held.union(&driver.running).next() {
            driver.ended(ticket);
            let mut out = Vec::new();
            driver.policy.cancel(driver.now, ticket, &mut out);
            for release in out {
                driver.held.remove(&release.ticket);
                driver.running.insert(release.ticket);
            }
        }
        for program in 0..9 {
            driver.apply(&Op::End { program });
        }
        prop_assert_eq!(picture(&driver.policy), (vec![], vec![]));
        prop_assert_eq!(driver.policy.tracked(), 0);
        prop_assert_eq!(driver.policy.waiting(), 0);
        prop_assert_eq!(driver.policy.paused(), 0);
    }

    #[test]
    fn a_turn_begun_and_cancelled_leaves_no_trace(
        ops in ops(), program in 0..9_u64, tokens in tokens(), pin in proptest::option::of(0..4_u32),
    ) {
        let mut driver = Driver::new();
        for timed in &ops {
            driver.step(timed);
        }
        driver.policy.table.look();
        let at_bound = driver.policy.table.is_full_for(ProgramId(program));
        let before = picture(&driver.policy);
        driver.apply(&Op::Begin { program, tokens, kind: Kind::Turn, pin });
        let ticket = ReservationId(1_000_000 + driver.begun - 1);
        driver.policy.cancel(driver.now, ticket, &mut Vec::new());
        let mut after = picture(&driver.policy);
        for (old, new) in before.0.iter().zip(&mut after.0) {
            // The one difference that is meant: not back onto a worker that has died since.
            let dead = old.1.worker.is_some_and(|w| !driver.policy.table.orders.ledger.may_serve(w));
            if old.0 == new.0 && dead {
                new.1.worker = old.1.worker;
            }
        }
        if !at_bound {
            prop_assert_eq!(before.0, after.0);
        }
        audit(&driver.policy);
    }

    #[test]
    fn tickets_that_nobody_holds_change_nothing(ops in ops(), tokens in tokens()) {
        let mut driver = Driver::new();
        for timed in &ops {
            driver.step(timed);
        }
        driver.policy.table.renew();
        let before = picture(&driver.policy);
        let (nobody, mut out) = (ReservationId(7), Vec::new());
        driver.policy.sent(driver.now, nobody, WorkerId(0));
        driver.policy.progress(driver.now, nobody, tokens);
        driver.policy.complete(driver.now, nobody, Some(tokens), &mut out);
        driver.policy.cancel(driver.now, nobody, &mut out);
        prop_assert_eq!(out, vec![]);
        prop_assert_eq!(picture(&driver.policy), before);
    }

    #[test]
    fn ticking_when_asked_equals_ticking_always(ops in ops()) {
        let (mut always, mut asked) = (Driver::new(), Driver::new());
        let interval = config().interval;
        let mut next = Micros::from_secs(1_005);
        for (by, op) in &ops {
            let timed = (by.abs(), op.clone());
            let to = always.now.plus(Micros::from_millis(by.unsigned_abs()));
            while next <= to {
                let mut out = (Vec::new(), Vec::new());
                always.policy.tick(next, &mut out.0);
                if asked.policy.next_wake().is_some_and(|at| at <= next) {
                    asked.policy.advance(next, &mut out.1);
                }
                prop_assert_eq!(&out.0, &out.1);
                for release in out.0 {
                    for driver in [&mut always, &mut asked] {
                        driver.held.remove(&release.ticket);
                        driver.running.insert(release.ticket);
                    }
                }
                next = next.plus(interval);
            }
            if matches!(op, Op::Tick) {
                always.now = to;
                asked.now = to;
                continue;
            }
            prop_assert_eq!(always.step(&timed), asked.step(&timed));
            prop_assert_eq!(picture(&always.policy), picture(&asked.policy));
        }
    }
}
