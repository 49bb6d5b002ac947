//! Where do the items of a conversation lie in the bytes of a request?
//!
//! A body is a JSON object, and its conversation an array of objects that is a member of it. This
//! crate says where each of them ends, without reading what is in them: brackets are counted and
//! strings are passed over. It can go on from an item whose place is known, which is what a session's
//! next turn needs.
//!
//! It trusts that somebody parses the same bytes and refuses what is no JSON: of such bytes the answer
//! means nothing, but there is one, in one pass, without a panic. Whatever a parser may read in more
//! than one way, or nobody sends, is no conversation here: a member that comes twice, a name with
//! escapes in it, an item that is no object. O(bytes), a few bytes of it a nanosecond.
#![forbid(unsafe_code)]
use memchr::{memchr, memchr2};

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
        let key = at.name()?;
        at.expect(b':')?;
        if key == name {
            let mut items = Items::default();
            at.expect(b'[')?;
            at.items(&mut items, at.starts_with(b']'))?;
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
        at.items(&mut items, false)?;
    } else {
        at.items(&mut items, true)?;
    }
    Some(items)
}

/// A place in a body.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.body.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    fn starts_with(mut self, byte: u8) -> bool {
        self.peek() == Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// Items until the bracket that closes them. `is_over`: there is no further one.
    fn items(&mut self, items: &mut Items, is_over: bool) -> Option<()> {
        let mut is_over = is_over;
        while !is_over {
            if self.peek()? != b'{' {
                return None;
            }
            self.value()?;
            items.ends.push(self.at);
            is_over = !self.take(b',');
        }
        self.peek()?;
        items.close = self.at;
        self.expect(b']')
    }

    /// The name of a member, which has no escapes.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let rest = &self.body[self.at..];
        let length = memchr2(b'"', b'\\', rest)?;
        self.at += length + 1;
        (rest[length] == b'"').then_some(&rest[..length])
    }

    /// Passes over a value of any kind.
    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' | b'[' => self.nested(),
            _ => self.plain(),
        }
    }

    /// Passes over a number, `true`, `false` or `null`.
    fn plain(&mut self) -> Option<()> {
        let rest = &self.body[self.at..];
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(is_end)?;
        self.at += length;
        (length > 0).then_some(())
    }

    /// Passes over an object or an array.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.body.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Passes over a string: a quote ends it unless an odd number of backslashes stands before it.
    fn string(&mut self) -> Option<()> {
        let mut from = self.at + 1;
        loop {
            let quote = from + memchr(b'"', self.body.get(from..)?)?;
            let before = &self.body[self.at + 1..quote];
            let backslashes = before
                .iter()
                .rev()
                .take_while(|&&byte| byte == b'\\')
                .count();
            from = quote + 1;
            if backslashes % 2 == 0 {
                self.at = from;
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
