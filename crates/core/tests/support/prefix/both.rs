//! The index and the naive one, told the same and asked the same.
//!
//! Every answer of the index is compared: what a call returns, how much each place has of a prompt,
//! steps, tokens, sizes, anomalies. A difference is an error that says what and where; nothing is
//! ever put right.
use std::collections::{BTreeSet, HashSet};

use warmpath_core::prefix::{
    Anomalies, Correction, Coverage, Frontier, Overlap, PlaceOptions, PrefixIndex, StoredBlock,
    StoredBlocks, Tier,
};
use warmpath_core::{Micros, PlaceId, ProgramId, WorkerId};

use super::naive::{Held, NaivePlace, Numbers, Words};
use super::op::{Fault, Op, Order, Remove, Store};
use super::world::{BLOCK, Node, World, mix};

/// How near above its new parent the index looks for a block that is stored below itself.
const CYCLE_WINDOW: usize = 16;

/// What a check found.
pub(crate) type Checked = Result<(), String>;

/// Fails the check unless the two are equal.
macro_rules! same {
    ($found:expr, $expected:expr, $($what:tt)+) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            let what = format!($($what)+);
            return Err(format!("{what}: {found:?}, should be {expected:?}"));
        }
    }};
}

/// Tokens that a report may fall short by, as documented.
const SLACK: u32 = if BLOCK.get() > 64 { BLOCK.get() } else { 64 };
const PROGRAMS: usize = 5;

struct Seat {
    id: PlaceId,
    worker: WorkerId,
    tier: Tier,
    options: PlaceOptions,
    naive: NaivePlace,
}

/// How the places of a scenario differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    /// Places that hold nothing, registered between the others: sets become wide.
    pub(crate) idle: u32,
    pub(crate) ttl: Option<u64>,
    pub(crate) capacity: Option<u64>,
}

pub(crate) struct Both<'a> {
    world: &'a World,
    pub(crate) index: PrefixIndex,
    seats: Vec<Seat>,
    /// Ids of places that have left.
    void: Vec<PlaceId>,
    /// For each block: at how many places it is held, how many children need it, and how many
    /// paths end there.
    needs: Vec<u32>,
    /// Blocks that the index must know.
    needed: usize,
    /// Every name that an engine has ever given: domain, dialect, block.
    given: HashSet<(u32, u32, Node)>,
    programs: Vec<Option<(Frontier, PlaceId, Node)>>,
    anomalies: Anomalies,
    now: u64,
    decisions: u64,
    overlap: Overlap,
    /// What happened, for people; only when asked for.
    pub(crate) story: Option<Vec<String>>,
}

impl<'a> Both<'a> {
    /// Two engines that agree on names and the host tier of the first; one of their domain that calls
    /// everything else; one of another domain that uses the same numbers for other content; one that
    /// numbers its blocks.
    pub(crate) fn new(world: &'a World, scene: Scene) -> Self {
        let mut both = Self {
            world,
            index: PrefixIndex::new(1 << 30),
            seats: Vec::new(),
            void: Vec::new(),
            needs: vec![0; world.len() as usize],
            needed: 0,
            given: HashSet::new(),
            programs: (0..PROGRAMS).map(|_| None).collect(),
            anomalies: Anomalies::default(),
            now: 0,
            decisions: 0,
            overlap: Overlap::new(),
            story: None,
        };
        let numbers = Words::Numbers(Numbers::default());
        let dialect = Words::Dialect;
        let places = [
            (0, Tier::Device, 0, dialect(0)),
            (1, Tier::Device, 0, dialect(0)),
            (0, Tier::Host, 0, dialect(0)),
            (2, Tier::Device, 0, dialect(1)),
            (3, Tier::Device, 1, dialect(0)),
            (4, Tier::Device, 2, numbers),
        ];
        for (n, (worker, tier, domain, words)) in places.into_iter().enumerate() {
            let strict = n >= 4;
            let options = PlaceOptions {
                capacity_tokens: scene.capacity,
                ttl: scene.ttl.map(Micros),
                domain,
                block_tokens: strict.then_some(BLOCK.get()),
                ..PlaceOptions::default()
            };
            let mut naive = NaivePlace::new(world, domain, words);
            (naive.capacity, naive.ttl) = (scene.capacity, scene.ttl);
            let worker = WorkerId(worker);
            let id = both.index.add_place(worker, 0, tier, options);
            let id = id.expect("a new place");
            both.seats.push(Seat {
                id,
                worker,
                tier,
                options,
                naive,
            });
            for idle in 0..scene.idle {
                let worker = WorkerId(1_000 * (1 + n as u32) + idle);
                let id = both
                    .index
                    .add_place(worker, 0, Tier::Disk, PlaceOptions::default());
                id.expect("a new place");
            }
        }
        both
    }

