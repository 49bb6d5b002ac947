//! What would a turn cost on this worker, in blocks of work?
//!
//! The cost of the published KvRouter, term for term: the prefill that would be waiting there, less
//! credit for what is cached; the blocks that would be in use; and a price for each running request.
//!
//! ```text
//! credit = overlap·decay·device + host·host_ext + disk·(disk_ext + external_ext) + shared·pool hits
//! cost   = prefill·max(0, raw/block − credit) + decode + additional + request·requests
//! cost  *= exp(−tanh(Σ weights of preferred labels that the worker has))
//! ```
//! A [`KvCost`] is made once a turn from the least prefill load of the eligible workers; each row then
//! is O(shared ranges), without allocation. Knows no tree, no ledger and no clock: rows are numbers.
//! It trusts them to be finite and not negative.
use std::ops::Range;

use crate::{Error, Result};

/// The weights of the cost; [`KvConfig::default`] is the published default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvConfig {
    /// Credit for a cached block on the device; at least 0. At 0 no tier earns any.
    pub overlap_credit: f64,
    /// How fast credit fades with a worker's prefill load above the least loaded; at least 0, 0 = never.
    pub credit_decay: f64,
    /// Weight of the prefill term; at least 0.
    pub prefill_scale: f64,
    /// Blocks that a running request counts as; at least 0.
    pub request_weight: f64,
    /// Credit for a block in host memory, in [0, 1].
    pub host_credit: f64,
    /// Credit for a block on disk or on another machine, in [0, 1].
    pub disk_credit: f64,
    /// Credit for a block of the shared pool, in [0, 1].
    pub shared_credit: f64,
    /// Credit for a block of whole pages of a shared store behind what the worker has itself, in [0, 1].
    /// Not in the published cost, which knows no such rows.
    pub pool_credit: f64,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self {
            overlap_credit: 1.0,
            credit_decay: 0.0,
            prefill_scale: 1.0,
            request_weight: 0.0,
            host_credit: 0.75,
            disk_credit: 0.25,
            shared_credit: 0.0,
            pool_credit: 0.25,
        }
    }
}

impl KvConfig {
    /// Checks each weight.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`: names the field and its range.
    pub fn validate(&self) -> Result<()> {
        let fields = [
            ("overlap_credit", self.overlap_credit, f64::MAX),
            ("credit_decay", self.credit_decay, f64::MAX),
            ("prefill_scale", self.prefill_scale, f64::MAX),
            ("request_weight", self.request_weight, f64::MAX),
            ("host_credit", self.host_credit, 1.0),
            ("disk_credit", self.disk_credit, 1.0),
            ("shared_credit", self.shared_credit, 1.0),
            ("pool_credit", self.pool_credit, 1.0),
        ];
        match fields
            .iter()
            .find(|(_, v, most)| !(0.0..=*most).contains(v))
        {
            None => Ok(()),
            Some((name, value, most)) => {
                let range = if *most == 1.0 {
                    "[0, 1]"
                } else {
                    "at least 0 and finite"
                };
                let detail = format!("{name} is {value}; it must be {range}");
                Err(Error::invalid_argument(detail))
            }
        }
    }
}

/// What the worker will do with the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Prefill and decode.
    #[default]
    Aggregated,
    /// Prefill only.
    Prefill,
    /// Decode of a turn whose prefill runs elsewhere; what is cached here need not be sent.
    Decode,
    /// Decode of a turn whose blocks all arrive from the prefill worker: nothing earns credit.
    PlainDecode,
}

/// Whether the work of prefill counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// As usual.
    #[default]
    Tracked,
    /// Not at all: it happens elsewhere.
    Untracked,
}

/// What is the same for all workers of one turn.
#[derive(Clone, Copy, Debug)]
pub struct KvTurn<'a> {
    /// Tokens a block, above 0.
    pub block_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// What the worker will do.
    pub role: Role,
    /// Whether prefill counts.
    pub prefill: Prefill,
    /// Which blocks of the prompt are in the shared pool; disjoint.
    pub shared: &'a [Range<u32>],
}

/// What a worker has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvLoad {
    /// Tokens still to be computed.
    pub prefill_tokens: f64,
    /// Blocks in use.
    pub decode_blocks: f64,
    /// Blocks that this turn would add.
    pub additional_blocks: f64,
    /// Running requests.
    pub requests: f64,
}

/// One worker as the cost sees it. Lower tiers are extensions: blocks beyond what the tiers before
/// them have. All in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvRow {
    /// Cached on the device, from the root.
    pub device: f64,
    /// Further ones in host memory.
    pub host: f64,
    /// Further ones on disk.
    pub disk: f64,
    /// Further ones on another machine.
    pub external: f64,
    /// Further ones in whole pages of a shared store.
    pub pool: f64,
    /// What is in flight there, when it is known.
    pub load: Option<KvLoad>,
}

impl KvRow {
    /// What counts for the least prefill load: zero when the load is not known.
    #[must_use]
    pub fn prefill_tokens(&self) -> f64 {
        self.load.map_or(0.0, |load| load.prefill_tokens)
    }

    /// Blocks cached in any tier, unweighted.
    #[must_use]
    pub fn cached_blocks(&self) -> f64 {
        self.device + self.host + self.disk + self.external + self.pool
    }
}

/// The cost of one turn, ready for its rows.
#[derive(Clone, Copy, Debug)]
pub struct KvCost<'a> {
    config: KvConfig,
    turn: KvTurn<'a>,
    least_prefill: f64,
}

