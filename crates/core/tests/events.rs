//! What engines tell, and what decisions make of it, through the scheduler's own door.
use std::num::NonZeroU32;

use warmpath_core::block::{Seed, TokenBlocks};
use warmpath_core::continuity::{Abilities, Ask};
use warmpath_core::event::{CacheEvent, Cause, Doubt, FeedNotice};
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_core::receipt::{Evidence, Reported, Trust};
use warmpath_core::scheduler::{
    Completion, Config, FeedOptions, GroupOptions, Health, Placement, Prompt, Scheduler, Segment,
    Settled, Turn, Verdict, WorkerOptions, recompute,
};
use warmpath_core::{GroupId, Micros, ReservationId, TargetId, WorkerId};

const A: WorkerId = WorkerId(0);
const B: WorkerId = WorkerId(1);
const SIZE: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Two workers with a feed each, and a clock that only goes on when asked.
struct World {
    scheduler: Scheduler,
    settled: Vec<Settled>,
    now: Micros,
}

impl World {
    fn new(ranks: u32) -> Self {
        Self::with(Config::default(), ranks)
    }

    fn with(config: Config, ranks: u32) -> Self {
        let mut scheduler = Scheduler::new(config).unwrap();
        let options = GroupOptions {
            block_tokens: SIZE.get(),
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).unwrap();
        scheduler.add_target("model", group).unwrap();
        let mut settled = Vec::new();
        for name in ["a", "b"] {
            let worker = WorkerOptions {
                name: name.to_owned(),
                group,
                capacity_tokens: Some(10_000),
            };
            let added = scheduler.add_worker(Micros(0), worker, &mut settled);
            let ranks = NonZeroU32::new(ranks).unwrap();
            let fed = scheduler.add_feed(Micros(0), added.unwrap(), FeedOptions { ranks });
            fed.unwrap();
        }
        let now = Micros::from_secs(1);
        Self {
            scheduler,
            settled,
            now,
        }
    }

    /// A world whose streams are whole from the beginning.
    fn begun(ranks: u32) -> Self {
        let mut world = Self::new(ranks);
        world.begin(ranks);
        world
    }

    fn begin(&mut self, ranks: u32) {
        for worker in [A, B] {
            for rank in 0..ranks {
                self.notice(worker, rank, FeedNotice::Begun);
            }
        }
    }

    fn notice(&mut self, worker: WorkerId, rank: u32, notice: FeedNotice) {
        self.scheduler.feed_notice(self.now, worker, rank, notice);
    }

    fn tell(&mut self, worker: WorkerId, rank: u32, event: &CacheEvent<'_>) -> usize {
        self.scheduler.apply_event(self.now, worker, rank, event)
    }

    /// The engine stores the blocks of `tokens` from block `from` on, and calls them by their place
    /// in the prompt.
    fn store(
        &mut self,
        worker: WorkerId,
        rank: u32,
        tier: Tier,
        tokens: &[u32],
        from: usize,
    ) -> usize {
        let locals = TokenBlocks::plain(SIZE, Default::default()).local_hashes(tokens);
        let names = names(tokens);
        let blocks = locals.iter().zip(&names).skip(from);
        let blocks: Vec<_> = blocks
            .map(|(&local, &name)| StoredBlock { name, local })
            .collect();
        let blocks = StoredBlocks {
            parent: from.checked_sub(1).map(|above| names[above]),
            block_tokens: SIZE.get(),
            blocks: &blocks,
        };
        self.tell(worker, rank, &CacheEvent::Stored { tier, blocks })
    }

    fn remove(&mut self, worker: WorkerId, tier: Tier, names: &[u64]) -> usize {
        self.tell(worker, 0, &CacheEvent::Removed { tier, names })
    }

    /// Cached tokens of the prompt at worker A and at worker B, as a decision would count them.
    fn cached(&mut self, prompt: Prompt<'_>) -> [u32; 2] {
        let (_, mut rows) = self
            .scheduler
            .candidates(self.now, &turn(prompt), &mut self.settled)
            .unwrap();
        rows.sort_by_key(|row| row.worker);
        [rows[0].cached_tokens(), rows[1].cached_tokens()]
    }

    fn go(&mut self, prompt: Prompt<'_>) -> (ReservationId, Placement) {
        let submitted = self
            .scheduler
            .submit(self.now, &turn(prompt), &mut self.settled);
        let submitted = submitted.unwrap();
        match submitted.verdict {
            Verdict::Go(placement) => (submitted.reservation, placement),
            Verdict::Hold => panic!("nothing is held here"),
        }
    }

