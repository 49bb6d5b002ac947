//! What is in the events that TensorRT-LLM hands out?
//!
//! JSON objects with consecutive ids. Each attention window has a stream of its own, of which only the
//! widest is of use. A block carries its tokens; the first partial one ends its store, since it will be
//! stored again when it is full. An update moves a block between the accelerator and the machine: it is
//! told as a copy first and a removal then, so that the block is never nowhere.
use std::borrow::Cow;
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::value::RawValue;

use warmpath_core::block::{Seed, TokenBlocks};
use warmpath_core::prefix::{StoredBlock, Tier};

use crate::error::{Result, WireError};
use crate::events::Events;
use crate::tally::{Oddity, Tally};

/// No engine hands out that much at once.
const MAX_BYTES: usize = 64 << 20;

/// What is said of a list of events as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrtBatch {
    /// The id of its first event.
    pub first: Option<u64>,
    /// The id of its last one.
    pub last: Option<u64>,
    /// Whether an id was skipped on the way, or an event that took something away is unreadable.
    pub is_lossy: bool,
    /// Whether an event of a kind that is not known came, which may have taken something away.
    pub is_unclear: bool,
}

/// Reads what one engine hands out.
#[derive(Clone, Debug)]
pub struct TrtLlmDecoder {
    block_tokens: NonZeroU32,
    /// The widest attention window so far.
    window: u64,
    tally: Tally,
}

#[derive(Deserialize)]
struct Event<'a> {
    event_id: u64,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    window_size: u64,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Stored<'a> {
    parent_hash: Option<Name>,
    #[serde(borrow)]
    blocks: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    block_hash: Name,
    tokens: Vec<Token>,
    #[serde(default)]
    cache_level: u32,
    #[serde(borrow, default)]
    mm_keys: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Token {
    token_id: u32,
    #[serde(default)]
    token_extra_id: u64,
}

#[derive(Deserialize)]
struct Removed {
    block_hashes: Vec<Name>,
}

#[derive(Deserialize)]
struct Updated {
    block_hash: Name,
    cache_level: Option<Levels>,
}

#[derive(Deserialize)]
struct Levels {
    new_value: u32,
    old_value: u32,
}

/// A number of 64 bits, signed or not.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Name {
    Unsigned(u64),
    Signed(i64),
}

impl Name {
    fn get(self) -> u64 {
        match self {
            Self::Unsigned(name) => name,
            Self::Signed(name) => name.cast_unsigned(),
        }
    }
}

impl TrtLlmDecoder {
    /// A decoder for an engine whose blocks have so many tokens.
    #[must_use]
    pub fn new(block_tokens: NonZeroU32) -> Self {
        Self {
            block_tokens,
            window: 0,
            tally: Tally::default(),
        }
    }

    /// What was passed over so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Appends the events of a JSON array, or of a single event, to `events`. O(bytes).
    ///
    /// # Errors
    /// When the text as a whole is no list of events; `events` is then as it was.
    pub fn decode(&mut self, text: &[u8], events: &mut Events) -> Result<TrtBatch> {
        if text.len() > MAX_BYTES {
            return Err(WireError::too_long());
        }
        let is_list = text.trim_ascii_start().first() == Some(&b'[');
        let list: Vec<&RawValue> = match is_list {
            true => parse(text)?,
            false => vec![parse(text)?],
        };
        let mut batch = TrtBatch::default();
        for event in list {
            if let Err(oddity) = self.read_event(event, &mut batch, events) {
                batch.is_unclear |= oddity == Oddity::UnknownEvent;
                self.tally.count(oddity);
            }
        }
        Ok(batch)
    }

