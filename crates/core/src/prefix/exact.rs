//! What does an engine's event change?
//!
//! Stores and removals in the engine's own words. A store says what each block contains and what the
//! engine calls it; the chain is computed here, and not at all where the names show that the blocks
//! are known. What is impossible is counted by kind and ends the event there; blocks before it count,
//! since they were possible. A block that was predicted becomes exact and is not counted twice. Exact
//! blocks do not age and no capacity drives them out: the engine will say when they go.
//!
//! A name is looked for where the place's last event ended, then among the anchors, then in the runs
//! that it may be in: O(1) as a rule. A run that is searched again gets a sieve, which answers most
//! questions without a scan, and once searches have cost as much, an anchor for each of its blocks, so
//! that names nobody knows cost no more than twice what there is.
use super::PrefixIndex;
use super::forest::Stretch;
use super::lengths::NewLengths;
use super::names::{Had, Voice};
use super::run::{Address, RunId};
use crate::PlaceId;
use crate::block::extend;

/// How far up an event's first block is looked for among what it is said to follow: as far as one or
/// two cache lines go beyond the parent's own. An engine that names an older ancestor calls two blocks
/// by one name from then on, and a removal takes either: none is known to do that.
const CYCLE_WINDOW: u32 = 16;

/// One block that an engine has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// What the engine calls it: opaque, and the name of this content below this parent for as long as
    /// any engine of the hash domain has it. An engine that gives a name to other content without
    /// having removed the first is credited with both.
    pub name: u64,
    /// The hash of its own content (see [`crate::block::TokenBlocks::local_hashes`]).
    pub local: u64,
}

/// Blocks that an engine has stored, one below the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlocks<'a> {
    /// What the engine calls the block above the first; absent at the root.
    pub parent: Option<u64>,
    /// Tokens in each.
    pub block_tokens: u32,
    /// The blocks.
    pub blocks: &'a [StoredBlock],
}

/// Where an event has got to.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    above: Option<Address>,
    /// Blocks of the event that have found their place.
    done: usize,
}

impl PrefixIndex {
    /// The engine stored these blocks. Returns how many of them the place has now that the event told
    /// of. O(blocks).
    pub fn store(&mut self, place: PlaceId, stored: &StoredBlocks<'_>) -> usize {
        let Some(slot) = self.slot_of(place) else {
            self.anomalies.unknown_place += 1;
            return 0;
        };
        let voice = self.place(slot).voice(slot);
        let size = self.place(slot).options.block_tokens;
        if size.is_some_and(|size| size != stored.block_tokens) {
            self.anomalies.wrong_block_size += 1;
            return 0;
        }
        let Ok(above) = self.parent_of(voice, stored) else {
            return 0;
        };
        if !self.is_possible(voice, above, stored) {
            return 0;
        }
        self.uses += 1;
        let mut path = std::mem::take(&mut self.scratch.path);
        path.clear();
        let done = self.seat(voice, above, stored, &mut path);
        for stretch in &path {
            let span = (stretch.from, stretch.to);
            let again = self.ledger(slot).hold_exact(stretch.run, span);
            self.anomalies.copies += again as u64;
        }
        self.anchor_last(voice, &path, &stored.blocks[..done]);
        self.forest.touch(&path, self.uses);
        self.scratch.path = path;
        self.enforce_bound(self.uses);
        done
    }

    /// The next event for this prompt begins below the last block of this one, or below the one before
    /// it, where a prompt ended within a block: of 5,986 turns of recorded sessions 93 and 4.5 %.
    fn anchor_last(&mut self, voice: Voice, path: &[Stretch], blocks: &[StoredBlock]) {
        let mut at = path.last().and_then(Stretch::last);
        self.place_mut(voice.slot).hints[0] = at;
        for block in blocks.iter().rev().take(2) {
            let Some(here) = at else { return };
            self.anchors
                .insert(&self.forest, voice.domain, block.name, here);
            at = self.forest.above(here);
        }
    }