impl<'a> KvCost<'a> {
    /// `least_prefill` is the least [`KvRow::prefill_tokens`] of the eligible rows; it only matters
    /// when credit decays.
    #[must_use]
    pub fn new(config: KvConfig, turn: KvTurn<'a>, least_prefill: f64) -> Self {
        Self {
            config,
            turn,
            least_prefill,
        }
    }

    /// The same with other weights.
    #[must_use]
    pub fn weighed(self, config: KvConfig) -> Self {
        Self { config, ..self }
    }

    /// The cost of one row in blocks; lower is better. `preference` is the sum of the weights of the
    /// preferred labels that the worker has.
    #[must_use]
    #[inline(always)] // Out of line, what is the same for all rows of a turn is asked again: 117 instructions a row.
    pub fn of(&self, row: &KvRow, preference: f64) -> f64 {
        let load = row.load.unwrap_or_default();
        let credit = self.credit(row);
        let blocks = load.decode_blocks + load.additional_blocks;
        let requests = self.config.request_weight * load.requests;
        let cost = if self.credits_decode() {
            (blocks - credit).max(0.0) + requests
        } else {
            let prefill = self.raw_tokens(row) / self.block() - credit;
            self.config.prefill_scale * prefill.max(0.0) + blocks + requests
        };
        if preference == 0.0 {
            return cost;
        }
        cost * libm::exp(-libm::tanh(preference))
    }

    /// What is cached there in blocks, lower tiers weighted by their credit; also where the cost gives
    /// no credit for it.
    #[must_use]
    pub fn overlap(&self, row: &KvRow) -> f64 {
        row.device
            + self.config.host_credit * row.host
            + self.config.disk_credit * (row.disk + row.external)
            + self.config.pool_credit * row.pool
    }

    /// The overlap in tokens, to the nearest.
    #[must_use]
    pub fn cached_tokens(&self, row: &KvRow) -> f64 {
        libm::round(self.overlap(row) * self.block())
    }

    /// Blocks in use there with this turn, its partial last block included.
    #[must_use]
    pub fn projected_blocks(&self, row: &KvRow) -> f64 {
        let load = row.load.unwrap_or_default();
        let tail = match self.turn.prompt_tokens % self.turn.block_tokens {
            0 => 0.0,
            _ => 1.0,
        };
        load.decode_blocks + load.additional_blocks + tail
    }

    #[inline(always)] // As `of`.
    fn credit(&self, row: &KvRow) -> f64 {
        if !self.counts_cache() {
            return 0.0;
        }
        let c = &self.config;
        c.overlap_credit * self.decay(row) * row.device
            + c.host_credit * row.host
            + c.disk_credit * (row.disk + row.external)
            + c.pool_credit * row.pool
            + c.shared_credit * self.shared_hits(row)
    }

    fn decay(&self, row: &KvRow) -> f64 {
        if self.turn.prefill == Prefill::Untracked || self.config.credit_decay <= 0.0 {
            return 1.0;
        }
        let above = (row.prefill_tokens() - self.least_prefill) / self.block();
        let request = self.turn.prompt_tokens.div_ceil(self.turn.block_tokens);
        1.0 / (1.0 + self.config.credit_decay * above / f64::from(request.max(1)))
    }

    /// Blocks of the pool at or past the end of what the device has; holes do not end them.
    fn shared_hits(&self, row: &KvRow) -> f64 {
        let from = libm::round(row.device) as u32;
        let beyond = |range: &Range<u32>| range.end.saturating_sub(range.start.max(from));
        self.turn.shared.iter().map(beyond).map(f64::from).sum()
    }

    /// Tokens of prefill that would be waiting, with the cached ones: credit takes those off.
    fn raw_tokens(&self, row: &KvRow) -> f64 {
        let prompt = f64::from(self.turn.prompt_tokens);
        match (self.turn.prefill, row.load) {
            (Prefill::Untracked, _) => 0.0,
            (Prefill::Tracked, None) => prompt,
            (Prefill::Tracked, Some(load)) => {
                let cached = match self.counts_cache() {
                    true => self.cached_tokens(row),
                    false => 0.0,
                };
                load.prefill_tokens + (prompt - cached).max(0.0) + cached
            }
        }
    }

    fn block(&self) -> f64 {
        f64::from(self.turn.block_tokens)
    }

    fn counts_cache(&self) -> bool {
        self.config.overlap_credit > 0.0 && self.turn.role != Role::PlainDecode
    }

    /// Decode apart from prefill: a cached block need not be moved here.
    fn credits_decode(&self) -> bool {
        self.turn.role == Role::Decode
            && self.turn.prefill == Prefill::Untracked
            && self.config.overlap_credit > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_out_of_range_is_named_with_its_range() {
        assert_eq!(KvConfig::default().validate(), Ok(()));
        let refused = |config: KvConfig| {
            let error = config.validate().expect_err("out of range");
            (error.code(), error.to_string())
        };
        let host = KvConfig {
            host_credit: 1.5,
            ..KvConfig::default()
        };
        let said = "host_credit is 1.5; it must be [0, 1]".to_owned();
        assert_eq!(refused(host), ("INVALID_ARGUMENT", said));
        for bad in [-0.1, f64::NAN, f64::INFINITY] {
            let decay = KvConfig {
                credit_decay: bad,
                ..KvConfig::default()
            };
            let said = format!("credit_decay is {bad}; it must be at least 0 and finite");
            assert_eq!(refused(decay).1, said);
        }
    }
}
