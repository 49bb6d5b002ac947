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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_add_up_and_a_pin_has_no_preference() {
        let (zone, gpu) = (LabelId(1), LabelId(2));
        let allowed = [WorkerId(1), WorkerId(2)];
        let mut asks = Eligibility {
            allowed: Some(&allowed),
            required: &[zone],
            preferred: &[(zone, 0.5), (gpu, 0.25)],
            pin: None,
        };
        assert!(asks.admits(WorkerId(1), 0, &[zone]));
        assert!(!asks.admits(WorkerId(1), 0, &[gpu]));
        assert!(!asks.admits(WorkerId(3), 0, &[zone]));
        assert_eq!(asks.preference(&[gpu, zone]), 0.75);
        asks.pin = Some((WorkerId(2), 1));
        assert!(asks.admits(WorkerId(2), 1, &[zone]) && !asks.admits(WorkerId(2), 0, &[zone]));
        assert_eq!((asks.preference(&[zone]), asks.validate()), (0.0, Ok(())));
        asks.pin = Some((WorkerId(3), 0));
        assert_eq!(
            asks.validate().map_err(|e| e.code()),
            Err("INVALID_ARGUMENT")
        );
    }
}
