//! A prompt that is hashed from a memo has the chain that it has from nothing, whatever the memo is
//! of and whatever is said to be known.
use proptest::prelude::*;

use super::*;

/// What a caller of [`Earlier`] may answer.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The blocks of the earlier prompt.
    True,
    /// It cannot.
    Refused,
    /// It cannot, and has left something in the chain.
    Littered,
    /// One block too few.
    Short,
    /// The right number of blocks, the last of them of another prompt.
    Foreign,
}

const ANSWERS: [Answer; 5] = [
    Answer::True,
    Answer::Refused,
    Answer::Littered,
    Answer::Short,
    Answer::Foreign,
];

fn answers() -> impl Strategy<Value = Answer> {
    prop::sample::select(&ANSWERS[..])
}

impl Answer {
    /// Answers for an earlier prompt. The ends are never right: nobody may rely on them.
    fn give(self, before: &Chain, blocks: usize, chain: &mut Chain) -> bool {
        chain.clear();
        let hashes = &before.hashes()[..blocks];
        match (self, hashes.split_last()) {
            (Self::Refused, _) => return false,
            (Self::Littered, _) => {
                chain.append(&[1, 2, 3], |n| n);
                return false;
            }
            (Self::True, _) | (_, None) => chain.append(hashes, |n| n * 977),
            (Self::Short, Some((_, rest))) => chain.append(rest, |n| n),
            (Self::Foreign, Some((last, rest))) => {
                chain.append(rest, |n| n);
                chain.append(&[last ^ 1], |n| n);
            }
        }
        true
    }
}

/// One way to hash a prompt, from nothing and from a memo.
trait Hashed {
    fn whole(&self, chain: &mut Chain);
    fn going_on(&self, earlier: Option<Earlier<'_>>, chain: &mut Chain) -> Memo;

    fn chain(&self) -> Chain {
        let mut chain = Chain::new();
        self.whole(&mut chain);
        chain
    }
}

/// Hashes `before`, then `after` with its memo. The chain of `after`, and how many blocks of it were
/// taken as known.
fn continued(before: &impl Hashed, after: &impl Hashed, answer: Answer) -> (Chain, Memo, bool) {
    let mut earlier = Chain::new();
    let memo = before.going_on(None, &mut earlier);
    assert_eq!(earlier, before.chain());
    // What a chain held before must not matter.
    let mut chain = Chain::new();
    chain.append(&[9; 5], |n| n);
    let mut asked = false;
    let mut known = |blocks: usize, chain: &mut Chain| {
        asked = true;
        assert_eq!(blocks, memo.blocks());
        answer.give(&earlier, blocks, chain)
    };
    let known = &mut known;
    let memo_after = after.going_on(Some(Earlier { memo: &memo, known }), &mut chain);
    (chain, memo_after, asked)
}

fn check(before: &impl Hashed, after: &impl Hashed, answer: Answer) -> Result<(), TestCaseError> {
    let (chain, memo, _) = continued(before, after, answer);
    prop_assert_eq!(&chain, &after.chain());
    let fresh = after.going_on(None, &mut Chain::new());
    prop_assert_eq!(memo, fresh);
    Ok(())
}

#[derive(Clone, Debug)]
struct Tokens {
    ids: Vec<u32>,
    block: u32,
    window: Window,
    seed: u64,
    media: Vec<Vec<u64>>,
}

impl Tokens {
    fn plain(ids: impl Into<Vec<u32>>, block: u32) -> Self {
        Self {
            ids: ids.into(),
            block,
            window: Window::Block,
            seed: PLAIN,
            media: Vec::new(),
        }
    }

    fn blocks(&self) -> TokenBlocks<'_> {
        TokenBlocks {
            block_tokens: size(self.block),
            seed: Seed::new(self.seed),
            first: Seed::new(self.seed),
            window: self.window,
            media: &self.media,
        }
    }
}

impl Hashed for Tokens {
    fn whole(&self, chain: &mut Chain) {
        self.blocks().hash(&self.ids, chain);
    }

    fn going_on(&self, earlier: Option<Earlier<'_>>, chain: &mut Chain) -> Memo {
        self.blocks().hash_from(&self.ids, earlier, chain)
    }
}

