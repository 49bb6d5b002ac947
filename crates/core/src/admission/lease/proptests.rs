//! Any sequence of calls, checked after every one against what follows from the records alone, and
//! against a fleet that only counts who was let go.
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::room::{Claim, Idle};
use super::*;
use crate::admission::{Kind, Tool, Waits};

#[derive(Clone, Debug)]
enum Op {
    Begin {
        program: u64,
        tokens: u32,
        pin: Option<u32>,
    },
    /// A turn that the policy does not know comes or goes.
    Stranger {
        worker: u32,
        tokens: u32,
    },
    Sent {
        turn: usize,
        worker: u32,
    },
    FirstToken {
        turn: usize,
    },
    Progress {
        turn: usize,
        tokens: u32,
    },
    Complete {
        turn: usize,
        end: End,
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
    /// Seconds that a tool should take; `None`: it has ended.
    Tool {
        program: u64,
        seconds: Option<u64>,
    },
    Advance,
}

/// An operation and by how many milliseconds the clock moves before it, which may be back.
type Timed = (i64, Op);

fn tokens() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..8_000_u32, 1 => 8_000..40_000_u32, 1 => Just(u32::MAX)]
}

fn end() -> impl Strategy<Value = End> {
    let waits = prop_oneof![
        3 => Just(Waits::Tool),
        1 => Just(Waits::Person),
        1 => Just(Waits::Unknown)
    ];
    (proptest::option::of(tokens()), waits).prop_map(|(context_tokens, waits)| End {
        context_tokens,
        waits,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let pin = proptest::option::weighted(0.15, 0..4_u32);
    let capacity = proptest::option::weighted(0.95, 0..16_000_u64);
    let turn = || 0..1_000_usize;
    prop_oneof![
        9 => (0..9_u64, tokens(), pin)
            .prop_map(|(program, tokens, pin)| Op::Begin { program, tokens, pin }),
        1 => (0..4_u32, 0..6_000_u32)
            .prop_map(|(worker, tokens)| Op::Stranger { worker, tokens }),
        1 => (turn(), 0..4_u32).prop_map(|(turn, worker)| Op::Sent { turn, worker }),
        4 => turn().prop_map(|turn| Op::FirstToken { turn }),
        1 => (turn(), tokens()).prop_map(|(turn, tokens)| Op::Progress { turn, tokens }),
        6 => (turn(), end()).prop_map(|(turn, end)| Op::Complete { turn, end }),
        2 => turn().prop_map(|turn| Op::Cancel { turn }),
        1 => proptest::collection::btree_map(0..4_u32, capacity, 0..4)
            .prop_map(|live| Op::Workers { live: live.into_iter().collect() }),
        1 => (0..9_u64).prop_map(|program| Op::End { program }),
        2 => (0..9_u64, proptest::option::of(0..20_u64))
            .prop_map(|(program, seconds)| Op::Tool { program, seconds }),
        3 => Just(Op::Advance),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Timed>> {
    let step = prop_oneof![8 => 0..3_000_i64, 1 => -2_000..0_i64, 1 => 5_000..90_000_i64];
    proptest::collection::vec((step, op()), 1..120)
}

fn config() -> impl Strategy<Value = LeaseConfig> {
    let eviction = prop_oneof![Just(Eviction::Lru), Just(Eviction::LeaseEnd)];
    let force = proptest::option::of(Just(Micros::from_secs(30)));
    let host_tokens = prop_oneof![Just(0), 1..9_000_u64, Just(u64::MAX)];
    (eviction, force, host_tokens).prop_map(|(eviction, force_after, host_tokens)| LeaseConfig {
        warm_tokens: 500,
        host_tokens,
        eviction,
        force_after,
        max_programs: 8,
        ..LeaseConfig::default()
    })
}

/// A turn that was let go.
#[derive(Clone, Copy, Debug)]
struct Sent {
    worker: Option<WorkerId>,
    tokens: u32,
}

/// Drives a policy as a scheduler does, and keeps the little that it would know.
struct Driver {
    policy: Lease,
    now: Micros,
    begun: u64,
    held: BTreeMap<ReservationId, Begin>,
    running: BTreeMap<ReservationId, Sent>,
    strangers: BTreeMap<u32, u32>,
    live: BTreeMap<u32, Option<u64>>,
}

impl Driver {
    fn new(config: LeaseConfig) -> Self {
        let mut driver = Self {
            policy: Lease::new(config).expect("settings"),
            now: Micros::from_secs(1_000),
            begun: 0,
            held: BTreeMap::new(),
            running: BTreeMap::new(),
            strangers: BTreeMap::new(),
            live: BTreeMap::new(),
        };
        let two = vec![(0, Some(10_000)), (1, Some(10_000))];
        driver.apply(&Op::Workers { live: two });
        driver
    }

    /// A ticket: of a turn that lives, mostly; else one that has ended or never was.
    fn pick(&self, turn: usize) -> ReservationId {
        let all: Vec<_> = self.held.keys().chain(self.running.keys()).collect();
        match all.get(turn % (all.len() + 1)) {
            Some(&&ticket) => ticket,
            None => ReservationId(turn as u64),
        }
    }

    /// What the workers have for a turn: its program's own context, and all that runs.
    fn rows(&self, begin: &Begin) -> Vec<Candidate> {
        let may = |id: u32| begin.pin.is_none_or(|pin| pin.0 == id);
        let live = self.live.keys().filter(|&&id| may(id));
        live.map(|&id| {
            let worker = WorkerId(id);
            let here = self.running.values().filter(|s| s.worker == Some(worker));
            let stranger = self.strangers.get(&id);
            let own = self.policy.account(begin.program);
            let own = own.filter(|own| own.worker == worker);
            Candidate {
                worker,
                cost: 0.0,
                overlap_tokens: own.map_or(0, |own| own.tokens.min(begin.prompt_tokens)),
                host_tokens: own.map_or(0, |own| own.host_tokens),
                disk_tokens: 0,
                pool_tokens: 0,
                rank: None,
                prefill_tokens: 0,
                active_tokens: here.clone().map(|s| u64::from(s.tokens)).sum::<u64>()
                    + stranger.map_or(0, |&tokens| tokens.into()),
                additional_tokens: begin.prompt_tokens,
                requests: here.count() as u32 + u32::from(stranger.is_some()),
                affinity_tokens: 0,
                relief_tokens: 0,
                pace: Default::default(),
            }
        })
        .collect()
    }

    fn released(&mut self, out: Vec<Release>, begin: Option<Begin>) {
        for Release { ticket, worker } in out {
            let begin = self.held.remove(&ticket).or(begin);
            let tokens = begin
                .expect("only a turn that waits is let go")
                .prompt_tokens;
            let before = self.running.insert(ticket, Sent { worker, tokens });
            assert!(before.is_none(), "a turn is let go once");
        }
    }

    fn step(&mut self, (by, op): &Timed) {
        self.now = Micros(self.now.0.saturating_add_signed(by * 1_000));
        self.apply(op);
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        match *op {
            Op::Begin {
                program,
                tokens,
                pin,
            } => self.begin(program, tokens, pin),
            Op::Stranger { worker, tokens } => {
                if self.strangers.remove(&worker).is_none() {
                    self.strangers.insert(worker, tokens);
                }
                self.policy.load_changed();
            }
            Op::Sent { turn, worker } => {
                let ticket = self.pick(turn);
                self.policy.sent(now, ticket, WorkerId(worker));
                if let Some(sent) = self.running.get_mut(&ticket) {
                    sent.worker = Some(WorkerId(worker));
                    self.policy.load_changed();
                }
            }
            Op::FirstToken { turn } => self.policy.first_token(now, self.pick(turn)),
            Op::Progress { turn, tokens } => self.policy.progress(now, self.pick(turn), tokens),
            Op::Complete { turn, end } => {
                let ticket = self.pick(turn);
                self.policy.complete(now, ticket, end);
                self.ended(ticket);
            }
            Op::Cancel { turn } => {
                let ticket = self.pick(turn);
                self.policy.cancel(now, ticket);
                self.ended(ticket);
            }
            Op::Workers { ref live } => {
                self.live = live.iter().copied().collect();
                let live: Vec<_> = live.iter().map(|&(id, c)| (WorkerId(id), c)).collect();
                self.policy.set_workers(now, &live);
            }
            Op::End { program } => self.policy.end_program(now, ProgramId(program)),
            Op::Tool { program, seconds } => {
                let started = |seconds| Tool::Started {
                    expected: (seconds > 0).then(|| Micros::from_secs(seconds)),
                };
                let tool = seconds.map_or(Tool::Ended, started);
                self.policy.tool(now, ProgramId(program), tool);
            }
            Op::Advance => self.policy.advance(now),
        }
        self.settle();
        self.check();
    }

    fn begin(&mut self, program: u64, prompt_tokens: u32, pin: Option<u32>) {
        self.begun += 1;
        // Far from the tickets that `pick` invents.
        let begin = Begin {
            ticket: ReservationId(1_000_000 + self.begun),
            claimant: Default::default(),
            program: ProgramId(program),
            prompt_tokens,
            kind: Kind::Turn,
            pin: pin.map(WorkerId),
        };
        let (rows, mut out) = (self.rows(&begin), Vec::new());
        self.policy.begin(self.now, begin, &rows, &mut out);
        if out.is_empty() {
            self.held.insert(begin.ticket, begin);
        }
        self.released(out, Some(begin));
    }

    /// Looks at the head of the queue as long as the policy asks for it.
    fn settle(&mut self) {
        let mut looks = 2 * self.held.len() + 2;
        while let Some(ticket) = self.policy.head() {
            looks = looks.checked_sub(1).expect("each change is given once");
            let (rows, mut out) = (self.rows(&self.held[&ticket]), Vec::new());
            self.policy.offer(self.now, ticket, &rows, &mut out);
            self.released(out, None);
        }
    }

    fn ended(&mut self, ticket: ReservationId) {
        self.held.remove(&ticket);
        self.running.remove(&ticket);
    }

    fn check(&self) {
        let held: BTreeSet<_> = self.held.keys().copied().collect();
        let mut order = Vec::new();
        self.policy.table.queue.places((), &mut order);
        let queue: BTreeSet<_> = order.iter().copied().collect();
        assert_eq!(held, queue, "who is held waits in the queue");
        assert_eq!(self.policy.waiting(), held.len());
        for (place, &ticket) in order.iter().enumerate() {
            assert_eq!(self.policy.ahead(ticket).map(|a| a.turns), Some(place));
            assert!(self.policy.is_held(ticket));
        }
        check_sums(&self.policy);
        self.check_head();
    }

    /// Nobody waits while there is room: every worker refuses the head, and one where no turn runs that
    /// the policy has let go never does.
    fn check_head(&self) {
        let Some(head) = self.policy.table.queue.first(&[()]) else {
            return;
        };
        let rows = self.rows(&self.held[&head]);
        let mut refusals = Vec::new();
        self.policy.refusals_of(head, &rows, &mut refusals);
        assert_eq!(refusals.len(), rows.len());
        assert!(!rows.is_empty());
        let is_idle = |row: &Candidate| {
            let mut sent = self.running.values();
            let is_free = sent.all(|sent| sent.worker != Some(row.worker));
            is_free && self.live[&row.worker.0] >= Some(row.additional_tokens.into())
        };
        assert!(!rows.iter().any(is_idle), "{rows:?}");
    }
}

/// Sums and orders hold what the records say, nothing else and nothing twice.
fn check_sums(policy: &Lease) {
    let table = &policy.table;
    let mut runs: BTreeMap<WorkerId, (u64, usize, usize)> = BTreeMap::new();
    for turn in table.turns.values() {
        let program = &table.programs[&turn.begin.program];
        assert_eq!(program.turn, Some(turn.begin.ticket));
        if let Gate::Running(run) = turn.gate {
            let Some(worker) = run.worker else { continue };
            let sum = runs.entry(worker).or_default();
            *sum = (
                sum.0 + u64::from(run.tokens),
                sum.1 + 1,
                sum.2 + usize::from(run.is_refill),
            );
        }
    }
    let mut timers = BTreeSet::new();
    for (&id, room) in &table.rooms {
        let sum = runs.remove(&id).unwrap_or_default();
        assert_eq!((room.running, room.turns, room.refills), sum);
        assert!(
            room.is_live || room.turns > 0,
            "a worker that is gone leaves"
        );
        let (mut leased, mut spent, mut ends) = (0, 0, Vec::new());
        for (_, idle) in room.contexts() {
            assert!(idle.tokens > 0);
            match idle.claim {
                Claim::Leased(end) => {
                    assert!(end > policy.clock, "a lease that is due has ended");
                    leased += u64::from(idle.tokens);
                    ends.push(end);
                }
                Claim::Spent => spent += u64::from(idle.tokens),
            }
        }
        assert_eq!((room.leased(), room.spent()), (leased, spent));
        let is_leased = |(_, idle): &(_, Idle)| idle.claim != Claim::Spent;
        let behind = room.contexts().skip_while(|context| !is_leased(context));
        let claimed: u64 = behind.map(|(_, idle)| u64::from(idle.tokens)).sum();
        assert_eq!(room.claimed(), claimed);
        room.shelf.check();
        assert_eq!(room.next_end(), ends.iter().min().copied());
        timers.extend(room.next_end().map(|end| (end, id)));
    }
    for (&program, record) in &table.programs {
        let (Some(context), Some(own)) = (record.context, policy.account(program)) else {
            continue;
        };
        let kept = u64::from(own.tokens) + u64::from(own.host_tokens);
        assert!(kept <= u64::from(context.tokens), "a context never grows");
    }
    assert!(runs.is_empty(), "{runs:?}");
    assert_eq!(table.timers(), &timers);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_hold_ends_once_sums_are_right_and_nobody_waits_beside_room(
        config in config(),
        ops in ops(),
    ) {
        let mut driver = Driver::new(config);
        for timed in &ops {
            driver.step(timed);
        }
        // Whoever still waits goes when the others end, one after the other, whatever strangers do.
        driver.apply(&Op::Workers { live: vec![(0, Some(10_000)), (1, Some(12_000))] });
        while let Some(&ticket) = driver.running.keys().next() {
            driver.policy.complete(driver.now, ticket, End::default());
            driver.ended(ticket);
            driver.settle();
            driver.check();
        }
        prop_assert_eq!(driver.held.len(), 0);
        for program in 0..9 {
            driver.apply(&Op::End { program });
        }
        prop_assert_eq!(driver.policy.programs(), vec![]);
        for room in driver.policy.table.rooms.values() {
            prop_assert_eq!((room.running, room.leased()), (0, 0));
        }
    }

    #[test]
    fn what_is_unknown_changes_nothing(config in config(), ops in ops(), tokens in tokens()) {
        let mut driver = Driver::new(config);
        for timed in &ops {
            driver.step(timed);
        }
        let picture = |policy: &Lease| format!("{:?} {:?}", policy.programs(), policy.table.rooms);
        let (nobody, now) = (ReservationId(7), driver.now);
        driver.policy.advance(now);
        let before = picture(&driver.policy);
        driver.policy.sent(now, nobody, WorkerId(0));
        driver.policy.first_token(now, nobody);
        driver.policy.progress(now, nobody, tokens);
        driver.policy.complete(now, nobody, End::default());
        driver.policy.cancel(now, nobody);
        prop_assert_eq!(picture(&driver.policy), before);
    }

    #[test]
    fn the_same_calls_give_the_same_answers(config in config(), ops in ops()) {
        let (mut one, mut same) = (Driver::new(config.clone()), Driver::new(config));
        for timed in &ops {
            one.step(timed);
            same.step(timed);
            prop_assert_eq!(one.policy.programs(), same.policy.programs());
            prop_assert_eq!(one.policy.counters(), same.policy.counters());
        }
    }
}
