//! What do the turns ask for, and what do the engines then say?
//!
//! A trace file becomes a tree of its blocks and, per turn, a path through it: the prompt, and below
//! it what the engine generated where the session's next turn shows it. A workload is files, each
//! taken as often as its size asks for with other contents each time (salted copies), laid over one
//! another in time and spread over workers. Engines forget nothing here: a turn's events are the
//! blocks of its path that its worker has not had yet.
//!
//! Contents are hashed as everybody does: XXH3-64 with seed 1337, chained. Names of blocks are the
//! engine's own, opaque, unless asked otherwise. Built once, before anything is timed.
pub(crate) mod mooncake;
pub(crate) mod sessions;

use std::collections::HashMap;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::peers::{Prompt, SessionName, Stretch};

/// Blocks in one event: a prompt is computed in chunks, and each chunk is an event.
pub(crate) const EVENT_BLOCKS: usize = 128;
/// Copies of sessions start within this many seconds of each other: a working day.
const DAY: f64 = 8.0 * 3600.0;
const SEED: u64 = 1337;

/// How an engine names its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By numbers that say nothing to anybody else.
    Opaque,
    /// By the chain hash.
    Chain,
}

/// Who goes to which worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A session stays where it is.
    BySession,
    /// Each turn goes anywhere.
    ByTurn,
}

/// One file of a trace.
#[derive(Debug, Default)]
pub(crate) struct File {
    turns: Vec<FileTurn>,
    /// Paths of all turns, as nodes.
    paths: Vec<u32>,
    /// By node: the one above, and what the trace calls the content.
    nodes: Vec<(Option<u32>, u32)>,
    by_content: HashMap<(Option<u32>, u32), u32>,
}

#[derive(Debug)]
struct FileTurn {
    at: f64,
    session: u32,
    path: Range<usize>,
    prompt: usize,
}

impl File {
    /// Adds a turn; turns come in the order of time. `ids` name the contents of the prompt and, below
    /// it, of what was generated.
    fn push(&mut self, at: f64, session: u32, ids: &[u32], prompt: usize) {
        let from = self.paths.len();
        let mut above = None;
        for &id in ids {
            let next = self.nodes.len() as u32;
            let node = *self.by_content.entry((above, id)).or_insert(next);
            if node == next {
                self.nodes.push((above, id));
            }
            self.paths.push(node);
            above = Some(node);
        }
        self.turns.push(FileTurn {
            at,
            session,
            path: from..self.paths.len(),
            prompt,
        });
    }
}

/// What to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Distinct blocks, at least, where the files have so many or may be copied.
    pub(crate) blocks: usize,
    pub(crate) workers: usize,
    pub(crate) route: Route,
    pub(crate) naming: Naming,
}

/// A file with contents of its own.
#[derive(Debug)]
struct Copied {
    file: usize,
    /// Its first node among those of the workload.
    first: usize,
}

/// One turn of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    copy: u32,
    turn: u32,
    pub(crate) worker: usize,
    /// Blocks of the path that the worker has already.
    known: usize,
}

/// A block at a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBlock {
    pub(crate) worker: usize,
    /// The turn that used it last; blocks of one turn come deepest first.
    pub(crate) turn: usize,
    pub(crate) name: u64,
}

/// Turns in the order of time.
#[derive(Debug)]
pub(crate) struct Workload<'a> {
    files: &'a [File],
    copies: Vec<Copied>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) workers: usize,
    contents: Vec<u64>,
    locals: Vec<u64>,
    chains: Vec<u64>,
    names: Vec<u64>,
}

impl<'a> Workload<'a> {
    pub(crate) fn new(files: &'a [File], shape: &Shape) -> Self {
        let mut new = Self {
            files,
            copies: Vec::new(),
            turns: Vec::new(),
            workers: shape.workers,
            contents: Vec::new(),
            locals: Vec::new(),
            chains: Vec::new(),
            names: Vec::new(),
        };
        let mut turns = Vec::new();
        for file in (0..files.len()).cycle() {
            if new.contents.len() >= shape.blocks {
                break;
            }
            let copy = new.copies.len();
            let first = new.contents.len();
            new.copies.push(Copied { file, first });
            new.name_blocks(copy, shape.naming);
            new.route(copy, shape, &mut turns);
        }
        turns.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        new.turns = turns.into_iter().map(|(_, turn)| turn).collect();
        new
    }

