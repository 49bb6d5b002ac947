//! How large and how fast the modelled engine is.
//!
//! Answers: is this a machine that can exist, and how long does one pass of given work take? It
//! knows nothing of requests or of the cache. The polynomial is the published fit of a vLLM-style
//! engine; `Timing::Fixed` makes a pass cost the same whatever is in it, which tests and
//! cross-checks want. Costs of a pass are whole nanoseconds, prefill and decode rounded apart, so
//! that sums do not depend on the order of the work.
use std::fmt;

use crate::tier::HostTier;

/// How long a pass takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// Quadratic in the new prompt tokens, concave in the share of the cache that decodes.
    Polynomial,
    /// The same for each pass that has such work, milliseconds, finite and not negative.
    Fixed { prefill_ms: f64, decode_ms: f64 },
}

/// Which running request gives way when the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// The one admitted last.
    Newest,
    /// The one admitted first.
    Oldest,
}

/// Whether a prompt may be split over passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefill {
    /// A prompt takes what is left of a pass's budget.
    Chunked,
    /// A prompt waits for a pass that can take all of it.
    Whole,
}

/// Whether blocks stay usable after the request that computed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Any later prompt with the same beginning may use them.
    Prefix,
    /// Each prompt is computed in full.
    Never,
}

/// The engine to model. Start from `default()`, which is a mid-size vLLM deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Tokens a cache block, 1 to 65,536.
    pub block_size: u32,
    /// Cache blocks, 1 to 16,777,216.
    pub num_gpu_blocks: u32,
    /// Requests that may run at once, at least 1.
    pub max_num_seqs: u32,
    /// Tokens a pass may compute, at least 1.
    pub max_num_batched_tokens: u32,
    /// Whether prompts are split.
    pub prefill: Prefill,
    /// Whether blocks are reused.
    pub reuse: Reuse,
    /// Who gives way when the cache is full.
    pub preemption: Preemption,
    /// How long a pass takes.
    pub timing: Timing,
    /// A slower tier behind the cache, if there is one.
    pub host: Option<HostTier>,
    /// Divides every cost; above 0.
    pub speedup_ratio: f64,
    /// Divides the decode cost once more; above 0.
    pub decode_speedup_ratio: f64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            block_size: 64,
            num_gpu_blocks: 16_384,
            max_num_seqs: 256,
            max_num_batched_tokens: 8_192,
            prefill: Prefill::Chunked,
            reuse: Reuse::Prefix,
            preemption: Preemption::Newest,
            timing: Timing::Polynomial,
            host: None,
            speedup_ratio: 1.0,
            decode_speedup_ratio: 1.0,
        }
    }
}

/// A setting outside its range; the text names the field and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    allowed: &'static str,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, allowed: &'static str) -> Self {
        Self { field, allowed }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.allowed)
    }
}

impl std::error::Error for ConfigError {}

impl EngineConfig {
    /// Refuses what no engine can be. O(1).
    pub fn validate(&self) -> Result<(), ConfigError> {
        let whole = |field, value: u32, most: u32, allowed| {
            (1..=most)
                .contains(&value)
                .then_some(())
                .ok_or(ConfigError { field, allowed })
        };
        let ratio = |field, value: f64| {
            (value.is_finite() && value > 0.0)
                .then_some(())
                .ok_or(ConfigError {
                    field,
                    allowed: "a finite number above 0",
                })
        };
        whole("block_size", self.block_size, 1 << 16, "1 to 65536")?;
        whole(
            "num_gpu_blocks",
            self.num_gpu_blocks,
            1 << 24,
            "1 to 16777216",
        )?;
        whole("max_num_seqs", self.max_num_seqs, u32::MAX, "at least 1")?;
        whole(
            "max_num_batched_tokens",
            self.max_num_batched_tokens,
            u32::MAX,
            "at least 1",
        )?;
        if let Some(host) = &self.host {
            host.validate()?;
        }
        ratio("speedup_ratio", self.speedup_ratio)?;
        ratio("decode_speedup_ratio", self.decode_speedup_ratio)?;
        if let Timing::Fixed {
            prefill_ms,
            decode_ms,
        } = self.timing
        {
            for (field, value) in [("prefill_ms", prefill_ms), ("decode_ms", decode_ms)] {
                if !(value.is_finite() && (0.0..=3.6e6).contains(&value)) {
                    return Err(ConfigError {
                        field,
                        allowed: "0 to 3600000",
                    });
                }
            }
        }
        Ok(())
    }

