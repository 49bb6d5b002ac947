//! A store that engines share, through the scheduler's door.
use std::num::NonZeroU32;

use warmpath_core::block::TokenBlocks;
use warmpath_core::event::{CacheEvent, Doubt, FeedNotice};
use warmpath_core::pool::{Layout, PageChange, Part};
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_core::scheduler::{
    Config, FeedOptions, GroupOptions, Ids, PoolOptions, Prompt, Scheduler, Segment, SegmentKind,
    Turn, TurnKind, WorkerOptions,
};
use warmpath_core::{GroupId, Micros, TargetId, WorkerId};

const A: WorkerId = WorkerId(0);
const G: GroupId = GroupId(0);
const SIZE: NonZeroU32 = NonZeroU32::new(4).unwrap();
const NOW: Micros = Micros::from_secs(1);
/// Two ranks, keys and values apart.
const PARTS: u32 = 4;

struct World {
    scheduler: Scheduler,
    tokens: Vec<u32>,
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
        Self { scheduler, tokens }
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
        let turn = Turn {
            tenant: "",
            session: None,
            parent: None,
            kind: TurnKind::Ordinary,
            targets: &[TargetId(0)],
            pin: None,
            tool_results: Ids::default(),
            state: Ids::default(),
            cache_salt: &[],
            origin: Default::default(),
            ask: Default::default(),
            prompt,
        };
        let found = self.scheduler.candidates(NOW, &turn, &mut Vec::new());
        let (_, mut rows) = found.unwrap();
        rows.sort_by_key(|row| row.worker);
        [0, 1].map(|at| (rows[at].overlap_tokens, rows[at].disk_tokens))
    }
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
