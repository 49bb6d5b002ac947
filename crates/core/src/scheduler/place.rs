//! Where a turn goes among the workers of its group: overlap, load and cost, then the choice.
//!
//! Costs O(blocks + workers of the group), and allocates nothing once its lists have grown.

use crate::block::Chain;
use crate::error::{Error, Result};
use crate::id::{GroupId, ReservationId, WorkerId};
use crate::prefix;
use crate::receipt::Trust;
use crate::score::softmax::{self, Temperature};

use super::Scheduler;
use super::reservation::{Reservation, State};
use super::scoring::{Scorer, Scratch, Wanted};
use super::turn::Placement;

/// What was picked, and by which draw.
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) draw: Option<f64>,
}

impl Scheduler {
    /// Scores the workers of `group`; the rows are in the scratch.
    pub(super) fn score(&mut self, group: GroupId, chain: &Chain, wanted: &Wanted<'_>) {
        let scorer = Scorer {
            topology: &self.topology,
            prefix: &self.prefix,
            load: &self.load,
            config: self.config.score,
        };
        scorer.score(group, chain, wanted, &mut self.scratch);
    }

    /// Sends a turn that admission has let go to a worker: the one where admission keeps it, else
    /// the cheapest. The decision counts at once, as load and as predicted coverage.
    ///
    /// # Errors
    /// `NO_WORKER` when nobody may take it. The reservation then still stands.
    pub(super) fn place(&mut self, id: ReservationId, kept: Option<WorkerId>) -> Result<Placement> {
        let Some(mut turn) = self.reservations.remove(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let wanted = Wanted::of(turn.pin, &turn.excluded);
        self.score(turn.group, &turn.chain, &wanted);
        let picked = self.pick(kept);
        let placed = match picked {
            Some(picked) => Ok(self.settle_on(id, &mut turn, &picked, kept)),
            None => Err(Error::no_worker(
                "no worker of the turn's target can take it",
            )),
        };
        self.reservations.insert(id, turn);
        placed
    }

    /// Chooses among the rows of the last score.
    fn pick(&mut self, kept: Option<WorkerId>) -> Option<Picked> {
        let Scratch {
            rows,
            costs,
            weights,
            ..
        } = &mut self.scratch;
        if let Some(kept) = kept
            && let Some(index) = rows.iter().position(|row| row.worker == kept)
        {
            return Some(Picked { index, draw: None });
        }
        match Temperature::new(self.config.temperature) {
            Err(_) => {
                let index = self.ties.cheapest(rows.iter().map(|row| row.cost))?;
                Some(Picked { index, draw: None })
            }
            Ok(temperature) => {
                costs.clear();
                costs.extend(rows.iter().map(|row| row.cost));
                softmax::probabilities(costs, temperature, weights);
                let draw = self.ties.unit();
                let index = softmax::pick(weights, draw)?;
                Some(Picked {
                    index,
                    draw: Some(draw),
                })
            }
        }
    }

    fn settle_on(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        picked: &Picked,
        kept: Option<WorkerId>,
    ) -> Placement {
        let row = self.scratch.rows[picked.index];
        let worker = row.worker;
        let cached = row.overlap_tokens;
        let trust = self.trust(worker, &turn.chain, cached);
        let receipt = self.write_receipt(id, turn, picked, kept, trust);
        let uncached = turn.chain.tokens().saturating_sub(cached);
        self.load.begin(id, worker, &turn.chain, uncached);
        if let Ok(known) = self.topology.worker(worker) {
            let place = known.place;
            self.prefix.coverage(place, &turn.chain, &mut turn.coverage);
            self.prefix.predict(self.now, place, &turn.chain);
        }
        if turn.program.is_some() {
            self.admission[turn.group.index()].sent(self.now, id, worker);
        }
        turn.state = State::Running { worker, receipt };
        Placement {
            target: turn.target,
            worker,
            predicted_cached_tokens: cached,
            trust,
            receipt,
        }
    }

    /// How good the evidence behind the deepest covered block is.
    fn trust(&self, worker: WorkerId, chain: &Chain, cached: u32) -> Trust {
        let blocks = chain.ends().partition_point(|&end| end <= cached);
        let deepest = blocks.checked_sub(1).map(|last| chain.hashes()[last]);
        let place = self.topology.worker(worker).map(|worker| worker.place);
        let evidence = match (deepest, place) {
            (Some(hash), Ok(place)) => self.prefix.trust(place, hash),
            _ => None,
        };
        match evidence {
            Some(prefix::Trust::Exact) => Trust::Exact,
            Some(prefix::Trust::Predicted) => Trust::Predicted,
            None => Trust::None,
        }
    }
}
