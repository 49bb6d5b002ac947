//! How large and how fast an `h100-class` engine is.
//!
//! A step costs a base, a part for each decoding request, one for each token of context that those
//! read, and for each prompt token one that grows with what stands before it. All are whole
//! nanoseconds, so sums do not depend on order. It knows nothing of requests.
use crate::config::ConfigError;
use crate::event::Nanos;
use crate::tier::HostTier;

/// Which prompt is computed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefillOrder {
    /// The one that came first.
    Fcfs,
    /// The one with the fewest tokens left; of equals, the one that came first.
    Shortest,
}

/// Which idle session loses its cache first, from its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The one whose last turn ended first.
    Lru,
    /// The one whose lease ends first, as the router told with its last turn; a session without a
    /// lease counts as if it had ended with that turn.
    LeaseEnd,
}

/// The engine to model. Start from `default()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentConfig {
    /// Tokens that the cache holds, at least 1.
    pub capacity_tokens: u64,
    /// Requests that may run at once, at least 1.
    pub max_running: u32,
    /// Prompt tokens that a step may compute, at least 1.
    pub chunk_tokens: u32,
    /// Tokens of a block, as the router sees prompts; the cache itself counts tokens.
    pub block_tokens: u32,
    /// Which prompt is computed first.
    pub prefill: PrefillOrder,
    /// Who loses cached tokens first.
    pub eviction: Eviction,
    /// A slower tier behind the cache, if there is one.
    pub host: Option<HostTier>,
    /// Tokens that every prompt of the workload begins with. They are in the cache once, from the
    /// start, and stay: everybody uses them. Below the capacity.
    pub shared_tokens: u32,
    /// What a step costs.
    pub step: StepCost,
}

impl Default for ExtentConfig {
    fn default() -> Self {
        Self {
            capacity_tokens: 2_200_000,
            max_running: 256,
            chunk_tokens: 4_096,
            block_tokens: 64,
            prefill: PrefillOrder::Fcfs,
            eviction: Eviction::Lru,
            host: None,
            shared_tokens: 0,
            step: StepCost::default(),
        }
    }
}

/// What a step costs. Multiply all of it to model a slower machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCost {
    /// Nanoseconds of any step.
    pub base: Nanos,
    /// Nanoseconds for each decoding request.
    pub decode: Nanos,
    /// Picoseconds for each token of context that a decoding request reads.
    pub context_ps: u64,
    /// Nanoseconds for each prompt token.
    pub prompt: Nanos,
    /// Picoseconds for each prompt token and each token before it.
    pub prompt_context_ps: u64,
}

impl Default for StepCost {
    fn default() -> Self {
        Self {
            base: 8_000_000,
            decode: 200_000,
            context_ps: 12_000,
            prompt: 10_000,
            prompt_context_ps: 300,
        }
    }
}

impl StepCost {
    /// What a step costs on a machine `speed` times as fast, above 0.
    pub(crate) fn at_speed(self, speed: f64) -> Self {
        let part = |cost: u64| (cost as f64 / speed).round() as u64;
        Self {
            base: part(self.base).max(1),
            decode: part(self.decode),
            context_ps: part(self.context_ps),
            prompt: part(self.prompt),
            prompt_context_ps: part(self.prompt_context_ps),
        }
    }

    /// Nanoseconds of a step with `decodes` requests that read `context` tokens, beside `prefill`.
    pub(crate) fn step(&self, decodes: u64, context: u64, prefill: Nanos) -> Nanos {
        self.base + self.decode * decodes + self.context_ps * context / 1_000 + prefill
    }

    /// Nanoseconds that `tokens` prompt tokens behind `before` others add to a step.
    pub(crate) fn prefill(&self, tokens: u32, before: u32) -> Nanos {
        let (tokens, before) = (u64::from(tokens), u64::from(before));
        let pairs = tokens * before + tokens * tokens / 2;
        self.prompt * tokens + self.prompt_context_ps * pairs / 1_000
    }
}

impl ExtentConfig {
    /// Refuses what no engine can be. O(1).
    ///
    /// # Errors
    /// Names the field and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fields = [
            ("capacity_tokens", self.capacity_tokens, 1 << 40),
            ("max_running", self.max_running.into(), u32::MAX.into()),
            ("chunk_tokens", self.chunk_tokens.into(), 1 << 24),
            ("block_tokens", self.block_tokens.into(), 1 << 16),
        ];
        for (field, value, most) in fields {
            if !(1..=most).contains(&value) {
                return Err(ConfigError::new(field, "at least 1 and of a real size"));
            }
        }
        if let Some(host) = &self.host {
            host.validate()?;
        }
        if u64::from(self.shared_tokens) >= self.capacity_tokens {
            return Err(ConfigError::new("shared_tokens", "below the capacity"));
        }
        let step = &self.step;
        let parts = [
            step.base,
            step.decode,
            step.context_ps,
            step.prompt,
            step.prompt_context_ps,
        ];
        if step.base == 0 || parts.iter().any(|&part| part > 1_000_000_000_000) {
            let allowed = "above 0 at its base and at most 10^12 in each part";
            return Err(ConfigError::new("step", allowed));
        }
        Ok(())
    }

    /// Of a prompt's tokens, those that only its session has.
    pub(crate) fn own(&self, tokens: u32) -> u32 {
        tokens.saturating_sub(self.shared_tokens)
    }

    /// Room for what sessions do not share.
    pub(crate) fn own_capacity(&self) -> u64 {
        self.capacity_tokens - u64::from(self.shared_tokens)
    }

    /// Nanoseconds that a request takes on an idle engine which has `cached` tokens of its prompt.
    pub(crate) fn alone_ns(&self, prompt: u32, cached: u32, output: u32) -> Nanos {
        let mut at = cached.min(prompt.saturating_sub(1));
        let mut total = 0;
        while at < prompt {
            let tokens = self.chunk_tokens.min(prompt - at);
            total += self.step.step(0, 0, self.step.prefill(tokens, at));
            at += tokens;
        }
        let (prompt, later) = (u64::from(prompt), u64::from(output.saturating_sub(1)));
        let context = later * (prompt + 1) + later * later.saturating_sub(1) / 2;
        let decode = (self.step.base + self.step.decode) * later;
        total + decode + (u128::from(self.step.context_ps) * u128::from(context) / 1_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_the_sum_of_its_parts() {
        let step = StepCost::default();
        assert_eq!(step.step(2, 1_000, 5), 8_000_000 + 400_000 + 12_000 + 5);
        assert_eq!(
            step.prefill(1_000, 10_000),
            10_000_000 + 3_000_000 + 150_000
        );
    }

    #[test]
    fn settings_outside_their_range_are_named() {
        assert_eq!(ExtentConfig::default().validate(), Ok(()));
        let bad = ExtentConfig {
            capacity_tokens: 0,
            ..ExtentConfig::default()
        };
        let said = bad.validate().unwrap_err().to_string();
        assert!(said.starts_with("capacity_tokens"), "{said}");
    }
}
