//! How does a scheduler write itself down while it goes on?
//!
//! Sequences what the rooms write of themselves, slice by slice; `restore` reads it, and
//! [`crate::snapshot`] says what is kept and why. First everything is written once, in the order of the
//! rooms, then what has changed meanwhile, as long as there is any, and in the slice that finds
//! nothing more to do the names of the fleet and the counters. Turns that come between two slices
//! change less than a slice writes, so that ends; what a snapshot holds is the state at its last slice.
use crate::affinity::Homes;
use crate::error::{Error, Result};
use crate::id::{Micros, ProgramId};
use crate::session::Whereabouts;
use crate::snapshot::{Budget, Encode, Frames, Kind, Progress};

use super::Scheduler;
use super::paths::Paths;
use super::topology::Health;

/// A snapshot that is being written: how far it has got.
#[derive(Debug)]
pub struct Snapshot {
    number: u64,
    stage: Stage,
    frames: Frames,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Runs,
    Sessions,
    Owners,
    Changes,
    Done,
}

impl Scheduler {
    /// Begins a snapshot; one that is being written is void from now on. Nothing is written yet, and
    /// every call costs a little more until it is done or given to [`Scheduler::end_snapshot`].
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshots += 1;
        self.prefix.watch();
        self.sessions.watch();
        self.owners.watch();
        self.paths.moved = Some(Default::default());
        Snapshot {
            number: self.snapshots,
            stage: Stage::Head,
            frames: Frames::default(),
        }
    }

    /// Appends the next slice of a snapshot to `out`: at most about `budget` bytes, or as much as can
    /// be looked at in the time that those take to write (256 KiB take well under a millisecond).
    /// When it is done, all slices together are the state at `now`.
    ///
    /// # Errors
    /// `SNAPSHOT_SUPERSEDED` when another one was begun since.
    pub fn write_snapshot(
        &mut self,
        now: Micros,
        snapshot: &mut Snapshot,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<Progress> {
        if snapshot.stage == Stage::Done {
            return Ok(Progress::Done);
        }
        if snapshot.number != self.snapshots || !self.prefix.is_watched() {
            let detail = "another snapshot was begun or read since";
            return Err(Error::snapshot_superseded(detail));
        }
        self.set_time(now);
        let mut budget = Budget::new(budget);
        for session in self.paths.moved.iter_mut().flat_map(std::mem::take) {
            self.sessions.note(session);
        }
        while !budget.is_spent() {
            snapshot.stage = self.write_stage(snapshot, &mut budget, out);
            if snapshot.stage == Stage::Done {
                self.unwatch();
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    /// Gives up a snapshot, done or not.
    pub fn end_snapshot(&mut self, snapshot: Snapshot) {
        if snapshot.number == self.snapshots {
            self.unwatch();
        }
    }

    fn unwatch(&mut self) {
        self.prefix.unwatch();
        self.sessions.unwatch();
        self.owners.unwatch();
        self.paths.moved = None;
    }

    /// Writes as much as the budget allows of one stage. Returns the stage to go on with.
    fn write_stage(
        &mut self,
        snapshot: &mut Snapshot,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Stage {
        let Snapshot { stage, frames, .. } = snapshot;
        let (progress, next) = match *stage {
            Stage::Head => {
                Frames::head(out);
                (Progress::Done, Stage::Runs)
            }
            Stage::Runs => {
                let write = |out: &mut Vec<u8>| self.prefix.write_runs(budget, out);
                (frames.write(Kind::Runs, out, write), Stage::Sessions)
            }
            Stage::Sessions => {
                let place_of = whereabouts(&self.paths, &self.homes);
                let write = |out: &mut Vec<u8>| self.sessions.write(place_of, budget, out);
                (frames.write(Kind::Sessions, out, write), Stage::Owners)
            }
            Stage::Owners => {
                let write = |out: &mut Vec<u8>| self.owners.write(budget, out);
                (frames.write(Kind::Owners, out, write), Stage::Changes)
            }
            Stage::Changes => (self.write_changes(frames, budget, out), Stage::Done),
            Stage::Done => (Progress::Done, Stage::Done),
        };
        if (progress, next) == (Progress::Done, Stage::Done) {
            frames.write(Kind::End, out, |out| self.write_end(out));
        }
        match progress {
            Progress::More => *stage,
            Progress::Done => next,
        }
    }

    /// Writes what has changed since it was written, in whatever room.
    fn write_changes(
        &mut self,
        frames: &mut Frames,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Progress {
        let prefix = &mut self.prefix;
        let runs = frames.write(Kind::Runs, out, |out| {
            prefix.write_changed_runs(budget, out)
        });
        let place_of = whereabouts(&self.paths, &self.homes);
        let sessions = frames.write(Kind::Sessions, out, |out| {
            self.sessions.write_changed(place_of, budget, out)
        });
        let owners = frames.write(Kind::Owners, out, |out| self.owners.write(budget, out));
        match [runs, sessions, owners].contains(&Progress::More) {
            true => Progress::More,
            false => Progress::Done,
        }
    }

    /// The names of the fleet, the time and the counts. O(fleet).
    fn write_end(&self, out: &mut Vec<u8>) {
        out.put_u64(self.now.0);
        let topology = &self.topology;
        out.put_len(topology.targets().len());
        for target in topology.targets() {
            // No target is called so: nothing of a removed one is found again.
            out.put_text(if target.is_removed { "" } else { &target.name });
            out.put_u32(target.group.0);
            let group = &topology.groups[target.group.index()];
            out.put_u32(group.rate.get());
            out.put_u32(group.block_tokens.get());
        }
        let live = || {
            let all = (0_u32..).zip(topology.workers());
            all.filter(|(_, worker)| worker.health != Health::Removed)
        };
        out.put_len(live().count());
        for (number, worker) in live() {
            out.put_u32(number);
            out.put_text(&worker.name);
            out.put_u32(worker.group.0);
        }
        self.prefix.write_places(out);
        self.sessions.write_counts(out);
        out.put_u64s(&self.counters.list());
    }
}

/// Where each branch of a session is.
fn whereabouts<'a>(paths: &'a Paths, homes: &'a Homes) -> impl Fn(ProgramId) -> Whereabouts + 'a {
    |program| Whereabouts {
        path: paths.image(program),
        home: homes.of(program).map(|home| home.0),
    }
}