    fn complete(&mut self, id: ReservationId, cached_tokens: u32) {
        let reported = Reported {
            cached_tokens: Some(cached_tokens),
            ..Reported::default()
        };
        let completion = Completion {
            reported,
            ..Completion::default()
        };
        let (now, settled) = (self.now, &mut self.settled);
        self.scheduler.complete(now, id, &completion, settled);
    }

    fn evidence(&self, worker: WorkerId) -> (Trust, Option<Doubt>) {
        let evidence = self.scheduler.evidence(worker).unwrap();
        (evidence.trust, evidence.doubt)
    }
}

fn turn(prompt: Prompt<'_>) -> Turn<'_> {
    Turn::new(&[TargetId(0)], prompt)
}

fn names(tokens: &[u32]) -> Vec<u64> {
    let block = tokens.first().copied().unwrap_or_default();
    (1..)
        .map(|n| u64::from(block) << 32 | n)
        .take(tokens.len() / 4)
        .collect()
}

fn prompt(of: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| of * 1_000 + i).collect()
}

#[test]
fn what_an_engine_tells_is_counted_to_the_block() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 18);
    assert_eq!(world.store(A, 0, Tier::Device, &tokens[..12], 0), 3);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [12, 0]);
    assert_eq!(world.store(A, 0, Tier::Device, &tokens, 3), 1);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [16, 0]);
    let (_, placement) = world.go(Prompt::Tokens(&tokens));
    let expected = (A, 16, Trust::Exact, None);
    let Placement {
        worker,
        predicted_cached_tokens,
        trust,
        rank,
        ..
    } = placement;
    assert_eq!((worker, predicted_cached_tokens, trust, rank), expected);
}

#[test]
fn what_an_engine_is_said_to_have_is_what_it_has_told() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 18);
    let said = |world: &World| world.scheduler.engine_cached_tokens(A);
    world.store(A, 0, Tier::Device, &tokens[..8], 0);
    let (first, placement) = world.go(Prompt::Tokens(&tokens));
    assert_eq!(placement.worker, A);
    assert_eq!(said(&world), Some(8), "the rest of it was only sent");
    world.store(A, 0, Tier::Device, &tokens[..12], 2);
    assert_eq!(said(&world), Some(12));
    world.complete(first, 8);
    world.go(Prompt::Tokens(&tokens));
    world.remove(A, Tier::Device, &names(&tokens)[2..3]);
    assert_eq!(said(&world), Some(8));
    world.store(A, 0, Tier::Host, &tokens, 0);
    assert_eq!(said(&world), Some(8), "on its device");
    world.tell(A, 0, &CacheEvent::Cleared);
    assert_eq!(said(&world), Some(0));
}

/// A prompt that the cache has whole: the engine computes its last token, and with it the last block.
#[test]
fn the_block_with_the_last_token_is_computed_anyway() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 16);
    world.store(A, 0, Tier::Device, &tokens, 0);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [12, 0]);
    assert_eq!(world.cached(Prompt::Tokens(&prompt(1, 17))), [16, 0]);
}

#[test]
fn whatever_may_be_missing_voids_the_credit_before_the_next_decision() {
    let tokens = prompt(1, 17);
    let voids = [
        FeedNotice::Lost(Doubt::Gap),
        FeedNotice::Lost(Doubt::Restarted),
        FeedNotice::Lost(Doubt::Flooded),
        FeedNotice::Suspended(Doubt::Gap),
        FeedNotice::Suspended(Doubt::Disconnected),
        FeedNotice::Begun,
    ];
    for notice in voids {
        let mut world = World::begun(1);
        world.store(A, 0, Tier::Device, &tokens, 0);
        world.store(A, 0, Tier::Host, &tokens, 0);
        world.go(Prompt::Tokens(&tokens));
        world.go(Prompt::Tokens(&tokens));
        assert_eq!(world.cached(Prompt::Tokens(&tokens))[0], 16);
        world.notice(A, 0, notice);
        assert_eq!(world.cached(Prompt::Tokens(&tokens))[0], 0, "{notice:?}");
    }
    let mut world = World::begun(1);
    world.store(A, 0, Tier::Device, &tokens, 0);
    world.tell(A, 0, &CacheEvent::Cleared);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [0, 0]);
    world.store(A, 0, Tier::Device, &tokens, 0);
    world.remove(A, Tier::Device, &names(&tokens)[1..2]);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [4, 0]);
}

