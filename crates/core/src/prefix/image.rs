//! What does a snapshot say of the index?
//!
//! Reads what `snapshot` writes into plain lists, in the numbers of the index that wrote them; the last
//! record of a run counts, as far as it goes. Checks what can be checked of a run by itself: nothing
//! here can make `rebuild` count a block that is not there, or count one twice. O(bytes).
use std::collections::BTreeMap;

use super::held::Span;
use super::lengths::{Lengths, NewLengths};
use super::names::{Column, MAX_COLUMNS};
use super::run::MAX_HEADS;
use super::set::SlotSet;
use super::snapshot::Record;
use super::{MAX_PLACES, Tier};
use crate::snapshot::{Reader, invalid};
use crate::{Micros, Result};

/// The index as a snapshot has it.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(super) runs: BTreeMap<u32, RunImage>,
    pub(super) places: Vec<PlaceImage>,
    pub(super) uses: u64,
    pub(super) evicted: u64,
}

#[derive(Debug)]
pub(super) struct PlaceImage {
    pub(super) slot: u32,
    pub(super) worker: u32,
    pub(super) rank: u32,
    pub(super) tier: Tier,
    /// The longest lifetime of its marks.
    pub(super) longest: Micros,
}

/// Where a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathImage {
    pub(crate) slot: u32,
    pub(crate) run: u32,
    pub(crate) offset: u32,
}

#[derive(Debug)]
pub(super) struct RunImage {
    pub(super) parent: Option<(u32, u32)>,
    pub(super) chain: Vec<u64>,
    pub(super) lengths: Lengths,
    pub(super) columns: Vec<Column>,
    /// Absent while more blocks are to come.
    pub(super) coverage: Option<CoverageImage>,
}

/// Who holds what of a run.
#[derive(Debug)]
pub(super) struct CoverageImage {
    /// The last use of the end, and later ones that stopped before it.
    pub(super) end: u64,
    pub(super) heads: Vec<(u32, u64)>,
    /// By slot, ascending.
    pub(super) held: Vec<(u32, Span)>,
    /// By slot, ascending; each within a stretch that is held.
    pub(super) segments: Vec<SegmentImage>,
    pub(super) copies: BTreeMap<(u32, u32), u32>,
    pub(super) marks: BTreeMap<(u32, u32), MarkImage>,
}

/// A position where a request wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkImage {
    pub(super) ttl: Micros,
    pub(super) until: Micros,
    pub(super) written: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentImage {
    pub(super) slot: u32,
    pub(super) span: Span,
    pub(super) used: u64,
    pub(super) at: Micros,
}

impl Image {
    /// Reads records of runs.
    pub(crate) fn read_runs(&mut self, mut reader: Reader<'_>) -> Result<()> {
        while !reader.is_empty() {
            let number = reader.u32()?;
            let record = reader.u8()?;
            if record == Record::Gone as u8 {
                self.runs.remove(&number);
                continue;
            }
            let before = self.runs.remove(&number);
            let mut run = RunImage::read_blocks(before, &mut reader)?;
            if record == Record::Whole as u8 {
                run.coverage = Some(CoverageImage::read(run.len(), &mut reader)?);
            } else if record != Record::Part as u8 {
                return Err(invalid("a run is of no known kind"));
            }
            self.runs.insert(number, run);
        }
        Ok(())
    }

    /// Reads the places and the counts.
    pub(crate) fn read_places(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.places = reader.list(21, |reader| {
            Ok(PlaceImage {
                slot: reader.u32()?,
                worker: reader.u32()?,
                rank: reader.u32()?,
                tier: tier_of(reader.u8()?)?,
                longest: Micros(reader.u64()?),
            })
        })?;
        self.uses = reader.u64()?;
        self.evicted = reader.u64()?;
        match self.uses <= u64::MAX / 2 && self.evicted <= u64::MAX / 2 {
            true => Ok(()),
            false => Err(invalid("a count is too large")),
        }
    }
}

impl RunImage {
    pub(super) fn len(&self) -> u32 {
        self.chain.len() as u32
    }

    /// What was read of the run before, up to where the record begins, and the blocks of the record.
    fn read_blocks(before: Option<Self>, reader: &mut Reader<'_>) -> Result<Self> {
        let parent = reader.option(|reader| Ok((reader.u32()?, reader.u32()?)))?;
        let from = reader.u32()?;
        let mut run = before.unwrap_or_else(Self::empty);
        if from > run.len() {
            return Err(invalid("a run lacks blocks"));
        }
        (run.parent, run.coverage) = (parent, None);
        run.chain.truncate(from as usize);
        run.lengths.truncate(from as usize);
        let new = reader.u64s()?;
        let fits = u32::try_from(from as usize + new.len()).is_ok();
        if !fits {
            return Err(invalid("a run is too long"));
        }
        run.read_lengths(new.len(), reader)?;
        match run.chain.is_empty() {
            true => run.chain = new,
            false => run.chain.extend(new),
        }
        run.read_names(reader)?;
        Ok(run)
    }

    fn empty() -> Self {
        Self {
            parent: None,
            chain: Vec::new(),
            lengths: Lengths::new(),
            columns: Vec::new(),
            coverage: None,
        }
    }

