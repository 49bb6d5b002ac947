//! Sessions that try to be sent to the wrong model, against the scheduler that is shipped.
//!
//! Each family is played by three policies, 200 sessions each, and has rows of its own: no turn is
//! unsafe, what else the family asks for comes true, and models do change where they may, since whoever
//! never changes one is safe without merit. Deterministic; about ten seconds.
mod families;
mod world;

use warmpath_core::Result;
use warmpath_core::continuity::{LookaheadConfig, PolicyConfig, SaarConfig};

use crate::matrix::{EvidenceRow, Goal};
use crate::random::Random;

use families::{FAMILIES, Play};
use world::{Tally, World};

const SESSIONS: u64 = 200;
const SEED: u64 = 20_261_130;
/// The least share of free turns that change the model.
const LEAST_SWITCHES: f64 = 0.1;

/// The rows of every family.
///
/// # Errors
/// None that the fixed settings can cause.
pub fn adversary() -> Result<Vec<EvidenceRow>> {
    rows(SESSIONS)
}

fn rows(sessions: u64) -> Result<Vec<EvidenceRow>> {
    let mut rows = Vec::new();
    for (name, play, asks) in FAMILIES {
        let tally = family(play, sessions)?;
        let row = |what: &str, value, unit, goal| {
            EvidenceRow::new(format!("adversary.{name}.{what}"), value, unit, goal)
        };
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        rows.push(row(
            "unsafe",
            tally.unsafe_turns as f64,
            "turns",
            Goal::Is(0.0),
        ));
        let least = (3 * sessions) as f64;
        rows.push(row(
            "turns",
            tally.turns as f64,
            "turns",
            Goal::AtLeast(least),
        ));
        let came_true = share(tally.came_true, tally.tried);
        rows.push(row(asks, came_true, "share", Goal::Is(1.0)));
        let switched = share(tally.switches, tally.free);
        let goal = Goal::AtLeast(LEAST_SWITCHES);
        rows.push(row("switched", switched, "share of free turns", goal));
    }
    Ok(rows)
}

fn family(play: Play, sessions: u64) -> Result<Tally> {
    let policies = [
        PolicyConfig::SingleTurn,
        PolicyConfig::Saar(SaarConfig::default()),
        PolicyConfig::Lookahead(LookaheadConfig::default()),
    ];
    let mut tally = Tally::default();
    for (stream, policy) in policies.into_iter().enumerate() {
        let mut world = World::new(policy)?;
        let mut random = Random::fork(SEED, stream as u64);
        for number in 0..sessions {
            play(&mut world, &mut random, number)?;
        }
        tally.add(&world.tally);
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_the_wrong_model() {
        for row in rows(12).unwrap() {
            assert_eq!(row.holds, Some(true), "{row:?}");
        }
    }
}
