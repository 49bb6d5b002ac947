//! What would the usual load balancers have done?
//!
//! The next worker in turn, or the one with the fewest requests in flight. They hold nothing, read
//! nothing and keep a list of who is where only to count. A worker that is down is passed over. O(1)
//! and O(workers) a turn.
use hashbrown::HashMap;

use super::{Answer, Offer, Presence, Router, Settled, Usage};
use crate::event::Nanos;

/// Which workers are up.
#[derive(Debug)]
struct Workers(Vec<Presence>);

impl Workers {
    fn new(count: u32) -> Self {
        Self(vec![Presence::Up; count as usize])
    }

    fn set(&mut self, worker: u32, presence: Presence) {
        if let Some(known) = self.0.get_mut(worker as usize) {
            *known = presence;
        }
    }

    /// Those that are up, from the one after `turn - 1` round to it.
    fn from(&self, turn: u64) -> impl Iterator<Item = u32> {
        let count = self.0.len() as u64;
        (0..count)
            .map(move |step| ((turn + step) % count) as u32)
            .filter(|&worker| self.0[worker as usize] == Presence::Up)
    }
}

/// The next worker in turn.
#[derive(Debug)]
pub struct RoundRobin {
    workers: Workers,
    turn: u64,
}

impl RoundRobin {
    /// For workers 0 to `workers` - 1.
    #[must_use]
    pub fn new(workers: u32) -> Self {
        Self {
            workers: Workers::new(workers),
            turn: 0,
        }
    }

    fn pick(&mut self) -> Option<u32> {
        let worker = self.workers.from(self.turn).next()?;
        self.turn = u64::from(worker) + 1;
        Some(worker)
    }
}

impl Router for RoundRobin {
    fn label(&self) -> String {
        "round-robin".to_owned()
    }

    fn submit(&mut self, _now: Nanos, _offer: &Offer<'_>, _settled: &mut Vec<Settled>) -> Answer {
        self.pick().map_or(Answer::Refused, Answer::Go)
    }

    fn complete(&mut self, _: Nanos, _: u64, _: &Usage, _: &mut Vec<Settled>) {}

    fn cancel(&mut self, _: Nanos, _: u64, _: &mut Vec<Settled>) {}

    fn reroute(&mut self, _now: Nanos, _turn: u64, _settled: &mut Vec<Settled>) -> Option<u32> {
        self.pick()
    }

    fn set_presence(&mut self, _: Nanos, worker: u32, presence: Presence, _: &mut Vec<Settled>) {
        self.workers.set(worker, presence);
    }
}

/// The worker with the fewest requests in flight; ties go in turn.
#[derive(Debug)]
pub struct LeastLoaded {
    workers: Workers,
    in_flight: Vec<u32>,
    places: HashMap<u64, u32>,
    turn: u64,
}

impl LeastLoaded {
    /// For workers 0 to `workers` - 1.
    #[must_use]
    pub fn new(workers: u32) -> Self {
        Self {
            workers: Workers::new(workers),
            in_flight: vec![0; workers as usize],
            places: HashMap::new(),
            turn: 0,
        }
    }

    fn pick(&mut self, turn: u64) -> Option<u32> {
        let in_flight = &self.in_flight;
        let workers = self.workers.from(self.turn);
        let worker = workers.min_by_key(|&worker| in_flight[worker as usize])?;
        self.turn += 1;
        self.in_flight[worker as usize] += 1;
        self.places.insert(turn, worker);
        Some(worker)
    }

    fn leave(&mut self, turn: u64) {
        if let Some(worker) = self.places.remove(&turn) {
            self.in_flight[worker as usize] -= 1;
        }
    }
}

impl Router for LeastLoaded {
    fn label(&self) -> String {
        "least-loaded".to_owned()
    }

    fn submit(&mut self, _now: Nanos, offer: &Offer<'_>, _settled: &mut Vec<Settled>) -> Answer {
        self.pick(offer.turn).map_or(Answer::Refused, Answer::Go)
    }

    fn complete(&mut self, _now: Nanos, turn: u64, _usage: &Usage, _settled: &mut Vec<Settled>) {
        self.leave(turn);
    }

    fn cancel(&mut self, _now: Nanos, turn: u64, _settled: &mut Vec<Settled>) {
        self.leave(turn);
    }

    fn reroute(&mut self, _now: Nanos, turn: u64, _settled: &mut Vec<Settled>) -> Option<u32> {
        self.leave(turn);
        self.pick(turn)
    }

    fn set_presence(&mut self, _: Nanos, worker: u32, presence: Presence, _: &mut Vec<Settled>) {
        self.workers.set(worker, presence);
    }
}
