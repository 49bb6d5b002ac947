//! The gates on a turn's way, and what is told of those that wait, here or at the policy.
//!
//! A turn comes to its group's gates before admission is asked, and again where admission lets it go
//! while every worker is shut. Costs nothing where a group has no gates; a turn that waits is scored
//! once more, so that its tenant is charged what it really needs computed.

use crate::admission::{
    Ahead, Arrival, Behind, Claimant, ClassState, Clearance, Gates, Refusal, Release, TenantKey,
    Why,
};
use crate::error::{Error, Result};
use crate::id::{GroupId, Micros, ReservationId};
use crate::receipt::{HoldNote, HoldReason, MAX_CANDIDATES};

use super::Scheduler;
use super::place::Seat;
use super::reservation::{Reservation, State};
use super::turn::{Outcome, Settled};

/// Turns that are counted anew before one goes.
const MAX_LOOKS: u32 = 4;

/// A turn that waits, as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its reservation.
    pub reservation: ReservationId,
    /// Its place among those that wait for the same, from 1; 0 when nobody says.
    pub place: u32,
    /// What it waits for.
    pub why: HoldReason,
    /// For how long it has.
    pub waited: Micros,
    /// How much longer that should take, where enough others have waited before.
    pub expected: Option<Micros>,
    /// How urgent it is.
    pub priority: i16,
    /// Which of the queue's classes it waits in, where there are several, from 0.
    pub class: Option<usize>,
}

/// What a held turn waits in, and who goes before it there.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// Nothing: it waits for the owner of its lock.
    Owner,
    /// Those behind its leader; its place there, from 1.
    Leader(Option<usize>),
    /// The queue of its group's gates.
    Gates(Ahead),
    /// That of the policy, where it has one.
    Policy(Option<Ahead>),
}

impl Line {
    /// The turn's place in it, from 1.
    fn place(&self) -> Option<usize> {
        match self {
            Self::Owner => Some(1),
            Self::Leader(place) => *place,
            Self::Gates(ahead) => Some(ahead.place()),
            Self::Policy(ahead) => ahead.as_ref().map(Ahead::place),
        }
    }

    /// Why it waits, where these are why nobody takes it.
    fn reason(&self, refusals: &[Refusal]) -> HoldReason {
        let (ahead, no_room) = match self {
            Self::Owner => return HoldReason::Owner,
            Self::Leader(_) => return HoldReason::Leader,
            Self::Policy(ahead) => (*ahead, HoldReason::Room),
            Self::Gates(ahead) => {
                let waits_for_seat = |r: &Refusal| matches!(r.why, Why::MaxSessions { .. });
                let full = match refusals.iter().any(waits_for_seat) {
                    true => HoldReason::MaxSessions,
                    false => HoldReason::MaxRunning,
                };
                (Some(*ahead), full)
            }
        };
        match ahead.map(|ahead| ahead.behind) {
            Some(Behind::Priority) => HoldReason::Priority,
            Some(Behind::Share) => HoldReason::TenantShare,
            Some(Behind::Earlier) | None => no_room,
        }
    }
}

impl Reservation {
    /// For whom it asks.
    pub(super) fn claimant(&self) -> Claimant {
        Claimant {
            tenant: TenantKey::of(&self.tenant),
            priority: self.priority,
        }
    }
}

impl Scheduler {
    /// Whether the turn has to wait at the gates of its group; it is in their queue then.
    ///
    /// # Errors
    /// `QUEUE_FULL` where it has not waited before and its class has no room.
    pub(super) fn is_stopped_at_gate(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
    ) -> Result<bool> {
        if !self.is_shut(id, turn) {
            return Ok(false);
        }
        let tokens = self.count_for_gate(id, turn);
        if let Some(gates) = &mut self.gates[turn.route.group.index()] {
            if !turn.wait.was_held && !gates.has_room(id, tokens) {
                return Err(Error::queue_full(
                    "as many turns of its class wait as are allowed",
                ));
            }
            gates.hold(id, tokens, Clearance::None);
        }
        Ok(true)
    }

    /// Whether the gates of its group are shut to the turn, which they know of from now on.
    pub(super) fn is_shut(&mut self, id: ReservationId, turn: &Reservation) -> bool {
        let bound = self.bound_to(turn);
        let Some(gates) = &mut self.gates[turn.route.group.index()] else {
            return false;
        };
        let arrival = Arrival {
            program: turn.program,
            pin: turn.route.pin,
            home: None,
            bound,
            claimant: turn.claimant(),
        };
        gates.begin(self.now, id, arrival);
        let is_shut = gates.must_wait(id, &self.load);
        if !self.keeps_to_home(id, turn, is_shut) {
            return is_shut;
        }
        let gates = self.gates[turn.route.group.index()].as_ref();
        gates.is_some_and(|gates| gates.must_wait(id, &self.load))
    }

