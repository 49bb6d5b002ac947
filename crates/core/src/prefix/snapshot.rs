//! How does the index write itself down, a slice at a time?
//!
//! Runs by number, each with its blocks, its names, and who holds what on which evidence. A long run
//! takes several slices: its parts first, what is said of the whole with the last part. What changes
//! between slices is noted by the forest (its `watch`) and written again, only as far as it differs.
//! Children are found by their parents when the snapshot is read, anchors are not needed, and paths
//! are written with the sessions they belong to. `image` reads what this file writes.
//! O(what a slice writes), plus a look at each number that is not in use.
use super::forest::Forest;
use super::paths::Frontier;
use super::run::Run;
use super::set::SlotSet;
use super::{PathImage, PrefixIndex, Tier};
use crate::snapshot::{Budget, Encode, NO_PART, Progress};

/// Bytes of one block with one name.
const BLOCK_BYTES: usize = 16;
/// A look at a number costs at least so many bytes' time: a run lies in several pieces of memory.
const LOOK_UNITS: usize = 16;
const RUN_UNITS: usize = 1_024;

/// What a record of a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// There is no such run any more.
    Gone = 0,
    /// Some of its blocks; more follow.
    Part = 1,
    /// Its last blocks, and what is said of the whole.
    Whole = 2,
}

impl PrefixIndex {
    /// A snapshot begins; one that was being written is void.
    pub(crate) fn watch(&mut self) {
        self.forest.watch = Some(Box::default());
    }

    /// No snapshot is being written any more.
    pub(crate) fn unwatch(&mut self) {
        self.forest.watch = None;
    }

    /// Whether a snapshot is being written.
    pub(crate) fn is_watched(&self) -> bool {
        self.forest.watch.is_some()
    }

    /// Distinct blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.forest.blocks()
    }

    /// Blocks that places hold, each as often as one does. O(places).
    pub(crate) fn held(&self) -> u64 {
        self.places().map(|(_, place)| place.blocks as u64).sum()
    }

    /// Writes runs that have not been written yet.
    pub(crate) fn write_runs(&mut self, budget: &mut Budget, out: &mut Vec<u8>) -> Progress {
        let Some(mut watch) = self.forest.watch.take() else {
            return Progress::Done;
        };
        let bound = self.forest.runs.bound();
        let more = loop {
            let (number, from) = watch.cursor();
            if number >= bound {
                watch.finish();
                break Progress::Done;
            }
            if budget.is_spent() {
                break Progress::More;
            }
            budget.charge(LOOK_UNITS);
            match self.forest.runs.get(number) {
                None => watch.pass(),
                Some(run) => match self.write_run((number, run), from, budget, out) {
                    None => watch.pass(),
                    Some(to) => watch.pause(to),
                },
            }
        };
        self.forest.watch = Some(watch);
        more
    }

    /// Writes again what has changed since it was written.
    pub(crate) fn write_changed_runs(
        &mut self,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Some(mut watch) = self.forest.watch.take() else {
            return Progress::Done;
        };
        while !budget.is_spent()
            && let Some((number, from)) = watch.take()
        {
            match self.forest.runs.get(number) {
                None => {
                    budget.charge(LOOK_UNITS);
                    out.put_u32(number);
                    out.put_u8(Record::Gone as u8);
                }
                Some(run) => {
                    if let Some(to) = self.write_run((number, run), from, budget, out) {
                        watch.note(number, to);
                    }
                }
            }
        }
        let progress = match watch.has_changes() {
            true => Progress::More,
            false => Progress::Done,
        };
        self.forest.watch = Some(watch);
        progress
    }

    /// The places and the counts. Last, since places may come and go between slices. O(places).
    pub(crate) fn write_places(&self, out: &mut Vec<u8>) {
        out.put_len(self.places().count());
        for (slot, place) in self.places() {
            out.put_u32(slot);
            out.put_u32(place.worker.0);
            out.put_u32(place.rank);
            out.put_u8(tag_of(place.tier));
            out.put_u64(place.marks.longest().0);
        }
        out.put_u64(self.uses);
        out.put_u64(self.evicted);
    }

    /// Writes blocks of a run from `from` on, and what is said of the whole if they are the last.
    /// Returns where to go on.
    fn write_run(
        &self,
        (number, run): (u32, &Run),
        from: u32,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let from = from.min(run.len());
        let room = (budget.left() / BLOCK_BYTES).max(1);
        let to = run.len().min(from.saturating_add(room as u32));
        let is_whole = to == run.len();
        let start = out.len();
        out.put_u32(number);
        out.put_u8(match is_whole {
            true => Record::Whole as u8,
            false => Record::Part as u8,
        });
        write_blocks(run, (from, to), out);
        if is_whole {
            self.write_coverage(run, out);
        }
        budget.charge(RUN_UNITS + out.len() - start);
        (!is_whole).then_some(to)
    }

    /// Who holds what, and since when nobody used it.
    fn write_coverage(&self, run: &Run, out: &mut Vec<u8>) {
        out.put_u64(run.recency.end);
        out.put_len(run.recency.heads.len());
        for &(to, used) in &run.recency.heads {
            out.put_u32(to);
            out.put_u64(used);
        }
        write_slots(run.held.full(), out);
        out.put_len(run.held.parts().len());
        for (slot, (from, to)) in run.held.parts() {
            out.put_u32(slot);
            out.put_u32(from);
            out.put_u32(to);
        }
        out.put_len(run.claims.len());
        for claim in &run.claims {
            let segment = self.place(claim.slot).segment(claim.segment);
            out.put_u32(claim.slot);
            out.put_u32(segment.from);
            out.put_u32(segment.to);
            out.put_u64(segment.used);
            out.put_u64(segment.at.0);
        }
        let copies = run.cold().map(|cold| &cold.copies);
        out.put_len(copies.map_or(0, |copies| copies.len()));
        for (&(slot, offset), &count) in copies.into_iter().flatten() {
            out.put_u32(slot);
            out.put_u32(offset);
            out.put_u32(count);
        }
        let marks = run.cold().map(|cold| &cold.marks);
        out.put_len(marks.map_or(0, |marks| marks.len()));
        for (&(slot, offset), mark) in marks.into_iter().flatten() {
            out.put_u32(slot);
            out.put_u32(offset);
            out.put_u64(mark.ttl.0);
            out.put_u64(mark.until.0);
            out.put_u64(mark.written);
        }
    }
}

