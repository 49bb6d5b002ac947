//! Both feeds in any order, against the naive index.
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

type Path = Vec<u32>;

const PLACES: u32 = 3;
const TTL: u64 = 50;

#[derive(Clone, Debug)]
enum Op {
    Predict(u32, Path),
    /// The blocks of a path from some depth on.
    Store(u32, Path, usize),
    Remove(u32, Path),
    Clear(u32),
    Advance(u64),
    Capacity(u32, Option<u64>),
    Replace(u32),
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(0_u32..3, 1..6)
}

fn op() -> impl Strategy<Value = Op> {
    let place = || 0..PLACES;
    prop_oneof![
        6 => (place(), path()).prop_map(|(p, path)| Op::Predict(p, path)),
        6 => (place(), path(), 0_usize..5).prop_map(|(p, path, from)| Op::Store(p, path, from)),
        4 => (place(), path()).prop_map(|(p, path)| Op::Remove(p, path)),
        1 => place().prop_map(Op::Clear),
        4 => (0_u64..40).prop_map(Op::Advance),
        1 => (place(), prop::option::of(0_u64..150)).prop_map(|(p, c)| Op::Capacity(p, c)),
        1 => place().prop_map(Op::Replace),
    ]
}

/// What is known of a block at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// By the engine's word, in so many copies.
    Exact(u32),
    /// When and in which decision it was used last.
    Predicted(u64, u64),
}

#[derive(Default)]
struct NaivePlace {
    blocks: BTreeMap<Path, Known>,
    capacity: Option<u64>,
}

impl NaivePlace {
    fn predict(&mut self, path: &Path, at: u64, decision: u64) {
        for n in 1..=path.len() {
            let known = self.blocks.entry(path[..n].to_vec());
            let known = known.or_insert(Known::Predicted(0, 0));
            if let Known::Predicted(..) = known {
                *known = Known::Predicted(at, decision);
            }
        }
        self.enforce();
    }

    /// Least recently used first; of one decision the deepest.
    fn enforce(&mut self) {
        while self
            .capacity
            .is_some_and(|c| self.blocks.len() as u64 * 10 > c)
        {
            let predicted = self.blocks.iter().filter_map(|(path, known)| match known {
                Known::Predicted(_, decision) => {
                    Some((*decision, std::cmp::Reverse(path.len()), path.clone()))
                }
                Known::Exact(_) => None,
            });
            let Some((_, _, path)) = predicted.min() else {
                return;
            };
            self.blocks.remove(&path);
        }
    }

    /// One copy of a block goes. Whether there was one.
    fn remove(&mut self, path: &Path) -> bool {
        match self.blocks.get_mut(path) {
            Some(Known::Exact(copies)) if *copies > 1 => *copies -= 1,
            Some(_) => drop(self.blocks.remove(path)),
            None => return false,
        }
        true
    }

    fn expire(&mut self, now: u64) {
        let lives = |known: &Known| match known {
            Known::Exact(_) => true,
            Known::Predicted(at, _) => at + TTL > now,
        };
        self.blocks.retain(|_, known| lives(known));
    }

    fn contiguous(&self, path: &[u32]) -> usize {
        (1..=path.len())
            .take_while(|&n| self.blocks.contains_key(&path[..n]))
            .count()
    }
}

struct Both {
    index: PrefixIndex,
    ids: Vec<PlaceId>,
    naive: Vec<NaivePlace>,
    /// Every block that an engine has ever given a name.
    named: BTreeSet<Path>,
    now: u64,
    decisions: u64,
}

impl Both {
    fn new() -> Self {
        let mut index = PrefixIndex::new(10_000);
        let ids = (0..PLACES).map(|w| add(&mut index, w)).collect();
        Self {
            index,
            ids,
            naive: (0..PLACES).map(|_| NaivePlace::default()).collect(),
            named: BTreeSet::new(),
            now: 0,
            decisions: 0,
        }
    }

    /// Whether the index knows the name of a block: it does as long as somebody has the block by an
    /// engine's word. Open where the last one has lost it: the name may still stand in its run.
    fn is_named(&self, path: &[u32]) -> Option<bool> {
        let exact = |p: &NaivePlace| matches!(p.blocks.get(path), Some(Known::Exact(_)));
        match self.naive.iter().any(exact) {
            true => Some(true),
            false => (!self.named.contains(path)).then_some(false),
        }
    }

