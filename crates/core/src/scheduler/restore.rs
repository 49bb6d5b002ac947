//! How does a scheduler become what another one was?
//!
//! Reads what `snapshot` has written into a scheduler that has its fleet and nothing else. Everything
//! is read and checked, then built beside what there is, and only then put in its place, so that a
//! snapshot which is refused changes nothing. Workers are found by their names, and only those that
//! still serve a target they served: what another model has left in a cache is worth nothing. Admission
//! learns again from each program's next turn. O(bytes), in one call: before the first turn.
use hashbrown::{HashMap, HashSet};

use crate::affinity::{Homes, Mode};
use crate::block::TokenRate;
use crate::continuity::{Owners, OwnersImage};
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, TargetId, WorkerId};
use crate::prefix::{self, PrefixIndex, Terms};
use crate::session::{OpenedPath, SessionRegistry, SessionsImage};
use crate::snapshot::{
    Downtime, Dropped, Kind, Reader, RestoreOptions, Restored, invalid, read_frames,
};

use super::paths::Paths;
use super::topology::Topology;
use super::{Counters, Scheduler};

impl Scheduler {
    /// Takes over what a snapshot holds, as far as it is still to be believed. For a scheduler that
    /// has its groups, targets and workers, and has seen no turn and no event yet. O(bytes).
    ///
    /// # Errors
    /// `SNAPSHOT_INVALID` for what is foreign, cut or damaged, `SNAPSHOT_VERSION` for a format that is
    /// not read here, `SNAPSHOT_NOT_FRESH`. Nothing has changed then.
    pub fn restore(
        &mut self,
        now: Micros,
        bytes: &[u8],
        options: RestoreOptions,
    ) -> Result<Restored> {
        self.check_fresh()?;
        let image = Image::read(bytes)?;
        let had = (image.sessions.len(), image.owners.len());
        let rooms = self.rebuild(image, now.max(self.now), options)?;
        let (held, places, resized) = (rooms.held, rooms.places_gone, rooms.resized);
        self.move_in(rooms);
        Ok(Restored {
            blocks: self.prefix.blocks(),
            sessions: self.sessions.len(),
            owners: self.owners.len(),
            dropped: Dropped {
                places,
                resized,
                held: held - self.prefix.held(),
                sessions: had.0 - self.sessions.len(),
                owners: had.1 - self.owners.len(),
            },
        })
    }

    fn check_fresh(&self) -> Result<()> {
        let is_fresh = self.sessions.is_empty()
            && self.reservations.len() == 0
            && self.owners.is_empty()
            && self.prefix.blocks() == 0;
        match is_fresh {
            true => Ok(()),
            false => Err(Error::snapshot_not_fresh(
                "the scheduler has seen turns or events already; restore before the first",
            )),
        }
    }

    /// Builds what the snapshot says beside what there is.
    fn rebuild(&self, image: Image, now: Micros, options: RestoreOptions) -> Result<Rooms> {
        let terms = Terms {
            now,
            taken: image.taken,
            downtime: match options.downtime {
                Downtime::SameClock => now.since(image.taken),
                Downtime::Known(downtime) => downtime,
            },
            exact: options.exact,
        };
        let limits = &self.config.limits;
        let fleet = image.fleet.among(&self.topology);
        let target_of = |number| fleet.targets.get(&number).copied();
        let worker_of = |number| fleet.workers.get(&number).copied();
        let is_resized = |worker: &WorkerId| {
            let group = self.topology.workers()[worker.index()].group;
            fleet.resized.contains(&group)
        };
        let cache_of = |number| worker_of(number).filter(|worker| !is_resized(worker));
        let mut index = self.prefix.rebuild(image.index, cache_of, terms)?;
        let moved = |at| terms.moved(at).unwrap_or_default();
        let (sessions, returning) =
            SessionRegistry::rebuild(image.sessions, limits.sessions, target_of, moved);
        let (mut paths, mut homes) = (Paths::default(), Homes::default());
        for branch in &returning {
            if let Some(OpenedPath { path, opened }) = branch.was.path
                && let Some(frontier) = index.path(branch.program, path)?
            {
                paths.enter(branch, opened, frontier);
            }
            let stays = self.config.affinity.mode != Mode::Off;
            if let Some(home) = branch.was.home.filter(|_| stays).and_then(worker_of) {
                homes.settle(branch.program, home);
            }
        }
        let owners = Owners::rebuild(&image.owners, limits.owners, target_of, worker_of);
        let (prefix, outcome) = index.finish();
        Ok(Rooms {
            now,
            prefix,
            paths,
            homes,
            sessions,
            owners,
            rates: fleet.rates,
            counters: image.counters,
            held: outcome.held,
            places_gone: outcome.places_gone,
            resized: fleet
                .workers
                .values()
                .filter(|&worker| is_resized(worker))
                .count(),
        })
    }

