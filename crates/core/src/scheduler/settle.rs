//! How turns end, and what their ends set free.
//!
//! Whatever way a turn ends, it leaves the table of reservations first; only the call that takes it
//! out settles it, so a second end, or one that comes after a cancel, finds nothing and changes
//! nothing. Holds that the end releases are placed in the same call.

use crate::admission::{End, Release, Waits};
use crate::continuity::{IdKind, Owner};
use crate::id::{GroupId, Micros, ReservationId, WorkerId};
use crate::receipt::{Ending, FollowEnd, Reported};
use crate::session::Phase;

use super::place::Seat;
use super::reservation::{Reservation, State};
use super::tally::HoldEnd;
use super::turn::{Completion, Outcome, Settled, TurnKind};
use super::waiting::Stranded;
use super::{Health, Scheduler};

/// Whether a call found its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It did, and the turn has ended by it.
    Ended,
    /// The turn had ended before, or never was.
    Late,
}

impl Found {
    /// Whether the turn has ended by this call.
    #[must_use]
    pub fn is_ended(self) -> bool {
        self == Self::Ended
    }
}

/// How a turn ends that its caller takes back, and its hold if it is held.
const WITHDRAWN: (Ending, HoldEnd) = (Ending::Cancelled, HoldEnd::Cancelled);

impl Scheduler {
    /// The first token of the answer has come.
    pub fn first_token(&mut self, now: Micros, id: ReservationId, settled: &mut Vec<Settled>) {
        self.advance(now, settled);
        let Some(reservation) = self.reservations.get_mut(id) else {
            self.counters.late_calls += 1;
            return;
        };
        reservation.has_token = true;
        let group = reservation.route.group.index();
        for entered in reservation.entered.drain(..) {
            self.prefix.confirm(&reservation.chain, &entered);
        }
        self.load.first_token(id);
        self.time_first_token(id);
        self.admission[group].first_token(self.now, id);
        self.release(group, Vec::new(), settled);
        self.end_lead(id, FollowEnd::Read, settled);
    }

    /// The context of a turn has grown to `context_tokens`.
    pub fn progress(
        &mut self,
        now: Micros,
        id: ReservationId,
        context_tokens: u32,
        settled: &mut Vec<Settled>,
    ) {
        self.advance(now, settled);
        match self.reservations.get(id) {
            Some(reservation) => {
                self.admission[reservation.route.group.index()].progress(
                    self.now,
                    id,
                    context_tokens,
                );
            }
            None => self.counters.late_calls += 1,
        }
    }

    /// The answer has come to its end. Real figures replace the estimate, the session's phase
    /// follows from the answer, and what the turn held goes to those who wait.
    pub fn complete(
        &mut self,
        now: Micros,
        id: ReservationId,
        completion: &Completion<'_>,
        settled: &mut Vec<Settled>,
    ) -> Found {
        self.advance(now, settled);
        let Some(mut reservation) = self.reservations.remove(id) else {
            self.counters.late_calls += 1;
            return Found::Late;
        };
        let State::Running { worker, receipt } = reservation.state else {
            // Nobody can have answered a held turn.
            self.tally.unanswered(&reservation, WITHDRAWN, self.now);
            self.undo(id, reservation, Ending::Cancelled, settled);
            return Found::Ended;
        };
        self.counters.completed += 1;
        self.tally.reported(&completion.reported);
        self.learn_times(&reservation, worker, &sound(completion.reported));
        self.load.end(id);
        for entered in reservation.entered.drain(..) {
            self.prefix.confirm(&reservation.chain, &entered);
        }
        self.learn(&reservation, worker, completion);
        self.write_ending(receipt, Ending::Completed(completion.reported));
        let mut releases = Vec::new();
        let group = reservation.route.group;
        let admission = &mut self.admission[group.index()];
        match reservation.program {
            Some(_) => admission.complete(self.now, id, end_of(completion), &mut releases),
            None => admission.load_changed(),
        }
        let phase = completion.phase.or(Some(Phase::Reasoning));
        self.leave_session(&reservation, phase);
        self.leave_gate(group, id);
        self.reservations.recycle(reservation);
        self.relieve(group, &mut releases);
        self.release(group.index(), releases, settled);
        self.end_lead(id, FollowEnd::Read, settled);
        Found::Ended
    }