    fn seat(&self, number: usize) -> usize {
        number % self.seats.len()
    }

    fn node(&self, number: u32) -> Node {
        number % self.world.len()
    }

    fn tell(&mut self, line: impl FnOnce(&Self) -> String) {
        if let Some(mut story) = self.story.take() {
            story.push(line(self));
            self.story = Some(story);
        }
    }

    /// What the engine at a seat calls a block.
    fn name(&self, speaker: usize, node: Node) -> u64 {
        let NaivePlace { domain, words, .. } = &self.seats[speaker].naive;
        match words {
            Words::Dialect(dialect) => self.world.name(*domain, *dialect, node),
            Words::Numbers(numbers) => numbers.last(node),
        }
    }

    /// Whether the index knows that name. It does while somebody who uses it has the block by his
    /// engine's word, and does not when nobody ever had. In between it is open: the name may still
    /// stand beside its block.
    fn known(&self, speaker: usize, node: Node) -> Known {
        let NaivePlace { domain, words, .. } = &self.seats[speaker].naive;
        let mut places = self.seats.iter().map(|s| &s.naive);
        let (stands, was_given) = match words {
            Words::Numbers(numbers) => (numbers.get(node).is_some(), numbers.last(node) > 0),
            Words::Dialect(dialect) => (
                places.any(|p| p.domain == *domain && p.words == *words && p.is_exact(node)),
                self.given.contains(&(*domain, *dialect, node)),
            ),
        };
        match (stands, was_given) {
            (true, _) => Known::Yes,
            (false, true) => Known::Open,
            (false, false) => Known::No,
        }
    }

    /// Another engine of the seat's domain, one that uses other words if there is one.
    fn other_speaker(&self, seat: usize) -> usize {
        let own = &self.seats[seat].naive;
        let mut others = self.seats.iter().map(|s| &s.naive);
        let other = others.position(|p| p.domain == own.domain && p.words != own.words);
        other.unwrap_or(seat)
    }

    /// Carries the changes at a seat over into what the index must know.
    fn carry(&mut self, seat: usize) {
        let changes = std::mem::take(&mut self.seats[seat].naive.changes);
        for (node, won) in changes {
            self.need(node, won);
        }
    }

    fn need(&mut self, node: Node, more: bool) {
        let mut at = Some(node);
        while let Some(node) = at {
            let needs = &mut self.needs[node as usize];
            match more {
                true => *needs += 1,
                false => *needs -= 1,
            }
            let turned = *needs == u32::from(more);
            if !turned {
                return;
            }
            match more {
                true => self.needed += 1,
                false => self.needed -= 1,
            }
            at = self.world.parent(node);
        }
    }

    /// Lets it happen to both, and compares what the calls return.
    pub(crate) fn apply(&mut self, op: &Op) -> Checked {
        match *op {
            Op::Store(store) => self.store(store)?,
            Op::Remove(remove) => self.remove(remove)?,
            Op::Move { node, blocks } => self.move_to_host(node, blocks)?,
            Op::Turn { seat, node, report } => {
                self.turn(self.seat(seat), self.node(node), report)?;
            }
            Op::Clear { seat } => self.clear(self.seat(seat)),
            Op::Restart { seat, dialect } => {
                let seat = self.seat(seat);
                self.clear(seat);
                if let Words::Dialect(own) = &mut self.seats[seat].naive.words {
                    *own = dialect % 3;
                }
                self.tell(|_| format!("{seat} speaks dialect {} now", dialect % 3));
            }
            Op::Replace { seat } => self.replace(self.seat(seat))?,
            Op::Late { seat, node } => self.late(self.seat(seat), self.node(node))?,
            Op::Advance { by } => {
                self.now += by;
                self.tell(|me| format!("time is {}", me.now));
                self.index.expire(Micros(self.now));
                for seat in 0..self.seats.len() {
                    let now = self.now;
                    self.seats[seat].naive.expire(self.world, now);
                    self.carry(seat);
                }
            }
            Op::Capacity { seat, blocks } => self.set_capacity(self.seat(seat), blocks)?,
            Op::Follow {
                program,
                seat,
                node,
            } => {
                self.follow(program % PROGRAMS, self.seat(seat), self.node(node))?;
            }
            Op::Leave { program } => self.leave(program % PROGRAMS),
        }
        Ok(())
    }

