//! Which parts of which pages do a store's messages speak of?
//!
//! Objects by their keys in, numbered parts of pages out. One store may serve several models and tenants,
//! whose pages can have the same names: only those of one space count, and where nobody has said which,
//! the second one that shows up makes all of it worthless. A few keys of what is there are kept, for whoever
//! asks the store itself whether it still has them. No I/O and no clock.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;

use warmpath_core::event::{Doubt, FeedNotice};
use warmpath_core::pool::Part;
use warmpath_wire::{Change, ObjectDecoder, ObjectEvent, ObjectKey, Oddity, Scheme, Tally};

use crate::reader::{Load, Read};

/// Keys that are kept.
const SAMPLE: usize = 256;
/// One in so many newer keys takes the place of an older one.
const RENEWAL: u64 = 8;
/// What a master calls the tenant of who has none.
const DEFAULT_TENANT: &str = "default";

/// Which of a store's objects count, and how their keys are read.
#[derive(Clone, Debug)]
pub struct ObjectRules {
    /// What stands in front of a page's name in their keys; absent: there is only one.
    pub space: Option<String>,
    /// Whose they are; absent: those of nobody in particular.
    pub tenant: Option<String>,
    /// Tensor-parallel ranks that have the same, of which one writes: 1 where each has its own.
    pub copies: NonZeroU32,
    /// Where some of the keys are kept.
    pub sample: Arc<Sample>,
}

impl ObjectRules {
    /// What a key says, of an object that counts; `None` for one that is none of a page.
    #[must_use]
    pub fn change(&self, key: &str, is_there: bool) -> Option<ObjectChange> {
        self.of(&ObjectKey::parse(key)?, is_there)
    }

    fn of(&self, key: &ObjectKey<'_>, is_there: bool) -> Option<ObjectChange> {
        let mut part = key.part();
        part.tensor /= self.copies;
        Some(ObjectChange {
            page: key.page_name()?,
            part,
            is_there,
        })
    }
}

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// Its page, by the name that engines' events have for it.
    pub page: u64,
    /// Which object of the page.
    pub part: Part,
    /// Whether it is there now.
    pub is_there: bool,
}

/// Keys of objects that are there by the store's events: a few of them, older and newer ones.
#[derive(Debug, Default)]
pub struct Sample {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// By hash; empty or [`SAMPLE`] long.
    keys: Vec<Option<Box<str>>>,
    turn: usize,
}

impl Sample {
    /// Up to `most` keys, other ones with each call as long as there are others.
    pub fn next(&self, most: usize) -> Vec<String> {
        let mut slots = self.slots.lock();
        let all = slots.keys.len();
        let mut found = Vec::new();
        for _ in 0..all {
            let turn = slots.turn % all;
            slots.turn = turn + 1;
            found.extend(slots.keys[turn].as_deref().map(str::to_owned));
            if found.len() >= most {
                break;
            }
        }
        found
    }

    /// Whether the events say that this object, one of the sample, is still there.
    pub fn holds(&self, key: &str) -> bool {
        let slots = self.slots.lock();
        let kept = slots.keys.get(slot_of(key).0);
        kept.is_some_and(|kept| kept.as_deref() == Some(key))
    }

    fn stored(&self, key: &str) {
        let mut slots = self.slots.lock();
        if slots.keys.is_empty() {
            slots.keys = vec![None; SAMPLE];
        }
        let (at, rest) = slot_of(key);
        let slot = &mut slots.keys[at];
        if slot.is_none() || rest.is_multiple_of(RENEWAL) {
            *slot = Some(key.into());
        }
    }

    /// An object is gone.
    pub fn removed(&self, key: &str) {
        let mut slots = self.slots.lock();
        let kept = slots.keys.get_mut(slot_of(key).0);
        if let Some(kept) = kept.filter(|kept| kept.as_deref() == Some(key)) {
            *kept = None;
        }
    }

    /// Everything is.
    pub fn clear(&self) {
        self.slots.lock().keys = Vec::new();
    }
}

/// Where a key is kept, and what is left of its hash.
fn slot_of(key: &str) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let hash = hasher.finish();
    ((hash % SAMPLE as u64) as usize, hash / SAMPLE as u64)
}

/// Reads the messages of one store.
pub(crate) struct ObjectReader {
    rules: ObjectRules,
    decoder: ObjectDecoder,
    tally: Tally,
    space: Space,
}

/// Whose pages count.
enum Space {
    /// Those of the first who shows up.
    First,
    Only(Scheme, String),
    /// Nobody's: several have shown up.
    Many,
}

impl ObjectReader {
    pub(crate) fn new(rules: ObjectRules) -> Self {
        Self {
            rules,
            decoder: ObjectDecoder::new(),
            tally: Tally::default(),
            space: Space::First,
        }
    }

    /// What the store had told is void.
    pub(crate) fn forget(&mut self) {
        self.rules.sample.clear();
    }

    /// `None` for a message that cannot be read.
    pub(crate) fn read(&mut self, payload: &[u8]) -> Option<Read> {
        let mut events = Vec::new();
        let batch = self.decoder.decode(payload, &mut events).ok()?;
        let (mut changes, mut void) = (Vec::with_capacity(events.len()), None);
        for event in &events {
            if event.change == Change::Cleared {
                changes.clear();
                self.forget();
                void = Some(FeedNotice::Begun);
                continue;
            }
            match self.change(event) {
                Ok(change) => changes.push(change),
                Err(Oddity::OtherSpace) if self.is_second_space() => {
                    changes.clear();
                    self.space = Space::Many;
                    self.forget();
                    void = Some(FeedNotice::Lost(Doubt::Ambiguous));
                    self.tally.count(Oddity::OtherSpace);
                }
                Err(oddity) => self.tally.count(oddity),
            }
        }
        let mut tally = self.tally;
        tally.add(self.decoder.tally());
        Some(Read {
            at: batch.at,
            is_lossy: batch.is_lossy,
            is_unclear: batch.is_unclear,
            clears: void == Some(FeedNotice::Begun),
            void,
            tally,
            load: Load::Objects(changes),
        })
    }

    fn change(&mut self, event: &ObjectEvent<'_>) -> Result<ObjectChange, Oddity> {
        let tenant = event.tenant.filter(|&tenant| tenant != DEFAULT_TENANT);
        let own = self.rules.tenant.as_deref();
        if tenant != own.filter(|&own| own != DEFAULT_TENANT) {
            return Err(Oddity::OtherTenant);
        }
        let key = ObjectKey::parse(event.key).ok_or(Oddity::OtherObject)?;
        if !self.counts(&key) {
            return Err(Oddity::OtherSpace);
        }
        let is_there = event.change == Change::Stored;
        match is_there {
            true => self.rules.sample.stored(event.key),
            false => self.rules.sample.removed(event.key),
        }
        (self.rules.of(&key, is_there)).ok_or(Oddity::OtherObject)
    }

    fn counts(&mut self, key: &ObjectKey<'_>) -> bool {
        match (&self.space, &self.rules.space) {
            (_, Some(space)) => key.space == space,
            (Space::First, None) => {
                self.space = Space::Only(key.scheme, key.space.to_owned());
                true
            }
            (Space::Only(scheme, space), None) => key.scheme == *scheme && key.space == space,
            (Space::Many, None) => false,
        }
    }

    /// Whether it is the second space where only one was meant to be.
    fn is_second_space(&self) -> bool {
        self.rules.space.is_none() && matches!(self.space, Space::Only(..))
    }
}
