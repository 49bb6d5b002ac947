//! What sets a block apart from another one with the same tokens?
//!
//! Adapter, cache salt and media are in the engine's hash and so must be in ours, or a prompt of one
//! tenant would be credited with another one's blocks. Engines list them block by block; each block's
//! seed is the framed list of its own parts, and a block without any has the plain seed. A salt stands
//! on the first block of a prompt only: the chain carries it to the rest.
use warmpath_core::block::Seed;

use crate::error::Result;
use crate::fields::Fields;
use crate::pack::{Cursor, Value};

/// The seeds of an event's blocks, one after the other.
pub(crate) enum Seeds<'a> {
    /// All blocks have this one, the first perhaps another.
    Same { first: Seed, rest: Seed },
    /// Each has what its entry says.
    Listed(Cursor<'a>),
}

impl<'a> Seeds<'a> {
    /// What the fields of a store say, which has a parent or begins a prompt.
    pub(crate) fn of(fields: &Fields<'a>, is_root: bool) -> Self {
        if let Value::Array(keys) = fields.extra_keys
            && keys.count > 0
        {
            return Self::Listed(keys.open());
        }
        let number;
        let adapter = match (fields.lora_name, fields.lora_id) {
            (Value::Str(name), _) => Some(name),
            (_, Value::Uint(id)) => {
                number = id.to_string();
                Some(number.as_bytes())
            }
            _ => None,
        };
        let salt = fields
            .cache_salt
            .str()
            .filter(|salt| is_root && !salt.is_empty());
        let seed = |parts: &[Option<&[u8]>]| {
            let parts: Vec<&[u8]> = parts.iter().copied().flatten().collect();
            Seed::framed(&parts)
        };
        Self::Same {
            first: seed(&[adapter, salt]),
            rest: seed(&[adapter]),
        }
    }

    /// The seed that all blocks have, if one does.
    pub(crate) fn uniform(&self) -> Option<Seed> {
        match self {
            Self::Same { first, rest } => (first == rest).then_some(*rest),
            Self::Listed(keys) => {
                let mut keys = keys.clone();
                while !keys.is_at_end() {
                    if !keys.value().is_ok_and(|entry| entry.is_nil()) {
                        return None;
                    }
                }
                Some(Seed::default())
            }
        }
    }

    /// The seed of the next block. A list that ends early leaves the rest plain.
    pub(crate) fn next(&mut self) -> Result<Seed> {
        match self {
            Self::Same { first, rest } => Ok(std::mem::replace(first, *rest)),
            Self::Listed(keys) if keys.is_at_end() => Ok(Seed::default()),
            Self::Listed(keys) => listed(keys),
        }
    }
}

/// The seed of one entry: a text stands for itself, anything else for its bytes.
fn listed(keys: &mut Cursor<'_>) -> Result<Seed> {
    let Value::Array(entry) = keys.value()? else {
        return Ok(Seed::default());
    };
    let mut parts = Vec::new();
    let mut at = entry.open();
    for _ in 0..entry.count {
        let from = at.bytes();
        let part = match at.value()? {
            Value::Str(text) => text,
            _ => &from[..from.len() - at.bytes().len()],
        };
        parts.push(part);
    }
    Ok(Seed::framed(&parts))
}
