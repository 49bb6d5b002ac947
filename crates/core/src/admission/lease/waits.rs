//! Do sessions come back before their leases end?
//!
//! Counts, for each thing that a session may wait for between two turns, how many waits there were and
//! how many outlasted the whole lease. Counters only; O(1).
use super::super::Waits;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCount {
    /// Waits that have ended with a next turn.
    pub ended: u64,
    /// Of these, longer than the lease.
    pub outlasted: u64,
}

/// Waits so far, by what was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// For tools.
    pub tool: WaitCount,
    /// For a person.
    pub person: WaitCount,
    /// For what the answer did not say.
    pub unknown: WaitCount,
}

impl WaitCounts {
    pub(super) fn count(&mut self, waits: Waits, outlasted: bool) {
        let count = match waits {
            Waits::Tool => &mut self.tool,
            Waits::Person => &mut self.person,
            Waits::Unknown => &mut self.unknown,
        };
        count.ended += 1;
        count.outlasted += u64::from(outlasted);
    }

    /// Whether waits for people have outlasted leases more often than not.
    pub(super) fn people_are_late(&self) -> bool {
        2 * self.person.outlasted > self.person.ended
    }
}
