//! The settings of the lease policy, and what each may be.
//!
//! Shares are whole basis points (1/10,000), so that no decision compares floats that a setting has
//! rounded. The one dial is `theta`; the presets name its useful values.
use super::super::fair::Weights;
use crate::{Error, Micros, Result};

/// One whole, in basis points.
pub(super) const WHOLE: u64 = 10_000;

/// In which order a worker's engine gives up idle contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Least recently used first, whatever it is told: most engines.
    #[default]
    Lru,
    /// By the end of the lease that the hints tell it, ended sessions first.
    LeaseEnd,
}

/// What is known of the workers' caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// The policy's own account of who was sent where and who had to give way.
    #[default]
    Account,
    /// Engines tell what they store and remove, so the prefix index is right.
    Events,
}

/// Settings of [`Lease`](super::Lease).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Length of a lease over its break-even with a refill, in basis points: shorter ones shorten
    /// the longest waits, longer ones raise throughput. 1 to 100,000.
    pub theta: u32,
    /// A turn with at most so many uncached tokens is warm.
    pub warm_tokens: u32,
    /// A turn of which at most this share is uncached is warm. Basis points, 0 to 10,000.
    pub warm_share: u32,
    /// Refills share a worker as long as its working set fills at most this share of it. Basis
    /// points, 0 to 10,000.
    pub calm_share: u32,
    /// What a token costs that comes back from the host tier, over one that is computed. Basis points, 0
    /// to 10,000.
    pub fetch_share: u32,
    /// Tokens of the host tier beside each worker, for engines that do not tell what they hold there. 0:
    /// none.
    pub host_tokens: u64,
    /// In which order engines give up idle contexts.
    pub eviction: Eviction,
    /// What is known of the workers' caches.
    pub evidence: Evidence,
    /// A turn held for so long goes whatever the load. Above 0; `None`: never.
    pub force_after: Option<Micros>,
    /// Programs kept; beyond, the turns of new ones pass uncounted. Above 0.
    pub max_programs: usize,
    /// Shares of tenants in the queue.
    pub weights: Weights,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            theta: Self::BALANCED,
            warm_tokens: 16_384,
            warm_share: 1_000,
            calm_share: 5_000,
            fetch_share: 2_500,
            host_tokens: 0,
            eviction: Eviction::Lru,
            evidence: Evidence::Account,
            force_after: Some(Self::FORCE_AFTER),
            max_programs: 1_000_000,
            weights: Weights::default(),
        }
    }
}

impl LeaseConfig {
    /// How long a turn waits at most, unless said otherwise: far longer than waits are where rotation
    /// works, since warm turns pass whoever waits and could keep a large prompt out for ever.
    pub const FORCE_AFTER: Micros = Micros::from_secs(600);
    /// `theta` of the preset with the shortest tail.
    pub const TAIL: u32 = 3_500;
    /// `theta` of the default preset.
    pub const BALANCED: u32 = 5_000;
    /// `theta` of the preset with the highest throughput.
    pub const THROUGHPUT: u32 = 7_000;

    /// Refuses settings outside their range, naming the field and what is allowed.
    pub(super) fn validate(&self) -> Result<()> {
        let shares = [
            ("theta", self.theta, 1, 100_000),
            ("warm_share", self.warm_share, 0, 10_000),
            ("calm_share", self.calm_share, 0, 10_000),
            ("fetch_share", self.fetch_share, 0, 10_000),
        ];
        for (field, value, least, most) in shares {
            if !(least..=most).contains(&value) {
                return Err(Error::invalid_argument(format!(
                    "{field} is {value}; it must be {least} to {most} basis points"
                )));
            }
        }
        if self.force_after == Some(Micros(0)) || self.max_programs == 0 {
            return Err(Error::invalid_argument(
                "force_after and max_programs must be above 0",
            ));
        }
        Ok(())
    }

    /// The most uncached tokens that a turn with this prompt may have and still be warm.
    pub(super) fn warm_limit(&self, prompt_tokens: u32) -> u32 {
        let part = share(u64::from(prompt_tokens), self.warm_share);
        self.warm_tokens.max(part as u32)
    }
}

/// A share of an amount, rounded down.
pub(super) fn share(amount: u64, basis_points: u32) -> u64 {
    (u128::from(amount) * u128::from(basis_points) / u128::from(WHOLE)) as u64
}
