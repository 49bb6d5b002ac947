use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[\\PC\"\\\\\n{}\\[\\],:]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z\"\\\\]{0,5}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-z]{1,5}", value()), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

proptest! {
    #[test]
    fn items_are_where_a_parser_sees_them(
        messages in prop::collection::vec(object(), 0..6),
        before in value(),
        after in value(),
        pretty in any::<bool>(),
    ) {
        let body = json!({ "before": before, "messages": messages, "after": after });
        let bytes = match pretty {
            true => serde_json::to_vec_pretty(&body),
            false => serde_json::to_vec(&body),
        }
        .expect("JSON");
        let found = items(&bytes, b"messages").expect("there is one");
        prop_assert_eq!(found.ends.len(), messages.len());
        for (n, message) in messages.iter().enumerate() {
            let end = found.ends[n];
            let rest = items_after(&bytes, end).expect("goes on");
            prop_assert_eq!(&rest.ends[..], &found.ends[n + 1..]);
            prop_assert_eq!(rest.close, found.close);
            let from = n.checked_sub(1).map_or(0, |n| found.ends[n]);
            let starts = (from..end).filter(|&at| bytes[at] == b'{');
            let is_it = |at| serde_json::from_slice::<Value>(&bytes[at..end]).ok();
            prop_assert!(starts.filter_map(is_it).any(|item| &item == message));
        }
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0..80_usize) {
        let _ = items(&bytes, b"messages");
        let _ = items_after(&bytes, at);
    }

    #[test]
    fn json_that_is_cut_or_garbled_does_no_harm(
        messages in prop::collection::vec(object(), 0..4),
        cut in any::<prop::sample::Index>(),
        garble in any::<(prop::sample::Index, u8)>(),
    ) {
        let mut bytes = serde_json::to_vec(&json!({ "messages": messages })).expect("JSON");
        let at = garble.0.index(bytes.len());
        bytes[at] = garble.1;
        let _ = items(&bytes, b"messages");
        bytes.truncate(cut.index(bytes.len()));
        let _ = items(&bytes, b"messages");
        let _ = items_after(&bytes, bytes.len() / 2);
    }
}

#[test]
fn a_conversation_that_could_be_read_in_two_ways_is_none() {
    let none = [
        r#"{}"#,
        r#"{"messages":"text"}"#,
        r#"{"messages":[1]}"#,
        r#"{"messages":[{},"a"]}"#,
        r#"{"messages":[{}],"messages":[]}"#,
        r#"{"mess\u0061ges":[{}],"messages":[{}]}"#,
        r#"{"other":{"messages":[{}]}}"#,
        r#"{"messages":[{}"#,
        r#"["messages",[{}]]"#,
        "",
    ];
    for body in none {
        assert_eq!(items(body.as_bytes(), b"messages"), None, "{body}");
    }
    let body = br#" { "a" : [ "]\\\"" , { } ] , "messages" : [ {"x":"}\\"} , { } ] , "b":1e5 } "#;
    let found = items(body, b"messages").expect("there is one");
    let before_end = |&end: &usize| body[end - 1];
    assert!(found.ends.iter().map(before_end).eq(*b"}}"));
    assert_eq!(body[found.close], b']');
}
