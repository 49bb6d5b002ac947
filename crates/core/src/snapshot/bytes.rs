//! Numbers, texts and lists to bytes and back.
//!
//! Little-endian, each list and text behind its length. Reading trusts nothing: whatever does not fit
//! is a `SNAPSHOT_INVALID`, and a length is held against the bytes that are there before room is made
//! for it. O(bytes), at memory speed for lists of 64-bit numbers.
use crate::{Error, Result};

/// Appends values to bytes.
pub(crate) trait Encode {
    fn put_u8(&mut self, n: u8);
    fn put_u32(&mut self, n: u32);
    fn put_u64(&mut self, n: u64);
    fn put_u128(&mut self, n: u128);
    /// The length of a list that follows.
    fn put_len(&mut self, len: usize);
    fn put_text(&mut self, text: &str);
    /// The list with its length.
    fn put_u64s(&mut self, list: &[u64]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, n: u8) {
        self.push(n);
    }

    fn put_u32(&mut self, n: u32) {
        self.extend_from_slice(&n.to_le_bytes());
    }

    fn put_u64(&mut self, n: u64) {
        self.extend_from_slice(&n.to_le_bytes());
    }

    fn put_u128(&mut self, n: u128) {
        self.extend_from_slice(&n.to_le_bytes());
    }

    fn put_len(&mut self, len: usize) {
        self.put_u32(u32::try_from(len).expect("lists of a slice are short"));
    }

    fn put_text(&mut self, text: &str) {
        self.put_len(text.len());
        self.extend_from_slice(text.as_bytes());
    }

    fn put_u64s(&mut self, list: &[u64]) {
        self.put_len(list.len());
        let from = self.len();
        self.resize(from + size_of_val(list), 0);
        for (bytes, n) in self[from..].chunks_exact_mut(size_of::<u64>()).zip(list) {
            bytes.copy_from_slice(&n.to_le_bytes());
        }
    }
}

/// Takes values off the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array().map(|[n]| n)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(invalid("a flag is neither set nor clear")),
        }
    }

    /// A value that a flag says is there.
    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    /// A list behind its length, of items that take at least `least` bytes each (not 0).
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let len = self.u32()? as usize;
        if len > self.rest.len() / least {
            return Err(ends_early());
        }
        let mut list = Vec::with_capacity(len);
        for _ in 0..len {
            list.push(read(self)?);
        }
        Ok(list)
    }

    pub(crate) fn u64s(&mut self) -> Result<Vec<u64>> {
        let len = self.u32()? as usize;
        let bytes = self.bytes(len.saturating_mul(size_of::<u64>()))?;
        let numbers = bytes.as_chunks().0.iter();
        Ok(numbers.map(|n| u64::from_le_bytes(*n)).collect())
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let len = self.u32()? as usize;
        str::from_utf8(self.bytes(len)?).map_err(|_| invalid("a text is not UTF-8"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// What is wrong with the bytes.
pub(crate) fn invalid(detail: &str) -> Error {
    Error::snapshot_invalid(format!("the snapshot is damaged: {detail}"))
}

fn ends_early() -> Error {
    invalid("a list or a value is longer than what is there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back_and_what_is_missing_is_an_error() {
        let mut bytes = Vec::new();
        bytes.put_u8(7);
        bytes.put_u32(1 << 31);
        bytes.put_u128(1 << 127);
        bytes.put_text("Grüße");
        bytes.put_u64s(&[u64::MAX, 3]);
        bytes.put_u8(1);
        bytes.put_u64(9);
        let read = |bytes: &[u8]| -> Result<_> {
            let mut reader = Reader::new(bytes);
            let head = (reader.u8()?, reader.u32()?, reader.u128()?);
            let text = reader.text()?.to_owned();
            let list = reader.u64s()?;
            let option = reader.option(Reader::u64)?;
            assert!(reader.is_empty());
            Ok((head, text, list, option))
        };
        let expected = (
            (7, 1 << 31, 1 << 127),
            "Grüße".to_owned(),
            vec![u64::MAX, 3],
            Some(9),
        );
        assert_eq!(read(&bytes), Ok(expected));
        for len in 0..bytes.len() {
            let error = read(&bytes[..len]).expect_err("something is missing");
            assert_eq!(error.code(), "SNAPSHOT_INVALID");
        }
    }

    #[test]
    fn a_length_makes_no_room_that_nothing_fills() {
        let mut bytes = Vec::new();
        bytes.put_u32(u32::MAX);
        bytes.put_u64(0);
        let list = Reader::new(&bytes).list(1, |r| r.u8());
        assert_eq!(list.expect_err("too long").code(), "SNAPSHOT_INVALID");
        assert!(Reader::new(&bytes).u64s().is_err());
        assert!(Reader::new(&bytes).text().is_err());
        assert!(Reader::new(&[2]).flag().is_err());
    }
}
