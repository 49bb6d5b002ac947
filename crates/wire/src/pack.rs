//! What is the next MessagePack value?
//!
//! A cursor over borrowed bytes. A container is either entered (its length is read, its contents
//! follow) or taken as a [`Span`] that has been walked to its end, so that whoever finds a value of the
//! wrong type is still in step. Walking counts what is left instead of recursing, so nesting costs
//! nothing; a length that promises more values than there are bytes is refused before anything else
//! happens. Nothing is allocated.
use rmp::Marker;

use crate::error::{Result, WireError};

/// A value. Text is taken as bytes: what it means is for the caller to say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Value<'a> {
    #[default]
    Nil,
    Bool,
    /// Not negative.
    Uint(u64),
    /// Negative.
    Int(i64),
    Float(f64),
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Array(Span<'a>),
    Map(Span<'a>),
    Ext,
}

impl<'a> Value<'a> {
    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    pub(crate) fn str(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn u32(&self) -> Option<u32> {
        match *self {
            Self::Uint(n) => u32::try_from(n).ok(),
            _ => None,
        }
    }

    /// A block's name: a number of 64 bits, signed or not, or the last 8 bytes of a digest.
    pub(crate) fn name(&self) -> Option<u64> {
        match *self {
            Self::Uint(n) => Some(n),
            Self::Int(n) => Some(n.cast_unsigned()),
            Self::Bin(digest) | Self::Str(digest) => {
                digest.last_chunk().map(|&b| u64::from_be_bytes(b))
            }
            _ => None,
        }
    }
}

/// A container that has been walked to its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span<'a> {
    /// Values in an array, pairs in a map.
    pub(crate) count: u32,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Span<'a> {
    /// A cursor at its first value.
    pub(crate) fn open(&self) -> Cursor<'a> {
        Cursor::new(self.bytes)
    }
}

