//! Does an event name a block twice?
//!
//! A small open table of positions, empty again for each event: a few instructions a block, so that
//! every event can be asked.
use super::exact::{StoredBlock, StoredBlocks};

/// Room to look for repeated names in.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    /// Positions of blocks from 1 on, by their names; 0 is empty. At least half of it is.
    table: Vec<u32>,
}

impl Repeats {
    /// The first block that has the name of the parent or of a block before it. O(blocks).
    pub(super) fn first(&mut self, stored: &StoredBlocks<'_>) -> Option<usize> {
        let among = |name| stored.blocks.iter().position(|block| block.name == name);
        let parent = stored.parent.and_then(among);
        let blocks = &stored.blocks[..parent.unwrap_or(stored.blocks.len())];
        let seats = (2 * blocks.len()).next_power_of_two();
        self.table.clear();
        self.table.resize(seats, 0);
        let repeated = (0..blocks.len()).find(|&at| !enter(&mut self.table, blocks, at));
        repeated.or(parent)
    }
}

/// False when a block before has the same name.
fn enter(table: &mut [u32], blocks: &[StoredBlock], at: usize) -> bool {
    let name = blocks[at].name;
    // The number of seats is a power of two.
    let mask = table.len() - 1;
    let mut seat = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    loop {
        let taken = &mut table[seat & mask];
        if *taken == 0 {
            *taken = at as u32 + 1;
            return true;
        }
        if blocks[*taken as usize - 1].name == name {
            return false;
        }
        seat += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(repeats: &mut Repeats, parent: Option<u64>, names: &[u64]) -> Option<usize> {
        let block = |&name| StoredBlock { name, local: 0 };
        let blocks: Vec<_> = names.iter().map(block).collect();
        repeats.first(&StoredBlocks {
            parent,
            block_tokens: 1,
            blocks: &blocks,
        })
    }

    #[test]
    fn the_first_repeat_is_found_and_earlier_events_do_not_count() {
        let mut repeats = Repeats::default();
        assert_eq!(first(&mut repeats, None, &[0, 1, 2]), None);
        assert_eq!(first(&mut repeats, None, &[2, 1, 0, 1]), Some(3));
        assert_eq!(first(&mut repeats, Some(5), &[4, 5]), Some(1));
        assert_eq!(first(&mut repeats, Some(5), &[5, 4]), Some(0));
        assert_eq!(first(&mut repeats, Some(5), &[4, 4, 5]), Some(1));
        assert_eq!(first(&mut repeats, Some(5), &[4, 3, 5, 4]), Some(2));
        let many: Vec<u64> = (0..5_000).collect();
        assert_eq!(first(&mut repeats, None, &many), None);
        assert_eq!(first(&mut repeats, None, &[]), None);
    }
}
