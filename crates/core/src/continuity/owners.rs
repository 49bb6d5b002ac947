//! Who issued a tool call, who keeps a response: id -> owner, learnt from answers as they pass by.
//!
//! Ids are scoped by tenant and never compared across. The table is bounded by count; the id that
//! was learnt first is forgotten first. A look-up and an insertion are O(1).
use std::collections::VecDeque;

use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3;

use super::snapshot::Cursor;
use crate::id::{TargetId, WorkerId};

/// Who owns an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The target that answered.
    pub target: TargetId,
    /// The worker of it that answered.
    pub worker: WorkerId,
}

/// What kind of id it is: the same text may be a tool call and a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// A tool call id.
    ToolCall,
    /// A response, a conversation, a signature: whatever the dialect calls provider state.
    State,
}

/// The table of owners.
#[derive(Debug)]
pub struct Owners {
    pub(super) known: HashMap<u128, Owner>,
    /// The ids in the order in which they were learnt.
    pub(super) learnt: VecDeque<u128>,
    pub(super) max: usize,
    /// Ids that had to go because there were too many.
    forgotten: u64,
    /// There while a snapshot is being written.
    pub(super) cursor: Option<Cursor>,
}

impl Owners {
    /// An empty table of at most `max` ids (at least one).
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            known: HashMap::new(),
            learnt: VecDeque::new(),
            max: max.max(1),
            forgotten: 0,
            cursor: None,
        }
    }

    /// Ids known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Ids that had to go because there were too many.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether no id is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Remembers that `owner` owns `id`; the newest owner counts.
    pub fn learn(&mut self, tenant: &str, kind: IdKind, id: &[u8], owner: Owner) {
        self.learn_key(key(tenant, kind, id), owner);
    }

    pub(super) fn learn_key(&mut self, key: u128, owner: Owner) {
        if self.known.insert(key, owner).is_some() {
            if let Some(cursor) = &mut self.cursor {
                cursor.changed(key);
            }
            return;
        }
        self.learnt.push_back(key);
        if self.learnt.len() > self.max
            && let Some(oldest) = self.learnt.pop_front()
        {
            self.known.remove(&oldest);
            self.forgotten += 1;
            if let Some(cursor) = &mut self.cursor {
                cursor.shifted();
            }
        }
    }

    /// Who owns `id`.
    #[must_use]
    pub fn find(&self, tenant: &str, kind: IdKind, id: &[u8]) -> Option<Owner> {
        self.known.get(&key(tenant, kind, id)).copied()
    }
}

/// 128 bits over the length-framed parts, so that no id can be read as another's tenant.
fn key(tenant: &str, kind: IdKind, id: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&[kind as u8]);
    hash.update(&(tenant.len() as u64).to_le_bytes());
    hash.update(tenant.as_bytes());
    hash.update(id);
    hash.digest128()
}
