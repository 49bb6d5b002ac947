//! What is in one message of a Mooncake master?
//!
//! `[milliseconds, [event...], 0]`, each event a map about one object of the store. The keys that say
//! which blocks an object holds are empty in practice, so the object's own key is what matters: see
//! [`crate::ObjectKey`]. No event says that the store was emptied.
use warmpath_core::prefix::Tier;

use crate::error::{Result, WireError};
use crate::pack::{Cursor, Head, Value};
use crate::stored::tier_of;
use crate::tally::{Oddity, Tally};

/// A master sends at most 64 events at once.
const MAX_BYTES: usize = 1 << 20;

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is complete, and can be read.
    Stored,
    /// No copy of it is left.
    Removed,
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
    /// Where it is; of a removed one, where it was last.
    pub tier: Tier,
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
    ) -> Result<()> {
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
    ) -> Result<()> {
        let Head::Array(count @ 2..) = cursor.head()? else {
            return Err(WireError::not_a_batch());
        };
        cursor.skip(1)?;
        let Head::Array(listed) = cursor.head()? else {
            return Err(WireError::not_a_batch());
        };
        for _ in 0..listed {
            match read_event(cursor)? {
                Ok(event) => events.push(event),
                Err(oddity) => self.tally.count(oddity),
            }
        }
        cursor.skip(u64::from(count - 2))?;
        match cursor.is_at_end() {
            true => Ok(()),
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
        _ => return Err(Oddity::UnknownEvent),
    };
    let tier = tier_of(medium.str().ok_or(Oddity::Malformed)?);
    Ok(ObjectEvent {
        change,
        key: text(key).ok_or(Oddity::Malformed)?,
        tenant: text(tenant).filter(|tenant| !tenant.is_empty()),
        tier: tier.ok_or(Oddity::UnknownMedium)?,
    })
}

fn text(value: Value<'_>) -> Option<&str> {
    std::str::from_utf8(value.str()?).ok()
}
