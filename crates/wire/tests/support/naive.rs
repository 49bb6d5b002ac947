//! The rules once more, in the plainest form: a whole tree of values first, then look-ups by name.
use std::num::NonZeroU32;

use rmpv::Value;
use warmpath_core::block::{Seed, TokenBlocks};
use warmpath_core::event::CacheEvent;
use warmpath_core::prefix::Tier;

/// An event, whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Stored {
        tier: Tier,
        parent: Option<u64>,
        block_tokens: u32,
        blocks: Vec<(u64, u64)>,
    },
    Copied(Tier, Vec<u64>),
    Removed(Tier, Vec<u64>),
    Cleared,
}

impl Event {
    /// The same of what the decoder gave.
    pub(crate) fn of(event: &CacheEvent<'_>) -> Self {
        match *event {
            CacheEvent::Stored { tier, blocks } => Self::Stored {
                tier,
                parent: blocks.parent,
                block_tokens: blocks.block_tokens,
                blocks: blocks.blocks.iter().map(|b| (b.name, b.local)).collect(),
            },
            CacheEvent::Copied { tier, names } => Self::Copied(tier, names.to_vec()),
            CacheEvent::Removed { tier, names } => Self::Removed(tier, names.to_vec()),
            CacheEvent::Cleared => Self::Cleared,
        }
    }
}

/// The events of a well-formed batch in which everything is of use, and its rank.
pub(crate) fn decode(payload: &[u8]) -> (Vec<Event>, Option<u64>) {
    let mut rest = payload;
    let batch = rmpv::decode::read_value(&mut rest).expect("MessagePack");
    assert!(rest.is_empty());
    let batch = batch.as_array().expect("a batch");
    let events = batch[1]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(event);
    (events.collect(), batch.get(2).and_then(Value::as_u64))
}

fn event(event: &Value) -> Option<Event> {
    let kind = match event {
        Value::Array(list) => list[0].clone(),
        map => get(map, "type", 0),
    };
    let get = |name, place| get(event, name, place);
    match kind.as_str()? {
        "BlockStored" => {
            let tier = tier(&get("medium", 6));
            let names = names(&get("block_hashes", 1));
            let tokens = get("token_ids", 3);
            let tokens = tokens.as_array().map(Vec::as_slice).unwrap_or_default();
            if tokens.is_empty() {
                return Some(Event::Copied(tier, names));
            }
            let tokens: Vec<u32> = tokens.iter().map(|t| t.as_u64().unwrap() as u32).collect();
            let size = get("block_size", 4).as_u64().unwrap() as usize;
            if names.len() * size != tokens.len() {
                return None;
            }
            let parent = name(&get("parent_block_hash", 2)).filter(|&name| name != 0);
            let locals = locals(event, &tokens, size, parent.is_none());
            Some(Event::Stored {
                tier,
                parent,
                block_tokens: size as u32,
                blocks: names.into_iter().zip(locals).collect(),
            })
        }
        "BlockRemoved" => Some(Event::Removed(
            tier(&get("medium", 2)),
            names(&get("block_hashes", 1)),
        )),
        "AllBlocksCleared" => Some(Event::Cleared),
        _ => None,
    }
}

fn locals(event: &Value, tokens: &[u32], size: usize, is_root: bool) -> Vec<u64> {
    let keys = get(event, "extra_keys", 8);
    let at_seven = get(event, "cache_salt", 7);
    let salt = match &at_seven {
        Value::Map(_) => get(&at_seven, "cache_salt", 0),
        _ if event.is_map() => at_seven,
        _ => Value::Nil,
    };
    let lora = match get(event, "lora_name", 7) {
        Value::String(name) => Some(name.as_bytes().to_vec()),
        _ => get(event, "lora_id", 5)
            .as_u64()
            .map(|id| id.to_string().into_bytes()),
    };
    let blocks = tokens.chunks(size).enumerate();
    blocks
        .map(|(at, block)| {
            let mut parts: Vec<Vec<u8>> = Vec::new();
            match keys.as_array().filter(|keys| !keys.is_empty()) {
                Some(keys) => {
                    let own = keys.get(at).and_then(Value::as_array);
                    parts.extend(own.into_iter().flatten().map(part));
                }
                None => {
                    parts.extend(lora.clone());
                    let salt = salt
                        .as_str()
                        .filter(|s| is_root && at == 0 && !s.is_empty());
                    parts.extend(salt.map(|salt| salt.as_bytes().to_vec()));
                }
            }
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let size = NonZeroU32::new(size as u32).unwrap();
            TokenBlocks::plain(size, Seed::framed(&parts)).local_hashes(block)[0]
        })
        .collect()
}

fn part(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, other).unwrap();
            bytes
        }
    }
}

/// A field by its name, or by its place where there are no names.
fn get(event: &Value, name: &str, place: usize) -> Value {
    match event {
        Value::Array(list) => list.get(place).cloned().unwrap_or(Value::Nil),
        Value::Map(pairs) => {
            let own = pairs.iter().find(|(key, _)| key.as_str() == Some(name));
            own.map_or(Value::Nil, |(_, value)| value.clone())
        }
        _ => Value::Nil,
    }
}

fn names(list: &Value) -> Vec<u64> {
    let list = list.as_array().expect("hashes").iter();
    list.map(|hash| name(hash).expect("a hash")).collect()
}

fn name(value: &Value) -> Option<u64> {
    match value {
        Value::Binary(digest) => {
            let last: [u8; 8] = digest[digest.len() - 8..].try_into().unwrap();
            Some(u64::from_be_bytes(last))
        }
        number => number.as_u64().or(number.as_i64().map(i64::cast_unsigned)),
    }
}

fn tier(medium: &Value) -> Tier {
    match medium.as_str() {
        None | Some("GPU") => Tier::Device,
        Some("CPU" | "cpu" | "CPU_PINNED" | "CPU_TIER1" | "CPU_TIER2") => Tier::Host,
        Some("DISK" | "STORAGE") => Tier::Disk,
        Some("EXTERNAL") => Tier::External,
        Some(other) => panic!("{other}"),
    }
}
