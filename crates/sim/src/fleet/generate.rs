//! Sessions out of a seed, for a machine that has no trace.
//!
//! Each session begins with a system prompt that several share, then adds to its prompt what the last
//! turn answered and what a tool or a person said. Lengths are log-normal, turns geometric; tools
//! answer soon and persons late. It resembles agents in shape only: for claims about real ones, replay
//! a trace. O(turns); the same shape and seed give the same workload on any machine.
use std::num::NonZeroU32;

use warmpath_core::Micros;
use warmpath_trace::{Moment, NewStart, NewTurn, Next, Wait, Workload, WorkloadBuilder};

use super::error::FleetError;
use crate::random::Random;

/// What sessions look like. Start from `default()`: agents with contexts of some 10,000 tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionShape {
    /// Sessions.
    pub sessions: u32,
    /// Turns of a session, mean, at least 1.
    pub turns: f64,
    /// Tokens of a block, at least 1.
    pub block_tokens: u32,
    /// Distinct system prompts; each session has one of them. 0: none.
    pub system_prompts: u32,
    /// Tokens of a system prompt.
    pub system_tokens: u32,
    /// Tokens that a turn adds to the prompt, beside the last answer; median, at least 1.
    pub added_tokens: u32,
    /// Tokens of an answer, median, at least 1.
    pub output_tokens: u32,
    /// Mean time between the starts of two sessions.
    pub arrivals: Micros,
    /// Median time of a tool.
    pub tool: Micros,
    /// Median time of a person.
    pub person: Micros,
    /// Share of turns that a person follows, 0 to 1.
    pub person_share: f64,
}

impl Default for SessionShape {
    fn default() -> Self {
        Self {
            sessions: 40,
            turns: 12.0,
            block_tokens: 64,
            system_prompts: 3,
            system_tokens: 3_000,
            added_tokens: 700,
            output_tokens: 150,
            arrivals: Micros::from_secs(5),
            tool: Micros::from_secs(4),
            person: Micros::from_secs(60),
            person_share: 0.1,
        }
    }
}

/// Spread of the logarithm of lengths and of times.
const SIGMA: f64 = 0.9;
/// The longest prompt that is made.
const MOST_TOKENS: u32 = 1 << 24;

/// Makes a workload of this shape.
///
/// # Errors
/// A shape that no session can have; the text names what.
pub fn generate(shape: &SessionShape, seed: u64) -> Result<Workload, FleetError> {
    let block_tokens = NonZeroU32::new(shape.block_tokens)
        .ok_or_else(|| FleetError::new("block_tokens must be at least 1"))?;
    if !(shape.turns.is_finite() && shape.turns >= 1.0) {
        return Err(FleetError::new(
            "turns must be a finite number of at least 1",
        ));
    }
    if !(0.0..=1.0).contains(&shape.person_share) {
        return Err(FleetError::new("person_share must be 0 to 1"));
    }
    let system_blocks = shape.system_tokens / shape.block_tokens;
    let mut maker = Maker {
        shape,
        random: Random::fork(seed, 16),
        builder: WorkloadBuilder::new(block_tokens),
        next_block: shape.system_prompts.saturating_mul(system_blocks),
        system_blocks,
    };
    let mut start = 0.0;
    for session in 0..shape.sessions {
        maker.session(session, Micros(start as u64))?;
        start += maker.random.exponential(shape.arrivals.0 as f64);
    }
    Ok(maker.builder.finish())
}

struct Maker<'a> {
    shape: &'a SessionShape,
    random: Random,
    builder: WorkloadBuilder,
    next_block: u32,
    system_blocks: u32,
}

impl Maker<'_> {
    fn session(&mut self, number: u32, start: Micros) -> Result<(), FleetError> {
        let refused = |error: warmpath_trace::WorkloadError| FleetError::new(error.to_string());
        let name = format!("session-{number}");
        let session = self.builder.add_session(&name, None).map_err(refused)?;
        let mut blocks = self.system_prompt();
        let mut tokens = blocks.len() as u32 * self.shape.block_tokens;
        let mut before = None;
        loop {
            tokens = tokens.saturating_add(self.length(self.shape.added_tokens));
            let output = self.length(self.shape.output_tokens);
            if tokens.saturating_add(output) > MOST_TOKENS {
                return Ok(());
            }
            while blocks.len() < (tokens / self.shape.block_tokens) as usize {
                blocks.push(self.next_block);
                self.next_block += 1;
            }
            let is_person = self.random.unit() < self.shape.person_share;
            let wait = before.map(|(turn, delay)| Wait {
                turn,
                moment: Moment::End,
                delay,
            });
            let turn = NewTurn {
                session,
                input_tokens: tokens,
                output_tokens: output,
                next: if is_person { Next::Person } else { Next::Tool },
                blocks: &blocks,
                start: match &wait {
                    None => NewStart::At(start),
                    Some(wait) => NewStart::After(std::slice::from_ref(wait)),
                },
            };
            let turn = self.builder.add_turn(&turn).map_err(refused)?;
            if self.random.unit() * self.shape.turns < 1.0 {
                return Ok(());
            }
            let median = match is_person {
                true => self.shape.person,
                false => self.shape.tool,
            };
            let delay = Micros(self.random.log_normal(median.0 as f64, SIGMA) as u64);
            before = Some((turn, delay));
            tokens += output;
        }
    }

    fn system_prompt(&mut self) -> Vec<u32> {
        let prompts = u64::from(self.shape.system_prompts);
        if prompts == 0 {
            return Vec::new();
        }
        let first = self.random.below(prompts) as u32 * self.system_blocks;
        (first..first + self.system_blocks).collect()
    }

    fn length(&mut self, median: u32) -> u32 {
        let drawn = self.random.log_normal(f64::from(median.max(1)), SIGMA);
        (drawn as u32).clamp(1, MOST_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_workload_and_sessions_share_beginnings() {
        let shape = SessionShape::default();
        let (one, same) = (generate(&shape, 1).unwrap(), generate(&shape, 1).unwrap());
        assert_eq!(one.turns(), same.turns());
        let other = generate(&shape, 2).unwrap();
        assert_ne!(one.turns(), other.turns());
        assert_eq!(one.sessions().len(), 40);
        let mean = one.turns().len() as f64 / 40.0;
        assert!((6.0..20.0).contains(&mean), "{mean}");
        let (mut first, mut blocks) = (Vec::new(), Vec::new());
        one.read_blocks(0, &mut first);
        let alike = (0..one.turns().len()).filter(|&turn| {
            one.read_blocks(turn, &mut blocks);
            one.turns()[turn].session != 0 && blocks[..46] == first[..46]
        });
        assert!(alike.count() > 10);
    }

    #[test]
    fn shapes_that_no_session_has_are_refused() {
        let bad = SessionShape {
            turns: 0.5,
            ..SessionShape::default()
        };
        assert!(generate(&bad, 1).is_err());
    }
}
