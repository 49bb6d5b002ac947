//! What can happen to the index. Every operation makes sense in any state, so that any part of a list
//! of them is a list of them: that is what lets a failure shrink.

/// One thing that happens. Numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Store(Store),
    Remove(Remove),
    /// Blocks go from the device to the host of one worker.
    Move {
        node: u32,
        blocks: u32,
    },
    /// A turn goes to the place; with a report, the engine says afterwards how much was cached.
    Turn {
        seat: usize,
        node: u32,
        report: Option<u32>,
    },
    Clear {
        seat: usize,
    },
    /// The engine restarts and calls everything by other names.
    Restart {
        seat: usize,
        dialect: u32,
    },
    /// The place leaves; another takes its room.
    Replace {
        seat: usize,
    },
    /// Something arrives for a place that has left.
    Late {
        seat: usize,
        node: u32,
    },
    Advance {
        by: u64,
    },
    Capacity {
        seat: usize,
        blocks: Option<u64>,
    },
    Follow {
        program: usize,
        seat: usize,
        node: u32,
    },
    Leave {
        program: usize,
    },
}

/// The last `blocks` blocks of the path to `node` are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) seat: usize,
    pub(crate) node: u32,
    pub(crate) blocks: u32,
    pub(crate) fault: Fault,
}

/// What is wrong with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Nothing is: the parent is called as other engines of the domain call it.
    OthersWord,
    Orphan,
    SelfParent,
    Cycle,
    Repeated,
    WrongSize,
    Empty,
}

/// The last `blocks` blocks of the path to `node` are removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remove {
    pub(crate) seat: usize,
    pub(crate) node: u32,
    pub(crate) blocks: u32,
    pub(crate) order: Order,
    /// Names that nobody knows stand among the others.
    pub(crate) noise: bool,
    /// In the words of other engines of the domain.
    pub(crate) others_words: bool,
}

/// In which order an event names its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    TailFirst,
    HeadFirst,
    Shuffled,
    /// Each twice.
    Doubled,
    /// Only the first of them.
    First,
}

impl Op {
    /// The operation that a random number stands for. Small numbers are simple operations.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let mut left = bits;
        let mut take = |n: u64| {
            let taken = left % n;
            left /= n;
            taken
        };
        let kind = take(64);
        let seat = take(8) as usize;
        let node = take(1 << 16) as u32;
        // Mostly short stretches, some long ones.
        let blocks = match take(4) {
            0..=1 => 1 + take(4),
            2 => 1 + take(16),
            _ => 1 + take(64),
        } as u32;
        let variant = take(64);
        match kind {
            0..=20 => Self::Store(Store {
                seat,
                node,
                blocks,
                fault: fault(variant),
            }),
            21..=35 => Self::Remove(Remove {
                seat,
                node,
                blocks,
                order: order(variant % 8),
                noise: variant / 8 == 0,
                others_words: variant / 8 == 1,
            }),
            36..=39 => Self::Move { node, blocks },
            40..=48 => Self::Turn {
                seat,
                node,
                report: (variant % 4 == 0).then_some(variant as u32 * 17),
            },
            49 => match variant {
                0..=23 => Self::Clear { seat },
                24..=39 => Self::Restart {
                    seat,
                    dialect: variant as u32,
                },
                40..=55 => Self::Replace { seat },
                _ => Self::Late { seat, node },
            },
            50..=51 => Self::Store(Store {
                seat,
                node,
                blocks,
                fault: Fault::Nothing,
            }),
            52..=56 => Self::Advance { by: variant },
            57 => Self::Capacity {
                seat,
                blocks: (variant > 8).then_some(variant),
            },
            58..=61 => Self::Follow {
                program: variant as usize,
                seat,
                node,
            },
            _ => Self::Leave {
                program: variant as usize,
            },
        }
    }
}

fn fault(variant: u64) -> Fault {
    match variant {
        56..=58 => Fault::OthersWord,
        59 => Fault::Orphan,
        60 => Fault::SelfParent,
        61 => Fault::Cycle,
        62 => Fault::Repeated,
        63 => Fault::WrongSize,
        55 => Fault::Empty,
        _ => Fault::Nothing,
    }
}

fn order(variant: u64) -> Order {
    match variant {
        4 => Order::HeadFirst,
        5 => Order::Shuffled,
        6 => Order::Doubled,
        7 => Order::First,
        _ => Order::TailFirst,
    }
}
