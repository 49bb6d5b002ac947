//! TensorRT-LLM's JSON, a Mooncake master's messages, and the keys of its objects.
use std::num::NonZeroU32;

use proptest::prelude::*;
use rmpv::Value;
use serde_json::json;
use warmpath_core::block::{Seed, TokenBlocks};
use warmpath_core::event::CacheEvent;
use warmpath_core::prefix::{StoredBlock, StoredBlocks, Tier};
use warmpath_wire::{
    Change, Cut, ErrorKind, Events, Half, ObjectDecoder, ObjectEvent, ObjectKey, Oddity, Scheme,
    TrtBatch, TrtLlmDecoder,
};

const FOUR: NonZeroU32 = NonZeroU32::new(4).unwrap();

fn decoder() -> TrtLlmDecoder {
    TrtLlmDecoder::new(FOUR)
}

fn block(hash: i64, tokens: &[u32], level: u32) -> serde_json::Value {
    let tokens = tokens.iter();
    let tokens: Vec<_> = tokens
        .map(|id| json!({"type": "unique_token", "token_id": id, "token_extra_id": 0}))
        .collect();
    json!({"type": "stored_block", "block_hash": hash, "tokens": tokens, "cache_level": level,
        "priority": 35})
}

fn event(id: u64, data: &serde_json::Value) -> serde_json::Value {
    json!({"event_id": id, "data": data, "window_size": 4096})
}

fn stored_block(name: u64, tokens: &[u32]) -> StoredBlock {
    let local = TokenBlocks::plain(FOUR, Seed::default()).local_hashes(tokens)[0];
    StoredBlock { name, local }
}

