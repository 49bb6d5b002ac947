//! What engines are known to send, one row a kind: what happens, how much of a prompt each place has
//! then, and which anomaly is counted.
//!
//! A path is written as its blocks from the root, a letter each: `abc` is the block `c` below `ab`. Names
//! are not the chain hashes: they come from the path's letters, and from which words the engine uses.
use std::num::NonZeroU32;

use warmpath_core::block::{Chain, Seed, extend, hash_content};
use warmpath_core::prefix::{
    Anomalies, Overlap, PlaceOptions, PrefixIndex, StoredBlock, StoredBlocks, Tier,
};
use warmpath_core::{Micros, PlaceId, WorkerId};

const BLOCK: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// Forty different blocks.
const LONG: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcd";

/// Places 0 and 1 use the same words.
const OTHER_WORDS: usize = 2;
/// Uses the number of `abc` for `cba`.
const OTHER_DOMAIN: usize = 3;
/// Takes blocks of 16 tokens only.
const STRICT: usize = 4;
/// Another tier and another rank of the worker that place 0 is of.
const HOST: usize = 5;
const RANK: usize = 6;

type Path = &'static str;

/// One thing that happens at a place.
#[derive(Clone, Copy)]
enum Do {
    /// Blocks are stored below a path.
    Store(usize, Path, Path),
    /// As the words of place 2 have it.
    StoreInOtherWords(usize, Path, Path),
    /// So many tokens in each block.
    StoreOfSize(usize, Path, u32),
    /// The parent and the blocks by name; of each block its name and its content.
    Raw(usize, Option<Path>, &'static [(Path, char)]),
    /// A root block whose content is such that its chain hash is that of a path.
    Crafted(usize, Path),
    Remove(usize, &'static [Path]),
    RemoveInOtherWords(usize, &'static [Path]),
    Predict(usize, Path),
    Clear(usize),
    Leave(usize),
    /// So many times.
    Times(u32, &'static Do),
}

use Do::*;

struct Row {
    kind: &'static str,
    events: &'static [Do],
    /// Prompt, then the blocks of it at each place that has any.
    expected: &'static [(Path, &'static [(usize, u32)])],
    anomalies: Anomalies,
}

const NONE: Anomalies = Anomalies {
    unknown_place: 0,
    unknown_parent: 0,
    unknown_name: 0,
    self_parent: 0,
    cycle: 0,
    other_parent: 0,
    repeated: 0,
    wrong_block_size: 0,
    unnamed: 0,
    copies: 0,
    not_held: 0,
};

const ROWS: &[Row] = &[
    Row {
        kind: "names that are not the chain hashes",
        events: &[Store(0, "", "abcdefghijkl")],
        expected: &[("abcdefghijkl", &[(0, 12)])],
        anomalies: NONE,
    },
    Row {
        kind: "a hole in the middle",
        events: &[Store(0, "", LONG), Remove(0, &["ABCDEFGHIJKLMNOPQRSTU"])],
        expected: &[(LONG, &[(0, 20)])],
        anomalies: NONE,
    },
    Row {
        kind: "a hole, refilled",
        events: &[
            Store(0, "", "abcdefgh"),
            Remove(0, &["abcd"]),
            Store(0, "abc", "d"),
        ],
        expected: &[("abcdefgh", &[(0, 8)])],
        anomalies: NONE,
    },
    Row {
        kind: "a hole, refilled by an event that reaches into what is behind it",
        events: &[
            Store(0, "", "abcdefgh"),
            Remove(0, &["abcd"]),
            Store(0, "abc", "de"),
        ],
        expected: &[("abcdefgh", &[(0, 8)])],
        anomalies: Anomalies { copies: 1, ..NONE },
    },
    Row {
        kind: "the head removed and stored again",
        events: &[
            Store(0, "", "abcdefgh"),
            Remove(0, &["a"]),
            Store(0, "", "a"),
        ],
        expected: &[("abcdefgh", &[(0, 8)])],
        anomalies: NONE,
    },
    Row {
        kind: "two holes, the first refilled",
        events: &[
            Store(0, "", "abcdefgh"),
            Remove(0, &["ab", "abcdef"]),
            Store(0, "a", "b"),
        ],
        expected: &[("abcdefgh", &[(0, 5)])],
        anomalies: NONE,
    },
    Row {
        kind: "a hole that another place has refilled for itself",
        events: &[
            Store(0, "", "abcd"),
            Remove(0, &["ab"]),
            Store(1, "", "abcd"),
        ],
        expected: &[("abcd", &[(0, 1), (1, 4)])],
        anomalies: NONE,
    },
    Row {
        kind: "a removal of [unknown, known]",
        events: &[Store(0, "", "abc"), Remove(0, &["zz", "abc"])],
        expected: &[("abc", &[(0, 2)])],
        anomalies: Anomalies {
            not_held: 1,
            ..NONE
        },
    },
    Row {
        kind: "a removal of [known, unknown, known]",
        events: &[Store(0, "", "abc"), Remove(0, &["abc", "zz", "ab"])],
        expected: &[("abc", &[(0, 1)])],
        anomalies: Anomalies {
            not_held: 1,
            ..NONE
        },
    },
    Row {
        kind: "a removal that names one block twice",
        events: &[Store(0, "", "abc"), Remove(0, &["abc", "abc"])],
        expected: &[("abc", &[(0, 2)])],
        anomalies: Anomalies {
            not_held: 1,
            ..NONE
        },
    },
    Row {
        kind: "a removal in no order at all",
        events: &[
            Store(0, "", "abcdef"),
            Remove(0, &["abc", "abcdef", "abcd", "abcde"]),
        ],
        expected: &[("abcdef", &[(0, 2)])],
        anomalies: NONE,
    },
    Row {
        kind: "a removal of nothing",
        events: &[Store(0, "", "abc"), Remove(0, &[])],
        expected: &[("abc", &[(0, 3)])],
        anomalies: NONE,
    },
    Row {
        kind: "a removal of what nobody has stored",
        events: &[Store(0, "", "abc"), Remove(0, &["x"])],
        expected: &[("abc", &[(0, 3)])],
        anomalies: Anomalies {
            not_held: 1,
            ..NONE
        },
    },
    Row {
        kind: "a removal of what only another place has",
        events: &[Store(0, "", "abc"), Remove(1, &["abc"])],
        expected: &[("abc", &[(0, 3)])],
        anomalies: Anomalies {
            not_held: 1,
            ..NONE
        },
    },
    Row {
        kind: "a known block below itself",
        events: &[Store(0, "", "ab"), Raw(0, Some("ab"), &[("ab", 'b')])],
        expected: &[("abb", &[(0, 2)])],
        anomalies: Anomalies {
            self_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "an unknown block below itself",
        events: &[Store(0, "", "ab"), Raw(0, Some("x"), &[("x", 'x')])],
        expected: &[("ab", &[(0, 2)]), ("xx", &[])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "a block below its own descendant",
        events: &[Store(0, "", "abc"), Raw(0, Some("abc"), &[("a", 'a')])],
        expected: &[("abca", &[(0, 3)])],
        anomalies: Anomalies { cycle: 1, ..NONE },
    },
    Row {
        kind: "a block below its own descendant, with another place's branch between them",
        events: &[
            Store(1, "", "ax"),
            Store(0, "", "abc"),
            Raw(0, Some("abc"), &[("a", 'a')]),
        ],
        expected: &[("abca", &[(0, 3), (1, 1)])],
        anomalies: Anomalies { cycle: 1, ..NONE },
    },
    Row {
        kind: "a cycle in one event",
        events: &[Raw(0, None, &[("a", 'a'), ("ab", 'b'), ("a", 'a')])],
        expected: &[("aba", &[(0, 2)])],
        anomalies: Anomalies {
            repeated: 1,
            ..NONE
        },
    },
    Row {
        kind: "the same block twice in one event",
        events: &[Raw(0, None, &[("a", 'a'), ("a", 'a'), ("ab", 'b')])],
        expected: &[("ab", &[(0, 1)]), ("aab", &[(0, 1)])],
        anomalies: Anomalies {
            repeated: 1,
            ..NONE
        },
    },
    Row {
        kind: "an event that comes back to its own parent",
        events: &[
            Store(0, "", "ab"),
            Raw(0, Some("ab"), &[("abc", 'c'), ("ab", 'b'), ("abcd", 'd')]),
        ],
        expected: &[("abcbd", &[(0, 3)])],
        anomalies: Anomalies {
            repeated: 1,
            ..NONE
        },
    },
    Row {
        kind: "an event that comes back to itself and then to its own parent",
        events: &[
            Store(0, "", "ab"),
            Raw(
                0,
                Some("ab"),
                &[("abc", 'c'), ("abc", 'c'), ("abcd", 'd'), ("ab", 'b')],
            ),
        ],
        expected: &[("abccd", &[(0, 3)])],
        anomalies: Anomalies {
            repeated: 1,
            ..NONE
        },
    },
    Row {
        kind: "an engine calls the same content otherwise, then extends it",
        events: &[
            Store(0, "", "abcdefgh"),
            StoreInOtherWords(OTHER_WORDS, "", "abcdefgh"),
            StoreInOtherWords(OTHER_WORDS, "abcdefgh", "ij"),
        ],
        expected: &[("abcdefghij", &[(0, 8), (OTHER_WORDS, 10)])],
        anomalies: NONE,
    },
    Row {
        kind: "both of two that disagree about names extend, and one drops its end",
        events: &[
            Store(0, "", "abcd"),
            StoreInOtherWords(OTHER_WORDS, "", "abcd"),
            StoreInOtherWords(OTHER_WORDS, "abcd", "ef"),
            Store(0, "abcd", "efg"),
            RemoveInOtherWords(OTHER_WORDS, &["abcdef", "abcde"]),
        ],
        expected: &[("abcdefg", &[(0, 7), (OTHER_WORDS, 4)])],
        anomalies: NONE,
    },
    Row {
        kind: "a removal in the words of another engine of the domain",
        events: &[
            Store(0, "", "ab"),
            StoreInOtherWords(OTHER_WORDS, "", "ab"),
            Remove(OTHER_WORDS, &["ab"]),
        ],
        expected: &[("ab", &[(0, 2), (OTHER_WORDS, 1)])],
        anomalies: NONE,
    },
    Row {
        kind: "stored twice, removed once",
        events: &[
            Store(0, "", "abcd"),
            Store(0, "", "abcd"),
            Remove(0, &["abcd"]),
        ],
        expected: &[("abcd", &[(0, 4)])],
        anomalies: Anomalies { copies: 4, ..NONE },
    },
    Row {
        kind: "stored twice, removed twice",
        events: &[
            Store(0, "", "abcd"),
            Store(0, "", "abcd"),
            Remove(0, &["abcd"]),
            Remove(0, &["abcd"]),
        ],
        expected: &[("abcd", &[(0, 3)])],
        anomalies: Anomalies { copies: 4, ..NONE },
    },
    Row {
        kind: "stored again and again, removed as often as is believed",
        events: &[
            Times(100, &Store(0, "", "ab")),
            Times(65, &Remove(0, &["ab"])),
        ],
        expected: &[("ab", &[(0, 1)])],
        anomalies: Anomalies {
            copies: 198,
            ..NONE
        },
    },
    Row {
        kind: "copies at one place are none at another",
        events: &[
            Times(2, &Store(0, "", "ab")),
            Store(1, "", "ab"),
            Remove(1, &["ab"]),
            Remove(0, &["ab"]),
        ],
        expected: &[("ab", &[(0, 2), (1, 1)])],
        anomalies: Anomalies { copies: 2, ..NONE },
    },
    Row {
        kind: "a parent that nobody knows",
        events: &[Store(0, "", "ab"), Store(0, "xyz", "c")],
        expected: &[("ab", &[(0, 2)]), ("xyzc", &[])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "the child before the parent",
        events: &[Store(0, "ab", "c"), Store(0, "", "ab")],
        expected: &[("abc", &[(0, 2)])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "the child before the parent, and again after it",
        events: &[Store(0, "ab", "c"), Store(0, "", "ab"), Store(0, "ab", "c")],
        expected: &[("abc", &[(0, 3)])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "a parent that only another place has",
        events: &[Store(0, "", "ab"), Store(1, "ab", "c")],
        expected: &[("abc", &[(0, 2)])],
        anomalies: NONE,
    },
    Row {
        kind: "a parent that only another place has, and then this one",
        events: &[Store(0, "", "ab"), Store(1, "ab", "c"), Store(1, "", "ab")],
        expected: &[("abc", &[(0, 2), (1, 3)])],
        anomalies: NONE,
    },
    Row {
        kind: "a parent that is known in another domain only",
        events: &[Store(0, "", "ab"), Store(OTHER_DOMAIN, "ba", "c")],
        expected: &[("abc", &[(0, 2)]), ("bac", &[])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "two domains use the same numbers for different content",
        events: &[
            Store(0, "", "abc"),
            Store(OTHER_DOMAIN, "", "cba"),
            Store(OTHER_DOMAIN, "cba", "d"),
            Remove(0, &["abc"]),
        ],
        expected: &[("abc", &[(0, 2)]), ("cbad", &[(OTHER_DOMAIN, 4)])],
        anomalies: NONE,
    },
    Row {
        kind: "two domains use the same numbers, and one is cleared",
        events: &[
            Store(0, "", "abc"),
            Store(OTHER_DOMAIN, "", "cba"),
            Clear(0),
            Store(OTHER_DOMAIN, "cba", "d"),
            Remove(OTHER_DOMAIN, &["cb"]),
        ],
        expected: &[("abc", &[]), ("cbad", &[(OTHER_DOMAIN, 1)])],
        anomalies: NONE,
    },
    Row {
        kind: "a root block that is made to look like another's child",
        events: &[Store(1, "", "ax"), Store(0, "", "ab"), Crafted(0, "ab")],
        expected: &[("ab", &[(0, 2), (1, 1)])],
        anomalies: Anomalies {
            other_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "a clear",
        events: &[Store(0, "", "abc"), Store(1, "", "ab"), Clear(0)],
        expected: &[("abc", &[(1, 2)])],
        anomalies: NONE,
    },
    Row {
        kind: "a clear, then a child of what is gone",
        events: &[Store(0, "", "abc"), Clear(0), Store(0, "abc", "d")],
        expected: &[("abcd", &[])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "a clear, then everything again",
        events: &[Store(0, "", "abc"), Clear(0), Store(0, "", "abc")],
        expected: &[("abc", &[(0, 3)])],
        anomalies: NONE,
    },
    Row {
        kind: "a clear takes the copies along",
        events: &[
            Times(3, &Store(0, "", "ab")),
            Clear(0),
            Store(0, "", "ab"),
            Remove(0, &["ab"]),
        ],
        expected: &[("ab", &[(0, 1)])],
        anomalies: Anomalies { copies: 4, ..NONE },
    },
    Row {
        kind: "everything removed one by one, then a child of what is gone",
        events: &[
            Store(0, "", "abc"),
            Remove(0, &["a", "ab", "abc"]),
            Store(0, "ab", "d"),
        ],
        expected: &[("abd", &[]), ("d", &[])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "a store of nothing",
        events: &[Store(0, "", "ab"), Store(0, "", ""), Store(0, "ab", "")],
        expected: &[("ab", &[(0, 2)])],
        anomalies: NONE,
    },
    Row {
        kind: "a store of nothing below what nobody knows",
        events: &[Store(0, "", "ab"), Store(0, "x", "")],
        expected: &[("ab", &[(0, 2)])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
    Row {
        kind: "blocks of another size",
        events: &[
            Store(STRICT, "", "ab"),
            StoreOfSize(STRICT, "abc", 32),
            StoreOfSize(STRICT, "abc", 0),
        ],
        expected: &[("abc", &[(STRICT, 2)])],
        anomalies: Anomalies {
            wrong_block_size: 2,
            ..NONE
        },
    },
    Row {
        kind: "events of a place that has left",
        events: &[
            Store(0, "", "ab"),
            Store(1, "", "ab"),
            Leave(0),
            Store(0, "ab", "c"),
            Remove(0, &["ab"]),
            Predict(0, "ab"),
        ],
        expected: &[("abc", &[(1, 2)])],
        anomalies: Anomalies {
            unknown_place: 3,
            ..NONE
        },
    },
    Row {
        kind: "a removal at one tier and at one rank",
        events: &[
            Store(0, "", "abc"),
            Store(HOST, "", "abc"),
            Store(RANK, "", "abc"),
            Remove(0, &["abc"]),
            Remove(RANK, &["ab"]),
        ],
        expected: &[("abc", &[(0, 2), (HOST, 3), (RANK, 1)])],
        anomalies: NONE,
    },
    Row {
        kind: "a block goes to another tier, its parent named by the nearer one",
        events: &[
            Store(0, "", "abc"),
            Store(HOST, "ab", "c"),
            Remove(0, &["abc"]),
            Store(HOST, "a", "b"),
            Remove(0, &["ab"]),
            Store(HOST, "", "a"),
        ],
        expected: &[("abc", &[(0, 1), (HOST, 3)])],
        anomalies: NONE,
    },
    Row {
        kind: "events for what was only predicted",
        events: &[
            Predict(0, "abcd"),
            Store(0, "", "ab"),
            Remove(0, &["ab"]),
            Store(0, "abcd", "e"),
        ],
        expected: &[("abcde", &[(0, 1)])],
        anomalies: Anomalies {
            unknown_parent: 1,
            ..NONE
        },
    },
];

struct Fleet {
    index: PrefixIndex,
    places: Vec<PlaceId>,
}

impl Fleet {
    fn new() -> Self {
        let mut index = PrefixIndex::new(100_000);
        let device = |worker, domain, block_tokens| {
            let options = PlaceOptions {
                domain,
                block_tokens,
                ..PlaceOptions::default()
            };
            (WorkerId(worker), 0, Tier::Device, options)
        };
        let beside = |rank, tier| (WorkerId(0), rank, tier, PlaceOptions::default());
        let places = [
            device(0, 0, None),
            device(1, 0, None),
            device(2, 0, None),
            device(3, 1, None),
            device(4, 0, Some(BLOCK.get())),
            beside(0, Tier::Host),
            beside(1, Tier::Device),
        ];
        let places = places.map(|(worker, rank, tier, options)| {
            let place = index.add_place(worker, rank, tier, options);
            place.expect("a new place")
        });
        Self {
            index,
            places: places.to_vec(),
        }
    }

    fn happen(&mut self, event: &Do) {
        match *event {
            Store(place, above, blocks) => {
                let words = if place == OTHER_DOMAIN {
                    Words::Reversed
                } else {
                    Words::Plain
                };
                self.store(place, words, above, blocks);
            }
            StoreInOtherWords(place, above, blocks) => {
                self.store(place, Words::Other, above, blocks);
            }
            StoreOfSize(place, path, block_tokens) => {
                let blocks = blocks_of(Words::Plain, "", path);
                let event = StoredBlocks {
                    parent: None,
                    block_tokens,
                    blocks: &blocks,
                };
                assert_eq!(self.index.store(self.places[place], &event), 0);
            }
            Raw(place, parent, blocks) => {
                let block = |&(name, content): &(Path, char)| StoredBlock {
                    name: Words::Plain.name(name),
                    local: local(content),
                };
                let blocks: Vec<StoredBlock> = blocks.iter().map(block).collect();
                self.tell(place, parent.map(|p| Words::Plain.name(p)), &blocks);
            }
            Crafted(place, path) => {
                let looks_like = *chain(path).hashes().last().expect("a path");
                let block = StoredBlock {
                    name: Words::Plain.name("!"),
                    local: looks_like,
                };
                self.tell(place, None, &[block]);
            }
            Remove(place, paths) => {
                let words = if place == OTHER_DOMAIN {
                    Words::Reversed
                } else {
                    Words::Plain
                };
                self.remove(place, words, paths);
            }
            RemoveInOtherWords(place, paths) => self.remove(place, Words::Other, paths),
            Predict(place, path) => {
                let place = self.places[place];
                self.index.predict(Micros(1), place, &chain(path));
            }
            Clear(place) => self.index.clear(self.places[place]),
            Leave(place) => assert!(self.index.remove_place(self.places[place])),
            Times(n, event) => (0..n).for_each(|_| self.happen(event)),
        }
    }

    fn store(&mut self, place: usize, words: Words, above: Path, blocks: Path) {
        let parent = (!above.is_empty()).then(|| words.name(above));
        self.tell(place, parent, &blocks_of(words, above, blocks));
    }

    fn tell(&mut self, place: usize, parent: Option<u64>, blocks: &[StoredBlock]) {
        let event = StoredBlocks {
            parent,
            block_tokens: BLOCK.get(),
            blocks,
        };
        self.index.store(self.places[place], &event);
    }

    fn remove(&mut self, place: usize, words: Words, paths: &[Path]) {
        let names: Vec<u64> = paths.iter().map(|path| words.name(path)).collect();
        self.index.remove(self.places[place], &names);
    }

    fn blocks(&self, path: Path) -> Vec<(usize, u32)> {
        let mut overlap = Overlap::new();
        self.index.find(&chain(path), &mut overlap);
        let blocks = self.places.iter().map(|place| overlap.blocks_at(*place));
        (0..)
            .zip(blocks)
            .filter(|(_, blocks)| *blocks > 0)
            .collect()
    }
}

/// How an engine makes a name of a path.
#[derive(Clone, Copy)]
enum Words {
    Plain,
    Other,
    Reversed,
}

impl Words {
    fn name(self, path: &str) -> u64 {
        let fold = |name: u64, letter| (name ^ letter as u64).wrapping_mul(0x0100_0000_01b3);
        match self {
            Self::Plain => path.chars().fold(0x1234, fold),
            Self::Other => path.chars().fold(0x5678, fold),
            Self::Reversed => path.chars().rev().fold(0x1234, fold),
        }
    }
}

fn blocks_of(words: Words, above: &str, blocks: &str) -> Vec<StoredBlock> {
    let path = format!("{above}{blocks}");
    let block = |n: usize| StoredBlock {
        name: words.name(&path[..n]),
        local: local(path.as_bytes()[n - 1].into()),
    };
    (above.len() + 1..=path.len()).map(block).collect()
}

fn chain(path: &str) -> Chain {
    let contents: Vec<u64> = path.chars().map(u64::from).collect();
    let mut chain = Chain::new();
    hash_content(&contents, BLOCK, None, Seed::default(), &mut chain);
    chain
}

fn local(content: char) -> u64 {
    chain(content.encode_utf8(&mut [0; 4])).hashes()[0]
}

#[test]
fn every_kind_of_input_is_right() {
    let mut wrong = Vec::new();
    for row in ROWS {
        let mut fleet = Fleet::new();
        row.events.iter().for_each(|event| fleet.happen(event));
        for (prompt, expected) in row.expected {
            let found = fleet.blocks(prompt);
            if found != *expected {
                wrong.push(format!(
                    "{}: {prompt} at {found:?}, not {expected:?}",
                    row.kind
                ));
            }
        }
        let found = fleet.index.stats().anomalies;
        if found != row.anomalies {
            wrong.push(format!("{}: {found:?}, not {:?}", row.kind, row.anomalies));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_kind_of_input_leaves_anything_behind() {
    for row in ROWS {
        let mut fleet = Fleet::new();
        row.events.iter().for_each(|event| fleet.happen(event));
        for place in fleet.places.clone() {
            fleet.index.remove_place(place);
        }
        let stats = fleet.index.stats();
        assert_eq!(
            (stats.blocks, stats.runs, stats.anchors),
            (0, 0, 0),
            "{}",
            row.kind
        );
    }
}

#[test]
fn a_crafted_chain_is_the_one_it_looks_like() {
    let path = chain("ab");
    assert_eq!(extend(local('a'), local('b')), path.hashes()[1]);
}
