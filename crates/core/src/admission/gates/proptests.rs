//! Any sequence of calls against a fleet that only counts: who runs where, and whom each worker keeps.
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::admission::TenantKey;
use crate::block::Chain;
use crate::load::Untracked;

#[derive(Clone, Debug)]
enum Op {
    Begin {
        program: Option<u64>,
        tenant: u8,
        priority: i16,
        pin: Option<u32>,
        home: Option<u32>,
        bound: Option<u32>,
        tokens: u32,
    },
    End {
        nth: usize,
    },
    EndProgram {
        program: u64,
    },
    Refresh {
        program: u64,
    },
    Others {
        worker: u32,
        requests: u32,
    },
    Workers {
        live: Vec<u32>,
    },
    /// These leave, as far as they are there and others stay.
    Leaving {
        workers: Vec<u32>,
    },
    Advance,
}

fn op() -> impl Strategy<Value = Op> {
    let program = proptest::option::weighted(0.9, 0..8_u64);
    let pin = proptest::option::weighted(0.15, 0..3_u32);
    let bound = proptest::option::weighted(0.3, 0..3_u32);
    let home = proptest::option::weighted(0.2, 0..3_u32);
    let begin = (
        program,
        0..3_u8,
        -1..2_i16,
        pin,
        (home, bound),
        0..5_000_u32,
    );
    prop_oneof![
        8 => begin.prop_map(|(program, tenant, priority, pin, (home, bound), tokens)| {
            Op::Begin { program, tenant, priority, pin, home, bound, tokens }
        }),
        6 => (0..100_usize).prop_map(|nth| Op::End { nth }),
        1 => (0..8_u64).prop_map(|program| Op::EndProgram { program }),
        1 => (0..8_u64).prop_map(|program| Op::Refresh { program }),
        1 => (0..3_u32, 0..4_u32).prop_map(|(worker, requests)| Op::Others { worker, requests }),
        1 => proptest::collection::btree_set(0..3_u32, 0..4)
            .prop_map(|live| Op::Workers { live: live.into_iter().collect() }),
        1 => proptest::collection::btree_set(0..3_u32, 0..3)
            .prop_map(|workers| Op::Leaving { workers: workers.into_iter().collect() }),
        2 => Just(Op::Advance),
    ]
}

fn config() -> impl Strategy<Value = GateConfig> {
    let running = proptest::option::weighted(0.8, 1..4_u32);
    let sessions = proptest::option::weighted(0.7, 1..4_u32);
    (running, sessions).prop_map(|(max_running, max_sessions)| GateConfig {
        max_running,
        max_sessions,
        session_idle: Micros::from_secs(10),
    })
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    let any = crate::admission::queue::tests::config();
    prop_oneof![1 => Just(QueueConfig::default()), 2 => any]
}

struct Driver {
    gates: Gates,
    load: LoadLedger,
    config: GateConfig,
    now: Micros,
    live: Vec<u32>,
    leaving: Vec<u32>,
    begun: u64,
    waiting: BTreeMap<ReservationId, Arrival>,
    running: BTreeMap<ReservationId, (Option<ProgramId>, WorkerId)>,
    /// By the model: where each session is kept, and when its last turn ended.
    kept: BTreeMap<ProgramId, (WorkerId, Micros)>,
}

impl Driver {
    fn new(config: GateConfig, queue: QueueConfig) -> Self {
        let mut driver = Self {
            gates: Gates::new(config, queue, &Weights::default()),
            load: LoadLedger::new(),
            config,
            now: Micros::from_secs(1_000),
            live: Vec::new(),
            leaving: Vec::new(),
            begun: 0,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            kept: BTreeMap::new(),
        };
        for id in 0..3 {
            driver.load.add_worker(WorkerId(id));
        }
        driver.apply(&Op::Workers { live: vec![0, 1] });
        driver
    }

    fn busy(&self, program: ProgramId) -> bool {
        let runs = self.running.values().any(|(own, _)| *own == Some(program));
        runs || self
            .waiting
            .values()
            .any(|arrival| arrival.program == Some(program))
    }

    /// What the gates should say of one worker.
    fn is_open(&self, arrival: &Arrival, worker: WorkerId) -> bool {
        let own = self.load.load(worker).unwrap().requests;
        let all = own + self.load.untracked(worker).requests;
        if own > 0 && self.config.max_running.is_some_and(|most| all >= most) {
            return false;
        }
        let (Some(program), Some(most)) = (arrival.program, self.config.max_sessions) else {
            return true;
        };
        let here = |id: &ProgramId| self.kept.get(id).is_some_and(|kept| kept.0 == worker);
        if here(&program) {
            return true;
        }
        let count = self.kept.keys().filter(|id| here(id)).count() as u32;
        let gone = self.kept.iter().any(|(id, kept)| {
            here(id) && !self.busy(*id) && kept.1.plus(self.config.session_idle) <= self.now
        });
        count < most || gone
    }