    /// What has to be computed for the turn where most of it is cached. O(workers).
    fn count_for_gate(&mut self, id: ReservationId, turn: &Reservation) -> u32 {
        match turn.program {
            Some(program) => {
                self.score_for_admission(id, turn, program);
            }
            None => self.placer().score_for(id, turn, None),
        }
        let gates = self.gates[turn.route.group.index()].as_ref();
        if let Some(home) = gates.and_then(|gates| gates.home(id))
            && self.placer().is_home_warm(turn)
        {
            self.scratch.rows.retain(|row| row.worker == home);
        }
        let cached = self.scratch.rows.iter().map(|row| row.cached_tokens());
        let cached = cached.max().unwrap_or(0);
        turn.chain.tokens().saturating_sub(cached)
    }

    /// Where the session of a turn that has come to the gates may stay is looked at again.
    pub(super) fn rebind_at_gate(&mut self, id: ReservationId) {
        let Some(turn) = self.reservations.get(id) else {
            return;
        };
        let (group, bound) = (turn.route.group.index(), self.bound_to(turn));
        if let Some(gates) = &mut self.gates[group] {
            gates.rebind(id, bound);
        }
    }

    /// Whether a turn that the policy has let go waits again, because every worker is shut to it.
    pub(super) fn waits_again(&mut self, group: usize, id: ReservationId) -> bool {
        self.look_at_home(id);
        let gates = self.gates[group].as_ref();
        if gates.is_none_or(|gates| gates.is_open(id, &self.load)) || !self.is_held(id) {
            return false;
        }
        self.wait_cleared(id, Clearance::Anywhere);
        self.note_hold(id);
        true
    }

    /// Whether a turn that the policy holds may only go to its home, which is shut: it waits at the gates from
    /// now on, where it is in nobody's way, and the policy hears of it when it has passed them.
    pub(super) fn goes_back_to_gate(
        &mut self,
        group: usize,
        id: ReservationId,
        releases: &mut Vec<Release>,
    ) -> bool {
        self.look_at_home(id);
        let keeps_out = |gates: &Gates| gates.home(id).is_some() && !gates.is_open(id, &self.load);
        if !self.gates[group].as_deref().is_some_and(keeps_out) {
            return false;
        }
        self.admission[group].cancel(self.now, id, releases);
        self.wait_cleared(id, Clearance::None);
        self.note_hold(id);
        true
    }

    /// The turn waits at the gates, whatever the policy has said.
    fn wait_cleared(&mut self, id: ReservationId, clearance: Clearance) {
        let Some(turn) = self.reservations.remove(id) else {
            return;
        };
        let tokens = self.count_for_gate(id, &turn);
        if let Some(gates) = &mut self.gates[turn.route.group.index()] {
            gates.hold(id, tokens, clearance);
        }
        self.reservations.insert(id, turn);
    }

    /// Where a turn goes that the policy has let go to `seat`. A worker that it names may run as many turns
    /// as are allowed, while others are open. Its session's context is on one where it was before, so it
    /// waits for that; where it has none, another one with room is as good. `None`: it waits at the gates.
    pub(super) fn open_seat(&mut self, id: ReservationId, seat: Seat) -> Option<Seat> {
        let (named, is_kept) = match seat {
            Seat::Kept(worker) => (worker, true),
            Seat::Offered(Some(worker)) => (worker, false),
            Seat::Offered(None) | Seat::Chosen { .. } => return Some(seat),
        };
        let turn = self.reservations.get(id);
        let Some(turn) = turn.filter(|turn| turn.state == State::Held) else {
            return Some(seat);
        };
        let group = turn.route.group.index();
        let Some(gates) = &mut self.gates[group] else {
            return Some(seat);
        };
        if gates.admits(id, named, &self.load) {
            return Some(seat);
        }
        if !is_kept {
            let open = |worker| gates.admits(id, worker, &self.load);
            if let Some(other) = self.admission[group].room_elsewhere(id, open) {
                return Some(Seat::Offered(Some(other)));
            }
        }
        if !gates.wait_for(id, named, &self.load) {
            return Some(seat);
        }
        self.wait_cleared(id, Clearance::To(named));
        None
    }

    /// Whether a turn that the policy holds could go nowhere, so that there is no use in asking.
    pub(super) fn is_blocked_at_gate(&mut self, id: ReservationId) -> bool {
        self.rebind_at_gate(id);
        let Some(turn) = self.reservations.get(id) else {
            return false;
        };
        let Some(gates) = &mut self.gates[turn.route.group.index()] else {
            return false;
        };
        let is_open = gates.is_open(id, &self.load);
        gates.note_policy(is_open);
        !is_open
    }