    /// The turn will not be answered: the client left, or nobody wants it any more. Held or sent, it
    /// occupies nothing afterwards.
    pub fn cancel(&mut self, now: Micros, id: ReservationId, settled: &mut Vec<Settled>) -> Found {
        self.end_unanswered(now, id, WITHDRAWN, settled)
    }

    /// The turn was not answered, because the upstream failed. As [`Scheduler::cancel`], but for what its
    /// receipt says.
    pub fn fail(&mut self, now: Micros, id: ReservationId, settled: &mut Vec<Settled>) -> Found {
        let how = (Ending::Failed, HoldEnd::Cancelled);
        self.end_unanswered(now, id, how, settled)
    }

    /// Whoever has asked for the turn has closed. As [`Scheduler::cancel`], but for how a hold has ended.
    pub fn close_turn(
        &mut self,
        now: Micros,
        id: ReservationId,
        settled: &mut Vec<Settled>,
    ) -> Found {
        let how = (Ending::Cancelled, HoldEnd::Closed);
        self.end_unanswered(now, id, how, settled)
    }

    fn end_unanswered(
        &mut self,
        now: Micros,
        id: ReservationId,
        how: (Ending, HoldEnd),
        settled: &mut Vec<Settled>,
    ) -> Found {
        self.advance(now, settled);
        let Some(reservation) = self.reservations.remove(id) else {
            self.counters.late_calls += 1;
            return Found::Late;
        };
        self.tally.unanswered(&reservation, how, self.now);
        self.undo(id, reservation, how.0, settled);
        Found::Ended
    }

    /// Ends every hold; for a scheduler that is being closed. Turns in flight go on.
    pub fn close(&mut self, now: Micros, settled: &mut Vec<Settled>) {
        self.advance(now, settled);
        for id in self.reservations.held_where(|_| true) {
            self.fail_hold(id, Outcome::Closed, settled);
        }
    }

    /// Places the turns that `group`'s admission has let go, those that their failures let go, and
    /// those that may go now that something has changed.
    pub(super) fn release(
        &mut self,
        group: usize,
        mut releases: Vec<Release>,
        settled: &mut Vec<Settled>,
    ) {
        self.leave_paused(group);
        let mut next = 0;
        loop {
            while let Some(release) = releases.get(next).copied() {
                next += 1;
                if self.waits_again(group, release.ticket) {
                    continue;
                }
                match self.open_seat(release.ticket, Seat::Offered(release.worker)) {
                    Some(seat) => self.send_off(release, seat, &mut releases, settled),
                    None => self.note_hold(release.ticket),
                }
            }
            if let Some(ticket) = self.admission[group].head() {
                if self.goes_back_to_gate(group, ticket, &mut releases) {
                    continue;
                }
                if let Some(release) = self.look_again(ticket) {
                    let seat = Seat::Chosen {
                        worker: release.worker,
                        is_home: false,
                    };
                    self.send_off(release, seat, &mut releases, settled);
                }
            } else if let Some((ticket, clearance)) = self.next_at_gate(group) {
                self.pass_gate(ticket, clearance, &mut releases, settled);
            } else {
                break;
            }
        }
        self.leave_paused(group);
        self.admission[group].take_hints(&mut self.hints);
    }