    fn read_event(
        &mut self,
        event: &RawValue,
        batch: &mut TrtBatch,
        events: &mut Events,
    ) -> Outcome {
        let read: std::result::Result<Event<'_>, _> = serde_json::from_str(event.get());
        let Ok(event) = read else {
            batch.is_lossy = true;
            return Err(Oddity::Malformed);
        };
        batch.first = batch.first.or(Some(event.event_id));
        let before = batch.last.replace(event.event_id);
        batch.is_lossy |= before.is_some_and(|last| last.checked_add(1) != Some(event.event_id));
        self.window = self.window.max(event.window_size);
        if event.window_size < self.window {
            return Err(Oddity::OtherGroup);
        }
        let kind: Kind<'_> = field(event.data)?;
        match kind.name.as_ref() {
            "created" => Ok(()),
            "stored" => self.read_stored(field(event.data)?, events),
            "removed" => {
                let removed = field(event.data);
                batch.is_lossy |= removed.is_err();
                read_removed(&removed?, events);
                Ok(())
            }
            "updated" => {
                let updated = field(event.data);
                batch.is_lossy |= updated.is_err();
                read_updated(&updated?, events)
            }
            _ => Err(Oddity::UnknownEvent),
        }
    }

    fn read_stored(&self, stored: Stored<'_>, events: &mut Events) -> Outcome {
        let size = self.block_tokens.get() as usize;
        let full = stored.blocks.iter().take_while(|b| b.tokens.len() == size);
        let full = full.count();
        let mut parent = stored.parent_hash.map(Name::get);
        let mut rest = &stored.blocks[..full];
        while let Some(first) = rest.first() {
            let level = first.cache_level;
            let same = rest.iter().take_while(|b| b.cache_level == level).count();
            let (here, further) = rest.split_at(same);
            let blocks = here.iter().map(|block| StoredBlock {
                name: block.block_hash.get(),
                local: self.local(block),
            });
            events.stored(tier_of(level)?, parent, self.block_tokens.get(), blocks);
            parent = here.last().map(|block| block.block_hash.get());
            rest = further;
        }
        match full == stored.blocks.len() {
            true => Ok(()),
            false => Err(Oddity::Sparse),
        }
    }

    /// Media and what tells tokens of different adapters apart are in the seed.
    fn local(&self, block: &Block<'_>) -> u64 {
        let extra = block.tokens.iter().map(|token| token.token_extra_id);
        let extra: Vec<u8> = match extra.clone().all(|id| id == 0) {
            true => Vec::new(),
            false => extra.flat_map(u64::to_le_bytes).collect(),
        };
        let media = block.mm_keys.iter().map(|key| key.get().as_bytes());
        let parts: Vec<&[u8]> = media
            .chain((!extra.is_empty()).then_some(extra.as_slice()))
            .collect();
        let tokens: Vec<u32> = block.tokens.iter().map(|token| token.token_id).collect();
        let hashes = TokenBlocks::plain(self.block_tokens, Seed::framed(&parts));
        hashes
            .local_hashes(&tokens)
            .first()
            .copied()
            .unwrap_or_default()
    }
}

type Outcome = std::result::Result<(), Oddity>;

/// A removed block is nowhere any more, whatever its level was.
fn read_removed(removed: &Removed, events: &mut Events) {
    for tier in [Tier::Device, Tier::Host] {
        events.removed(tier, removed.block_hashes.iter().map(|name| name.get()));
    }
}

fn read_updated(updated: &Updated, events: &mut Events) -> Outcome {
    let Some(levels) = &updated.cache_level else {
        return Ok(());
    };
    let (from, to) = (tier_of(levels.old_value), tier_of(levels.new_value));
    if from != to {
        let name = updated.block_hash.get();
        if let Ok(to) = to {
            events.copied(to, std::iter::once(name));
        }
        // Also where it has gone to a tier that is not known here.
        if let Ok(from) = from {
            events.removed(from, std::iter::once(name));
        }
    }
    from.and(to).map(drop)
}

fn tier_of(level: u32) -> std::result::Result<Tier, Oddity> {
    match level {
        0 => Ok(Tier::Device),
        1 => Ok(Tier::Host),
        _ => Err(Oddity::UnknownMedium),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => WireError::truncated(),
        serde_json::error::Category::Data => WireError::not_a_batch(),
        _ => WireError::malformed(),
    })
}

fn field<'a, T: Deserialize<'a>>(data: &'a RawValue) -> std::result::Result<T, Oddity> {
    serde_json::from_str(data.get()).map_err(|_| Oddity::Malformed)
}
