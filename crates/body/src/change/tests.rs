use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MODEL: Change<'static> = Change {
    name: b"model",
    inner: None,
    value: b"\"m\"",
};
const USAGE: Change<'static> = Change {
    name: b"stream_options",
    inner: Some(b"include_usage"),
    value: b"true",
};
const TOKENS: Change<'static> = Change {
    name: b"return_token_ids",
    inner: None,
    value: b"true",
};
const ALL: [Change<'static>; 3] = [MODEL, USAGE, TOKENS];

fn changed(body: &str, changes: &[Change<'_>]) -> Option<String> {
    let edits = edits(body.as_bytes(), changes)?;
    let bytes = pieces(body.as_bytes(), &edits).collect::<Vec<_>>().concat();
    Some(String::from_utf8(bytes).expect("cut at characters"))
}

#[test]
fn the_value_alone_is_another() {
    let cases = [
        (r#"{"model":"a"}"#, r#"{"model":"m"}"#),
        (
            "\n{ \"model\" : null , \"n\":1.0 }\n",
            "\n{ \"model\" : \"m\" , \"n\":1.0 }\n",
        ),
        (
            r#"{"x":{"model":"a"},"model":{"model":[1,"}"]}}"#,
            r#"{"x":{"model":"a"},"model":"m"}"#,
        ),
        (
            r#"{"\u006d\u006Fdel":"a","2":12345678901234567890,"1":0.10}"#,
            r#"{"\u006d\u006Fdel":"m","2":12345678901234567890,"1":0.10}"#,
        ),
        (
            r#"{"mode\u006c2":1,"mod\\u0065l":2,"\u016dodel":3,"mode":4,"\u006":5}"#,
            r#"{"mode\u006c2":1,"mod\\u0065l":2,"\u016dodel":3,"mode":4,"\u006":5,"model":"m"}"#,
        ),
        ("{}", r#"{"model":"m"}"#),
        ("{ \n }", "{\"model\":\"m\" \n }"),
        ("{\n  \"a\": 1\n}", "{\n  \"a\": 1,\"model\":\"m\"\n}"),
    ];
    for (body, want) in cases {
        assert_eq!(changed(body, &[MODEL]).as_deref(), Some(want), "{body}");
    }
}

#[test]
fn a_member_inside_of_one_is_another_and_its_neighbours_stay() {
    let cases = [
        (r#"{"stream_options":{}}"#, r#"{"include_usage":true}"#),
        (r#"{"stream_options":null}"#, r#"{"include_usage":true}"#),
        (
            r#"{"stream_options":["include_usage"]}"#,
            r#"{"include_usage":true}"#,
        ),
        (
            r#"{"stream_options":{ "a":1.0 }}"#,
            r#"{ "a":1.0,"include_usage":true }"#,
        ),
        (
            r#"{"stream_options":{"include_\u0075sage":false, "a":{"include_usage":0}}}"#,
            r#"{"include_\u0075sage":true, "a":{"include_usage":0}}"#,
        ),
    ];
    for (body, want) in cases {
        let want = format!(r#"{{"stream_options":{want}}}"#);
        assert_eq!(changed(body, &[USAGE]), Some(want), "{body}");
    }
    let all = r#"{"model":"m","stream_options":{"include_usage":true},"return_token_ids":true}"#;
    assert_eq!(changed("{}", &ALL).as_deref(), Some(all));
    let turned = r#"{"return_token_ids":0,"stream_options":{"include_usage":0},"model":0}"#;
    let want = r#"{"return_token_ids":true,"stream_options":{"include_usage":true},"model":"m"}"#;
    assert_eq!(changed(turned, &ALL).as_deref(), Some(want));
    assert_eq!(
        changed(" {\"a\" :1} ", &[]).as_deref(),
        Some(" {\"a\" :1} ")
    );
}

#[test]
fn what_may_be_read_in_two_ways_is_not_changed() {
    let bodies = [
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","\u006dodel":"b"}"#,
        r#"{"stream_options":{"include_usage":false,"include_usage":false}}"#,
        r#"{"stream_options":{},"stream_options":{}}"#,
        r#"{"model":"a"}{}"#,
        r#"{"model":"a""#,
        r#"{"model""#,
        r#"["model"]"#,
        "",
    ];
    for body in bodies {
        assert_eq!(changed(body, &ALL), None, "{body}");
    }
    // What nobody changes may come twice.
    let twice = r#"{"a":1,"a":2,"x":{"model":1,"model":2}}"#;
    assert!(changed(twice, &ALL).is_some());
}

fn name() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("model", "model"),
        (r"m\u006fdel", "model"),
        ("stream_options", "stream_options"),
        (r"stream\u005Foptions", "stream_options"),
        ("return_token_ids", "return_token_ids"),
        ("include_usage", "include_usage"),
        ("a", "a"),
        (r#"\"model\""#, "\"model\""),
        (r"\\", "\\"),
        ("1", "1"),
    ])
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n\t", "\r\n  "])
}

/// A value as it is written.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "1.0",
        "12345678901234567890123",
        "1e2",
        r#""model""#,
        r#""}\\\",{\u00e9é""#,
        "[]",
        "{}",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|all| format!("[ {} ]", all.join(" ,"))),
            members(inner).prop_map(|members| written(&members, "")),
        ]
    })
}