    /// Puts what was built in the place of what there is, and lets go what is too old or too much.
    fn move_in(&mut self, rooms: Rooms) {
        self.now = rooms.now;
        self.snapshots += 1;
        self.prefix = rooms.prefix;
        self.paths = rooms.paths;
        self.homes = rooms.homes;
        self.sessions = rooms.sessions;
        for program in self.sessions.living() {
            self.tally.begun(program);
        }
        self.owners = rooms.owners;
        self.counters = rooms.counters;
        for (group, rate) in rooms.rates {
            self.topology.groups[group.index()].rate = rate;
        }
        self.forget_idle();
        self.make_room();
    }
}

/// What a restore changes.
#[derive(Debug)]
struct Rooms {
    now: Micros,
    prefix: PrefixIndex,
    paths: Paths,
    homes: Homes,
    sessions: SessionRegistry,
    owners: Owners,
    rates: Vec<(GroupId, TokenRate)>,
    counters: Counters,
    held: u64,
    places_gone: usize,
    resized: usize,
}

/// A snapshot, read and checked, in the numbers of the scheduler that wrote it.
#[derive(Debug, Default)]
struct Image {
    taken: Micros,
    fleet: FleetImage,
    index: prefix::Image,
    sessions: SessionsImage,
    owners: OwnersImage,
    counters: Counters,
}

impl Image {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut image = Self::default();
        for (kind, reader) in read_frames(bytes)? {
            match kind {
                Kind::Runs => image.index.read_runs(reader)?,
                Kind::Sessions => image.sessions.read(reader)?,
                Kind::Owners => image.owners.read(reader)?,
                Kind::End => image.read_end(reader)?,
            }
        }
        Ok(image)
    }

    fn read_end(&mut self, mut reader: Reader<'_>) -> Result<()> {
        self.taken = Micros(reader.u64()?);
        self.fleet = FleetImage::read(&mut reader)?;
        self.index.read_places(&mut reader)?;
        self.sessions.read_counts(&mut reader)?;
        let counters = reader.u64s()?.try_into().ok();
        let counters = counters.filter(|_| reader.is_empty());
        let counters = counters.ok_or_else(|| invalid("its end is too long or too short"))?;
        self.counters = Counters::of(counters);
        Ok(())
    }
}

/// What the targets and workers of a snapshot are called.
#[derive(Debug, Default)]
struct FleetImage {
    /// By number.
    targets: Vec<TargetImage>,
    workers: Vec<WorkerImage>,
}

#[derive(Debug)]
struct TargetImage {
    name: Box<str>,
    group: u32,
    rate: TokenRate,
    block_tokens: u32,
}

#[derive(Debug)]
struct WorkerImage {
    number: u32,
    name: Box<str>,
    group: u32,
}

/// What is left of a snapshot's fleet: its numbers and ours.
#[derive(Debug, Default)]
struct Found {
    targets: HashMap<u32, TargetId>,
    workers: HashMap<u32, WorkerId>,
    /// Groups whose blocks had another size: nothing in their workers' caches is found again.
    resized: HashSet<GroupId>,
    rates: Vec<(GroupId, TokenRate)>,
}

impl FleetImage {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let targets = reader.list(16, |reader| {
            Ok(TargetImage {
                name: reader.text()?.into(),
                group: reader.u32()?,
                rate: TokenRate::new(reader.u32()?),
                block_tokens: reader.u32()?,
            })
        })?;
        let workers = reader.list(12, |reader| {
            Ok(WorkerImage {
                number: reader.u32()?,
                name: reader.text()?.into(),
                group: reader.u32()?,
            })
        })?;
        Ok(Self { targets, workers })
    }

    /// Finds the targets and workers among ours. O(targets + workers).
    fn among(&self, topology: &Topology) -> Found {
        let mut found = Found::default();
        let mut served = HashSet::new();
        for (number, target) in (0..).zip(&self.targets) {
            let Some(id) = topology.target_named(&target.name) else {
                continue;
            };
            let group = topology.targets()[id.index()].group;
            found.targets.insert(number, id);
            found.rates.push((group, target.rate));
            if topology.groups[group.index()].block_tokens.get() != target.block_tokens {
                found.resized.insert(group);
            }
            served.insert((target.group, group));
        }
        for worker in &self.workers {
            let Some(id) = topology.worker_named(&worker.name) else {
                continue;
            };
            if served.contains(&(worker.group, topology.workers()[id.index()].group)) {
                found.workers.insert(worker.number, id);
            }
        }
        found
    }
}
