//! The order against what it promises, and against a list that is searched from end to end.
use proptest::prelude::*;

use super::*;
use crate::Micros;
use crate::admission::Order;
use crate::admission::queue::Ask;

fn whose(tenant: &str, priority: i16) -> Claimant {
    Claimant {
        tenant: TenantKey::of(tenant),
        priority,
    }
}

fn queue(weights: &[(&'static str, u32)]) -> FairQueue<u8> {
    FairQueue::new(Weights::new(weights.iter().copied()).unwrap())
}

fn place(queue: &FairQueue<u8>, ticket: ReservationId) -> Option<usize> {
    queue.ahead(ticket).map(|ahead| ahead.place())
}

fn behind(queue: &FairQueue<u8>, ticket: ReservationId) -> Option<Behind> {
    queue.ahead(ticket).map(|ahead| ahead.behind)
}

/// A rank that only time decides.
fn rank(since: u64) -> Rank {
    Order::Fcfs.rank(Ask {
        since: Micros(since),
        tokens: 1,
        jump: 0,
    })
}

/// Lets the next of these lanes go.
fn go(queue: &mut FairQueue<u8>, open: &[u8]) -> Option<u64> {
    let next = queue.first(open)?;
    assert!(queue.ahead(next).is_some());
    queue.serve(next, open);
    Some(next.0)
}

#[test]
fn a_flood_of_one_tenant_holds_only_itself() {
    let mut queue = queue(&[]);
    for n in 0..1_000 {
        queue.push(ReservationId(n), whose("flood", 0), 0, 1_000);
    }
    assert_eq!(behind(&queue, ReservationId(999)), Some(Behind::Earlier));
    queue.push(ReservationId(5_000), whose("one", 0), 0, 1_000);
    assert_eq!(place(&queue, ReservationId(5_000)), Some(2));
    assert_eq!(behind(&queue, ReservationId(5_000)), Some(Behind::Earlier));
    assert_eq!(behind(&queue, ReservationId(999)), Some(Behind::Share));
    assert_eq!(go(&mut queue, &[0]), Some(0));
    assert_eq!(go(&mut queue, &[0]), Some(5_000));
    assert_eq!(behind(&queue, ReservationId(999)), Some(Behind::Earlier));
}

#[test]
fn shares_follow_the_weights_in_tokens() {
    let mut queue = queue(&[("a", 3_000)]);
    for n in 0..4_000 {
        queue.push(ReservationId(n), whose("a", 0), 0, 500);
        queue.push(ReservationId(10_000 + n), whose("b", 0), 0, 1_000);
    }
    let mut tokens = [0u64; 2];
    for _ in 0..3_500 {
        match go(&mut queue, &[0]) {
            Some(n) if n < 10_000 => tokens[0] += 500,
            _ => tokens[1] += 1_000,
        }
    }
    assert_eq!(tokens, [1_500_000, 500_000]);
}

#[test]
fn what_is_withdrawn_costs_its_tenant_nothing() {
    let mut queue = queue(&[]);
    for n in 0..100 {
        queue.push(ReservationId(n), whose("a", 0), 0, 1_000);
        queue.push(ReservationId(1_000 + n), whose("b", 0), 0, 1_000);
    }
    for n in 0..90 {
        assert!(queue.remove(ReservationId(n)));
        assert!(!queue.remove(ReservationId(n)));
    }
    assert_eq!(go(&mut queue, &[0]), Some(1_000));
    assert_eq!(go(&mut queue, &[0]), Some(90));
    assert_eq!(
        queue.start(0, TenantKey::of("a")),
        queue.start(0, TenantKey::of("b"))
    );
}

#[test]
fn a_higher_priority_goes_first_and_a_lower_one_is_passed_a_few_times_at_most() {
    let mut queue = queue(&[]);
    queue.push(ReservationId(1), whose("a", -5), 0, 1);
    queue.push(ReservationId(2), whose("a", 0), 0, 1);
    for n in 0..50 {
        queue.push(ReservationId(100 + n), whose("a", 3), 0, 1);
    }
    assert_eq!(behind(&queue, ReservationId(2)), Some(Behind::Priority));
    queue.push(ReservationId(3), whose("b", 0), 0, 1);
    assert_eq!(behind(&queue, ReservationId(3)), Some(Behind::Priority));
    let order: Vec<u64> = std::iter::from_fn(|| go(&mut queue, &[0])).collect();
    let at = |n| order.iter().position(|&other| other == n).unwrap();
    assert_eq!(order[..7], [100, 101, 102, 103, 104, 105, 106]);
    // The last one is older than none that passes it.
    assert_eq!((at(1), at(2), at(3)), (7, 15, 52));
    queue.push(ReservationId(4), whose("a", 0), 0, 1);
    queue.push(ReservationId(5), whose("a", 3), 0, 1);
    assert_eq!(behind(&queue, ReservationId(4)), Some(Behind::Priority));
    assert!(queue.remove(ReservationId(5)));
    assert_eq!(behind(&queue, ReservationId(4)), Some(Behind::Earlier));
}

/// The walk is bounded: of very many tenants a place is the least that it can be.
#[test]
fn a_place_behind_very_many_tenants_is_at_least_that() {
    let mut queue = queue(&[]);
    let tenants = 3 * COUNTED as u64;
    for n in 0..tenants {
        queue.push(ReservationId(n), whose(&format!("t{n}"), 0), 0, 1);
    }
    for n in [0, 1, COUNTED as u64] {
        assert_eq!(place(&queue, ReservationId(n)), Some(n as usize + 1));
    }
    assert_eq!(place(&queue, ReservationId(tenants - 1)), Some(COUNTED + 1));
}

#[test]
fn a_weight_of_nothing_is_refused() {
    assert!(Weights::new([("a", 0)]).is_err());
    assert!(Weights::new([("a", 1_000_001)]).is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Push {
        tenant: u8,
        priority: i16,
        lane: u8,
        tokens: u32,
        since: u64,
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
}

fn op() -> impl Strategy<Value = Op> {
    let lanes = proptest::collection::btree_set(0..3_u8, 1..4);
    prop_oneof![
        4 => (0..4_u8, -1..2_i16, 0..3_u8, 0..2_000_u32, 0..3_u64).prop_map(
            |(tenant, priority, lane, tokens, since)| {
                Op::Push { tenant, priority, lane, tokens, since }
            },
        ),
        3 => lanes.prop_map(|open| Op::Go { open: open.into_iter().collect() }),
        1 => (0..100_usize).prop_map(|nth| Op::Remove { nth }),
        1 => (0..100_usize, 0..3_u8).prop_map(|(nth, lane)| Op::Move { nth, lane }),
    ]
}

/// The same by searching lists.
#[derive(Default)]
struct Model {
    /// Priority, tenant, lane, number, cost, since.
    waiting: Vec<(i16, u8, u8, u64, u64, u64)>,
    starts: BTreeMap<(i16, u8), u64>,
    now: BTreeMap<i16, u64>,
    passed: u32,
}

impl Model {
    fn start(&self, priority: i16, tenant: u8) -> u64 {
        let own = self.starts.get(&(priority, tenant)).copied().unwrap_or(0);
        own.max(self.floor(priority, tenant))
    }

    /// Who did not wait comes in at the time of those who did.
    fn floor(&self, priority: i16, tenant: u8) -> u64 {
        let waits = self
            .waiting
            .iter()
            .any(|w| (w.0, w.1) == (priority, tenant));
        match waits {
            true => 0,
            false => self.now.get(&priority).copied().unwrap_or(0),
        }
    }

    fn push(&mut self, entry: (i16, u8, u8, u64, u64, u64)) {
        let start = self.start(entry.0, entry.1);
        self.starts.insert((entry.0, entry.1), start);
        self.waiting.push(entry);
    }

    fn move_to(&mut self, at: usize, lane: u8) {
        let mut entry = self.waiting.remove(at);
        if entry.2 == lane {
            return self.waiting.push(entry);
        }
        entry.2 = lane;
        match self.waiting.iter().any(|w| w.0 == entry.0) {
            true => self.push(entry),
            // It is all that its level has, which stays as it is.
            false => {
                let now = self.now.get(&entry.0).copied().unwrap_or(0);
                let start = self.starts.entry((entry.0, entry.1)).or_default();
                *start = now.max(*start);
                self.waiting.push(entry);
            }
        }
    }

    fn first(&self, open: &[u8]) -> Option<u64> {
        let may = || self.waiting.iter().filter(|w| open.contains(&w.2));
        let top = may().map(|w| w.0).max()?;
        let first = may()
            .filter(|w| w.0 == top)
            .min_by_key(|w| {
                // Of a tenant only the first of a lane stands for it.
                let older = may()
                    .filter(|o| (o.0, o.1, o.2) == (w.0, w.1, w.2) && (o.5, o.3) < (w.5, w.3))
                    .count();
                (older > 0, self.starts[&(w.0, w.1)], w.5, w.3)
            })
            .map(|w| w.3);
        match self.passed >= PASSES {
            true => may().filter(|w| w.0 < top).map(|w| w.3).min().or(first),
            false => first,
        }
    }

    fn take(&mut self, number: u64, open: Option<&[u8]>) {
        let at = self.waiting.iter().position(|w| w.3 == number).unwrap();
        let (priority, tenant, _, _, cost, _) = self.waiting[at];
        let of_level = || self.waiting.iter().filter(|w| w.0 == priority);
        let least = of_level().map(|w| self.starts[&(w.0, w.1)]).min().unwrap();
        if let Some(open) = open {
            let below = self
                .waiting
                .iter()
                .filter(|w| w.0 < priority && open.contains(&w.2));
            let is_passed = below.map(|w| w.3).min().is_some_and(|n| n < number);
            self.passed = if is_passed { self.passed + 1 } else { 0 };
            let now = self.now.entry(priority).or_default();
            *now = least.max(*now);
            *self.starts.get_mut(&(priority, tenant)).unwrap() += cost;
        }
        self.waiting.remove(at);
        if !self.waiting.iter().any(|w| w.0 == priority) {
            self.starts.retain(|key, _| key.0 != priority);
            self.now.remove(&priority);
        }
    }
}

proptest! {
    #[test]
    fn the_order_is_that_of_a_list_which_is_searched(ops in proptest::collection::vec(op(), 1..200)) {
        let (mut queue, mut model, mut next) = (queue(&[("1", 2_000)]), Model::default(), 0);
        for op in ops {
            match op {
                Op::Push { tenant, priority, lane, tokens, since } => {
                    let weight = if tenant == 1 { 2_000 } else { 1_000 };
                    let whose = whose(&tenant.to_string(), priority);
                    queue.push_ranked(ReservationId(next), whose, lane, tokens, rank(since));
                    let cost = u64::from(tokens.max(1)) * SCALE / weight;
                    model.push((priority, tenant, lane, next, cost, since));
                    next += 1;
                }
                Op::Go { open } => {
                    let expected = model.first(&open);
                    prop_assert_eq!(go(&mut queue, &open), expected);
                    if let Some(number) = expected {
                        model.take(number, Some(&open));
                    }
                }
                Op::Remove { nth } if !model.waiting.is_empty() => {
                    let number = model.waiting[nth % model.waiting.len()].3;
                    prop_assert!(queue.remove(ReservationId(number)));
                    model.take(number, None);
                }
                Op::Move { nth, lane } if !model.waiting.is_empty() => {
                    let at = nth % model.waiting.len();
                    let number = model.waiting[at].3;
                    let is_new = model.waiting[at].2 != lane;
                    prop_assert_eq!(queue.move_to(ReservationId(number), lane), is_new);
                    model.move_to(at, lane);
                }
                Op::Remove { .. } | Op::Move { .. } => {}
            }
            prop_assert_eq!(queue.len(), model.waiting.len());
            for lane in 0..3 {
                let mut order = Vec::new();
                queue.places(lane, &mut order);
                prop_assert_eq!(queue.has(lane), !order.is_empty());
                for (at, &ticket) in order.iter().enumerate() {
                    prop_assert_eq!(place(&queue, ticket), Some(at + 1));
                }
            }
        }
        // Whoever waits goes in the end, each once.
        let mut rest: Vec<u64> = std::iter::from_fn(|| go(&mut queue, &[0, 1, 2])).collect();
        rest.sort_unstable();
        let mut waiting: Vec<u64> = model.waiting.iter().map(|w| w.3).collect();
        waiting.sort_unstable();
        prop_assert_eq!(rest, waiting);
        prop_assert!(queue.is_empty() && queue.levels.is_empty());
    }

    #[test]
    fn one_tenant_of_one_priority_goes_as_it_came(
        tokens in proptest::collection::vec(0..100_000_u32, 1..60),
        gone in proptest::collection::vec(0..60_u64, 0..10),
    ) {
        let mut queue = queue(&[]);
        for (n, &tokens) in tokens.iter().enumerate() {
            queue.push(ReservationId(n as u64), whose("", 0), 0, tokens);
        }
        for n in &gone {
            queue.remove(ReservationId(*n));
        }
        let order: Vec<u64> = std::iter::from_fn(|| go(&mut queue, &[0])).collect();
        let left: Vec<u64> = (0..tokens.len() as u64).filter(|n| !gone.contains(n)).collect();
        prop_assert_eq!(order, left);
    }
}