    fn store(&mut self, store: Store) -> Checked {
        let (seat, node) = (self.seat(store.seat), self.node(store.node));
        let path = self.world.path(node);
        let from = path.len().saturating_sub(store.blocks as usize);
        let above = from.checked_sub(1).map(|n| path[n]);
        self.tell(|me| {
            let (to, at) = (me.world.tell(node), above.map(|n| me.world.tell(n)));
            format!(
                "{seat} stores {} to {to} below {at:?}, {:?}",
                path.len() - from,
                store.fault
            )
        });
        let speaker = match store.fault {
            Fault::OthersWord => self.other_speaker(seat),
            _ => seat,
        };
        let mut parent = above.map(|n| self.name(speaker, n));
        let mut known = above.map_or(Known::Yes, |n| self.known(speaker, n));
        let mut expected = Expected::AllOf(path[from..].to_vec());
        let mut block_tokens = BLOCK.get();
        match store.fault {
            Fault::Orphan => (parent, known) = (Some(mix(1 << 60 | u64::from(node))), Known::No),
            Fault::WrongSize if self.seats[seat].options.block_tokens.is_some() => {
                block_tokens += 1;
                expected = Expected::WrongSize;
            }
            Fault::SelfParent => {
                parent = Some(self.name(speaker, path[from]));
                known = self.known(speaker, path[from]);
                expected = Expected::SelfParent;
            }
            Fault::Cycle => {
                let stands = |n: usize| self.known(speaker, path[n]) == Known::Yes;
                let last = path.len() - 1;
                let is_near = (1..CYCLE_WINDOW).contains(&(last - from));
                if !is_near || !stands(from) || !stands(last) {
                    return Ok(());
                }
                parent = Some(self.name(speaker, node));
                known = Known::Yes;
                expected = Expected::Cycle;
            }
            Fault::Repeated => expected = Expected::Repeated(path[from..].to_vec()),
            Fault::Empty => expected = Expected::AllOf(Vec::new()),
            _ => {}
        }
        let is_told = !matches!(store.fault, Fault::SelfParent | Fault::Empty);
        if known == Known::Open && !is_told {
            // Nothing comes back that says how the index took it.
            return Ok(());
        }
        let blocks = match &expected {
            Expected::AllOf(nodes) => self.name_blocks(seat, nodes),
            Expected::Repeated(nodes) => {
                let mut blocks = self.name_blocks(seat, nodes);
                blocks.push(blocks[blocks.len() / 2]);
                blocks
            }
            _ => {
                let block = |&n: &Node| StoredBlock {
                    name: self.name(seat, n),
                    local: self.world.local(n),
                };
                path[from..].iter().map(block).collect()
            }
        };
        let event = StoredBlocks {
            parent,
            block_tokens,
            blocks: &blocks,
        };
        let stored = self.index.store(self.seats[seat].id, &event);
        let is_known = match known {
            Known::Open => stored > 0,
            Known::Yes => true,
            Known::No => false,
        };
        let nodes = self.outcome(expected, is_known);
        same!(stored, nodes.len(), "stored");
        self.enter(seat, &nodes);
        Ok(())
    }

    /// Counts what is wrong with an event; returns what of it is to be believed.
    fn outcome(&mut self, expected: Expected, is_known: bool) -> Vec<Node> {
        let anomalies = &mut self.anomalies;
        let (counter, nodes) = match expected {
            Expected::WrongSize => (Some(&mut anomalies.wrong_block_size), Vec::new()),
            _ if !is_known => (Some(&mut anomalies.unknown_parent), Vec::new()),
            Expected::SelfParent => (Some(&mut anomalies.self_parent), Vec::new()),
            Expected::Cycle => (Some(&mut anomalies.cycle), Vec::new()),
            Expected::Repeated(nodes) => (Some(&mut anomalies.repeated), nodes),
            Expected::AllOf(nodes) => (None, nodes),
        };
        if let Some(counter) = counter {
            *counter += 1;
        }
        nodes
    }

    fn enter(&mut self, seat: usize, nodes: &[Node]) {
        for &node in nodes {
            let again = self.seats[seat].naive.store(self.world, node);
            self.anomalies.copies += u64::from(again);
        }
        let NaivePlace { domain, words, .. } = &self.seats[seat].naive;
        if let Words::Dialect(dialect) = words {
            self.given
                .extend(nodes.iter().map(|&node| (*domain, *dialect, node)));
        }
        self.seats[seat].naive.take_back_numbers();
        self.carry(seat);
    }

