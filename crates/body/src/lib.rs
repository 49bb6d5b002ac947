//! Where do the items of a conversation lie in the bytes of a request, and which of its bytes are other
//! ones when some of its members are?
//!
//! A body is a JSON object, and its conversation an array of objects that is a member of it. This
//! crate says where each of them ends, without reading what is in them: brackets are counted and
//! strings are passed over. It can go on from an item whose place is known, which is what a session's
//! next turn needs. In the same way it finds the members that a body is sent on with another value of:
//! see [`edits`].
//!
//! It trusts that somebody parses the same bytes and refuses what is no JSON: of such bytes the answer
//! means nothing, but there is one, in one pass, without a panic. Whatever a parser may read in more
//! than one way, or nobody sends, is no conversation here: a member that comes twice, a name with
//! escapes in it, an item that is no object. O(bytes), a few bytes of it a nanosecond.
#![forbid(unsafe_code)]

mod change;
mod cursor;

pub use change::{Change, Edit, edits, pieces};
use cursor::Cursor;

/// The items of a conversation, as offsets into a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// Behind the closing brace of each.
    pub ends: Vec<usize>,
    /// Of the bracket that closes the array.
    pub close: usize,
}

/// The items of the array of objects that is the member `name` of the object that `body` is; `None`
/// when there is none, or more than one.
#[must_use]
pub fn items(body: &[u8], name: &[u8]) -> Option<Items> {
    let mut at = Cursor { body, at: 0 };
    at.expect(b'{')?;
    let mut found = None;
    if at.take(b'}') {
        return None;
    }
    loop {
        let key = at.plain_name()?;
        at.expect(b':')?;
        if key == name {
            let mut items = Items::default();
            at.expect(b'[')?;
            let is_empty = at.starts_with(b']');
            read_items(&mut at, &mut items, is_empty)?;
            // The second of two members would be the one that counts.
            if found.replace(items).is_some() {
                return None;
            }
        } else {
            at.value()?;
        }
        if !at.take(b',') {
            at.expect(b'}')?;
            return found;
        }
    }
}

/// The items that follow the one that ends at `end`.
#[must_use]
pub fn items_after(body: &[u8], end: usize) -> Option<Items> {
    let mut at = Cursor { body, at: end };
    let mut items = Items::default();
    if at.take(b',') {
        read_items(&mut at, &mut items, false)?;
    } else {
        read_items(&mut at, &mut items, true)?;
    }
    Some(items)
}

/// Items until the bracket that closes them. `is_over`: there is no further one.
fn read_items(at: &mut Cursor<'_>, items: &mut Items, is_over: bool) -> Option<()> {
    let mut is_over = is_over;
    while !is_over {
        if at.peek()? != b'{' {
            return None;
        }
        at.value()?;
        items.ends.push(at.at);
        is_over = !at.take(b',');
    }
    at.peek()?;
    items.close = at.at;
    at.expect(b']')
}

#[cfg(test)]
mod tests;
