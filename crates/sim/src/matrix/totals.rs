//! What is counted of a policy's answers.

use warmpath_core::continuity::{Grade, Model};

use super::generate::{Phase, Turn};

/// Switches that break something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsafe {
    /// In a loop of tools.
    pub tool: u32,
    /// Away from state of the provider.
    pub state: u32,
}

impl Unsafe {
    /// Both kinds.
    #[must_use]
    pub const fn all(self) -> u32 {
        self.tool + self.state
    }
}

/// Sums over turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Turns.
    pub turns: u32,
    /// Turns with another model than the one before; a session begins with the small one.
    pub switches: u32,
    /// Of these, on a session's first turn.
    pub first_switches: u32,
    /// Of these, after a change of the subject, and after idleness.
    pub drift_switches: u32,
    /// See [`Self::drift_switches`].
    pub idle_switches: u32,
    /// Of these, unsafe ones.
    pub unsafe_switches: Unsafe,
    /// Turns of the dearest model.
    pub frontier_turns: u32,
    /// Turns that came after idleness.
    pub idle_turns: u32,
    /// Turns with a model below, and above, the grade asked for.
    pub under: u32,
    /// See [`Self::under`].
    pub over: u32,
    /// Dollars.
    pub cost: f64,
    quality: f64,
    shortfall: f64,
}

impl Totals {
    /// Counts a turn that `model` answered for `dollars`, where `before` answered the one before.
    pub fn count(
        &mut self,
        turn: &Turn,
        at: usize,
        (before, model): (&Model, &Model),
        dollars: f64,
    ) {
        self.turns += 1;
        self.cost += dollars;
        self.quality += model.quality.get();
        let lacking = turn.base.quality().get() - model.quality.get();
        self.shortfall += lacking.max(0.0);
        self.under += u32::from(model.grade < turn.base);
        self.over += u32::from(model.grade > turn.base);
        self.frontier_turns += u32::from(model.grade == Grade::Large);
        self.idle_turns += u32::from(turn.is_idle);
        if before.grade != model.grade {
            self.switches += 1;
            self.first_switches += u32::from(at == 0);
            self.drift_switches += u32::from(turn.phase == Phase::Drift);
            self.idle_switches += u32::from(turn.is_idle);
            self.unsafe_switches.tool += u32::from(turn.phase == Phase::ToolLoop);
            self.unsafe_switches.state += u32::from(turn.phase == Phase::ProviderState);
        }
    }

    /// Adds those of other turns.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.switches += other.switches;
        self.first_switches += other.first_switches;
        self.drift_switches += other.drift_switches;
        self.idle_switches += other.idle_switches;
        self.unsafe_switches.tool += other.unsafe_switches.tool;
        self.unsafe_switches.state += other.unsafe_switches.state;
        self.frontier_turns += other.frontier_turns;
        self.idle_turns += other.idle_turns;
        self.under += other.under;
        self.over += other.over;
        self.cost += other.cost;
        self.quality += other.quality;
        self.shortfall += other.shortfall;
    }

    /// Mean quality of the models that answered.
    #[must_use]
    pub fn mean_quality(&self) -> f64 {
        self.quality / f64::from(self.turns.max(1))
    }

    /// Mean of what the answers lacked against the grade asked for.
    #[must_use]
    pub fn mean_shortfall(&self) -> f64 {
        self.shortfall / f64::from(self.turns.max(1))
    }

    /// Dollars, with every point of shortfall at `lambda` dollars.
    #[must_use]
    pub fn objective(&self, lambda: f64) -> f64 {
        self.cost + lambda * self.shortfall
    }
}