#[test]
fn a_gap_that_is_filled_costs_nothing_afterwards() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 17);
    world.store(A, 0, Tier::Device, &tokens[..8], 0);
    world.notice(A, 0, FeedNotice::Suspended(Doubt::Gap));
    assert_eq!(world.evidence(A), (Trust::None, Some(Doubt::Gap)));
    world.notice(A, 0, FeedNotice::Suspended(Doubt::Disconnected));
    world.notice(A, 0, FeedNotice::Suspended(Doubt::Unconfirmed));
    let latest = (Trust::None, Some(Doubt::Unconfirmed));
    assert_eq!(world.evidence(A), latest);
    world.store(A, 0, Tier::Device, &tokens, 2);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [0, 0]);
    world.notice(A, 0, FeedNotice::Resumed);
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [16, 0]);
    assert_eq!(world.evidence(A), (Trust::Exact, None));
}

#[test]
fn a_worker_s_trust_follows_its_stream() {
    let mut world = World::new(1);
    assert_eq!(world.evidence(A), (Trust::Predicted, Some(Doubt::Silent)));
    world.notice(A, 0, FeedNotice::Lost(Doubt::JoinedLate));
    assert_eq!(
        world.evidence(A),
        (Trust::Degraded, Some(Doubt::JoinedLate))
    );
    world.now = Micros::from_secs(7);
    world.tell(A, 0, &CacheEvent::Cleared);
    let expected = Evidence {
        trust: Trust::Exact,
        doubt: None,
        cause: None,
        since: Micros::from_secs(7),
    };
    assert_eq!(world.scheduler.evidence(A), Some(expected));
    world.now = Micros::from_secs(9);
    world.notice(A, 0, FeedNotice::Begun);
    assert_eq!(
        world.scheduler.evidence(A),
        Some(expected),
        "nothing has changed"
    );
    world.notice(A, 5, FeedNotice::Lost(Doubt::Gap));
    assert_eq!(
        world.scheduler.evidence(A),
        Some(expected),
        "there is no such rank"
    );
}

#[test]
fn a_reset_that_the_gateway_asked_for_does_not_wait_for_the_engine() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 17);
    world.store(A, 0, Tier::Device, &tokens, 0);
    world.store(B, 0, Tier::Device, &tokens, 0);
    world.scheduler.reset_cache(world.now, A).unwrap();
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [0, 16]);
    assert_eq!(world.evidence(A), (Trust::Degraded, Some(Doubt::Reset)));
    let unknown = world.scheduler.reset_cache(world.now, WorkerId(9));
    assert_eq!(unknown.unwrap_err().code(), "UNKNOWN_ID");
}

#[test]
fn a_partial_stream_is_true_and_not_all() {
    let mut world = World::new(1);
    let (old, new) = (prompt(1, 17), prompt(2, 17));
    world.notice(A, 0, FeedNotice::Lost(Doubt::JoinedLate));
    let (id, _) = world.go(Prompt::Tokens(&old));
    world.complete(id, 16);
    world.store(A, 0, Tier::Device, &new, 0);
    assert_eq!(world.cached(Prompt::Tokens(&new))[0], 16);
    let at_a = world.cached(Prompt::Tokens(&old))[0];
    let at_b = world.cached(Prompt::Tokens(&old))[1];
    assert_eq!(
        at_a.max(at_b),
        16,
        "what the router sent there counts as well"
    );
    let (_, placement) = world.go(Prompt::Tokens(&new));
    assert_eq!((placement.worker, placement.trust), (A, Trust::Degraded));
}

#[test]
fn what_was_sent_counts_at_once_and_not_for_long() {
    let mut world = World::begun(1);
    let (known, new) = (prompt(1, 17), prompt(2, 17));
    world.store(A, 0, Tier::Device, &known, 0);
    world.store(B, 0, Tier::Device, &known, 0);
    let (_, placement) = world.go(Prompt::Tokens(&new));
    let at = placement.worker.index();
    assert_eq!(world.cached(Prompt::Tokens(&new))[at], 16);
    world.now = world.now.plus(Micros::from_secs(31));
    assert_eq!(
        world.cached(Prompt::Tokens(&new)),
        [0, 0],
        "no event has come of it"
    );
    assert_eq!(world.cached(Prompt::Tokens(&known)), [16, 16]);
}

#[test]
fn what_an_engine_gives_up_before_it_has_answered_is_gone_when_it_has() {
    for (first_token, completes) in [(true, false), (false, true), (true, true)] {
        let mut world = World::begun(1);
        let tokens = prompt(1, 33);
        world.store(A, 0, Tier::Device, &tokens[..8], 0);
        let (id, placement) = world.go(Prompt::Tokens(&tokens));
        assert_eq!(placement.worker, A);
        world.store(A, 0, Tier::Device, &tokens, 2);
        world.remove(A, Tier::Device, &names(&tokens)[4..]);
        if first_token {
            let (now, settled) = (world.now, &mut world.settled);
            world.scheduler.first_token(now, id, settled);
        }
        if completes {
            world.complete(id, 8);
        }
        let [cached, _] = world.cached(Prompt::Tokens(&tokens));
        assert_eq!(cached, 16, "{first_token} {completes}");
    }
}

