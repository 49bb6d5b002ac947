//! A place in a body, and how what stands there is passed over.
use std::ops::Range;

use memchr::memchr;

/// A place in a body.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.body.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    pub(crate) fn starts_with(mut self, byte: u8) -> bool {
        self.peek() == Some(byte)
    }

    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// The name of a member, as it is written between its quotes.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        if self.peek()? != b'"' {
            return None;
        }
        let from = self.at + 1;
        self.string()?;
        Some(&self.body[from..self.at - 1])
    }

    /// The name of a member, which has no escapes.
    pub(crate) fn plain_name(&mut self) -> Option<&'a [u8]> {
        self.name().filter(|name| !name.contains(&b'\\'))
    }

    /// Where the value lies that comes, which is passed over.
    pub(crate) fn place(&mut self) -> Option<Range<usize>> {
        self.peek()?;
        let from = self.at;
        self.value()?;
        Some(from..self.at)
    }

    /// Passes over a value of any kind.
    pub(crate) fn value(&mut self) -> Option<()> {
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
