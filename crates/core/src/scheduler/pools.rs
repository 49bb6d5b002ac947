//! What does a store that a group's engines share add to their own caches?
//!
//! A page that is whole is a block of one more place on the tree, by the name that the group's engines give
//! it in their events; a page of a name that no event has told of yet waits until one does. A decision
//! counts the pages without a gap behind what the worker has itself. Whatever may make the store promise too
//! much, a gap or a new connection, empties it here: it does not tell again what it has.
use hashbrown::HashSet;

use crate::error::{Error, Result};
use crate::event::{Doubt, FeedNotice};
use crate::id::{GroupId, Micros, PlaceId, WorkerId};
use crate::pool::{Layout, PageChange, Part, Pool};
use crate::prefix::{PlaceOptions, PrefixIndex, StoredBlocks, Tier};
use crate::receipt::{Evidence, Trust};

use super::Scheduler;
use super::reservation::Believed;
use super::standing::Standing;

/// No worker has this number: places of pools are nobody's.
const NOBODY: WorkerId = WorkerId(u32::MAX);

/// What is known beforehand of a shared store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// How its pages are cut into objects.
    pub layout: Layout,
    /// Pages that are remembered; further ones earn nothing.
    pub pages: usize,
}

/// A shared store's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Pages of which there is something.
    pub pages: usize,
    /// Of these, whole ones.
    pub whole: usize,
    /// Of these, ones whose content no engine has told of.
    pub unplaced: usize,
    /// What its events are worth: nothing counts without trust.
    pub evidence: Evidence,
    /// Objects of pages beyond the limit.
    pub refused: u64,
    /// Objects that pages of this layout do not have.
    pub foreign: u64,
    /// Times that it was emptied here.
    pub cleared: u64,
    /// Tokens that decisions counted on it for, of turns whose engine has said what it read.
    pub promised_tokens: u64,
    /// Of these, tokens that the engines have read.
    pub read_tokens: u64,
    /// Memory of the pages, without what the index has of them.
    pub bytes: usize,
}

/// A store, and where it is on the tree.
#[derive(Debug)]
pub(super) struct SharedPool {
    pool: Pool,
    place: PlaceId,
    /// Whole pages whose content nobody has told of yet.
    unplaced: HashSet<u64>,
    standing: Standing,
    cleared: u64,
    promised_tokens: u64,
    read_tokens: u64,
}

impl SharedPool {
    /// Where its pages are, while they count.
    pub(super) fn place(&self) -> Option<PlaceId> {
        (!self.standing.is_suspended()).then_some(self.place)
    }

    /// How good what it has told is: of one that has told nothing, or nothing of ours, nothing is known.
    pub(super) fn evidence(&self) -> Evidence {
        let known = self.standing.evidence();
        let trust = match (known.trust, known.doubt) {
            (Trust::Predicted, _) | (_, Some(Doubt::NoEvents | Doubt::Ambiguous)) => Trust::None,
            (trust, _) => trust,
        };
        Evidence { trust, ..known }
    }

    fn clear(&mut self) {
        self.pool.clear();
        self.unplaced = HashSet::new();
        self.cleared += 1;
    }

    /// Holds the cached tokens that an engine says it read against what a decision counted on the store
    /// for: what it read beyond its own caches came from there.
    pub(super) fn compare(&mut self, believed: Believed, cached: u32) {
        let beyond = cached.saturating_sub(believed.tokens - believed.pool);
        self.promised_tokens += u64::from(believed.pool);
        self.read_tokens += u64::from(beyond.min(believed.pool));
    }

    /// An engine of the group has told what these blocks contain.
    pub(super) fn place_pages(&mut self, prefix: &mut PrefixIndex, stored: &StoredBlocks<'_>) {
        if self.unplaced.is_empty() {
            return;
        }
        for block in stored.blocks {
            if self.unplaced.contains(&block.name)
                && prefix.store_known(self.place, &[block.name]) == 1
            {
                self.unplaced.remove(&block.name);
            }
        }
    }
}