#[test]
fn text_is_known_by_what_was_sent_whatever_events_say() {
    let mut world = World::begun(1);
    let segments = [Segment::plain(4_096)];
    let bytes = vec![b'x'; 4_096];
    let text = || Prompt::Text {
        bytes: &bytes,
        segments: &segments,
    };
    let (_, placement) = world.go(text());
    let at = placement.worker.index();
    assert!(world.cached(text())[at] > 500);
    let filled: Vec<u32> = prompt(3, 900);
    for of in 10..40 {
        let mut full = filled.clone();
        full[0] = of;
        world.store(placement.worker, 0, Tier::Device, &full, 0);
    }
    assert!(
        world.cached(text())[at] > 500,
        "a full cache is no reason to forget"
    );
    world.notice(placement.worker, 0, FeedNotice::Suspended(Doubt::Gap));
    assert_eq!(world.cached(text())[at], 0);
}

#[test]
fn each_tier_goes_on_where_the_nearer_one_stopped() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 41);
    let names = names(&tokens);
    world.store(A, 0, Tier::Device, &tokens[..24], 0);
    let copied = |tier, names| CacheEvent::Copied { tier, names };
    assert_eq!(world.tell(A, 0, &copied(Tier::Host, &names[..6])), 6);
    world.remove(A, Tier::Device, &names[3..6]);
    world.store(A, 0, Tier::Disk, &tokens, 6);
    let row = |world: &mut World| {
        let asked = turn(Prompt::Tokens(&tokens));
        let rows = world
            .scheduler
            .candidates(world.now, &asked, &mut world.settled);
        let row = rows
            .unwrap()
            .1
            .into_iter()
            .find(|row| row.worker == A)
            .unwrap();
        (row.overlap_tokens, row.host_tokens, row.disk_tokens)
    };
    assert_eq!(row(&mut world), (12, 12, 16));
    let (_, placement) = world.go(Prompt::Tokens(&tokens));
    assert_eq!(placement.predicted_cached_tokens, 40);
    let receipt = world.scheduler.receipt(placement.receipt).unwrap();
    let costs: Vec<f64> = receipt.candidates.iter().map(|row| row.cost).collect();
    assert_eq!(recompute(receipt), costs, "from the receipt alone");
    assert_eq!(
        world.tell(A, 0, &copied(Tier::Host, &[77])),
        0,
        "nobody knows that one"
    );
    assert_eq!(world.scheduler.prefix().stats().anomalies.unknown_name, 1);
}

#[test]
fn a_move_between_tiers_never_counts_twice() {
    let tokens = prompt(1, 17);
    let names = names(&tokens);
    for copy_first in [true, false] {
        let mut world = World::begun(1);
        world.store(A, 0, Tier::Device, &tokens, 0);
        // What a removal forgets is still known by another worker of the same words.
        world.store(B, 0, Tier::Device, &tokens, 0);
        let copy = CacheEvent::Copied {
            tier: Tier::Host,
            names: &names[2..],
        };
        let gone = CacheEvent::Removed {
            tier: Tier::Device,
            names: &names[2..],
        };
        let order = if copy_first {
            [copy, gone]
        } else {
            [gone, copy]
        };
        for event in order {
            world.tell(A, 0, &event);
        }
        assert_eq!(world.cached(Prompt::Tokens(&tokens)), [16, 16]);
    }
}

#[test]
fn a_session_that_comes_back_is_sent_to_the_rank_that_has_it() {
    let mut world = World::begun(4);
    let tokens = prompt(1, 17);
    world.store(B, 1, Tier::Device, &tokens[..8], 0);
    world.store(B, 2, Tier::Device, &tokens, 0);
    let (_, placement) = world.go(Prompt::Tokens(&tokens));
    let expected = (B, Some(2), 16);
    let Placement {
        worker,
        rank,
        predicted_cached_tokens,
        ..
    } = placement;
    assert_eq!((worker, rank, predicted_cached_tokens), expected);
    world.notice(B, 3, FeedNotice::Suspended(Doubt::Gap));
    assert_eq!(world.cached(Prompt::Tokens(&tokens)), [0, 0]);
    world.notice(B, 3, FeedNotice::Lost(Doubt::Gap));
    assert_eq!(
        world.cached(Prompt::Tokens(&tokens)),
        [0, 16],
        "another rank's loss"
    );
    let (_, elsewhere) = world.go(Prompt::Tokens(&prompt(9, 17)));
    assert_eq!(elsewhere.rank, None);
}

