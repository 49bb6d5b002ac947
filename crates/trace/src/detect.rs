//! Which format is this file?
//!
//! The names of the first record's fields tell, read up to the first one that only one format has.
//! A value is looked at for one thing only: `type`, which transcripts of coding agents begin with.
//! Costs at most the first record; keeps none of it.
use std::cell::Cell;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::error::{ErrorKind, Fault};
use crate::leaf::Text;

/// Bytes of a file that are looked at.
const MAX_LOOK: u64 = 4 * 1024 * 1024;

/// A format of traces that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `dynamo.request.trace.v1`, which is also what Warmpath records.
    RequestTrace,
    /// Mooncake rows, also with the fields of agentic workloads, also version 2 with its header.
    Mooncake,
    /// Weka's recorded coding sessions: one JSON value a file.
    Weka,
    /// OpenTelemetry spans of one run: one JSON value a file.
    Otel,
    /// The transcripts that Claude Code keeps.
    ClaudeCode,
    /// The rollout files that Codex keeps.
    Codex,
}

impl Format {
    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestTrace => "request-trace",
            Self::Mooncake => "mooncake",
            Self::Weka => "weka",
            Self::Otel => "otel",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The format of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::RequestTrace,
            Self::Mooncake,
            Self::Weka,
            Self::Otel,
            Self::ClaudeCode,
            Self::Codex,
        ];
        all.into_iter().find(|format| format.name() == name)
    }
}

/// The format of a file that begins with these bytes.
pub(crate) fn detect(bytes: impl Read) -> Result<Format, Fault> {
    let (answer, begun) = (Cell::new(None), Cell::new(false));
    let mut looked = bytes.take(MAX_LOOK);
    let mut parser = serde_json::Deserializer::from_reader(&mut looked);
    let end = Probe {
        answer: &answer,
        begun: &begun,
    }
    .deserialize(&mut parser);
    if let Some(format) = answer.get() {
        return Ok(format);
    }
    match end {
        Err(error) if error.is_eof() && !begun.get() => {
            Err(Fault::new(ErrorKind::Empty, "the file is empty"))
        }
        Err(error) if error.is_eof() && looked.limit() == 0 => Err(Fault::new(
            ErrorKind::UnknownFormat,
            "its first record is longer than 4 MiB: it has to be said which format it is",
        )),
        Err(error) if !error.is_data() => Err(error.into()),
        _ => Err(Fault::new(
            ErrorKind::UnknownFormat,
            "the first record is of no format that is known",
        )),
    }
}

/// What a field's name alone says.
fn of_field(name: &str) -> Option<Format> {
    Some(match name {
        "event" => Format::RequestTrace,
        "hash_ids" | "input_length" | "output_length" | "request_id" | "created_time" => {
            Format::Mooncake
        }
        "block_size" | "requests" => Format::Weka,
        "spans" => Format::Otel,
        "sessionId" | "parentUuid" | "leafUuid" | "messageId" | "uuid" => Format::ClaudeCode,
        "payload" => Format::Codex,
        _ => return None,
    })
}

/// What the value of `type` says.
fn of_type(value: &str) -> Option<Format> {
    Some(match value {
        "session_meta" | "response_item" | "turn_context" | "event_msg" => Format::Codex,
        "user" | "assistant" | "summary" | "file-history-snapshot" | "queue-operation" => {
            Format::ClaudeCode
        }
        _ => return None,
    })
}

struct Probe<'a> {
    answer: &'a Cell<Option<Format>>,
    /// Whether there is a record at all.
    begun: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Probe<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Probe<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record of a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.begun.set(true);
        let mut versioned = false;
        while let Some(name) = map.next_key::<String>()? {
            let format = match name.as_str() {
                "type" => match map.next_value::<Text>()? {
                    Text::Is(value) => of_type(&value),
                    Text::Other => None,
                },
                // The header of agentic Mooncake has a block size too.
                "schema" => {
                    versioned = true;
                    map.next_value::<IgnoredAny>()?;
                    None
                }
                name => match of_field(name) {
                    Some(Format::Weka) if versioned => Some(Format::Mooncake),
                    Some(format) => Some(format),
                    None => {
                        map.next_value::<IgnoredAny>()?;
                        None
                    }
                },
            };
            if format.is_some() {
                self.answer.set(format);
                return Err(A::Error::custom("told"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_telling_field_decides() {
        for (bytes, format) in [
            (
                r#"{"timestamp":1,"event":{"schema":"x"}}"#,
                Format::RequestTrace,
            ),
            (r#"{"timestamp": 0, "input_length": 6}"#, Format::Mooncake),
            (r#"{"session_id":"a","hash_ids":[1]}"#, Format::Mooncake),
            (
                r#"{"schema":"s","version":2,"block_size":64}"#,
                Format::Mooncake,
            ),
            (r#"{"id":"a","models":[],"block_size":64"#, Format::Weka),
            (r#"{"trace_id":"a","span_count":1,"spans":["#, Format::Otel),
            (r#"{"type":"queue-operation"}"#, Format::ClaudeCode),
            (
                r#"{"parentUuid":null,"isSidechain":false"#,
                Format::ClaudeCode,
            ),
            (
                r#"{"timestamp":"x","ordinal":0,"type":"session_meta"}"#,
                Format::Codex,
            ),
            (
                r#"{"timestamp":"x","type":"new","payload":{"#,
                Format::Codex,
            ),
        ] {
            assert_eq!(detect(bytes.as_bytes()), Ok(format), "{bytes}");
            assert_eq!(Format::named(format.name()), Some(format));
        }
    }

    #[test]
    fn what_no_format_has_is_refused() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_LOOK as usize));
        for (bytes, kind) in [
            ("", ErrorKind::Empty),
            (" \n\n", ErrorKind::Empty),
            ("[1]", ErrorKind::UnknownFormat),
            ("{}", ErrorKind::UnknownFormat),
            (r#"{"a":1}"#, ErrorKind::UnknownFormat),
            ("# heading", ErrorKind::Syntax),
            (r#"{"a":"#, ErrorKind::Truncated),
            (&long, ErrorKind::UnknownFormat),
        ] {
            assert_eq!(
                detect(bytes.as_bytes()).expect_err(bytes).kind,
                kind,
                "{bytes}"
            );
        }
    }
}
