//! How are owners written down, a slice at a time, and read again?
//!
//! In the order in which their ids were learnt, which is the order in which they will be forgotten. An
//! id that changes its owner keeps its place, so it is noted and written again; one that is learnt
//! anew stands at the end and is still to come. Ids are hashes and stay so. O(what a slice writes).
use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::{Owner, Owners};
use crate::Result;
use crate::id::{TargetId, WorkerId};
use crate::snapshot::{Budget, Encode, Progress, Reader};

/// Bytes of one id with its owner.
const ENTRY_BYTES: usize = 25;

/// How far a snapshot has got, and the ids that have changed their owner meanwhile.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    next: usize,
    changed: BTreeSet<u128>,
}

impl Cursor {
    pub(super) fn changed(&mut self, key: u128) {
        self.changed.insert(key);
    }

    /// The id that was learnt first is forgotten.
    pub(super) fn shifted(&mut self) {
        self.next = self.next.saturating_sub(1);
    }
}

/// The owners as a snapshot has them, by the numbers of its targets and workers.
#[derive(Debug, Default)]
pub(crate) struct OwnersImage {
    /// In the order in which they were written.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u128,
    /// Whether the id was learnt here, and not only has another owner.
    is_learnt: bool,
    target: u32,
    worker: u32,
}

impl Owners {
    /// A snapshot begins; one that was being written is void.
    pub(crate) fn watch(&mut self) {
        self.cursor = Some(Cursor::default());
    }

    /// No snapshot is being written any more.
    pub(crate) fn unwatch(&mut self) {
        self.cursor = None;
    }

    /// Writes ids that have not been written yet, then those that have changed since.
    pub(crate) fn write(&mut self, budget: &mut Budget, out: &mut Vec<u8>) -> Progress {
        let Some(mut cursor) = self.cursor.take() else {
            return Progress::Done;
        };
        let progress = loop {
            let fresh = self.learnt.get(cursor.next).copied();
            let key = match fresh {
                Some(key) => key,
                None => match cursor.changed.pop_first() {
                    Some(key) => key,
                    None => break Progress::Done,
                },
            };
            if budget.is_spent() {
                if fresh.is_none() {
                    cursor.changed.insert(key);
                }
                break Progress::More;
            }
            cursor.next += usize::from(fresh.is_some());
            budget.charge(2 * ENTRY_BYTES);
            if let Some(owner) = self.known.get(&key) {
                out.put_u8(u8::from(fresh.is_some()));
                out.put_u128(key);
                out.put_u32(owner.target.0);
                out.put_u32(owner.worker.0);
            }
        };
        self.cursor = Some(cursor);
        progress
    }

    /// A table of at most `max` ids that holds what is left of a snapshot: the ids whose target and
    /// worker are among ours.
    pub(crate) fn rebuild(
        image: &OwnersImage,
        max: usize,
        target_of: impl Fn(u32) -> Option<TargetId>,
        worker_of: impl Fn(u32) -> Option<WorkerId>,
    ) -> Self {
        let mut owners = Self::new(max);
        let last = image.last();
        for (at, entry) in image.entries.iter().enumerate() {
            // Where an id was learnt last, with the owner that it was met with last.
            let Some(&(learnt, newest)) = last.get(&entry.key) else {
                continue;
            };
            let Entry { target, worker, .. } = image.entries[newest];
            if learnt == at
                && let (Some(target), Some(worker)) = (target_of(target), worker_of(worker))
            {
                owners.learn_key(entry.key, Owner { target, worker });
            }
        }
        owners
    }
}

impl OwnersImage {
    /// Reads ids and their owners.
    pub(crate) fn read(&mut self, mut reader: Reader<'_>) -> Result<()> {
        while !reader.is_empty() {
            self.entries.push(Entry {
                is_learnt: reader.flag()?,
                key: reader.u128()?,
                target: reader.u32()?,
                worker: reader.u32()?,
            });
        }
        Ok(())
    }

    /// How many distinct ids there are. O(ids).
    pub(crate) fn len(&self) -> usize {
        self.last().len()
    }

    /// The entry where each id was learnt last, and its last entry.
    fn last(&self) -> HashMap<u128, (usize, usize)> {
        let mut last = HashMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let (learnt, newest) = last.entry(entry.key).or_insert((at, at));
            if entry.is_learnt {
                *learnt = at;
            }
            *newest = at;
        }
        last
    }
}
