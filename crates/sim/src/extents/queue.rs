//! One request inside the engine, and the order of those that wait for it.
//!
//! First come, first served; or the fewest uncached tokens first, as they were on arrival. Who gave
//! way to others comes before everybody. O(log n) to enter and leave; giving up looks at all.
use std::collections::BTreeMap;

use super::ExtentRequest;
use super::config::PrefillOrder;
use super::contexts::Owner;
use crate::event::Nanos;

/// Keys of prefixes that belong to one request only.
const PRIVATE: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: ExtentRequest,
    /// Tokens made; while it decodes, those up to its last start.
    pub(crate) produced: u32,
    /// Tokens whose cache entries exist.
    pub(crate) computed: u32,
    /// Tokens of room that it has taken.
    pub(crate) held: u32,
    /// Prompt tokens that the step under way computes.
    pub(crate) granted: u32,
    /// The step that made the token it decodes from.
    pub(crate) decoding_since: u64,
    /// Its number among admissions.
    pub(crate) admitted: u64,
    pub(crate) last_token: Nanos,
    /// Whether another turn of its session has the session's prefix.
    pub(crate) is_private: bool,
}

impl Task {
    pub(crate) fn new(request: ExtentRequest) -> Self {
        Self {
            request,
            produced: 0,
            computed: 0,
            held: 0,
            granted: 0,
            decoding_since: 0,
            admitted: 0,
            last_token: 0,
            is_private: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.request.id
    }

    /// Tokens known so far: the prompt and what was made.
    pub(crate) fn length(&self) -> u32 {
        self.request.prompt + self.produced
    }

    /// Tokens of the prompt that are still to be computed.
    pub(crate) fn missing(&self) -> u32 {
        self.length() - self.computed
    }

    pub(crate) fn owner(&self) -> Owner {
        let session = match self.is_private {
            true => PRIVATE | self.request.id,
            false => self.request.session,
        };
        Owner {
            session,
            turn: self.request.turn,
        }
    }
}

/// Those that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    order: PrefillOrder,
    tasks: BTreeMap<(u32, i64), Task>,
    next: i64,
}

impl Waiting {
    pub(crate) fn new(order: PrefillOrder) -> Self {
        Self {
            order,
            tasks: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// A request arrives of which `uncached` tokens are to be computed.
    pub(crate) fn push(&mut self, task: Task, uncached: u32) {
        let rank = match self.order {
            PrefillOrder::Fcfs => 0,
            PrefillOrder::Shortest => uncached,
        };
        self.next += 1;
        self.tasks.insert((rank, self.next), task);
    }

    /// A request gave way, and comes before all others.
    pub(crate) fn push_front(&mut self, task: Task) {
        self.next += 1;
        self.tasks.insert((0, -self.next), task);
    }

    pub(crate) fn first(&self) -> Option<&Task> {
        self.tasks.first_key_value().map(|(_, task)| task)
    }

    pub(crate) fn pop(&mut self) -> Option<Task> {
        self.tasks.pop_first().map(|(_, task)| task)
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Task> {
        let key = self.tasks.iter().find(|(_, task)| task.id() == id)?.0;
        let key = *key;
        self.tasks.remove(&key)
    }
}
