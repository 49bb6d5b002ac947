//! The queue against a list that is sorted anew for each turn that goes.
use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::admission::TenantKey;

#[derive(Clone, Debug)]
enum Op {
    Push {
        priority: i16,
        tokens: u32,
        lane: u8,
    },
    Go {
        open: Vec<u8>,
    },
    Remove {
        nth: usize,
    },
    Move {
        nth: usize,
        lane: u8,
    },
    Count {
        nth: usize,
        tokens: u32,
    },
    Wait {
        seconds: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let open = proptest::sample::subsequence(vec![0_u8, 1, 2], 0..=3);
    prop_oneof![
        6 => (-3..4_i16, 0..3_000_u32, 0..3_u8)
            .prop_map(|(priority, tokens, lane)| Op::Push { priority, tokens, lane }),
        5 => open.prop_map(|open| Op::Go { open }),
        1 => (0..40_usize).prop_map(|nth| Op::Remove { nth }),
        1 => (0..40_usize, 0..3_u8).prop_map(|(nth, lane)| Op::Move { nth, lane }),
        1 => (0..40_usize, 0..3_000_u32).prop_map(|(nth, tokens)| Op::Count { nth, tokens }),
        3 => (0..12_u64).prop_map(|seconds| Op::Wait { seconds }),
    ]
}

/// Any queue whose priorities are no levels of their own.
pub(crate) fn config() -> impl Strategy<Value = QueueConfig> {
    let order = prop::sample::select(vec![Order::Fcfs, Order::Wspt, Order::Lcfs]);
    let priorities = prop::sample::select(vec![Priorities::HeadStart, Priorities::Published]);
    let class = (1..5_000_u32, prop::option::of(order.clone()));
    let classes = prop::collection::vec(class, 0..4);
    let age = prop::option::of(1..40_u64);
    (order, priorities, classes, age).prop_map(|(order, priorities, classes, age)| {
        let last = classes.len().saturating_sub(1);
        let class = |(at, (quantum, order)): (usize, (u32, Option<Order>))| {
            let mut class = ClassConfig {
                name: at.to_string(),
                quantum,
                order,
                ..ClassConfig::default()
            };
            match at {
                _ if at == last => {}
                0 => class.max_tokens = Some(1_000),
                _ => class.priorities = (1, i16::MAX),
            }
            class
        };
        QueueConfig {
            order,
            priorities,
            max_age: age.map(Micros::from_secs),
            classes: classes.into_iter().enumerate().map(class).collect(),
        }
    })
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    number: u64,
    class: usize,
    lane: u8,
    priority: i16,
    tokens: u32,
    since: u64,
    is_old: bool,
}

struct Model {
    config: QueueConfig,
    turns: Vec<Turn>,
    deficits: Vec<u64>,
    cursor: usize,
}

impl Model {
    fn order(&self, class: usize) -> Order {
        let own = self.config.classes.get(class).and_then(|c| c.order);
        own.unwrap_or(self.config.order)
    }

    /// What the documentation says, written out.
    fn compare(&self, a: &Turn, b: &Turn) -> Ordering {
        let lowered = |t: &Turn| match self.config.priorities {
            Priorities::Published => 0,
            _ => -i128::from(t.priority.min(0)),
        };
        let seconds = |t: &Turn| i128::from(t.priority.max(0));
        let since = |t: &Turn| i128::from(t.since);
        let size = |t: &Turn| i128::from(t.tokens.max(1));
        let by_order = match self.order(a.class) {
            Order::Fcfs => (since(a) - seconds(a)).cmp(&(since(b) - seconds(b))),
            Order::Lcfs => (since(b) + seconds(b)).cmp(&(since(a) + seconds(a))),
            Order::Wspt => ((1 + seconds(b)) * size(a)).cmp(&((1 + seconds(a)) * size(b))),
        };
        match (a.is_old, b.is_old) {
            (true, true) => a.number.cmp(&b.number),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => lowered(a)
                .cmp(&lowered(b))
                .then(by_order)
                .then(a.number.cmp(&b.number)),
        }
    }

    fn first_of(&self, class: usize, open: &[u8]) -> Option<Turn> {
        let own = self.turns.iter().filter(|t| t.class == class);
        let may = own.filter(|t| open.contains(&t.lane)).copied();
        may.min_by(|a, b| self.compare(a, b))
    }

