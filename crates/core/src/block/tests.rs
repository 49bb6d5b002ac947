//! What the hashes promise: prefixes, boundaries, namespaces.
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

mod memos;

fn size(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("above zero")
}

fn of_tokens(ids: &[u32], block: u32) -> Chain {
    let mut chain = Chain::new();
    hash_tokens(ids, size(block), Seed::default(), &mut chain);
    chain
}

fn of_text(text: &[u8], segments: &[u32]) -> Chain {
    let mut chain = Chain::new();
    hash_text(
        text,
        segments,
        TokenRate::default(),
        Seed::default(),
        &mut chain,
    );
    chain
}

#[test]
fn a_tail_counts_as_tokens_and_not_as_a_block() {
    let chain = of_tokens(&[1, 2, 3, 4, 5], 2);
    assert_eq!(
        (chain.len(), chain.ends(), chain.tokens()),
        (2, &[2, 4][..], 5)
    );
    assert_eq!((chain.block_tokens(1), chain.block_tokens(2)), (2, 0));
    assert_eq!((chain.tokens_of(0), chain.tokens_of(9)), (0, 4));
}

#[test]
fn clear_forgets_everything() {
    let mut chain = of_tokens(&[1, 2, 3], 1);
    chain.clear();
    assert_eq!(chain, Chain::new());
    assert!(chain.is_empty());
}

#[test]
fn content_hashes_end_with_the_prompt() {
    let mut chain = Chain::new();
    let hash = |prompt, chain: &mut Chain| {
        hash_content(&[7, 8, 9], size(100), prompt, Seed::default(), chain)
    };
    hash(None, &mut chain);
    assert_eq!((chain.ends(), chain.tokens()), (&[100, 200, 300][..], 300));
    hash(Some(250), &mut chain);
    assert_eq!((chain.ends(), chain.tokens()), (&[100, 200, 250][..], 250));
    hash(Some(200), &mut chain);
    assert_eq!((chain.ends(), chain.tokens()), (&[100, 200][..], 200));
    hash(Some(350), &mut chain);
    assert_eq!((chain.ends(), chain.tokens()), (&[100, 200, 300][..], 350));
    hash(Some(0), &mut chain);
    assert_eq!((chain.len(), chain.tokens()), (0, 0));
}

#[test]
fn content_hashes_carry_the_namespace() {
    let (mut a, mut b) = (Chain::new(), Chain::new());
    hash_content(&[1, 2], size(1), None, Seed::framed(&[b"a"]), &mut a);
    hash_content(&[1, 2], size(1), None, Seed::framed(&[b"b"]), &mut b);
    assert!(a.hashes().iter().zip(b.hashes()).all(|(x, y)| x != y));
}

#[test]
fn framed_parts_cannot_be_mistaken_for_their_concatenation() {
    let lists: [&[&[u8]]; 6] = [
        &[],
        &[b""],
        &[b"", b""],
        &[b"ab", b"c"],
        &[b"a", b"bc"],
        &[b"abc"],
    ];
    let seeds: std::collections::BTreeSet<_> =
        lists.iter().map(|l| Seed::framed(l).get()).collect();
    assert_eq!(seeds.len(), lists.len());
    assert_eq!(Seed::framed(&[]), Seed::default());
}

#[test]
fn a_long_segment_is_cut_from_its_own_start() {
    let text = vec![b'x'; 10 + 2_100];
    let chain = of_text(&text, &[10, 2_100]);
    // 10, then 1024 + 1024 + 52 bytes at a quarter of a token each, rounded from the root.
    assert_eq!(chain.ends(), [3, 259, 515, 528]);
    let alone = of_text(&text[10..], &[2_100]);
    assert_eq!(alone.len(), 3);
    assert_ne!(chain.hashes()[1], alone.hashes()[0]);
}

#[test]
fn lengths_that_do_not_fit_the_text_do_no_harm() {
    let text = b"abcdefgh";
    assert_eq!(of_text(text, &[3, 0, 5]), of_text(text, &[3, 5]));
    assert_eq!(
        of_text(text, &[3, 4_000_000_000, 7]),
        of_text(text, &[3, 5])
    );
    assert_eq!(of_text(text, &[3]), of_text(text, &[3, 5]));
    assert_eq!(of_text(b"", &[3]), Chain::new());
}