#[test]
fn blocks_of_another_size_are_named_as_the_cause() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 64);
    let locals = TokenBlocks::plain(SIZE, Default::default()).local_hashes(&tokens);
    let of_other_size = |world: &mut World, name: u64| {
        let local = locals[name as usize];
        let blocks = StoredBlocks {
            parent: None,
            block_tokens: 16,
            blocks: &[StoredBlock { name, local }],
        };
        let tier = Tier::Device;
        assert_eq!(world.tell(A, 0, &CacheEvent::Stored { tier, blocks }), 0);
    };
    assert_eq!(world.evidence(A), (Trust::Exact, None));
    of_other_size(&mut world, 1);
    assert_eq!(
        world.evidence(A),
        (Trust::Predicted, Some(Doubt::BlockSize))
    );
    assert_eq!(world.scheduler.engine_block_tokens(A), Some(16));
    let (_, placement) = world.go(Prompt::Tokens(&tokens));
    let at = placement.worker.index();
    assert!(
        world.cached(Prompt::Tokens(&tokens))[at] > 0,
        "the router's own word counts"
    );
    world.store(A, 0, Tier::Device, &tokens, 0);
    assert_eq!(world.evidence(A), (Trust::Exact, None));
    for name in 1..=4 {
        let trust = world.evidence(A);
        assert_eq!(trust, (Trust::Exact, None), "some had the right one");
        of_other_size(&mut world, name);
    }
    assert_eq!(
        world.evidence(A),
        (Trust::Predicted, Some(Doubt::BlockSize))
    );
}

/// A prompt that the engine has nothing of and computes, as far as it says.
fn computed(world: &mut World, tokens: &[u32]) {
    let submitted = world.scheduler.submit(
        world.now,
        &Turn {
            pin: Some(A),
            ..turn(Prompt::Tokens(tokens))
        },
        &mut world.settled,
    );
    let completion = Completion {
        reported: Reported {
            prompt_tokens: u32::try_from(tokens.len()).ok(),
            cached_tokens: Some(0),
            ..Reported::default()
        },
        ..Completion::default()
    };
    let id = submitted.unwrap().reservation;
    let (now, settled) = (world.now, &mut world.settled);
    world.scheduler.complete(now, id, &completion, settled);
}

#[test]
fn a_first_block_that_is_not_told_of_says_at_once_that_tokens_differ() {
    let mut world = World::begun(1);
    computed(&mut world, &prompt(1, 33));
    world.store(A, 0, Tier::Device, &prompt(50, 33), 0);
    assert_eq!(world.evidence(A), (Trust::Exact, None), "it may be late");
    world.now = world.now.plus(Micros::from_secs(6));
    world.store(A, 0, Tier::Device, &prompt(51, 33), 0);
    let found = world.scheduler.disagreement_of(A).unwrap();
    assert_eq!(
        (found.cause, found.ours, found.theirs),
        (Cause::Tokens, 4, 0)
    );
    // It was only late.
    world.store(A, 0, Tier::Device, &prompt(1, 33), 0);
    assert_eq!(world.evidence(A), (Trust::Exact, None));
}

#[test]
fn a_first_block_that_is_told_of_in_time_or_may_have_gone_is_no_matter() {
    let mut world = World::begun(1);
    computed(&mut world, &prompt(1, 33));
    world.store(A, 0, Tier::Device, &prompt(1, 33), 0);
    computed(&mut world, &prompt(2, 33));
    world.remove(A, Tier::Device, &names(&prompt(1, 33))[7..]);
    world.now = world.now.plus(Micros::from_secs(60));
    world.store(A, 0, Tier::Device, &prompt(51, 33), 0);
    assert_eq!(world.evidence(A), (Trust::Exact, None));
    // Nothing was told of at all: nothing can be said.
    let mut silent = World::begun(1);
    computed(&mut silent, &prompt(1, 33));
    silent.now = silent.now.plus(Micros::from_secs(60));
    computed(&mut silent, &prompt(2, 33));
    assert_eq!(silent.evidence(A), (Trust::Exact, None));
}

#[test]
fn once_something_has_matched_a_missing_block_is_one_report_among_others() {
    let mut world = World::begun(1);
    for of in 1..=4 {
        let known = prompt(100, 33);
        world.store(A, 0, Tier::Device, &known, 0);
        if of == 1 {
            let (id, _) = world.go(Prompt::Tokens(&known));
            world.complete(id, 32);
        }
        assert_eq!(world.evidence(A), (Trust::Exact, None), "{of}");
        computed(&mut world, &prompt(of, 33));
        world.now = world.now.plus(Micros::from_secs(6));
    }
    world.store(A, 0, Tier::Device, &prompt(51, 33), 0);
    assert_eq!(world.evidence(A), (Trust::Predicted, Some(Doubt::Tokens)));
}

