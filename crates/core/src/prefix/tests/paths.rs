//! Paths and working sets against sets of blocks.
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::ProgramId;

type Path = Vec<u32>;

#[derive(Clone, Debug)]
enum Op {
    /// The program's turn goes to a place.
    Turn(u64, u32, Path),
    Leave(u64),
    /// The place loses everything.
    Clear(u32),
    /// The place is replaced by another one of the same name.
    Replace(u32),
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(0_u32..3, 1..7)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0_u64..5, 0_u32..2, path()).prop_map(|(p, w, path)| Op::Turn(p, w, path)),
        3 => (0_u64..5).prop_map(Op::Leave),
        1 => (0_u32..2).prop_map(Op::Clear),
        1 => (0_u32..2).prop_map(Op::Replace),
    ]
}

fn add(index: &mut PrefixIndex, worker: u32) -> PlaceId {
    let options = PlaceOptions::default();
    let place = index.add_place(WorkerId(worker), 0, Tier::Device, options);
    place.expect("registered once at a time")
}

struct Both {
    index: PrefixIndex,
    places: Vec<PlaceId>,
    frontiers: BTreeMap<u64, Frontier>,
    /// Where each program is, and its prompt.
    naive: BTreeMap<u64, (PlaceId, Path)>,
}

impl Both {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Turn(program, worker, path) => {
                let place = self.places[*worker as usize];
                self.index.predict(Micros(0), place, &chain(path));
                let before = self.frontiers.remove(program);
                let program_id = ProgramId(*program);
                let frontier = self.index.follow(program_id, place, &chain(path), before);
                let frontier = frontier.expect("the prompt has just been entered");
                self.frontiers.insert(*program, frontier);
                self.naive.insert(*program, (place, path.clone()));
            }
            Op::Leave(program) => {
                if let Some(frontier) = self.frontiers.remove(program) {
                    self.index.leave(ProgramId(*program), frontier);
                }
                self.naive.remove(program);
            }
            Op::Clear(worker) => self.index.clear(self.places[*worker as usize]),
            Op::Replace(worker) => {
                let worker = *worker;
                assert!(self.index.remove_place(self.places[worker as usize]));
                self.places[worker as usize] = add(&mut self.index, worker);
            }
        }
    }

    /// The blocks of all paths at one place, each once.
    fn union(&self, place: PlaceId) -> BTreeSet<&[u32]> {
        let own = self.naive.values().filter(|(at, _)| *at == place);
        own.flat_map(|(_, path)| (1..=path.len()).map(|n| &path[..n]))
            .collect()
    }

    fn common(a: &[u32], b: &[u32]) -> u32 {
        a.iter().zip(b).take_while(|(a, b)| a == b).count() as u32
    }

    fn check(&self, probe: &[u32]) {
        for &place in &self.places {
            let expected = self.union(place).len() as u64 * 10;
            assert_eq!(self.index.working_set(place), expected);
        }
        let commons = |but: Option<u64>| {
            let others = self.naive.iter().filter(move |(p, _)| Some(**p) != but);
            others.map(|(p, (_, path))| (Self::common(probe, path), *p))
        };
        let deepest = commons(None).map(|(n, _)| n).max().unwrap_or(0);
        assert_eq!(self.index.shared(&chain(probe), None), deepest);
        let having: Vec<u64> = commons(None)
            .filter(|c| c.0 == deepest)
            .map(|c| c.1)
            .collect();
        let nearest = match (deepest, having.as_slice()) {
            (0, _) | (_, [_, _, ..]) => None,
            (_, having) => having.first().map(|&p| (ProgramId(p), deepest)),
        };
        assert_eq!(self.index.nearest(&chain(probe)), nearest);
        for (program, (_, path)) in &self.naive {
            let others = commons(Some(*program)).map(|(n, _)| n).max();
            let shared = self.index.shared(&chain(probe), Some(ProgramId(*program)));
            assert_eq!(shared, others.unwrap_or(0));
            self.check_retrace(*program, path);
        }
    }

    fn check_retrace(&self, program: u64, path: &[u32]) {
        let frontier = &self.frontiers[&program];
        let mut retraced = Chain::new();
        for blocks in 0..=path.len() {
            assert!(self.index.retrace(frontier, blocks, &mut retraced));
            assert_eq!(retraced, chain(&path[..blocks]));
        }
        let beyond = path.len() + 1;
        assert!(!self.index.retrace(frontier, beyond, &mut retraced));
        for (other, (_, theirs)) in &self.naive {
            let common = self.index.common(frontier, &self.frontiers[other]);
            assert_eq!(common, Self::common(path, theirs));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_working_set_is_the_union_of_its_paths(
        ops in prop::collection::vec((op(), path()), 1..40),
    ) {
        let mut index = PrefixIndex::new(10_000);
        let places = (0..2).map(|w| add(&mut index, w)).collect();
        let (frontiers, naive) = (BTreeMap::new(), BTreeMap::new());
        let mut both = Both { index, places, frontiers, naive };
        for (op, probe) in &ops {
            both.apply(op);
            both.check(probe);
        }
        for program in 0..5 {
            both.apply(&Op::Leave(program));
        }
        for place in both.places.clone() {
            both.index.clear(place);
        }
        prop_assert_eq!((both.index.stats().blocks, both.index.stats().bytes), (0, 0));
    }
}
