//! How far does each worker reach? One number a worker, gone in O(1).
//!
//! A number is valid only in the round that wrote it, so nothing has to be cleared between two
//! questions, and nothing is allocated once there is an entry for each worker.

#[derive(Clone, Copy, Debug, Default)]
struct Stamped {
    round: u32,
    blocks: u32,
}

/// Blocks by worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    blocks: Vec<Stamped>,
    round: u32,
}

impl Reached {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.blocks.fill(Stamped::default());
            self.round = 1;
        }
    }

    /// Writes down how far `worker` reaches, unless it is known: what comes first counts.
    pub(super) fn note(&mut self, worker: u32, blocks: u32) {
        let index = worker as usize;
        if self.blocks.len() <= index {
            self.blocks.resize(index + 1, Stamped::default());
        }
        let known = &mut self.blocks[index];
        if known.round != self.round {
            *known = Stamped {
                round: self.round,
                blocks,
            };
        }
    }

    /// How far `worker` reaches; 0 when nobody has said.
    pub(super) fn of(&self, worker: u32) -> u32 {
        match self.blocks.get(worker as usize) {
            Some(known) if known.round == self.round => known.blocks,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_counts_until_it_is_forgotten_even_when_rounds_run_out() {
        let mut reached = Reached {
            round: u32::MAX - 1,
            ..Reached::default()
        };
        for worker in 0..3 {
            reached.clear();
            assert_eq!([0, 1, 2].map(|other| reached.of(other)), [0; 3]);
            reached.note(worker, 7);
            reached.note(worker, 3);
            assert_eq!(reached.of(worker), 7);
        }
    }
}
