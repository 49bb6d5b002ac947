//! Where a turn goes among the workers of its group: overlap, load and cost, then the choice.
//!
//! A [`Placer`] borrows the rooms that a placement reads and those that it changes; the turn itself is
//! lent to it, so it knows no table of turns and settles nobody. First somebody is found, which changes
//! nothing but the lists; then the turn settles on what was found. Costs O(blocks + workers of the
//! group), and allocates nothing once its lists have grown.

use crate::admission::{Admission, Gates};
use crate::affinity::Homes;
use crate::block::Chain;
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, PlaceId, ReservationId, WorkerId};
use crate::load::LoadLedger;
use crate::prefix::{self, PrefixIndex, Tier};
use crate::receipt::{Candidate, Evidence, Ring, Trust};
use crate::score::TieBreaker;
use crate::score::kv::KvConfig;
use crate::score::pace::Paces;
use crate::score::softmax::{self, Temperature};
use crate::session::SessionRegistry;

use super::Scheduler;
use super::config::Config;
use super::departures::Departures;
use super::paths::{Paths, Sent};
use super::rendered::Begun;
use super::reservation::{Believed, Reservation, State};
use super::scoring::{Account, Form, Scorer, Scratch, Wanted};
use super::stays::Draw;
use super::tally::{Churn, Tally};
use super::topology::{Topology, Worker};
use super::turn::Placement;

/// What admission says of the worker when it lets a turn go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seat {
    /// The session is there already, and its cache with it.
    Kept(WorkerId),
    /// Admission has found room on this one, or does not mind.
    Offered(Option<WorkerId>),
    /// As offered, or as kept there, of the rows that were scored last.
    Chosen {
        /// `None`: admission does not mind.
        worker: Option<WorkerId>,
        /// Whether the session is there already.
        is_home: bool,
    },
}

/// Which row was picked, and why.
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) draw: Option<f64>,
    pub(super) by: PickedBy,
}

/// Who has picked the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PickedBy {
    /// Admission, because the session is there.
    Home,
    /// Admission, because there is room.
    Room,
    /// The cost.
    Cost,
}

/// The parts of a scheduler that a placement needs.
pub(super) struct Placer<'a> {
    pub(super) now: Micros,
    pub(super) config: &'a Config,
    pub(super) topology: &'a Topology,
    pub(super) sessions: &'a SessionRegistry,
    pub(super) admission: &'a mut [Admission],
    pub(super) gates: &'a mut [Option<Box<Gates>>],
    pub(super) tally: &'a mut Tally,
    pub(super) prefix: &'a mut PrefixIndex,
    pub(super) paths: &'a mut Paths,
    pub(super) homes: &'a mut Homes,
    pub(super) departures: &'a mut Departures,
    pub(super) load: &'a mut LoadLedger,
    pub(super) learnt: &'a Paces,
    pub(super) receipts: &'a mut Ring,
    pub(super) ties: &'a mut TieBreaker,
    pub(super) scratch: &'a mut Scratch,
}

impl Scheduler {
    /// The parts that place turns.
    pub(super) fn placer(&mut self) -> Placer<'_> {
        Placer {
            now: self.now,
            config: &self.config,
            topology: &self.topology,
            sessions: &self.sessions,
            admission: &mut self.admission,
            gates: &mut self.gates,
            tally: &mut self.tally,
            prefix: &mut self.prefix,
            paths: &mut self.paths,
            homes: &mut self.homes,
            departures: &mut self.departures,
            load: &mut self.load,
            learnt: &self.learnt,
            receipts: &mut self.receipts,
            ties: &mut self.ties,
            scratch: &mut self.scratch,
        }
    }

    /// Sends a turn that admission has let go to a worker: the one that admission names, else the
    /// cheapest. The decision counts at once, as load and as predicted coverage.
    ///
    /// # Errors
    /// `NO_WORKER` when nobody may take it. The reservation then still stands.
    pub(super) fn place(&mut self, id: ReservationId, seat: Seat) -> Result<Placement> {
        let Some(mut turn) = self.reservations.remove(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let mut placer = self.placer();
        let found = placer.find_worker(id, &turn, seat);
        let placed = found.map(|picked| placer.settle_on(id, &mut turn, &picked));
        if placed.is_ok() {
            self.lead(id, &turn);
        }
        self.reservations.insert(id, turn);
        placed
    }
}

