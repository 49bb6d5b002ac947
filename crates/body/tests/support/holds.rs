//! What must hold of any bytes at all, against a parser that shares nothing with the crate.

use serde_json::{Value, json};
use warmpath_body::{Change, Items, edits, items, items_after, pieces};

const NAME: &[u8] = b"messages";
const CHANGES: [Change<'static>; 2] = [
    Change {
        name: b"model",
        inner: None,
        value: b"\"other\"",
    },
    Change {
        name: b"stream_options",
        inner: Some(b"include_usage"),
        value: b"true",
    },
];

/// Panics where what is said of `body` is not so.
pub(crate) fn holds(body: &[u8]) {
    for at in [0, body.len() / 2, body.len(), body.len() + 1] {
        if let Some(after) = items_after(body, at) {
            is_within(&after, body);
        }
    }
    let found = items(body, NAME);
    if let Some(found) = &found {
        is_within(found, body);
        for (n, &end) in found.ends.iter().enumerate() {
            let rest = items_after(body, end).expect("what was passed over once is again");
            assert_eq!(rest.ends, found.ends[n + 1..]);
            assert_eq!(rest.close, found.close);
        }
    }
    if let Ok(parsed) = serde_json::from_slice::<Value>(body) {
        is_as_parsed(found.as_ref(), &parsed, body);
    }
    changes_hold(body);
}

/// What is changed is what a parser sees changed, and nothing else is.
fn changes_hold(body: &[u8]) {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let Some(edits) = edits(body, &CHANGES) else {
        let is_plain = !body.contains(&b'\\')
            && [
                &b"\"model\""[..],
                b"\"stream_options\"",
                b"\"include_usage\"",
            ]
            .iter()
            .all(|&name| body.windows(name.len()).filter(|&w| w == name).count() < 2);
        let is_object = parsed.is_some_and(|parsed| parsed.is_object());
        assert!(!is_object || !is_plain, "an object was not changed");
        return;
    };
    assert!(edits.len() <= CHANGES.len());
    assert!(edits.is_sorted_by(|one, next| one.range.end <= next.range.start));
    let is_within = |range: &std::ops::Range<usize>| body.get(range.clone()).is_some();
    assert!(edits.iter().all(|edit| is_within(&edit.range)));
    let Some(Value::Object(mut want)) = parsed else {
        return;
    };
    let changed = pieces(body, &edits).collect::<Vec<_>>().concat();
    want.insert("model".into(), json!("other"));
    let mut options = match want.remove("stream_options") {
        Some(Value::Object(options)) => options,
        _ => serde_json::Map::new(),
    };
    options.insert("include_usage".into(), json!(true));
    want.insert("stream_options".into(), options.into());
    let read: Value = serde_json::from_slice(&changed).expect("what is changed is JSON");
    assert_eq!(read, Value::Object(want));
}

fn is_within(items: &Items, body: &[u8]) {
    assert!(items.ends.is_sorted_by(|one, next| one < next));
    // Brackets are counted, whichever they are: what is no JSON may close one with the other.
    let is_closed = |&end: &usize| matches!(body[end - 1], b'}' | b']');
    assert!(items.ends.iter().all(is_closed));
    assert!(items.ends.last().is_none_or(|&end| end <= items.close));
    assert_eq!(body[items.close], b']');
}

fn is_as_parsed(found: Option<&Items>, parsed: &Value, body: &[u8]) {
    let conversation = parsed.get("messages").and_then(Value::as_array);
    let conversation = conversation.filter(|all| all.iter().all(Value::is_object));
    let Some(found) = found else {
        let names = body
            .windows(NAME.len())
            .filter(|&window| window == NAME)
            .count();
        let is_plain = !body.contains(&b'\\') && names == 1;
        assert!(
            conversation.is_none() || !is_plain,
            "a conversation was not found"
        );
        return;
    };
    let conversation = conversation.expect("what was found is a conversation");
    assert_eq!(found.ends.len(), conversation.len());
    for (&end, item) in found.ends.iter().zip(conversation) {
        let starts = (0..end).filter(|&at| body[at] == b'{');
        let mut read = starts.filter_map(|at| serde_json::from_slice(&body[at..end]).ok());
        assert!(read.any(|value: Value| &value == item));
    }
}