    /// Asks admission about a held turn again, with what its workers have now.
    fn look_again(&mut self, ticket: ReservationId) -> Option<Release> {
        if self.is_blocked_at_gate(ticket) {
            return None;
        }
        let turn = self.reservations.remove(ticket)?;
        if let Some(program) = turn.program {
            self.score_for_admission(ticket, &turn, program);
        }
        let mut own = Vec::new();
        let admission = &mut self.admission[turn.route.group.index()];
        admission.offer(self.now, ticket, &self.scratch.rows, &mut own);
        self.reservations.insert(ticket, turn);
        own.pop()
    }

    /// Places a held turn that may go, and says so.
    pub(super) fn send_off(
        &mut self,
        release: Release,
        seat: Seat,
        releases: &mut Vec<Release>,
        settled: &mut Vec<Settled>,
    ) {
        let id = release.ticket;
        let Some(held) = self.held_for(id) else {
            return;
        };
        let outcome = match self.place(id, seat) {
            Ok(placement) => Outcome::Go(placement),
            Err(_) => match self.stranded(id) {
                Stranded::Waits => {
                    self.leave_admission(id, releases);
                    self.wait_for_owner(id);
                    return;
                }
                Stranded::Ends(outcome) => {
                    if let Some(reservation) = self.reservations.remove(id) {
                        self.withdraw(id, reservation, Ending::Cancelled, releases);
                    }
                    outcome
                }
            },
        };
        self.note_end_of_hold(id, &outcome, held);
        settled.push(Settled {
            reservation: id,
            outcome,
            held,
        });
    }

    /// Lets the turn that has waited longest go when nothing of the group is running: whatever the
    /// policy waits for, it is not the end of a turn.
    pub(super) fn relieve(&mut self, group: GroupId, releases: &mut Vec<Release>) {
        let is_idle = self.reservations.running(group) == 0 && releases.is_empty();
        if is_idle && self.topology.up(group).next().is_some() {
            self.admission[group.index()].relieve(self.now, releases);
        }
    }

    /// A turn that was taken in and cannot go anywhere leaves as if it had never come.
    pub(super) fn abandon(&mut self, id: ReservationId, settled: &mut Vec<Settled>) {
        if let Some(reservation) = self.reservations.remove(id) {
            self.undo(id, reservation, Ending::Cancelled, settled);
        }
    }

    /// Fails the holds whose limit has passed. O(turns held) each, for their places.
    pub(super) fn expire_holds(&mut self, settled: &mut Vec<Settled>) {
        while let Some(&(at, id)) = self.deadlines.front() {
            if at > self.now && self.held_for(id).is_some() {
                return;
            }
            self.deadlines.pop_front();
            let expected = self.held(id).and_then(|held| held.expected);
            self.fail_hold(id, Outcome::HoldLimit(expected), settled);
        }
    }

    /// Ends a hold with `outcome`; does nothing when the turn is not held.
    pub(super) fn fail_hold(
        &mut self,
        id: ReservationId,
        outcome: Outcome,
        settled: &mut Vec<Settled>,
    ) {
        let Some(held) = self.held_for(id) else {
            return;
        };
        if let Some(reservation) = self.reservations.remove(id) {
            self.tally.hold_ended(&outcome, held);
            settled.push(Settled {
                reservation: id,
                outcome,
                held,
            });
            self.undo(id, reservation, Ending::Cancelled, settled);
        }
    }

    /// How long the turn has been held; `None` when it is not.
    fn held_for(&self, id: ReservationId) -> Option<Micros> {
        let reservation = self.reservations.get(id)?;
        (reservation.state == State::Held).then(|| self.now.since(reservation.since))
    }

    /// Takes a reservation's traces out of the rooms, and lets those go that this makes room for.
    fn undo(
        &mut self,
        id: ReservationId,
        reservation: Reservation,
        ending: Ending,
        settled: &mut Vec<Settled>,
    ) {
        let mut releases = Vec::new();
        let group = reservation.route.group;
        self.withdraw(id, reservation, ending, &mut releases);
        self.relieve(group, &mut releases);
        self.release(group.index(), releases, settled);
        self.end_lead(id, FollowEnd::Failed, settled);
    }

