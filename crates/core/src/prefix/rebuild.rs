//! How does what a snapshot says become an index again?
//!
//! Beside the index that is there, whose places it takes over, empty; nothing of that one is touched.
//! In three steps: the runs from the root down, with what is still believed of each; the paths of
//! programs, which keep blocks alive; and at last whatever nobody needs goes, from the leaves up, and
//! each place and the whole are held to their bounds.
//!
//! What is believed is never more than the index believed that wrote it: a prediction keeps its age
//! and goes on ageing, the engine's word counts as the options say, and what was held where no place
//! is registered now counts nowhere. O(blocks × log runs).
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::forest::Forest;
use super::held::Span;
use super::image::{CoverageImage, PlaceImage, RunImage, SegmentImage};
use super::ledger::MAX_COPIES;
use super::marks::{MAX_MARKS, Mark};
use super::paths::Frontier;
use super::place::{Place, Use};
use super::run::{Address, Claim, Run, RunId};
use super::{Image, PathImage, PrefixIndex, Seat};
use crate::snapshot::{Exact, invalid};
use crate::{Micros, ProgramId, Result, WorkerId};

/// When a snapshot was taken, when it is read, and what to make of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) now: Micros,
    pub(crate) taken: Micros,
    pub(crate) downtime: Micros,
    pub(crate) exact: Exact,
}

impl Terms {
    /// A time of the snapshot on the clock of now; absent when that is before the clock began.
    pub(crate) fn moved(&self, at: Micros) -> Option<Micros> {
        let age = self.taken.since(at).plus(self.downtime);
        self.now.0.checked_sub(age.0).map(Micros)
    }
}

/// An index that is being made from a snapshot.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    index: PrefixIndex,
    terms: Terms,
    /// The snapshot's numbers of places and runs, and ours.
    slots: BTreeMap<u32, u32>,
    runs: BTreeMap<u32, RunId>,
    /// Runs from the root down.
    order: Vec<RunId>,
    /// Predictions by slot, to be entered from the oldest on.
    predicted: Vec<Prediction>,
    held: u64,
    places_gone: usize,
}

/// Blocks that a place is predicted to hold from now on.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    slot: u32,
    run: RunId,
    span: Span,
    used: u64,
    at: Micros,
}

/// What the snapshot had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Places that are not registered any more.
    pub(crate) places_gone: usize,
    /// Blocks that places held when the snapshot was taken, each as often as one did.
    pub(crate) held: u64,
}

impl PrefixIndex {
    /// Begins an index like this one, with the same places, that holds what is left of a snapshot.
    /// `worker_of` finds the snapshot's workers among ours.
    ///
    /// # Errors
    /// `SNAPSHOT_INVALID` when the snapshot contradicts itself.
    pub(crate) fn rebuild(
        &self,
        image: Image,
        worker_of: impl Fn(u32) -> Option<WorkerId>,
        terms: Terms,
    ) -> Result<Rebuilt> {
        let mut index = Self::new(self.max_blocks);
        index.seats = self.seats.iter().map(Seat::emptied).collect();
        index.generations = Arc::clone(&self.generations);
        index.taken = self.taken.clone();
        index.anomalies = self.anomalies;
        index.evicted = image.evicted;
        index.now = terms.now;
        // The engine's word becomes a prediction by a use of its own, after all others.
        index.uses = image.uses + u64::from(terms.exact == Exact::AsPredicted);
        let mut rebuilt = Rebuilt {
            slots: self.slots_of(&image.places, worker_of)?,
            index,
            terms,
            runs: BTreeMap::new(),
            order: Vec::new(),
            predicted: Vec::new(),
            held: 0,
            places_gone: 0,
        };
        for place in &image.places {
            if let Some(&slot) = rebuilt.slots.get(&place.slot) {
                let own = rebuilt.index.place_mut(slot);
                if own.options.matching.rules().is_some() {
                    own.marks.longest = place.longest;
                }
            }
        }
        let mut gone: Vec<u32> = Vec::new();
        rebuilt.grow(image.runs, &mut gone)?;
        rebuilt.places_gone = gone.len();
        rebuilt.enter_predictions();
        Ok(rebuilt)
    }

