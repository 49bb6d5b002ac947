//! What does one place hold, and what would it lose first?
//!
//! A place knows which runs it holds something of, so that losing everything costs no more than what
//! it has. Its predictions are segments, stretches of a run that one decision used last, in a ring by
//! age. A decision uses a whole path and enters it leaf first: an ancestor is always younger than what
//! hangs below it, and taking from the old end keeps coverage contiguous. Exact blocks are the
//! engine's business and never leave by age. O(1) for every operation on the ring; knows nothing of
//! the forest but numbers.
use super::arena::Arena;
use super::held::Span;
use super::marks::Marks;
use super::matching::Matching;
use super::names::Voice;
use super::run::{Address, RunId};
use crate::{Micros, WorkerId};

/// How near the engine a cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The accelerator's own memory.
    #[default]
    Device,
    /// Memory of the machine.
    Host,
    /// Storage of the machine.
    Disk,
    /// Another machine.
    External,
}

/// How much a place may hold, for how long a prediction stands, and whose words its engine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceOptions {
    /// Predicted blocks go, oldest first, while the place has more tokens than this. Absent: no bound.
    pub capacity_tokens: Option<u64>,
    /// A predicted block unused for so long is gone. Absent: predictions do not age.
    pub ttl: Option<Micros>,
    /// The hash domain of the engine's names: engines of one domain mean the same content by the same
    /// name. Engines that hash alike may share one even when they were seeded differently; engines
    /// that number their blocks must not.
    pub domain: u32,
    /// Events with blocks of another size are refused. Absent: any size.
    pub block_tokens: Option<u32>,
    /// Whether its engine tells what it has. What it has told to be gone is then not there again because a
    /// prompt is known to have been computed: it tells of that too.
    pub is_told: bool,
    /// How the cache finds what it has of a prompt.
    pub matching: Matching,
    /// What a prefix that turns out to be missing tells of others.
    pub dropping: Dropping,
}

/// In which order a cache gives up what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dropping {
    /// The least recently used first, as engines do: what was used no later than a prefix that is
    /// missing is missing too.
    #[default]
    Oldest,
    /// Nobody knows, as where many machines stand behind one address: of others a miss says nothing.
    Unknown,
}

/// How good the evidence is that a block is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The engine said so.
    Exact,
    /// The router sent a prompt there that leaves it behind.
    Predicted,
}

/// Blocks of a run that a place is predicted to hold and that one decision used last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) run: RunId,
    pub(super) from: u32,
    pub(super) to: u32,
    /// The number of that decision, and its time.
    pub(super) used: u64,
    pub(super) at: Micros,
    /// The number of the last decision that has entered them, as long as none that did is known to
    /// have had them computed; 0 then.
    pub(super) pending: u64,
    older: Option<u32>,
    younger: Option<u32>,
}

/// A decision as a segment remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) used: u64,
    pub(super) at: Micros,
    pub(super) pending: u64,
}

/// One place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) worker: WorkerId,
    pub(super) rank: u32,
    pub(super) tier: Tier,
    pub(super) options: PlaceOptions,
    pub(super) blocks: usize,
    pub(super) tokens: u64,
    /// When a look at what ages there is due.
    pub(super) armed: Option<Micros>,
    /// Where its next event is likely to begin: below the last stored block, or with the block
    /// above the last removed one.
    pub(super) hints: [Option<Address>; 2],
    segments: Arena<Segment>,
    oldest: Option<u32>,
    youngest: Option<u32>,
    pub(super) runs: RunList,
    pub(super) marks: Marks,
    /// Whether something that its engine told of has been forgotten for want of room since it was empty.
    pub(super) is_short: bool,
}

impl Place {
    pub(super) fn new(worker: WorkerId, rank: u32, tier: Tier, options: PlaceOptions) -> Self {
        Self {
            worker,
            rank,
            tier,
            options,
            blocks: 0,
            tokens: 0,
            armed: None,
            hints: [None; 2],
            segments: Arena::default(),
            oldest: None,
            youngest: None,
            runs: RunList::default(),
            marks: Marks::default(),
            is_short: false,
        }
    }

    /// In whose words its engine speaks, where it sits at `slot`.
    pub(super) fn voice(&self, slot: u32) -> Voice {
        Voice {
            slot,
            domain: self.options.domain,
        }
    }

    pub(super) fn segment(&self, number: u32) -> &Segment {
        &self.segments[number]
    }

    /// A new prediction, the youngest.
    pub(super) fn predict(&mut self, run: RunId, (from, to): Span, use_: Use) -> u32 {
        let Use { used, at, pending } = use_;
        let number = self.segments.insert(Segment {
            run,
            from,
            to,
            used,
            at,
            pending,
            older: self.youngest,
            younger: None,
        });
        match self.youngest.replace(number) {
            None => self.oldest = Some(number),
            Some(older) => self.segments[older].younger = Some(number),
        }
        number
    }