    fn name_blocks(&mut self, seat: usize, nodes: &[Node]) -> Vec<StoredBlock> {
        let place = &mut self.seats[seat].naive;
        let (world, domain) = (self.world, place.domain);
        let name = |&node: &Node| StoredBlock {
            local: world.local(node),
            name: match &mut place.words {
                Words::Dialect(dialect) => world.name(domain, *dialect, node),
                Words::Numbers(numbers) => match numbers.get(node) {
                    Some(number) => number,
                    None => numbers.count(node),
                },
            },
        };
        nodes.iter().map(name).collect()
    }

    fn remove(&mut self, remove: Remove) -> Checked {
        let (seat, node) = (self.seat(remove.seat), self.node(remove.node));
        let path = self.world.path(node);
        let from = path.len().saturating_sub(remove.blocks as usize);
        let nodes = in_order(&path[from..], remove.order);
        self.tell(|me| {
            let told: Vec<_> = nodes.iter().map(|&n| me.world.tell(n)).collect();
            let noise = (remove.noise, remove.others_words);
            format!(
                "{seat} removes {}, noise, others' words {noise:?}",
                told.join(" ")
            )
        });
        let speaker = match remove.others_words {
            true => self.other_speaker(seat),
            false => seat,
        };
        let mut names = Vec::new();
        let mut expected = 0;
        for (i, &node) in nodes.iter().enumerate() {
            if remove.noise && i % 2 == 0 {
                names.push(mix(1 << 61 | u64::from(node)));
            }
            names.push(self.name(speaker, node));
            let known = self.known(speaker, node);
            let place = &mut self.seats[seat].naive;
            if known == Known::Open && place.get(node).is_some() {
                names.pop();
                continue;
            }
            let gone = known == Known::Yes && place.remove(self.world, node);
            expected += usize::from(gone);
        }
        let removed = self.index.remove(self.seats[seat].id, &names);
        self.carry(seat);
        self.anomalies.not_held += (names.len() - expected) as u64;
        same!(removed, expected, "removed");
        Ok(())
    }

    /// The host's copy is stored below a parent that is still on the device, then the device's goes.
    fn move_to_host(&mut self, node: u32, blocks: u32) -> Checked {
        let fault = Fault::Nothing;
        self.store(Store {
            seat: 2,
            node,
            blocks,
            fault,
        })?;
        let order = Order::TailFirst;
        let (noise, others_words) = (false, false);
        self.remove(Remove {
            seat: 0,
            node,
            blocks,
            order,
            noise,
            others_words,
        })
    }

    fn turn(&mut self, seat: usize, node: Node, report: Option<u32>) -> Checked {
        self.tell(|me| {
            format!(
                "{seat} gets a turn {}, reports {report:?}",
                me.world.tell(node)
            )
        });
        let (chain, id) = (self.world.chain(node), self.seats[seat].id);
        let path = self.world.path(node);
        let place = &mut self.seats[seat].naive;
        let reach = place.reach(path, 0);
        let before: Vec<Held> = path[..reach].iter().filter_map(|&n| place.get(n)).collect();
        let mut coverage = Coverage::new();
        self.index.coverage(id, chain, &mut coverage);
        same!(coverage.blocks() as usize, reach, "coverage");
        same!(
            coverage.tokens(),
            reach as u32 * BLOCK.get(),
            "tokens of the coverage"
        );
        let since = before.iter().filter_map(|held| match held {
            Held::Predicted(at, _) => Some(Micros(*at)),
            Held::Exact(_) => None,
        });
        same!(coverage.since(), since.min(), "the oldest use");
        self.decisions += 1;
        let added = self.index.predict(Micros(self.now), id, chain);
        let new = place.predict(self.world, path, self.now, self.decisions);
        same!(added, new, "predicted");
        if let Some(reported) = report {
            let had = place.tokens();
            let present = (reported / BLOCK.get()).min(path.len() as u32);
            let slack = if (present as usize) < path.len() {
                SLACK
            } else {
                64
            };
            let short = reported + slack < coverage.tokens();
            let expected = match before.get(present as usize) {
                _ if !short => Correction::Agreed,
                Some(Held::Predicted(_, decision)) => {
                    place.forget_until(self.world, *decision);
                    let evicted_tokens = had - place.tokens();
                    Correction::Short { evicted_tokens }
                }
                _ => Correction::Exact,
            };
            let correction = self.index.correct(id, chain, reported, &coverage);
            same!(correction, expected, "correction");
        }
        self.carry(seat);
        Ok(())
    }

