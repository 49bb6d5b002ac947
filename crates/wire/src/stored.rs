//! What does one event of a vLLM-like engine change?
//!
//! Only what is dense and of full attention is of use: a block of it stands for everything before it.
//! Layers that see a window, or keep a state, have groups of their own, which are recognised by what
//! their stores say and then ignored in removals too, since all groups call the same block by the same
//! name. A store without tokens names blocks whose content was told before.
use std::num::NonZeroU32;

use warmpath_core::block::TokenBlocks;
use warmpath_core::prefix::{StoredBlock, Tier};

use crate::error::Result;
use crate::events::Events;
use crate::fields::{Fields, Tag};
use crate::identity::Seeds;
use crate::pack::{Span, Value};
use crate::tally::Oddity;

/// Turns fields into events. Remembers which groups of layers are of no use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    /// One bit a group; further groups do not occur and are taken as of use.
    ignored_groups: u64,
    tokens: Vec<u32>,
    locals: Vec<u64>,
}

/// Why an event has no effect, if it has none.
type Outcome = Result<std::result::Result<(), Oddity>>;

impl Reader {
    /// Appends what the fields say. `Err` only where the bytes themselves are wrong.
    pub(crate) fn apply(&mut self, fields: &Fields<'_>, events: &mut Events) -> Outcome {
        match fields.tag {
            None => Ok(Err(Oddity::Malformed)),
            Some(Tag::Unknown) => Ok(Err(Oddity::UnknownEvent)),
            Some(Tag::Cleared) => {
                events.cleared();
                Ok(Ok(()))
            }
            Some(Tag::Stored) => self.stored(fields, events),
            Some(Tag::Removed) => self.removed(fields, events),
        }
    }

    fn stored(&mut self, fields: &Fields<'_>, events: &mut Events) -> Outcome {
        let tier = match self.tier(fields) {
            Ok(tier) => tier,
            Err(oddity) => return Ok(Err(oddity)),
        };
        let Value::Array(hashes) = fields.hashes else {
            return Ok(Err(Oddity::Malformed));
        };
        let tokens = match fields.tokens {
            Value::Array(tokens) => tokens,
            Value::Nil => Span::default(),
            _ => return Ok(Err(Oddity::Malformed)),
        };
        if tokens.count == 0 {
            let names = read_names(hashes)?;
            return Ok(names.map(|names| events.copied(tier, names.into_iter())));
        }
        let Some(size) = fields.block_size.u32().and_then(NonZeroU32::new) else {
            return Ok(Err(Oddity::Malformed));
        };
        if u64::from(tokens.count) != u64::from(hashes.count) * u64::from(size.get()) {
            return Ok(Err(Oddity::Sparse));
        }
        let parent = match parent_of(fields.parent) {
            Ok(parent) => parent,
            Err(oddity) => return Ok(Err(oddity)),
        };
        if let Err(oddity) = self.read_tokens(tokens)? {
            return Ok(Err(oddity));
        }
        self.hash(Seeds::of(fields, parent.is_none()), size)?;
        let names = match read_names(hashes)? {
            Ok(names) => names,
            Err(oddity) => return Ok(Err(oddity)),
        };
        let blocks = names.into_iter().zip(&self.locals);
        let blocks = blocks.map(|(name, &local)| StoredBlock { name, local });
        events.stored(tier, parent, size.get(), blocks);
        Ok(Ok(()))
    }

    fn removed(&mut self, fields: &Fields<'_>, events: &mut Events) -> Outcome {
        let tier = match self.tier(fields) {
            Ok(tier) => tier,
            Err(oddity) => return Ok(Err(oddity)),
        };
        let Value::Array(hashes) = fields.hashes else {
            return Ok(Err(Oddity::Malformed));
        };
        let names = read_names(hashes)?;
        Ok(names.map(|names| events.removed(tier, names.into_iter())))
    }

    /// Where the event's blocks are, if it is of use.
    fn tier(&mut self, fields: &Fields<'_>) -> std::result::Result<Tier, Oddity> {
        if fields.locality.str() == Some(b"REMOTE") {
            return Err(Oddity::Remote);
        }
        if !self.is_of_use(fields) {
            return Err(Oddity::OtherGroup);
        }
        match fields.medium {
            Value::Nil => Ok(Tier::Device),
            Value::Str(medium) => tier_of(medium).ok_or(Oddity::UnknownMedium),
            _ => Err(Oddity::Malformed),
        }
    }

    fn is_of_use(&mut self, fields: &Fields<'_>) -> bool {
        let group = fields
            .group
            .u32()
            .and_then(|group| 1_u64.checked_shl(group));
        let bit = group.unwrap_or(0);
        let Value::Str(kind) = fields.spec_kind else {
            return self.ignored_groups & bit == 0;
        };
        let is_full = matches!(
            kind,
            b"full_attention" | b"mla_attention" | b"sink_full_attention"
        );
        match is_full {
            true => self.ignored_groups &= !bit,
            false => self.ignored_groups |= bit,
        }
        is_full
    }

    fn read_tokens(&mut self, tokens: Span<'_>) -> Outcome {
        self.tokens.clear();
        let mut at = tokens.open();
        for _ in 0..tokens.count {
            let before = at.clone();
            match at.token()? {
                Some(token) => self.tokens.push(token),
                None => {
                    let is_pair = matches!(before.clone().value()?, Value::Array(_));
                    return Ok(Err(match is_pair {
                        true => Oddity::TokenPairs,
                        false => Oddity::Malformed,
                    }));
                }
            }
        }
        Ok(Ok(()))
    }

    /// The hash of each block's own content.
    fn hash(&mut self, mut seeds: Seeds<'_>, size: NonZeroU32) -> Result<()> {
        self.locals.clear();
        if let Some(seed) = seeds.uniform() {
            self.locals = TokenBlocks::plain(size, seed).local_hashes(&self.tokens);
            return Ok(());
        }
        for block in self.tokens.chunks_exact(size.get() as usize) {
            let seed = seeds.next()?;
            let local = TokenBlocks::plain(size, seed).local_hashes(block);
            self.locals.extend(local);
        }
        Ok(())
    }
}

/// Each is read before any is taken, so that an event counts whole or not at all.
fn read_names(hashes: Span<'_>) -> Result<std::result::Result<Vec<u64>, Oddity>> {
    let mut at = hashes.open();
    let mut names = Vec::new();
    for _ in 0..hashes.count {
        match at.value()?.name() {
            Some(name) => names.push(name),
            None => return Ok(Err(Oddity::Malformed)),
        }
    }
    Ok(Ok(names))
}

/// Nothing, and a zero where there is no nothing, are the root.
fn parent_of(parent: Value<'_>) -> std::result::Result<Option<u64>, Oddity> {
    match parent {
        Value::Nil => Ok(None),
        other => match other.name() {
            None => Err(Oddity::Malformed),
            name => Ok(name.filter(|&name| name != 0)),
        },
    }
}

/// What engines call their tiers.
pub(crate) fn tier_of(medium: &[u8]) -> Option<Tier> {
    let is = |names: &[&str]| {
        let medium = |name: &&&str| name.as_bytes().eq_ignore_ascii_case(medium);
        names.iter().any(|name| medium(&name))
    };
    Some(match () {
        () if is(&["GPU"]) => Tier::Device,
        () if is(&["CPU", "CPU_PINNED", "CPU_TIER1", "CPU_TIER2"]) => Tier::Host,
        () if is(&["DISK", "STORAGE"]) => Tier::Disk,
        () if is(&["EXTERNAL"]) => Tier::External,
        () => return None,
    })
}
