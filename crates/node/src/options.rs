//! The options that a scheduler is opened with, as JSON: read once, checked by the core.
use std::num::NonZeroU32;

use serde::Deserialize;

use std::collections::BTreeMap;

use warmpath_core::admission::{
    Eviction, GateConfig, LeaseConfig, QueueConfig, ThunderAgentConfig, Weights,
};
use warmpath_core::affinity::{AffinityConfig, Mode};
use warmpath_core::block::Namespace;
use warmpath_core::prefix::{BreakpointRules, Dropping, Implicit, Matching, Refresh};
use warmpath_core::scheduler::{
    AdmissionConfig, CacheScope, Config, FanOutConfig, GroupOptions, Limits, SharedBy, UNKNOWN_TTL,
    WorkerOptions,
};
use warmpath_core::score::kv::KvConfig;
use warmpath_core::{GroupId, Micros};

use crate::error::{Code, invalid};
use crate::feed::KvEvents;
use crate::journal::JournalOptions;
use crate::models::{Continuity, NewModel};
use crate::pool::NewPool;
use crate::queue::Queue;

/// A whole scheduler: its settings and the fleet that it starts with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) groups: Vec<Group>,
    pub(crate) workers: Vec<NewWorker>,
    pub(crate) targets: Vec<NewTarget>,
    /// Stores that groups share.
    #[serde(default)]
    pub(crate) pools: Vec<NewPool>,
    #[serde(default)]
    admission: Admission,
    #[serde(default)]
    pub(crate) continuity: Continuity,
    #[serde(default)]
    score: Score,
    #[serde(default)]
    affinity: Affinity,
    fan_out: Option<FanOut>,
    #[serde(default)]
    limits: Bounds,
    #[serde(default)]
    seed: u64,
    /// Whether what it is told is kept for a trace.
    pub(crate) steps: Option<JournalOptions>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Group {
    block_tokens: Option<u32>,
    ttl_ms: Option<u64>,
    #[serde(default, rename = "match")]
    family: Family,
    unit_tokens: Option<NonZeroU32>,
    min_tokens: Option<u32>,
    lookback: Option<u32>,
    refresh_on_read: Option<bool>,
    automatic: Option<bool>,
    /// Whether nothing is known of the order in which it drops what it has.
    #[serde(default)]
    drops_unseen: bool,
}

/// How a cache finds what it has.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Family {
    #[default]
    Block,
    Breakpoint,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewWorker {
    pub(crate) name: String,
    pub(crate) group: u32,
    pub(crate) capacity_tokens: Option<u64>,
    pub(crate) kv_events: Option<KvEvents>,
    /// Opaque to the addon: whatever the caller wants to find again from another thread.
    #[serde(default)]
    pub(crate) detail: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewTarget {
    pub(crate) name: String,
    pub(crate) group: u32,
    #[serde(default)]
    pub(crate) model: NewModel,
    #[serde(default)]
    pub(crate) cache: TargetCache,
    #[serde(default)]
    pub(crate) detail: String,
}

/// What a target's prompts share in the caches of its workers.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TargetCache {
    /// Sets them apart from those of targets of another name; empty: from none.
    #[serde(default)]
    name: String,
    #[serde(default)]
    per_tenant: bool,
}

