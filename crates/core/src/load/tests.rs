//! The ledger against one that adds everything up anew at each question.
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::block::{Seed, hash_tokens};

const BLOCK: NonZeroU32 = NonZeroU32::new(10).unwrap();

fn chain(path: &[u32]) -> Chain {
    let ids: Vec<u32> = path.iter().flat_map(|&id| [id; 10]).collect();
    let mut chain = Chain::new();
    hash_tokens(&ids, BLOCK, Seed::default(), &mut chain);
    chain
}

#[test]
fn a_shared_prefix_counts_once_and_only_the_rest_is_added() {
    let mut ledger = LoadLedger::new();
    let worker = WorkerId(3);
    assert!(ledger.add_worker(worker));
    assert!(!ledger.add_worker(worker));
    ledger.begin(ReservationId(1), worker, &chain(&[1, 2, 3]), 30);
    ledger.begin(ReservationId(2), worker, &chain(&[1, 2, 4]), 10);
    let expected = WorkerLoad {
        prefill_tokens: 40,
        block_tokens: 40,
        requests: 2,
    };
    assert_eq!(ledger.load(worker), Some(expected));
    let mut shared = Shared::new();
    ledger.shared(&chain(&[1, 2, 5, 6]), &mut shared);
    assert_eq!(
        (shared.tokens_at(worker), shared.additional_at(worker)),
        (20, 20)
    );
    assert_eq!(
        (
            shared.tokens_at(WorkerId(0)),
            shared.additional_at(WorkerId(9))
        ),
        (0, 40)
    );
}

#[test]
fn late_double_and_unknown_events_say_so_and_change_nothing() {
    let mut ledger = LoadLedger::new();
    let (worker, id) = (WorkerId(0), ReservationId(7));
    assert_eq!(
        ledger.begin(id, worker, &chain(&[1]), 5),
        Begun::UnknownWorker
    );
    assert_eq!(ledger.remove_worker(worker), None);
    ledger.add_worker(worker);
    assert_eq!(ledger.begin(id, worker, &chain(&[1]), 5), Begun::Entered);
    assert_eq!(
        ledger.begin(id, worker, &chain(&[2]), 9),
        Begun::DuplicateId
    );
    assert_eq!(ledger.first_token(id), Noted::Done(worker));
    assert_eq!(ledger.first_token(id), Noted::Already(worker));
    assert_eq!(ledger.end(id), Noted::Done(worker));
    assert_eq!(
        (ledger.end(id), ledger.first_token(id)),
        (Noted::Unknown, Noted::Unknown)
    );
    assert_eq!(ledger.load(worker), Some(WorkerLoad::default()));
    assert!(ledger.is_empty() && ledger.runs.is_empty());
}

#[test]
fn a_fully_cached_turn_has_its_first_token_once_too() {
    let mut ledger = LoadLedger::new();
    ledger.add_worker(WorkerId(0));
    ledger.begin(ReservationId(1), WorkerId(0), &chain(&[1]), 0);
    assert_eq!(
        ledger.first_token(ReservationId(1)),
        Noted::Done(WorkerId(0))
    );
    assert_eq!(
        ledger.first_token(ReservationId(1)),
        Noted::Already(WorkerId(0))
    );
}

#[test]
fn a_lost_worker_takes_its_turns_along_and_comes_back_empty() {
    let mut ledger = LoadLedger::new();
    let (lost, other) = (WorkerId(0), WorkerId(1));
    ledger.add_worker(lost);
    ledger.add_worker(other);
    ledger.begin(ReservationId(1), lost, &chain(&[1, 2]), 20);
    ledger.begin(ReservationId(2), other, &chain(&[1, 3]), 20);
    assert_eq!(ledger.remove_worker(lost), Some(1));
    assert_eq!(
        (ledger.load(lost), ledger.end(ReservationId(1))),
        (None, Noted::Unknown)
    );
    ledger.add_worker(lost);
    assert_eq!(ledger.load(lost), Some(WorkerLoad::default()));
    assert_eq!(ledger.load(other).map(|l| l.block_tokens), Some(20));
}

