//! What is a worker's event stream worth?
//!
//! A worker with a feed has a place for each rank and tier that its events fill, beside the one that the
//! router's own decisions fill: a decision does not know the rank that the engine will choose, and text
//! and tokens of one prompt are different blocks. Which of both a decision counts follows from how whole
//! the stream is; a stream under suspicion earns nothing at all. Knows no socket; whoever carries events
//! says what may be missing ([`FeedNotice`]).
use crate::block::Chain;
use crate::event::FeedNotice;
use crate::id::{Micros, PlaceId};
use crate::prefix::{Overlap, PrefixIndex, Tier};
use crate::receipt::{Evidence, Trust};

use super::agreement::Agreement;
use super::standing::Standing;

/// The most ranks of one worker.
pub const MAX_RANKS: u32 = 64;
/// The rank of the place that the router's own decisions fill.
pub(super) const ANY_RANK: u32 = u32::MAX;

const TIERS: [Tier; 4] = [Tier::Device, Tier::Host, Tier::Disk, Tier::External];

/// What events tell of one worker.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    block_tokens: u32,
    ranks: Vec<Rank>,
    /// Whether the events are believed though the stream is whole.
    pub(super) agreement: Agreement,
    /// Times that the engine has told of something that it has given up.
    losses: u64,
}

#[derive(Clone, Debug)]
struct Rank {
    places: [Option<PlaceId>; TIERS.len()],
    standing: Standing,
}

/// Whose word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nobody's.
    Nobody,
    /// The router's own.
    Router,
    /// The engine's.
    Engine,
    /// Whichever has more: the engine's is true and not all.
    Either,
}

/// What a decision may count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    /// Tokens on the device, from the root.
    pub(super) device: u32,
    /// Further ones in host memory.
    pub(super) host: u32,
    /// Further ones on disk or on another machine.
    pub(super) disk: u32,
    /// The rank that has them, where the engine's word counts.
    pub(super) rank: Option<u32>,
}

impl Credit {
    /// All tiers together.
    pub(super) fn tokens(&self) -> u32 {
        self.device + self.host + self.disk
    }
}

impl Feed {
    /// A feed that has told nothing yet, of a worker whose group has blocks of that size.
    pub(super) fn new(now: Micros, ranks: u32, block_tokens: u32) -> Self {
        let rank = Rank {
            places: [None; TIERS.len()],
            standing: Standing::new(now),
        };
        Self {
            block_tokens,
            ranks: vec![rank; ranks as usize],
            agreement: Agreement::new(block_tokens),
            losses: 0,
        }
    }

    /// The worker's trust: that of its worst rank.
    pub(super) fn evidence(&self) -> Evidence {
        if let Some(found) = self.agreement.found() {
            return Evidence {
                trust: Trust::Predicted,
                doubt: Some(found.doubt()),
                cause: Some(found.cause),
                since: found.since,
            };
        }
        let ranks = self.ranks.iter().map(|rank| rank.standing.evidence());
        let worst = ranks.min_by_key(|evidence| match evidence.trust {
            Trust::None => 0,
            Trust::Predicted => 1,
            Trust::Degraded => 2,
            Trust::Exact => 3,
        });
        worst.unwrap_or_default()
    }

    /// Whose word counts of a prompt of tokens.
    pub(super) fn source(&self) -> Source {
        match self.evidence().trust {
            Trust::None => Source::Nobody,
            Trust::Predicted => Source::Router,
            Trust::Degraded => Source::Either,
            Trust::Exact => Source::Engine,
        }
    }

    /// Whether nothing of the worker counts at the moment, by whomever it was told.
    pub(super) fn is_suspended(&self) -> bool {
        self.ranks.iter().any(|rank| rank.standing.is_suspended())
    }

    pub(super) fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    pub(super) fn has_rank(&self, rank: u32) -> bool {
        rank < self.ranks()
    }

    pub(super) fn place(&self, rank: u32, tier: Tier) -> Option<PlaceId> {
        self.ranks.get(rank as usize)?.places[slot_of(tier)]
    }

    pub(super) fn set_place(&mut self, rank: u32, tier: Tier, place: PlaceId) {
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.places[slot_of(tier)] = Some(place);
        }
    }

    /// The places of one rank.
    pub(super) fn places_of(&self, rank: u32) -> impl Iterator<Item = PlaceId> {
        let rank = self.ranks.get(rank as usize);
        rank.into_iter().flat_map(|r| r.places).flatten()
    }

    /// The places of all ranks.
    pub(super) fn places(&self) -> impl Iterator<Item = PlaceId> {
        self.ranks.iter().flat_map(|rank| rank.places).flatten()
    }

    /// Where a prompt that goes to the worker will be, if the rank is known.
    pub(super) fn destination(&self, rank: Option<u32>) -> Option<PlaceId> {
        let only = (self.ranks.len() == 1).then_some(0);
        self.place(rank.or(only)?, Tier::Device)
    }

    /// The rank to ask for, where there is a choice.
    pub(super) fn choice(&self, rank: Option<u32>) -> Option<u32> {
        rank.filter(|_| self.ranks.len() > 1)
    }

    /// Takes note of what is said of a rank's stream. Returns whether what was known of it is void.
    pub(super) fn notice(&mut self, now: Micros, rank: u32, notice: FeedNotice) -> bool {
        let Some(rank) = self.ranks.get_mut(rank as usize) else {
            return false;
        };
        let is_void = rank.standing.notice(now, notice);
        if is_void {
            self.agreement.believe_again();
        }
        is_void
    }

    /// The engine has given something up.
    pub(super) fn lost(&mut self) {
        self.losses += 1;
        self.agreement.removed();
    }

    /// Grows with everything that the engine gives up.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Something that the rank had told has been forgotten for want of room.
    pub(super) fn evicted(&mut self, now: Micros, rank: u32) {
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.standing.evicted(now);
        }
    }

    /// The engine has told that it is empty: what it tells from now on is all there is.
    pub(super) fn cleared(&mut self, now: Micros, rank: u32) {
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.standing.cleared(now);
        }
        self.losses += 1;
        self.agreement.believe_again();
    }

    /// What the engine says it has of `chain`: at the rank with the most, the first of those. Each tier
    /// goes on where the nearer one stopped. An engine computes the last token of a prompt whatever it
    /// has, so a block that ends there earns nothing.
    pub(super) fn credit(&self, prefix: &PrefixIndex, chain: &Chain, overlap: &Overlap) -> Credit {
        let most = chain.tokens().saturating_sub(1) / self.block_tokens;
        let mut best = Credit::default();
        for (number, rank) in (0..).zip(&self.ranks) {
            let [device, host, disk, external] = rank.places;
            let near = device.map_or(0, |place| overlap.blocks_at(place)).min(most);
            let reach = |place: Option<PlaceId>, from: u32| {
                place
                    .map_or(from, |place| prefix.reach(place, chain, from))
                    .min(most)
            };
            let host = reach(host, near);
            let far = reach(external, reach(disk, host));
            let tokens = |blocks: u32| chain.tokens_of(blocks as usize);
            let credit = Credit {
                device: tokens(near),
                host: tokens(host) - tokens(near),
                disk: tokens(far) - tokens(host),
                rank: Some(number),
            };
            if credit.tokens() > best.tokens() {
                best = credit;
            }
        }
        best
    }
}

fn slot_of(tier: Tier) -> usize {
    match tier {
        Tier::Device => 0,
        Tier::Host => 1,
        Tier::Disk => 2,
        Tier::External => 3,
    }
}