/// The beginning of a value.
pub(crate) enum Head<'a> {
    /// So many values follow.
    Array(u32),
    /// So many pairs follow.
    Map(u32),
    Scalar(Value<'a>),
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next value, whole.
    pub(crate) fn value(&mut self) -> Result<Value<'a>> {
        Ok(match self.head()? {
            Head::Scalar(value) => value,
            Head::Array(count) => Value::Array(self.span(count, 1)?),
            Head::Map(count) => Value::Map(self.span(count, 2)?),
        })
    }

    /// The next value; of a container only how much is in it.
    pub(crate) fn head(&mut self) -> Result<Head<'a>> {
        let marker = self.marker()?;
        let scalar = match marker {
            Marker::FixArray(count) => return self.array(u32::from(count)),
            Marker::Array16 => return self.length16().and_then(|n| self.array(n)),
            Marker::Array32 => return self.length32().and_then(|n| self.array(n)),
            Marker::FixMap(count) => return self.map(u32::from(count)),
            Marker::Map16 => return self.length16().and_then(|n| self.map(n)),
            Marker::Map32 => return self.length32().and_then(|n| self.map(n)),
            Marker::Null => Value::Nil,
            Marker::True | Marker::False => Value::Bool,
            Marker::F32 => Value::Float(f64::from(f32::from_be_bytes(self.fixed()?))),
            Marker::F64 => Value::Float(f64::from_be_bytes(self.fixed()?)),
            Marker::FixStr(length) => Value::Str(self.take(u32::from(length))?),
            Marker::Str8 => Value::Str(self.sized8()?),
            Marker::Str16 => Value::Str(self.sized16()?),
            Marker::Str32 => Value::Str(self.sized32()?),
            Marker::Bin8 => Value::Bin(self.sized8()?),
            Marker::Bin16 => Value::Bin(self.sized16()?),
            Marker::Bin32 => Value::Bin(self.sized32()?),
            other => match self.integer(other)? {
                Some(number) => number,
                None => self.extension(other)?,
            },
        };
        Ok(Head::Scalar(scalar))
    }

    /// Walks past the next `count` values.
    pub(crate) fn skip(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            if left > self.rest.len() as u64 {
                return Err(WireError::truncated());
            }
            left -= 1;
            left += match self.head()? {
                Head::Scalar(_) => 0,
                Head::Array(count) => u64::from(count),
                Head::Map(count) => 2 * u64::from(count),
            };
        }
        Ok(())
    }

    /// The next value, if it is a number from 0 to 2^32 - 1: what a list of tokens is made of.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<Option<u32>> {
        if let Some((&[marker, a, b], rest)) = self.rest.split_first_chunk() {
            // Nearly all tokens of a vocabulary of 2^16 to 2^17 take one of these forms.
            if marker == Marker::U16.to_u8() {
                self.rest = rest;
                return Ok(Some(u32::from(u16::from_be_bytes([a, b]))));
            }
            if let Some((&[marker, a, b, c, d], rest)) = self.rest.split_first_chunk()
                && marker == Marker::U32.to_u8()
            {
                self.rest = rest;
                return Ok(Some(u32::from_be_bytes([a, b, c, d])));
            }
        }
        self.value().map(|value| value.u32())
    }

    fn span(&mut self, count: u32, width: u64) -> Result<Span<'a>> {
        let from = self.rest;
        self.skip(width * u64::from(count))?;
        let bytes = &from[..from.len() - self.rest.len()];
        Ok(Span { count, bytes })
    }

    fn array(&self, count: u32) -> Result<Head<'a>> {
        self.has_room(u64::from(count))?;
        Ok(Head::Array(count))
    }

    fn map(&self, count: u32) -> Result<Head<'a>> {
        self.has_room(2 * u64::from(count))?;
        Ok(Head::Map(count))
    }

    /// A value takes a byte at least.
    fn has_room(&self, values: u64) -> Result<()> {
        match values <= self.rest.len() as u64 {
            true => Ok(()),
            false => Err(WireError::truncated()),
        }
    }

    fn integer(&mut self, marker: Marker) -> Result<Option<Value<'a>>> {
        let signed = |n: i64| match u64::try_from(n) {
            Ok(n) => Value::Uint(n),
            Err(_) => Value::Int(n),
        };
        Ok(Some(match marker {
            Marker::FixPos(n) => Value::Uint(u64::from(n)),
            Marker::FixNeg(n) => Value::Int(i64::from(n)),
            Marker::U8 => Value::Uint(u64::from(u8::from_be_bytes(self.fixed()?))),
            Marker::U16 => Value::Uint(u64::from(u16::from_be_bytes(self.fixed()?))),
            Marker::U32 => Value::Uint(u64::from(u32::from_be_bytes(self.fixed()?))),
            Marker::U64 => Value::Uint(u64::from_be_bytes(self.fixed()?)),
            Marker::I8 => signed(i64::from(i8::from_be_bytes(self.fixed()?))),
            Marker::I16 => signed(i64::from(i16::from_be_bytes(self.fixed()?))),
            Marker::I32 => signed(i64::from(i32::from_be_bytes(self.fixed()?))),
            Marker::I64 => signed(i64::from_be_bytes(self.fixed()?)),
            _ => return Ok(None),
        }))
    }

    /// An extension is walked past: a byte says its type, then comes what it holds.
    fn extension(&mut self, marker: Marker) -> Result<Value<'a>> {
        let length = match marker {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => u32::from(u8::from_be_bytes(self.fixed()?)),
            Marker::Ext16 => self.length16()?,
            Marker::Ext32 => self.length32()?,
            _ => return Err(WireError::malformed()),
        };
        self.take(1)?;
        self.take(length)?;
        Ok(Value::Ext)
    }

    fn marker(&mut self) -> Result<Marker> {
        let (&byte, rest) = self.rest.split_first().ok_or(WireError::truncated())?;
        self.rest = rest;
        Ok(Marker::from_u8(byte))
    }

    fn take(&mut self, length: u32) -> Result<&'a [u8]> {
        let split = self.rest.split_at_checked(length as usize);
        let (taken, rest) = split.ok_or(WireError::truncated())?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (&bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(WireError::truncated())?;
        self.rest = rest;
        Ok(bytes)
    }

    fn length16(&mut self) -> Result<u32> {
        Ok(u32::from(u16::from_be_bytes(self.fixed()?)))
    }

    fn length32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    fn sized8(&mut self) -> Result<&'a [u8]> {
        let length = u32::from(u8::from_be_bytes(self.fixed()?));
        self.take(length)
    }

    fn sized16(&mut self) -> Result<&'a [u8]> {
        let length = self.length16()?;
        self.take(length)
    }

    fn sized32(&mut self) -> Result<&'a [u8]> {
        let length = self.length32()?;
        self.take(length)
    }
}
