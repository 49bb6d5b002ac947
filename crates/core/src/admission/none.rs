//! The policy that holds nobody.
//!
//! Keeps no state: every turn is released in the call that begins it, to its pin or anywhere. It
//! has the same methods as the other policies, so that the door dispatches without a special case.
//! Every method costs O(1).
use super::{Ahead, Begin, ProgramState, Release};
use crate::{Micros, ProgramId, ReservationId, WorkerId};

/// Everything goes at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passthrough;

impl Passthrough {
    pub(super) fn begin(&mut self, _now: Micros, begin: Begin, out: &mut Vec<Release>) {
        out.push(Release {
            ticket: begin.ticket,
            worker: begin.pin,
        });
    }

    pub(super) fn sent(&mut self, _now: Micros, _ticket: ReservationId, _worker: WorkerId) {}

    pub(super) fn progress(&mut self, _now: Micros, _ticket: ReservationId, _tokens: u32) {}

    pub(super) fn set_workers(&mut self, _now: Micros, _workers: &[(WorkerId, Option<u64>)]) {}

    pub(super) fn set_worker(&mut self, _now: Micros, _worker: WorkerId, _capacity: Option<u64>) {}

    pub(super) fn remove_worker(&mut self, _now: Micros, _worker: WorkerId) {}

    pub(super) fn next_wake(&self) -> Option<Micros> {
        None
    }

    pub(super) fn end_program(&mut self, _now: Micros, _program: ProgramId) {}

    pub(super) fn used(&self, _worker: WorkerId) -> u64 {
        0
    }

    pub(super) fn ahead(&self, _ticket: ReservationId) -> Option<Ahead> {
        None
    }

    pub(super) fn is_held(&self, _ticket: ReservationId) -> bool {
        false
    }

    pub(super) fn waiting(&self) -> usize {
        0
    }

    pub(super) fn take_pauses(&mut self, _out: &mut Vec<ProgramId>) {}

    pub(super) fn paused(&self) -> usize {
        0
    }

    pub(super) fn state(&self, _program: ProgramId) -> Option<ProgramState> {
        None
    }

    pub(super) fn programs(&self) -> Vec<(ProgramId, ProgramState)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use crate::admission::{Admission, Begin, Kind, Release};
    use crate::{Micros, ProgramId, ReservationId, WorkerId};

    #[test]
    fn everything_goes_at_once_to_its_pin_or_anywhere() {
        let (mut admission, mut out) = (Admission::none(), Vec::new());
        admission.set_workers(Micros(0), &[(WorkerId(0), Some(0))]);
        for (n, pin) in [(1, None), (2, Some(WorkerId(7)))] {
            let begin = Begin {
                ticket: ReservationId(n),
                claimant: Default::default(),
                program: ProgramId(1),
                prompt_tokens: u32::MAX,
                kind: Kind::Turn,
                pin,
            };
            admission.begin(Micros(0), begin, &[], &mut out);
        }
        let released = [(1, None), (2, Some(WorkerId(7)))].map(|(n, worker)| Release {
            ticket: ReservationId(n),
            worker,
        });
        assert_eq!(out, released);
        assert_eq!(admission.waiting(), 0);
        assert_eq!(admission.next_wake(), None);
    }
}
