//! Messages of caches on their way: what leaves an engine, and what the router does about what arrives.
use super::agenda::Item;
use super::run::Fleet;
use super::tidings::Parcel;
use crate::event::Nanos;
use crate::router::CacheChange;

impl Fleet<'_> {
    /// A message of one worker's cache leaves for the router.
    pub(super) fn send(&mut self, worker: u32, changes: &mut Vec<CacheChange>) {
        if !changes.is_empty() {
            let changes = std::mem::take(changes);
            let parcel = self.tidings.publish(self.now, worker, changes);
            self.deliver(parcel);
        }
    }

    /// What arrives now is told at once.
    pub(super) fn deliver(&mut self, parcel: Option<(Nanos, Parcel)>) {
        match parcel {
            Some((at, parcel)) if at <= self.now => self.tell(&parcel),
            Some((at, parcel)) => self.agenda.add(at, Item::Deliver(parcel)),
            None => {}
        }
    }

    pub(super) fn tell(&mut self, parcel: &Parcel) {
        if !self.tidings.arrived(parcel) {
            return;
        }
        let (now, worker) = (self.now, parcel.worker);
        let asked = match (parcel.is_replay, &*parcel.messages) {
            (false, [message]) => self.router.hear(now, worker, message),
            _ => self.router.hear_again(now, worker, &parcel.messages),
        };
        let Some(from) = asked else {
            return;
        };
        if let Some((at, life)) = self.tidings.asked(now, worker) {
            self.agenda.add(at, Item::TellAgain { worker, life, from });
        }
    }
}