    /// Tokens that the cache holds.
    pub fn capacity_tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks) * u64::from(self.block_size)
    }

    /// Nanoseconds that a request takes on an idle engine which has `cached` tokens of its prompt, to
    /// the microsecond: decode passes are summed in closed form.
    pub(crate) fn alone_ns(&self, prompt: u32, cached: u32, output: u32) -> u64 {
        let mut at = cached.min(prompt.saturating_sub(1));
        let mut total = 0;
        while at < prompt {
            let reached = at.saturating_add(self.max_num_batched_tokens).min(prompt);
            total += self.pass_ns(&Work {
                prefills: 1,
                prefix_tokens: at.into(),
                reached_tokens: reached.into(),
                ..Work::default()
            });
            at = reached;
        }
        let passes = f64::from(output.saturating_sub(1));
        let ms = match self.timing {
            Timing::Fixed { decode_ms, .. } => decode_ms * passes,
            Timing::Polynomial => {
                let (first, all) = (f64::from(prompt) + 1.0, self.capacity_tokens() as f64);
                let sum = passes * first + passes * (passes - 1.0) / 2.0;
                let squares = passes * first * first
                    + first * passes * (passes - 1.0)
                    + (passes - 1.0) * passes * (2.0 * passes - 1.0) / 6.0;
                -25.74 * squares / (all * all) + 54.01 * sum / all + 5.74 * passes
            }
        };
        total + (ms.max(0.0) * 1e6 / self.speedup_ratio / self.decode_speedup_ratio) as u64
    }

    /// Blocks that `tokens` occupy, the partial last one included.
    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Nanoseconds of a pass with this work.
    pub(crate) fn pass_ns(&self, work: &Work) -> u64 {
        let prefill = match (work.prefills, self.timing) {
            (0, _) => 0.0,
            (_, Timing::Fixed { prefill_ms, .. }) => prefill_ms,
            (_, Timing::Polynomial) => polynomial_prefill(work),
        };
        let decode = match (work.decodes, self.timing) {
            (0, _) => 0.0,
            (_, Timing::Fixed { decode_ms, .. }) => decode_ms,
            (_, Timing::Polynomial) => {
                polynomial_decode(work.decode_tokens as f64 / self.capacity_tokens() as f64)
            }
        };
        let ns = |ms: f64, ratio: f64| (ms * 1e6 / ratio).round() as u64;
        ns(prefill, self.speedup_ratio)
            .saturating_add(ns(decode, self.speedup_ratio * self.decode_speedup_ratio))
            .saturating_add(self.host.map_or(0, |host| host.load_ns(work.loaded_tokens)))
    }
}

/// What one pass computes, as far as its cost is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Requests with prompt tokens in this pass.
    pub(crate) prefills: u64,
    /// Their prompt tokens before this pass.
    pub(crate) prefix_tokens: u64,
    /// Their prompt tokens after it.
    pub(crate) reached_tokens: u64,
    /// Requests that get a token other than their first.
    pub(crate) decodes: u64,
    /// Their lengths, shared blocks counted for each.
    pub(crate) decode_tokens: u64,
    /// Tokens that come back from the host tier before the pass.
    pub(crate) loaded_tokens: u64,
}

impl Work {
    /// A pass that only gives `decodes` requests of together `tokens` one token each.
    pub(crate) fn decode(decodes: u64, tokens: u64) -> Self {
        Self {
            decodes,
            decode_tokens: tokens,
            ..Self::default()
        }
    }
}

/// Milliseconds. The fit takes the mean of the batch in whole tokens, so up to one token a request
/// is lost; kept, because that is what the published figures were made with.
fn polynomial_prefill(work: &Work) -> f64 {
    let n = work.prefills;
    let fresh = (n * (work.reached_tokens / n - work.prefix_tokens / n)) as f64;
    if fresh == 0.0 {
        return 0.0;
    }
    4.209_989e-7 * fresh * fresh + 1.518_344e-2 * fresh + 16.501_42
}

/// Milliseconds, for the share of the cache that decoding requests fill.
fn polynomial_decode(share: f64) -> f64 {
    let p = share.min(1.0);
    (-25.74 * p * p + 54.01 * p + 5.74).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_range_are_named() {
        let bad = |change: fn(&mut EngineConfig)| {
            let mut config = EngineConfig::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(bad(|c| c.block_size = 0), "block_size must be 1 to 65536");
        assert_eq!(
            bad(|c| c.num_gpu_blocks = 0),
            "num_gpu_blocks must be 1 to 16777216"
        );
        assert_eq!(
            bad(|c| c.max_num_seqs = 0),
            "max_num_seqs must be at least 1"
        );
        assert_eq!(
            bad(|c| c.speedup_ratio = f64::NAN),
            "speedup_ratio must be a finite number above 0"
        );
        let slow = |c: &mut EngineConfig| {
            c.timing = Timing::Fixed {
                prefill_ms: -1.0,
                decode_ms: 1.0,
            };
        };
        assert_eq!(bad(slow), "prefill_ms must be 0 to 3600000");
        assert_eq!(EngineConfig::default().validate(), Ok(()));
    }

    #[test]
    fn a_batch_of_prompts_is_billed_by_its_whole_token_mean() {
        let work = Work {
            prefills: 3,
            prefix_tokens: 1,
            reached_tokens: 11,
            ..Work::default()
        };
        let nine = Work {
            prefills: 1,
            reached_tokens: 9,
            ..Work::default()
        };
        assert_eq!(polynomial_prefill(&work), polynomial_prefill(&nine));
    }
}
