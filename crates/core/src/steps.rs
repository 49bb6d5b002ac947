//! Of who holds a prefix at each depth, how far does each holder reach?
//!
//! Coverage is contiguous from the root, so the set of holders only shrinks with depth, and two
//! depths with equally many holders have the same ones. [`Layers`] says how many there are and who;
//! this file gallops from one change of the count to the next and writes down who stopped there.
//! Cost: O(changes × log depth) counts, and the holders listed on both sides of each change. No
//! allocation once a [`Steps`] has grown. The prefix index asks it about places, the load ledger
//! about workers; it knows neither.

/// A chain as some index holds it. `count` must not increase with depth, and `keys(d + 1)` must be a
/// subset of `keys(d)`; both are in ascending order.
pub(crate) trait Layers {
    /// How many hold the first `depth + 1` blocks.
    fn count(&self, depth: usize) -> usize;

    /// Appends who they are.
    fn keys(&self, depth: usize, out: &mut Vec<u32>);
}

/// Where the holders of a chain's prefix stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    blocks: Vec<Stamped>,
    round: u32,
    here: Vec<u32>,
    next: Vec<u32>,
}

/// A holder's depth, valid only in the round that wrote it: nothing has to be cleared.
#[derive(Clone, Copy, Debug, Default)]
struct Stamped {
    round: u32,
    blocks: u32,
}

impl Steps {
    /// Replaces the content by the steps of a chain of `len` blocks.
    pub(crate) fn walk(&mut self, len: usize, layers: &impl Layers) {
        self.begin();
        let mut depth = 0;
        let mut count = if len == 0 { 0 } else { layers.count(0) };
        if count > 0 {
            layers.keys(0, &mut self.here);
        }
        while count > 0 {
            let end = gallop(depth, len, |d| layers.count(d) == count);
            self.next.clear();
            count = if end == len { 0 } else { layers.count(end) };
            if count > 0 {
                layers.keys(end, &mut self.next);
            }
            self.stop(end as u32);
            std::mem::swap(&mut self.here, &mut self.next);
            depth = end;
        }
    }

    /// How many blocks `key` holds.
    pub(crate) fn blocks_at(&self, key: u32) -> u32 {
        match self.blocks.get(key as usize) {
            Some(at) if at.round == self.round => at.blocks,
            _ => 0,
        }
    }

    fn begin(&mut self) {
        self.here.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.blocks.fill(Stamped::default());
            self.round = 1;
        }
    }

    /// Writes down who is in `here` and not in `next`.
    fn stop(&mut self, blocks: u32) {
        let (here, next) = (std::mem::take(&mut self.here), &self.next);
        let mut staying = next.iter().peekable();
        let stopped = here.iter().filter(|&&key| {
            while staying.next_if(|&&n| n < key).is_some() {}
            staying.next_if(|&&n| n == key).is_none()
        });
        for &key in stopped {
            note(&mut self.blocks, self.round, key, blocks);
        }
        self.here = here;
    }
}

fn note(table: &mut Vec<Stamped>, round: u32, key: u32, blocks: u32) {
    let index = key as usize;
    if table.len() <= index {
        table.resize(index + 1, Stamped::default());
    }
    table[index] = Stamped { round, blocks };
}

/// The first depth in `(from, len]` where `same` no longer holds; it holds at `from` and never again
/// once it stopped. Doubling steps, then halving: a short answer costs little, a long one log(len).
fn gallop(from: usize, len: usize, same: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    let mut high = loop {
        let probe = low + step;
        if probe >= len {
            break len;
        }
        if !same(probe) {
            break probe;
        }
        low = probe;
        step *= 2;
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if same(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holder `k` reaches `self.0[k]` blocks.
    struct Reach(Vec<usize>);

    impl Layers for Reach {
        fn count(&self, depth: usize) -> usize {
            self.0.iter().filter(|&&r| r > depth).count()
        }

        fn keys(&self, depth: usize, out: &mut Vec<u32>) {
            out.extend(
                (0_u32..)
                    .zip(&self.0)
                    .filter(|(_, r)| **r > depth)
                    .map(|(k, _)| k),
            );
        }
    }

    #[test]
    fn every_reach_is_found_and_nothing_is_left_of_the_last_walk() {
        let mut steps = Steps::default();
        for reaches in [vec![3, 0, 7, 7, 1, 100], vec![], vec![0, 5], vec![1]] {
            for len in [0, 1, 2, 3, 7, 8, 99, 100] {
                let held = reaches.iter().map(|r| *r.min(&len)).collect::<Vec<_>>();
                steps.walk(len, &Reach(held.clone()));
                let found: Vec<_> = (0..6).map(|k| steps.blocks_at(k) as usize).collect();
                let mut expected = held.clone();
                expected.resize(6, 0);
                assert_eq!(found, expected);
            }
        }
    }
}
