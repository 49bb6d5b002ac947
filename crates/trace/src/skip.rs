//! What is left out, and may anything be?
//!
//! Strict: the first fault ends the reading. Lenient: the record is left out and counted by kind.
use std::collections::BTreeMap;

use crate::error::{ErrorKind, TraceError};

/// What a fault of a record costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// The reading: it ends with the error.
    #[default]
    Strict,
    /// The record: it is left out and counted.
    Lenient,
}

/// Counts what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skips {
    leniency: Leniency,
    counts: BTreeMap<ErrorKind, u64>,
}

impl Skips {
    pub(crate) fn new(leniency: Leniency) -> Self {
        Self {
            leniency,
            counts: BTreeMap::new(),
        }
    }

    /// Counts a fault, or hands it back.
    pub(crate) fn take(&mut self, error: TraceError) -> Result<(), TraceError> {
        match self.leniency {
            Leniency::Strict => Err(error),
            Leniency::Lenient => {
                *self.counts.entry(error.kind()).or_default() += 1;
                Ok(())
            }
        }
    }

    pub(crate) fn into_counts(self) -> BTreeMap<ErrorKind, u64> {
        self.counts
    }
}
