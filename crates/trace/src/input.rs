//! Which files are there, and what are their bytes and lines?
//!
//! A source is a file or a folder; of a folder all files are taken whose names say JSON, in the
//! order of their names, without following links. Compression is told by the first bytes, never by
//! the name. Lines are read one at a time into one buffer, so a file of any size costs its longest
//! line, and a line beyond the bound costs the bound.
//!
//! It knows nothing of formats and trusts nothing: each failure names the file and the line.
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::{ErrorKind, Fault, Place, TraceError};

/// Folders in folders that are looked into.
const MAX_FOLDERS: usize = 16;
const BUFFER_BYTES: usize = 64 * 1024;

/// The bytes of a file, decompressed.
pub(crate) type Bytes = Box<dyn BufRead>;

/// A file that may be a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// Whether the caller named it, or a folder that it lies in.
    pub(crate) named: Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Itself,
    Folder,
}

/// The files of the sources, in their order; those of a folder in the order of their names.
pub(crate) fn list(sources: &[PathBuf]) -> Result<Vec<Found>, TraceError> {
    let mut found = Vec::new();
    for source in sources {
        let at_source = |error: io::Error| TraceError::new(error.into(), source, Place::File);
        if fs::metadata(source).map_err(at_source)?.is_dir() {
            let before = found.len();
            list_folder(source, 0, &mut found).map_err(at_source)?;
            if found.len() == before {
                let fault = Fault::new(ErrorKind::UnknownFormat, "no .json or .jsonl file in it");
                return Err(TraceError::new(fault, source, Place::File));
            }
        } else {
            found.push(Found {
                path: source.clone(),
                named: Named::Itself,
            });
        }
    }
    Ok(found)
}

fn list_folder(folder: &Path, depth: usize, found: &mut Vec<Found>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() && depth < MAX_FOLDERS {
            list_folder(&path, depth + 1, found)?;
        } else if kind.is_file() && says_json(&path) {
            found.push(Found {
                path,
                named: Named::Folder,
            });
        }
    }
    Ok(())
}

fn says_json(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.map(str::to_ascii_lowercase) else {
        return false;
    };
    let bare = name.strip_suffix(".gz").unwrap_or(&name);
    // A note beside a transcript, not a transcript.
    !bare.ends_with(".meta.json") && (bare.ends_with(".json") || bare.ends_with(".jsonl"))
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<Bytes, Fault> {
    decompress(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?))
}

/// The bytes as they are, or what is in them if they are a gzip stream.
pub(crate) fn decompress(mut bytes: impl BufRead + 'static) -> Result<Bytes, Fault> {
    if bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        let plain = MultiGzDecoder::new(bytes);
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, plain)))
    } else {
        Ok(Box::new(bytes))
    }
}

/// What some editors put before the first character of a text.
pub(crate) const MARK: &[u8] = "\u{feff}".as_bytes();

/// A text that begins with a mark is no JSON.
pub(crate) fn marked() -> Fault {
    let detail =
        "a byte order mark stands before the first record: save the file as UTF-8 without one";
    Fault {
        line: Some(1),
        ..Fault::new(ErrorKind::Encoding, detail)
    }
}

/// Whether the bytes begin with a mark; it is passed over.
pub(crate) fn pass_mark(bytes: &mut Bytes) -> Result<bool, Fault> {
    let is_marked = bytes.fill_buf()?.starts_with(MARK);
    if is_marked {
        bytes.consume(MARK.len());
    }
    Ok(is_marked)
}

/// Lines of a file, without their ends; empty lines are passed over.
pub(crate) struct Lines {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
    max_bytes: usize,
}

impl Lines {
    pub(crate) fn new(bytes: Bytes, max_bytes: usize) -> Self {
        Self {
            bytes,
            line: Vec::new(),
            number: 0,
            max_bytes,
        }
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line and its number. After a fault of that line only, reading can go on;
    /// [`is_final`] tells.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>, Fault> {
        loop {
            self.number += 1;
            self.line.clear();
            let bound = self.max_bytes as u64 + 1;
            let read = (&mut self.bytes)
                .take(bound)
                .read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let ended = self.line.last() == Some(&b'\n');
            if !ended && self.line.len() > self.max_bytes {
                self.line.clear();
                self.skip_line()?;
                let detail = format!("a line of more than {} bytes", self.max_bytes);
                return Err(Fault::new(ErrorKind::LineTooLong, detail));
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        if self.number == 1 && self.line.starts_with(MARK) {
            return Err(marked());
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some((self.number, line.trim()))),
            Err(error) => {
                let detail = format!("no UTF-8 after byte {}", error.valid_up_to());
                Err(Fault::new(ErrorKind::Encoding, detail))
            }
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.bytes.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// Whether nothing more can be read of a file after this.
pub(crate) fn is_final(fault: &Fault) -> bool {
    matches!(
        fault.kind,
        ErrorKind::Io | ErrorKind::Truncated | ErrorKind::Compression
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: &[u8], max_bytes: usize) -> Vec<Result<String, ErrorKind>> {
        let bytes = decompress(Cursor::new(bytes.to_vec())).expect("opens");
        let mut lines = Lines::new(bytes, max_bytes);
        let mut all = Vec::new();
        loop {
            match lines.next() {
                Ok(Some((_, line))) => all.push(Ok(line.to_owned())),
                Ok(None) => return all,
                Err(fault) => {
                    all.push(Err(fault.kind));
                    if is_final(&fault) {
                        return all;
                    }
                }
            }
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    #[test]
    fn lines_are_the_same_compressed_and_in_several_members() {
        let plain = b"{}\r\n\n  \n[1]\nlast".to_vec();
        let want = vec![
            Ok("{}".to_owned()),
            Ok("[1]".to_owned()),
            Ok("last".to_owned()),
        ];
        assert_eq!(lines(&plain, 64), want);
        let mut members = gzip(&plain[..5]);
        members.extend(gzip(&plain[5..]));
        assert_eq!(lines(&members, 64), want);
    }

    #[test]
    fn a_line_beyond_the_bound_costs_itself() {
        let got = lines(b"aaaa\nbbbbb\ncccc\n", 4);
        let want = [
            Ok("aaaa".to_owned()),
            Err(ErrorKind::LineTooLong),
            Ok("cccc".to_owned()),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn damage_is_told_apart() {
        let whole = gzip("{\"a\":1}\n".repeat(2_000).as_bytes());
        let cut = lines(&whole[..whole.len() - 9], 64);
        assert_eq!(cut.last(), Some(&Err(ErrorKind::Truncated)));
        let mut damaged = whole.clone();
        let last = damaged.len() - 6;
        damaged[last] ^= 0xff;
        assert_eq!(
            lines(&damaged, 64).last(),
            Some(&Err(ErrorKind::Compression))
        );
        assert_eq!(lines(b"\xff\xfe\n{}\n", 64)[0], Err(ErrorKind::Encoding));
    }
}