#[derive(Clone, Debug)]
struct Text {
    bytes: Vec<u8>,
    segments: Vec<u32>,
    rate: u32,
    seed: u64,
}

impl Hashed for Text {
    fn whole(&self, chain: &mut Chain) {
        let (rate, seed) = (TokenRate::new(self.rate), Seed::new(self.seed));
        hash_text(&self.bytes, &self.segments, rate, seed, chain);
    }

    fn going_on(&self, earlier: Option<Earlier<'_>>, chain: &mut Chain) -> Memo {
        let (rate, seed) = (TokenRate::new(self.rate), Seed::new(self.seed));
        hash_text_from(&self.bytes, &self.segments, rate, seed, earlier, chain)
    }
}

#[derive(Clone, Debug)]
struct Content {
    hashes: Vec<u64>,
    block: u32,
    prompt: Option<u32>,
    seed: u64,
}

impl Hashed for Content {
    fn whole(&self, chain: &mut Chain) {
        let seed = Seed::new(self.seed);
        hash_content(&self.hashes, size(self.block), self.prompt, seed, chain);
    }

    fn going_on(&self, earlier: Option<Earlier<'_>>, chain: &mut Chain) -> Memo {
        let (block, seed) = (size(self.block), Seed::new(self.seed));
        hash_content_from(&self.hashes, block, self.prompt, seed, earlier, chain)
    }
}

fn windows() -> impl Strategy<Value = Window> {
    prop::sample::select(&[Window::Block, Window::Eagle][..])
}

fn few_media() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(0_u64..3, 0..3), 0..4)
}

prop_compose! {
    /// Few values, so that prompts often agree in a part and settings in all.
    fn some_tokens()(
        ids in prop::collection::vec(0_u32..2, 0..80),
        block in prop::sample::select(&[1_u32, 2, 3, 16][..]),
        window in windows(),
        seed in 1336_u64..1338,
        media in few_media(),
    ) -> Tokens {
        Tokens { ids, block, window, seed, media }
    }
}

prop_compose! {
    fn some_text()(
        segments in prop::collection::vec(prop::sample::select(&[0_u32, 1, 2, 1_024, 1_500, 5_000][..]), 0..5),
        length in 0_usize..6_000,
        odd in 0_usize..6_000,
        rate in prop::sample::select(&[500_u32, 2_500, 9_000][..]),
        seed in 1336_u64..1338,
    ) -> Text {
        let mut bytes = vec![b'a'; length];
        if let Some(byte) = bytes.get_mut(odd) {
            *byte = b'b';
        }
        Text { bytes, segments, rate, seed }
    }
}

prop_compose! {
    fn some_content()(
        hashes in prop::collection::vec(0_u64..2, 0..40),
        block in 1_u32..20,
        prompt in prop::option::of(0_u32..300),
        seed in 1336_u64..1338,
    ) -> Content {
        Content { hashes, block, prompt, seed }
    }
}

proptest! {
    #[test]
    fn any_tokens_after_any_others(
        before in some_tokens(), after in some_tokens(), answer in answers(),
    ) {
        check(&before, &after, answer)?;
    }

    #[test]
    fn tokens_that_grew_or_were_edited(
        before in some_tokens(),
        cut in 0_usize..90,
        more in prop::collection::vec(0_u32..2, 0..60),
        more_media in few_media(),
        answer in answers(),
    ) {
        let mut after = before.clone();
        after.ids.truncate(cut);
        after.ids.extend(more);
        after.media.extend(more_media);
        check(&before, &after, answer)?;
    }

    #[test]
    fn any_text_after_any_other(
        before in some_text(), after in some_text(), answer in answers(),
    ) {
        check(&before, &after, answer)?;
    }

    #[test]
    fn a_text_that_grew_at_another_rate(
        before in some_text(), more in some_text(), answer in answers(),
    ) {
        let mut after = before.clone();
        after.bytes.extend(more.bytes);
        after.segments.extend(more.segments);
        after.rate = more.rate;
        check(&before, &after, answer)?;
    }

    #[test]
    fn any_content_after_any_other(
        before in some_content(), after in some_content(), answer in answers(),
    ) {
        check(&before, &after, answer)?;
    }

    #[test]
    fn content_that_grew(
        before in some_content(), more in some_content(), answer in answers(),
    ) {
        let mut after = before.clone();
        after.hashes.extend(more.hashes);
        (after.prompt, after.block) = (more.prompt, more.block);
        check(&before, &after, answer)?;
    }

    #[test]
    fn a_memo_of_another_kind_is_of_no_use(
        tokens in some_tokens(), text in some_text(), content in some_content(),
    ) {
        check(&tokens, &text, Answer::True)?;
        check(&text, &content, Answer::True)?;
        check(&content, &tokens, Answer::True)?;
    }
}

