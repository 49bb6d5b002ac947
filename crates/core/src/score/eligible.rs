//! Which workers may be asked for a cost at all?
//!
//! Filters come before cost: a list of allowed workers, labels that a worker must have, a pin to one
//! rank. Preferred labels do not filter; they scale a cost. Labels are small integers here, interned
//! by whoever knows their text. Knows no load and no cache.
use crate::{Error, Result, WorkerId};

/// An interned label of workers, such as a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelId(pub u32);

/// What a turn asks of the worker that takes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eligibility<'a> {
    /// Only these; absent: any.
    pub allowed: Option<&'a [WorkerId]>,
    /// Labels that the worker must have.
    pub required: &'a [LabelId],
    /// Labels that make a worker cheaper (above 0) or dearer (below 0), with their weights.
    pub preferred: &'a [(LabelId, f64)],
    /// Just this rank of this worker.
    pub pin: Option<(WorkerId, u32)>,
}

impl Eligibility<'_> {
    /// Checks what no row can satisfy.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the pin is not among the allowed workers.
    pub fn validate(&self) -> Result<()> {
        match self.pin {
            Some((worker, _)) if !self.is_allowed(worker) => {
                let detail = format!("pinned worker {} is not in allowed worker set", worker.0);
                Err(Error::invalid_argument(detail))
            }
            _ => Ok(()),
        }
    }

    /// Whether a rank of a worker with these labels may take the turn.
    #[must_use]
    pub fn admits(&self, worker: WorkerId, rank: u32, labels: &[LabelId]) -> bool {
        let pinned = self.pin.is_none_or(|pin| pin == (worker, rank));
        pinned && self.is_allowed(worker) && self.required.iter().all(|l| labels.contains(l))
    }

    /// The sum of the weights of the preferred labels that the worker has; a pin has no preference.
    #[must_use]
    pub fn preference(&self, labels: &[LabelId]) -> f64 {
        if self.pin.is_some() {
            return 0.0;
        }
        let had = self.preferred.iter().filter(|(l, _)| labels.contains(l));
        had.map(|(_, weight)| weight).sum()
    }

    fn is_allowed(&self, worker: WorkerId) -> bool {
        self.allowed.is_none_or(|allowed| allowed.contains(&worker))
    }
}
