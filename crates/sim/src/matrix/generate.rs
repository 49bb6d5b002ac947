//! The sessions of the experiment, draw for draw.
//!
//! One generator a scenario and seed (MT19937). A session draws its first history, then when it is idle
//! if that is drawn, then one number a turn. Whole numbers take the top bits of one output and are drawn
//! again while they are too large; fractions have 53 bits. No draw depends on a policy.

use std::f64::consts::PI;

use rand_mt::Mt;
use warmpath_core::continuity::Grade;

use super::scenario::{Idleness, Mutation, SCENARIOS, Scenario, TURNS};

/// What kind of turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A user's.
    User,
    /// The result of a tool.
    ToolLoop,
    /// It leans on state of the provider.
    ProviderState,
    /// A user's, about something else.
    Drift,
}

impl Phase {
    /// Its name in the published tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user_turn",
            Self::ToolLoop => "tool_loop",
            Self::ProviderState => "provider_state",
            Self::Drift => "topic_drift",
        }
    }

    /// Whether a switch would break something.
    #[must_use]
    pub const fn is_locked(self) -> bool {
        matches!(self, Self::ToolLoop | Self::ProviderState)
    }
}

/// One turn. Lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// What kind it is.
    pub phase: Phase,
    /// Whether the session was idle before it.
    pub is_idle: bool,
    /// What came before.
    pub history: u32,
    /// The prompt.
    pub prompt: u32,
    /// The answer.
    pub answer: u32,
    /// What it asks of a model, in [0, 1].
    pub demand: f64,
    /// The grade that this is for.
    pub base: Grade,
}

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its place in [`SCENARIOS`].
    pub scenario: usize,
    /// What it was drawn from.
    pub seed: u32,
    /// Its number, from 0.
    pub number: u32,
    /// Its turns.
    pub turns: Vec<Turn>,
}

/// Tokens of a prompt beside its history.
const FRESH: u32 = 800;
/// Tokens of history that are kept.
const MOST_HISTORY: u32 = 64_000;

/// `sessions` sessions of each scenario and seed.
#[must_use]
pub fn generate(seeds: &[u32], sessions: u32, mutation: Mutation) -> Vec<Session> {
    let mut all = Vec::new();
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        for &seed in seeds {
            let mut draws = Draws(Mt::new_with_key([seed]));
            all.extend((0..sessions).map(|number| Session {
                scenario: index,
                seed,
                number,
                turns: turns(scenario, mutation, &mut draws),
            }));
        }
    }
    all
}

/// The sessions as lines of text, for a checksum: `scenario|seed|sess-NNN|turn|phase|idle|history|demand`.
pub fn trace_lines(sessions: &[Session]) -> impl Iterator<Item = String> {
    sessions.iter().flat_map(|session| {
        let name = SCENARIOS[session.scenario].name;
        session.turns.iter().enumerate().map(move |(at, turn)| {
            format!(
                "{name}|{}|sess-{:03}|{at}|{}|{}|{}|{:.4}\n",
                session.seed,
                session.number,
                turn.phase.name(),
                u8::from(turn.is_idle),
                turn.history,
                turn.demand,
            )
        })
    })
}

struct Draws(Mt);