/// Whether the second prompt took what was known of the first.
fn takes_known(before: &impl Hashed, after: &impl Hashed) -> bool {
    let (chain, _, asked) = continued(before, after, Answer::True);
    assert_eq!(chain, after.chain());
    asked
}

#[test]
fn tokens_go_on_only_from_their_own_beginning() {
    let ids: Vec<u32> = (0..1_000).collect();
    let before = Tokens::plain(&ids[..650], 64);
    assert!(takes_known(&before, &before));
    assert!(takes_known(&before, &Tokens::plain(&ids[..640], 64)));
    assert!(takes_known(&before, &Tokens::plain(ids.clone(), 64)));
    // The tail was no block: it may change.
    let mut edited = ids.clone();
    edited[645] += 1;
    assert!(takes_known(&before, &Tokens::plain(edited.clone(), 64)));
    edited[0] += 1;
    assert!(!takes_known(&before, &Tokens::plain(edited, 64)));
    assert!(!takes_known(&before, &Tokens::plain(&ids[..639], 64)));
    assert!(!takes_known(&before, &Tokens::plain(&ids[1..], 64)));
    assert!(!takes_known(&before, &Tokens::plain(ids.clone(), 32)));
    let other_seed = Tokens {
        seed: 7,
        ..before.clone()
    };
    assert!(!takes_known(&before, &other_seed));
    let eagle = Tokens {
        window: Window::Eagle,
        ..before.clone()
    };
    assert!(!takes_known(&before, &eagle));
    assert!(takes_known(&eagle, &eagle));
    let image = Tokens {
        media: vec![Vec::new(), vec![1, 2]],
        ..before.clone()
    };
    assert!(!takes_known(&before, &image));
    let arrived_otherwise = Tokens {
        media: vec![Vec::new(), vec![2, 1]],
        ..before
    };
    assert!(takes_known(&image, &arrived_otherwise));
}

#[test]
fn a_text_goes_on_only_segment_for_segment() {
    let text = |bytes: usize, segments: &[u32], rate| Text {
        bytes: (0..bytes).map(|i| (i % 251) as u8).collect(),
        segments: segments.to_vec(),
        rate,
        seed: PLAIN,
    };
    let before = text(3_000, &[1_000, 2_000], 2_500);
    assert!(takes_known(&before, &before));
    assert!(takes_known(
        &before,
        &text(4_000, &[1_000, 2_000, 1_000], 3_000)
    ));
    assert!(takes_known(&before, &text(4_000, &[1_000, 2_000], 2_500)));
    assert!(!takes_known(&before, &text(4_000, &[1_000, 3_000], 2_500)));
    assert!(!takes_known(
        &before,
        &text(4_000, &[2_000, 1_000, 1_000], 2_500)
    ));
    assert!(!takes_known(&before, &text(2_999, &[1_000, 2_000], 2_500)));
    // Segments that its memo does not cover are hashed again.
    let cut = text(2_500, &[1_000, 2_000], 2_500);
    assert!(takes_known(&cut, &before));
}

#[test]
fn content_goes_on_at_any_block_size() {
    let content = |hashes: std::ops::Range<u64>, block, prompt| Content {
        hashes: hashes.collect(),
        block,
        prompt,
        seed: PLAIN,
    };
    let before = content(0..10, 16, Some(155));
    assert!(takes_known(&before, &content(0..12, 16, None)));
    assert!(takes_known(&before, &content(0..12, 512, Some(6_000))));
    assert!(!takes_known(&before, &content(0..12, 16, Some(100))));
    assert!(!takes_known(&before, &content(1..12, 16, None)));
}

#[test]
fn a_memo_stays_small() {
    assert!(size_of::<Memo>() <= 48);
}