    /// Where the snapshot's places are here, of those that are.
    fn slots_of(
        &self,
        places: &[PlaceImage],
        worker_of: impl Fn(u32) -> Option<WorkerId>,
    ) -> Result<BTreeMap<u32, u32>> {
        let mut slots = BTreeMap::new();
        let mut found = BTreeSet::new();
        for place in places {
            let Some(worker) = worker_of(place.worker) else {
                continue;
            };
            let Some(&slot) = self.taken.get(&(worker, place.rank, place.tier)) else {
                continue;
            };
            if !found.insert(slot) {
                return Err(invalid("a place is in it twice"));
            }
            slots.insert(place.slot, slot);
        }
        Ok(slots)
    }
}

impl Seat {
    /// The same place, as it was before it held anything.
    fn emptied(&self) -> Self {
        let place = self.place.as_ref();
        let empty = |p: &Place| Place::new(p.worker, p.rank, p.tier, p.options);
        Self {
            place: place.map(empty),
            ..Self::default()
        }
    }
}

impl Rebuilt {
    /// Lays the runs, parents first.
    fn grow(&mut self, images: BTreeMap<u32, RunImage>, gone: &mut Vec<u32>) -> Result<()> {
        let mut children: BTreeMap<Option<u32>, Vec<(u32, RunImage)>> = BTreeMap::new();
        for (number, image) in images {
            let parent = image.parent.map(|(run, _)| run);
            children.entry(parent).or_default().push((number, image));
        }
        let mut next = VecDeque::from([None]);
        while let Some(parent) = next.pop_front() {
            for (number, image) in children.remove(&parent).into_iter().flatten() {
                let id = self.lay(image, gone)?;
                self.runs.insert(number, id);
                self.order.push(id);
                next.push_back(Some(number));
            }
        }
        match children.is_empty() {
            true => Ok(()),
            false => Err(invalid("a run hangs nowhere")),
        }
    }

    fn lay(&mut self, image: RunImage, gone: &mut Vec<u32>) -> Result<RunId> {
        let coverage = image.coverage.ok_or_else(|| invalid("a run has no end"))?;
        let parent = match image.parent {
            None => None,
            Some((run, offset)) => {
                let above = self.runs.get(&run).map(|&run| Address { run, offset });
                let is_there = |at: &Address| offset < self.index.forest.runs[at.run].len();
                Some(above.filter(is_there).ok_or_else(no_parent)?)
            }
        };
        let base = parent.map_or(0, |at| self.index.forest.depth(at));
        if base.checked_add(image.chain.len() as u32).is_none() {
            return Err(invalid("a prefix is too long"));
        }
        let mut run = Run::new(parent, base);
        (run.chain, run.lengths) = (image.chain, image.lengths);
        let last = self.index.uses;
        run.recency.end = coverage.end.min(last);
        let heads = coverage.heads.iter();
        run.recency.heads = heads.map(|&(to, used)| (to, used.min(last))).collect();
        run.names.columns = image.columns.into_iter().collect();
        let id = self.index.forest.adopt(run)?;
        self.cover(id, &coverage, gone);
        self.mark(id, &coverage);
        self.name(id);
        Ok(id)
    }

    /// Enters what is still believed of the run.
    fn cover(&mut self, id: RunId, coverage: &CoverageImage, gone: &mut Vec<u32>) {
        let mut segments = &coverage.segments[..];
        for &(old, span) in &coverage.held {
            self.held += u64::from(span.1 - span.0);
            let within = |s: &SegmentImage| s.slot == old && s.span.1 <= span.1;
            let own = segments.iter().take_while(|s| within(s)).count();
            let (own, rest) = segments.split_at(own);
            segments = rest;
            let Some(&slot) = self.slots.get(&old) else {
                if !gone.contains(&old) {
                    gone.push(old);
                }
                continue;
            };
            let mut at = span.0;
            for segment in own {
                self.believe_exact((old, slot), id, (at, segment.span.0), coverage);
                self.believe_predicted(slot, id, segment);
                at = segment.span.1;
            }
            self.believe_exact((old, slot), id, (at, span.1), coverage);
        }
    }

