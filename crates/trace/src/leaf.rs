//! What does this field hold, if it holds anything sensible?
//!
//! Fields of foreign traces. A value of the wrong type must cost its record and not the file, so
//! these types accept any JSON value and say later what was wrong. They keep numbers, ids and short
//! texts; what is not asked for is skipped by the parser without being kept.
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use warmpath_core::Micros;

use crate::error::{ErrorKind, Fault};

/// Blocks that one prompt may have; beyond this a file is not a trace.
pub(crate) const MAX_BLOCKS: usize = 1 << 24;
/// Tokens that one prompt or one answer may have: ten times the longest contexts that are offered, and far
/// from what a replay cannot hold.
pub(crate) const MAX_TOKENS: u32 = 100_000_000;
/// The latest time, and the longest duration, that a trace may hold: about 10,000 years.
const MAX_MICROS: f64 = 3.2e17;

/// A number, or something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Num {
    Whole(u64),
    Below(i64),
    Real(f64),
    Other,
}

/// A text, or something else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Text {
    Is(String),
    Other,
}

/// Any value of a field whose type is told by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Any {
    Num(Num),
    Text(String),
    Other,
}

impl Any {
    pub(crate) fn num(self) -> Option<Num> {
        Some(match self {
            Self::Num(num) => num,
            Self::Text(_) | Self::Other => Num::Other,
        })
    }

    pub(crate) fn text(self) -> Option<Text> {
        Some(match self {
            Self::Text(text) => Text::Is(text),
            Self::Num(_) | Self::Other => Text::Other,
        })
    }
}

/// A list of ids, or something else.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ids {
    pub(crate) ids: Vec<u64>,
    wrong: bool,
}

/// A count of tokens: 0 to [`MAX_TOKENS`].
pub(crate) fn tokens(field: &str, value: Option<Num>) -> Result<u32, Fault> {
    let count = match value {
        None => return Err(Fault::missing(field)),
        Some(Num::Whole(n)) => n,
        // Beyond 64 bits it saturates.
        Some(Num::Real(n)) if n >= 0.0 && n.fract() == 0.0 => n as u64,
        Some(_) => return Err(Fault::invalid(format!("{field} is no count of tokens"))),
    };
    match u32::try_from(count) {
        Ok(count) if count <= MAX_TOKENS => Ok(count),
        _ => Err(Fault::invalid(format!(
            "{field} is too large: a prompt or an answer has at most {MAX_TOKENS} tokens"
        ))),
    }
}

/// A count of tokens that a request cannot do without.
pub(crate) fn some_tokens(field: &str, value: Option<Num>) -> Result<u32, Fault> {
    match tokens(field, value)? {
        0 => Err(Fault::invalid(format!("{field} is 0"))),
        n => Ok(n),
    }
}

/// A whole number.
pub(crate) fn whole(field: &str, value: Num) -> Result<u64, Fault> {
    match value {
        Num::Whole(n) => Ok(n),
        _ => Err(Fault::invalid(format!("{field} is no whole number"))),
    }
}

/// A time or duration that the trace counts in units of `unit` microseconds; absent stays absent.
pub(crate) fn time(field: &str, value: Option<Num>, unit: u32) -> Result<Option<Micros>, Fault> {
    let units = match value {
        None => return Ok(None),
        Some(Num::Whole(n)) => match n.checked_mul(u64::from(unit)) {
            // Exact, also where a float would not be.
            Some(micros) if (micros as f64) <= MAX_MICROS => return Ok(Some(Micros(micros))),
            _ => f64::INFINITY,
        },
        Some(Num::Below(n)) => n as f64,
        Some(Num::Real(n)) => n,
        Some(Num::Other) => return Err(Fault::invalid(format!("{field} is no time"))),
    };
    let micros = (units * f64::from(unit)).round();
    if micros < 0.0 {
        let detail = format!("{field} is negative: {units}");
        return Err(Fault::new(ErrorKind::NegativeTime, detail));
    }
    if micros <= MAX_MICROS {
        Ok(Some(Micros(micros as u64)))
    } else {
        Err(Fault::invalid(format!("{field} is out of range")))
    }
}

/// Microseconds of a millisecond, for [`time`].
pub(crate) const MILLIS: u32 = 1_000;
/// Microseconds of a second, for [`time`].
pub(crate) const SECONDS: u32 = 1_000_000;

/// A text; absent stays absent.
pub(crate) fn text(field: &str, value: Option<Text>) -> Result<Option<String>, Fault> {
    match value {
        None => Ok(None),
        Some(Text::Is(text)) => Ok(Some(text)),
        Some(Text::Other) => Err(Fault::invalid(format!("{field} is no text"))),
    }
}

/// A text that is there and not empty.
pub(crate) fn some_text(field: &str, value: Option<Text>) -> Result<String, Fault> {
    match text(field, value)? {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) => Err(Fault::invalid(format!("{field} is empty"))),
        None => Err(Fault::missing(field)),
    }
}

impl Ids {
    fn wrong() -> Self {
        Self {
            ids: Vec::new(),
            wrong: true,
        }
    }

    /// The ids, if all of them are.
    pub(crate) fn checked(self, field: &str) -> Result<Vec<u64>, Fault> {
        if self.wrong {
            return Err(Fault::invalid(format!(
                "{field} is no list of whole numbers, or a longer one than {MAX_BLOCKS}"
            )));
        }
        Ok(self.ids)
    }
}

