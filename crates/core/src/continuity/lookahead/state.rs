//! Where a session stands in its rhythm of free and locked turns, and what it asks for there.

use super::super::model::Grade;

/// How many states there are.
pub(super) const STATES: usize = 12;
/// Positions a grade.
const POSITIONS: usize = 4;

/// The grade that a turn asks for x its position: locked, or how many free turns came since the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl State {
    /// A turn that asks for `grade`; `free_turns` came since the last locked one.
    #[must_use]
    pub(super) fn new(grade: Grade, is_locked: bool, free_turns: u32) -> Self {
        let position = match is_locked {
            true => 0,
            false => 1 + free_turns.min(2) as usize,
        };
        Self((grade.index() * POSITIONS + position) as u8)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..STATES as u8).map(Self)
    }

    pub(super) const fn grade(self) -> usize {
        self.index() / POSITIONS
    }

    pub(super) const fn is_locked(self) -> bool {
        self.index().is_multiple_of(POSITIONS)
    }

    /// The two states that may follow while the same grade is asked for: locked, and free.
    pub(super) const fn successors(self, grade: usize) -> (usize, usize) {
        let position = self.index() % POSITIONS;
        let free = match position {
            0 => 1,
            1 => 2,
            _ => 3,
        };
        (grade * POSITIONS, grade * POSITIONS + free)
    }
}
