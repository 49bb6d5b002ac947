//! What is in one message of a Mooncake master?
//!
//! `[milliseconds, [event...], 0]`, each event a map about one object of the store. The keys that say
//! which blocks an object holds are empty in practice, so the object's own key is what matters: see
//! [`crate::ObjectKey`]. Masters do not say that they were emptied; a form of events that was proposed
//! for them does, and it is understood.
use warmpath_core::prefix::Tier;

use crate::error::{Result, WireError};
use crate::pack::{Cursor, Head, Value};
use crate::stored::tier_of;
use crate::tally::{Oddity, Tally};

/// A master sends at most 64 events at once.
const MAX_BYTES: usize = 1 << 20;

/// A message as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectBatch {
    /// When it was sent, by the master's clock, in seconds since the Unix epoch.
    pub at: Option<f64>,
    /// Whether something that was meant to be understood was not: objects may be gone that were not
    /// taken note of.
    pub is_lossy: bool,
    /// Whether an event of a kind that is not known came, which may have taken something away, and none
    /// that said that all is gone came behind it.
    pub is_unclear: bool,
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is complete, and can be read.
    Stored,
    /// No copy of it is left.
    Removed,
    /// No object is left; the event has no key.
    Cleared,
}

/// One event of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectEvent<'a> {
    /// What has happened.
    pub change: Change,
    /// The object's key.
    pub key: &'a str,
    /// Whose it is, where tenants are kept apart.
    pub tenant: Option<&'a str>,
    /// Where it is; of one that is gone, where it was last, if that is known here.
    pub tier: Option<Tier>,
}

/// Reads the messages of one master.
#[derive(Clone, Debug, Default)]
pub struct ObjectDecoder {
    tally: Tally,
}

impl ObjectDecoder {
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
    pub fn decode<'a>(
        &mut self,
        payload: &'a [u8],
        events: &mut Vec<ObjectEvent<'a>>,
    ) -> Result<ObjectBatch> {
        if payload.len() > MAX_BYTES {
            return Err(WireError::too_long());
        }
        let before = events.len();
        let read = self.read(&mut Cursor::new(payload), events);
        if read.is_err() {
            events.truncate(before);
        }
        read
    }

    fn read<'a>(
        &mut self,
        cursor: &mut Cursor<'a>,
        events: &mut Vec<ObjectEvent<'a>>,
    ) -> Result<ObjectBatch> {
        let Head::Array(count @ 2..) = cursor.head()? else {
            return Err(WireError::not_a_batch());
        };
        let mut batch = ObjectBatch {
            at: match cursor.value()? {
                Value::Uint(millis) => Some(millis as f64 / 1_000.0),
                _ => None,
            },
            is_lossy: false,
            is_unclear: false,
        };
        let Head::Array(listed) = cursor.head()? else {
            return Err(WireError::not_a_batch());
        };
        for _ in 0..listed {
            match read_event(cursor)? {
                Ok(event) => {
                    batch.is_unclear &= event.change != Change::Cleared;
                    events.push(event);
                }
                Err(oddity) => {
                    batch.is_lossy |= oddity == Oddity::Malformed;
                    batch.is_unclear |= oddity == Oddity::UnknownEvent;
                    self.tally.count(oddity);
                }
            }
        }
        cursor.skip(u64::from(count - 2))?;
        match cursor.is_at_end() {
            true => Ok(batch),
            false => Err(WireError::malformed()),
        }
    }
}

fn read_event<'a>(cursor: &mut Cursor<'a>) -> Result<std::result::Result<ObjectEvent<'a>, Oddity>> {
    let Value::Map(fields) = cursor.value()? else {
        return Ok(Err(Oddity::Malformed));
    };
    let mut at = fields.open();
    let (mut kind, mut key, mut tenant, mut medium) = Default::default();
    for _ in 0..fields.count {
        let slot: &mut Value<'a> = match at.value()?.str() {
            Some(b"event_type") => &mut kind,
            Some(b"object_key") => &mut key,
            Some(b"tenant_id") => &mut tenant,
            Some(b"medium") => &mut medium,
            _ => {
                at.skip(1)?;
                continue;
            }
        };
        *slot = at.value()?;
    }
    Ok(event(kind, key, tenant, medium))
}

fn event<'a>(
    kind: Value<'a>,
    key: Value<'a>,
    tenant: Value<'a>,
    medium: Value<'a>,
) -> std::result::Result<ObjectEvent<'a>, Oddity> {
    let change = match kind.str().ok_or(Oddity::Malformed)? {
        b"stored" => Change::Stored,
        b"removed" => Change::Removed,
        b"cleared" => Change::Cleared,
        _ => return Err(Oddity::UnknownEvent),
    };
    let tier = medium.str().and_then(tier_of);
    if change == Change::Stored && tier.is_none() {
        return Err(match medium.str() {
            Some(_) => Oddity::UnknownMedium,
            None => Oddity::Malformed,
        });
    }
    let key = match change {
        Change::Cleared => "",
        Change::Stored | Change::Removed => text(key).ok_or(Oddity::Malformed)?,
    };
    Ok(ObjectEvent {
        change,
        key,
        tenant: text(tenant).filter(|tenant| !tenant.is_empty()),
        tier,
    })
}

fn text(value: Value<'_>) -> Option<&str> {
    std::str::from_utf8(value.str()?).ok()
}