    /// Takes the next turn that may pass the gates of a group, and says whether the policy has let it go.
    pub(super) fn next_at_gate(&mut self, group: usize) -> Option<(ReservationId, Clearance)> {
        let mut looks = 0;
        loop {
            let mut gates = self.gates[group].take()?;
            let next = gates.next(&self.load, |id| self.bound_to(self.reservations.get(id)?));
            let is_final = next.is_none_or(|next| !next.is_stale || looks == MAX_LOOKS);
            let taken = next.filter(|_| is_final);
            let taken = taken.map(|next| (next.ticket, gates.take(next.ticket, &self.load)));
            self.gates[group] = Some(gates);
            if is_final {
                return taken;
            }
            looks += 1;
            self.count_anew(group, next?.ticket);
        }
    }

    /// What has to be computed for a turn that waits at the gates may be more or less by now.
    pub(super) fn count_anew(&mut self, group: usize, id: ReservationId) {
        let Some(turn) = self.reservations.remove(id) else {
            return;
        };
        let tokens = self.count_for_gate(id, &turn);
        self.reservations.insert(id, turn);
        if let Some(gates) = &mut self.gates[group] {
            gates.count_anew(id, tokens);
        }
    }

    /// A turn has passed the gates: it goes if the policy has said so before, else that is asked now.
    pub(super) fn pass_gate(
        &mut self,
        id: ReservationId,
        clearance: Clearance,
        releases: &mut Vec<Release>,
        settled: &mut Vec<Settled>,
    ) {
        let go = Release {
            ticket: id,
            worker: None,
        };
        let cleared = match clearance {
            Clearance::None => None,
            Clearance::Anywhere => Some(Seat::Offered(None)),
            Clearance::To(worker) => Some(Seat::Offered(Some(worker))),
        };
        if let Some(seat) = cleared {
            return self.send_off(go, seat, releases, settled);
        }
        let Some(turn) = self.reservations.remove(id) else {
            return;
        };
        let group = turn.route.group;
        let mut others = Vec::new();
        let seat = self.begin_admission(id, &turn, &mut others);
        self.reservations.insert(id, turn);
        match seat.map(|seat| self.open_seat(id, seat)) {
            Some(Some(seat)) => self.send_off(go, seat, releases, settled),
            Some(None) => self.note_hold(id),
            None => {
                self.note_hold(id);
                self.relieve(group, &mut others);
            }
        }
        releases.append(&mut others);
    }

    /// The turn is over, or waits for something else.
    pub(super) fn leave_gate(&mut self, group: GroupId, id: ReservationId) {
        if let Some(gates) = &mut self.gates[group.index()] {
            gates.end(self.now, id);
        }
    }

    /// What time has opened is looked at again.
    pub(super) fn pass_time(&mut self, group: usize) {
        if let Some(gates) = &mut self.gates[group] {
            gates.advance(self.now);
            self.admission[group].load_changed();
        }
    }

    /// The turn waits, or waits for something else than before.
    pub(super) fn note_hold(&mut self, id: ReservationId) {
        let Some(turn) = self.reservations.get(id) else {
            return;
        };
        let group = turn.route.group.index();
        let line = self.line_of(id, turn);
        let refusals = self.refusals_now(id, turn, &line);
        let place = u32::try_from(line.place().unwrap_or(0)).unwrap_or(u32::MAX);
        let why = line.reason(&refusals);
        let is_first = !turn.wait.was_held;
        let (class, before) = (self.queue_class(group, id), turn.wait.class);
        if class.is_none() && before.is_some() {
            self.paces[group].went(before, self.now);
        }
        let is_new = is_first || class != before;
        if is_new && self.waiting_in(group, class) <= 1 && why.is_for_worker() {
            self.paces[group].begin(class, self.now);
        }
        let expected = self.expected(group, class, place, why);
        if why.is_for_worker() && self.hard_home(turn).is_some() {
            self.looks.begin(self.now);
        }
        if let Some(turn) = self.reservations.get_mut(id) {
            if is_first {
                turn.wait.hold = HoldNote {
                    place,
                    why: Some(why),
                    expected,
                };
            }
            turn.wait.was_held = true;
            turn.wait.class = class;
            turn.wait.hold.why = Some(why);
            turn.wait.refusals.extend(refusals);
            turn.wait.refusals.truncate(MAX_CANDIDATES);
        }
        self.counters.held += u64::from(is_first);
        self.tally.held(why);
    }

