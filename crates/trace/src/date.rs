//! Which moment is this written date?
//!
//! The form of RFC 3339, with or without an offset (then it is taken as UTC, as recorded traces
//! mean it). No leap seconds, no years before 1970 or after 9999. Nothing is allocated.
use warmpath_core::Micros;

use crate::error::{ErrorKind, Fault};

/// Microseconds since 1970-01-01T00:00:00Z.
pub(crate) fn parse(field: &str, text: &str) -> Result<Micros, Fault> {
    let wrong = || Fault::invalid(format!("{field} is no date"));
    let micros = micros_of(text.as_bytes()).ok_or_else(wrong)?;
    u64::try_from(micros).map(Micros).map_err(|_| {
        let detail = format!("{field} is before 1970");
        Fault::new(ErrorKind::NegativeTime, detail)
    })
}

fn micros_of(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(19)?;
    for (at, separators) in [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")] {
        if !separators.as_bytes().contains(&date[at]) {
            return None;
        }
    }
    let (year, month, day) = (
        number(&date[..4])?,
        number(&date[5..7])?,
        number(&date[8..10])?,
    );
    let (hour, minute, second) = (
        number(&date[11..13])?,
        number(&date[14..16])?,
        number(&date[17..])?,
    );
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, rest) = fraction(rest)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds - offset(rest)?) * 1_000_000 + fraction)
}

/// Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that the leap day is
/// the last one of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', rest)) = rest.split_first() else {
        return Some((0, rest));
    };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 {
        return None;
    }
    let digits = rest[..len].iter().copied().chain(std::iter::repeat(b'0'));
    let micros = digits
        .take(6)
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((micros, &rest[len..]))
}

/// Seconds that local time is ahead.
fn offset(rest: &[u8]) -> Option<i64> {
    match rest {
        [] | [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let seconds = number(&[*h1, *h2])? * 3_600 + number(&[*m1, *m2])? * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_moments() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000_000),
            ("2026-02-25T10:00:00.500000", 1_772_013_600_500_000),
            ("2026-11-30T05:55:15.691Z", 1_796_018_115_691_000),
            ("2026-11-30T07:55:15.691+02:00", 1_796_018_115_691_000),
            ("2026-11-30T05:55:15.1234567-00:00", 1_796_018_115_123_456),
        ] {
            assert_eq!(parse("t", text), Ok(Micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "now",
            "2026-13-01T00:00:00Z",
            "2026-01-01",
            "2026-01-01T00:00:00.Z",
        ] {
            assert_eq!(
                parse("t", text).expect_err(text).kind,
                ErrorKind::InvalidValue
            );
        }
        let before = parse("t", "1969-12-31T23:59:59Z").expect_err("before");
        assert_eq!(before.kind, ErrorKind::NegativeTime);
    }
}