    fn name_blocks(&mut self, copy: usize, naming: Naming) {
        let Copied { file, first } = self.copies[copy];
        for &(above, id) in &self.files[file].nodes {
            let content = mix((copy as u64) << 32 | u64::from(id));
            let local = xxh3_64_with_seed(&content.to_le_bytes(), SEED);
            let chain = match above {
                None => local,
                Some(above) => extend(self.chains[first + above as usize], local),
            };
            self.contents.push(content);
            self.locals.push(local);
            self.chains.push(chain);
            self.names.push(match naming {
                Naming::Opaque => mix(chain),
                Naming::Chain => chain,
            });
        }
    }

    /// Gives each turn a worker and what that worker knows of it.
    fn route(&self, copy: usize, shape: &Shape, turns: &mut Vec<(f64, Turn)>) {
        let file = &self.files[self.copies[copy].file];
        let start = mix(copy as u64) as f64 / u64::MAX as f64 * DAY;
        let mut held: HashMap<usize, Vec<bool>> = HashMap::new();
        for (i, turn) in file.turns.iter().enumerate() {
            let key = match shape.route {
                Route::BySession => u64::from(turn.session),
                Route::ByTurn => i as u64,
            };
            let worker = mix(mix(copy as u64) ^ key) as usize % shape.workers;
            let none = || vec![false; file.nodes.len()];
            let held = held.entry(worker).or_insert_with(none);
            let path = &file.paths[turn.path.clone()];
            // What a worker has of a path is a head of it, since it forgets nothing.
            let known = path.partition_point(|&node| held[node as usize]);
            path[known..].iter().for_each(|&n| held[n as usize] = true);
            let placed = Turn {
                copy: copy as u32,
                turn: i as u32,
                worker,
                known,
            };
            turns.push((start + turn.at, placed));
        }
    }

    /// Distinct blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.contents.len()
    }

    /// Blocks that the engines' events tell of.
    pub(crate) fn stored(&self) -> usize {
        let new = |turn: &Turn| self.nodes(turn).0.len() - turn.known;
        self.turns.iter().map(new).sum()
    }

    /// The nodes of a turn's path within its file, and where the file's nodes begin.
    fn nodes(&self, turn: &Turn) -> (&[u32], usize) {
        let copy = &self.copies[turn.copy as usize];
        let file = &self.files[copy.file];
        let range = file.turns[turn.turn as usize].path.clone();
        (&file.paths[range], copy.first)
    }

    /// Everything that workers have after the last turn, least recently used first.
    pub(crate) fn by_age(&self) -> Vec<HeldBlock> {
        let mut seen = vec![false; self.workers * self.blocks()];
        let mut held = Vec::new();
        for (at, turn) in self.turns.iter().enumerate().rev() {
            let (nodes, first) = self.nodes(turn);
            for node in nodes.iter().map(|&n| first + n as usize) {
                let seen = &mut seen[turn.worker * self.blocks() + node];
                if !std::mem::replace(seen, true) {
                    held.push(HeldBlock {
                        worker: turn.worker,
                        turn: at,
                        name: self.names[node],
                    });
                }
            }
        }
        held.reverse();
        held
    }
}

/// The path of one turn, written out. Reusable.
#[derive(Debug, Default)]
pub(crate) struct Path {
    contents: Vec<u64>,
    locals: Vec<u64>,
    chains: Vec<u64>,
    names: Vec<u64>,
    session: SessionName,
    prompt: usize,
    known: usize,
}

impl Path {
    /// Becomes the path of `turn`.
    pub(crate) fn fill(&mut self, workload: &Workload<'_>, turn: &Turn) {
        let (nodes, first) = workload.nodes(turn);
        let gather = |from: &[u64], to: &mut Vec<u64>| {
            to.clear();
            to.extend(nodes.iter().map(|&node| from[first + node as usize]));
        };
        gather(&workload.contents, &mut self.contents);
        gather(&workload.locals, &mut self.locals);
        gather(&workload.chains, &mut self.chains);
        gather(&workload.names, &mut self.names);
        let file = &workload.files[workload.copies[turn.copy as usize].file];
        let FileTurn {
            session, prompt, ..
        } = file.turns[turn.turn as usize];
        self.session = SessionName {
            family: turn.copy,
            member: session,
        };
        self.prompt = prompt;
        self.known = turn.known;
    }