#[test]
fn a_tensorrt_stream_is_read_with_its_levels() {
    let text = json!([
        event(
            0,
            &json!({"type": "created", "num_blocks_per_cache_level": [100, 50]})
        ),
        event(
            1,
            &json!({"type": "stored", "parent_hash": null, "blocks": [
            block(11, &[1, 2, 3, 4], 0), block(-12, &[5, 6, 7, 8], 0),
            block(13, &[9, 9, 9, 9], 1), block(14, &[1, 2], 0)]})
        ),
        event(
            2,
            &json!({"type": "updated", "block_hash": 11, "priority": null,
            "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}})
        ),
        event(3, &json!({"type": "removed", "block_hashes": [13]})),
        event(
            4,
            &json!({"type": "updated", "block_hash": 11, "cache_level": null})
        ),
    ]);
    let (mut decoder, mut events) = (decoder(), Events::new());
    let batch = decoder
        .decode(text.to_string().as_bytes(), &mut events)
        .expect("a list");
    let expected = TrtBatch {
        first: Some(0),
        last: Some(4),
        is_lossy: false,
        is_unclear: false,
    };
    assert_eq!(batch, expected);
    let second = (-12_i64).cast_unsigned();
    let on_device = [
        stored_block(11, &[1, 2, 3, 4]),
        stored_block(second, &[5, 6, 7, 8]),
    ];
    let on_host = [stored_block(13, &[9, 9, 9, 9])];
    let stored = |tier, parent, blocks| CacheEvent::Stored {
        tier,
        blocks: StoredBlocks {
            parent,
            block_tokens: 4,
            blocks,
        },
    };
    let expected = [
        stored(Tier::Device, None, &on_device),
        stored(Tier::Host, Some(second), &on_host),
        CacheEvent::Copied {
            tier: Tier::Host,
            names: &[11],
        },
        CacheEvent::Removed {
            tier: Tier::Device,
            names: &[11],
        },
        CacheEvent::Removed {
            tier: Tier::Device,
            names: &[13],
        },
        CacheEvent::Removed {
            tier: Tier::Host,
            names: &[13],
        },
    ];
    assert_eq!(events.iter().collect::<Vec<_>>(), expected);
    let met: Vec<_> = decoder.tally().met().collect();
    assert_eq!(met, [(Oddity::Sparse, 1)], "the partial block");
}

#[test]
fn a_tensorrt_stream_tells_what_is_missing_from_it() {
    let read = |events: serde_json::Value| {
        let mut decoder = decoder();
        let batch = decoder.decode(events.to_string().as_bytes(), &mut Events::new());
        let batch = batch.expect("a list");
        let unknown = decoder.tally().of(Oddity::UnknownEvent);
        assert_eq!(batch.is_unclear, unknown > 0);
        (batch.is_lossy, decoder.tally().met().collect::<Vec<_>>())
    };
    let removed = json!({"type": "removed", "block_hashes": [1]});
    assert_eq!(
        read(json!([event(1, &removed), event(2, &removed)])),
        (false, vec![])
    );
    assert_eq!(
        read(json!([event(1, &removed), event(3, &removed)])),
        (true, vec![])
    );
    let odd = json!({"type": "removed", "block_hashes": "all"});
    assert_eq!(
        read(json!([event(1, &odd)])),
        (true, vec![(Oddity::Malformed, 1)])
    );
    assert_eq!(read(json!([7])), (true, vec![(Oddity::Malformed, 1)]));
    let newer = json!({"type": "pinned", "block_hash": 1});
    assert_eq!(
        read(json!([event(1, &newer)])),
        (false, vec![(Oddity::UnknownEvent, 1)])
    );
    let level = |old: u32, new: u32| {
        let levels = json!({"type": "event_diff", "old_value": old, "new_value": new});
        let moved = json!({"type": "updated", "block_hash": 1, "cache_level": levels});
        let (mut decoder, mut events) = (decoder(), Events::new());
        let batch = decoder.decode(
            json!([event(1, &moved)]).to_string().as_bytes(),
            &mut events,
        );
        assert!(!batch.expect("a list").is_unclear);
        let tiers = events.iter().map(|event| match event {
            CacheEvent::Copied { tier, .. } => ("to", tier),
            CacheEvent::Removed { tier, .. } => ("from", tier),
            other => panic!("{other:?}"),
        });
        (
            tiers.collect::<Vec<_>>(),
            decoder.tally().of(Oddity::UnknownMedium),
        )
    };
    assert_eq!(level(0, 7), (vec![("from", Tier::Device)], 1));
    assert_eq!(level(7, 1), (vec![("to", Tier::Host)], 1));
    assert_eq!(level(7, 8), (vec![], 1));
    assert_eq!(level(1, 1), (vec![], 0));
    let narrow = json!([event(1, &removed),
        {"event_id": 2, "data": removed, "window_size": 128}]);
    assert_eq!(read(narrow), (false, vec![(Oddity::OtherGroup, 1)]));
}

#[test]
fn what_is_no_tensorrt_list_is_an_error_by_kind() {
    let kind = |text: &str| {
        let error = decoder().decode(text.as_bytes(), &mut Events::new());
        error.expect_err("no list").kind()
    };
    assert_eq!(kind(""), ErrorKind::Truncated);
    assert_eq!(kind("[{\"event_id\": 1"), ErrorKind::Truncated);
    assert_eq!(kind("nothing"), ErrorKind::Malformed);
    assert_eq!(kind("[] []"), ErrorKind::Malformed);
    assert_eq!(
        kind(&"[".repeat(100_000)),
        ErrorKind::Truncated,
        "nesting costs no stack"
    );
}

fn object(kind: &str, key: &str, medium: &str) -> Value {
    let pairs = [
        ("event_id", Value::from(1)),
        ("timestamp", Value::from(1_789_095_808_500_u64)),
        ("event_type", kind.into()),
        ("type", "BlockStored".into()),
        ("model_name", Value::Nil),
        ("tenant_id", "".into()),
        ("backend_id", "store-1".into()),
        ("medium", medium.into()),
        ("object_key", key.into()),
        ("seq_hashes", Value::Array(vec![])),
        ("token_ids", Value::Nil),
    ];
    Value::Map(
        pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    )
}

fn master(events: Vec<Value>) -> Vec<u8> {
    let parts = vec![
        Value::from(1_789_095_808_500_u64),
        Value::Array(events),
        Value::from(0),
    ];
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &Value::Array(parts)).unwrap();
    bytes
}

#[test]
fn a_master_tells_of_objects() {
    let payload = master(vec![
        object("stored", "a_0_k", "cpu"),
        object("removed", "b_0_k", "disk"),
        object("pinned", "c", "cpu"),
        object("stored", "d", "tape"),
        object("removed", "e_0_k", "tape"),
        object("cleared", "", "cpu"),
        Value::from(3),
    ]);
    let (mut decoder, mut events) = (ObjectDecoder::new(), Vec::new());
    let batch = decoder.decode(&payload, &mut events).expect("a batch");
    assert_eq!((batch.at, batch.is_lossy), (Some(1_789_095_808.5), true));
    let expected = |change, key, tier| ObjectEvent {
        change,
        key,
        tenant: None,
        tier,
    };
    let told = [
        expected(Change::Stored, "a_0_k", Some(Tier::Host)),
        expected(Change::Removed, "b_0_k", Some(Tier::Disk)),
        expected(Change::Removed, "e_0_k", None),
        expected(Change::Cleared, "", Some(Tier::Host)),
    ];
    assert_eq!(events, told, "what is gone is gone from whatever medium");
    let met: Vec<_> = decoder.tally().met().collect();
    let odd = [
        Oddity::UnknownEvent,
        Oddity::Malformed,
        Oddity::UnknownMedium,
    ];
    assert_eq!(met, odd.map(|oddity| (oddity, 1)));
    let (mut quiet, mut few) = (ObjectDecoder::new(), Vec::new());
    let known = master(vec![
        object("removed", "a_0_k", "cpu"),
        object("pinned", "c", "cpu"),
    ]);
    let batch = quiet.decode(&known, &mut few).expect("a batch");
    assert!(
        !batch.is_lossy && batch.is_unclear,
        "who knows what newer events take"
    );
    let gone = master(vec![
        object("pinned", "c", "cpu"),
        object("cleared", "", ""),
    ]);
    let batch = quiet.decode(&gone, &mut few).expect("a batch");
    assert!(!batch.is_unclear);
    for end in 0..payload.len() {
        let mut events = Vec::new();
        assert!(
            decoder.decode(&payload[..end], &mut events).is_err(),
            "cut at {end}"
        );
        assert!(events.is_empty());
    }
}

const DIGEST: &str = "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72";

#[test]
fn the_keys_of_four_writers_are_taken_apart() {
    let key = |scheme, space, cut, half| ObjectKey {
        scheme,
        space,
        page: DIGEST,
        cut,
        half,
    };
    let cut = Cut {
        tensor: 1,
        pipeline: 2,
        prefill_context: 3,
        decode_context: 4,
        group: 5,
    };
    let cases = [
        (
            format!("Qwen3-32B@tp_rank:1@pcp3@dcp4@pp_rank:2@group:5@{DIGEST}"),
            key(Scheme::Vllm, "Qwen3-32B", cut, Half::Both),
        ),
        (
            format!("prod@Qwen3-32B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{DIGEST}"),
            key(Scheme::Vllm, "prod@Qwen3-32B", Cut::default(), Half::Both),
        ),
        (
            format!("Qwen3@pcp3@dcp4@head_or_tp_rank:1@pp_rank:2@group:5@{DIGEST}"),
            key(Scheme::Ascend, "Qwen3", cut, Half::Both),
        ),
        (
            format!("Qwen3@pcp0@dcp0@head_or_tp_rank:7@pp_rank:0@{DIGEST}"),
            key(
                Scheme::Ascend,
                "Qwen3",
                Cut {
                    tensor: 7,
                    ..Cut::default()
                },
                Half::Both,
            ),
        ),
        (
            format!("Qwen/Qwen3-32B@4@1@{DIGEST}@bfloat16"),
            key(
                Scheme::LmCache,
                "Qwen/Qwen3-32B",
                Cut {
                    tensor: 1,
                    ..Cut::default()
                },
                Half::Both,
            ),
        ),
        (
            format!("Qwen/Qwen3-32B@4@1@{DIGEST}@half@tenant%a@kind%b@c"),
            key(
                Scheme::LmCache,
                "Qwen/Qwen3-32B",
                Cut {
                    tensor: 1,
                    ..Cut::default()
                },
                Half::Both,
            ),
        ),
        (
            format!("{DIGEST}_3_k"),
            key(
                Scheme::Sglang,
                "",
                Cut {
                    tensor: 3,
                    ..Cut::default()
                },
                Half::Key,
            ),
        ),
        (
            format!("blue_Qwen-Qwen3_32B_{DIGEST}_1_2_v"),
            key(
                Scheme::Sglang,
                "blue_Qwen-Qwen3_32B",
                Cut {
                    tensor: 1,
                    pipeline: 2,
                    ..Cut::default()
                },
                Half::Value,
            ),
        ),
        (
            format!("{DIGEST}__k"),
            key(Scheme::Sglang, "", Cut::default(), Half::Key),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(ObjectKey::parse(&text), Some(expected), "{text}");
        let part = expected.part();
        let at = (part.tensor, part.pipeline, part.group);
        let cut = expected.cut;
        assert_eq!(at, (cut.tensor, cut.pipeline, cut.group), "{text}");
        let contexts = (part.prefill_context, part.decode_context);
        assert_eq!(
            contexts,
            (cut.prefill_context, cut.decode_context),
            "{text}"
        );
        assert_eq!(part.half, u32::from(expected.half == Half::Value), "{text}");
        let name = expected.page_name().expect("hex");
        let digits = match expected.scheme {
            Scheme::Sglang => "cf97adeedb59e05b",
            _ => "27120e72ab733b72",
        };
        assert_eq!(
            format!("{name:016x}"),
            digits,
            "as the engine's events have it"
        );
    }
    for odd in [
        "",
        "@",
        "a@b",
        "session-42",
        "a@tp_rank:x@pcp0@dcp0@pp_rank:0@group:0@ff",
        "_k",
        &format!("{DIGEST}_0_1_2_k"),
        &format!("{DIGEST}_x_k"),
        &format!("{DIGEST}_0_draft_k"),
    ] {
        assert_eq!(ObjectKey::parse(odd), None, "{odd}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_key_or_none(text in "[a-f0-9@_:%kvtp/]{0,90}") {
        if let Some(key) = ObjectKey::parse(&text) {
            prop_assert!(text.contains(key.page) && text.starts_with(key.space));
        }
    }

    #[test]
    fn any_text_is_a_list_of_events_or_an_error(text in "[\\[\\]{}\":,a-z0-9_]{0,80}") {
        let mut events = Events::new();
        if decoder().decode(text.as_bytes(), &mut events).is_err() {
            prop_assert!(events.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_a_masters_message_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..90)) {
        let mut events = Vec::new();
        if ObjectDecoder::new().decode(&payload, &mut events).is_err() {
            prop_assert!(events.is_empty());
        }
    }
}
