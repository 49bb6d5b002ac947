//! What a scheduler is built from. Checked once, by [`super::Scheduler::new`].

use crate::admission::{
    Admission, GateConfig, LeaseConfig, QueueConfig, ThunderAgentConfig, Weights,
};
use crate::affinity::AffinityConfig;
use crate::continuity::ContinuityConfig;
use crate::error::Result;
use crate::id::{GroupId, Micros};
use crate::prefix::{Dropping, Matching};
use crate::score::kv::KvConfig;

/// Everything that is fixed while a scheduler lives.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Go or hold.
    pub admission: AdmissionConfig,
    /// What each worker may have at once, counted, before admission is asked.
    pub gates: GateConfig,
    /// In which order those go that wait for that.
    pub queue: QueueConfig,
    /// What tenants' turns weigh where they wait.
    pub weights: Weights,
    /// Which model answers.
    pub continuity: ContinuityConfig,
    /// The cost of a worker.
    pub score: KvConfig,
    /// How little a long cold prompt minds who waits before it, see [`patience`](crate::score::patience); 0 is
    /// as much as any. Finite, at least 0.
    pub patience: f64,
    /// How much of what turns teach of their workers' times counts in a cost, see
    /// [`pace`](crate::score::pace); 0 learns nothing. In [0, 1].
    pub pace: f64,
    /// How strongly sessions stay where they are.
    pub affinity: AffinityConfig,
    /// Whether turns wait for one that computes the beginning that they share; `None`: they do not.
    pub fan_out: Option<FanOutConfig>,
    /// Softmax temperature over costs; 0 takes the least one. Finite, at least 0.
    pub temperature: f64,
    /// A held turn ends with an error after this long; `None` leaves it to the policy.
    pub hold_limit: Option<Micros>,
    /// Bounds.
    pub limits: Limits,
    /// Seeds every random choice.
    pub seed: u64,
}

/// When a turn waits for another one that computes the beginning of its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanOutConfig {
    /// The longest that it waits.
    pub max_wait: Micros,
    /// Tokens that both have and nobody has cached; fewer are not worth it. At least 1.
    pub min_tokens: u32,
}

impl Default for FanOutConfig {
    fn default() -> Self {
        Self {
            max_wait: Micros::from_secs(10),
            min_tokens: 4_096,
        }
    }
}

/// Which policy decides between go and hold.
#[derive(Clone, Debug, Default)]
pub enum AdmissionConfig {
    /// Everything goes.
    #[default]
    None,
    /// Pause and resume at tool boundaries.
    ThunderAgent(ThunderAgentConfig),
    /// Warm turns pass, cold ones queue, idle contexts keep a lease.
    Lease(LeaseConfig),
}

impl AdmissionConfig {
    /// A controller of this policy, without workers.
    pub(super) fn policy(&self, weights: &Weights) -> Result<Admission> {
        match self {
            Self::None => Ok(Admission::none()),
            Self::ThunderAgent(config) => Admission::thunderagent(config.clone()),
            Self::Lease(config) => Admission::lease(LeaseConfig {
                weights: weights.clone(),
                ..config.clone()
            }),
        }
    }
}

/// How much the scheduler remembers. A bound that is reached forgets the oldest, except that of
/// reservations, which refuses.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions.
    pub sessions: usize,
    /// Turns in flight or held.
    pub reservations: usize,
    /// Receipts.
    pub receipts: usize,
    /// Blocks in the prefix index.
    pub blocks: usize,
    /// Ids of tool calls and provider state.
    pub owners: usize,
    /// Tokens of prompts that are remembered by what engines made of their texts.
    pub answer_tokens: u64,
    /// A session that has been idle this long is forgotten.
    pub session_idle: Micros,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            reservations: 100_000,
            receipts: 4_096,
            blocks: 4_000_000,
            owners: 1_000_000,
            answer_tokens: 16_000_000,
            session_idle: Micros::from_secs(6 * 3600),
        }
    }
}

/// How long a cache of unknown size is believed to keep a prompt: the shortest lifetime that hosted
/// providers name.
pub const UNKNOWN_TTL: Micros = Micros::from_secs(300);

/// Workers that can serve the same model.
#[derive(Clone, Copy, Debug)]
pub struct GroupOptions {
    /// Tokens in a block, and in a unit of cost. At least 1.
    pub block_tokens: u32,
    /// How long a decision of the router's own is taken as evidence of a warm cache. `None` takes
    /// what fits the worker: while it has room where its capacity is known, else [`UNKNOWN_TTL`].
    pub ttl: Option<Micros>,
    /// How the workers' caches find what they have of a prompt.
    pub matching: Matching,
    /// In which order they give up what they have.
    pub dropping: Dropping,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            block_tokens: 64,
            ttl: None,
            matching: Matching::default(),
            dropping: Dropping::default(),
        }
    }
}

/// A worker as it is registered.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// What an operator calls it. Unique, not empty.
    pub name: String,
    /// The group it serves in.
    pub group: GroupId,
    /// Tokens that its cache holds; `None` when unknown, which never holds a turn.
    pub capacity_tokens: Option<u64>,
}