    /// Becomes one chain of `blocks` blocks that nobody has.
    pub(crate) fn synthetic(blocks: usize, salt: u64) -> Self {
        let mut path = Self {
            prompt: blocks,
            ..Self::default()
        };
        for i in 0..blocks as u64 {
            let content = mix(salt << 32 | i);
            let local = xxh3_64_with_seed(&content.to_le_bytes(), SEED);
            let above = path.chains.last().copied();
            let chain = above.map_or(local, |above| extend(above, local));
            path.contents.push(content);
            path.locals.push(local);
            path.chains.push(chain);
            path.names.push(mix(chain));
        }
        path
    }

    pub(crate) fn prompt(&self) -> Prompt<'_> {
        Prompt {
            session: self.session,
            contents: &self.contents[..self.prompt],
            locals: &self.locals[..self.prompt],
            chains: &self.chains[..self.prompt],
        }
    }

    /// Blocks that the worker has not had.
    pub(crate) fn new_blocks(&self) -> usize {
        self.names.len() - self.known
    }

    /// The engine's events of this turn, of at most `size` blocks each.
    pub(crate) fn events(&self, size: usize) -> impl Iterator<Item = Stretch<'_>> {
        let starts = (self.known..self.names.len()).step_by(size);
        starts.map(move |from| {
            let range = from..self.names.len().min(from + size);
            Stretch {
                parent: from.checked_sub(1).map(|above| self.names[above]),
                names: &self.names[range.clone()],
                locals: &self.locals[range],
            }
        })
    }
}

/// Turns numbers into numbers that look random (the finaliser of SplitMix64); never two into one.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn extend(above: u64, local: u64) -> u64 {
    let mut pair = [0; 16];
    pair[..8].copy_from_slice(&above.to_le_bytes());
    pair[8..].copy_from_slice(&local.to_le_bytes());
    xxh3_64_with_seed(&pair, SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sessions; the second shares the first's head, the first then goes on.
    fn file() -> File {
        let mut file = File::default();
        file.push(0.0, 0, &[1, 2, 3], 2);
        file.push(1.0, 1, &[1, 2, 9], 3);
        file.push(2.0, 0, &[1, 2, 3, 4], 4);
        file
    }

    fn shape(blocks: usize, workers: usize) -> Shape {
        Shape {
            blocks,
            workers,
            route: Route::BySession,
            naming: Naming::Opaque,
        }
    }

    #[test]
    fn events_are_what_the_worker_has_not_had() {
        let files = [file()];
        let workload = Workload::new(&files, &shape(1, 1));
        let known: Vec<usize> = workload.turns.iter().map(|turn| turn.known).collect();
        assert_eq!((workload.blocks(), workload.stored()), (5, 5));
        assert_eq!(known, [0, 2, 3]);

        let mut path = Path::default();
        path.fill(&workload, &workload.turns[2]);
        let events: Vec<_> = path.events(128).collect();
        assert_eq!((events.len(), path.new_blocks()), (1, 1));
        assert_eq!(events[0].parent, Some(path.names[2]));
        assert_eq!(events[0].names, [mix(path.chains[3])]);
        path.fill(&workload, &workload.turns[0]);
        assert_eq!(path.prompt().locals.len(), 2);
        let sizes: Vec<_> = path.events(2).map(|event| event.names.len()).collect();
        assert_eq!(sizes, [2, 1]);
    }

    #[test]
    fn copies_share_no_block() {
        let files = [file()];
        let workload = Workload::new(&files, &shape(6, 1));
        assert_eq!((workload.blocks(), workload.turns.len()), (10, 6));
        let mut chains = workload.chains.clone();
        chains.sort_unstable();
        chains.dedup();
        assert_eq!(chains.len(), 10);
    }

    #[test]
    fn what_is_oldest_goes_first_and_the_deepest_of_a_turn() {
        let files = [file()];
        let workload = Workload::new(&files, &shape(1, 1));
        let held = workload.by_age();
        let order: Vec<u64> = held.iter().map(|held| held.name).collect();
        let [one, two, three, nine, four] = workload.names[..] else {
            panic!("five blocks")
        };
        assert_eq!(order, [nine, four, three, two, one]);
        assert_eq!(held[0].turn, 1);
    }
}