    /// The block that the event's first one hangs below; `Err` when nobody knows it.
    fn parent_of(
        &mut self,
        voice: Voice,
        stored: &StoredBlocks<'_>,
    ) -> Result<Option<Address>, ()> {
        let Some(name) = stored.parent else {
            return Ok(None);
        };
        let found = self.locate(voice, name);
        if found.is_none() {
            self.anomalies.unknown_parent += 1;
        }
        found.map(Some).ok_or(())
    }

    /// Whether the event's first block can be what it says: no block is above itself.
    fn is_possible(
        &mut self,
        voice: Voice,
        above: Option<Address>,
        stored: &StoredBlocks<'_>,
    ) -> bool {
        let Some(first) = stored.blocks.first() else {
            return false;
        };
        if stored.parent == Some(first.name) {
            self.anomalies.self_parent += 1;
            return false;
        }
        let is_cycle = above.is_some_and(|at| self.is_above(voice, at, first.name));
        self.anomalies.cycle += u64::from(is_cycle);
        !is_cycle
    }

    /// How many of the event's blocks, from the first on, are there once.
    fn unrepeated(&mut self, stored: &StoredBlocks<'_>) -> usize {
        let repeated = self.scratch.repeats.first(stored);
        self.anomalies.repeated += u64::from(repeated.is_some());
        repeated.unwrap_or(stored.blocks.len())
    }

    /// Whether `name` is the block at `at`, or one a little above it.
    fn is_above(&self, voice: Voice, at: Address, name: u64) -> bool {
        let mut window = CYCLE_WINDOW;
        let mut next = Some(at);
        while let Some(Address { run, offset }) = next
            && window > 0
        {
            let run = &self.forest.runs[run];
            let end = offset + 1;
            let from = end.saturating_sub(window);
            if run.names.scan(voice.domain, (from, end), name).is_some() {
                return true;
            }
            window -= end - from;
            next = run.parent;
        }
        false
    }

    /// Finds the blocks of an event in the forest or lays them there, and names them. Returns how
    /// many found their place. What has these names already, in this order, was possible before.
    fn seat(
        &mut self,
        voice: Voice,
        above: Option<Address>,
        stored: &StoredBlocks<'_>,
        path: &mut Vec<Stretch>,
    ) -> usize {
        let mut blocks = stored.blocks;
        let mut cursor = Cursor { above, done: 0 };
        let mut hashes = std::mem::take(&mut self.scratch.hashes);
        hashes.clear();
        while cursor.done < blocks.len() {
            let mut found = self.join(voice, cursor.above, &blocks[cursor.done..]);
            if found.is_none() && hashes.is_empty() {
                blocks = &blocks[..self.unrepeated(stored).max(cursor.done)];
                let above = cursor.above.map(|at| self.hash_of(at));
                hashes.resize(cursor.done, 0);
                chain(above, &blocks[cursor.done..], &mut hashes);
            }
            if found.is_none() {
                found = self.place_by_content(voice, cursor, stored.block_tokens, blocks, &hashes);
            }
            let Some(stretch) = found else {
                break;
            };
            cursor.done += (stretch.to - stretch.from) as usize;
            cursor.above = stretch.last();
            match path.last_mut() {
                Some(last) if (last.run, last.to) == (stretch.run, stretch.from) => {
                    last.to = stretch.to;
                }
                _ => path.push(stretch),
            }
        }
        self.scratch.hashes = hashes;
        cursor.done
    }

    fn hash_of(&self, at: Address) -> u64 {
        self.forest.runs[at.run].chain[at.offset as usize]
    }

    /// The blocks are the next ones of the run at hand, by their names.
    fn join(
        &mut self,
        voice: Voice,
        above: Option<Address>,
        blocks: &[StoredBlock],
    ) -> Option<Stretch> {
        let Address { run, offset } = above?;
        let from = offset + 1;
        let names = &mut self.forest.runs[run].names;
        let joined = names.join(voice, from, blocks) as u32;
        let to = from + joined;
        (joined > 0).then_some(Stretch { run, from, to })
    }