    fn clear(&mut self, seat: usize) {
        self.tell(|_| format!("{seat} is cleared"));
        self.index.clear(self.seats[seat].id);
        self.seats[seat].naive.clear(self.world);
        self.carry(seat);
    }

    fn replace(&mut self, seat: usize) -> Checked {
        self.tell(|_| format!("{seat} leaves and comes back"));
        let place = &mut self.seats[seat];
        same!(self.index.remove_place(place.id), true, "removed a place");
        self.void.push(place.id);
        place.naive.clear(self.world);
        place.naive.capacity = place.options.capacity_tokens;
        let added = self
            .index
            .add_place(place.worker, 0, place.tier, place.options);
        place.id = added.map_err(|e| format!("refused: {e}"))?;
        same!(self.void.contains(&place.id), false, "an id of before");
        self.carry(seat);
        Ok(())
    }

    fn late(&mut self, seat: usize, node: Node) -> Checked {
        let Some(&id) = self.void.last() else {
            return Ok(());
        };
        self.tell(|me| format!("something late for {id:?}, {}", me.world.tell(node)));
        let name = self.name(seat, node);
        let blocks = [StoredBlock {
            name,
            local: self.world.local(node),
        }];
        let event = StoredBlocks {
            parent: None,
            block_tokens: BLOCK.get(),
            blocks: &blocks,
        };
        let chain = self.world.chain(node);
        same!(self.index.store(id, &event), 0, "stored late");
        same!(self.index.remove(id, &[name]), 0, "removed late");
        same!(
            self.index.predict(Micros(self.now), id, chain),
            0,
            "predicted late"
        );
        self.index.clear(id);
        same!(self.index.remove_place(id), false, "removed a place again");
        same!(self.index.set_capacity(id, Some(0)), false, "bounded late");
        same!(self.index.tokens(id), 0, "tokens of a place that left");
        same!(
            self.index.reach(id, chain, 0),
            0,
            "reach of a place that left"
        );
        self.index.find(chain, &mut self.overlap);
        same!(self.overlap.blocks_at(id), 0, "blocks at a place that left");
        self.anomalies.unknown_place += 3;
        Ok(())
    }

    fn set_capacity(&mut self, seat: usize, blocks: Option<u64>) -> Checked {
        self.tell(|_| format!("{seat} may hold {blocks:?}"));
        let capacity = blocks.map(|n| n * u64::from(BLOCK.get()));
        let place = &mut self.seats[seat];
        same!(self.index.set_capacity(place.id, capacity), true, "bounded");
        place.naive.capacity = capacity;
        place.naive.fit(self.world);
        self.carry(seat);
        Ok(())
    }

    fn follow(&mut self, program: usize, seat: usize, node: Node) -> Checked {
        self.tell(|me| format!("{program} follows {} at {seat}", me.world.tell(node)));
        let id = self.seats[seat].id;
        let before = self.programs[program].take();
        let path = self.world.path(node);
        let known = path.iter().take_while(|&&n| self.needs[n as usize] > 0);
        let end = known.last().copied();
        if let Some(end) = end {
            self.need(end, true);
        }
        let mut old = None;
        if let Some((frontier, _, end)) = before {
            old = Some(frontier);
            self.need(end, false);
        }
        let chain = self.world.chain(node);
        let frontier = self.index.follow(ProgramId(program as u64), id, chain, old);
        same!(frontier.is_some(), end.is_some(), "followed");
        self.programs[program] = frontier.zip(end).map(|(frontier, end)| (frontier, id, end));
        Ok(())
    }

    fn leave(&mut self, program: usize) {
        self.tell(|_| format!("{program} ends"));
        if let Some((frontier, _, end)) = self.programs[program].take() {
            self.index.leave(ProgramId(program as u64), frontier);
            self.need(end, false);
        }
    }

