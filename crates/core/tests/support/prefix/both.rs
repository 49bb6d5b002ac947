//! The index and the naive one, told the same and asked the same.
//!
//! Every answer of the index is compared: what a call returns, how much each place has of a prompt,
//! steps, tokens, sizes, anomalies. A difference is an error that says what and where; nothing is
//! ever put right. Engine events are in `events`, the looks after each operation in `check`.
use std::collections::HashSet;

use warmpath_core::prefix::{
    Anomalies, Correction, Coverage, Frontier, Overlap, PlaceOptions, PrefixIndex, StoredBlock,
    StoredBlocks, Tier,
};
use warmpath_core::{Micros, PlaceId, ProgramId, WorkerId};

use super::naive::{Held, NaivePlace, Numbers, Words};
use super::op::Op;
use super::world::{BLOCK, Node, World};

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

mod check;
mod events;

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
}

/// Whether the index knows a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    Open,
}
