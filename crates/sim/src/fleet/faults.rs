//! Mishaps: workers that die, clients that lose patience. All seeded.
//!
//! Each kind draws from a stream of its own, so turning one on leaves the others as they were.
use super::agenda::{Agenda, Item};
use super::config::{FleetConfig, Outages, Patience};
use crate::event::Nanos;
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct Faults {
    outages: Option<Outages>,
    patience: Option<Patience>,
    deaths: Random,
    clients: Random,
}

impl Faults {
    /// Enters the first death of each worker.
    pub(crate) fn new(config: &FleetConfig, agenda: &mut Agenda) -> Self {
        let mut faults = Self {
            outages: config.outages,
            patience: config.patience,
            deaths: Random::fork(config.seed, 2),
            clients: Random::fork(config.seed, 3),
        };
        for worker in 0..config.workers {
            faults.came_back(0, worker, agenda);
        }
        faults
    }

    /// How long the next client waits for its first token.
    pub(crate) fn patience(&mut self) -> Option<Nanos> {
        Some(match self.patience? {
            Patience::Exactly(time) => time,
            Patience::About(mean) => (mean as f64 * (0.5 + self.clients.unit())) as Nanos,
        })
    }

    /// A worker has died: when it comes back.
    pub(crate) fn died(&mut self, now: Nanos, worker: u32, agenda: &mut Agenda) {
        if let Some(outages) = self.outages {
            agenda.add(now.saturating_add(outages.down), Item::Return(worker));
        }
    }

    /// A worker is up: when it dies next.
    pub(crate) fn came_back(&mut self, now: Nanos, worker: u32, agenda: &mut Agenda) {
        if let Some(outages) = self.outages {
            let life = self.deaths.exponential(outages.every as f64) as Nanos;
            agenda.add(
                now.saturating_add(life).saturating_add(1),
                Item::Die(worker),
            );
        }
    }
}