    fn believe_exact(
        &mut self,
        (old, slot): (u32, u32),
        id: RunId,
        span: Span,
        coverage: &CoverageImage,
    ) {
        if span.0 == span.1 {
            return;
        }
        match self.terms.exact {
            Exact::Drop => {}
            Exact::AsPredicted => {
                let segment = SegmentImage {
                    slot: old,
                    span,
                    used: self.index.uses,
                    at: self.terms.taken,
                };
                self.believe_predicted(slot, id, &segment);
            }
            Exact::Keep => {
                self.hold(slot, id, span);
                let own = coverage.copies.range((old, span.0)..(old, span.1));
                let copies: Vec<_> = own.map(|(&(_, at), &n)| (at, n)).collect();
                if !copies.is_empty() {
                    self.index.forest.runs[id].change_cold(|cold| {
                        let kept = copies.into_iter().filter(|&(_, n)| n > 0);
                        let kept = kept.map(|(at, n)| ((slot, at), n.min(MAX_COPIES)));
                        cold.copies.extend(kept);
                    });
                }
            }
        }
    }

    /// A prediction that is too old by now, or whose age the clock cannot tell, is none.
    fn believe_predicted(&mut self, slot: u32, run: RunId, segment: &SegmentImage) {
        let ttl = self.index.place(slot).lifetime();
        let moved = self.terms.moved(segment.at);
        let at = match (moved, ttl) {
            (Some(at), Some(ttl)) if at.plus(ttl) <= self.terms.now => return,
            (Some(at), _) => at,
            (None, Some(_)) => return,
            (None, None) => Micros(0),
        };
        let (span, used) = (segment.span, segment.used.min(self.index.uses));
        self.hold(slot, run, span);
        self.predicted.push(Prediction {
            slot,
            run,
            span,
            used,
            at,
        });
    }

    fn hold(&mut self, slot: u32, id: RunId, span: Span) {
        let run = &mut self.index.forest.runs[id];
        let (len, tokens) = (run.len(), run.lengths.tokens(span));
        let is_first = !run.held.holds_any(slot);
        run.held.add(slot, span, len);
        let place = self.index.place_mut(slot);
        place.blocks += (span.1 - span.0) as usize;
        place.tokens += tokens;
        if is_first {
            place.runs.begin(id);
        }
    }

    /// Keeps the marks that still live, where their place still holds the block.
    fn mark(&mut self, id: RunId, coverage: &CoverageImage) {
        let terms = self.terms;
        for (&(old, offset), mark) in &coverage.marks {
            let left = mark.until.since(terms.taken).since(terms.downtime);
            let Some(&slot) = self.slots.get(&old).filter(|_| left > Micros(0)) else {
                continue;
            };
            let until = terms.now.plus(left);
            let run = &mut self.index.forest.runs[id];
            let is_held = run.held.reach(slot, offset, run.len()) > offset;
            let place = self.index.seats[slot as usize].place.as_mut();
            let place = place.expect("the slot is taken");
            let is_read = place.options.matching.rules().is_some();
            if !is_held || !is_read || place.marks.live >= MAX_MARKS {
                continue;
            }
            let mark = Mark {
                ttl: mark.ttl.min(place.marks.longest()),
                until,
                written: mark.written.min(self.index.uses),
                queued: until,
            };
            run.change_cold(|cold| cold.marks.insert((slot, offset), mark));
            place.marks.live += 1;
            place.marks.queue(Address { run: id, offset }, until);
        }
    }

