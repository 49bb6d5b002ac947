//! A store that engines share, through the scheduler's door.
use std::num::NonZeroU32;

use warmpath_core::block::TokenBlocks;
use warmpath_core::event::{CacheEvent, Doubt, FeedNotice};
use warmpath_core::pool::{Layout, PageChange, Part};
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_core::receipt::{Reported, Trust};
use warmpath_core::scheduler::{
    Completion, Config, FeedOptions, GroupOptions, Placement, PoolOptions, PoolStatus, Prompt,
    Scheduler, Segment, SegmentKind, Turn, Verdict, WorkerOptions,
};
use warmpath_core::{GroupId, Micros, TargetId, WorkerId};

const A: WorkerId = WorkerId(0);
const G: GroupId = GroupId(0);
const SIZE: NonZeroU32 = NonZeroU32::new(4).unwrap();
const NOW: Micros = Micros::from_secs(1);
/// Two ranks, keys and values apart.
const PARTS: u32 = 4;
const DEVICE: Tier = Tier::Device;
const HOST: Tier = Tier::Host;

struct World {
    scheduler: Scheduler,
    tokens: Vec<u32>,
    now: Micros,
}

impl World {
    /// Two workers whose events are whole, and a prompt of six blocks and a bit.
    fn new() -> Self {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        let options = GroupOptions {
            block_tokens: SIZE.get(),
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(NOW, options).unwrap();
        scheduler.add_target("model", group).unwrap();
        for name in ["a", "b"] {
            let worker = WorkerOptions {
                name: name.to_owned(),
                group,
                capacity_tokens: None,
            };
            let id = scheduler.add_worker(NOW, worker, &mut Vec::new()).unwrap();
            let ranks = NonZeroU32::MIN;
            scheduler.add_feed(NOW, id, FeedOptions { ranks }).unwrap();
            scheduler.feed_notice(NOW, id, 0, FeedNotice::Begun);
        }
        scheduler.add_pool(NOW, group, options_of(100)).unwrap();
        let tokens = (0..26).collect();
        Self {
            scheduler,
            tokens,
            now: NOW,
        }
    }

    /// A's engine has blocks `from` to `to` of the prompt; it calls them by their place, from 1.
    fn store(&mut self, from: usize, to: usize) {
        let locals = TokenBlocks::plain(SIZE, Default::default()).local_hashes(&self.tokens);
        let blocks: Vec<_> = (from..to)
            .map(|at| StoredBlock {
                name: at as u64 + 1,
                local: locals[at],
            })
            .collect();
        let blocks = StoredBlocks {
            parent: (from > 0).then_some(from as u64),
            block_tokens: SIZE.get(),
            blocks: &blocks,
        };
        let tier = Tier::Device;
        self.tell(&CacheEvent::Stored { tier, blocks });
    }

    fn tell(&mut self, event: &CacheEvent<'_>) {
        self.scheduler.apply_event(NOW, A, 0, event);
    }

    fn object(&mut self, page: u64, number: u32, is_there: bool) -> PageChange {
        let part = Part {
            tensor: number / 2,
            half: number % 2,
            ..Part::default()
        };
        self.scheduler.apply_object(NOW, G, (page, &part), is_there)
    }

    /// All objects of a page.
    fn page(&mut self, page: u64) {
        (0..PARTS).for_each(|number| {
            self.object(page, number, true);
        });
    }

    /// Tokens of the prompt that count at A and at B, own ones and those of the store.
    fn cached(&mut self) -> [(u32, u32); 2] {
        let tokens = self.tokens.clone();
        self.asked(Prompt::Tokens(&tokens))
    }

    fn asked(&mut self, prompt: Prompt<'_>) -> [(u32, u32); 2] {
        let turn = turn_of(prompt);
        let found = self.scheduler.candidates(NOW, &turn, &mut Vec::new());
        let (_, mut rows) = found.unwrap();
        rows.sort_by_key(|row| row.worker);
        [0, 1].map(|at| (rows[at].overlap_tokens, rows[at].pool_tokens))
    }

    /// What counts at A in each tier, nearest first, and in the store.
    fn tiers(&mut self) -> [u32; 4] {
        let tokens = self.tokens.clone();
        let turn = turn_of(Prompt::Tokens(&tokens));
        let found = self.scheduler.candidates(NOW, &turn, &mut Vec::new());
        let row = found.unwrap().1.into_iter().find(|row| row.worker == A);
        let row = row.unwrap();
        let own = [row.overlap_tokens, row.host_tokens, row.disk_tokens];
        [own[0], own[1], own[2], row.pool_tokens]
    }

    /// All pages, of which the engine keeps the first `kept`.
    fn only_in_the_store(&mut self, kept: usize) {
        self.store(0, kept);
        self.store(kept, 6);
        (1..=6).for_each(|page| self.page(page));
        let names: Vec<u64> = (kept as u64 + 1..=6).rev().collect();
        let tier = Tier::Device;
        self.tell(&CacheEvent::Removed {
            tier,
            names: &names,
        });
    }

    fn notice(&mut self, notice: FeedNotice) {
        self.scheduler.pool_notice(NOW, G, notice);
    }

    fn status(&self) -> PoolStatus {
        self.scheduler.pool_status(G).unwrap()
    }

    /// A turn that ends with so many cached tokens by the engine's word. By the next one it is believed no
    /// more that the engine has kept it, since no event has said so.
    fn turn(&mut self, cached: u32) -> (Placement, Trust) {
        self.now = self.now.plus(Micros::from_secs(60));
        let now = self.now;
        let tokens = self.tokens.clone();
        let turn = turn_of(Prompt::Tokens(&tokens));
        let settled = &mut Vec::new();
        let taken = self.scheduler.submit(now, &turn, settled).unwrap();
        let Verdict::Go(go) = taken.verdict else {
            panic!("{taken:?}");
        };
        let reported = Reported {
            prompt_tokens: Some(26),
            cached_tokens: Some(cached),
            completion_tokens: Some(1),
        };
        let told = Completion {
            reported,
            ..Completion::default()
        };
        (self.scheduler).complete(now, taken.reservation, &told, settled);
        let trust = self.scheduler.receipt(go.receipt).unwrap().prompt.trust;
        (go, trust)
    }
}

fn turn_of(prompt: Prompt<'_>) -> Turn<'_> {
    Turn::new(&[TargetId(0)], prompt)
}

fn options_of(pages: usize) -> PoolOptions {
    let two = NonZeroU32::new(2).unwrap();
    PoolOptions {
        layout: Layout {
            tensor: two,
            halves: two,
            ..Layout::default()
        },
        pages,
    }
}

#[test]
fn whole_pages_go_on_where_a_worker_s_own_cache_ends_and_jump_over_nothing() {
    let mut world = World::new();
    world.store(0, 6);
    for page in [4, 6] {
        world.page(page);
    }
    let names = &[4, 5, 6];
    let tier = Tier::Device;
    world.tell(&CacheEvent::Removed { tier, names });
    assert_eq!(world.cached(), [(12, 4), (0, 0)], "the fifth is missing");
    for number in 0..PARTS - 1 {
        assert_eq!(world.object(5, number, true), PageChange::None);
        assert_eq!(world.cached()[0], (12, 4), "and a part of it is no page");
    }
    assert_eq!(world.object(5, PARTS - 1, true), PageChange::Whole);
    assert_eq!(world.cached(), [(12, 12), (0, 0)]);
    for page in [1, 2, 3] {
        world.page(page);
    }
    assert_eq!(
        world.cached(),
        [(12, 12), (0, 24)],
        "what both have counts once"
    );
    assert_eq!(world.object(5, 2, false), PageChange::Broken);
    assert_eq!(world.object(5, 3, false), PageChange::None);
    assert_eq!(world.cached(), [(12, 4), (0, 16)]);
    world.tell(&CacheEvent::Cleared);
    assert_eq!(
        world.cached(),
        [(0, 16), (0, 16)],
        "the store is not the engine's"
    );
    let status = world.scheduler.pool_status(G).unwrap();
    assert_eq!((status.pages, status.whole, status.unplaced), (6, 5, 0));
}

#[test]
fn pages_that_come_before_an_engine_has_told_of_them_wait() {
    let mut world = World::new();
    for page in 1..=6 {
        world.page(page);
    }
    assert_eq!(world.scheduler.pool_status(G).unwrap().unplaced, 6);
    world.object(6, 0, false);
    assert_eq!(world.cached(), [(0, 0), (0, 0)]);
    world.store(0, 2);
    assert_eq!(world.cached(), [(8, 0), (0, 8)]);
    world.store(2, 6);
    assert_eq!(world.cached(), [(24, 0), (0, 20)], "the sixth is broken");
    let status = world.scheduler.pool_status(G).unwrap();
    assert_eq!((status.whole, status.unplaced), (5, 0));
}

#[test]
fn a_gap_empties_the_store_and_a_doubt_silences_it() {
    let mut world = World::new();
    world.store(0, 6);
    (1..=6).for_each(|page| world.page(page));
    let notice = |world: &mut World, notice| world.scheduler.pool_notice(NOW, G, notice);
    notice(&mut world, FeedNotice::Suspended(Doubt::Gap));
    assert_eq!(world.cached()[1], (0, 0));
    notice(&mut world, FeedNotice::Resumed);
    assert_eq!(world.cached()[1], (0, 24));
    notice(&mut world, FeedNotice::Lost(Doubt::Disconnected));
    assert_eq!(world.cached(), [(24, 0), (0, 0)]);
    assert_eq!(
        world.object(3, 1, false),
        PageChange::None,
        "of what was forgotten"
    );
    world.page(1);
    assert_eq!(world.cached()[1], (0, 4));
    let status = world.scheduler.pool_status(G).unwrap();
    assert_eq!((status.pages, status.cleared), (1, 1));
}

#[test]
fn what_engines_have_given_up_stays_known_as_long_as_the_store_has_it() {
    let mut world = World::new();
    world.store(0, 6);
    (1..=6).for_each(|page| world.page(page));
    let names = &[6, 5, 4, 3, 2, 1];
    let tier = Tier::Device;
    world.tell(&CacheEvent::Removed { tier, names });
    assert_eq!(world.cached(), [(0, 24), (0, 24)]);
    (1..=6).for_each(|page| {
        world.object(page, 0, false);
    });
    assert_eq!(world.scheduler.prefix().stats().blocks, 0);
}

#[test]
fn text_and_groups_without_a_store_have_nothing_of_it() {
    let mut world = World::new();
    world.store(0, 6);
    (1..=6).for_each(|page| world.page(page));
    let bytes = [b'x'; 4_000];
    let segments = [Segment {
        bytes: 4_000,
        kind: SegmentKind::Plain,
        contents: 1,
        behind: Default::default(),
    }];
    let text = Prompt::Text {
        bytes: &bytes,
        segments: &segments,
    };
    assert_eq!(world.asked(text), [(0, 0), (0, 0)]);
    let scheduler = &mut world.scheduler;
    let change = scheduler.apply_object(NOW, GroupId(9), (1, &Part::default()), true);
    assert_eq!(change, PageChange::None);
    assert_eq!(scheduler.status().stray_events, 1);
    scheduler.pool_notice(NOW, GroupId(9), FeedNotice::Begun);
    assert_eq!(scheduler.pool_status(GroupId(9)), None);
    let again = scheduler.add_pool(NOW, G, options_of(1)).unwrap_err();
    assert_eq!(again.code(), "DUPLICATE_ID");
    let nobody = scheduler.add_pool(NOW, GroupId(9), options_of(1));
    assert_eq!(nobody.unwrap_err().code(), "UNKNOWN_ID");
}

#[test]
fn a_move_between_tiers_counts_once_in_either_order_and_never_drops_to_nothing() {
    let mut world = World::new();
    world.store(0, 4);
    (3..=6).for_each(|page| world.page(page));
    let copied = |tier, names| CacheEvent::Copied { tier, names };
    let removed = |tier, names| CacheEvent::Removed { tier, names };
    assert_eq!(world.tiers(), [16, 0, 0, 0], "nobody has told of the rest");
    world.store(4, 6);
    world.tell(&removed(DEVICE, &[6, 5]));
    assert_eq!(world.tiers(), [16, 0, 0, 8]);
    world.tell(&copied(HOST, &[3, 4]));
    assert_eq!(world.tiers(), [16, 0, 0, 8], "it is in both for a moment");
    world.tell(&removed(DEVICE, &[4, 3]));
    assert_eq!(world.tiers(), [8, 8, 0, 8]);
    world.tell(&removed(HOST, &[3, 4]));
    assert_eq!(
        world.tiers(),
        [8, 0, 0, 16],
        "the store has had it all along"
    );
    world.tell(&copied(HOST, &[3, 4]));
    world.tell(&copied(DEVICE, &[3]));
    assert_eq!(world.tiers(), [12, 4, 0, 8]);
    world.tell(&removed(HOST, &[3, 4]));
    assert_eq!(world.tiers(), [12, 0, 0, 12]);
}

#[test]
fn another_layout_is_another_store_and_what_was_known_is_void_at_once() {
    let mut world = World::new();
    world.store(0, 6);
    (1..=6).for_each(|page| world.page(page));
    assert_eq!(world.cached(), [(24, 0), (0, 24)]);
    assert!(world.scheduler.remove_pool(NOW, G));
    assert_eq!(world.cached(), [(24, 0), (0, 0)]);
    assert!(!world.scheduler.remove_pool(NOW, G));
    assert!(!world.scheduler.remove_pool(NOW, GroupId(9)));
    assert_eq!(world.object(1, 0, true), PageChange::None, "nobody asks");
    let one = PoolOptions {
        layout: Layout::default(),
        pages: 10,
    };
    world.scheduler.add_pool(NOW, G, one).unwrap();
    assert_eq!(world.cached()[1], (0, 0));
    assert_eq!(world.object(1, 0, true), PageChange::Whole);
    assert_eq!(world.object(2, 1, true), PageChange::None);
    assert_eq!(world.cached()[1], (0, 4));
    let status = world.status();
    assert_eq!(
        (status.pages, status.foreign),
        (1, 1),
        "there are no values apart now"
    );
}

#[test]
fn what_the_store_is_known_by_is_said_of_it_and_of_decisions_that_lean_on_it() {
    let mut world = World::new();
    let known = |world: &World| {
        let evidence = world.status().evidence;
        (evidence.trust, evidence.doubt)
    };
    assert_eq!(known(&world), (Trust::None, Some(Doubt::Silent)));
    world.notice(FeedNotice::Begun);
    world.only_in_the_store(2);
    assert_eq!(known(&world), (Trust::Exact, None));
    let (go, trust) = world.turn(24);
    assert_eq!((go.predicted_cached_tokens, trust), (24, Trust::Exact));
    world.notice(FeedNotice::Lost(Doubt::Gap));
    assert_eq!(known(&world), (Trust::Degraded, Some(Doubt::Gap)));
    world.only_in_the_store(2);
    assert_eq!(world.turn(24).1, Trust::Degraded);
    for doubt in [Doubt::NoEvents, Doubt::Ambiguous] {
        world.notice(FeedNotice::Lost(doubt));
        assert_eq!(known(&world), (Trust::None, Some(doubt)));
    }
    world.notice(FeedNotice::Suspended(Doubt::Disconnected));
    assert_eq!(known(&world), (Trust::None, Some(Doubt::Disconnected)));
    assert_eq!(world.cached()[1], (0, 0));
}

#[test]
fn promises_are_held_against_what_engines_have_read_and_engines_are_not_blamed() {
    let mut world = World::new();
    world.notice(FeedNotice::Begun);
    world.only_in_the_store(1);
    let told = |world: &World| (world.status().promised_tokens, world.status().read_tokens);
    for turns in 1..=6 {
        world.turn(0);
        assert_eq!(told(&world), (20 * turns, 0));
    }
    assert_eq!(world.scheduler.disagreement(G), None);
    world.turn(16);
    assert_eq!(told(&world), (140, 12));
}
