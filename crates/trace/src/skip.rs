//! What is left out, and may anything be?
//!
//! Strict: the first fault ends the reading. Lenient: the record is left out and counted by kind.
use std::collections::BTreeMap;

use crate::error::{ErrorKind, Place, TraceError};

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
    first: Option<TraceError>,
    records: BTreeMap<ErrorKind, u64>,
    links: BTreeMap<ErrorKind, u64>,
}

impl Skips {
    pub(crate) fn new(leniency: Leniency) -> Self {
        Self {
            leniency,
            ..Self::default()
        }
    }

    /// Counts a record that is left out, or hands its fault back.
    pub(crate) fn take(&mut self, error: TraceError) -> Result<(), TraceError> {
        self.take_all(Faults::of(error))
    }

    /// The same of several records.
    pub(crate) fn take_all(&mut self, faults: Faults) -> Result<(), TraceError> {
        if self.leniency == Leniency::Strict {
            return Err(faults.first);
        }
        for (kind, count) in faults.counts {
            *self.records.entry(kind).or_default() += count;
        }
        self.first.get_or_insert(faults.first);
        Ok(())
    }

    /// Counts what a record says of another one, without which the record stays, or hands its fault back.
    pub(crate) fn take_link(&mut self, error: TraceError) -> Result<(), TraceError> {
        if self.leniency == Leniency::Strict {
            return Err(error);
        }
        *self.links.entry(error.kind()).or_default() += 1;
        Ok(())
    }

    /// Why nothing is left, where records were left out.
    pub(crate) fn nothing_left(&self) -> Option<TraceError> {
        let first = self.first.clone()?;
        if first.place() == Place::File && self.records.values().sum::<u64>() == 1 {
            return Some(first);
        }
        let kinds = self.records.iter();
        let kinds: Vec<_> = kinds
            .map(|(kind, n)| format!("{n} {}", kind.name()))
            .collect();
        let all = format!(
            "every record was left out ({}); the first: ",
            kinds.join(", ")
        );
        Some(first.with_prefix(&all))
    }

    /// Records that were left out, and links.
    pub(crate) fn into_counts(self) -> (BTreeMap<ErrorKind, u64>, BTreeMap<ErrorKind, u64>) {
        (self.records, self.links)
    }
}

/// Some faults of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) first: TraceError,
    counts: BTreeMap<ErrorKind, u64>,
}

impl Faults {
    pub(crate) fn of(error: TraceError) -> Self {
        Self {
            counts: BTreeMap::from([(error.kind(), 1)]),
            first: error,
        }
    }

    pub(crate) fn add(&mut self, kind: ErrorKind) {
        *self.counts.entry(kind).or_default() += 1;
    }
}