    /// Keeps the words of the places that hold something of the run.
    fn name(&mut self, id: RunId) {
        let index = &mut self.index;
        let run = &mut index.forest.runs[id];
        let held = &run.held;
        run.names.columns.retain(|column| {
            let here = column.slots.iter();
            let here = here.filter_map(|old| self.slots.get(&old).copied());
            let here: Vec<u32> = here.filter(|&slot| held.holds_any(slot)).collect();
            column.slots.clear();
            here.into_iter().for_each(|slot| column.slots.insert(slot));
            !column.slots.is_empty() && !column.hashes.is_empty()
        });
        let ends = run.names.columns.iter();
        let ends: Vec<_> = ends
            .map(|c| (c.domain, c.hashes[c.hashes.len() - 1], c.end() - 1))
            .collect();
        for (domain, name, offset) in ends {
            let at = Address { run: id, offset };
            index.anchors.insert(&index.forest, domain, name, at);
        }
    }

    /// Enters the predictions of each place from the oldest on, the leaf of a path before its root.
    fn enter_predictions(&mut self) {
        let mut predicted = std::mem::take(&mut self.predicted);
        let depth = |p: &Prediction| self.index.forest.runs[p.run].base + p.span.0;
        predicted.sort_by_cached_key(|p| (p.used, Reverse(depth(p)), p.run));
        for p in predicted {
            let place = self.index.place_mut(p.slot);
            let by = Use {
                used: p.used,
                at: p.at,
                pending: 0,
            };
            let segment = place.predict(p.run, p.span, by);
            let slot = p.slot;
            let run = &mut self.index.forest.runs[p.run];
            run.claims.push(Claim { slot, segment });
        }
    }

    /// The path of `program`; absent when its place is not registered any more.
    ///
    /// # Errors
    /// `SNAPSHOT_INVALID` when it ends at a block that is not in the snapshot.
    pub(crate) fn path(&mut self, program: ProgramId, path: PathImage) -> Result<Option<Frontier>> {
        let PathImage { slot, run, offset } = path;
        let at = self.runs.get(&run).map(|&run| Address { run, offset });
        let is_there = |at: &Address| offset < self.index.forest.runs[at.run].len();
        let at = at.filter(is_there);
        let at = at.ok_or_else(|| invalid("a path ends nowhere"))?;
        let Some(&slot) = self.slots.get(&slot) else {
            return Ok(None);
        };
        for stretch in self.index.way(at) {
            self.index.pass(program, slot, stretch);
        }
        self.index.seats[slot as usize].paths += 1;
        Ok(Some(Frontier { slot, at }))
    }

    /// The index, without what nobody needs, and within its bounds as far as paths allow.
    pub(crate) fn finish(mut self) -> (PrefixIndex, Outcome) {
        let index = &mut self.index;
        for &id in self.order.iter().rev() {
            if index.forest.runs.get(id).is_some() {
                index.forest.settle(id);
            }
        }
        for slot in 0..index.seats.len() as u32 {
            if index.seats[slot as usize].place.is_some() {
                index.enforce_capacity(slot);
                index.arm(slot);
            }
        }
        index.fit();
        let outcome = Outcome {
            places_gone: self.places_gone,
            held: self.held,
        };
        (self.index, outcome)
    }
}

impl Forest {
    /// Takes in a run that was made elsewhere.
    fn adopt(&mut self, run: Run) -> Result<RunId> {
        let head = *run.chain.first().ok_or_else(|| invalid("a run is empty"))?;
        if self.heads.get(head).is_some() {
            return Err(invalid("two runs begin with one block"));
        }
        self.blocks += run.chain.len();
        let parent = run.parent;
        let id = self.runs.insert(run);
        self.heads.insert(head, id, usize::MAX, |_, _| true);
        if let Some(at) = parent {
            self.runs[at.run].fork(at.offset);
        }
        Ok(id)
    }
}

fn no_parent() -> crate::Error {
    invalid("a run hangs below a block that is not there")
}