    /// Finds the next blocks by their chain hashes, or lays all that are left.
    fn place_by_content(
        &mut self,
        voice: Voice,
        cursor: Cursor,
        block_tokens: u32,
        blocks: &[StoredBlock],
        hashes: &[u64],
    ) -> Option<Stretch> {
        let (blocks, rest) = (&blocks[cursor.done..], &hashes[cursor.done..]);
        rest.first()?;
        let stretch = match self.known(cursor.above, rest) {
            Some(known) => known,
            None => {
                let lengths = NewLengths::Uniform(block_tokens);
                let laid = self.forest.lay(voice.slot, cursor.above, rest, lengths);
                if laid.is_none() {
                    self.anomalies.other_parent += 1;
                }
                laid?
            }
        };
        let blocks = &blocks[..(stretch.to - stretch.from) as usize];
        self.forest.note_blocks(stretch.run, stretch.from);
        let span = (stretch.from, stretch.to);
        let had = match self.ledger(voice.slot).has_exact(stretch.run, span) {
            0 => Had::Nothing,
            _ => Had::Some,
        };
        let run = &mut self.forest.runs[stretch.run];
        run.anchored = run.anchored.min(stretch.from);
        if !run.names.give(voice, stretch.from, blocks, had) {
            self.anomalies.unnamed += 1;
            self.forest.settle(stretch.run);
            return None;
        }
        Some(stretch)
    }

    /// The stretch below `above` that these hashes begin with.
    fn known(&self, above: Option<Address>, hashes: &[u64]) -> Option<Stretch> {
        if let Some(Address { run, offset }) = above {
            let from = offset + 1;
            let more = self.forest.runs[run].matching(from, hashes);
            if more > 0 {
                let to = from + more;
                return Some(Stretch { run, from, to });
            }
        }
        let run = self.forest.child(above, *hashes.first()?)?;
        let to = self.forest.runs[run].matching(0, hashes);
        Some(Stretch { run, from: 0, to })
    }

    /// The engine has these blocks at this place too, whose content was told before of whatever place
    /// of its domain; those that were not are counted. Returns how many it has now. O(blocks).
    pub fn store_known(&mut self, place: PlaceId, names: &[u64]) -> usize {
        let Some(slot) = self.slot_of(place) else {
            self.anomalies.unknown_place += 1;
            return 0;
        };
        let voice = self.place(slot).voice(slot);
        let mut stored = 0;
        for &name in names {
            let Some(at) = self.locate(voice, name) else {
                self.anomalies.unknown_name += 1;
                continue;
            };
            let named = [StoredBlock { name, local: 0 }];
            self.forest.note_blocks(at.run, at.offset);
            self.forest.runs[at.run]
                .names
                .join(voice, at.offset, &named);
            let again = self
                .ledger(slot)
                .hold_exact(at.run, (at.offset, at.offset + 1));
            self.anomalies.copies += again as u64;
            self.place_mut(slot).hints[0] = Some(at);
            stored += 1;
        }
        stored
    }

    /// The engine no longer has these blocks, or has a copy less of each. A removal in the middle
    /// leaves a hole: credit stops there, and what is behind it counts again once the hole is filled.
    /// Returns how many of them the place had. O(blocks).
    pub fn remove(&mut self, place: PlaceId, names: &[u64]) -> usize {
        let Some(slot) = self.slot_of(place) else {
            self.anomalies.unknown_place += 1;
            return 0;
        };
        let voice = self.place(slot).voice(slot);
        let mut removed = 0;
        let mut pending: Option<Stretch> = None;
        for &name in names {
            if let Some(more) = pending.and_then(|p| self.adjoining(voice, p, name)) {
                pending = Some(more);
                continue;
            }
            removed += pending.take().map_or(0, |p| self.drop_stretch(slot, p));
            pending = self.locate(voice, name).map(|at| Stretch {
                run: at.run,
                from: at.offset,
                to: at.offset + 1,
            });
        }
        removed += pending.map_or(0, |p| self.drop_stretch(slot, p));
        self.anomalies.not_held += (names.len() - removed) as u64;
        self.rest();
        removed
    }