    fn may(&self, arrival: &Arrival) -> Vec<WorkerId> {
        let live = self.live.iter().map(|&id| WorkerId(id));
        let asked = live.filter(|&id| arrival.pin.is_none_or(|pin| pin == id));
        let stays = |id| arrival.pin == Some(id) || arrival.bound == Some(id);
        let takes = asked.filter(|&id| stays(id) || !self.leaving.contains(&id.0));
        let takes: Vec<_> = takes.collect();
        let home = arrival.home.filter(|home| takes.contains(home));
        home.map_or(takes, |home| vec![home])
    }

    fn go(&mut self, ticket: ReservationId, arrival: Arrival) {
        let may = self.may(&arrival);
        let admitted = may
            .iter()
            .copied()
            .find(|&id| self.gates.admits(ticket, id, &self.load));
        if may.is_empty() {
            // Nobody is there to take it: the turn fails.
            self.gates.end(self.now, ticket);
            return self.note_idle(arrival.program);
        }
        let worker = admitted.expect("a turn that may go finds an open worker");
        assert!(self.is_open(&arrival, worker));
        self.load.begin(ticket, worker, &Chain::default(), 0);
        if let (Some(program), Some(most)) = (arrival.program, self.config.max_sessions)
            && self.kept.get(&program).is_none_or(|kept| kept.0 != worker)
        {
            self.kept.remove(&program);
            let here = |kept: &(WorkerId, Micros)| kept.0 == worker;
            let count = self.kept.values().filter(|kept| here(kept)).count() as u32;
            let idle = self
                .kept
                .iter()
                .filter(|(id, kept)| here(kept) && !self.busy(**id));
            let oldest = idle
                .min_by_key(|(id, kept)| (kept.1, **id))
                .map(|(id, _)| *id);
            if count >= most {
                self.kept.remove(&oldest.expect("somebody gives way"));
            }
            self.kept.insert(program, (worker, self.now));
        }
        self.gates.sent(self.now, ticket, worker);
        self.running.insert(ticket, (arrival.program, worker));
    }

    fn note_idle(&mut self, program: Option<ProgramId>) {
        let Some(program) = program.filter(|&program| !self.busy(program)) else {
            return;
        };
        let now = self.now;
        // Its last turn on a worker that is not there has ended: nothing keeps it any more.
        let live = |kept: &(WorkerId, Micros)| self.live.contains(&kept.0.0);
        if self.kept.get(&program).is_some_and(|kept| !live(kept)) {
            self.kept.remove(&program);
        }
        if let Some(kept) = self.kept.get_mut(&program) {
            kept.1 = now;
        }
    }

    fn next(&mut self) -> Option<(ReservationId, Clearance)> {
        let bound = |id| self.waiting[&id].bound;
        let next = self.gates.next(&self.load, bound)?;
        if next.is_stale {
            // Less has to be computed for it by now.
            self.gates.count_anew(next.ticket, 0);
            return self.next();
        }
        Some((next.ticket, self.gates.take(next.ticket, &self.load)))
    }

    fn settle(&mut self) {
        while let Some((ticket, clearance)) = self.next() {
            assert_eq!(clearance, Clearance::None);
            let arrival = self.waiting.remove(&ticket).expect("who waits goes once");
            self.go(ticket, arrival);
        }
    }