    /// The blocks of a prediction are known to have been computed.
    pub(super) fn confirm(&mut self, number: u32) {
        self.segments[number].pending = 0;
    }

    /// A part of a prediction that is as old as `like` and stands beside it.
    pub(super) fn split_off(&mut self, like: u32, (from, to): Span) -> u32 {
        let segment = self.segments[like];
        let number = self.segments.insert(Segment {
            from,
            to,
            older: segment.older,
            younger: Some(like),
            ..segment
        });
        self.segments[like].older = Some(number);
        match segment.older {
            None => self.oldest = Some(number),
            Some(older) => self.segments[older].younger = Some(number),
        }
        number
    }

    /// Changes which blocks a prediction covers; it must stay one of at least one block.
    pub(super) fn resize(&mut self, number: u32, (from, to): Span) {
        let segment = &mut self.segments[number];
        (segment.from, segment.to) = (from, to);
    }

    pub(super) fn drop_segment(&mut self, number: u32) {
        let Some(segment) = self.segments.remove(number) else {
            return;
        };
        match segment.older {
            None => self.oldest = segment.younger,
            Some(older) => self.segments[older].younger = segment.younger,
        }
        match segment.younger {
            None => self.youngest = segment.older,
            Some(younger) => self.segments[younger].older = segment.older,
        }
    }

    /// All of its predictions, in no order.
    pub(super) fn predictions(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().map(|(_, segment)| segment)
    }

    /// The prediction that was used least recently.
    pub(super) fn oldest(&self) -> Option<(u32, Segment)> {
        let number = self.oldest?;
        Some((number, self.segments[number]))
    }

    /// How long a prediction stands: as the options say, and no shorter than a mark that needs it.
    pub(super) fn lifetime(&self) -> Option<Micros> {
        let ttl = self.options.ttl?;
        Some(ttl.max(self.marks.longest()))
    }

    /// A time before which nothing here is too old; absent when nothing ages.
    pub(super) fn next_expiry(&self) -> Option<Micros> {
        let oldest = self.oldest().zip(self.lifetime());
        let oldest = oldest.map(|((_, segment), ttl)| segment.at.plus(ttl));
        oldest.into_iter().chain(self.marks.next()).min()
    }

    /// Everything is gone. Returns the runs that it was in; some may repeat or be out of date.
    pub(super) fn reset(&mut self) -> Vec<RunId> {
        let empty = Self {
            armed: self.armed,
            ..Self::new(self.worker, self.rank, self.tier, self.options)
        };
        std::mem::replace(self, empty).runs.entries
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments.bytes() + self.runs.bytes() + self.marks.bytes()
    }
}

/// The runs that a place holds something of. Entries may repeat or be out of date; there are never
/// many more of them than there are runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RunList {
    entries: Vec<RunId>,
    /// Runs that it should list.
    live: usize,
    /// The names of the first so many entries all have anchors.
    settled: usize,
}

impl RunList {
    /// The place holds something of a run of which it held nothing.
    pub(super) fn begin(&mut self, run: RunId) {
        self.live += 1;
        self.push(run);
    }

    fn push(&mut self, run: RunId) {
        if self.entries.len() == self.entries.capacity() {
            // Many places list the same runs, so room to spare counts many times.
            self.entries.reserve_exact(4 + self.entries.len() / 4);
        }
        self.entries.push(run);
    }

    /// The place holds something of `run` that a search for names must find.
    pub(super) fn expose(&mut self, run: RunId) {
        let unsettled = &self.entries[self.settled..];
        if self.settled > 0 && unsettled.last() != Some(&run) {
            self.push(run);
        }
    }

    /// The place holds nothing of a run any more.
    pub(super) fn end(&mut self) {
        self.live -= 1;
    }

    pub(super) fn is_stale(&self) -> bool {
        self.entries.len() > 2 * self.live + 64
    }

    /// Leaves each run once that `is_held`.
    pub(super) fn sweep(&mut self, is_held: impl Fn(RunId) -> bool) {
        self.entries.sort_unstable();
        self.entries.dedup();
        self.entries.retain(|&run| is_held(run));
        self.entries.shrink_to(2 * self.entries.len());
        self.settled = 0;
    }

    pub(super) fn all(&self) -> &[RunId] {
        &self.entries
    }

    /// Those that a search for a name has to look at, and where they begin.
    pub(super) fn unsettled(&self) -> usize {
        self.settled
    }

    pub(super) fn unsettle(&mut self) {
        self.settled = 0;
    }

    pub(super) fn settle(&mut self) {
        self.settled = self.entries.len();
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<RunId>()
    }
}
