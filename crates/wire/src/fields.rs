//! What are the fields of this event?
//!
//! An event comes as an array, where a field is known by its place, or as a map, where it is known by
//! its key. Which of both is seen from the bytes and never guessed from a version. SGLang's arrays have
//! a map at the place of vLLM's adapter name; its keys are read as if they stood in the event.
use crate::error::{Result, WireError};
use crate::pack::{Cursor, Head, Value};
use crate::tally::{Oddity, Tally};

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Stored,
    Removed,
    Cleared,
    Unknown,
}

impl Tag {
    fn of(name: &[u8]) -> Self {
        match name {
            b"BlockStored" => Self::Stored,
            b"BlockRemoved" => Self::Removed,
            b"AllBlocksCleared" => Self::Cleared,
            _ => Self::Unknown,
        }
    }
}

/// A field that means something here, or is known to mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Hashes,
    Parent,
    Tokens,
    BlockSize,
    LoraId,
    LoraName,
    Medium,
    ExtraKeys,
    CacheSalt,
    Group,
    SpecKind,
    Locality,
    Ignored,
}

/// Places in an array, behind the tag.
const STORED: [Field; 11] = [
    Field::Hashes,
    Field::Parent,
    Field::Tokens,
    Field::BlockSize,
    Field::LoraId,
    Field::Medium,
    Field::LoraName,
    Field::ExtraKeys,
    Field::Group,
    Field::SpecKind,
    Field::Ignored,
];
const REMOVED: [Field; 5] = [
    Field::Hashes,
    Field::Medium,
    Field::Group,
    Field::SpecKind,
    Field::Ignored,
];

impl Field {
    fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"block_hashes" => Self::Hashes,
            b"parent_block_hash" => Self::Parent,
            b"token_ids" => Self::Tokens,
            b"block_size" => Self::BlockSize,
            b"lora_id" => Self::LoraId,
            b"lora_name" => Self::LoraName,
            b"medium" => Self::Medium,
            b"extra_keys" => Self::ExtraKeys,
            b"cache_salt" => Self::CacheSalt,
            b"group_idx" => Self::Group,
            b"kv_cache_spec_kind" => Self::SpecKind,
            b"locality" => Self::Locality,
            b"kv_cache_spec_sliding_window" | b"session_id" | b"ownership" => Self::Ignored,
            _ => return None,
        })
    }
}

/// The fields of one event; what is absent is nil.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) tag: Option<Tag>,
    pub(crate) hashes: Value<'a>,
    pub(crate) parent: Value<'a>,
    pub(crate) tokens: Value<'a>,
    pub(crate) block_size: Value<'a>,
    pub(crate) lora_id: Value<'a>,
    pub(crate) lora_name: Value<'a>,
    pub(crate) medium: Value<'a>,
    pub(crate) extra_keys: Value<'a>,
    pub(crate) cache_salt: Value<'a>,
    pub(crate) group: Value<'a>,
    pub(crate) spec_kind: Value<'a>,
    pub(crate) locality: Value<'a>,
}

impl<'a> Fields<'a> {
    /// Reads the next event of a list, whatever it is; afterwards the cursor is behind it.
    pub(crate) fn read(cursor: &mut Cursor<'a>, tally: &mut Tally) -> Result<Self> {
        let mut fields = Self::default();
        match cursor.head()? {
            Head::Array(count) => fields.read_array(cursor, count, tally)?,
            Head::Map(count) => fields.read_map(cursor, count, tally)?,
            Head::Scalar(_) => {}
        }
        Ok(fields)
    }

    fn read_array(&mut self, cursor: &mut Cursor<'a>, count: u32, tally: &mut Tally) -> Result<()> {
        let Some(further) = count.checked_sub(1) else {
            return Ok(());
        };
        self.tag = cursor.value()?.str().map(Tag::of);
        let places: &[Field] = match self.tag {
            Some(Tag::Stored) => &STORED,
            Some(Tag::Removed) => &REMOVED,
            _ => &[],
        };
        let known = places.len().min(further as usize);
        for &place in &places[..known] {
            match (place, cursor.value()?) {
                (Field::LoraName, Value::Map(span)) => {
                    self.read_map(&mut span.open(), span.count, tally)?;
                }
                (place, value) => self.set(place, value),
            }
        }
        let beyond = further - known as u32;
        if beyond > 0 && !places.is_empty() {
            tally.count(Oddity::UnknownField);
        }
        cursor.skip(u64::from(beyond))
    }

    fn read_map(&mut self, cursor: &mut Cursor<'a>, count: u32, tally: &mut Tally) -> Result<()> {
        for _ in 0..count {
            let key = cursor.value()?.str();
            let value = cursor.value()?;
            match key.map(|key| (key, Field::of(key))) {
                Some((b"type", _)) => self.tag = value.str().map(Tag::of),
                Some((_, Some(field))) => self.set(field, value),
                Some((_, None)) => tally.count(Oddity::UnknownField),
                None => return Err(WireError::malformed()),
            }
        }
        Ok(())
    }

    fn set(&mut self, field: Field, value: Value<'a>) {
        let slot = match field {
            Field::Hashes => &mut self.hashes,
            Field::Parent => &mut self.parent,
            Field::Tokens => &mut self.tokens,
            Field::BlockSize => &mut self.block_size,
            Field::LoraId => &mut self.lora_id,
            Field::LoraName => &mut self.lora_name,
            Field::Medium => &mut self.medium,
            Field::ExtraKeys => &mut self.extra_keys,
            Field::CacheSalt => &mut self.cache_salt,
            Field::Group => &mut self.group,
            Field::SpecKind => &mut self.spec_kind,
            Field::Locality => &mut self.locality,
            Field::Ignored => return,
        };
        *slot = value;
    }
}