#[test]
fn reports_that_contradict_the_events_again_and_again_are_believed() {
    let mut world = World::begun(1);
    world
        .scheduler
        .set_health(world.now, B, Health::Down, &mut world.settled)
        .unwrap();
    for of in 0..4 {
        assert_eq!(world.evidence(A), (Trust::Exact, None));
        let (id, placement) = world.go(Prompt::Tokens(&prompt(of, 33)));
        assert_eq!(placement.predicted_cached_tokens, 0);
        world.complete(id, 32);
    }
    assert_eq!(world.evidence(A), (Trust::Predicted, Some(Doubt::Tokens)));
    world.notice(A, 0, FeedNotice::Begun);
    assert_eq!(
        world.evidence(A),
        (Trust::Exact, None),
        "a new engine is believed anew"
    );
    for of in 10..20 {
        let (id, _) = world.go(Prompt::Tokens(&prompt(of, 33)));
        world.complete(id, if of % 2 == 0 { 32 } else { 0 });
        let tokens = prompt(of + 50, 33);
        world.store(A, 0, Tier::Device, &tokens, 0);
        let (id, _) = world.go(Prompt::Tokens(&tokens));
        world.complete(id, 32);
    }
    assert_eq!(
        world.evidence(A),
        (Trust::Exact, None),
        "agreement in between"
    );
}

#[test]
fn events_of_nobody_are_counted_and_change_nothing() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 17);
    assert_eq!(world.store(WorkerId(9), 0, Tier::Device, &tokens, 0), 0);
    assert_eq!(world.store(A, 1, Tier::Device, &tokens, 0), 0);
    world.store(A, 0, Tier::Device, &tokens, 0);
    world
        .scheduler
        .set_health(world.now, A, Health::Removed, &mut world.settled)
        .unwrap();
    assert_eq!(world.store(A, 0, Tier::Device, &tokens, 0), 0);
    world.notice(A, 0, FeedNotice::Begun);
    assert_eq!(world.scheduler.status().stray_events, 3);
    assert_eq!(world.scheduler.prefix().stats().blocks, 0);
    assert_eq!(world.scheduler.prefix().stats().places.len(), 1);
}

#[test]
fn a_feed_is_added_once_to_a_worker_that_is_there() {
    let mut world = World::new(1);
    let options = |ranks| FeedOptions {
        ranks: NonZeroU32::new(ranks).unwrap(),
    };
    let mut add = |worker, ranks| {
        let added = world.scheduler.add_feed(world.now, worker, options(ranks));
        added.unwrap_err().code()
    };
    assert_eq!(add(A, 1), "DUPLICATE_ID");
    assert_eq!(add(WorkerId(9), 1), "UNKNOWN_ID");
    let worker = WorkerOptions {
        name: "c".to_owned(),
        group: world.scheduler.topology().worker(A).unwrap().group,
        capacity_tokens: None,
    };
    let c = world
        .scheduler
        .add_worker(world.now, worker, &mut world.settled)
        .unwrap();
    let refused = world.scheduler.add_feed(world.now, c, options(65));
    assert_eq!(refused.unwrap_err().code(), "INVALID_ARGUMENT");
    world.scheduler.add_feed(world.now, c, options(64)).unwrap();
}

/// Engines are known to announce a block again and again and remove it once (`leaks` in a refcount).
#[test]
fn copies_that_an_engine_leaks_are_bounded_for_each_block() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 17);
    for _ in 0..1_000 {
        world.store(A, 0, Tier::Device, &tokens, 0);
    }
    let mut removals = 0;
    while world.cached(Prompt::Tokens(&tokens))[0] > 0 {
        world.remove(A, Tier::Device, &names(&tokens));
        removals += 1;
    }
    assert_eq!(removals, 65, "one and 64 copies");
}

