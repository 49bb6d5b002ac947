//! Which class goes next?
//!
//! Deficit round robin (Shreedhar and Varghese 1995) in the form of the published router: a class pays
//! for each turn with the tokens that have to be computed, and is given its quantum when its turn comes
//! round and what it has does not do for its first turn. Where nobody can pay after a round, all that
//! wait are given as many quanta as the nearest of them needs. In the long run each class that waits
//! gets tokens by its quantum, and one with a quantum above 0 waits for a bounded number of rounds.
//!
//! A class whose turns may not go, since what they wait for is shut, keeps what it has and is given
//! nothing; one without turns begins again from nothing. O(classes) a turn.

/// Classes of a queue.
pub const MAX_CLASSES: usize = 16;

/// What each class may pay with, and whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    quanta: [u32; MAX_CLASSES],
    deficits: [u64; MAX_CLASSES],
    count: usize,
    cursor: usize,
}

impl Rounds {
    /// Of classes with these quanta, each above 0, at most [`MAX_CLASSES`] of them.
    pub(super) fn new(given: impl Iterator<Item = u32>) -> Self {
        let mut quanta = [1; MAX_CLASSES];
        let mut count = 0;
        for (quantum, given) in quanta.iter_mut().zip(given) {
            *quantum = given.max(1);
            count += 1;
        }
        Self {
            quanta,
            deficits: [0; MAX_CLASSES],
            count,
            cursor: 0,
        }
    }

    /// Whose turn it is; its first is paid for. `costs` are those of each class's first turn that may
    /// go, in tokens.
    pub(super) fn take(&mut self, costs: &[Option<u64>; MAX_CLASSES]) -> Option<usize> {
        for _ in 0..self.count {
            let class = self.cursor;
            if let Some(cost) = costs[class] {
                if self.deficits[class] < cost {
                    self.give(class, 1);
                }
                if self.pay(class, cost) {
                    return Some(class);
                }
            }
            self.pass();
        }
        self.catch_up(costs);
        for _ in 0..self.count {
            let class = self.cursor;
            if costs[class].is_some_and(|cost| self.pay(class, cost)) {
                return Some(class);
            }
            self.pass();
        }
        None
    }

    /// The class has gone; `next` is the cost of its next turn that may. It goes on while it can pay.
    pub(super) fn went(&mut self, class: usize, next: Option<u64>) {
        self.cursor = class;
        if next.is_none_or(|next| next > self.deficits[class]) {
            self.pass();
        }
    }

    /// Nobody of the class waits any more.
    pub(super) fn emptied(&mut self, class: usize) {
        self.deficits[class] = 0;
    }

    fn catch_up(&mut self, costs: &[Option<u64>; MAX_CLASSES]) {
        let waiting = || (0..self.count).filter_map(|class| Some((class, costs[class]?)));
        let rounds = waiting().map(|(class, cost)| {
            let missing = cost.saturating_sub(self.deficits[class]);
            missing.div_ceil(u64::from(self.quanta[class]))
        });
        let Some(rounds) = rounds.min() else {
            return;
        };
        let classes: Vec<usize> = waiting().map(|(class, _)| class).collect();
        for class in classes {
            self.give(class, rounds);
        }
    }

    fn give(&mut self, class: usize, rounds: u64) {
        let given = u64::from(self.quanta[class]).saturating_mul(rounds);
        self.deficits[class] = self.deficits[class].saturating_add(given);
    }

    fn pay(&mut self, class: usize, cost: u64) -> bool {
        let rest = self.deficits[class].checked_sub(cost);
        self.deficits[class] = rest.unwrap_or(self.deficits[class]);
        rest.is_some()
    }

    fn pass(&mut self) {
        self.cursor = (self.cursor + 1) % self.count.max(1);
    }
}
