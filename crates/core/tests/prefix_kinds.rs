//! The faults that users of other routers have reported of their index, each as a kind.
//!
//! Stale ownership; streams with gaps, late joins and orphans; growth without bound; different content
//! taken for the same; odd events; tiers and ranks taken for one; and things that happen in another
//! order than they were said in.
use std::num::NonZeroU32;

use warmpath_core::block::{Chain, Seed, TokenBlocks, hash_content, hash_tokens};
use warmpath_core::prefix::{
    Coverage, Overlap, PlaceOptions, PrefixIndex, StoredBlock, StoredBlocks, Tier,
};
use warmpath_core::{Micros, PlaceId, ProgramId, WorkerId};

const BLOCK: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// A prompt of these contents, one a block.
fn chain(contents: &[u64]) -> Chain {
    let mut chain = Chain::new();
    hash_content(contents, BLOCK, None, Seed::default(), &mut chain);
    chain
}

fn local(content: u64) -> u64 {
    chain(&[content]).hashes()[0]
}

/// What an engine that was started with `salt` calls the blocks of a prompt.
fn names(salt: u64, contents: &[u64]) -> Vec<u64> {
    let chain = chain(contents);
    let name = |hash: &u64| (hash ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    chain.hashes().iter().map(name).collect()
}

fn store_as(
    salt: u64,
    index: &mut PrefixIndex,
    place: PlaceId,
    contents: &[u64],
    from: usize,
) -> usize {
    let names = names(salt, contents);
    let block = |n: usize| StoredBlock {
        name: names[n],
        local: local(contents[n]),
    };
    let blocks: Vec<StoredBlock> = (from..contents.len()).map(block).collect();
    let parent = from.checked_sub(1).map(|n| names[n]);
    index.store(
        place,
        &StoredBlocks {
            parent,
            block_tokens: BLOCK.get(),
            blocks: &blocks,
        },
    )
}

fn store(index: &mut PrefixIndex, place: PlaceId, contents: &[u64]) -> usize {
    store_as(0, index, place, contents, 0)
}

fn remove(index: &mut PrefixIndex, place: PlaceId, contents: &[u64]) -> usize {
    let mut names = names(0, contents);
    names.reverse();
    index.remove(place, &names)
}

fn blocks_at(index: &PrefixIndex, place: PlaceId, contents: &[u64]) -> u32 {
    let mut overlap = Overlap::new();
    index.find(&chain(contents), &mut overlap);
    overlap.blocks_at(place)
}

fn add(index: &mut PrefixIndex, worker: u32) -> PlaceId {
    add_with(index, worker, PlaceOptions::default())
}

fn add_with(index: &mut PrefixIndex, worker: u32, options: PlaceOptions) -> PlaceId {
    let place = index.add_place(WorkerId(worker), 0, Tier::Device, options);
    place.expect("a new place")
}

mod stale_ownership {
    use super::*;

    const HELD: [u64; 3] = [1, 2, 3];

    /// Two places that hold the same in every way: several copies, and predictions below them.
    fn fleet() -> (PrefixIndex, [PlaceId; 2]) {
        let mut index = PrefixIndex::new(1_000);
        let places = [0, 1].map(|worker| add(&mut index, worker));
        for place in places {
            store(&mut index, place, &HELD);
            store(&mut index, place, &HELD[..2]);
            index.predict(Micros(1), place, &chain(&[1, 2, 3, 4, 5]));
            assert_eq!(blocks_at(&index, place, &[1, 2, 3, 4, 5]), 5);
        }
        (index, places)
    }

    fn is_gone(index: &PrefixIndex, gone: PlaceId, other: PlaceId) {
        let prompt = [1, 2, 3, 4, 5];
        assert_eq!(
            (blocks_at(index, gone, &prompt), index.tokens(gone)),
            (0, 0)
        );
        assert_eq!(index.reach(gone, &chain(&prompt), 2), 2);
        let mut coverage = Coverage::new();
        index.coverage(gone, &chain(&prompt), &mut coverage);
        assert_eq!(coverage, Coverage::new());
        assert_eq!(
            (blocks_at(index, other, &prompt), index.tokens(other)),
            (5, 80)
        );
        assert_eq!(index.stats().blocks, 5);
    }

    #[test]
    fn a_clear_voids_all_credit_before_the_next_look() {
        let (mut index, [gone, other]) = fleet();
        index.clear(gone);
        is_gone(&index, gone, other);
        assert_eq!(index.remove(gone, &names(0, &HELD)), 0);
        is_gone(&index, gone, other);
    }

    #[test]
    fn a_fresh_process_at_the_same_place_has_what_it_says_itself() {
        let (mut index, [gone, other]) = fleet();
        index.clear(gone);
        assert_eq!(store_as(77, &mut index, gone, &[1, 9], 0), 2);
        assert_eq!(blocks_at(&index, gone, &[1, 2, 3]), 1);
        assert_eq!(blocks_at(&index, gone, &[1, 9]), 2);
        assert_eq!(blocks_at(&index, other, &[1, 9]), 1);
        assert_eq!(index.remove(gone, &names(77, &[1, 9])), 2);
        is_gone(&index, gone, other);
    }

    #[test]
    fn a_place_that_left_has_nothing_whoever_takes_its_room() {
        let (mut index, [gone, other]) = fleet();
        assert!(index.remove_place(gone));
        is_gone(&index, gone, other);
        let back = add(&mut index, 0);
        is_gone(&index, back, other);
        assert_eq!(store(&mut index, gone, &HELD), 0);
        is_gone(&index, back, other);
        is_gone(&index, gone, other);
    }

    #[test]
    fn removals_void_credit_block_by_block_whoever_else_has_them() {
        let (mut index, [gone, other]) = fleet();
        assert_eq!(remove(&mut index, gone, &HELD), 3);
        assert_eq!(blocks_at(&index, gone, &HELD), 2);
        assert_eq!(remove(&mut index, gone, &HELD[..2]), 2);
        assert_eq!(blocks_at(&index, gone, &[1, 2, 3, 4, 5]), 0);
        index.set_capacity(gone, Some(0));
        is_gone(&index, gone, other);
    }

    #[test]
    fn new_weights_are_a_new_namespace() {
        let seed = |revision: &str| Seed::framed(&[b"revision", revision.as_bytes()]);
        let ids: Vec<u32> = (0..64).collect();
        let of = |revision| {
            let mut chain = Chain::new();
            hash_tokens(&ids, BLOCK, seed(revision), &mut chain);
            chain
        };
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        index.predict(Micros(1), place, &of("1"));
        let mut overlap = Overlap::new();
        index.find(&of("2"), &mut overlap);
        assert_eq!(overlap.blocks_at(place), 0);
        index.find(&of("1"), &mut overlap);
        assert_eq!(overlap.blocks_at(place), 4);
    }
}

mod streams {
    use super::*;

    /// What an engine said: stored a path from some depth on, or removed its last block.
    #[derive(Clone)]
    enum Said {
        Stored(Vec<u64>, usize),
        Removed(Vec<u64>),
    }

    /// An engine that adds to conversations and drops their ends, and what it has by now.
    fn engine(seed: u64) -> (Vec<Said>, std::collections::BTreeSet<Vec<u64>>) {
        let mut state = seed;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut has = std::collections::BTreeSet::new();
        let mut said = Vec::new();
        for _ in 0..300 {
            if random(3) > 0 {
                let depth = 1 + random(6) as usize;
                let path: Vec<u64> = (0..depth).map(|_| random(3)).collect();
                let known = (1..=depth)
                    .take_while(|&n| has.contains(&path[..n]))
                    .count();
                has.extend((1..=depth).map(|n| path[..n].to_vec()));
                if known < depth {
                    said.push(Said::Stored(path, known));
                }
            } else {
                let is_end = |path: &&Vec<u64>| {
                    let below = has.range((*path).clone()..).nth(1);
                    below.is_none_or(|next| !next.starts_with(path))
                };
                let ends: Vec<Vec<u64>> = has.iter().filter(is_end).cloned().collect();
                if let Some(path) = ends.get(random(ends.len().max(1) as u64) as usize) {
                    has.remove(path);
                    said.push(Said::Removed(path.clone()));
                }
            }
        }
        (said, has)
    }

    fn hear(index: &mut PrefixIndex, place: PlaceId, said: &Said) {
        match said {
            Said::Stored(path, from) => drop(store_as(0, index, place, path, *from)),
            Said::Removed(path) => {
                let name = names(0, path).pop().expect("a path");
                index.remove(place, &[name]);
            }
        }
    }

    fn every_prompt() -> impl Iterator<Item = Vec<u64>> {
        (0..3_u64.pow(6)).map(|n| (0..6).map(|i| n / 3_u64.pow(i) % 3).collect())
    }

    fn depth(has: &std::collections::BTreeSet<Vec<u64>>, prompt: &[u64]) -> u32 {
        let held = (1..=prompt.len()).take_while(|&n| has.contains(&prompt[..n]));
        held.count() as u32
    }

    #[test]
    fn a_whole_stream_is_the_truth() {
        for seed in 0..20 {
            let (said, has) = engine(seed);
            let mut index = PrefixIndex::new(10_000);
            let place = add(&mut index, 0);
            said.iter().for_each(|said| hear(&mut index, place, said));
            for prompt in every_prompt() {
                assert_eq!(blocks_at(&index, place, &prompt), depth(&has, &prompt));
            }
            assert_eq!(index.tokens(place), 16 * has.len() as u64);
        }
    }

    #[test]
    fn lost_stores_and_a_late_join_never_exceed_the_truth() {
        for seed in 0..20 {
            let (said, has) = engine(seed);
            let mut index = PrefixIndex::new(10_000);
            let (lossy, late) = (add(&mut index, 0), add(&mut index, 1));
            for (n, said) in said.iter().enumerate() {
                if !matches!(said, Said::Stored(..)) || n % 5 != seed as usize % 5 {
                    hear(&mut index, lossy, said);
                }
                if n > 100 {
                    hear(&mut index, late, said);
                }
            }
            for prompt in every_prompt() {
                let truth = depth(&has, &prompt);
                assert!(blocks_at(&index, lossy, &prompt) <= truth);
                assert!(blocks_at(&index, late, &prompt) <= truth);
            }
            assert!(index.stats().anomalies.unknown_parent > 0);
        }
    }

    #[test]
    fn whatever_came_a_clear_and_a_snapshot_are_the_truth() {
        for seed in 0..20 {
            let (mut said, has) = engine(seed);
            let mut index = PrefixIndex::new(10_000);
            let place = add(&mut index, 0);
            for n in (3..said.len()).step_by(7) {
                said.swap(n - 1, n);
                said[n - 2] = said[n - 3].clone();
            }
            said.iter().for_each(|said| hear(&mut index, place, said));
            index.clear(place);
            for path in &has {
                assert_eq!(store_as(0, &mut index, place, path, path.len() - 1), 1);
            }
            for prompt in every_prompt() {
                assert_eq!(blocks_at(&index, place, &prompt), depth(&has, &prompt));
            }
        }
    }

    #[test]
    fn events_of_one_batch_are_one_chain_and_their_ends_are_no_roots() {
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        store(&mut index, place, &[1, 2]);
        store_as(0, &mut index, place, &[1, 2, 3, 4], 2);
        assert_eq!(blocks_at(&index, place, &[1, 2, 3, 4]), 4);
        assert_eq!(blocks_at(&index, place, &[3, 4]), 0);
    }

    #[test]
    fn orphans_of_orphans_are_counted_and_nothing_is_credited_for_them() {
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        assert_eq!(store_as(0, &mut index, place, &[1, 2, 3], 2), 0);
        assert_eq!(store_as(0, &mut index, place, &[1, 2, 3, 4], 3), 0);
        store(&mut index, place, &[1, 2]);
        let stats = index.stats();
        assert_eq!((stats.anomalies.unknown_parent, stats.blocks), (2, 2));
        assert_eq!(blocks_at(&index, place, &[1, 2, 3, 4]), 2);
    }
}

mod growth {
    use super::*;

    /// Runs `round` often; memory after the last tenth is not more than it was after the first tenth,
    /// give or take a doubling of some table.
    fn is_flat(index: &mut PrefixIndex, rounds: u64, mut round: impl FnMut(&mut PrefixIndex, u64)) {
        let mut early = 0;
        for n in 0..rounds {
            round(index, n);
            let bytes = index.stats().bytes;
            if n < rounds / 10 {
                early = early.max(bytes);
            } else {
                assert!(
                    bytes <= 2 * early + 1_000,
                    "{bytes} in round {n}, {early} at first"
                );
            }
        }
    }

    #[test]
    fn chains_that_come_and_go_leave_nothing() {
        let mut index = PrefixIndex::new(1_000_000);
        let place = add(&mut index, 0);
        let kept = [u64::MAX, u64::MAX - 1];
        store(&mut index, place, &kept);
        is_flat(&mut index, 2_000, |index, n| {
            let path: Vec<u64> = (0..50).map(|i| n * 50 + i).collect();
            store(index, place, &path);
            assert_eq!(remove(index, place, &path), 50);
            let stats = index.stats();
            assert_eq!((stats.blocks, stats.runs), (2, 1));
        });
        assert!(index.stats().anchors < 4_000);
        remove(&mut index, place, &kept);
        assert_eq!(index.stats().anchors, 0);
    }

    #[test]
    fn places_that_come_and_go_leave_nothing() {
        let mut index = PrefixIndex::new(1_000_000);
        let stays = add(&mut index, 0);
        store(&mut index, stays, &[1, 2, 3]);
        let options = PlaceOptions {
            ttl: Some(Micros(10)),
            ..PlaceOptions::default()
        };
        is_flat(&mut index, 300, |index, n| {
            let place = add_with(index, 1, options);
            let path: Vec<u64> = (0..200).map(|i| n * 200 + i).collect();
            store(index, place, &path[..100]);
            index.predict(Micros(n), place, &chain(&path));
            index.expire(Micros(n));
            assert!(index.remove_place(place));
            assert_eq!((index.stats().places.len(), index.stats().blocks), (1, 3));
        });
        index.expire(Micros(1_000));
        assert_eq!(index.next_expiry(), None);
    }

    #[test]
    fn predictions_that_age_leave_nothing() {
        let mut index = PrefixIndex::new(1_000_000);
        let options = PlaceOptions {
            ttl: Some(Micros(5)),
            ..PlaceOptions::default()
        };
        let place = add_with(&mut index, 0, options);
        is_flat(&mut index, 2_000, |index, n| {
            let path: Vec<u64> = (0..20).map(|i| n * 20 + i).collect();
            index.predict(Micros(n), place, &chain(&path));
            index.expire(Micros(n));
            assert!(index.stats().blocks <= 5 * 20);
        });
        index.expire(Micros(3_000));
        assert_eq!((index.stats().blocks, index.next_expiry()), (0, None));
    }

    #[test]
    fn sessions_that_come_and_go_leave_nothing() {
        let mut index = PrefixIndex::new(1_000_000);
        let options = PlaceOptions {
            capacity_tokens: Some(1_600),
            ..PlaceOptions::default()
        };
        let place = add_with(&mut index, 0, options);
        is_flat(&mut index, 1_000, |index, n| {
            let mut path = vec![7];
            let mut frontier = None;
            for turn in 0..3 {
                path.extend((0..10).map(|i| n * 100 + turn * 10 + i));
                index.predict(Micros(n), place, &chain(&path));
                frontier = index.follow(ProgramId(n), place, &chain(&path), frontier);
            }
            index.leave(ProgramId(n), frontier.expect("a path"));
            assert_eq!(index.working_set(place), 0);
            assert!(index.stats().blocks <= 100);
        });
    }

    #[test]
    fn engines_that_restart_and_name_everything_anew_leave_no_names_behind() {
        let mut index = PrefixIndex::new(1_000_000);
        let (stays, restarts) = (add(&mut index, 0), add(&mut index, 1));
        let path: Vec<u64> = (0..100).collect();
        store(&mut index, stays, &path);
        is_flat(&mut index, 1_000, |index, n| {
            assert_eq!(store_as(n + 1, index, restarts, &path, 0), 100);
            index.clear(restarts);
        });
        assert_eq!(index.stats().anomalies.unnamed, 0);
    }

    #[test]
    fn engines_that_lose_what_they_named_in_their_own_words_leave_no_names_behind() {
        let mut index = PrefixIndex::new(1_000_000);
        let stays = add(&mut index, 0);
        let path: Vec<u64> = (0..50).collect();
        store(&mut index, stays, &path);
        is_flat(&mut index, 600, |index, n| {
            let place = add(index, 1 + n as u32);
            assert_eq!(store_as(n + 1, index, place, &path, 0), 50);
            match n % 2 {
                0 => index.clear(place),
                _ => assert_eq!(index.remove(place, &names(n + 1, &path)), 50),
            }
            assert_eq!(index.tokens(place), 0);
        });
        assert_eq!(index.stats().anomalies.unnamed, 0);
    }

    #[test]
    fn an_engine_that_names_anew_what_it_stores_again_grows_no_names() {
        let mut index = PrefixIndex::new(1_000_000);
        let (stays, renames) = (add(&mut index, 0), add(&mut index, 1));
        let path: Vec<u64> = (0..100).collect();
        store(&mut index, stays, &path);
        store(&mut index, renames, &path[..10]);
        let head = names(0, &path)[9];
        is_flat(&mut index, 1_000, |index, n| {
            let names = &names(n + 1, &path)[10..];
            let block = |(n, &name): (usize, &u64)| StoredBlock {
                name,
                local: local(path[10 + n]),
            };
            let blocks: Vec<StoredBlock> = names.iter().enumerate().map(block).collect();
            let event = StoredBlocks {
                parent: Some(head),
                block_tokens: BLOCK.get(),
                blocks: &blocks,
            };
            assert_eq!(index.store(renames, &event), 90, "round {n}");
            assert_eq!(blocks_at(index, renames, &path), 100);
            assert_eq!(index.remove(renames, names), 90);
            assert_eq!(blocks_at(index, renames, &path), 10);
        });
        assert_eq!(index.stats().anomalies.unnamed, 0);
    }

    #[test]
    fn the_bound_holds_under_prompts_that_never_repeat_and_shared_heads_survive() {
        let mut index = PrefixIndex::new(5_000);
        let places = [add(&mut index, 0), add(&mut index, 1)];
        let head: Vec<u64> = (0..10).collect();
        is_flat(&mut index, 3_000, |index, n| {
            let mut path = head.clone();
            path.extend((0..20).map(|i| 100 + n * 20 + i));
            let place = places[n as usize % 2];
            match n % 3 {
                0 => drop(store(index, place, &path)),
                _ => drop(index.predict(Micros(n), place, &chain(&path))),
            }
            assert!(index.stats().blocks <= 5_000);
            assert_eq!(blocks_at(index, place, &path), 30);
        });
        assert!(index.stats().evicted > 50_000);
        for place in places {
            assert_eq!(blocks_at(&index, place, &head), 10);
            assert!(index.remove_place(place));
        }
        let stats = index.stats();
        assert_eq!((stats.blocks, stats.runs, stats.anchors), (0, 0, 0));
        assert!(stats.bytes < 1_000, "{}", stats.bytes);
    }

    #[test]
    fn what_the_bound_drives_out_takes_its_copies_along() {
        let mut index = PrefixIndex::new(4);
        let place = add(&mut index, 0);
        let path = [1, 2, 3, 4];
        for _ in 0..3 {
            store(&mut index, place, &path);
        }
        store(&mut index, place, &[5, 6]);
        assert_eq!(blocks_at(&index, place, &path), 2);
        assert_eq!(store_as(0, &mut index, place, &path, 2), 2);
        assert_eq!(blocks_at(&index, place, &path), 4);
        let tail = &names(0, &path)[2..];
        assert_eq!(index.remove(place, tail), 2);
        assert_eq!(blocks_at(&index, place, &path), 2);
    }

    #[test]
    fn names_that_nobody_knows_are_counted_and_cost_nothing() {
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        store(&mut index, place, &[1, 2, 3]);
        let bytes = index.stats().bytes;
        for name in 0..1_000 {
            assert_eq!(index.remove(place, &[name]), 0);
        }
        let stats = index.stats();
        assert_eq!((stats.anomalies.not_held, stats.blocks), (1_000, 3));
        assert!(
            stats.bytes <= bytes + 100_000,
            "{} from {bytes}",
            stats.bytes
        );
    }
}

mod false_matches {
    use super::*;

    /// The same 64 tokens under a seed.
    fn under(seed: Seed) -> Chain {
        let ids: Vec<u32> = (0..64).collect();
        let mut chain = Chain::new();
        hash_tokens(&ids, BLOCK, seed, &mut chain);
        chain
    }

    /// Only those that are the same share anything, whichever feed it came by.
    fn are_apart(chains: &[Chain]) {
        for (n, kept) in chains.iter().enumerate() {
            let mut index = PrefixIndex::new(1_000);
            let place = add(&mut index, 0);
            index.predict(Micros(1), place, kept);
            let mut overlap = Overlap::new();
            for (other, asked) in chains.iter().enumerate() {
                index.find(asked, &mut overlap);
                let expected = if n == other { 4 } else { 0 };
                assert_eq!(overlap.blocks_at(place), expected, "{n} and {other}");
            }
        }
    }

    #[test]
    fn adapters_their_revisions_and_tenants_share_nothing() {
        let seeds = [
            Seed::default(),
            Seed::dynamo("a", ""),
            Seed::dynamo("b", ""),
            Seed::dynamo("", "a"),
            Seed::framed(&[b"a", b"v2"]),
            Seed::framed(&[b"av", b"2"]),
            Seed::framed(&[b"av2"]),
            Seed::framed(&[b"tenant-1"]),
            Seed::framed(&[b"tenant-2"]),
            Seed::framed(&[b"tenant-1", b""]),
        ];
        are_apart(&seeds.map(under));
        assert_eq!(under(Seed::dynamo("", "")), under(Seed::default()));
        assert_eq!(under(Seed::framed(&[])), under(Seed::default()));
    }

    #[test]
    fn media_that_look_alike_share_what_is_before_them_and_no_more() {
        let ids: Vec<u32> = (0..64).collect();
        let with = |media: u64| {
            let media = vec![Vec::new(), vec![media]];
            let blocks = TokenBlocks {
                media: &media,
                ..TokenBlocks::plain(BLOCK, Seed::default())
            };
            let mut chain = Chain::new();
            blocks.hash(&ids, &mut chain);
            chain
        };
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        index.predict(Micros(1), place, &with(0xaaaa_0000_0000_1234));
        let mut overlap = Overlap::new();
        for other in [0xbbbb_0000_0000_1234, 0xaaaa_0000_0000_1235, 0x1234] {
            index.find(&with(other), &mut overlap);
            assert_eq!(overlap.blocks_at(place), 1);
        }
        index.find(&with(0xaaaa_0000_0000_1234), &mut overlap);
        assert_eq!(overlap.blocks_at(place), 4);
    }

    #[test]
    fn one_number_in_two_domains_is_two_blocks() {
        let mut index = PrefixIndex::new(1_000);
        let places = [0, 1].map(|n| {
            let options = PlaceOptions {
                domain: n,
                ..PlaceOptions::default()
            };
            add_with(&mut index, n, options)
        });
        for (place, first) in places.into_iter().zip([10, 20]) {
            let blocks = [1, 2, 3].map(|name| StoredBlock {
                name,
                local: local(first + name),
            });
            let event = StoredBlocks {
                parent: None,
                block_tokens: 16,
                blocks: &blocks,
            };
            assert_eq!(index.store(place, &event), 3);
        }
        for (place, first) in places.into_iter().zip([10, 20]) {
            let (own, other) = (first + 1, 31 - first);
            assert_eq!(blocks_at(&index, place, &[own, own + 1, own + 2]), 3);
            assert_eq!(blocks_at(&index, place, &[other, other + 1, other + 2]), 0);
        }
        assert_eq!(index.remove(places[0], &[2]), 1);
        assert_eq!(blocks_at(&index, places[0], &[11, 12, 13]), 1);
        assert_eq!(blocks_at(&index, places[1], &[21, 22, 23]), 3);
    }

    #[test]
    fn two_indexes_know_nothing_of_each_other() {
        let mut one = PrefixIndex::new(1_000);
        let mut other = PrefixIndex::new(1_000);
        let place = add(&mut one, 0);
        assert_eq!(add(&mut other, 0), place);
        store(&mut one, place, &[1, 2]);
        assert_eq!(blocks_at(&other, place, &[1, 2]), 0);
    }
}

mod odd_events {
    use super::*;

    #[test]
    fn one_bad_event_among_ten_thousand_blocks_costs_only_itself() {
        let mut index = PrefixIndex::new(100_000);
        let (place, other) = (add(&mut index, 0), add(&mut index, 1));
        let path: Vec<u64> = (0..10_000).collect();
        for (place, to) in [(place, 10_000), (other, 10)] {
            store(&mut index, place, &path[..to]);
        }
        let names = names(0, &path);
        let block = |n: usize| StoredBlock {
            name: names[n],
            local: local(path[n]),
        };
        let mut bad = |parent: Option<usize>, blocks: &[usize]| {
            let blocks: Vec<StoredBlock> = blocks.iter().map(|&n| block(n)).collect();
            let parent = parent.map(|n| names[n]);
            index.store(
                place,
                &StoredBlocks {
                    parent,
                    block_tokens: 16,
                    blocks: &blocks,
                },
            )
        };
        assert_eq!(bad(Some(9_999), &[9_999]), 0);
        assert_eq!(bad(Some(9_999), &[9_998]), 0);
        assert_eq!(bad(Some(9_999), &[9_990]), 0);
        assert_eq!(bad(Some(9_998), &[9_999, 9_999]), 1);
        let stats = index.stats();
        assert_eq!(stats.blocks, 10_000);
        let anomalies = stats.anomalies;
        assert_eq!(
            (anomalies.self_parent, anomalies.cycle, anomalies.repeated),
            (1, 2, 1)
        );
        assert_eq!(blocks_at(&index, place, &path), 10_000);
        assert_eq!(blocks_at(&index, other, &path), 10);
    }

    #[test]
    fn a_block_that_is_there_twice_under_two_names_goes_with_the_second_of_them() {
        for first in [0, 1] {
            let mut index = PrefixIndex::new(1_000);
            let place = add(&mut index, 0);
            let path = [1, 2, 3];
            for salt in [0, 1] {
                assert_eq!(store_as(salt, &mut index, place, &path, 0), 3);
            }
            assert_eq!(index.remove(place, &names(first, &path)[2..]), 1);
            assert_eq!(blocks_at(&index, place, &path), 3);
            assert_eq!(index.remove(place, &names(1 - first, &path)[2..]), 1);
            assert_eq!(blocks_at(&index, place, &path), 2);
        }
    }

    #[test]
    fn counters_follow_from_what_is_held() {
        let mut index = PrefixIndex::new(1_000);
        let place = add(&mut index, 0);
        for _ in 0..3 {
            store(&mut index, place, &[1, 2, 3]);
        }
        let held = |index: &PrefixIndex| index.stats().places[0].blocks;
        assert_eq!((held(&index), index.tokens(place)), (3, 48));
        index.clear(place);
        assert_eq!((held(&index), index.tokens(place)), (0, 0));
    }

    #[test]
    fn a_block_that_two_events_stored_stays_when_the_first_is_taken_back() {
        let mut index = PrefixIndex::new(1_000);
        let host = index.add_place(WorkerId(0), 0, Tier::Host, PlaceOptions::default());
        let host = host.expect("a new place");
        store(&mut index, host, &[1, 2]);
        store_as(0, &mut index, host, &[1, 2, 3], 1);
        assert_eq!(remove(&mut index, host, &[1, 2]), 2);
        assert_eq!(index.tokens(host), 32);
        assert_eq!(index.reach(host, &chain(&[1, 2, 3]), 1), 3);
        assert_eq!(blocks_at(&index, host, &[1, 2, 3]), 0);
    }
}

mod dimensions {
    use super::*;

    const TIERS: [Tier; 4] = [Tier::Device, Tier::Host, Tier::Disk, Tier::External];

    fn fleet() -> (PrefixIndex, Vec<PlaceId>) {
        let mut index = PrefixIndex::new(1_000);
        let mut places = Vec::new();
        for worker in 0..2 {
            for rank in 0..2 {
                for tier in TIERS {
                    let place =
                        index.add_place(WorkerId(worker), rank, tier, PlaceOptions::default());
                    places.push(place.expect("a new place"));
                }
            }
        }
        for &place in &places {
            store(&mut index, place, &[1, 2, 3]);
        }
        (index, places)
    }

    #[test]
    fn a_removal_and_a_clear_in_one_dimension_leave_the_others() {
        for gone in 0..16 {
            for clears in [false, true] {
                let (mut index, places) = fleet();
                match clears {
                    true => index.clear(places[gone]),
                    false => drop(remove(&mut index, places[gone], &[1, 2, 3])),
                }
                for (n, &place) in places.iter().enumerate() {
                    let expected = if n == gone { 0 } else { 3 };
                    assert_eq!(blocks_at(&index, place, &[1, 2, 3]), expected);
                }
            }
        }
    }

    #[test]
    fn what_leaves_the_device_is_still_on_the_host_and_counts_from_where_the_device_stops() {
        let (mut index, places) = fleet();
        let (device, host) = (places[0], places[1]);
        assert_eq!(index.remove(device, &names(0, &[1, 2, 3])[1..]), 2);
        let prompt = chain(&[1, 2, 3]);
        let mut overlap = Overlap::new();
        index.find(&prompt, &mut overlap);
        assert_eq!((overlap.blocks_at(device), overlap.blocks_at(host)), (1, 3));
        assert_eq!(index.reach(host, &prompt, 1), 3);
        index.remove(host, &names(0, &[1, 2, 3])[..1]);
        index.find(&prompt, &mut overlap);
        assert_eq!(
            (overlap.blocks_at(host), index.reach(host, &prompt, 1)),
            (0, 3)
        );
        index.remove(host, &names(0, &[1, 2, 3])[2..]);
        assert_eq!(index.reach(host, &prompt, 1), 2);
    }
}

mod order {
    use super::*;

    #[test]
    fn an_id_of_before_means_nothing_in_any_call() {
        let mut index = PrefixIndex::new(1_000);
        let old = add(&mut index, 0);
        store(&mut index, old, &[1, 2]);
        let prompt = chain(&[1, 2]);
        let mut answer = Overlap::new();
        index.find(&prompt, &mut answer);
        index.predict(Micros(0), old, &chain(&[1, 2, 3]));
        let frontier = index
            .follow(ProgramId(1), old, &prompt, None)
            .expect("a path");
        index.remove_place(old);
        let new = add(&mut index, 0);
        assert_eq!((answer.blocks_at(old), answer.blocks_at(new)), (2, 0));
        assert!(!index.is_at(&frontier, new));
        assert_eq!(index.working_set(new), 0);
        index.leave(ProgramId(1), frontier);
        store(&mut index, new, &[1, 2]);
        index.clear(old);
        assert_eq!(index.remove(old, &names(0, &[1, 2])), 0);
        assert!(!index.remove_place(old) && !index.set_capacity(old, Some(0)));
        assert_eq!(index.predict(Micros(1), old, &prompt), 0);
        assert!(index.follow(ProgramId(1), old, &prompt, None).is_none());
        assert_eq!((index.tokens(old), index.tokens(new)), (0, 32));
        assert_eq!(
            (
                blocks_at(&index, old, &[1, 2]),
                blocks_at(&index, new, &[1, 2])
            ),
            (0, 2)
        );
    }

    #[test]
    fn an_id_is_never_given_out_again() {
        let mut index = PrefixIndex::new(10);
        let first = add(&mut index, 0);
        let mut last = first;
        for _ in 0..70_000 {
            assert!(index.remove_place(last));
            last = add(&mut index, 0);
            assert_ne!(last, first);
        }
    }

    #[test]
    fn a_place_is_known_from_the_call_that_adds_it_to_the_one_that_removes_it() {
        let mut index = PrefixIndex::new(1_000);
        let unknown = PlaceId(0);
        assert_eq!(store(&mut index, unknown, &[1]), 0);
        let place = add(&mut index, 0);
        assert_eq!(place, unknown);
        assert_eq!(blocks_at(&index, place, &[1]), 0);
        assert_eq!(store(&mut index, place, &[1]), 1);
        assert_eq!(blocks_at(&index, place, &[1]), 1);
        index.remove_place(place);
        assert_eq!(store(&mut index, place, &[1]), 0);
        assert_eq!(index.stats().anomalies.unknown_place, 2);
    }
}