#[test]
fn every_block_of_text_has_a_token() {
    let chain = of_text(&[b'a'; 5], &[1, 1, 1, 1, 1]);
    assert_eq!(chain.ends(), [1, 2, 3, 4, 5]);
    assert_eq!(chain.tokens(), 5);
}

#[test]
fn the_rate_goes_where_reports_say_and_stays_sane() {
    let mut rate = TokenRate::default();
    assert_eq!(rate.tokens(4_000), 1_000);
    for _ in 0..100 {
        rate.observe(40_000, 12_000);
    }
    assert!((2_990..=3_000).contains(&rate.get()), "{rate:?}");
    let settled = rate;
    rate.observe(100, 99);
    rate.observe(0, 5);
    rate.observe(1_000, 0);
    assert_eq!(rate, settled);
    for _ in 0..200 {
        rate.observe(256, u32::MAX);
    }
    assert!((9_990..=10_000).contains(&rate.get()), "{rate:?}");
    for _ in 0..200 {
        rate.observe(u64::MAX, 1);
    }
    assert!((500..=510).contains(&rate.get()), "{rate:?}");
    assert_eq!(
        (TokenRate::new(0).get(), TokenRate::new(u32::MAX).get()),
        (500, 10_000)
    );
    assert_eq!(rate.tokens(u64::MAX), u32::MAX);
}

#[test]
fn spans_that_make_no_sense_are_nothing() {
    let odd = |start, end| MediaObject {
        hash: 1,
        spans: std::iter::once(start..end).collect(),
    };
    for object in [
        odd(5, 5),
        odd(9, 3),
        odd(200, 300),
        odd(u32::MAX, 0),
        odd(100, u32::MAX),
    ] {
        let blocks = media_blocks(&[object], size(16), 100);
        assert!(blocks.iter().all(Vec::is_empty));
    }
    assert_eq!(
        media_blocks(&[odd(0, u32::MAX)], size(u32::MAX), u32::MAX).len(),
        1
    );
}

proptest! {
    #[test]
    fn chains_agree_exactly_as_far_as_tokens_do(
        a in prop::collection::vec(0_u32..3, 0..60),
        b in prop::collection::vec(0_u32..3, 0..60),
        block in 1_u32..8,
    ) {
        let (x, y) = (of_tokens(&a, block), of_tokens(&b, block));
        let common = a.iter().zip(&b).take_while(|(m, n)| m == n).count() / block as usize;
        let agree = x.hashes().iter().zip(y.hashes()).take_while(|(m, n)| m == n).count();
        prop_assert_eq!(agree, common);
        let late = x.hashes().iter().zip(y.hashes()).skip(common);
        prop_assert!(late.into_iter().all(|(m, n)| m != n));
    }

    #[test]
    fn a_text_that_grew_keeps_its_blocks(
        segments in prop::collection::vec(0_usize..3_000, 1..8),
        grown in prop::collection::vec(0_usize..3_000, 0..4),
    ) {
        let all: Vec<u32> = segments.iter().chain(&grown).map(|&s| s as u32).collect();
        let bytes: usize = all.iter().map(|&s| s as usize).sum();
        let text: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let before: usize = segments.iter().sum();
        let old = of_text(&text[..before], &all[..segments.len()]);
        let new = of_text(&text, &all);
        prop_assert_eq!(&new.hashes()[..old.len()], old.hashes());
        prop_assert_eq!(&new.ends()[..old.len()], old.ends());
        let cuts: usize = all.iter().map(|&s| (s as usize).div_ceil(1_024)).sum();
        prop_assert_eq!(new.len(), cuts);
        prop_assert!(new.ends().is_sorted_by(|a, b| a < b));
    }
}

proptest! {
    /// One end a block, in bytes; with a token a byte the chain says the same.
    #[test]
    fn text_ends_are_those_of_the_blocks(segments in prop::collection::vec(0_u32..3_000, 0..12)) {
        let text = vec![b'x'; segments.iter().sum::<u32>() as usize];
        let mut chain = Chain::new();
        hash_text(&text, &segments, TokenRate::new(10_000), Seed::default(), &mut chain);
        let ends: Vec<u64> = text_ends(&segments).collect();
        let of_chain: Vec<u64> = chain.ends().iter().map(|&end| u64::from(end)).collect();
        prop_assert_eq!(ends, of_chain);
    }
}