/// Accepts every JSON value; scalars are `other` unless a visitor keeps them.
macro_rules! any_value {
    ($leaf:ty, $other:expr, { $($keeps:item)* }) => {
        type Value = $leaf;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }

        fn visit_bool<E>(self, _: bool) -> Result<$leaf, E> {
            Ok($other)
        }

        fn visit_unit<E>(self) -> Result<$leaf, E> {
            Ok($other)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$leaf, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($other)
        }

        $($keeps)*
    };
}

struct AnyNum;

impl<'de> Visitor<'de> for AnyNum {
    any_value!(Num, Num::Other, {
        fn visit_u64<E>(self, n: u64) -> Result<Num, E> {
            Ok(Num::Whole(n))
        }

        fn visit_i64<E>(self, n: i64) -> Result<Num, E> {
            Ok(u64::try_from(n).map_or(Num::Below(n), Num::Whole))
        }

        fn visit_f64<E>(self, n: f64) -> Result<Num, E> {
            Ok(Num::Real(n))
        }

        fn visit_str<E>(self, _: &str) -> Result<Num, E> {
            Ok(Num::Other)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Num, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Num::Other)
        }
    });
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNum)
    }
}

struct AnyText;

impl<'de> Visitor<'de> for AnyText {
    any_value!(Text, Text::Other, {
        fn visit_u64<E>(self, _: u64) -> Result<Text, E> {
            Ok(Text::Other)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
            Ok(Text::Other)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
            Ok(Text::Other)
        }

        fn visit_str<E>(self, text: &str) -> Result<Text, E> {
            Ok(Text::Is(text.to_owned()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Text::Other)
        }
    });
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyText)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    any_value!(Any, Any::Other, {
        fn visit_u64<E>(self, n: u64) -> Result<Any, E> {
            Ok(Any::Num(Num::Whole(n)))
        }

        fn visit_i64<E>(self, n: i64) -> Result<Any, E> {
            Ok(Any::Num(u64::try_from(n).map_or(Num::Below(n), Num::Whole)))
        }

        fn visit_f64<E>(self, n: f64) -> Result<Any, E> {
            Ok(Any::Num(Num::Real(n)))
        }

        fn visit_str<E>(self, text: &str) -> Result<Any, E> {
            Ok(Any::Text(text.to_owned()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Any, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Any::Other)
        }
    });
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyIds;

impl<'de> Visitor<'de> for AnyIds {
    any_value!(Ids, Ids::wrong(), {
        fn visit_u64<E>(self, _: u64) -> Result<Ids, E> {
            Ok(Ids::wrong())
        }

        fn visit_i64<E>(self, _: i64) -> Result<Ids, E> {
            Ok(Ids::wrong())
        }

        fn visit_f64<E>(self, _: f64) -> Result<Ids, E> {
            Ok(Ids::wrong())
        }

        fn visit_str<E>(self, _: &str) -> Result<Ids, E> {
            Ok(Ids::wrong())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ids, A::Error> {
            let mut list = Ids::default();
            while let Some(id) = seq.next_element::<Num>()? {
                match id {
                    Num::Whole(id) if list.ids.len() < MAX_BLOCKS => list.ids.push(id),
                    _ => list.wrong = true,
                }
            }
            Ok(list)
        }
    });
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyIds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn num(json: &str) -> Option<Num> {
        Some(serde_json::from_str(json).expect("any JSON is taken"))
    }

    #[test]
    fn times_are_exact_and_never_negative() {
        assert_eq!(time("t", num("12.345"), MILLIS), Ok(Some(Micros(12_345))));
        assert_eq!(time("t", num("3"), SECONDS), Ok(Some(Micros(3_000_000))));
        assert_eq!(time("t", None, SECONDS), Ok(None));
        for negative in ["-1", "-0.5"] {
            let fault = time("t", num(negative), MILLIS).expect_err(negative);
            assert_eq!(fault.kind, ErrorKind::NegativeTime);
        }
        for absurd in ["1e300", "18446744073709551615", "\"3\"", "[1]", "null"] {
            let fault = time("t", num(absurd), MILLIS).expect_err(absurd);
            assert_eq!(fault.kind, ErrorKind::InvalidValue, "{absurd}");
        }
    }

    #[test]
    fn counts_are_whole_and_in_range() {
        assert_eq!(tokens("in", num("7")), Ok(7));
        assert_eq!(tokens("in", num("7.0")), Ok(7));
        assert_eq!(tokens("in", None), Err(Fault::missing("in")));
        for wrong in ["7.5", "-7", "4294967296", "true", "{\"a\":[]}"] {
            assert!(tokens("in", num(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_of_ids_is_taken_whole_or_not_at_all() {
        let ids: Ids = serde_json::from_str("[1,18446744073709551615]").expect("ids");
        assert_eq!(ids.checked("ids"), Ok(vec![1, u64::MAX]));
        for wrong in ["[1,-2]", "[1,\"2\"]", "{}", "3", "\"x\"", "[[1]]"] {
            let ids: Ids = serde_json::from_str(wrong).expect("any JSON is taken");
            assert!(ids.checked("ids").is_err(), "{wrong}");
        }
    }
}