    /// Takes a reservation's traces out of the rooms, and counts it as ended.
    fn withdraw(
        &mut self,
        id: ReservationId,
        mut reservation: Reservation,
        ending: Ending,
        releases: &mut Vec<Release>,
    ) {
        self.counters.cancelled += 1;
        self.stop_following(id, &mut reservation);
        self.placer().take_back(&mut reservation);
        if let State::Running { receipt, .. } = reservation.state {
            self.load.end(id);
            self.write_ending(receipt, ending);
        }
        let group = reservation.route.group;
        let admission = &mut self.admission[group.index()];
        match reservation.program {
            Some(_) => admission.cancel(self.now, id, releases),
            None => admission.load_changed(),
        }
        self.leave_session(&reservation, None);
        self.leave_gate(group, id);
        self.reservations.recycle(reservation);
    }

    /// Ends the turn in its session; the session too when this was its last turn.
    fn leave_session(&mut self, reservation: &Reservation, phase: Option<Phase>) {
        let mut left = Vec::new();
        let (session, program) = (reservation.session, reservation.program);
        self.sessions
            .end(self.now, session, program, phase, &mut left);
        if reservation.kind == TurnKind::Final && phase.is_some() {
            self.sessions.remove(reservation.session, &mut left);
        }
        self.forget_programs(&left);
    }

    /// What an answer teaches: who owns which id, how long a text is in tokens, and what the
    /// worker's cache really held.
    fn learn(&mut self, turn: &Reservation, worker: WorkerId, completion: &Completion<'_>) {
        let owner = Owner {
            target: turn.route.target,
            worker,
        };
        let tenant = &turn.tenant;
        for id in completion.tool_calls.iter() {
            self.owners.learn(tenant, IdKind::ToolCall, id, owner);
        }
        for id in completion.state.iter() {
            self.owners.learn(tenant, IdKind::State, id, owner);
        }
        let reported = sound(completion.reported);
        if let (Some(program), Some(tokens)) = (turn.program, reported.completion_tokens) {
            self.chooser.answered(program, tokens);
        }
        if let Some(tokens) = reported.prompt_tokens.filter(|_| turn.text_bytes > 0) {
            let group = &mut self.topology.groups[turn.route.group.index()];
            group.rate.observe(u64::from(turn.text_bytes), tokens);
        }
        let is_known = self
            .topology
            .worker(worker)
            .is_ok_and(|worker| worker.health != Health::Removed);
        if is_known {
            self.placer().correct_prediction(turn, &reported);
            self.listener().compare_with_events(turn, worker, &reported);
        }
    }

    fn write_ending(&mut self, receipt: u64, ending: Ending) {
        if let Some(receipt) = self.receipts.get_mut(receipt) {
            receipt.ending = ending;
        }
    }
}

/// How the turn ended, as admission sees it.
fn end_of(completion: &Completion<'_>) -> End {
    End {
        context_tokens: context_tokens(&completion.reported),
        waits: match completion.phase {
            Some(Phase::Acting) => Waits::Tool,
            Some(Phase::Reasoning) => Waits::Person,
            None => Waits::Unknown,
        },
    }
}

/// The context that the turn has left behind; unknown unless the engine said how long the prompt was.
fn context_tokens(reported: &Reported) -> Option<u32> {
    let prompt = reported.prompt_tokens?;
    Some(prompt.saturating_add(reported.completion_tokens.unwrap_or(0)))
}

/// Without figures of the prompt that contradict each other.
fn sound(reported: Reported) -> Reported {
    match (reported.cached_tokens, reported.prompt_tokens) {
        (Some(cached), Some(prompt)) if cached > prompt => Reported {
            cached_tokens: None,
            prompt_tokens: None,
            ..reported
        },
        _ => reported,
    }
}
