//! Turns that are lost on their way: clients that leave, workers that die and come back.
//!
//! Whoever loses a turn tells the router, and what the router does about it is followed at once. A turn
//! that nobody takes goes back to its client, who asks again as if it were new; its waits count from
//! the first time on.
use super::agenda::Item;
use super::live::{Live, Whereabouts};
use super::run::Fleet;
use crate::event::Nanos;
use crate::router::Presence;

/// A client whose turn was lost asks again after this.
const ASK_AGAIN: Nanos = 1_000_000_000;

impl Fleet<'_> {
    /// The client leaves if it has not seen a token yet.
    pub(super) fn give_up(&mut self, id: u64) {
        let waits = |live: &Live| live.times.first_token.is_none();
        let Some(live) = self.live.get(&id).copied().filter(waits) else {
            return;
        };
        self.live.remove(&id);
        let is_held = live.at == Whereabouts::Router;
        self.meter.given_up(self.now, &live.times, is_held);
        if let Whereabouts::Worker(worker) = live.at {
            let mut events = std::mem::take(&mut self.scratch.events);
            let content = &mut self.content;
            self.engines
                .cancel(worker, self.now, id, content, &mut events);
            self.hear(worker, events);
        }
        self.over(&live);
        // Of a turn that was lost the router knows nothing any more.
        if live.at != Whereabouts::Client {
            self.router.cancel(self.now, id, &mut self.settled);
            self.follow();
        }
    }

    pub(super) fn die(&mut self, worker: u32) {
        self.engines.die(worker, self.now, &mut self.content);
        self.tidings.died(worker);
        self.faults.died(self.now, worker, &mut self.agenda);
        self.router
            .set_presence(self.now, worker, Presence::Down, &mut self.settled);
        self.follow();
        let is_lost = |live: &Live| live.at == Whereabouts::Worker(worker);
        let lost = self.live.iter().filter(|(_, live)| is_lost(live));
        let mut lost: Vec<u64> = lost.map(|(id, _)| *id).collect();
        lost.sort_unstable();
        for id in lost {
            self.tidings.left(id);
            self.fail_over(id);
        }
    }

    /// The worker of this turn has died: the router may send it elsewhere before its first token.
    fn fail_over(&mut self, id: u64) {
        let Some(live) = self.live.get(&id) else {
            return;
        };
        if live.times.first_token.is_some() {
            self.router.cancel(self.now, id, &mut self.settled);
            self.lose(id);
        } else {
            match self.router.reroute(self.now, id, &mut self.settled) {
                Some(worker) => {
                    self.meter.counts.retried += 1;
                    self.place(id, worker);
                }
                None => self.lose(id),
            }
        }
        self.follow();
    }

    /// The router has let go of the turn; its client asks again.
    pub(super) fn lose(&mut self, id: u64) {
        if let Some(live) = self.live.get_mut(&id) {
            live.at = Whereabouts::Client;
            let at = self.now.saturating_add(ASK_AGAIN);
            self.agenda.add(at, Item::AskAgain(id));
        }
    }

    pub(super) fn ask_again(&mut self, id: u64) {
        if let Some(live) = self.live.remove(&id) {
            self.meter.counts.retried += 1;
            self.ask(live);
        }
    }

    pub(super) fn come_back(&mut self, worker: u32) {
        self.engines.come_back(worker, self.now, &mut self.content);
        self.faults.came_back(self.now, worker, &mut self.agenda);
        self.router
            .set_presence(self.now, worker, Presence::Up, &mut self.settled);
        self.follow();
    }
}