    fn go(&mut self, open: &[u8]) -> Option<u64> {
        let count = self.deficits.len();
        let turn = match count {
            1 => self.first_of(0, open)?,
            _ => self.pay(open)?,
        };
        self.remove(turn.number);
        if count > 1 {
            let next = self.first_of(turn.class, open);
            let goes_on =
                next.is_some_and(|n| u64::from(n.tokens.max(1)) <= self.deficits[turn.class]);
            self.cursor = if goes_on {
                turn.class
            } else {
                (turn.class + 1) % count
            };
        }
        Some(turn.number)
    }

    fn pay(&mut self, open: &[u8]) -> Option<Turn> {
        let count = self.deficits.len();
        let quantum = |config: &QueueConfig, class: usize| u64::from(config.classes[class].quantum);
        let cost = |t: &Turn| u64::from(t.tokens.max(1));
        for _ in 0..count {
            let class = self.cursor;
            if let Some(turn) = self.first_of(class, open) {
                if self.deficits[class] < cost(&turn) {
                    self.deficits[class] += quantum(&self.config, class);
                }
                if self.deficits[class] >= cost(&turn) {
                    self.deficits[class] -= cost(&turn);
                    return Some(turn);
                }
            }
            self.cursor = (class + 1) % count;
        }
        // Quantum by quantum, until somebody can pay.
        let firsts: Vec<_> = (0..count).filter_map(|c| self.first_of(c, open)).collect();
        let can = |deficits: &[u64], t: &Turn| deficits[t.class] >= cost(t);
        while !firsts.is_empty() && !firsts.iter().any(|t| can(&self.deficits, t)) {
            for turn in &firsts {
                self.deficits[turn.class] += quantum(&self.config, turn.class);
            }
        }
        let from = self.cursor;
        let ahead = |t: &&Turn| (t.class + count - from) % count;
        let turn = firsts
            .iter()
            .filter(|t| can(&self.deficits, t))
            .min_by_key(ahead)
            .copied()?;
        self.deficits[turn.class] -= cost(&turn);
        Some(turn)
    }

    fn remove(&mut self, number: u64) {
        let Some(at) = self.turns.iter().position(|t| t.number == number) else {
            return;
        };
        let class = self.turns.remove(at).class;
        if self.turns.iter().all(|t| t.class != class) {
            self.deficits[class] = 0;
        }
    }
}

struct Driver {
    queue: Queue<u8>,
    model: Model,
    now: u64,
    pushed: u64,
}

impl Driver {
    fn new(config: QueueConfig) -> Self {
        config.check().unwrap();
        let classes = config.classes.len().max(1);
        Self {
            queue: Queue::new(config.clone(), &Weights::default()),
            model: Model {
                config,
                turns: Vec::new(),
                deficits: vec![0; classes],
                cursor: 0,
            },
            now: 1_000,
            pushed: 0,
        }
    }

    fn nth(&self, nth: usize) -> Option<u64> {
        let turns = &self.model.turns;
        turns.get(nth % turns.len().max(1)).map(|t| t.number)
    }

    fn turn(&mut self, number: u64) -> &mut Turn {
        let found = self.model.turns.iter_mut().find(|t| t.number == number);
        found.unwrap()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Push {
                priority,
                tokens,
                lane,
            } => self.push(priority, tokens, lane),
            Op::Go { ref open } => {
                let next = self.queue.first(open);
                assert_eq!(next.map(|t| t.0), self.model.go(open));
                if let Some(ticket) = next {
                    self.queue.serve(ticket, open);
                }
            }
            Op::Remove { nth } => {
                if let Some(number) = self.nth(nth) {
                    assert!(self.queue.remove(ReservationId(number)));
                    assert!(!self.queue.remove(ReservationId(number)));
                    self.model.remove(number);
                }
            }
            Op::Move { nth, lane } => {
                if let Some(number) = self.nth(nth) {
                    let turn = self.turn(number);
                    let is_news = std::mem::replace(&mut turn.lane, lane) != lane;
                    assert_eq!(self.queue.move_to(ReservationId(number), lane), is_news);
                }
            }
            Op::Count { nth, tokens } => {
                if let Some(number) = self.nth(nth) {
                    let now = Micros::from_secs(self.now);
                    self.queue.count_anew(ReservationId(number), tokens, now);
                    assert!(!self.queue.is_stale(ReservationId(number), now));
                    self.turn(number).tokens = tokens;
                }
            }
            Op::Wait { seconds } => self.wait(seconds),
        }
        self.check();
    }