#[derive(Clone, Debug)]
enum Op {
    Add(u32),
    Remove(u32),
    Begin(u64, u32, Vec<u32>, u32),
    FirstToken(u64),
    End(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let path = prop::collection::vec(0_u32..3, 0..6);
    prop_oneof![
        1 => (0_u32..4).prop_map(Op::Add),
        1 => (0_u32..4).prop_map(Op::Remove),
        6 => (0_u64..12, 0_u32..4, path, 0_u32..60).prop_map(|(i, w, p, u)| Op::Begin(i, w, p, u)),
        3 => (0_u64..12).prop_map(Op::FirstToken),
        4 => (0_u64..12).prop_map(Op::End),
    ]
}

#[derive(Default)]
struct Naive {
    workers: BTreeSet<u32>,
    turns: BTreeMap<u64, (u32, Vec<u32>, u32)>,
}

impl Naive {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Add(w) => drop(self.workers.insert(*w)),
            Op::Remove(w) => {
                self.workers.remove(w);
                self.turns.retain(|_, turn| turn.0 != *w);
            }
            Op::Begin(i, w, path, uncached) => {
                if self.workers.contains(w) {
                    let turn = (*w, path.clone(), *uncached);
                    self.turns.entry(*i).or_insert(turn);
                }
            }
            Op::FirstToken(i) => {
                if let Some(turn) = self.turns.get_mut(i) {
                    turn.2 = 0;
                }
            }
            Op::End(i) => drop(self.turns.remove(i)),
        }
    }

    fn prefixes(&self, worker: u32) -> BTreeSet<&[u32]> {
        let turns = self.turns.values().filter(|t| t.0 == worker);
        turns
            .flat_map(|t| (1..=t.1.len()).map(|n| &t.1[..n]))
            .collect()
    }

    fn load(&self, worker: u32) -> Option<WorkerLoad> {
        self.workers.contains(&worker).then(|| {
            let turns: Vec<_> = self.turns.values().filter(|t| t.0 == worker).collect();
            WorkerLoad {
                prefill_tokens: turns.iter().map(|t| u64::from(t.2)).sum(),
                block_tokens: self.prefixes(worker).len() as u64 * 10,
                requests: turns.len() as u32,
            }
        })
    }

    fn shared(&self, worker: u32, path: &[u32]) -> u32 {
        let prefixes = self.prefixes(worker);
        let held = (1..=path.len()).take_while(|&n| prefixes.contains(&path[..n]));
        held.count() as u32 * 10
    }
}

fn apply(ledger: &mut LoadLedger, op: &Op) {
    match op {
        Op::Add(w) => drop(ledger.add_worker(WorkerId(*w))),
        Op::Remove(w) => drop(ledger.remove_worker(WorkerId(*w))),
        Op::Begin(i, w, path, uncached) => {
            ledger.begin(ReservationId(*i), WorkerId(*w), &chain(path), *uncached);
        }
        Op::FirstToken(i) => drop(ledger.first_token(ReservationId(*i))),
        Op::End(i) => drop(ledger.end(ReservationId(*i))),
    }
}

proptest! {
    #[test]
    fn any_order_of_events_gives_what_adding_up_gives(
        ops in prop::collection::vec(op(), 0..80),
        probe in prop::collection::vec(0_u32..3, 0..6),
    ) {
        let (mut ledger, mut naive) = (LoadLedger::new(), Naive::default());
        let mut shared = Shared::new();
        for op in &ops {
            apply(&mut ledger, op);
            naive.apply(op);
            ledger.shared(&chain(&probe), &mut shared);
            for worker in 0..4 {
                prop_assert_eq!(ledger.load(WorkerId(worker)), naive.load(worker));
                let tokens = shared.tokens_at(WorkerId(worker));
                prop_assert_eq!(tokens, naive.shared(worker, &probe));
            }
            prop_assert_eq!(ledger.len(), naive.turns.len());
            ledger.runs.validate();
        }
    }
}