    /// A turn that has waited goes, or can go nowhere.
    pub(super) fn note_end_of_hold(&mut self, id: ReservationId, outcome: &Outcome, held: Micros) {
        self.tally.hold_ended(outcome, held);
        if let (Outcome::Go(_), Some(turn)) = (outcome, self.reservations.get(id)) {
            let class = turn.wait.class;
            self.paces[turn.route.group.index()].went(class, self.now);
        }
    }

    /// How much longer a turn waits, by the pace of those of its class that wait for a worker.
    fn expected(
        &self,
        group: usize,
        class: Option<usize>,
        place: u32,
        why: HoldReason,
    ) -> Option<Micros> {
        let pace = Some(&self.paces[group]).filter(|_| why.is_for_worker());
        pace?.expected(class, place, self.now)
    }

    /// Which class of its group's queue a turn waits in, if that has classes.
    fn queue_class(&self, group: usize, id: ReservationId) -> Option<usize> {
        if self.config.queue.classes.is_empty() {
            return None;
        }
        self.gates[group].as_ref()?.class(id)
    }

    /// Turns of the group that wait for a worker in that class of its queue, or in none.
    fn waiting_in(&self, group: usize, class: Option<usize>) -> usize {
        let in_none = self.admission[group].waiting();
        let Some(gates) = &self.gates[group] else {
            return in_none;
        };
        match class {
            Some(class) => gates.waiting_of(class),
            None if self.config.queue.classes.is_empty() => in_none + gates.waiting(),
            None => in_none,
        }
    }

    /// What a held turn waits in.
    fn line_of(&self, id: ReservationId, turn: &Reservation) -> Line {
        if turn.route.is_waiting {
            return Line::Owner;
        }
        if let Some(leader) = turn.wait.following {
            return Line::Leader(self.place_behind(leader, id));
        }
        let group = turn.route.group.index();
        let gates = self.gates[group].as_ref();
        let at_gates = gates.and_then(|gates| gates.ahead(id));
        at_gates.map_or_else(
            || Line::Policy(self.admission[group].ahead(id)),
            Line::Gates,
        )
    }

    /// The place of a held turn in what it waits in, from 1; at least that, where it is far behind.
    #[must_use]
    pub fn hold_position(&self, id: ReservationId) -> Option<usize> {
        let turn = self.reservations.get(id)?;
        self.line_of(id, turn).place()
    }

    /// Why nobody takes the turn, where the rows are those that it was scored by.
    fn refusals_now(&self, id: ReservationId, turn: &Reservation, line: &Line) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let group = turn.route.group.index();
        match (line, &self.gates[group]) {
            (Line::Gates(_), Some(gates)) => gates.refusals(id, &self.load, &mut refusals),
            (Line::Policy(_), _) if self.admission[group].is_held(id) => {
                self.admission[group].refusals(id, &self.scratch.rows, &mut refusals);
            }
            _ => {}
        }
        refusals
    }

    /// How a turn waits at the moment; `None` when it does not.
    #[must_use]
    pub fn held(&self, id: ReservationId) -> Option<Held> {
        let turn = self.reservations.get(id)?;
        if turn.state != State::Held {
            return None;
        }
        let group = turn.route.group.index();
        let line = self.line_of(id, turn);
        let class = self.queue_class(group, id);
        let place = u32::try_from(line.place().unwrap_or(0)).unwrap_or(u32::MAX);
        let why = line.reason(&turn.wait.refusals);
        Some(Held {
            reservation: id,
            place,
            why,
            waited: self.now.since(turn.since),
            expected: self.expected(group, class, place, why),
            priority: turn.priority,
            class,
        })
    }

    /// The classes of the queue before the gates, over all groups. O(groups).
    #[must_use]
    pub fn queue_classes(&self) -> Vec<ClassState<'_>> {
        let named = self.config.queue.classes.iter();
        let mut classes: Vec<_> = named.map(|class| ClassState::empty(&class.name)).collect();
        for gates in self.gates.iter().flatten() {
            for (sum, class) in classes.iter_mut().zip(gates.classes()) {
                sum.waiting += class.waiting;
                sum.refused += class.refused;
            }
        }
        classes
    }

    /// The turns that have waited longest, at most `most`. O(turns): for reports.
    #[must_use]
    pub fn longest_held(&self, most: usize) -> Vec<Held> {
        let held = self.reservations.held_where(|_| true);
        held.into_iter()
            .take(most)
            .filter_map(|id| self.held(id))
            .collect()
    }

    /// Who a turn belongs to: its tenant, and its session's name where it has one.
    #[must_use]
    pub fn holder(&self, id: ReservationId) -> Option<(&str, String)> {
        let turn = self.reservations.get(id)?;
        let session = self.sessions.get(turn.session);
        Some((
            &turn.tenant,
            session.map(super::record::called).unwrap_or_default(),
        ))
    }
}
