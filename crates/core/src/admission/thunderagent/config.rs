//! The settings of the ThunderAgent policy, and what each may be.
//!
//! Fractions of a capacity are whole basis points (1/10,000), so that no decision compares floats.
use crate::{Error, Micros, Result};

/// One whole, in basis points.
const WHOLE: u32 = 10_000;
/// The largest acting weight: ten times the tokens.
const MAX_WEIGHT: u32 = 10 * WHOLE;

/// Settings of [`ThunderAgent`](super::ThunderAgent). The defaults are those of the published
/// controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThunderAgentConfig {
    /// A worker above this share of its capacity sheds programs. Basis points, 0 to 10,000.
    pub pause: u32,
    /// Shedding stops at this share. Basis points, 0 to `pause`.
    pub target: u32,
    /// Paused programs come back up to this share (pause threshold less the hysteresis). Basis
    /// points, 0 to `pause`.
    pub resume: u32,
    /// Tokens counted for each program beside its context.
    pub buffer_tokens: u32,
    /// How much of an acting program's context counts. Basis points, 1 to 100,000.
    pub acting_weight: u32,
    /// Half-life of an acting program's context, used only to choose where a forced resume goes.
    /// Above 0.
    pub acting_half_life: Micros,
    /// Time between ticks. Above 0.
    pub interval: Micros,
    /// A turn held for so long goes whatever the load. Above 0.
    pub resume_timeout: Micros,
    /// An idle program is forgotten after this time. Above 0.
    pub retention: Micros,
    /// Programs kept. Above 0. At the bound the longest idle one is forgotten; when none is idle,
    /// a new program's turns pass uncounted.
    pub max_programs: usize,
}

impl Default for ThunderAgentConfig {
    fn default() -> Self {
        Self {
            pause: 9_500,
            target: 8_000,
            resume: 8_500,
            buffer_tokens: 100,
            acting_weight: WHOLE,
            acting_half_life: Micros::from_secs(1),
            interval: Micros::from_secs(5),
            resume_timeout: Micros::from_secs(1_800),
            retention: Micros::from_secs(1_800),
            max_programs: 10_000,
        }
    }
}

impl ThunderAgentConfig {
    /// Refuses settings outside their range, naming the field and what is allowed.
    pub(super) fn validate(&self) -> Result<()> {
        within("pause", self.pause, 0, WHOLE)?;
        within("target", self.target, 0, self.pause)?;
        within("resume", self.resume, 0, self.pause)?;
        within("acting_weight", self.acting_weight, 1, MAX_WEIGHT)?;
        positive("acting_half_life", self.acting_half_life.0)?;
        positive("interval", self.interval.0)?;
        positive("resume_timeout", self.resume_timeout.0)?;
        positive("retention", self.retention.0)?;
        positive("max_programs", self.max_programs as u64)
    }

    /// What an acting context of `tokens` counts, without the buffer; rounds down.
    pub(super) fn weighted(&self, tokens: u32) -> u64 {
        u64::from(tokens) * u64::from(self.acting_weight) / u64::from(WHOLE)
    }
}

/// `points` basis points of `capacity`, rounded down. An integer is above the exact product exactly
/// when it is above the rounded one, so thresholds lose nothing.
pub(super) fn share(capacity: u64, points: u32) -> u64 {
    let product = u128::from(capacity) * u128::from(points) / u128::from(WHOLE);
    u64::try_from(product).unwrap_or(u64::MAX)
}

fn within(field: &str, value: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "admission.{field} is {value} basis points, allowed are {least} to {most}"
    )))
}

fn positive(field: &str, value: u64) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "admission.{field} is 0, it must be above 0"
    )))
}