impl Frontier {
    /// The path in the numbers that a snapshot uses.
    pub(crate) fn image(&self) -> PathImage {
        PathImage {
            slot: self.slot,
            run: self.at.run,
            offset: self.at.offset,
        }
    }
}

impl Forest {
    /// Tells a snapshot that is being written that a run has changed, its blocks from `from` on.
    pub(super) fn note_blocks(&mut self, run: u32, from: u32) {
        if let Some(watch) = &mut self.watch {
            watch.note(run, from);
        }
    }

    /// As [`Self::note_blocks`], when it is still the same blocks that the run has.
    pub(super) fn note(&mut self, run: u32) {
        self.note_blocks(run, NO_PART);
    }
}

/// Where the run hangs, its blocks in `from..to`, and their names.
fn write_blocks(run: &Run, (from, to): (u32, u32), out: &mut Vec<u8>) {
    out.put_u8(u8::from(run.parent.is_some()));
    if let Some(parent) = run.parent {
        out.put_u32(parent.run);
        out.put_u32(parent.offset);
    }
    out.put_u32(from);
    out.put_u64s(&run.chain[from as usize..to as usize]);
    match run.lengths.uniform() {
        Some(each) => {
            out.put_u8(1);
            out.put_u32(each);
        }
        None => {
            out.put_u8(0);
            for at in from..to {
                let tokens = run.lengths.tokens((at, at + 1));
                out.put_u32(u32::try_from(tokens).unwrap_or(u32::MAX));
            }
        }
    }
    out.put_len(run.names.columns.len());
    for column in &run.names.columns {
        let before = from.clamp(column.start, column.end()) - column.start;
        let end = to.clamp(column.start, column.end()) - column.start;
        out.put_u32(column.domain);
        out.put_u32(column.start);
        write_slots(&column.slots, out);
        out.put_u32(before);
        out.put_u64s(&column.hashes[before as usize..end as usize]);
    }
}

/// The words of a set from the first that is not empty.
fn write_slots(slots: &SlotSet, out: &mut Vec<u8>) {
    let words = slots.words();
    let first = words.iter().take_while(|word| **word == 0).count();
    out.put_len(first);
    out.put_u64s(&words[first..]);
}

fn tag_of(tier: Tier) -> u8 {
    match tier {
        Tier::Device => 0,
        Tier::Host => 1,
        Tier::Disk => 2,
        Tier::External => 3,
    }
}
