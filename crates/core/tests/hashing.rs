//! Block hashes against what the published hashing crates say.
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::Value;
use warmpath_core::block::{
    Chain, MediaObject, Seed, TokenBlocks, Window, media_blocks, media_id, media_pad_token,
};

mod support;

#[derive(Deserialize)]
struct SeqRow {
    bs: NonZeroU32,
    n: usize,
    tokens: Option<Vec<u32>>,
    r#gen: Option<Generator>,
    lora: Option<String>,
    salt: Option<String>,
    #[serde(default)]
    eagle: bool,
    mm: Option<Vec<Option<Vec<String>>>>,
    local: Vec<String>,
    seq: Vec<String>,
}

#[derive(Deserialize)]
struct Generator {
    seed: String,
    vocab: u64,
}

#[derive(Deserialize)]
struct SeedRow {
    salt: Option<String>,
    lora: Option<String>,
    seed: String,
}

#[derive(Deserialize)]
struct MediaIdRow {
    id: String,
    hash: Option<String>,
    pad_value: Option<u32>,
}

#[derive(Deserialize)]
struct MediaBlocksRow {
    bs: NonZeroU32,
    n: u32,
    objects: Vec<ObjectRow>,
    blocks: Vec<Option<Vec<BlockMediaRow>>>,
}

/// An object's hash and its spans within the block.
type BlockMediaRow = (String, Vec<(u32, u32)>);

#[derive(Deserialize)]
struct ObjectRow {
    hash: String,
    spans: Vec<(u32, u32)>,
}

fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).expect("hex")
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn tokens(row: &SeqRow) -> Vec<u32> {
    match (&row.tokens, &row.r#gen) {
        (Some(tokens), _) => tokens.clone(),
        (None, Some(from)) => {
            let mut state = hex(&from.seed);
            let draw = |_| (split_mix(&mut state) % from.vocab) as u32;
            (0..row.n).map(draw).collect()
        }
        (None, None) => panic!("a row without tokens"),
    }
}

fn check_sequence(row: &SeqRow) {
    let ids = tokens(row);
    assert_eq!(ids.len(), row.n);
    let media = row.mm.iter().flatten();
    let media: Vec<Vec<u64>> = media
        .map(|block| block.iter().flatten().map(|h| hex(h)).collect())
        .collect();
    let seed = Seed::dynamo(
        row.lora.as_deref().unwrap_or(""),
        row.salt.as_deref().unwrap_or(""),
    );
    let blocks = TokenBlocks {
        block_tokens: row.bs,
        seed,
        first: seed,
        window: if row.eagle {
            Window::Eagle
        } else {
            Window::Block
        },
        media: &media,
    };
    let expected = |digits: &[String]| digits.iter().map(|h| hex(h)).collect::<Vec<_>>();
    assert_eq!(blocks.local_hashes(&ids), expected(&row.local));
    let mut chain = Chain::new();
    blocks.hash(&ids, &mut chain);
    assert_eq!(chain.hashes(), expected(&row.seq));
    assert_eq!(chain.tokens() as usize, row.n);
    let ends = (1..=row.seq.len() as u32).map(|i| i * row.bs.get());
    assert!(chain.ends().iter().copied().eq(ends));
}

fn check_media_blocks(row: &MediaBlocksRow) {
    let object = |o: &ObjectRow| MediaObject {
        hash: hex(&o.hash),
        spans: o.spans.iter().map(|&(from, to)| from..to).collect(),
    };
    let objects: Vec<_> = row.objects.iter().map(object).collect();
    let found: Vec<Vec<_>> = media_blocks(&objects, row.bs, row.n)
        .into_iter()
        .map(|block| block.into_iter().map(|m| (m.hash, m.spans)).collect())
        .collect();
    let expected: Vec<Vec<_>> = row
        .blocks
        .iter()
        .map(|block| {
            let media = block.iter().flatten();
            media
                .map(|(h, spans)| (hex(h), spans.iter().map(|&(a, b)| a..b).collect()))
                .collect()
        })
        .collect();
    assert_eq!(found, expected);
}

fn row<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a row of its kind")
}

#[test]
fn every_golden_row_is_reproduced() {
    let mut kinds = [0; 4];
    for value in support::golden::<Value>("hashing") {
        let kind = value["k"].as_str().map(str::to_owned);
        match kind.as_deref() {
            Some("seed") => {
                let r: SeedRow = row(value);
                let (lora, salt) = (r.lora.unwrap_or_default(), r.salt.unwrap_or_default());
                assert_eq!(Seed::dynamo(&lora, &salt).get(), hex(&r.seed));
                kinds[0] += 1;
            }
            Some("seq") => {
                check_sequence(&row(value));
                kinds[1] += 1;
            }
            Some("media_id") => {
                let r: MediaIdRow = row(value);
                let hash = media_id(&r.id);
                assert_eq!(hash, r.hash.as_deref().map(hex));
                assert_eq!(hash.map(media_pad_token), r.pad_value);
                kinds[2] += 1;
            }
            Some("media_blocks") => {
                check_media_blocks(&row(value));
                kinds[3] += 1;
            }
            other => panic!("unknown kind {other:?}"),
        }
    }
    assert_eq!(kinds, [22, 368, 5, 17]);
}
