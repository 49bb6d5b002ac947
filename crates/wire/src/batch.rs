//! What is in one message of a vLLM-like publisher?
//!
//! A batch is `[time, events, rank]`, the rank absent in old versions; later elements are passed over.
//! An event that makes no sense costs itself; bytes that are no MessagePack cost the batch.
use crate::error::{Result, WireError};
use crate::events::Events;
use crate::fields::{Fields, Tag};
use crate::pack::{Cursor, Head, Value};
use crate::stored::Reader;
use crate::tally::{Oddity, Tally};

/// No publisher sends that much at once: ten thousand blocks of five hundred tokens take a third.
const MAX_BYTES: usize = 64 << 20;

/// What is said of a batch as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Seconds since the Unix epoch by the engine's clock, as far as it said so.
    pub at: Option<f64>,
    /// The data-parallel rank that it is of.
    pub rank: Option<u32>,
    /// Whether an event that took something away could not be read: what is known of the engine may
    /// be more than it has.
    pub is_lossy: bool,
    /// Whether an event of a kind that is not known came, which may have taken something away, and none
    /// that said that all is gone came behind it.
    pub is_unclear: bool,
    /// Whether an event said that all is gone.
    pub clears: bool,
}

/// Reads the messages of one publisher.
#[derive(Clone, Debug, Default)]
pub struct KvDecoder {
    reader: Reader,
    tally: Tally,
}

impl KvDecoder {
    /// A decoder that has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was passed over so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Appends the events of a message to `events`. O(bytes).
    ///
    /// # Errors
    /// When the message as a whole cannot be read; `events` is then as it was.
    pub fn decode(&mut self, payload: &[u8], events: &mut Events) -> Result<Batch> {
        if payload.len() > MAX_BYTES {
            return Err(WireError::too_long());
        }
        let mark = events.mark();
        let mut cursor = Cursor::new(payload);
        let read = self.read_batch(&mut cursor, events);
        let read = read.and_then(|batch| match cursor.is_at_end() {
            true => Ok(batch),
            false => Err(WireError::malformed()),
        });
        if read.is_err() {
            events.back_to(mark);
        }
        read
    }

    fn read_batch(&mut self, cursor: &mut Cursor<'_>, events: &mut Events) -> Result<Batch> {
        match cursor.head()? {
            Head::Array(count @ 2..) => {
                let mut batch = Batch {
                    at: time(cursor.value()?),
                    ..Batch::default()
                };
                self.read_events(cursor, events, &mut batch)?;
                if count > 2 {
                    batch.rank = cursor.value()?.u32();
                }
                if count > 3 {
                    self.tally.count(Oddity::UnknownField);
                }
                cursor.skip(u64::from(count.saturating_sub(3)))?;
                Ok(batch)
            }
            Head::Map(count) => self.read_map(cursor, count, events),
            _ => Err(WireError::not_a_batch()),
        }
    }

    /// A form that one version had between two others.
    fn read_map(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: u32,
        events: &mut Events,
    ) -> Result<Batch> {
        let mut batch = Batch::default();
        let mut has_events = false;
        for _ in 0..count {
            match cursor.value()?.str() {
                Some(b"ts") => batch.at = time(cursor.value()?),
                Some(b"data_parallel_rank" | b"attn_dp_rank") => batch.rank = cursor.value()?.u32(),
                Some(b"events") => {
                    self.read_events(cursor, events, &mut batch)?;
                    has_events = true;
                }
                _ => {
                    self.tally.count(Oddity::UnknownField);
                    cursor.skip(1)?;
                }
            }
        }
        match has_events {
            true => Ok(batch),
            false => Err(WireError::not_a_batch()),
        }
    }

    fn read_events(
        &mut self,
        cursor: &mut Cursor<'_>,
        events: &mut Events,
        batch: &mut Batch,
    ) -> Result<()> {
        let Head::Array(count) = cursor.head()? else {
            return Err(WireError::not_a_batch());
        };
        for _ in 0..count {
            let fields = Fields::read(cursor, &mut self.tally)?;
            match self.reader.apply(&fields, events)? {
                Ok(()) if fields.tag == Some(Tag::Cleared) => {
                    (batch.clears, batch.is_unclear) = (true, false);
                }
                Ok(()) => {}
                Err(oddity) => {
                    self.tally.count(oddity);
                    let took = fields.tag.is_none_or(|tag| tag == Tag::Removed);
                    batch.is_lossy |= took && oddity == Oddity::Malformed;
                    batch.is_unclear |= oddity == Oddity::UnknownEvent;
                }
            }
        }
        Ok(())
    }
}

fn time(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Float(at) if at.is_finite() => Some(at),
        Value::Uint(at) => Some(at as f64),
        _ => None,
    }
}
