//! What is known of a prompt of text by the tokens that an engine has made of its beginning?
//!
//! Where the gateway has engines answer with the tokens of their prompts, the next turn's text is known by
//! them as far as it has been sent before ([`crate::rendering`]). These tokens are for what engines tell
//! of their caches and for nothing else: sessions, lengths and what the router itself believes go by the
//! text. So a text of which nothing is known is what it always was.
use crate::block::{Chain, Seed, TokenBlocks};
use crate::id::{Micros, ReservationId, TargetId};
use crate::receipt::Origin;
use crate::rendering::{After, Known, Rendered};

use super::Scheduler;
use super::feed::{Feed, Source};
use super::reservation::{Reservation, State};
use super::scoring::Form;
use super::topology::Apart;
use super::turn::Turn;

/// The beginning of a prompt of text by an engine's tokens, as far as it is known.
#[derive(Debug)]
pub(super) struct Begun {
    /// That of the first block.
    first: Seed,
    after: After,
    known: Option<Known>,
    /// Of tokens that may be counted on; empty without any.
    chain: Chain,
    tokens: u32,
    is_learnt: bool,
    /// What the engine that it was sent to had given up by then.
    losses: u64,
}

impl Begun {
    /// The blocks that the prompt begins with, if there are any.
    pub(super) fn chain(&self) -> Option<&Chain> {
        (self.tokens > 0).then_some(&self.chain)
    }

    /// The turn goes to a worker that is told of so.
    pub(super) fn sent_to(&mut self, feed: Option<&Feed>) {
        self.losses = feed.map_or(0, Feed::losses);
    }

    /// How many of its tokens are known.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }
}

impl Scheduler {
    /// Looks up what is known of the turn's `text` at the target; `None` where nobody wants to know.
    pub(super) fn begin(
        &mut self,
        turn: &Turn<'_>,
        target: TargetId,
        text: &Chain,
    ) -> Option<Box<Begun>> {
        if turn.origin != Origin::Answers || Form::of(&turn.prompt) != Form::Text {
            return None;
        }
        let mut begun = Box::new(Begun {
            first: match turn.cache_salt {
                [] => Seed::default(),
                salt => Seed::framed(&[salt]),
            },
            after: match turn.tool_results.lengths {
                [] => After::Other,
                _ => After::Tools,
            },
            known: None,
            chain: Chain::default(),
            tokens: 0,
            is_learnt: false,
            losses: 0,
        });
        self.find_begun(&mut begun, target, Apart::of(turn), text);
        Some(begun)
    }

    /// Looks it up once more for a turn that has moved to another target.
    pub(super) fn begin_again(&mut self, turn: &mut Reservation) {
        if let Some(begun) = &mut turn.begun {
            let (target, apart) = (turn.route.target, turn.route.apart);
            self.find_begun(begun, target, apart, &turn.chain);
        }
    }

    fn find_begun(&mut self, begun: &mut Begun, target: TargetId, apart: Apart, text: &Chain) {
        begun.known = None;
        begun.tokens = 0;
        begun.chain.clear();
        let Ok(group) = self.topology.target(target).map(|target| target.group) else {
            return;
        };
        let Some(known) = self.renderings.find(group, text) else {
            return;
        };
        let block_tokens = self.topology.groups[group.index()].block_tokens;
        begun.tokens = self.renderings.worth(group, &known, begun.after);
        if begun.tokens > 0 {
            known.begin(begun.tokens, block_tokens, &mut begun.chain);
            let namespace = self.topology.namespace(target, apart.of_tokens());
            begun.chain.is_of(namespace);
        }
        begun.known = Some(known);
    }

    /// The worker that the turn is on says what tokens its prompt is. Remembered for texts that go on
    /// from it, and counted at once as what its engine will tell that it has: it has computed them. But not
    /// where it has given anything up meanwhile, which may be of these: it will not say that once more.
    /// Nothing unless the turn's text wants to be known so, and only once a turn. O(tokens).
    pub fn learn_tokens(&mut self, now: Micros, id: ReservationId, tokens: &[u32]) {
        self.set_time(now);
        let Some(turn) = self.reservations.get_mut(id) else {
            self.counters.late_calls += 1;
            return;
        };
        let State::Running { worker, .. } = turn.state else {
            return;
        };
        let Some(begun) = turn.begun.as_mut().filter(|begun| !begun.is_learnt) else {
            return;
        };
        begun.is_learnt = true;
        let (target, group) = (turn.route.target, turn.route.group);
        let block_tokens = self.topology.groups[group.index()].block_tokens;
        let mut blocks = Chain::default();
        let cut = TokenBlocks::plain(block_tokens, Seed::default());
        let first = begun.first;
        TokenBlocks { first, ..cut }.hash(tokens, &mut blocks);
        blocks.enter(
            self.topology
                .namespace(target, turn.route.apart.of_tokens()),
        );
        let rendered = Rendered {
            group,
            text: &turn.chain,
            blocks: &blocks,
            block_tokens,
            tokens,
            after: begun.after,
        };
        self.renderings.learn(&rendered, begun.known.as_ref());
        let worker = self.topology.present(worker).ok();
        let feed = worker.and_then(|worker| worker.feed.as_ref());
        let feed = feed.filter(|feed| {
            let is_told = matches!(feed.source(), Source::Engine | Source::Either);
            is_told && feed.losses() == begun.losses
        });
        if let Some(place) = feed.and_then(|feed| feed.destination(None)) {
            self.prefix.predict(self.now, place, &blocks);
        }
    }
}
