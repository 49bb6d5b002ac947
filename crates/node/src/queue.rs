//! In which order turns wait, as the options say it.

use serde::Deserialize;
use warmpath_core::Micros;
use warmpath_core::admission::{ClassConfig, Order, Priorities, QueueConfig};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Queue {
    order: Sequence,
    priority: Meaning,
    /// Absent: a turn may be passed for ever.
    max_age_ms: Option<u64>,
    classes: Vec<Class>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Class {
    name: String,
    quantum: Option<u32>,
    order: Option<Sequence>,
    max_waiting: Option<u32>,
    max_tokens: Option<u32>,
    min_priority: Option<i16>,
    max_priority: Option<i16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sequence {
    Fcfs,
    Wspt,
    Lcfs,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Meaning {
    Strict,
    HeadStart,
    Published,
}

impl From<Sequence> for Order {
    fn from(sequence: Sequence) -> Self {
        match sequence {
            Sequence::Fcfs => Self::Fcfs,
            Sequence::Wspt => Self::Wspt,
            Sequence::Lcfs => Self::Lcfs,
        }
    }
}

impl Queue {
    /// The core's own.
    pub(crate) fn config(&self) -> QueueConfig {
        QueueConfig {
            order: self.order.into(),
            priorities: match self.priority {
                Meaning::Strict => Priorities::Strict,
                Meaning::HeadStart => Priorities::HeadStart,
                Meaning::Published => Priorities::Published,
            },
            max_age: self.max_age_ms.map(Micros::from_millis),
            classes: self.classes.iter().map(Class::config).collect(),
        }
    }
}

impl Class {
    fn config(&self) -> ClassConfig {
        let mut config = ClassConfig {
            name: self.name.clone(),
            order: self.order.map(Order::from),
            max_waiting: self.max_waiting,
            max_tokens: self.max_tokens,
            ..ClassConfig::default()
        };
        config.quantum = self.quantum.unwrap_or(config.quantum);
        let (low, high) = config.priorities;
        config.priorities = (
            self.min_priority.unwrap_or(low),
            self.max_priority.unwrap_or(high),
        );
        config
    }
}
