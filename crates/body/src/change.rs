//! Which bytes of a body are other ones when some of its members have another value?
//!
//! A body that is parsed and written again loses what a parser does not keep: digits of long numbers,
//! spellings such as `1.0`, the order of names that are numbers. Here the values alone are replaced, and
//! members that are not there come behind the last one; all else stays as it was written.
//!
//! A member that comes twice, which every parser may read in its own way, is not told apart: such a body
//! has to be written anew.
use std::ops::Range;

use crate::cursor::Cursor;

/// A value that a member of a body is to have.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Of the member: letters, digits and underscores of ASCII.
    pub name: &'a [u8],
    /// Of the member inside of it that is meant; all else in it is kept, and where it is no object it
    /// becomes one.
    pub inner: Option<&'a [u8]>,
    /// JSON.
    pub value: &'a [u8],
}

/// Bytes of a body, and what stands in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Empty where something comes in between.
    pub range: Range<usize>,
    /// JSON, and the comma and the name of what comes in between.
    pub text: Vec<u8>,
}

/// What changes in the object that `body` is, from front to back; each change is of another name. `None`
/// when it is no object, when something stands behind it, or when a member that is meant comes twice.
/// O(bytes).
#[must_use]
pub fn edits(body: &[u8], changes: &[Change<'_>]) -> Option<Vec<Edit>> {
    let mut at = Cursor { body, at: 0 };
    at.expect(b'{')?;
    let mut places = vec![None; changes.len()];
    let mut end = at.at;
    let is_empty = at.take(b'}');
    let mut is_over = is_empty;
    while !is_over {
        let name = at.name()?;
        at.expect(b':')?;
        let place = at.place()?;
        end = place.end;
        for (change, found) in changes.iter().zip(&mut places) {
            if reads_as(name, change.name) && found.replace(place.clone()).is_some() {
                return None;
            }
        }
        is_over = !at.take(b',');
        if is_over {
            at.expect(b'}')?;
        }
    }
    if at.peek().is_some() {
        return None;
    }
    let mut edits = Vec::with_capacity(changes.len());
    let mut more = Vec::new();
    for (change, place) in changes.iter().zip(places) {
        if let Some(range) = place {
            let text = change.value_for(&body[range.clone()])?;
            edits.push(Edit { range, text });
            continue;
        }
        if !is_empty || !more.is_empty() {
            more.push(b',');
        }
        let value = change.value_for(b"null")?;
        more.extend([b"\"", change.name, b"\":", &value].concat());
    }
    if !more.is_empty() {
        edits.push(Edit {
            range: end..end,
            text: more,
        });
    }
    edits.sort_by_key(|edit| edit.range.start);
    Some(edits)
}

/// The body with its `edits`, in pieces.
pub fn pieces<'a>(body: &'a [u8], edits: &'a [Edit]) -> impl Iterator<Item = &'a [u8]> {
    let mut from = 0;
    let rest = edits.last().map_or(0, |edit| edit.range.end);
    edits
        .iter()
        .flat_map(move |edit| {
            let kept = &body[from..edit.range.start];
            from = edit.range.end;
            [kept, &edit.text[..]]
        })
        .chain([&body[rest..]])
}

impl Change<'_> {
    /// What stands in the place of `present`. `None` as of `edits`.
    fn value_for(&self, present: &[u8]) -> Option<Vec<u8>> {
        let Some(name) = self.inner else {
            return Some(self.value.to_vec());
        };
        let is_object = present.first() == Some(&b'{');
        let object = if is_object { present } else { b"{}" };
        let inner = Change {
            name,
            inner: None,
            ..*self
        };
        let edits = edits(object, &[inner])?;
        Some(pieces(object, &edits).collect::<Vec<_>>().concat())
    }
}

/// Whether what is written between two quotes is read as `name`.
fn reads_as(written: &[u8], name: &[u8]) -> bool {
    if !written.contains(&b'\\') {
        return written == name;
    }
    let mut rest = written;
    for &wanted in name {
        let byte = match rest {
            [b'\\', b'u', b'0', b'0', high, low, ..] => byte_of(*high, *low),
            // No other escape is of a letter, a digit or an underscore.
            [b'\\', ..] | [] => None,
            [byte, ..] => Some(*byte),
        };
        if byte != Some(wanted) {
            return false;
        }
        rest = &rest[if rest[0] == b'\\' { 6 } else { 1 }..];
    }
    rest.is_empty()
}

/// Of two hexadecimal digits.
fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests;