impl Placer<'_> {
    /// Scores the workers of `group`; the rows are in the scratch.
    pub(super) fn score(&mut self, group: GroupId, chain: &Chain, wanted: &Wanted<'_>) {
        let scorer = Scorer {
            topology: self.topology,
            prefix: self.prefix,
            load: self.load,
            departures: self.departures,
            learnt: self.learnt,
            config: self.weights(group),
            patience: self.config.patience,
        };
        scorer.score(group, chain, wanted, self.scratch);
    }

    /// The weights of a cost in `group`.
    pub(super) fn weights(&self, group: GroupId) -> KvConfig {
        self.learnt.weights(group, &self.config.score)
    }

    /// Scores the workers that may take the turn; the rows are in the scratch.
    pub(super) fn score_for(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        account: Option<Account>,
    ) {
        let (route, whose) = (&turn.route, turn.whose());
        self.score_all_for(turn, account);
        if let Some(gates) = &self.gates[route.group.index()] {
            leave_out(&mut self.scratch.rows, |worker| {
                gates.admits(id, worker, self.load)
            });
        }
        self.draw_home(whose.as_ref(), &turn.chain, route.group);
    }

    /// The same, with those that are shut.
    fn score_all_for(&mut self, turn: &Reservation, account: Option<Account>) {
        let route = &turn.route;
        let wanted = Wanted::of(route.pin, &route.excluded, turn.form)
            .bound_to(self.bound_to(turn.whose().as_ref(), route.group))
            .accounted(account)
            .begun(turn.begun.as_deref().and_then(Begun::chain));
        self.score(route.group, &turn.chain, &wanted);
    }

    /// What the turn is drawn to, shut or not. The rows are of all workers then.
    pub(super) fn draw_for(&mut self, turn: &Reservation) -> Option<Draw> {
        self.score_all_for(turn, None);
        self.draw_home(turn.whose().as_ref(), &turn.chain, turn.route.group);
        self.scratch.draw.take()
    }

    /// Whether the turn's own home has something of its prompt that is its session's own, shut or not.
    /// The rows are of all workers then.
    pub(super) fn is_home_warm(&mut self, turn: &Reservation) -> bool {
        self.draw_for(turn).is_some_and(|draw| draw.is_warm())
    }

    /// Scores the workers that may take the turn and picks one; changes nothing.
    pub(super) fn find_worker(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        seat: Seat,
    ) -> Result<Picked> {
        if !matches!(seat, Seat::Chosen { .. }) {
            self.score_for(id, turn, None);
        }
        self.pick(seat)
            .ok_or_else(|| Error::no_worker("no worker of the turn's target can take it"))
    }

    /// Chooses among the rows of the last score: admission's worker where it names one that may
    /// take the turn, else the cheapest.
    fn pick(&mut self, seat: Seat) -> Option<Picked> {
        let Scratch {
            rows,
            costs,
            weights,
            ..
        } = &mut *self.scratch;
        let (named, by) = match seat {
            Seat::Kept(worker) => (Some(worker), PickedBy::Home),
            Seat::Offered(worker) => (worker, PickedBy::Room),
            Seat::Chosen { worker, is_home } => match is_home {
                true => (worker, PickedBy::Home),
                false => (worker, PickedBy::Room),
            },
        };
        let named = named.and_then(|id| rows.iter().position(|row| row.worker == id));
        if let Some(index) = named {
            return Some(Picked {
                index,
                draw: None,
                by,
            });
        }
        match Temperature::new(self.config.temperature) {
            Err(_) => {
                let index = self.ties.cheapest(rows.iter().map(|row| row.cost))?;
                Some(Picked {
                    index,
                    draw: None,
                    by: PickedBy::Cost,
                })
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
                    by: PickedBy::Cost,
                })
            }
        }
    }

    /// The turn leaves its worker. Unless that has computed the prompt, it is not believed to have it.
    pub(super) fn take_back(&mut self, turn: &mut Reservation) {
        let has_token = std::mem::take(&mut turn.has_token);
        let namespace = turn.chain.namespace();
        turn.chain.enter(turn.entered_in);
        for entered in turn.entered.drain(..).filter(|_| !has_token) {
            self.prefix.retract(&turn.chain, &entered);
        }
        turn.chain.enter(namespace);
    }

    /// Makes what was picked by the last [`Self::find_worker`] come true.
    pub(super) fn settle_on(
        &mut self,
        id: ReservationId,
        turn: &mut Reservation,
        picked: &Picked,
    ) -> Placement {
        let row = self.scratch.rows[picked.index];
        let worker = row.worker;
        let cached = row.cached_tokens();
        let affinity = self.settle_home(turn, worker);
        self.count_departure(turn, worker);
        let mut evidence = Evidence::default();
        let mut rank = None;
        if let Ok(known) = self.topology.worker(worker) {
            evidence = known.evidence();
            rank = known.feed.as_ref().and_then(|f| f.choice(row.rank));
            self.enter(turn, known, &row);
        }
        let trust = match row.pool_tokens {
            0 => trust(self.told_trust(turn, &row), &row, evidence.trust),
            _ => self.pool_trust(turn.route.group),
        };
        let receipt = self.write_receipt(id, turn, picked, (trust, evidence));
        if let Some(receipt) = self.receipts.get_mut(receipt) {
            receipt.affinity = affinity;
        }
        let uncached = turn.chain.tokens().saturating_sub(cached);
        turn.timed = self.time_from_now(&row, uncached);
        self.load.begin(id, worker, &turn.chain, uncached);
        if turn.program.is_some() {
            self.admission[turn.route.group.index()].sent(self.now, id, worker);
        }
        if let Some(gates) = &mut self.gates[turn.route.group.index()] {
            gates.sent(self.now, id, worker);
        }
        self.tally.placed(turn, cached);
        turn.state = State::Running { worker, receipt };
        Placement {
            target: turn.route.target,
            worker,
            rank,
            breach: turn.route.lock.breach,
            predicted_cached_tokens: cached,
            trust,
            receipt,
        }
    }

    /// How good the evidence is behind what the group's store has.
    fn pool_trust(&self, group: GroupId) -> Trust {
        let shared = self.topology.groups[group.index()].pool.as_ref();
        shared.map_or(Trust::None, |shared| shared.evidence().trust)
    }

    /// How good the evidence of the deepest block is that was counted.
    fn told_trust(&self, turn: &Reservation, row: &Candidate) -> Option<prefix::Trust> {
        let begun = turn.begun.as_deref().and_then(Begun::chain);
        let (Some(begun), Some(rank)) = (begun, row.rank) else {
            return turn.coverage.trust();
        };
        let worker = self.topology.worker(row.worker).ok()?;
        let place = worker.feed.as_ref()?.place(rank, Tier::Device)?;
        let mut coverage = prefix::Coverage::new();
        self.prefix.coverage(place, begun, &mut coverage);
        coverage.trust()
    }

    /// The turn's prompt counts as cached at the worker, and is what its session goes on from.
    fn enter(&mut self, turn: &mut Reservation, worker: &Worker, row: &Candidate) {
        let place = worker.place;
        if let Some(begun) = &mut turn.begun {
            begun.sent_to(worker.feed.as_deref());
        }
        let told = told_place(worker, turn.form, row.rank);
        let believed = told.filter(|_| row.rank.is_some()).unwrap_or(place);
        turn.believed = Some(Believed {
            place: believed,
            tokens: row.cached_tokens(),
            pool: row.pool_tokens,
        });
        self.prefix
            .coverage(believed, &turn.chain, &mut turn.coverage);
        turn.entered_in = turn.chain.namespace();
        for place in told.into_iter().chain([place]) {
            let entered = self.prefix.enter(self.now, place, &turn.chain);
            turn.entered.push(entered);
        }
        // A session may end while its turn is held or moves on: nobody would take its path back.
        let lives = self.sessions.get(turn.session).is_some();
        if let Some(program) = turn.program.filter(|_| lives) {
            let before = self.paths.frontier(program);
            if before.is_some_and(|before| !self.prefix.is_at(before, place)) {
                self.tally.befell(program, Churn::Move);
            }
            let whose = (program, turn.session);
            let sent = Sent {
                chain: &turn.chain,
                memo: turn.memo,
                body: turn.body.clone(),
            };
            self.paths.follow(self.prefix, whose, place, sent);
        }
    }
}

/// Leaves out the workers that are shut, unless all are: a turn that has to move may go there.
fn leave_out(rows: &mut Vec<Candidate>, is_open: impl Fn(WorkerId) -> bool) {
    if rows.iter().any(|row| is_open(row.worker)) {
        rows.retain(|row| is_open(row.worker));
    }
}

/// The place that the engine will tell of when it has taken in the turn, if it is known.
fn told_place(worker: &Worker, form: Form, rank: Option<u32>) -> Option<PlaceId> {
    let feed = worker.feed.as_ref().filter(|_| form == Form::Tokens)?;
    feed.destination(rank)
}

/// How good the evidence behind the deepest block counted is, of a worker known so well as a whole.
fn trust(deepest: Option<prefix::Trust>, row: &Candidate, whole: Trust) -> Trust {
    if row.cached_tokens() == 0 {
        return Trust::None;
    }
    match (deepest, row.rank) {
        _ if whole == Trust::Degraded => Trust::Degraded,
        (Some(prefix::Trust::Predicted), _) => Trust::Predicted,
        (Some(prefix::Trust::Exact), _) | (None, Some(_)) => Trust::Exact,
        (None, None) => Trust::None,
    }
}
