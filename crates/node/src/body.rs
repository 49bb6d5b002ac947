//! A body with some of its members changed. Knows no scheduler.

use napi::bindgen_prelude::{Result, Uint8Array};
use napi_derive::napi;
use warmpath_body::{Change, edits, pieces};

use crate::error::{Code, guard, invalid};

/// Lengths of one change: of its name, of the name inside of that (0: none), and of its value.
const LENGTHS: usize = 3;

/// Writes the body that `body` is with its `changes` into `out`, and returns its length: 0 when such a
/// body has to be written anew, or when it does not fit. `changes`: names and JSON, back to back;
/// `lengths`: three of each change.
#[napi]
pub(crate) fn change_body(
    body: &[u8],
    changes: &[u8],
    lengths: &[u32],
    mut out: Uint8Array,
) -> Result<u32, Code> {
    guard(|| {
        let changes =
            read(changes, lengths).ok_or_else(|| invalid("lengths do not fit changes"))?;
        let Some(edits) = edits(body, &changes) else {
            return Ok(0);
        };
        // SAFETY: JS is single-threaded and waits for this synchronous call, no JS runs before the slice
        // is dropped, and `out` is a buffer of its own, so nothing else views these bytes.
        let mut room = unsafe { out.as_mut() };
        let whole = room.len();
        for piece in pieces(body, &edits) {
            let Some((place, rest)) = room.split_at_mut_checked(piece.len()) else {
                return Ok(0);
            };
            place.copy_from_slice(piece);
            room = rest;
        }
        Ok(u32::try_from(whole - room.len()).unwrap_or(0))
    })
}

/// `None` when the lengths are not those of `texts`.
fn read<'a>(mut texts: &'a [u8], lengths: &[u32]) -> Option<Vec<Change<'a>>> {
    let mut next = |length: u32| {
        let (text, rest) = texts.split_at_checked(length as usize)?;
        texts = rest;
        Some(text)
    };
    let changes = lengths.chunks(LENGTHS).map(|lengths| {
        let &[name, inner, value] = lengths else {
            return None;
        };
        let (name, inner, value) = (next(name)?, next(inner)?, next(value)?);
        let inner = (!inner.is_empty()).then_some(inner);
        Some(Change { name, inner, value })
    });
    changes.collect()
}