    /// Compares who has how much of one prompt.
    pub(crate) fn check(&mut self, probe: u32) -> Checked {
        let node = self.node(probe);
        let (world, path) = (self.world, self.world.path(node));
        let chain = world.chain(node);
        self.index.find(chain, &mut self.overlap);
        let mut stops = Vec::new();
        for (n, seat) in self.seats.iter().enumerate() {
            let expected = seat.naive.reach(path, 0) as u32;
            let told = || world.tell(node);
            same!(
                self.overlap.blocks_at(seat.id),
                expected,
                "{n} has of {}",
                told()
            );
            let tokens = self.overlap.tokens_at(seat.id);
            same!(tokens, expected * BLOCK.get(), "tokens at {n}");
            same!(
                self.index.tokens(seat.id),
                seat.naive.tokens(),
                "tokens of {n}"
            );
            if expected > 0 {
                stops.push((expected, seat.id));
            }
        }
        let asked = &self.seats[probe as usize % self.seats.len()];
        let from = (probe >> 8) as usize % (path.len() + 1);
        let reach = self.index.reach(asked.id, chain, from as u32);
        same!(
            reach as usize,
            asked.naive.reach(path, from),
            "reach from {from}"
        );
        stops.sort_unstable_by_key(|&(blocks, id)| (blocks, id.0 & 0xffff));
        let steps = self.overlap.steps();
        let steps = steps.flat_map(|s| s.places().map(move |p| (s.blocks, p)));
        same!(steps.collect::<Vec<_>>(), stops, "steps");
        Ok(())
    }

    /// Compares everything that there is.
    pub(crate) fn check_all(&mut self) -> Checked {
        for node in 0..self.world.len() {
            self.check(node)?;
        }
        self.check_sizes()
    }

    /// Compares what an operator sees.
    pub(crate) fn check_sizes(&mut self) -> Checked {
        let stats = self.index.stats();
        same!(stats.anomalies, self.anomalies, "anomalies");
        same!(stats.blocks, self.needed, "distinct blocks");
        for (n, seat) in self.seats.iter().enumerate() {
            let own = stats.places.iter().find(|p| p.place == seat.id);
            let own = own.ok_or("a place is missing")?;
            same!(own.blocks as u64, seat.naive.blocks(), "blocks of {n}");
            same!(own.tokens, seat.naive.tokens(), "tokens of {n}");
            let set = self.working_set(seat.id);
            same!(self.index.working_set(seat.id), set, "working set of {n}");
        }
        let expiries = self.seats.iter().filter_map(|s| s.naive.next_expiry());
        let next = self.index.next_expiry().map_or(u64::MAX, |at| at.0);
        match expiries.min() {
            Some(first) if next > first => Err(format!("expiry at {next}, due at {first}")),
            _ => Ok(()),
        }
    }

    fn working_set(&self, id: PlaceId) -> u64 {
        let mut union: BTreeSet<Node> = BTreeSet::new();
        for (_, at, end) in self.programs.iter().flatten() {
            if *at == id {
                union.extend(self.world.path(*end));
            }
        }
        union.len() as u64 * u64::from(BLOCK.get())
    }

    /// Lets everything go; nothing may be left.
    pub(crate) fn finish(mut self) -> Checked {
        (0..PROGRAMS).for_each(|program| self.leave(program));
        for seat in 0..self.seats.len() {
            let held: Vec<(Node, Held)> = self.seats[seat].naive.all().collect();
            let id = self.seats[seat].id;
            for (node, held) in held {
                let copies = match held {
                    Held::Exact(copies) => copies,
                    Held::Predicted(..) => continue,
                };
                let name = self.name(seat, node);
                let names = vec![name; copies as usize];
                let told = self.world.tell(node);
                same!(
                    self.index.remove(id, &names),
                    names.len(),
                    "{seat} drops {told}"
                );
            }
            self.index.set_capacity(id, Some(0));
            same!(self.index.tokens(id), 0, "left at {seat}");
        }
        let stats = self.index.stats();
        same!((stats.blocks, stats.runs, stats.anchors), (0, 0, 0), "left");
        // A place keeps room for a list of about a hundred runs.
        let most = self.seats.len() * 600;
        match stats.bytes > most {
            true => Err(format!("{} bytes left, {most} at most", stats.bytes)),
            false => Ok(()),
        }
    }
}

/// Whether the index knows a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    Open,
}

/// What is to become of a store event.
enum Expected {
    AllOf(Vec<Node>),
    /// All of it but the last block, which is there before.
    Repeated(Vec<Node>),
    SelfParent,
    Cycle,
    WrongSize,
}

fn in_order(nodes: &[Node], order: Order) -> Vec<Node> {
    let mut nodes = nodes.to_vec();
    match order {
        Order::HeadFirst => {}
        Order::TailFirst => nodes.reverse(),
        Order::Shuffled => nodes.sort_unstable_by_key(|&n| mix(n.into())),
        Order::Doubled => nodes = nodes.iter().flat_map(|&n| [n, n]).collect(),
        Order::First => nodes.truncate(1),
    }
    nodes
}
