//! What the sessions of the experiment are drawn from.

/// Sessions a scenario and seed.
pub const SESSIONS: u32 = 40;
/// Turns a session.
pub const TURNS: u32 = 18;
/// The published seeds.
pub const SEEDS: [u32; 5] = [20_260_530, 20_260_531, 20_260_532, 20_260_533, 20_260_534];

/// When sessions are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// Never.
    Rare,
    /// At most once: at the start, in the middle or never, drawn.
    Single,
    /// Before every fifth turn.
    Frequent,
}

/// Turns of a kind: those whose number, modulo the cycle, is among the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Length of the cycle in turns; 0 for no such turns.
    pub cycle: u32,
    /// Places in it.
    pub places: &'static [u32],
}

impl Slots {
    const NONE: Self = Self {
        cycle: 0,
        places: &[],
    };

    const fn of(cycle: u32, places: &'static [u32]) -> Self {
        Self { cycle, places }
    }

    /// Whether turn `turn` is of the kind.
    #[must_use]
    pub fn has(&self, turn: u32) -> bool {
        self.cycle > 0 && self.places.contains(&(turn % self.cycle))
    }

    /// The share of turns that are.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.cycle {
            0 => 0.0,
            cycle => self.places.len() as f64 / f64::from(cycle),
        }
    }
}

/// One of the six kinds of sessions. Demand is a number in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Its name in the published tables.
    pub name: &'static str,
    /// Demand of a first turn.
    pub base_demand: f64,
    /// How much it rises over a session.
    pub progress: f64,
    /// How much more turns ask for that are no plain turn of a user.
    pub phase_bonus: f64,
    /// How much it swings.
    pub wave: f64,
    /// Largest noise.
    pub noise: f64,
    /// Results of tools.
    pub tools: Slots,
    /// Turns that lean on state of the provider.
    pub state: Slots,
    /// Changes of the subject.
    pub drift: Slots,
    /// Tokens of history that a session begins with: least and most.
    pub history: [u32; 2],
    /// When it is idle.
    pub idleness: Idleness,
    /// Turns that the published policy expects.
    pub expected_turns: u32,
    /// How fast the history grows.
    pub growth: f64,
}

/// The six of the published experiment.
pub const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "balanced",
        base_demand: 0.42,
        progress: 0.28,
        phase_bonus: 0.16,
        wave: 0.18,
        noise: 0.09,
        tools: Slots::of(5, &[2, 3]),
        state: Slots::NONE,
        drift: Slots::NONE,
        history: [512, 2048],
        idleness: Idleness::Single,
        expected_turns: 6,
        growth: 1.0,
    },
    Scenario {
        name: "tool-heavy",
        base_demand: 0.55,
        progress: 0.22,
        phase_bonus: 0.18,
        wave: 0.14,
        noise: 0.08,
        tools: Slots::of(6, &[2, 3, 4]),
        state: Slots::NONE,
        drift: Slots::NONE,
        history: [1024, 3072],
        idleness: Idleness::Single,
        expected_turns: 9,
        growth: 1.12,
    },
    Scenario {
        name: "frontier-heavy",
        base_demand: 0.55,
        progress: 0.34,
        phase_bonus: 0.20,
        wave: 0.17,
        noise: 0.07,
        tools: Slots::of(5, &[2, 3]),
        state: Slots::NONE,
        drift: Slots::NONE,
        history: [1536, 4096],
        idleness: Idleness::Rare,
        expected_turns: 10,
        growth: 1.20,
    },
    Scenario {
        name: "idle-heavy",
        base_demand: 0.42,
        progress: 0.30,
        phase_bonus: 0.14,
        wave: 0.16,
        noise: 0.10,
        tools: Slots::of(5, &[2, 3]),
        state: Slots::NONE,
        drift: Slots::NONE,
        history: [512, 2048],
        idleness: Idleness::Frequent,
        expected_turns: 4,
        growth: 1.0,
    },
    Scenario {
        name: "stateful-heavy",
        base_demand: 0.58,
        progress: 0.30,
        phase_bonus: 0.24,
        wave: 0.15,
        noise: 0.08,
        tools: Slots::of(6, &[3, 4]),
        state: Slots::of(5, &[1, 2]),
        drift: Slots::NONE,
        history: [128, 1024],
        idleness: Idleness::Rare,
        expected_turns: 3,
        growth: 0.95,
    },
    Scenario {
        name: "drift-heavy",
        base_demand: 0.46,
        progress: 0.28,
        phase_bonus: 0.26,
        wave: 0.12,
        noise: 0.08,
        tools: Slots::of(6, &[3]),
        state: Slots::NONE,
        drift: Slots::of(6, &[1, 2]),
        history: [2048, 6144],
        idleness: Idleness::Rare,
        expected_turns: 7,
        growth: 1.08,
    },
];

/// What is different from the published experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mutation {
    /// Nothing.
    #[default]
    None,
    /// Sessions of so many turns.
    Turns(u32),
    /// Sessions end after each turn with the same chance; this many turns on average.
    Geometric(f64),
    /// Phases are drawn for each turn, at the same rates.
    RandomPhases,
    /// In place of trend and wave, demand is high or low for a while, and nobody sees which.
    HiddenRegime,
    /// Further noise of up to so many times the scenario's.
    Noise(f64),
    /// All phases ask for the same.
    NoPhaseBonus,
}
