//! An index that was written down in slices and read again against the one that went on.
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ProgramId;
use crate::snapshot::{Budget, Exact, Progress, Reader};

type Path = Vec<u32>;

const PLACES: u32 = 3;
const TTL: u64 = 50;

#[derive(Clone, Debug)]
enum Op {
    Predict(u32, Path),
    /// The blocks of a path from some depth on, by names of the engine's own.
    Store(u32, Path, usize, u64),
    Remove(u32, Path, u64),
    Clear(u32),
    Advance(u64),
    Capacity(u32, Option<u64>),
    Replace(u32),
    /// The program's turn goes to a place.
    Turn(u64, u32, Path),
    Leave(u64),
    /// A prompt goes to a place, which will report how much of it was cached.
    Ask(u32, Path),
    /// The report on the last such prompt: so many tokens.
    Report(u32),
}

/// Short ones that part soon, and long ones of which a report may fall short.
fn path() -> impl Strategy<Value = Path> {
    prop_oneof![
        3 => prop::collection::vec(0_u32..3, 1..7),
        1 => (8_u32..14).prop_map(|n| (0..n).map(|i| i % 2).collect()),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let place = || 0..PLACES;
    prop_oneof![
        6 => (place(), path()).prop_map(|(p, path)| Op::Predict(p, path)),
        6 => (place(), path(), 0_usize..5, 0_u64..2)
            .prop_map(|(p, path, from, salt)| Op::Store(p, path, from, salt)),
        4 => (place(), path(), 0_u64..2).prop_map(|(p, path, salt)| Op::Remove(p, path, salt)),
        1 => place().prop_map(Op::Clear),
        3 => (0_u64..30).prop_map(Op::Advance),
        1 => (place(), prop::option::of(0_u64..150)).prop_map(|(p, c)| Op::Capacity(p, c)),
        1 => place().prop_map(Op::Replace),
        3 => (0_u64..4, place(), path()).prop_map(|(who, p, path)| Op::Turn(who, p, path)),
        1 => (0_u64..4).prop_map(Op::Leave),
        2 => (place(), path()).prop_map(|(p, path)| Op::Ask(p, path)),
        2 => (0_u32..40).prop_map(Op::Report),
    ]
}

/// An index and what its user keeps.
struct World {
    index: PrefixIndex,
    ids: Vec<PlaceId>,
    frontiers: BTreeMap<u64, Frontier>,
    asked: Option<(PlaceId, Chain, Coverage)>,
    now: u64,
}

/// The last place is read at breakpoints.
fn options(p: u32) -> PlaceOptions {
    let rules = BreakpointRules {
        lookback: Some(3),
        min_tokens: 20,
        ttl: Micros(TTL / 2),
        refresh: Refresh::OnRead,
        implicit: Implicit::AtEnd,
    };
    PlaceOptions {
        ttl: Some(Micros(TTL)),
        matching: match p + 1 == PLACES {
            true => Matching::Breakpoint(rules),
            false => Matching::default(),
        },
        ..PlaceOptions::default()
    }
}

/// A chain, of which some have a breakpoint that asks for a long life.
fn prompt(path: &[u32]) -> Chain {
    let mut chain = chain(path);
    if path[0] == 1 {
        chain.outline_mut().break_after(2, Some(Micros(2 * TTL)));
    }
    chain
}

/// What can be seen of one prompt at one place.
#[derive(Debug, PartialEq)]
struct Seen {
    blocks: u32,
    credit: u32,
    tokens: u64,
    working_set: u64,
    shared: u32,
    coverage: Coverage,
}

/// What an engine calls the last block of a path: a salt of 1 makes engines disagree.
fn named(path: &[u32], salt: u64) -> StoredBlock {
    let block = stored(path);
    StoredBlock {
        name: block.name ^ salt,
        ..block
    }
}

impl World {
    fn new(max_blocks: usize) -> Self {
        let mut index = PrefixIndex::new(max_blocks);
        let mut add = |w| index.add_place(WorkerId(w), 0, Tier::Device, options(w));
        let ids = (0..PLACES).map(|w| add(w).expect("registered once"));
        Self {
            ids: ids.collect(),
            index,
            frontiers: BTreeMap::new(),
            asked: None,
            now: 100,
        }
    }

    /// Applies an operation. Returns whatever can be seen of it.
    fn apply(&mut self, op: &Op) -> Vec<usize> {
        let seen = self.change(op);
        self.index.fit();
        seen
    }

    fn change(&mut self, op: &Op) -> Vec<usize> {
        let now = Micros(self.now);
        match op {
            Op::Predict(p, path) => {
                vec![
                    self.index
                        .predict(now, self.ids[*p as usize], &prompt(path)),
                ]
            }
            Op::Store(p, path, from, salt) => {
                let from = (*from).min(path.len() - 1);
                let parent = (from > 0).then(|| named(&path[..from], *salt).name);
                let blocks = (from + 1..=path.len()).map(|n| named(&path[..n], *salt));
                let blocks: Vec<_> = blocks.collect();
                vec![store(
                    &mut self.index,
                    self.ids[*p as usize],
                    parent,
                    &blocks,
                )]
            }
            Op::Remove(p, path, salt) => {
                let name = named(path, *salt).name;
                vec![self.index.remove(self.ids[*p as usize], &[name])]
            }
            Op::Clear(p) => {
                self.index.clear(self.ids[*p as usize]);
                Vec::new()
            }
            Op::Advance(by) => {
                self.now += by;
                self.index.expire(Micros(self.now));
                Vec::new()
            }
            Op::Capacity(p, capacity) => {
                let id = self.ids[*p as usize];
                vec![usize::from(self.index.set_capacity(id, *capacity))]
            }
            Op::Replace(p) => {
                let gone = self.ids[*p as usize];
                let here = |_: &u64, f: &mut Frontier| self.index.is_at(f, gone);
                let left: Vec<_> = self.frontiers.extract_if(.., here).collect();
                for (who, frontier) in left {
                    self.index.leave(ProgramId(who), frontier);
                }
                self.index.remove_place(gone);
                let place = (WorkerId(*p), 0, Tier::Device);
                let id = self.index.add_place(place.0, place.1, place.2, options(*p));
                self.ids[*p as usize] = id.expect("registered once at a time");
                Vec::new()
            }
            Op::Turn(who, p, path) => self.turn(*who, *p, path),
            Op::Leave(who) => {
                if let Some(frontier) = self.frontiers.remove(who) {
                    self.index.leave(ProgramId(*who), frontier);
                }
                Vec::new()
            }
            Op::Ask(p, path) => {
                let (id, chain) = (self.ids[*p as usize], prompt(path));
                let mut before = Coverage::new();
                self.index.coverage(id, &chain, &mut before);
                let added = self.index.predict(now, id, &chain);
                self.asked = Some((id, chain, before));
                vec![added]
            }
            Op::Report(reported) => {
                if let Some((id, chain, before)) = self.asked.take() {
                    self.index.correct(id, &chain, *reported, &before);
                }
                Vec::new()
            }
        }
    }

    fn turn(&mut self, who: u64, p: u32, path: &[u32]) -> Vec<usize> {
        let (id, chain) = (self.ids[p as usize], prompt(path));
        let added = self.index.predict(Micros(self.now), id, &chain);
        let before = self.frontiers.remove(&who);
        if let Some(frontier) = self.index.follow(ProgramId(who), id, &chain, before) {
            self.frontiers.insert(who, frontier);
        }
        vec![added]
    }

    /// Everything that can be seen of one prompt.
    fn seen(&self, probe: &[u32]) -> Vec<Seen> {
        let chain = prompt(probe);
        let mut overlap = Overlap::new();
        self.index.find(&chain, &mut overlap);
        let seen = self.ids.iter().map(|&id| {
            let mut coverage = Coverage::new();
            self.index.coverage(id, &chain, &mut coverage);
            Seen {
                blocks: overlap.blocks_at(id),
                credit: self.index.credit(id, &chain, &overlap),
                tokens: self.index.tokens(id),
                working_set: self.index.working_set(id),
                shared: self.index.shared(&chain, None),
                coverage,
            }
        });
        seen.collect()
    }

    /// Writes all that is left; between the slices nothing happens.
    fn finish(&mut self, budget: usize, out: &mut Vec<u8>) {
        while self.index.write_runs(&mut Budget::new(budget), out) == Progress::More {}
        while self.index.write_changed_runs(&mut Budget::new(budget), out) == Progress::More {}
    }

    /// A new index that has read what this one has written.
    fn restored(&self, runs: &[u8], exact: Exact, downtime: u64) -> Result<Self> {
        let mut places = Vec::new();
        self.index.write_places(&mut places);
        let mut image = Image::default();
        image.read_runs(Reader::new(runs))?;
        image.read_places(&mut Reader::new(&places))?;
        let now = self.now + downtime;
        let mut fresh = Self::new(self.index.max_blocks);
        for (p, id) in (0..).zip(&self.ids) {
            let slot = self.index.slot_of(*id).expect("it is registered");
            let capacity = self.index.place(slot).options.capacity_tokens;
            fresh.apply(&Op::Capacity(p, capacity));
        }
        let terms = Terms {
            now: Micros(now),
            taken: Micros(self.now),
            downtime: Micros(downtime),
            exact,
        };
        let mut rebuilt = fresh.index.rebuild(image, |w| Some(WorkerId(w)), terms)?;
        let mut frontiers = BTreeMap::new();
        for (&who, frontier) in &self.frontiers {
            if let Some(frontier) = rebuilt.path(ProgramId(who), frontier.image())? {
                frontiers.insert(who, frontier);
            }
        }
        let (index, _) = rebuilt.finish();
        Ok(Self {
            index,
            frontiers,
            asked: None,
            now,
            ids: fresh.ids,
        })
    }
}

#[derive(Clone, Debug)]
struct History {
    max_blocks: usize,
    before: Vec<Op>,
    /// Budgets of slices, and what happens after each.
    between: Vec<(usize, Op)>,
    last_budget: usize,
    after: Vec<(Op, Path)>,
}

fn history() -> impl Strategy<Value = History> {
    let budget = || prop_oneof![1_usize..100, 500_usize..5_000];
    (
        prop_oneof![4_usize..15, Just(10_000)],
        prop::collection::vec(op(), 0..40),
        prop::collection::vec((budget(), op()), 0..25),
        budget(),
        prop::collection::vec((op(), path()), 1..25),
    )
        .prop_map(
            |(max_blocks, before, between, last_budget, after)| History {
                max_blocks,
                before,
                between,
                last_budget,
                after,
            },
        )
}

/// The index after the history, and its runs as they were written during it.
fn live(history: &History) -> (World, Vec<u8>) {
    let mut world = World::new(history.max_blocks);
    let mut runs = Vec::new();
    for op in &history.before {
        world.apply(op);
    }
    world.index.watch();
    for (budget, op) in &history.between {
        let budget = &mut Budget::new(*budget);
        if world.index.write_runs(budget, &mut runs) == Progress::Done {
            world.index.write_changed_runs(budget, &mut runs);
        }
        world.apply(op);
    }
    // A restore holds places to their capacities, as the next prediction would.
    for slot in 0..PLACES {
        world.index.enforce_capacity(slot);
    }
    world.finish(history.last_budget, &mut runs);
    world.index.unwatch();
    // Nobody who asked before the restart hears the report.
    world.asked = None;
    (world, runs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_read_again_goes_on_as_what_was_written(history in history()) {
        let (mut world, runs) = live(&history);
        let mut again = world.restored(&runs, Exact::Keep, 0).expect("it is whole");
        prop_assert_eq!(blocks_total(&again.index), blocks_total(&world.index));
        for (op, probe) in &history.after {
            prop_assert_eq!(again.seen(probe), world.seen(probe));
            prop_assert_eq!(again.apply(op), world.apply(op), "{:?}", op);
            prop_assert_eq!(blocks_total(&again.index), blocks_total(&world.index));
        }
    }

    #[test]
    fn nothing_is_believed_that_time_or_a_gap_has_taken(
        history in history(), downtime in 0_u64..70,
    ) {
        let (mut world, runs) = live(&history);
        let drop = world.restored(&runs, Exact::Drop, downtime).expect("it is whole");
        let soft = world.restored(&runs, Exact::AsPredicted, downtime).expect("it is whole");
        world.apply(&Op::Advance(downtime));
        for (_, probe) in &history.after {
            let seen = [&world, &drop, &soft].map(|w| w.seen(probe));
            for ((live, drop), soft) in seen[0].iter().zip(&seen[1]).zip(&seen[2]) {
                for again in [drop, soft] {
                    prop_assert!(again.blocks <= live.blocks);
                    prop_assert!(again.credit <= live.credit);
                    prop_assert!(again.tokens <= live.tokens);
                    prop_assert!(again.coverage.trust() != Some(Trust::Exact));
                }
            }
        }
    }

    #[test]
    fn damaged_runs_are_refused_or_harmless(
        history in history(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let (world, mut runs) = live(&history);
        prop_assume!(!runs.is_empty());
        let at = at.index(runs.len());
        runs[at] ^= with;
        if let Ok(mut again) = world.restored(&runs, Exact::Keep, 0) {
            for (op, probe) in &history.after {
                again.apply(op);
                again.seen(probe);
            }
        }
        runs.truncate(at);
        if let Ok(mut again) = world.restored(&runs, Exact::AsPredicted, 0) {
            for (op, _) in &history.after {
                again.apply(op);
            }
        }
    }
}

#[test]
fn a_prediction_ages_while_nobody_is_there() {
    let mut world = World::new(100);
    world.apply(&Op::Predict(0, vec![1, 2]));
    world.apply(&Op::Advance(20));
    world.apply(&Op::Predict(1, vec![1]));
    let mut runs = Vec::new();
    world.index.watch();
    world.finish(1_000, &mut runs);
    let blocks = |downtime| {
        let again = world.restored(&runs, Exact::Drop, downtime);
        let again = again.expect("it is whole");
        [0, 1].map(|p| blocks_at(&again.index, p, &[1, 2]))
    };
    assert_eq!(blocks(29), [2, 1]);
    assert_eq!(blocks(30), [0, 1]);
    assert_eq!(blocks(50), [0, 0]);
}

#[test]
fn a_worker_that_is_gone_takes_its_coverage_and_its_paths_along() {
    let mut world = World::new(100);
    world.apply(&Op::Turn(7, 0, vec![1, 2]));
    world.apply(&Op::Predict(1, vec![1]));
    let mut runs = Vec::new();
    world.index.watch();
    world.finish(1_000, &mut runs);
    let mut image = Image::default();
    let mut places = Vec::new();
    world.index.write_places(&mut places);
    image.read_runs(Reader::new(&runs)).unwrap();
    image.read_places(&mut Reader::new(&places)).unwrap();
    let terms = Terms {
        now: Micros(world.now),
        taken: Micros(world.now),
        downtime: Micros(0),
        exact: Exact::Drop,
    };
    let fresh = World::new(100).index;
    let worker_of = |w| (w != 0).then_some(WorkerId(w));
    let mut rebuilt = fresh.rebuild(image, worker_of, terms).unwrap();
    let path = world.frontiers[&7].image();
    assert!(rebuilt.path(ProgramId(7), path).unwrap().is_none());
    let (index, outcome) = rebuilt.finish();
    assert_eq!((outcome.places_gone, outcome.held, index.held()), (1, 3, 1));
    assert_eq!(blocks_total(&index), 1);
}

#[test]
fn a_mark_that_a_report_voids_after_it_was_written_down_is_not_in_it() {
    let mut world = World::new(100);
    let long: Path = (0..12).collect();
    let at = PLACES - 1;
    world.apply(&Op::Predict(at, long.clone()));
    world.apply(&Op::Ask(at, (0..14).collect()));
    let mut runs = Vec::new();
    world.index.watch();
    let all = &mut Budget::new(usize::MAX);
    assert_eq!(world.index.write_runs(all, &mut runs), Progress::Done);
    let credit = |world: &World| world.seen(&long)[at as usize].credit;
    assert_eq!(credit(&world), 120);
    world.apply(&Op::Report(20));
    world.finish(1_000, &mut runs);
    let again = world.restored(&runs, Exact::Drop, 0).expect("it is whole");
    assert_eq!((credit(&world), credit(&again)), (0, 0));
}

#[test]
fn a_block_takes_its_hash_and_its_name() {
    let mut world = World::new(10_000);
    let long: Path = (0..1_000).collect();
    let bytes = |world: &mut World| {
        let mut runs = Vec::new();
        world.index.watch();
        world.finish(1 << 20, &mut runs);
        runs.len()
    };
    world.apply(&Op::Predict(0, long.clone()));
    let predicted = bytes(&mut world);
    assert!((8_000..8_200).contains(&predicted), "{predicted}");
    world.apply(&Op::Store(0, long, 0, 0));
    let named = bytes(&mut world);
    assert!((16_000..16_200).contains(&named), "{named}");
}