    /// The stretch with one block more, where `name` is its neighbour. Engines drop the end of a
    /// prefix first, so the one above is likelier.
    fn adjoining(&self, voice: Voice, stretch: Stretch, name: u64) -> Option<Stretch> {
        let names = &self.forest.runs[stretch.run].names;
        let from = stretch.from.checked_sub(1);
        if let Some(from) = from.filter(|&from| names.is(voice.domain, from, name)) {
            return Some(Stretch { from, ..stretch });
        }
        let behind = names.is(voice.domain, stretch.to, name);
        behind.then_some(Stretch {
            to: stretch.to + 1,
            ..stretch
        })
    }

    fn drop_stretch(&mut self, slot: u32, stretch: Stretch) -> usize {
        let Stretch { run, from, to } = stretch;
        let above = self.forest.above(Address { run, offset: from });
        let dropped = self.ledger(slot).drop_copy(run, (from, to));
        self.forest.settle(run);
        self.place_mut(slot).hints[1] = above;
        dropped
    }

    /// The block that the engine calls so.
    fn locate(&mut self, voice: Voice, name: u64) -> Option<Address> {
        let hints = self.place(voice.slot).hints;
        let mut hinted = hints.into_iter().flatten();
        if let Some(at) = hinted.find(|at| self.forest.is_named(*at, voice.domain, name)) {
            return Some(at);
        }
        if let Some(at) = self.anchors.find(&self.forest, voice.domain, name) {
            return Some(at);
        }
        let others = self.places().filter(|(slot, place)| {
            *slot != voice.slot && place.options.domain == voice.domain && place.blocks > 0
        });
        let others: Vec<u32> = others.map(|(slot, _)| slot).collect();
        let slots = std::iter::once(voice.slot).chain(others);
        let mut voices = slots.map(|slot| Voice { slot, ..voice });
        voices.find_map(|voice| self.search(voice, name))
    }

    /// Looks through the runs of a place whose blocks have no anchors.
    fn search(&mut self, voice: Voice, name: u64) -> Option<Address> {
        let runs = &self.place(voice.slot).runs;
        let (first, end) = (runs.unsettled(), runs.all().len());
        let mut is_settled = true;
        for index in first..end {
            let id = self.place(voice.slot).runs.all()[index];
            let Some(run) = self.forest.runs.get_mut(id) else {
                continue;
            };
            if run.anchored == run.len() {
                continue;
            }
            let found = run.search(voice.domain, name);
            if run.is_worn() {
                self.anchors.promote(&mut self.forest, id);
            } else {
                is_settled = false;
            }
            if let Some(offset) = found {
                return Some(Address { run: id, offset });
            }
        }
        if is_settled {
            self.place_mut(voice.slot).runs.settle();
        }
        None
    }

    /// The place is empty now: an engine restarted, lost its cache, or events were missed.
    /// O(runs of the place), and of the whole when that leaves it mostly empty: memory is given back.
    pub fn clear(&mut self, place: PlaceId) {
        let Some(slot) = self.slot_of(place) else {
            return;
        };
        self.peak = self.peak.max(self.forest.blocks());
        let mut runs: Vec<RunId> = self.place_mut(slot).reset();
        runs.sort_unstable();
        runs.dedup();
        for id in runs {
            let Some(run) = self.forest.runs.get_mut(id) else {
                continue;
            };
            run.forget(slot);
            self.forest.note_blocks(id, 0);
            self.forest.settle(id);
        }
        self.rest();
        self.shrink();
    }
}

/// Appends the chain hashes of blocks below one whose hash is `above`.
fn chain(above: Option<u64>, blocks: &[StoredBlock], out: &mut Vec<u64>) {
    let mut above = above;
    out.extend(blocks.iter().map(|block| {
        let hash = match above {
            None => block.local,
            Some(parent) => extend(parent, block.local),
        };
        above = Some(hash);
        hash
    }));
}