    fn step(&mut self, by: i64, op: &Op) {
        let moved = self.now.0.saturating_add_signed(by * 1_000);
        self.now = self.now.max(Micros(moved));
        // A clock that goes back is a time that has passed.
        self.gates.advance(Micros(moved));
        self.apply(op);
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Begin {
                program,
                tenant,
                priority,
                pin,
                home,
                bound,
                tokens,
            } => {
                self.begun += 1;
                let ticket = ReservationId(self.begun);
                let program = program.map(ProgramId).filter(|&id| !self.busy(id));
                let arrival = Arrival {
                    program,
                    pin: pin.map(WorkerId),
                    home: home.map(WorkerId).filter(|_| program.is_some()),
                    bound: bound.map(WorkerId).filter(|_| program.is_some()),
                    claimant: Claimant {
                        tenant: TenantKey::of(&tenant.to_string()),
                        priority,
                    },
                };
                self.settle();
                self.gates.begin(self.now, ticket, arrival);
                match self.gates.must_wait(ticket, &self.load) {
                    true => {
                        self.gates.hold(ticket, tokens, Clearance::None);
                        self.waiting.insert(ticket, arrival);
                    }
                    false => self.go(ticket, arrival),
                }
            }
            Op::End { nth } => {
                let waiting = self.waiting.keys();
                let all: Vec<_> = waiting.chain(self.running.keys()).copied().collect();
                if let Some(&ticket) = all.get(nth % (all.len() + 1)) {
                    self.end(ticket);
                    // A second end finds nothing.
                    self.gates.end(self.now, ticket);
                }
            }
            Op::EndProgram { program } => {
                self.gates.end_program(ProgramId(program));
                self.kept.remove(&ProgramId(program));
            }
            Op::Refresh { program } => {
                self.gates.refresh(self.now, ProgramId(program));
                self.note_idle(Some(ProgramId(program)));
            }
            Op::Others { worker, requests } => {
                let others = Untracked {
                    requests,
                    tokens: 0,
                };
                self.load.set_untracked(WorkerId(worker), others);
            }
            Op::Workers { ref live } => {
                self.live.clone_from(live);
                self.gates
                    .set_workers(self.now, live.iter().map(|&id| WorkerId(id)));
                let runs: Vec<_> = self.running.values().copied().collect();
                self.kept.retain(|&program, kept| {
                    live.contains(&kept.0.0) || runs.contains(&(Some(program), kept.0))
                });
                self.leave(Vec::new());
            }
            Op::Leaving { ref workers } => self.leave(workers.clone()),
            Op::Advance => self.gates.advance(self.now),
        }
        self.settle();
        self.check();
    }

    fn leave(&mut self, mut leaving: Vec<u32>) {
        leaving.retain(|id| self.live.contains(id));
        if leaving.len() == self.live.len() {
            leaving.clear();
        }
        let ids: Vec<_> = leaving.iter().map(|&id| WorkerId(id)).collect();
        self.gates.set_leaving(&ids);
        self.leaving = leaving;
    }

    fn end(&mut self, ticket: ReservationId) {
        let waiting = self.waiting.remove(&ticket);
        let running = self.running.remove(&ticket);
        let program = waiting
            .and_then(|w| w.program)
            .or(running.and_then(|r| r.0));
        self.load.end(ticket);
        self.gates.end(self.now, ticket);
        self.note_idle(program);
    }

    fn check(&self) {
        assert_eq!(self.gates.waiting(), self.waiting.len());
        assert_eq!(
            self.gates.turns.len(),
            self.waiting.len() + self.running.len()
        );
        for (ticket, arrival) in &self.waiting {
            assert!(self.gates.is_waiting(*ticket));
            let open = self
                .may(arrival)
                .into_iter()
                .find(|&id| self.is_open(arrival, id));
            assert_eq!(open, None, "nobody waits beside room: {arrival:?}");
            let mut refusals = Vec::new();
            self.gates.refusals(*ticket, &self.load, &mut refusals);
            assert_eq!(refusals.len(), self.may(arrival).len(), "{arrival:?}");
        }
        for &id in &self.live {
            let kept = self.kept.values().filter(|kept| kept.0.0 == id).count() as u32;
            assert_eq!(self.gates.sessions(WorkerId(id)), kept);
            assert!(self.config.max_sessions.is_none_or(|most| kept <= most));
        }
        assert_eq!(self.gates.desks.kept(), self.kept.len());
        if let Some(wake) = self.gates.next_wake() {
            assert!(wake > self.gates.desks.clock() && !self.waiting.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nobody_waits_beside_room_and_nothing_is_phantom(
        config in config(),
        queue in queue(),
        ops in proptest::collection::vec((-3_000..9_000_i64, op()), 1..120),
    ) {
        let mut driver = Driver::new(config, queue);
        for (by, op) in &ops {
            driver.step(*by, op);
        }
        // Whoever still waits goes when the others end, and time passes.
        driver.apply(&Op::Workers { live: vec![0, 1, 2] });
        while !driver.running.is_empty() || !driver.waiting.is_empty() {
            if let Some(&ticket) = driver.running.keys().next() {
                driver.end(ticket);
                driver.settle();
                driver.check();
            } else {
                driver.now = driver.gates.next_wake().expect("something has to happen");
                driver.apply(&Op::Advance);
            }
        }
        prop_assert_eq!(driver.waiting.len(), 0);
        for program in 0..8 {
            driver.apply(&Op::EndProgram { program });
        }
        prop_assert!(driver.gates.turns.is_empty() && driver.gates.desks.is_idle());
    }
}
