//! What has changed behind the back of a snapshot that is being written?
//!
//! Things have small numbers and are written in their order, a few each time; between two times
//! anything may change. What lies before the cursor will be seen as it is then. What lies behind it is
//! noted, and written again at the end, until nothing is left: so the whole is what there was when the
//! last of it was written, and not a mixture. A note costs O(log notes); there is at most one for
//! each number.
use std::collections::BTreeMap;

/// The cursor of a snapshot, and what changed behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The thing to write next, and how many of its parts have been written.
    next: u32,
    offset: u32,
    /// Things behind the cursor, and from which part on they differ from what was written.
    changed: BTreeMap<u32, u32>,
}

/// No part of the thing has changed, but what is said of the whole.
pub(crate) const NO_PART: u32 = u32::MAX;

impl Watch {
    /// The thing has changed: its parts from `from` on, and what is said of the whole. A thing that is
    /// gone, or whose number has been given away again, has changed from 0 on.
    pub(crate) fn note(&mut self, number: u32, from: u32) {
        let is_begun = number == self.next && self.offset > 0;
        if is_begun {
            self.offset = from.min(self.offset);
        }
        if number < self.next || is_begun {
            let noted = self.changed.entry(number).or_insert(from);
            *noted = from.min(*noted);
        }
    }

    /// What to write next: a number and the first part that has not been written.
    pub(crate) fn cursor(&self) -> (u32, u32) {
        (self.next, self.offset)
    }

    /// The thing at the cursor has been written, or is not there.
    pub(crate) fn pass(&mut self) {
        (self.next, self.offset) = (self.next + 1, 0);
    }

    /// Of the thing at the cursor, so many parts have been written.
    pub(crate) fn pause(&mut self, offset: u32) {
        self.offset = offset;
    }

    /// Everything has been written once; whatever comes is a change.
    pub(crate) fn finish(&mut self) {
        (self.next, self.offset) = (u32::MAX, 0);
    }

    /// Something that has to be written again, and from which part on.
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        self.changed.pop_first()
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_noted_and_the_earliest_change_counts() {
        let mut watch = Watch::default();
        watch.note(0, 0);
        assert!(!watch.has_changes(), "nothing has been written");
        watch.pass();
        watch.pause(5);
        watch.note(0, NO_PART);
        watch.note(0, 7);
        watch.note(0, 9);
        watch.note(1, 3);
        watch.note(2, 0);
        assert_eq!(watch.cursor(), (1, 3), "goes back to what has changed");
        assert_eq!(watch.take(), Some((0, 7)));
        assert_eq!(watch.take(), Some((1, 3)));
        assert_eq!(watch.take(), None);
        watch.finish();
        watch.note(1_000, 0);
        assert_eq!(watch.take(), Some((1_000, 0)));
    }
}