impl TargetCache {
    pub(crate) fn scope(&self) -> CacheScope {
        CacheScope {
            namespace: match self.name.as_str() {
                "" => Namespace::COMMON,
                name => Namespace::of(&[b"target", name.as_bytes()]),
            },
            shared_by: match self.per_tenant {
                false => SharedBy::All,
                true => SharedBy::Tenant,
            },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    #[default]
    None,
    Thunderagent,
    Lease,
}

/// In which order engines give up idle contexts.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Lru,
    LeaseEnd,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Admission {
    #[serde(default)]
    policy: Policy,
    pause_bp: Option<u32>,
    target_bp: Option<u32>,
    resume_bp: Option<u32>,
    buffer_tokens: Option<u32>,
    interval_ms: Option<u64>,
    theta_bp: Option<u32>,
    force_after_ms: Option<u64>,
    host_tokens: Option<u64>,
    eviction: Option<Order>,
    hold_limit_ms: Option<u64>,
    max_running: Option<u32>,
    max_sessions: Option<u32>,
    session_idle_ms: Option<u64>,
    queue: Option<Queue>,
    /// By tenant, in thousandths.
    #[serde(default)]
    weights: BTreeMap<String, u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Score {
    overlap_credit: Option<f64>,
    overlap_decay: Option<f64>,
    prefill_scale: Option<f64>,
    request_weight: Option<f64>,
    queue_patience: Option<f64>,
    pace: Option<f64>,
    host_credit: Option<f64>,
    disk_credit: Option<f64>,
    pool_credit: Option<f64>,
    temperature: Option<f64>,
}

/// How strongly sessions stay.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Affinity {
    mode: Option<Strength>,
    credit_tokens: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Strength {
    Off,
    Soft,
    Hard,
}

impl Affinity {
    /// The core's own.
    pub(crate) fn config(&self) -> AffinityConfig {
        let mut config = AffinityConfig::default();
        let mode = self.mode.map(|strength| match strength {
            Strength::Off => Mode::Off,
            Strength::Soft => Mode::Soft,
            Strength::Hard => Mode::Hard,
        });
        set(&mut config.mode, mode);
        set(&mut config.credit_tokens, self.credit_tokens);
        config
    }
}

/// When turns wait for one that computes the beginning that they share.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FanOut {
    max_wait_ms: Option<u64>,
    min_tokens: Option<u32>,
}

impl FanOut {
    /// The core's own.
    pub(crate) fn config(&self) -> FanOutConfig {
        let mut config = FanOutConfig::default();
        set(
            &mut config.max_wait,
            self.max_wait_ms.map(Micros::from_millis),
        );
        set(&mut config.min_tokens, self.min_tokens);
        config
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Bounds {
    sessions: Option<usize>,
    reservations: Option<usize>,
    receipts: Option<usize>,
    blocks: Option<usize>,
    owners: Option<usize>,
    answer_tokens: Option<u64>,
    session_idle_ms: Option<u64>,
}

impl Options {
    /// Reads the JSON text.
    pub(crate) fn parse(text: &str) -> napi::bindgen_prelude::Result<Self, Code> {
        serde_json::from_str(text).map_err(|error| invalid(format!("options: {error}")))
    }

    /// The core's settings.
    pub(crate) fn config(&self) -> warmpath_core::Result<Config> {
        Ok(Config {
            admission: self.admission.config(),
            gates: self.admission.gates(),
            queue: self.admission.queue(),
            weights: self.admission.weights()?,
            continuity: self.continuity.config(),
            score: self.score.config(),
            affinity: self.affinity.config(),
            fan_out: self.fan_out.as_ref().map(FanOut::config),
            temperature: self.score.temperature(),
            patience: self.score.patience(),
            pace: self.score.pace(),
            hold_limit: self.admission.hold_limit_ms.map(Micros::from_millis),
            limits: self.limits.config(),
            seed: self.seed,
        })
    }
}

impl Admission {
    /// What each worker may have at once.
    pub(crate) fn gates(&self) -> GateConfig {
        let mut config = GateConfig {
            max_running: self.max_running,
            max_sessions: self.max_sessions,
            ..GateConfig::default()
        };
        let idle = self.session_idle_ms.map(Micros::from_millis);
        set(&mut config.session_idle, idle);
        config
    }

    /// In which order turns wait for that.
    pub(crate) fn queue(&self) -> QueueConfig {
        self.queue
            .as_ref()
            .map_or_else(QueueConfig::default, Queue::config)
    }

    /// What tenants weigh.
    pub(crate) fn weights(&self) -> warmpath_core::Result<Weights> {
        Weights::new(
            self.weights
                .iter()
                .map(|(name, &weight)| (name.as_str(), weight)),
        )
    }

    /// The core's own.
    pub(crate) fn config(&self) -> AdmissionConfig {
        match self.policy {
            Policy::None => AdmissionConfig::None,
            Policy::Thunderagent => {
                let mut config = ThunderAgentConfig::default();
                set(&mut config.pause, self.pause_bp);
                set(&mut config.target, self.target_bp);
                set(&mut config.resume, self.resume_bp);
                set(&mut config.buffer_tokens, self.buffer_tokens);
                let interval = self.interval_ms.map(Micros::from_millis);
                set(&mut config.interval, interval);
                AdmissionConfig::ThunderAgent(config)
            }
            Policy::Lease => {
                let mut config = LeaseConfig::default();
                set(&mut config.theta, self.theta_bp);
                set(&mut config.host_tokens, self.host_tokens);
                if let Some(limit) = self.force_after_ms {
                    config.force_after = Some(Micros::from_millis(limit));
                }
                if let Some(Order::LeaseEnd) = self.eviction {
                    config.eviction = Eviction::LeaseEnd;
                }
                AdmissionConfig::Lease(config)
            }
        }
    }
}

impl Score {
    /// How little a long cold prompt minds who waits before it.
    pub(crate) fn patience(&self) -> f64 {
        self.queue_patience.unwrap_or(0.0)
    }

    /// How much of what turns teach of their workers' times counts.
    pub(crate) fn pace(&self) -> f64 {
        self.pace.unwrap_or(0.0)
    }

    /// Softmax temperature; 0 takes the cheapest.
    pub(crate) fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(0.0)
    }

    /// The published weights, but for those that are given.
    pub(crate) fn config(&self) -> KvConfig {
        let mut config = KvConfig::default();
        set(&mut config.overlap_credit, self.overlap_credit);
        set(&mut config.credit_decay, self.overlap_decay);
        set(&mut config.prefill_scale, self.prefill_scale);
        set(&mut config.request_weight, self.request_weight);
        set(&mut config.host_credit, self.host_credit);
        set(&mut config.disk_credit, self.disk_credit);
        set(&mut config.pool_credit, self.pool_credit);
        config
    }
}

impl Bounds {
    fn config(&self) -> Limits {
        let mut limits = Limits::default();
        set(&mut limits.sessions, self.sessions);
        set(&mut limits.reservations, self.reservations);
        set(&mut limits.receipts, self.receipts);
        set(&mut limits.blocks, self.blocks);
        set(&mut limits.owners, self.owners);
        set(&mut limits.answer_tokens, self.answer_tokens);
        let idle = self.session_idle_ms.map(Micros::from_millis);
        set(&mut limits.session_idle, idle);
        limits
    }
}

impl Group {
    /// The core's options; what is not given has the core's default.
    pub(crate) fn options(&self) -> GroupOptions {
        let mut options = GroupOptions::default();
        set(&mut options.block_tokens, self.block_tokens);
        options.ttl = self.ttl_ms.map(Micros::from_millis);
        options.matching = self.matching();
        if self.drops_unseen {
            options.dropping = Dropping::Unknown;
        }
        options
    }

    fn matching(&self) -> Matching {
        let min_tokens = self.min_tokens.unwrap_or(0);
        match self.family {
            Family::Block => Matching::Block {
                unit_tokens: self.unit_tokens.unwrap_or(NonZeroU32::MIN),
                min_tokens,
            },
            Family::Breakpoint => Matching::Breakpoint(BreakpointRules {
                lookback: self.lookback,
                min_tokens,
                ttl: self.ttl_ms.map_or(UNKNOWN_TTL, Micros::from_millis),
                refresh: match self.refresh_on_read {
                    Some(false) => Refresh::Never,
                    _ => Refresh::OnRead,
                },
                implicit: match self.automatic {
                    Some(true) => Implicit::AtEnd,
                    _ => Implicit::None,
                },
            }),
        }
    }
}

impl Group {
    /// Reads one group as JSON text.
    pub(crate) fn parse(text: &str) -> napi::bindgen_prelude::Result<Self, Code> {
        serde_json::from_str(text).map_err(|error| invalid(format!("group: {error}")))
    }
}

impl NewTarget {
    /// Reads one target as JSON text.
    pub(crate) fn parse(text: &str) -> napi::bindgen_prelude::Result<Self, Code> {
        serde_json::from_str(text).map_err(|error| invalid(format!("target: {error}")))
    }
}

impl NewWorker {
    /// Reads one worker as JSON text.
    pub(crate) fn parse(text: &str) -> napi::bindgen_prelude::Result<Self, Code> {
        serde_json::from_str(text).map_err(|error| invalid(format!("worker: {error}")))
    }

    /// The core's options.
    pub(crate) fn options(&self) -> WorkerOptions {
        WorkerOptions {
            name: self.name.clone(),
            group: GroupId(self.group),
            capacity_tokens: self.capacity_tokens,
        }
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
