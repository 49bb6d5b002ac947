//! How those that wait are ordered: what can be set, and what is refused.

use super::order::{Order, Priorities};
use super::rounds::MAX_CLASSES;
use crate::{Error, Micros, Result};

/// The order of those that wait at the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Of one tenant's turns, where their class has none of its own.
    pub order: Order,
    /// What a priority does.
    pub priorities: Priorities,
    /// A turn that has waited for so long goes before the others of its tenant and class. `None`: never.
    /// First come, first served without head starts needs none.
    pub max_age: Option<Micros>,
    /// The classes, at most [`MAX_CLASSES`]; a turn is of the first that takes it, and the last takes
    /// all. Empty: all turns are of one class.
    pub classes: Vec<ClassConfig>,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            order: Order::Fcfs,
            priorities: Priorities::Strict,
            max_age: Some(Micros::from_secs(60)),
            classes: Vec::new(),
        }
    }
}

/// Turns that wait in a queue of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Its name, in reports.
    pub name: String,
    /// Its share: tokens to be computed that it may spend a round. Above 0.
    pub quantum: u32,
    /// The order of one tenant's turns in it; `None`: that of the queue.
    pub order: Option<Order>,
    /// Turns that may wait in it; further ones are refused. Above 0; `None`: any number.
    pub max_waiting: Option<u32>,
    /// It takes turns with at most so many tokens to compute. `None`: any number.
    pub max_tokens: Option<u32>,
    /// It takes turns of these priorities, both included.
    pub priorities: (i16, i16),
}

impl Default for ClassConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            quantum: 8_192,
            order: None,
            max_waiting: None,
            max_tokens: None,
            priorities: (i16::MIN, i16::MAX),
        }
    }
}

impl ClassConfig {
    /// Whether a turn of that priority, with so many tokens to compute, is of this class.
    pub(super) fn takes(&self, priority: i16, tokens: u32) -> bool {
        let (low, high) = self.priorities;
        (low..=high).contains(&priority) && self.max_tokens.is_none_or(|most| tokens <= most)
    }

    fn takes_all(&self) -> bool {
        self.max_tokens.is_none() && self.priorities == (i16::MIN, i16::MAX)
    }
}

impl QueueConfig {
    /// # Errors
    /// `INVALID_ARGUMENT` for more than [`MAX_CLASSES`] classes, two of one name, a last one that does not
    /// take all, or a setting of 0.
    pub(crate) fn check(&self) -> Result<()> {
        let classes = &self.classes;
        if self.max_age == Some(Micros(0)) {
            return Err(Error::invalid_argument("max_age must be above 0"));
        }
        if classes.len() > MAX_CLASSES {
            return Err(Error::invalid_argument(format!(
                "a queue has at most {MAX_CLASSES} classes, not {}",
                classes.len()
            )));
        }
        for (at, class) in classes.iter().enumerate() {
            let name = &class.name;
            if classes[..at].iter().any(|other| other.name == *name) {
                return Err(Error::invalid_argument(format!(
                    "two classes of the queue are called \"{name}\""
                )));
            }
            if class.quantum == 0 || class.max_waiting == Some(0) {
                return Err(Error::invalid_argument(format!(
                    "quantum and max_waiting of class \"{name}\" must be above 0"
                )));
            }
            if class.priorities.0 > class.priorities.1 {
                return Err(Error::invalid_argument(format!(
                    "class \"{name}\" takes no priority: {} is above {}",
                    class.priorities.0, class.priorities.1
                )));
            }
        }
        match classes.last() {
            Some(last) if !last.takes_all() => Err(Error::invalid_argument(format!(
                "the last class of the queue, \"{}\", must take every turn",
                last.name
            ))),
            _ => Ok(()),
        }
    }
}
