//! Is this a snapshot, whole and undamaged?
//!
//! A head (eight magic bytes, the version) and then frames: kind, length, payload, checksum. The
//! checksum is the XXH3-64 of the payload, seeded by the frame's number and kind, so that a frame
//! which is missing, repeated or moved is noticed like a bit that flipped. The last frame is of the
//! kind [`Kind::End`] and nothing follows it, so a snapshot that was cut between two frames is noticed
//! too. Knows nothing of what is in a frame.
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bytes::{Encode, Reader, invalid};
use crate::{Error, Result};

/// The first bytes of a snapshot; the last two tell what a text mode has done to it.
const MAGIC: &[u8; 8] = b"WPSNAP\r\n";

/// The version of the format. Whatever changes the meaning of a byte raises it.
const VERSION: u32 = 3;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs of the prefix index.
    Runs = 1,
    /// Sessions.
    Sessions = 2,
    /// Owners of ids.
    Owners = 3,
    /// The fleet's names, the time and the counters; the end.
    End = 4,
}

impl Kind {
    fn of(tag: u8) -> Result<Self> {
        let known = [Self::Runs, Self::Sessions, Self::Owners, Self::End];
        let found = known.into_iter().find(|kind| *kind as u8 == tag);
        found.ok_or_else(|| invalid("a part of it is of no known kind"))
    }
}

/// Bytes before and behind a payload.
const BEFORE: usize = size_of::<u8>() + size_of::<u32>();

/// Writes frames one after another.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    written: u64,
}

impl Frames {
    /// Appends the head.
    pub(crate) fn head(out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
    }

    /// Appends a frame that `fill` fills; none when it writes nothing.
    pub(crate) fn write<R>(
        &mut self,
        kind: Kind,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let start = out.len();
        out.put_u8(kind as u8);
        out.put_u32(0);
        let result = fill(out);
        let payload = start + BEFORE;
        if out.len() == payload {
            out.truncate(start);
            return result;
        }
        let len = u32::try_from(out.len() - payload).expect("a slice is short");
        out[start + 1..payload].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(self.written, kind, &out[payload..]);
        out.put_u64(sum);
        self.written += 1;
        result
    }
}

/// The frames of a snapshot in order, the end last.
///
/// # Errors
/// `SNAPSHOT_INVALID` for what is foreign, cut or damaged, `SNAPSHOT_VERSION` for another version.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<(Kind, Reader<'_>)>> {
    let mut reader = Reader::new(bytes);
    let magic = reader.bytes(MAGIC.len()).ok();
    if magic.is_none_or(|magic| magic != MAGIC) {
        return Err(Error::snapshot_invalid("this is no snapshot of Warmpath"));
    }
    let version = reader.u32()?;
    if version != VERSION {
        return Err(Error::snapshot_version(format!(
            "the snapshot has format {version}; this Warmpath reads format {VERSION}"
        )));
    }
    let mut frames = Vec::new();
    loop {
        let kind = Kind::of(reader.u8()?)?;
        let len = reader.u32()? as usize;
        let payload = reader.bytes(len)?;
        if reader.u64()? != checksum(frames.len() as u64, kind, payload) {
            return Err(invalid("a checksum is wrong"));
        }
        frames.push((kind, Reader::new(payload)));
        if kind == Kind::End {
            break;
        }
    }
    match reader.is_empty() {
        true => Ok(frames),
        false => Err(invalid("something follows its end")),
    }
}

fn checksum(number: u64, kind: Kind, payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, number << 8 | kind as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        Frames::head(&mut out);
        let mut frames = Frames::default();
        for n in 0..3 {
            frames.write(Kind::Runs, &mut out, |out| out.put_u32(n));
        }
        frames.write(Kind::Owners, &mut out, |_| ());
        frames.write(Kind::End, &mut out, |out| out.put_u32(9));
        out
    }

    fn code(bytes: &[u8]) -> &'static str {
        read(bytes).expect_err("it is damaged").code()
    }

    #[test]
    fn frames_come_back_in_order() {
        let bytes = sample();
        let frames = read(&bytes).unwrap();
        let read = frames.into_iter().map(|(kind, mut r)| (kind, r.u32()));
        let runs = (0..3).map(|n| (Kind::Runs, Ok(n)));
        assert!(read.eq(runs.chain([(Kind::End, Ok(9))])));
    }

    #[test]
    fn whatever_is_not_whole_is_refused() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert_eq!(code(&bytes[..len]), "SNAPSHOT_INVALID");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let is_version = (MAGIC.len()..MAGIC.len() + 4).contains(&at);
                let expected = if is_version { "VERSION" } else { "INVALID" };
                assert_eq!(code(&flipped), format!("SNAPSHOT_{expected}"));
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(code(&longer), "SNAPSHOT_INVALID");
        assert_eq!(code(b"{\"json\": true}"), "SNAPSHOT_INVALID");
    }

    #[test]
    fn frames_that_changed_places_are_noticed() {
        let bytes = sample();
        let (head, frame) = (MAGIC.len() + 4, BEFORE + 4 + 8);
        let second = &bytes[head + frame..head + 2 * frame];
        let swapped = [
            &bytes[..head],
            second,
            &bytes[head..head + frame],
            &bytes[head + 2 * frame..],
        ];
        assert_eq!(code(&swapped.concat()), "SNAPSHOT_INVALID");
        let missing = [&bytes[..head], &bytes[head + frame..]];
        assert_eq!(code(&missing.concat()), "SNAPSHOT_INVALID");
    }
}