/// Of an object: what its name is written as and read as, its value, and a space.
type Member = ((&'static str, &'static str), String, &'static str);

fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<Member>> {
    prop::collection::vec((name(), value, space()), 0..5)
}

fn written(members: &[Member], end: &str) -> String {
    let each = members
        .iter()
        .map(|((name, _), value, space)| format!("{space}\"{name}\"{space}:{space}{value}"));
    format!("{{{}{end}}}", each.collect::<Vec<_>>().join(" ,"))
}

/// What parsing it, changing it and writing it anew makes of an object.
fn set(parsed: &mut Value, change: &Change<'_>) {
    let name = |bytes| std::str::from_utf8(bytes).expect("ASCII").to_owned();
    let value = serde_json::from_slice(change.value).expect("JSON");
    let place = &mut parsed[name(change.name)];
    match change.inner {
        None => *place = value,
        Some(inner) => {
            if !place.is_object() {
                *place = json!({});
            }
            place[name(inner)] = value;
        }
    }
}

proptest! {
    #[test]
    fn it_reads_as_one_that_is_written_anew_and_the_rest_is_as_it_came(
        members in members(value()),
        lead in space(),
        end in space(),
        which in prop::sample::subsequence(ALL.to_vec(), 0..=3),
    ) {
        let body = format!("{lead}{}{end}", written(&members, end));
        let comes_twice = |change: &Change<'_>| {
            let is_it = |member: &&Member| member.0.1.as_bytes() == change.name;
            members.iter().filter(is_it).count() > 1
        };
        let found = changed(&body, &which);
        if which.iter().any(comes_twice) {
            prop_assert_eq!(found, None);
            return Ok(());
        }
        let Some(found) = found else {
            let inside = |change: &Change<'_>| change.inner.is_some();
            prop_assert!(which.iter().any(inside), "only the inner one may come twice");
            return Ok(());
        };
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let mut want = parse(&body);
        which.iter().for_each(|change| set(&mut want, change));
        prop_assert_eq!(parse(&found), want);
        let edits = edits(body.as_bytes(), &which).expect("as before");
        let (mut old, mut new) = (body.as_str(), found.as_str());
        // From back to front what is not edited is the same.
        for edit in edits.iter().rev() {
            let kept = &old[edit.range.end..];
            prop_assert!(new.ends_with(kept));
            new = &new[..new.len() - kept.len() - edit.text.len()];
            old = &old[..edit.range.start];
        }
        prop_assert_eq!(new, old);
        for member in &members {
            let is_meant = |change: &Change<'_>| change.name == member.0.1.as_bytes();
            prop_assert!(which.iter().any(is_meant) || found.contains(&member.1));
        }
    }
}