#[test]
fn salted_prompts_find_salted_blocks_and_no_others() {
    let mut world = World::begun(1);
    let tokens = prompt(1, 17);
    let blocks = TokenBlocks {
        first: Seed::framed(&[b"tenant-a"]),
        ..TokenBlocks::plain(SIZE, Default::default())
    };
    let locals = blocks.local_hashes(&tokens);
    let blocks: Vec<_> = (1..)
        .zip(&locals)
        .map(|(name, &local)| StoredBlock { name, local })
        .collect();
    let blocks = StoredBlocks {
        parent: None,
        block_tokens: SIZE.get(),
        blocks: &blocks,
    };
    let tier = Tier::Device;
    world.tell(A, 0, &CacheEvent::Stored { tier, blocks });
    let mut cached = |salt: &'static [u8], session: Option<&'static str>| {
        let asked = Turn {
            cache_salt: salt,
            session,
            ..turn(Prompt::Tokens(&tokens))
        };
        let submitted = world
            .scheduler
            .submit(world.now, &asked, &mut world.settled);
        let submitted = submitted.unwrap();
        let Verdict::Go(placement) = submitted.verdict else {
            panic!("nothing is held here");
        };
        (world.scheduler).cancel(world.now, submitted.reservation, &mut world.settled);
        placement.predicted_cached_tokens
    };
    assert_eq!(cached(b"tenant-a", None), 16);
    assert_eq!(cached(b"tenant-b", None), 0);
    assert_eq!(cached(b"", None), 0);
    // A session's later turns are hashed by its memo.
    for salt in [
        &b"tenant-a"[..],
        b"tenant-a",
        b"",
        b"",
        b"tenant-a",
        b"tenant-a",
    ] {
        let expected = if salt.is_empty() { 0 } else { 16 };
        assert_eq!(cached(salt, Some("s")), expected);
    }
}

/// Ends so many turns with what the engine reports, of `tokens` each.
fn report(world: &mut World, times: u32, offers: Turn<'_>, reported: Reported) {
    for n in 0..times {
        let tokens = prompt(100 + n, 33);
        let asked = Turn {
            prompt: Prompt::Tokens(&tokens),
            pin: Some(A),
            ..offers
        };
        let submitted = world
            .scheduler
            .submit(world.now, &asked, &mut world.settled);
        let completion = Completion {
            reported,
            ..Completion::default()
        };
        let (now, settled) = (world.now, &mut world.settled);
        let id = submitted.unwrap().reservation;
        world.scheduler.complete(now, id, &completion, settled);
    }
}

#[test]
fn prompts_that_are_not_the_engines_are_found_with_what_is_the_matter() {
    let plain = turn(Prompt::Tokens(&[]));
    let tools = Turn {
        ask: Ask {
            needs: Abilities {
                tools: true,
                images: false,
            },
            ..Ask::default()
        },
        ..plain
    };
    let salted = Turn {
        cache_salt: b"s",
        ..plain
    };
    let length = |tokens| Reported {
        prompt_tokens: Some(tokens),
        cached_tokens: Some(0),
        ..Reported::default()
    };
    let hits = Reported {
        cached_tokens: Some(32),
        ..length(33)
    };
    let cases = [
        (plain, length(34), Cause::Bos, (33, 34)),
        (tools, length(32), Cause::Bos, (33, 32)),
        (tools, length(90), Cause::Tools, (33, 90)),
        (plain, length(90), Cause::Template, (33, 90)),
        (tools, length(20), Cause::Template, (33, 20)),
        (salted, hits, Cause::Salt, (0, 32)),
        (tools, hits, Cause::KeyOrder, (0, 32)),
        (plain, hits, Cause::Tokens, (0, 32)),
    ];
    for (asked, reported, cause, (ours, theirs)) in cases {
        let mut world = World::begun(1);
        report(&mut world, 3, asked, reported);
        assert_eq!(world.scheduler.disagreement(GroupId(0)), None, "{cause:?}");
        report(&mut world, 1, asked, reported);
        let (worker, found) = world
            .scheduler
            .disagreement(GroupId(0))
            .expect("it is found");
        assert_eq!((worker, found.cause), (A, cause));
        assert_eq!((found.ours, found.theirs), (ours, theirs));
        let evidence = world.scheduler.evidence(A).unwrap();
        let known = (evidence.trust, evidence.doubt, evidence.cause);
        assert_eq!(known, (Trust::Predicted, Some(Doubt::Tokens), Some(cause)));
        assert_eq!(world.scheduler.disagreement_of(B), None);
        // What is found stays, with when and why, until the engine begins anew.
        report(&mut world, 20, plain, length(33));
        assert_eq!(world.scheduler.disagreement_of(A), Some(found));
        world.notice(A, 0, FeedNotice::Begun);
        assert_eq!(world.scheduler.disagreement(GroupId(0)), None);
    }
}

#[test]
fn prompts_that_agree_mostly_are_believed_and_one_wrong_in_three_is_enough() {
    let plain = turn(Prompt::Tokens(&[]));
    let length = |tokens| Reported {
        prompt_tokens: Some(tokens),
        cached_tokens: Some(0),
        ..Reported::default()
    };
    let agrees = Reported {
        cached_tokens: Some(32),
        ..length(33)
    };
    let play = |agreeing: u32| {
        let mut world = World::begun(1);
        for n in 0..60 {
            let tokens = prompt(100, 33);
            world.store(A, 0, Tier::Device, &tokens, 0);
            let reported = if n % (agreeing + 1) == 0 {
                length(40)
            } else {
                agrees
            };
            report(&mut world, 1, plain, reported);
        }
        world.scheduler.disagreement(GroupId(0)).is_some()
    };
    assert!(play(1));
    assert!(!play(2));
}

