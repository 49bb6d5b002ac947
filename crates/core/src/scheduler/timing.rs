//! What a turn's own times teach of its worker: taken down when it goes and when its first token comes,
//! given on when it completes, since only then the engine has said what was cached.
//!
//! A turn that did not fit beside what its worker had waits for others to end, which says nothing of the
//! worker's speed, and teaches nothing of its prompt. O(1), but what [`Paces`](crate::score::pace::Paces) does.

use crate::id::{Micros, ReservationId, WorkerId};
use crate::receipt::{Candidate, Reported};
use crate::score::pace::{Decoded, Prefilled};

use super::Scheduler;
use super::place::Placer;
use super::reservation::{Reservation, State};

/// What stood at go, and at the first token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    went: Micros,
    waiting: u64,
    uncached: u32,
    cached: u32,
    fetched: [u32; 3],
    has_room: bool,
    first: Option<First>,
}

/// When the first token came, and what ran there then.
#[derive(Clone, Copy, Debug)]
struct First {
    at: Micros,
    requests: u32,
    context: u64,
}

impl Placer<'_> {
    /// What is to be remembered of a turn that goes now, as `row` says.
    pub(super) fn time_from_now(&self, row: &Candidate, uncached: u32) -> Option<Timed> {
        if !self.learnt.is_on() {
            return None;
        }
        let capacity = self.topology.worker(row.worker).ok()?.capacity_tokens;
        let needed = row
            .active_tokens
            .saturating_add(row.additional_tokens.into());
        Some(Timed {
            went: self.now,
            waiting: row.prefill_tokens,
            uncached,
            cached: row.cached_tokens(),
            fetched: [row.host_tokens, row.disk_tokens, row.pool_tokens],
            has_room: capacity.is_none_or(|capacity| needed <= capacity),
            first: None,
        })
    }
}

impl Scheduler {
    /// The turn has its first token.
    pub(super) fn time_first_token(&mut self, id: ReservationId) {
        let Some(turn) = self.reservations.get_mut(id) else {
            return;
        };
        let (Some(timed), State::Running { worker, .. }) = (&mut turn.timed, turn.state) else {
            return;
        };
        let load = self.load.load(worker).unwrap_or_default();
        timed.first.get_or_insert(First {
            at: self.now,
            requests: load.requests,
            context: load.block_tokens,
        });
    }

    /// The turn has completed on `worker`, and is still among what that has in flight.
    pub(super) fn learn_times(
        &mut self,
        turn: &Reservation,
        worker: WorkerId,
        reported: &Reported,
    ) {
        let Some((timed, first)) = turn.timed.and_then(|timed| Some((timed, timed.first?))) else {
            return;
        };
        if timed.has_room {
            self.learnt
                .prefilled(self.now, worker, &timed.prefilled(first.at, reported));
        }
        let load = self.load.load(worker).unwrap_or_default();
        let answer = Decoded {
            time: self.now.since(first.at),
            tokens: reported.completion_tokens.unwrap_or(0).saturating_sub(1),
            requests: first.requests.midpoint(load.requests),
            context: first.context.midpoint(load.block_tokens),
        };
        self.learnt.decoded(self.now, worker, &answer);
    }
}

impl Timed {
    /// What was computed, by the engine's word where it has one.
    fn prefilled(&self, first: Micros, reported: &Reported) -> Prefilled {
        let known = reported.prompt_tokens.zip(reported.cached_tokens);
        let (computed, cached) = match known {
            Some((prompt, cached)) => (prompt - cached, cached),
            None => (self.uncached, self.cached),
        };
        let own = self.cached.saturating_sub(self.fetched.iter().sum());
        // What was not found after all was in no tier either, the last one first.
        let mut left = cached.saturating_sub(own);
        let fetched = self.fetched.map(|tokens| {
            let found = tokens.min(left);
            left -= found;
            found
        });
        Prefilled {
            time: first.since(self.went),
            waiting: self.waiting,
            computed,
            cached,
            fetched,
        }
    }
}
