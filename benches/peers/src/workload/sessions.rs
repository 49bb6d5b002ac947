//! Reads recorded Claude Code sessions (the Weka format, gzip): 64-token blocks, ids of contents that
//! are local to a file, sub-agents as sessions of their own.
//!
//! A prompt that begins with the whole prompt before it shows what was generated in between: as many
//! complete blocks as the answer's tokens fill are taken as stored by the turn before.
use std::fs::{self, File as Handle};
use std::io::BufReader;
use std::path::Path;

use flate2::bufread::GzDecoder;
use serde::Deserialize;

use super::File;

const BLOCK_TOKENS: usize = 64;

#[derive(Deserialize)]
struct Recording {
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Request {
    /// Seconds since the file's first request.
    t: f64,
    #[serde(default, rename = "in")]
    input: usize,
    #[serde(default)]
    out: usize,
    #[serde(default)]
    hash_ids: Vec<u32>,
    /// Of a sub-agent, in place of ids.
    #[serde(default)]
    requests: Vec<Request>,
}

struct Asked {
    session: u32,
    request: Request,
}

/// All files of a folder, in the order of their names.
pub(crate) fn read(folder: &Path) -> Result<Vec<File>, String> {
    let unreadable = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "gz"));
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<File, String> {
    let handle = Handle::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = BufReader::new(GzDecoder::new(BufReader::new(handle)));
    let recording: Recording =
        serde_json::from_reader(text).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut asked, mut sessions) = (Vec::new(), 0);
    flatten(recording.requests, 0, &mut sessions, &mut asked);
    asked.sort_by(|a, b| a.request.t.total_cmp(&b.request.t));
    let mut file = File::default();
    for (i, turn) in asked.iter().enumerate() {
        let later = &asked[i + 1..];
        let next = later.iter().find(|other| other.session == turn.session);
        let ids = with_generated(&turn.request, next.map(|next| &next.request));
        let prompt = turn.request.hash_ids.len();
        file.push(turn.request.t, turn.session, ids, prompt);
    }
    Ok(file)
}

fn flatten(requests: Vec<Request>, session: u32, sessions: &mut u32, asked: &mut Vec<Asked>) {
    for mut request in requests {
        let below = std::mem::take(&mut request.requests);
        if !below.is_empty() {
            *sessions += 1;
            flatten(below, *sessions, sessions, asked);
        }
        if !request.hash_ids.is_empty() {
            asked.push(Asked { session, request });
        }
    }
}

fn with_generated<'a>(request: &'a Request, next: Option<&'a Request>) -> &'a [u32] {
    let prompt = &request.hash_ids;
    let Some(next) = next.filter(|next| next.hash_ids.starts_with(prompt)) else {
        return prompt;
    };
    let complete = (request.input + request.out) / BLOCK_TOKENS;
    let end = complete.clamp(prompt.len(), next.hash_ids.len());
    &next.hash_ids[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(input: usize, out: usize, hash_ids: &[u32]) -> Request {
        Request {
            t: 0.0,
            input,
            out,
            hash_ids: hash_ids.to_vec(),
            requests: Vec::new(),
        }
    }

    #[test]
    fn generated_blocks_are_those_that_the_answer_fills() {
        let first = request(130, 70, &[1, 2]);
        let grown = request(400, 9, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(with_generated(&first, Some(&grown)), [1, 2, 3]);
        assert_eq!(with_generated(&first, None), [1, 2]);
        let edited = request(400, 9, &[1, 7, 3, 4]);
        assert_eq!(with_generated(&first, Some(&edited)), [1, 2]);
        let long = request(130, 7_000, &[1, 2]);
        assert_eq!(with_generated(&long, Some(&grown)), grown.hash_ids);
    }

    #[test]
    fn sub_agents_are_sessions() {
        let mut agent = request(0, 0, &[]);
        agent.requests = vec![request(64, 1, &[8]), request(128, 1, &[8, 9])];
        let (mut sessions, mut asked) = (0, Vec::new());
        let all = vec![request(64, 1, &[1]), agent, request(64, 1, &[1])];
        flatten(all, 0, &mut sessions, &mut asked);
        let order: Vec<u32> = asked.iter().map(|turn| turn.session).collect();
        assert_eq!(order, [0, 1, 1, 0]);
    }
}
