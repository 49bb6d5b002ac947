//! What does a publisher's message say, whatever it publishes?
use warmpath_core::event::FeedNotice;
use warmpath_wire::{Events, KvDecoder, Tally};

use crate::objects::{ObjectChange, ObjectReader, ObjectRules};

/// What a publisher's messages are about.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Blocks of an engine's cache.
    Blocks,
    /// Objects of a store that engines share.
    Objects(ObjectRules),
}

/// What waits to be applied of one message.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    Blocks(Events),
    Objects(Vec<ObjectChange>),
}

/// A message that could be read.
pub(crate) struct Read {
    /// When it was sent, in seconds since the Unix epoch by the publisher's clock.
    pub(crate) at: Option<f64>,
    /// Whether something may be gone of which no note was taken.
    pub(crate) is_lossy: bool,
    /// Whether an event of a kind that is not known may have taken something away since the last clear.
    pub(crate) is_unclear: bool,
    /// Whether it says that all is gone.
    pub(crate) clears: bool,
    /// What it says of everything before it.
    pub(crate) void: Option<FeedNotice>,
    /// Of all messages so far.
    pub(crate) tally: Tally,
    pub(crate) load: Load,
}

pub(crate) enum Reader {
    Blocks(Box<KvDecoder>),
    Objects(Box<ObjectReader>),
}

impl Reader {
    pub(crate) fn new(contents: Contents) -> Self {
        match contents {
            Contents::Blocks => Self::Blocks(Box::new(KvDecoder::new())),
            Contents::Objects(rules) => Self::Objects(Box::new(ObjectReader::new(rules))),
        }
    }

    /// The number of a publisher's first message: masters of stores begin to count at one. Engines begin
    /// at either; which one it was is found out.
    pub(crate) fn first(&self) -> u64 {
        match self {
            Self::Blocks(_) => 0,
            Self::Objects(_) => 1,
        }
    }

    /// `None` for a message that cannot be read.
    pub(crate) fn read(&mut self, payload: &[u8]) -> Option<Read> {
        let decoder = match self {
            Self::Blocks(decoder) => decoder,
            Self::Objects(reader) => return reader.read(payload),
        };
        let mut events = Events::new();
        let batch = decoder.decode(payload, &mut events).ok()?;
        Some(Read {
            at: batch.at,
            is_lossy: batch.is_lossy,
            is_unclear: batch.is_unclear,
            clears: batch.clears,
            void: None,
            tally: *decoder.tally(),
            load: Load::Blocks(events),
        })
    }

    /// All that came before is void.
    pub(crate) fn forget(&mut self) {
        if let Self::Objects(reader) = self {
            reader.forget();
        }
    }
}

impl Load {
    /// Blocks or objects that it speaks of.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Blocks(events) => events.blocks(),
            Self::Objects(changes) => changes.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Blocks(events) => events.is_empty(),
            Self::Objects(changes) => changes.is_empty(),
        }
    }
}
