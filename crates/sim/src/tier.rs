//! A slower tier behind an engine's own cache: host memory that takes what the cache drops.
//!
//! How large it is and how long a token takes to come back. Both engine models use it alike: what the
//! cache evicts goes there at once and at no cost (copies run beside the computation), the tier itself
//! drops what came first, and a prompt that goes on where the cache stops is loaded before it is
//! computed: the pass that admits it takes so much longer. Tokens that come back leave the tier. It
//! knows nothing of blocks, sessions or passes.
use crate::config::ConfigError;
use crate::event::Nanos;

/// A tier. The default has the figures of host memory behind a link of 32 GB/s, for a model of
/// 160 KiB a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTier {
    /// Tokens that it holds, at least 1.
    pub capacity_tokens: u64,
    /// Picoseconds that a token takes to come back.
    pub load_ps: u64,
}

impl Default for HostTier {
    fn default() -> Self {
        Self {
            capacity_tokens: 4_000_000,
            load_ps: 5_000_000,
        }
    }
}

impl HostTier {
    /// Nanoseconds until `tokens` are back.
    pub(crate) fn load_ns(&self, tokens: u64) -> Nanos {
        self.load_ps.saturating_mul(tokens) / 1_000
    }

    /// Refuses what no tier can be. O(1).
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=1 << 40).contains(&self.capacity_tokens) || self.load_ps > 1_000_000_000_000 {
            let allowed = "of 1 to 2^40 tokens that come back within a second each";
            return Err(ConfigError::new("host", allowed));
        }
        Ok(())
    }
}