    fn read_lengths(&mut self, more: usize, reader: &mut Reader<'_>) -> Result<()> {
        let len = self.chain.len();
        if reader.flag()? {
            let each = reader.u32()?;
            if more > 0 {
                self.lengths.push(len, more, NewLengths::Uniform(each));
            }
            return Ok(());
        }
        let mut ends = Vec::with_capacity(more);
        let mut end = 0_u32;
        for _ in 0..more {
            end = end.saturating_add(reader.u32()?);
            ends.push(end);
        }
        if more > 0 {
            self.lengths.push(len, more, NewLengths::of(0, &ends));
        }
        Ok(())
    }

    /// Columns that go on from what was read before are the ones that begin there, in order.
    fn read_names(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let mut known = std::mem::take(&mut self.columns);
        let len = self.len();
        self.columns = reader.list(20, |reader| {
            let (domain, start) = (reader.u32()?, reader.u32()?);
            let slots = read_slots(reader)?;
            let before = reader.u32()? as usize;
            let new = reader.u64s()?;
            let is_same = |c: &Column| (c.domain, c.start) == (domain, start);
            let found = known.iter().position(is_same).filter(|_| before > 0);
            let mut hashes = found.map_or_else(Vec::new, |i| known.remove(i).hashes);
            if hashes.len() < before {
                return Err(invalid("names are missing"));
            }
            hashes.truncate(before);
            hashes.extend(new);
            if start as usize + hashes.len() > len as usize && !hashes.is_empty() {
                return Err(invalid("there are more names than blocks"));
            }
            Ok(Column {
                domain,
                start,
                hashes,
                slots,
            })
        })?;
        match self.columns.len() <= MAX_COLUMNS {
            true => Ok(()),
            false => Err(invalid("a block has too many names")),
        }
    }
}

impl CoverageImage {
    fn read(len: u32, reader: &mut Reader<'_>) -> Result<Self> {
        let end = reader.u64()?;
        let heads = reader.list(12, |reader| Ok((reader.u32()?, reader.u64()?)))?;
        let full = read_slots(reader)?;
        let span = |reader: &mut Reader<'_>| Ok((reader.u32()?, reader.u32()?));
        let mut held = reader.list(12, |reader| Ok((reader.u32()?, span(reader)?)))?;
        held.extend(full.iter().map(|slot| (slot, (0, len))));
        let mut segments = reader.list(28, |reader| {
            Ok(SegmentImage {
                slot: reader.u32()?,
                span: span(reader)?,
                used: reader.u64()?,
                at: Micros(reader.u64()?),
            })
        })?;
        let copies = reader.list(12, |reader| {
            Ok(((reader.u32()?, reader.u32()?), reader.u32()?))
        })?;
        let marks = reader.list(32, |reader| {
            let at = (reader.u32()?, reader.u32()?);
            let mark = MarkImage {
                ttl: Micros(reader.u64()?),
                until: Micros(reader.u64()?),
                written: reader.u64()?,
            };
            Ok((at, mark))
        })?;
        held.sort_unstable();
        segments.sort_unstable_by_key(|s| (s.slot, s.span));
        let coverage = Self {
            end,
            heads,
            held,
            segments,
            copies: copies.into_iter().collect(),
            marks: marks.into_iter().collect(),
        };
        match coverage.is_possible(len) {
            true => Ok(coverage),
            false => Err(invalid("what a place holds of a run cannot be")),
        }
    }

    fn is_possible(&self, len: u32) -> bool {
        let deepest_first = self.heads.windows(2).all(|w| w[0].0 > w[1].0);
        let before_end = self.heads.iter().all(|&(to, _)| 0 < to && to < len);
        let few = self.heads.len() <= MAX_HEADS;
        let predicted = self.segments.iter().map(|s| (s.slot, s.span));
        let predicted: Vec<_> = predicted.collect();
        let is_held = |&(slot, (from, to)): &(u32, Span)| {
            let next = self
                .held
                .partition_point(|&(s, (f, _))| (s, f) <= (slot, from));
            let stretch = next.checked_sub(1).map(|i| self.held[i]);
            stretch.is_some_and(|(s, (_, end))| s == slot && to <= end)
        };
        deepest_first
            && before_end
            && few
            && are_apart(&self.held, len)
            && are_apart(&predicted, len)
            && predicted.iter().all(is_held)
    }
}

/// Whether the stretches are of at least one block each, within the run, and overlap nowhere.
fn are_apart(stretches: &[(u32, Span)], len: u32) -> bool {
    let within =
        |&(slot, (from, to)): &(u32, Span)| (slot as usize) < MAX_PLACES && from < to && to <= len;
    let apart = |w: &[(u32, Span)]| w[0].0 < w[1].0 || w[0].1.1 <= w[1].1.0;
    stretches.iter().all(within) && stretches.windows(2).all(apart)
}

fn read_slots(reader: &mut Reader<'_>) -> Result<SlotSet> {
    let first = reader.u32()? as usize;
    let words = reader.u64s()?;
    if first.saturating_add(words.len()) > MAX_PLACES / u64::BITS as usize {
        return Err(invalid("a place has too large a number"));
    }
    Ok(SlotSet::of_words(first, &words))
}

fn tier_of(tag: u8) -> Result<Tier> {
    match tag {
        0 => Ok(Tier::Device),
        1 => Ok(Tier::Host),
        2 => Ok(Tier::Disk),
        3 => Ok(Tier::External),
        _ => Err(invalid("a place is of no known tier")),
    }
}
