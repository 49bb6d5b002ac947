//! What is measured: scenarios, each with its rows.
//!
//! A scenario runs every system through the same work, one after the other, as many rounds as asked
//! for, so that what else the machine does meets all of them. The goals are those that the project
//! has set itself; a row without one is there to be seen.
mod copies;
mod hashing;
mod hot;
mod life;
mod memory;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::peers::{ALONE, SMG};
use crate::report::{Goal, Row, Table};
use crate::workload::{File, Naming, Route, Shape, mooncake, sessions};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// What the goals speak of.
    Full,
    /// Enough to see that everything works.
    Quick,
}

/// Why a scenario was not measured.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The trace is not on this machine.
    Absent(String),
    /// It is there and cannot be read.
    Broken(String),
}

/// What scenarios share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) data: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) size: Size,
    pub(crate) naming: Naming,
    pub(crate) sessions: OnceCell<Vec<File>>,
    pub(crate) mooncake: OnceCell<Vec<File>>,
}

impl Context {
    /// `full` things, or fewer when it should be quick.
    fn many(&self, full: usize) -> usize {
        match self.size {
            Size::Full => full,
            Size::Quick => full / 8,
        }
    }

    fn shape(&self, blocks: usize, workers: usize) -> Shape {
        Shape {
            blocks: self.many(blocks),
            workers,
            route: Route::BySession,
            naming: self.naming,
        }
    }

    fn sessions(&self) -> Result<&[File], Obstacle> {
        let folder = self.data.join("claude-code-sessions");
        load(&self.sessions, &folder, sessions::read)
    }

    fn mooncake(&self) -> Result<&[File], Obstacle> {
        let path = self.data.join("mooncake/conversation_trace.jsonl.gz");
        load(&self.mooncake, &path, |path| {
            Ok(vec![mooncake::read(path)?])
        })
    }
}

fn load<'a>(
    cell: &'a OnceCell<Vec<File>>,
    path: &Path,
    read: impl FnOnce(&Path) -> Result<Vec<File>, String>,
) -> Result<&'a [File], Obstacle> {
    if cell.get().is_none() {
        if !path.exists() {
            return Err(Obstacle::Absent(format!("{} is absent", path.display())));
        }
        let files = read(path).map_err(Obstacle::Broken)?;
        if files.is_empty() {
            let detail = format!("{} holds no trace", path.display());
            return Err(Obstacle::Broken(detail));
        }
        return Ok(cell.get_or_init(|| files));
    }
    Ok(cell.get().map_or(&[], Vec::as_slice))
}

/// Rows that are measured together.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) rows: &'static [Row],
    pub(crate) run: fn(&Context, &mut Table) -> Result<(), Obstacle>,
}

/// All of them, in the order of the table.
pub(crate) static ALL: [Scenario; 10] = [
    Scenario {
        name: "hot",
        rows: &hot::ROWS,
        run: hot::run,
    },
    Scenario {
        name: "hash",
        rows: &hashing::ROWS,
        run: hashing::run,
    },
    Scenario {
        name: "sessions",
        rows: &[
            Row::best("find.cold.next-turn.p50", "ns", Goal::Ratio(0.35)),
            Row::best("find.cold.random-past.p50", "ns", Goal::Ratio(0.55)),
            Row::best("find.cold.random-past.p99", "ns", Goal::Ratio(0.55)),
            Row::best("store.as-a-router", "ns/block", Goal::Ratio(0.45)),
            Row::only("apply.turn.p99.9", "ns", SMG, Goal::Ratio(0.25)),
            Row::best("remove.lru", "ns/block", Goal::Ratio(0.25)),
            Row::only("remove.middle.sessions", "ns", SMG, Goal::Ratio(1.3)),
            Row::best("clear.worker", "ns/block", Goal::Ratio(0.5)),
        ],
        run: life::sessions,
    },
    Scenario {
        name: "sessions-64",
        rows: &[
            Row::best(
                "find.cold.next-turn.64-workers.p50",
                "ns",
                Goal::Ratio(0.35),
            ),
            Row::best(
                "store.as-a-router.64-workers",
                "ns/block",
                Goal::Ratio(0.45),
            ),
        ],
        run: life::sessions_64,
    },
    Scenario {
        name: "events-only",
        rows: &[Row::best("store.events-only", "ns/block", Goal::Ratio(1.0))],
        run: copies::events_only,
    },
    Scenario {
        name: "mooncake",
        rows: &[
            Row::best("find.cold.mooncake.p50", "ns", Goal::None),
            Row::best("store.mooncake", "ns/block", Goal::Ratio(0.65)),
            Row::only("remove.middle.mooncake", "ns", SMG, Goal::None),
        ],
        run: life::mooncake,
    },
    Scenario {
        name: "same-blocks",
        rows: &[Row::best(
            "store.same-blocks.8-workers",
            "ns/block",
            Goal::Ratio(0.15),
        )],
        run: copies::same_blocks,
    },
    Scenario {
        name: "ten-million",
        rows: &[
            Row::best("find.cold.next-turn.10m.p50", "ns", Goal::Ratio(0.55)),
            Row::best("store.as-a-router.10m", "ns/block", Goal::None),
        ],
        run: life::ten_million,
    },
    Scenario {
        name: "upkeep",
        rows: &[Row::only(
            "sessions.upkeep",
            "ns/block",
            ALONE.name,
            Goal::Ratio(1.5),
        )],
        run: life::upkeep,
    },
    Scenario {
        name: "memory",
        rows: &memory::ROWS,
        run: memory::run,
    },
];