    fn push(&mut self, priority: i16, tokens: u32, lane: u8) {
        let number = self.pushed;
        self.pushed += 1;
        let entrant = Entrant {
            claimant: Claimant {
                tenant: TenantKey::default(),
                priority,
            },
            tokens,
            since: Micros::from_secs(self.now),
        };
        self.queue.push(ReservationId(number), entrant, lane);
        let classes = &self.model.config.classes;
        let is_last = |at| at + 1 == classes.len();
        let class = (0..classes.len()).find(|&at| match at {
            _ if is_last(at) => true,
            0 => tokens <= 1_000,
            _ => priority >= 1,
        });
        self.model.turns.push(Turn {
            number,
            class: class.unwrap_or(0),
            lane,
            priority,
            tokens,
            since: self.now,
            is_old: false,
        });
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.queue.age(Micros::from_secs(self.now));
        let most = self.model.config.max_age.map(|age| age.0 / 1_000_000);
        for turn in &mut self.model.turns {
            turn.is_old |= most.is_some_and(|most| turn.since + most <= self.now);
        }
    }

    fn check(&self) {
        assert_eq!(self.queue.len(), self.model.turns.len());
        assert!(self.queue.young.len() <= self.queue.len());
        for turn in &self.model.turns {
            let ticket = ReservationId(turn.number);
            let alike = |t: &&Turn| t.class == turn.class && t.lane == turn.lane;
            let others = self.model.turns.iter().filter(alike);
            let before = others.filter(|t| self.model.compare(t, turn).is_lt());
            let place = self.queue.ahead(ticket).map(|ahead| ahead.place());
            assert_eq!(place, Some(before.count() + 1));
            let is_named = !self.model.config.classes.is_empty();
            let class = Some(turn.class).filter(|_| is_named);
            assert_eq!(self.queue.class_of(ticket), class);
        }
        for (at, state) in self.queue.classes().enumerate() {
            let own = self.model.turns.iter().filter(|t| t.class == at);
            assert_eq!(state.waiting, own.count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whoever_goes_is_the_first_of_a_list_that_is_sorted_anew(
        config in config(),
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut driver = Driver::new(config);
        for op in &ops {
            driver.apply(op);
        }
        while !driver.model.turns.is_empty() {
            driver.apply(&Op::Go { open: vec![0, 1, 2] });
        }
        prop_assert!(driver.queue.is_empty() && driver.queue.young.is_empty());
    }
}

fn of_order(order: Order) -> QueueConfig {
    QueueConfig {
        order,
        priorities: Priorities::HeadStart,
        ..QueueConfig::default()
    }
}

#[test]
fn a_negative_priority_goes_behind_all_others_in_each_order() {
    for order in [Order::Fcfs, Order::Wspt, Order::Lcfs] {
        let mut driver = Driver::new(of_order(order));
        // First or last to come, and the shortest: any order alone would let one of these go first.
        driver.push(-1, 1, 0);
        for tokens in [900, 2_000, 100] {
            driver.wait(1);
            driver.push(0, tokens, 0);
        }
        driver.wait(1);
        driver.push(-1, 1, 0);
        driver.push(-2, 1, 0);
        let mut gone = Vec::new();
        while let Some(next) = driver.queue.first(&[0]) {
            driver.queue.serve(next, &[0]);
            gone.push(next.0);
        }
        let lowered: &[u64] = match order {
            Order::Lcfs => &[4, 0, 5],
            Order::Fcfs | Order::Wspt => &[0, 4, 5],
        };
        assert_eq!(&gone[3..], lowered, "{order:?}");
        // The published arithmetic lets it pass for one of priority 0.
        let published = QueueConfig {
            priorities: Priorities::Published,
            ..of_order(order)
        };
        let mut driver = Driver::new(published);
        driver.push(-1, 1, 0);
        driver.push(0, 1, 0);
        assert_eq!(driver.queue.first(&[0]), Some(ReservationId(0)));
    }
}

#[test]
fn whoever_has_waited_for_the_longest_time_allowed_goes_first() {
    for (order, priority) in [(Order::Wspt, 0), (Order::Lcfs, 0), (Order::Fcfs, -1)] {
        let mut driver = Driver::new(of_order(order));
        driver.push(priority, 3_000, 0);
        let mut passed = 0;
        // Each second a short turn comes and one goes.
        let waited = loop {
            driver.wait(1);
            driver.push(0, 10, 0);
            let next = driver.queue.first(&[0]).unwrap();
            driver.queue.serve(next, &[0]);
            driver.model.remove(next.0);
            if next.0 == 0 {
                break driver.now - 1_000;
            }
            passed += 1;
            assert!(passed < 100, "{order:?} starves");
        };
        assert_eq!(waited, 60, "{order:?}");
    }
}

#[test]
fn a_full_class_has_no_room_and_the_others_have() {
    let short = ClassConfig {
        name: "short".to_owned(),
        max_tokens: Some(100),
        max_waiting: Some(2),
        ..ClassConfig::default()
    };
    let rest = ClassConfig {
        name: "rest".to_owned(),
        ..ClassConfig::default()
    };
    let config = QueueConfig {
        classes: vec![short, rest],
        ..QueueConfig::default()
    };
    let mut driver = Driver::new(config);
    for number in 0..2 {
        assert!(driver.queue.has_room(Claimant::default(), 100), "{number}");
        driver.queue.push(
            ReservationId(number),
            Entrant {
                claimant: Claimant::default(),
                tokens: 100,
                since: Micros(0),
            },
            0,
        );
    }
    assert!(!driver.queue.has_room(Claimant::default(), 100));
    assert!(driver.queue.has_room(Claimant::default(), 101));
    let states: Vec<_> = driver.queue.classes().collect();
    assert_eq!((states[0].waiting, states[0].refused), (2, 1));
    assert_eq!((states[1].waiting, states[1].refused), (0, 0));
    assert!(driver.queue.remove(ReservationId(0)));
    assert!(driver.queue.has_room(Claimant::default(), 0));
}

#[test]
fn classes_share_by_their_quanta() {
    let class = |name: &str, quantum, low| ClassConfig {
        name: name.to_owned(),
        quantum,
        priorities: (low, i16::MAX),
        ..ClassConfig::default()
    };
    let config = QueueConfig {
        classes: vec![class("a", 3_000, 1), class("b", 1_000, i16::MIN)],
        ..QueueConfig::default()
    };
    let mut driver = Driver::new(config);
    for _ in 0..4_000 {
        driver.push(1, 500, 0);
        driver.push(0, 1_000, 0);
    }
    let mut tokens = [0_u64; 2];
    for _ in 0..3_500 {
        let next = driver.queue.first(&[0]).unwrap();
        driver.queue.serve(next, &[0]);
        tokens[(next.0 % 2) as usize] += [500, 1_000][(next.0 % 2) as usize];
    }
    assert_eq!(tokens, [1_500_000, 500_000]);
}

#[test]
fn what_is_counted_long_ago_is_looked_at_again_where_it_decides() {
    let now = |seconds| Micros::from_secs(seconds);
    for (order, decides) in [(Order::Wspt, true), (Order::Lcfs, false)] {
        let mut driver = Driver::new(of_order(order));
        driver.push(0, 2_000, 0);
        driver.push(0, 1_000, 0);
        let first = ReservationId(0);
        assert!(!driver.queue.is_stale(first, now(1_009)));
        assert_eq!(driver.queue.is_stale(first, now(1_010)), decides);
        driver.queue.count_anew(first, 500, now(1_010));
        assert!(!driver.queue.is_stale(first, now(1_019)));
        let place = if decides { 1 } else { 2 };
        // Both came at once, and the first to come goes first.
        let place = if order == Order::Lcfs { 1 } else { place };
        let found = driver.queue.ahead(first).map(|ahead| ahead.place());
        assert_eq!(found, Some(place));
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let named = |name: &str| ClassConfig {
        name: name.to_owned(),
        ..ClassConfig::default()
    };
    let with = |classes: Vec<ClassConfig>| QueueConfig {
        classes,
        ..QueueConfig::default()
    };
    let all = named("all");
    let most: Vec<_> = (0..=MAX_CLASSES).map(|n| named(&n.to_string())).collect();
    let bad = [
        with(most),
        with(vec![all.clone(), all.clone()]),
        with(vec![ClassConfig {
            quantum: 0,
            ..all.clone()
        }]),
        with(vec![ClassConfig {
            max_waiting: Some(0),
            ..all.clone()
        }]),
        with(vec![
            ClassConfig {
                priorities: (1, 0),
                ..named("none")
            },
            all.clone(),
        ]),
        with(vec![ClassConfig {
            max_tokens: Some(9),
            ..all.clone()
        }]),
        with(vec![ClassConfig {
            priorities: (0, 5),
            ..all
        }]),
        QueueConfig {
            max_age: Some(Micros(0)),
            ..QueueConfig::default()
        },
    ];
    for config in bad {
        let error = config.check().unwrap_err();
        assert_eq!(error.code(), "INVALID_ARGUMENT", "{config:?}");
    }
}
