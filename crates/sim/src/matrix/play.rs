//! A shipped policy answers the sessions of the experiment, one after the other, and learns as it goes.

use warmpath_core::TargetId;
use warmpath_core::continuity::{
    Asked, Boundary, Course, Lock, Model, Policy, Question, RouteId, Row,
};

use super::generate::{Phase, Session, Turn};
use super::money::{Billing, SMALL};
use super::scenario::SCENARIOS;
use super::totals::Totals;

/// How sessions are played.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The models, the weakest first.
    pub models: &'a [Model; 3],
    /// How turns are billed.
    pub billing: Billing,
}

/// Plays the sessions with one policy for all of them, or one a scenario; the totals of each scenario.
pub fn play(
    plan: &Plan<'_>,
    policies: &mut [Policy],
    sessions: &[Session],
) -> [Totals; SCENARIOS.len()] {
    let mut totals = [Totals::default(); SCENARIOS.len()];
    for session in sessions {
        let policy = session.scenario % policies.len();
        let mut player = Player::new(plan, session, &mut policies[policy]);
        for (at, turn) in session.turns.iter().enumerate() {
            player.turn(at, turn, &mut totals[session.scenario]);
        }
        player.end();
    }
    totals
}

/// One session under way.
struct Player<'a> {
    plan: &'a Plan<'a>,
    policy: &'a mut Policy,
    route: RouteId,
    rows: [Row; 3],
    course: Course,
    current: usize,
}

impl<'a> Player<'a> {
    fn new(plan: &'a Plan<'a>, session: &Session, policy: &'a mut Policy) -> Self {
        let row = |&model| Row {
            model,
            warm_tokens: 0,
        };
        Self {
            plan,
            policy,
            route: RouteId(session.scenario as u64),
            rows: plan.models.each_ref().map(row),
            course: Course::starting_on(Some(target(SMALL))),
            current: SMALL,
        }
    }

    fn turn(&mut self, at: usize, turn: &Turn, totals: &mut Totals) {
        if turn.is_idle {
            self.rows.iter_mut().for_each(|row| row.warm_tokens = 0);
        }
        let question = Question {
            lock: lock(turn.phase),
            boundary: boundary(turn),
            rows: &self.rows,
            asked: turn.base.index(),
            prompt_tokens: turn.prompt,
            history_tokens: turn.history,
            route: self.route,
            past: self.course.past(|target| Some(target.index())),
        };
        let row = self.policy.decide(&question).row;
        let (model, before) = (&self.plan.models[row], &self.plan.models[self.current]);
        let is_switched = row != self.current;
        let warm = self.rows[row].warm_tokens;
        let dollars = self.plan.billing.dollars(model, turn, is_switched, warm);
        totals.count(turn, at, (before, model), dollars);
        self.go_on(row, turn);
    }

    fn go_on(&mut self, row: usize, turn: &Turn) {
        let asked = Asked {
            route: self.route,
            grade: turn.base,
            is_locked: turn.phase.is_locked(),
            free_turns: self.course.free_turns(),
            is_cold: turn.is_idle,
        };
        self.rows[row].warm_tokens = turn.prompt;
        self.current = row;
        self.course
            .go_on(self.policy, asked, target(row), turn.prompt);
        self.course.answered(self.policy, turn.answer);
    }

    fn end(self) {
        self.course.end(self.policy);
    }
}

fn target(row: usize) -> TargetId {
    TargetId(row as u32)
}

fn lock(phase: Phase) -> Lock {
    match phase {
        Phase::ToolLoop => Lock::ToolLoop,
        Phase::ProviderState => Lock::ProviderState,
        Phase::User | Phase::Drift => Lock::Free,
    }
}

/// Drift counts before idleness, as published.
fn boundary(turn: &Turn) -> Option<Boundary> {
    match turn.phase {
        Phase::Drift => Some(Boundary::Drift),
        _ => turn.is_idle.then_some(Boundary::Idle),
    }
}
