//! Which worker a turn is drawn to, whether that one is still warm, and what it may weigh.
//!
//! Asked after every score, and once more when the turn is placed. A home is warm while its cache has more of
//! the prompt than what other sessions need too; the worker of a parent is while it has more than some other
//! worker. O(runs on the prompt's way + workers of the group), and O(1) where affinity is off.

use crate::affinity::{AffinityNote, Came, Mode, Tie};
use crate::block::Chain;
use crate::id::{GroupId, ProgramId, WorkerId};
use crate::receipt::Candidate;
use crate::session::{Session, SessionId};

use super::place::Placer;
use super::reservation::Reservation;
use super::scoring::with_stay;
use super::topology::Health;

/// The worker that a turn is drawn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    worker: WorkerId,
    tie: Tie,
    /// Tokens of the prompt that it has beyond what is no reason to stay; `None` when it has no row.
    warm_tokens: Option<u32>,
}

impl Draw {
    /// Whether it is the chain's own home, and has something of it.
    pub(super) fn is_warm(&self) -> bool {
        self.tie == Tie::Own && self.warm_tokens.is_some_and(|tokens| tokens > 0)
    }

    /// Whether it is the chain's own home, and could take the turn, but has nothing of it.
    pub(super) fn is_cold(&self) -> bool {
        self.tie == Tie::Own && self.warm_tokens == Some(0)
    }
}

/// The session of a turn, as far as its worker goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose {
    pub(super) program: ProgramId,
    pub(super) session: SessionId,
    /// Whether it has a loop of tool calls open.
    pub(super) is_in_loop: bool,
    /// The worker that has called the tools whose results come, where that may matter.
    pub(super) answers_to: Option<WorkerId>,
}

impl Reservation {
    /// Whose turn it is; `None` where its session is not followed.
    pub(super) fn whose(&self) -> Option<Whose> {
        Some(Whose {
            program: self.program?,
            session: self.session,
            is_in_loop: self.is_in_loop,
            answers_to: self.answers_to,
        })
    }
}

impl Placer<'_> {
    /// Lets the worker that a turn is drawn to weigh in the rows of the last score, which was of `chain`
    /// in `group`.
    pub(super) fn draw_home(&mut self, whose: Option<&Whose>, chain: &Chain, group: GroupId) {
        self.scratch.draw = None;
        if self.config.affinity.mode == Mode::Off {
            return;
        }
        self.scratch.draw = whose.and_then(|whose| {
            let to = self.home(whose.program, whose.session)?;
            Some(self.weigh(whose.program, to, chain, group))
        });
    }

    /// The program's home, else that of a chain which it may have come from.
    fn home(&self, program: ProgramId, session: SessionId) -> Option<(WorkerId, Tie)> {
        if let Some(own) = self.homes.of(program) {
            return Some((own, Tie::Own));
        }
        let session = self.sessions.get(session)?;
        let longest = |session: &Session| {
            let branches = session.branches().iter();
            let homes = branches.filter_map(|b| Some((b.tokens(), self.homes.of(b.program)?)));
            homes
                .max_by_key(|&(tokens, _)| tokens)
                .map(|(_, home)| home)
        };
        let spawned = || {
            let parent = self.sessions.by_name(session.tenant(), session.parent()?)?;
            longest(self.sessions.get(parent)?)
        };
        let parent = longest(session).or_else(spawned)?;
        Some((parent, Tie::Parent))
    }

    /// Gives a warm home its credit, or all of the turn.
    fn weigh(
        &mut self,
        program: ProgramId,
        (worker, tie): (WorkerId, Tie),
        chain: &Chain,
        group: GroupId,
    ) -> Draw {
        let rows = &mut self.scratch.rows;
        let at = rows.iter().position(|row| row.worker == worker);
        let warm_tokens = at.map(|at| {
            let no_reason = match tie {
                Tie::Own => {
                    let shared = self.prefix.shared(chain, Some(program));
                    chain.tokens_of(shared as usize)
                }
                Tie::Parent => rows.iter().map(Candidate::cached_tokens).min().unwrap_or(0),
            };
            rows[at].cached_tokens().saturating_sub(no_reason)
        });
        if let (Some(at), Some(warm @ 1..)) = (at, warm_tokens) {
            let affinity = self.config.affinity;
            let unit = self.topology.groups[group.index()].block_tokens;
            rows[at].affinity_tokens = warm.min(affinity.credit_tokens);
            rows[at].cost = with_stay(rows[at].cost, &self.config.score, &rows[at], unit);
            if (affinity.mode, tie) == (Mode::Hard, Tie::Own) {
                rows.retain(|row| row.worker == worker);
            }
        }
        Draw {
            worker,
            tie,
            warm_tokens,
        }
    }

    /// The turn has gone to `worker`: what that means for its home.
    pub(super) fn settle_home(
        &mut self,
        turn: &Reservation,
        worker: WorkerId,
    ) -> Option<AffinityNote> {
        if self.config.affinity.mode == Mode::Off {
            return None;
        }
        let program = turn.program?;
        let draw = self.scratch.draw.take();
        let note = draw.map(|draw| AffinityNote {
            worker: draw.worker,
            tie: draw.tie,
            came: self.came(turn, worker, draw),
        });
        let lives = self.sessions.get(turn.session).is_some();
        let own = note.filter(|note| note.tie == Tie::Own);
        let stays = turn.route.is_detour || own.is_some_and(|note| note.came == Came::Detour);
        if lives && !(stays && self.homes.of(program).is_some()) {
            self.homes.settle(program, worker);
        }
        note
    }

    fn came(&self, turn: &Reservation, worker: WorkerId, draw: Draw) -> Came {
        if worker == draw.worker {
            return match draw.warm_tokens {
                Some(0) => Came::Cold,
                _ => Came::Stayed,
            };
        }
        match draw.warm_tokens {
            Some(0) => Came::Cold,
            Some(_) => Came::Moved,
            // What it leans on is elsewhere, or it has failed there: the next turn may go home again.
            None if turn.route.pin.is_some() => Came::Detour,
            None if turn.route.excluded.contains(&draw.worker) => Came::Detour,
            None => {
                let known = self.topology.worker(draw.worker);
                match known.map(|known| (known.health, known.group)) {
                    Ok((Health::Down, _)) => Came::Detour,
                    // Another model answers; where that is for this turn only, the route says so.
                    Ok((Health::Up, group)) if group != turn.route.group => Came::Moved,
                    _ => Came::Left,
                }
            }
        }
    }
}
