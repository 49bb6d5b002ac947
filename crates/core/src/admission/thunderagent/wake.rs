//! When the next tick is, and whether it is wanted.
//!
//! Ticks lie at the multiples of the interval. One that could change nothing is left out, which
//! gives the same results as running all of them. O(log programs) a question.
use super::table::Table;
use crate::Micros;

/// The time seen so far and the next tick.
#[derive(Debug)]
pub(super) struct Wake {
    interval: Micros,
    clock: Micros,
    due: Micros,
}

impl Wake {
    pub(super) fn new(interval: Micros) -> Self {
        Self {
            interval,
            clock: Micros(0),
            due: interval,
        }
    }

    /// The latest time seen.
    pub(super) fn clock(&self) -> Micros {
        self.clock
    }

    /// Notes the time before a call changes anything: ticks that have passed unwanted are dropped.
    pub(super) fn observe(&mut self, now: Micros, table: &Table) {
        self.clock = self.clock.max(now);
        if self.next(table).is_none_or(|at| at > self.clock) {
            self.due = self.due.max(self.grid(self.clock));
        }
    }

    /// The next tick that could change something.
    pub(super) fn next(&self, table: &Table) -> Option<Micros> {
        if table.is_unsettled() {
            return Some(self.due);
        }
        let &(since, _) = table.orders.idle.first()?;
        let expiry = since.plus(table.config.retention);
        Some(self.due.max(self.grid(expiry)))
    }

    /// A tick has just run.
    pub(super) fn ticked(&mut self) {
        self.due = self.grid(self.clock.plus(Micros(1)));
    }

    /// The first multiple of the interval at or after `at`.
    fn grid(&self, at: Micros) -> Micros {
        let interval = self.interval.0;
        Micros(at.0.div_ceil(interval).saturating_mul(interval))
    }
}