#[test]
fn a_block_size_is_everybodys_when_each_engine_has_it() {
    let mut world = World::begun(1);
    let store = |world: &mut World, worker, size| {
        for name in 1..=4 {
            let blocks = StoredBlocks {
                parent: None,
                block_tokens: size,
                blocks: &[StoredBlock { name, local: name }],
            };
            let tier = Tier::Device;
            world.tell(worker, 0, &CacheEvent::Stored { tier, blocks });
        }
    };
    store(&mut world, A, 8);
    let found = world.scheduler.disagreement_of(A).unwrap();
    assert_eq!(
        (found.cause, found.ours, found.theirs),
        (Cause::BlockSize, 4, 8)
    );
    assert_eq!(
        world.scheduler.disagreement(GroupId(0)),
        None,
        "B has another one"
    );
    store(&mut world, B, 8);
    let everybodys = world.scheduler.disagreement(GroupId(0));
    assert_eq!(everybodys.map(|(worker, _)| worker), Some(A));
    store(&mut world, B, 4);
    assert_eq!(world.scheduler.disagreement(GroupId(0)), None);
}

#[test]
fn an_engine_whose_blocks_had_to_go_for_others_is_not_known_exactly() {
    let mut config = Config::default();
    config.limits.blocks = 40;
    let mut world = World::with(config, 1);
    world.begin(1);
    let own = prompt(1, 33);
    world.store(B, 0, Tier::Device, &own, 0);
    let exact = (Trust::Exact, None);
    let evicted = (Trust::Degraded, Some(Doubt::Evicted));
    for other in 2..6 {
        world.store(A, 0, Tier::Device, &prompt(other, 32), 0);
    }
    assert_eq!(world.evidence(B), exact, "all of it has room");
    world.now = Micros::from_secs(5);
    world.store(A, 0, Tier::Device, &prompt(6, 32), 0);
    assert_eq!(world.evidence(B), evicted);
    assert_eq!(world.evidence(A), exact, "what it told is all there");
    assert!(world.cached(Prompt::Tokens(&own))[1] < 32);
    world.notice(B, 0, FeedNotice::Suspended(Doubt::Gap));
    world.notice(B, 0, FeedNotice::Resumed);
    assert_eq!(world.evidence(B), evicted, "it is still missing");
    world.tell(B, 0, &CacheEvent::Cleared);
    assert_eq!(world.evidence(B), exact);
    // Once more, by what a decision brings in.
    world.store(B, 0, Tier::Device, &prompt(7, 8), 0);
    for other in 8..14 {
        world.go(Prompt::Tokens(&prompt(other, 120)));
    }
    world.notice(A, 0, FeedNotice::Resumed);
    let trusts = [world.evidence(A), world.evidence(B)];
    assert!(trusts.contains(&evicted), "{trusts:?}");
}

#[test]
fn what_a_host_tier_is_worth_is_learnt_from_what_it_takes() {
    let config = Config {
        pace: 1.0,
        ..Config::default()
    };
    let mut world = World::with(config, 1);
    world.begin(1);
    let mut credits = Vec::new();
    for n in 0..120_u32 {
        // Odd turns find most of their prompt in the host's memory, which takes as long as computing it.
        let tokens: Vec<u32> = (0..400).map(|i| n * 1_000 + i).collect();
        let stored = if n % 2 == 1 { 360 } else { 0 };
        for worker in [A, B] {
            if stored > 0 {
                world.store(worker, 0, Tier::Host, &tokens[..stored], 0);
            }
        }
        let (id, placement) = world.go(Prompt::Tokens(&tokens));
        assert_eq!(placement.predicted_cached_tokens as usize, stored);
        let receipt = world.scheduler.receipt(placement.receipt).unwrap();
        credits.push(receipt.weights.host_credit);
        let costs: Vec<f64> = receipt.candidates.iter().map(|row| row.cost).collect();
        assert_eq!(recompute(receipt), costs);
        world.now = world.now.plus(Micros::from_millis(400));
        world
            .scheduler
            .first_token(world.now, id, &mut world.settled);
        let completion = Completion {
            reported: Reported {
                prompt_tokens: Some(400),
                cached_tokens: Some(stored as u32),
                completion_tokens: Some(1),
            },
            ..Completion::default()
        };
        world
            .scheduler
            .complete(world.now, id, &completion, &mut world.settled);
    }
    assert_eq!(credits[..20], [0.75; 20], "nothing is known");
    let last = credits[119];
    assert!((0.0..0.35).contains(&last), "{last}");
}