    /// Every block that the tree must know: held by someone, or above something held.
    fn known(&self) -> BTreeSet<&[u32]> {
        let held = self.naive.iter().flat_map(|p| p.blocks.keys());
        held.flat_map(|path| (1..=path.len()).map(|n| &path[..n]))
            .collect()
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Predict(p, path) => {
                self.decisions += 1;
                let p = *p as usize;
                self.index
                    .predict(Micros(self.now), self.ids[p], &chain(path));
                self.naive[p].predict(path, self.now, self.decisions);
            }
            Op::Store(p, path, from) => self.store(*p as usize, path, *from),
            Op::Remove(p, path) => {
                let p = *p as usize;
                let Some(named) = self.is_named(path) else {
                    return;
                };
                let removed = self.index.remove(self.ids[p], &[hash(path)]);
                let held = named && self.naive[p].remove(path);
                assert_eq!(removed, usize::from(held));
            }
            Op::Clear(p) => {
                self.index.clear(self.ids[*p as usize]);
                self.naive[*p as usize].blocks.clear();
            }
            Op::Advance(by) => {
                self.now += by;
                self.index.expire(Micros(self.now));
                self.naive.iter_mut().for_each(|p| p.expire(self.now));
            }
            Op::Capacity(p, capacity) => {
                let p = *p as usize;
                assert!(self.index.set_capacity(self.ids[p], *capacity));
                self.naive[p].capacity = *capacity;
                self.naive[p].enforce();
            }
            Op::Replace(p) => {
                assert!(self.index.remove_place(self.ids[*p as usize]));
                self.ids[*p as usize] = add(&mut self.index, *p);
                self.naive[*p as usize] = NaivePlace::default();
            }
        }
    }

    fn store(&mut self, p: usize, path: &[u32], from: usize) {
        let from = from.min(path.len() - 1);
        let parent = (from > 0).then(|| hash(&path[..from]));
        let Some(possible) = (match from {
            0 => Some(true),
            _ => self.is_named(&path[..from]),
        }) else {
            return;
        };
        let blocks = &stored_all(path)[from..];
        let stored = store(&mut self.index, self.ids[p], parent, blocks);
        assert_eq!(stored, if possible { blocks.len() } else { 0 });
        for n in from + 1..=path.len() {
            if possible {
                let blocks = &mut self.naive[p].blocks;
                let copies = match blocks.get(&path[..n]) {
                    Some(Known::Exact(copies)) => copies + 1,
                    _ => 1,
                };
                blocks.insert(path[..n].to_vec(), Known::Exact(copies));
                self.named.insert(path[..n].to_vec());
            }
        }
    }

    fn check(&self, probe: &[u32], overlap: &mut Overlap) {
        self.index.find(&chain(probe), overlap);
        let mut stops = BTreeSet::new();
        for (id, naive) in self.ids.iter().zip(&self.naive) {
            let expected = naive.contiguous(probe) as u32;
            assert_eq!(overlap.blocks_at(*id), expected);
            assert_eq!(overlap.tokens_at(*id), expected * 10);
            assert_eq!(self.index.tokens(*id), naive.blocks.len() as u64 * 10);
            if expected > 0 {
                stops.insert((expected, slot_in(*id), *id));
            }
        }
        let listed = overlap
            .steps()
            .flat_map(|s| s.places().map(move |p| (s.blocks, slot_in(p), p)));
        assert!(listed.eq(stops));
        assert_eq!(blocks_total(&self.index), self.known().len());
        self.check_next_expiry();
    }

    /// It may be early, never late.
    fn check_next_expiry(&self) {
        let predicted = self.naive.iter().flat_map(|p| p.blocks.values());
        let first = predicted.filter_map(|known| match known {
            Known::Predicted(at, _) => Some(Micros(at + TTL)),
            Known::Exact(_) => None,
        });
        if let Some(first) = first.min() {
            assert!(self.index.next_expiry().is_some_and(|next| next <= first));
        }
    }
}

fn add(index: &mut PrefixIndex, worker: u32) -> PlaceId {
    let options = PlaceOptions {
        capacity_tokens: None,
        ttl: Some(Micros(TTL)),
        ..PlaceOptions::default()
    };
    let added = index.add_place(WorkerId(worker), 0, Tier::Device, options);
    added.expect("registered once at a time")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn credit_is_what_the_naive_index_gives(
        ops in prop::collection::vec((op(), path()), 0..60),
    ) {
        let mut both = Both::new();
        let mut overlap = Overlap::new();
        for (op, probe) in &ops {
            both.apply(op);
            both.check(probe, &mut overlap);
        }
    }

    #[test]
    fn a_bound_holds_whatever_comes_and_coverage_stays_contiguous(
        ops in prop::collection::vec((0..PLACES, path()), 1..40),
        bound in 0_usize..12,
    ) {
        let mut index = PrefixIndex::new(bound);
        let ids: Vec<_> = (0..PLACES).map(|w| add(&mut index, w)).collect();
        for (place, path) in &ops {
            index.predict(Micros(0), ids[*place as usize], &chain(path));
            prop_assert!(index.fit());
            prop_assert!(blocks_total(&index) <= bound);
            let stats = index.stats();
            let rooted: u32 = ids.iter().map(|id| blocks_at(&index, id.0, path)).sum();
            let held: usize = stats.places.iter().map(|p| p.blocks).sum();
            prop_assert!(rooted as usize <= held);
            prop_assert_eq!(blocks_at(&index, *place, path) as usize, path.len().min(bound));
        }
    }
}
