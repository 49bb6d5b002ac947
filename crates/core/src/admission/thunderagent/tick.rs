//! What a tick does: programs come back, are forced back, lose room, are forgotten.
//!
//! Programs come back before others are paused, so that nobody does both in one tick. Knows
//! nothing of how a turn starts. O(workers + what it changes), and O(acting programs) in a tick
//! that forces somebody.
use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Step;
use super::program::ResumeGroup;
use crate::{Micros, ProgramId, WorkerId};

/// Rooms of the live workers, most first, then the lowest id.
type Rooms = BTreeSet<(Reverse<u64>, WorkerId)>;

impl Step<'_> {
    /// One tick, in the order of the published controller.
    pub(super) fn tick(&mut self) {
        self.table.look();
        self.expire();
        self.resume();
        self.force();
        self.shed();
    }

    /// Forgets programs that have been idle for the retention.
    fn expire(&mut self) {
        while let Some(&(since, id)) = self.table.orders.idle.first() {
            if self.now.since(since) < self.table.config.retention {
                break;
            }
            self.table.forget(id);
            self.counters.expired += 1;
        }
    }

    /// Brings paused programs back where there is room below the ceiling.
    fn resume(&mut self) {
        if self.table.orders.resume.is_empty() {
            return;
        }
        let buffer = u64::from(self.table.config.buffer_tokens);
        self.resume_pinned();
        let mut rooms = self.rooms(false);
        for (Reverse(tokens), id) in self.choose(&rooms) {
            let need = u64::from(tokens) + buffer;
            let pin = self.table.current(id).and_then(|turn| turn.begin.pin);
            if let Some(worker) = take_room(&mut rooms, need, buffer, pin) {
                self.counters.resumes += 1;
                self.bring_back(id, Some(worker));
            }
        }
    }

    /// Brings paused programs back to a pin that leaves, where there is room; the others cannot go there.
    fn resume_pinned(&mut self) {
        let buffer = u64::from(self.table.config.buffer_tokens);
        let mut rooms = self.rooms(true);
        if rooms.is_empty() {
            return;
        }
        let paused: Vec<_> = self.table.orders.resume.iter().copied().collect();
        for (_, tokens, id) in paused {
            let need = u64::from(tokens) + buffer;
            let pin = self.table.current(id).and_then(|turn| turn.begin.pin);
            if pin.is_some()
                && let Some(worker) = take_room(&mut rooms, need, buffer, pin)
            {
                self.counters.resumes += 1;
                self.bring_back(id, Some(worker));
            }
        }
    }

    /// What is worth giving of the workers that leave, or of the others.
    fn rooms(&self, leaving: bool) -> Rooms {
        let buffer = u64::from(self.table.config.buffer_tokens);
        let rooms = self.table.orders.ledger.rooms(leaving);
        let roomy = rooms.filter(|&(_, room)| room > buffer);
        roomy.map(|(id, room)| (Reverse(room), id)).collect()
    }

    /// The programs that would fit all rooms taken together, in the order of coming back; returned
    /// largest first. Within a group needs only grow, so the first that does not fit ends it.
    fn choose(&self, rooms: &Rooms) -> BTreeSet<(Reverse<u32>, ProgramId)> {
        let buffer = u64::from(self.table.config.buffer_tokens);
        let total = rooms
            .iter()
            .fold(0, |sum: u64, &(Reverse(room), _)| sum.saturating_add(room));
        let mut taken = 0;
        let mut chosen = BTreeSet::new();
        for group in ResumeGroup::ALL {
            let first = (group, 0, ProgramId(0));
            let last = (group, u32::MAX, ProgramId(u64::MAX));
            for &(_, tokens, id) in self.table.orders.resume.range(first..=last) {
                let sum = taken + u64::from(tokens) + buffer;
                if sum > total {
                    break;
                }
                taken = sum;
                chosen.insert((Reverse(tokens), id));
            }
        }
        chosen
    }

    /// Makes a paused program active and lets its current turn go to `worker`; it is charged there
    /// unless that is a pin to a worker that has died.
    fn bring_back(&mut self, id: ProgramId, worker: Option<WorkerId>) {
        let home = worker.filter(|&w| self.table.orders.ledger.may_serve(w));
        self.table.edit(id, |program| program.resume(home));
        if let Some(ticket) = self.table.current(id).map(|turn| turn.begin.ticket) {
            self.table.release(ticket, worker, self.out);
        }
    }

    /// Brings back programs whose turn has been held for the timeout, whatever the load.
    fn force(&mut self) {
        let timeout = self.table.config.resume_timeout;
        let mut spare: Option<Vec<(WorkerId, i128)>> = None;
        while let Some(&(since, id)) = self.table.orders.held.first() {
            if self.now.since(since) < timeout {
                break;
            }
            let mut known = spare.take().unwrap_or_else(|| self.decayed_spare());
            self.force_one(id, &mut known);
            spare = Some(known);
        }
    }

    /// Brings back the program whose turn has been held longest, whatever the load.
    pub(super) fn relieve(&mut self) {
        if let Some(&(_, id)) = self.table.orders.held.first() {
            let mut spare = self.decayed_spare();
            self.force_one(id, &mut spare);
        }
    }

    /// Brings a program back to its pin, or to the worker with most spare capacity; anywhere when
    /// no worker is live.
    fn force_one(&mut self, id: ProgramId, spare: &mut [(WorkerId, i128)]) {
        let need = i128::from(self.table.need(id));
        let pin = self.table.current(id).and_then(|turn| turn.begin.pin);
        let ledger = &self.table.orders.ledger;
        let open = spare.iter().filter(|(w, _)| !ledger.is_leaving(*w));
        let most = open.max_by_key(|&&(w, free)| (free, Reverse(w)));
        let worker = pin.or(most.map(|&(w, _)| w));
        if let Some((_, free)) = spare.iter_mut().find(|(w, _)| Some(*w) == worker) {
            *free -= need;
        }
        self.counters.forced += 1;
        self.bring_back(id, worker);
    }

    /// Spare capacity of each live worker when an idle context counts less the longer it is idle.
    /// O(acting programs), paid only by a tick that forces somebody.
    fn decayed_spare(&self) -> Vec<(WorkerId, i128)> {
        let spare = self.table.orders.ledger.spare();
        spare
            .map(|(id, free, acting)| (id, free + acting.map(|p| self.faded(p)).sum::<i128>()))
            .collect()
    }

    /// The tokens of an acting program's charge that idleness has taken off.
    fn faded(&self, id: ProgramId) -> i128 {
        let Some(program) = self.table.program(id) else {
            return 0;
        };
        let config = &self.table.config;
        let idle = program.idle_since.map_or(Micros(0), |s| self.now.since(s));
        let half_lives = idle.0 as f64 / config.acting_half_life.0 as f64;
        let weighted = config.weighted(program.charged);
        let left = libm::floor(weighted as f64 * libm::exp2(-half_lives)) as u64;
        i128::from(weighted - left.min(weighted))
    }

    /// Takes room from programs on workers above the threshold: idle ones by size, then marks.
    fn shed(&mut self) {
        let over: Vec<WorkerId> = self.table.orders.ledger.over().iter().copied().collect();
        for worker in over {
            while self.table.orders.ledger.above_target(worker) {
                let Some(id) = self.table.orders.ledger.smallest_acting(worker) else {
                    break;
                };
                self.table.edit(id, |program| program.pause());
                self.counters.pauses += 1;
            }
            if !self.table.orders.ledger.above_target(worker) {
                continue;
            }
            while let Some(id) = self.table.orders.ledger.unmarked(worker) {
                self.table.edit(id, |program| program.state.marked = true);
                self.counters.marks += 1;
            }
        }
    }
}

/// Takes `need` from the largest room, or from the pin's; drops a room that is used up.
fn take_room(rooms: &mut Rooms, need: u64, buffer: u64, pin: Option<WorkerId>) -> Option<WorkerId> {
    let found = match pin {
        None => rooms.first(),
        Some(pin) => rooms.iter().find(|&&(_, id)| id == pin),
    };
    let &(Reverse(room), worker) = found.filter(|(Reverse(room), _)| *room >= need)?;
    rooms.remove(&(Reverse(room), worker));
    let left = room - need;
    if left > buffer {
        rooms.insert((Reverse(left), worker));
    }
    Some(worker)
}