impl Draws {
    /// A whole number below `n`, which is at least 1.
    fn below(&mut self, n: u32) -> u32 {
        let bits = n.ilog2() + 1;
        loop {
            let drawn = self.0.next_u32() >> (32 - bits);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// A number in [-most, most).
    fn noise(&mut self, most: f64) -> f64 {
        -most + 2.0 * most * self.unit()
    }
}

fn turns(scenario: &Scenario, mutation: Mutation, draws: &mut Draws) -> Vec<Turn> {
    let [least, most] = scenario.history;
    let mut history = least + draws.below(most - least + 1);
    let count = match mutation {
        Mutation::Turns(turns) => turns,
        Mutation::Geometric(mean) => geometric(mean, draws),
        _ => TURNS,
    };
    let idle = idle_turns(scenario.idleness, count, draws);
    let mut regime = Regime::new(mutation, draws);
    (0..count)
        .map(|at| {
            let phase = phase(scenario, mutation, at, draws);
            let demand = regime.demand(scenario, phase, at, count, draws);
            let prompt = FRESH + history;
            let answer = 220 + (180.0 * demand) as u32;
            let turn = Turn {
                phase,
                is_idle: idle.contains(&at),
                history,
                prompt,
                answer,
                demand,
                base: grade(demand),
            };
            let grown = (f64::from(prompt / 8 + answer) * scenario.growth) as u32;
            history = (history + grown).min(MOST_HISTORY);
            turn
        })
        .collect()
}

fn grade(demand: f64) -> Grade {
    match demand {
        d if d >= 0.78 => Grade::Large,
        d if d >= 0.55 => Grade::Middle,
        _ => Grade::Small,
    }
}

/// At least one turn; the chance to end after each is `1 / mean`.
fn geometric(mean: f64, draws: &mut Draws) -> u32 {
    let mut turns = 1;
    while draws.unit() >= 1.0 / mean && turns < 20 * TURNS {
        turns += 1;
    }
    turns
}

fn idle_turns(idleness: Idleness, turns: u32, draws: &mut Draws) -> Vec<u32> {
    match idleness {
        Idleness::Rare => Vec::new(),
        Idleness::Single => vec![[0, turns / 2, turns + 1][draws.below(3) as usize]],
        Idleness::Frequent => {
            let step = (turns / 4).max(5);
            (step..turns).step_by(step as usize).collect()
        }
    }
}

fn phase(scenario: &Scenario, mutation: Mutation, at: u32, draws: &mut Draws) -> Phase {
    let kinds = [
        (scenario.drift, Phase::Drift),
        (scenario.state, Phase::ProviderState),
        (scenario.tools, Phase::ToolLoop),
    ];
    if mutation != Mutation::RandomPhases {
        let kind = kinds.iter().find(|(slots, _)| slots.has(at));
        return kind.map_or(Phase::User, |&(_, phase)| phase);
    }
    let mut drawn = draws.unit();
    for (slots, phase) in kinds {
        drawn -= slots.rate();
        if drawn < 0.0 && at > 0 {
            return phase;
        }
    }
    Phase::User
}

/// What demand is made of beside the scenario.
struct Regime {
    mutation: Mutation,
    is_high: bool,
}

/// Chance of a hidden regime to change a turn, and what it adds.
const CHANGE: f64 = 0.12;
const HIGH: f64 = 0.36;
const LOW: f64 = -0.06;

impl Regime {
    fn new(mutation: Mutation, draws: &mut Draws) -> Self {
        let is_high = mutation == Mutation::HiddenRegime && draws.unit() < 0.5;
        Self { mutation, is_high }
    }

    fn demand(
        &mut self,
        scenario: &Scenario,
        phase: Phase,
        at: u32,
        turns: u32,
        draws: &mut Draws,
    ) -> f64 {
        let bonus = match phase {
            Phase::User => 0.0,
            _ if self.mutation == Mutation::NoPhaseBonus => 0.0,
            _ => scenario.phase_bonus,
        };
        let course = match self.mutation {
            Mutation::HiddenRegime => self.regime(at, draws) + bonus,
            _ => {
                let last = turns.saturating_sub(1).max(1);
                scenario.progress * (f64::from(at) / f64::from(last))
                    + bonus
                    + scenario.wave * libm::sin(PI * f64::from(at) / 4.0)
            }
        };
        let mut demand = scenario.base_demand + course + draws.noise(scenario.noise);
        if let Mutation::Noise(times) = self.mutation {
            demand += draws.noise(times * scenario.noise);
        }
        demand.clamp(0.0, 1.0)
    }

    fn regime(&mut self, at: u32, draws: &mut Draws) -> f64 {
        if at > 0 && draws.unit() < CHANGE {
            self.is_high = !self.is_high;
        }
        if self.is_high { HIGH } else { LOW }
    }
}