impl Scheduler {
    /// The group's engines share a store, one a group. Nothing is known of it before its first event.
    ///
    /// # Errors
    /// `UNKNOWN_ID`; `DUPLICATE_ID` when it has one; `INVALID_ARGUMENT` for a layout of too many objects.
    /// Nothing has changed then.
    pub fn add_pool(&mut self, now: Micros, group: GroupId, options: PoolOptions) -> Result<()> {
        self.set_time(now);
        let known = self.topology.groups.get(group.index());
        let known = known.ok_or_else(|| Error::unknown_id("there is no such group"))?;
        if known.pool.is_some() {
            return Err(Error::duplicate_id("the group has a pool already"));
        }
        let pool = Pool::new(options.layout, options.pages)?;
        let terms = PlaceOptions {
            block_tokens: Some(known.block_tokens.get()),
            ..PlaceOptions::default()
        };
        let place = (self.prefix).add_place(NOBODY, group.0, Tier::External, terms)?;
        self.topology.groups[group.index()].pool = Some(Box::new(SharedPool {
            pool,
            place,
            unplaced: HashSet::new(),
            standing: Standing::new(self.now),
            cleared: 0,
            promised_tokens: 0,
            read_tokens: 0,
        }));
        Ok(())
    }

    /// The group's engines share no store any more, or another one: what was known of it is void at once.
    /// Returns whether there was one. O(runs that it had).
    pub fn remove_pool(&mut self, now: Micros, group: GroupId) -> bool {
        self.set_time(now);
        let known = self.topology.groups.get_mut(group.index());
        let Some(shared) = known.and_then(|group| group.pool.take()) else {
            return false;
        };
        self.prefix.remove_place(shared.place);
        true
    }

    /// An object of the group's store has come, or has gone. Returns what became of its page. Of a group
    /// without a store it changes nothing. O(1) as a rule.
    pub fn apply_object(
        &mut self,
        now: Micros,
        group: GroupId,
        (page, part): (u64, &Part),
        is_there: bool,
    ) -> PageChange {
        self.set_time(now);
        let known = self.topology.groups.get_mut(group.index());
        let Some(shared) = known.and_then(|group| group.pool.as_mut()) else {
            self.stray_events += 1;
            return PageChange::None;
        };
        let change = match is_there {
            true => shared.pool.put(page, part),
            false => shared.pool.take(page, part),
        };
        match change {
            PageChange::None => {}
            PageChange::Whole if self.prefix.store_known(shared.place, &[page]) == 1 => {}
            PageChange::Whole => {
                shared.unplaced.insert(page);
            }
            PageChange::Broken => {
                if !shared.unplaced.remove(&page) {
                    self.prefix.remove(shared.place, &[page]);
                }
            }
        }
        change
    }

    /// Whoever carries the store's events says what may be missing from them.
    pub fn pool_notice(&mut self, now: Micros, group: GroupId, notice: FeedNotice) {
        self.set_time(now);
        let known = self.topology.groups.get_mut(group.index());
        let Some(shared) = known.and_then(|group| group.pool.as_mut()) else {
            return;
        };
        if shared.standing.notice(self.now, notice) {
            shared.clear();
            self.prefix.clear(shared.place);
        }
    }

    /// Figures of the group's store; absent without one.
    #[must_use]
    pub fn pool_status(&self, group: GroupId) -> Option<PoolStatus> {
        let shared = self.topology.groups.get(group.index())?.pool.as_ref()?;
        Some(PoolStatus {
            pages: shared.pool.pages(),
            whole: shared.pool.whole(),
            unplaced: shared.unplaced.len(),
            evidence: shared.evidence(),
            refused: shared.pool.refused(),
            foreign: shared.pool.foreign(),
            cleared: shared.cleared,
            promised_tokens: shared.promised_tokens,
            read_tokens: shared.read_tokens,
            bytes: shared.pool.bytes(),
        })
    }
}
