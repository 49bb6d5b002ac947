//! What did the JSON parser stumble over, in words of ours?
//!
//! The parser keeps its reasons private, so they are told by the fixed beginnings of its messages; one
//! that is not known here stays a syntax error. Texts of the trace are never repeated: they may be what
//! somebody wrote.
use std::io;

use crate::error::{ErrorKind, Fault};

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() {
            return Self::from(io::Error::from(error));
        }
        let (line, column) = (error.line() as u64, error.column());
        let is_data = error.is_data();
        let is_eof = error.is_eof();
        let text = error.to_string();
        let reason = text.rfind(" at line ").map_or(&*text, |end| &text[..end]);
        let (kind, detail) = words(reason, is_data, is_eof);
        let detail = match kind {
            ErrorKind::MissingField => detail,
            _ => format!("{detail}, at column {column}"),
        };
        let line = (line > 0).then_some(line);
        Self {
            line,
            ..Self::new(kind, detail)
        }
    }
}

fn words(reason: &str, is_data: bool, is_eof: bool) -> (ErrorKind, String) {
    let said = |kind, text: &str| (kind, text.to_owned());
    if let Some(field) = reason.strip_prefix("missing field ") {
        let field = field.trim_matches('`');
        return (ErrorKind::MissingField, format!("{field} is missing"));
    }
    if reason.starts_with("recursion limit") {
        return said(ErrorKind::TooDeep, "lists and objects are nested too deep");
    }
    if reason.starts_with("number out of range") {
        return said(ErrorKind::InvalidValue, "a number is out of range");
    }
    if let Some(pair) = reason
        .strip_prefix("invalid type: ")
        .or_else(|| reason.strip_prefix("invalid value: "))
    {
        let (found, wanted) = pair.rsplit_once(", expected ").unwrap_or((pair, ""));
        let detail = format!("{} stands where {} belongs", thing(found), thing(wanted));
        return (ErrorKind::InvalidValue, detail);
    }
    if let Some(field) = reason.strip_prefix("duplicate field ") {
        let field = field.trim_matches('`');
        return (ErrorKind::InvalidValue, format!("{field} is there twice"));
    }
    if reason.starts_with("unknown variant") {
        let allowed = reason.rsplit_once(", expected ").map_or("", |(_, all)| all);
        let allowed = allowed.replace('`', "");
        let detail = format!("a value is none of those allowed: {allowed}");
        return (ErrorKind::InvalidValue, detail);
    }
    if is_data {
        return said(ErrorKind::InvalidValue, "a value is not allowed there");
    }
    if is_eof {
        return said(ErrorKind::Truncated, "the record ends before it is whole");
    }
    if reason.contains("unicode") {
        return said(ErrorKind::Encoding, "no UTF-8");
    }
    if reason.starts_with("trailing characters") {
        return said(ErrorKind::Syntax, "something follows the record");
    }
    said(ErrorKind::Syntax, "this is not JSON")
}

/// A value or a type, as the parser calls it.
fn thing(called: &str) -> String {
    let known = match called {
        "map" | "an object" | "a map" => "an object",
        "sequence" | "a sequence" => "a list",
        "null" | "unit" => "null",
        "f64" | "f32" => "a number",
        "a string" | "string" => "a text",
        "a boolean" => "true or false",
        called if called.starts_with("struct ") => "an object",
        called if called.starts_with("string ") || called.starts_with("character ") => "a text",
        called if is_whole(called) => "a whole number from 0",
        called => return value(called).unwrap_or(called).to_owned(),
    };
    known.to_owned()
}

fn is_whole(called: &str) -> bool {
    matches!(called, "u64" | "u32" | "u16" | "u8" | "usize")
}

/// The number or truth value between the quotes.
fn value(called: &str) -> Option<&str> {
    called.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read by the parser")]
    struct Sample {
        count: u64,
        #[serde(default)]
        list: Vec<u8>,
        #[serde(default)]
        kind: Kind,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        One,
        Other,
    }

    #[test]
    fn reasons_are_told_in_our_words() {
        for (text, kind, said) in [
            ("{}", ErrorKind::MissingField, "count is missing"),
            (
                r#"{"count":"secret"}"#,
                ErrorKind::InvalidValue,
                "a text stands where a whole number from 0 belongs, at column 17",
            ),
            (
                r#"{"count":-1}"#,
                ErrorKind::InvalidValue,
                "-1 stands where a whole number from 0 belongs, at column 11",
            ),
            (
                r#"{"count":1,"list":{}}"#,
                ErrorKind::InvalidValue,
                "an object stands where a list belongs, at column 18",
            ),
            (
                r#"{"count":1,"kind":"none"}"#,
                ErrorKind::InvalidValue,
                "a value is none of those allowed: one or other, at column 24",
            ),
            (
                r#"{"count":1,"count":2}"#,
                ErrorKind::InvalidValue,
                "count is there twice, at column 18",
            ),
            (
                r#"{"count":"#,
                ErrorKind::Truncated,
                "the record ends before it is whole, at column 9",
            ),
            ("hello", ErrorKind::Syntax, "this is not JSON, at column 1"),
            (
                r#"{"count":1} x"#,
                ErrorKind::Syntax,
                "something follows the record, at column 13",
            ),
            (
                r#"{"count":1e999}"#,
                ErrorKind::InvalidValue,
                "a number is out of range, at column 14",
            ),
        ] {
            let error = serde_json::from_str::<Sample>(text).expect_err(text);
            let fault = Fault::from(error);
            assert_eq!((fault.kind, &*fault.detail), (kind, said), "{text}");
        }
    }
}
