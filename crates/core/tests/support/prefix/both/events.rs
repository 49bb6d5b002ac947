//! What engines say: stores and removals, right or wrong.
use warmpath_core::prefix::{StoredBlock, StoredBlocks};

use super::super::naive::{NaivePlace, Words};
use super::super::op::{Fault, Order, Remove, Store};
use super::super::world::{BLOCK, Node, mix};
use super::{Both, Checked, Known};

/// How near above its new parent the index looks for a block that is stored below itself.
const CYCLE_WINDOW: usize = 16;

/// A store event before its blocks have names.
struct Told {
    parent: Option<u64>,
    known: Known,
    block_tokens: u32,
    expected: Expected,
}

/// What is to become of a store event.
enum Expected {
    AllOf(Vec<Node>),
    /// All of it but the last block, which is there before.
    Repeated(Vec<Node>),
    SelfParent,
    Cycle,
    WrongSize,
}

impl Both<'_> {
    pub(super) fn store(&mut self, store: Store) -> Checked {
        let (seat, node) = (self.seat(store.seat), self.node(store.node));
        let path = self.world.path(node);
        let from = path.len().saturating_sub(store.blocks as usize);
        let above = from.checked_sub(1).map(|n| path[n]);
        self.tell(|me| {
            let (to, at) = (me.world.tell(node), above.map(|n| me.world.tell(n)));
            format!(
                "{seat} stores {} to {to} below {at:?}, {:?}",
                path.len() - from,
                store.fault
            )
        });
        let Some(told) = self.told(seat, node, from, store.fault) else {
            return Ok(());
        };
        let blocks = self.blocks_of(seat, &path[from..], &told.expected);
        let event = StoredBlocks {
            parent: told.parent,
            block_tokens: told.block_tokens,
            blocks: &blocks,
        };
        let stored = self.index.store(self.seats[seat].id, &event);
        let is_known = match told.known {
            Known::Open => stored > 0,
            Known::Yes => true,
            Known::No => false,
        };
        let nodes = self.outcome(told.expected, is_known);
        same!(stored, nodes.len(), "stored");
        self.enter(seat, &nodes);
        Ok(())
    }

    /// An event about the path to `node` from block `from` on, with a fault in it. Absent where nothing
    /// would come back that says how the index took it.
    fn told(&self, seat: usize, node: Node, from: usize, fault: Fault) -> Option<Told> {
        let path = self.world.path(node);
        let above = from.checked_sub(1).map(|n| path[n]);
        let speaker = match fault {
            Fault::OthersWord => self.other_speaker(seat),
            _ => seat,
        };
        let mut told = Told {
            parent: above.map(|n| self.name(speaker, n)),
            known: above.map_or(Known::Yes, |n| self.known(speaker, n)),
            block_tokens: BLOCK.get(),
            expected: Expected::AllOf(path[from..].to_vec()),
        };
        match fault {
            Fault::Orphan => {
                told.parent = Some(mix(1 << 60 | u64::from(node)));
                told.known = Known::No;
            }
            Fault::WrongSize if self.seats[seat].options.block_tokens.is_some() => {
                told.block_tokens += 1;
                told.expected = Expected::WrongSize;
            }
            Fault::SelfParent => {
                told.parent = Some(self.name(speaker, path[from]));
                told.known = self.known(speaker, path[from]);
                told.expected = Expected::SelfParent;
            }
            Fault::Cycle => {
                let stands = |n: usize| self.known(speaker, path[n]) == Known::Yes;
                let last = path.len() - 1;
                let is_near = (1..CYCLE_WINDOW).contains(&(last - from));
                if !is_near || !stands(from) || !stands(last) {
                    return None;
                }
                told.parent = Some(self.name(speaker, node));
                told.known = Known::Yes;
                told.expected = Expected::Cycle;
            }
            Fault::Repeated => told.expected = Expected::Repeated(path[from..].to_vec()),
            Fault::Empty => told.expected = Expected::AllOf(Vec::new()),
            Fault::Nothing | Fault::OthersWord | Fault::WrongSize => {}
        }
        let is_silent = matches!(fault, Fault::SelfParent | Fault::Empty);
        (told.known != Known::Open || !is_silent).then_some(told)
    }

    fn blocks_of(&mut self, seat: usize, nodes: &[Node], expected: &Expected) -> Vec<StoredBlock> {
        match expected {
            Expected::AllOf(nodes) => self.name_blocks(seat, nodes),
            Expected::Repeated(nodes) => {
                let mut blocks = self.name_blocks(seat, nodes);
                blocks.push(blocks[blocks.len() / 2]);
                blocks
            }
            Expected::SelfParent | Expected::Cycle | Expected::WrongSize => {
                let block = |&n: &Node| StoredBlock {
                    name: self.name(seat, n),
                    local: self.world.local(n),
                };
                nodes.iter().map(block).collect()
            }
        }
    }

    /// Counts what is wrong with an event; returns what of it is to be believed.
    fn outcome(&mut self, expected: Expected, is_known: bool) -> Vec<Node> {
        let anomalies = &mut self.anomalies;
        let (counter, nodes) = match expected {
            Expected::WrongSize => (Some(&mut anomalies.wrong_block_size), Vec::new()),
            _ if !is_known => (Some(&mut anomalies.unknown_parent), Vec::new()),
            Expected::SelfParent => (Some(&mut anomalies.self_parent), Vec::new()),
            Expected::Cycle => (Some(&mut anomalies.cycle), Vec::new()),
            Expected::Repeated(nodes) => (Some(&mut anomalies.repeated), nodes),
            Expected::AllOf(nodes) => (None, nodes),
        };
        if let Some(counter) = counter {
            *counter += 1;
        }
        nodes
    }

    fn enter(&mut self, seat: usize, nodes: &[Node]) {
        for &node in nodes {
            let again = self.seats[seat].naive.store(self.world, node);
            self.anomalies.copies += u64::from(again);
        }
        let NaivePlace { domain, words, .. } = &self.seats[seat].naive;
        if let Words::Dialect(dialect) = words {
            self.given
                .extend(nodes.iter().map(|&node| (*domain, *dialect, node)));
        }
        self.seats[seat].naive.take_back_numbers();
        self.carry(seat);
    }

    fn name_blocks(&mut self, seat: usize, nodes: &[Node]) -> Vec<StoredBlock> {
        let place = &mut self.seats[seat].naive;
        let (world, domain) = (self.world, place.domain);
        let name = |&node: &Node| StoredBlock {
            local: world.local(node),
            name: match &mut place.words {
                Words::Dialect(dialect) => world.name(domain, *dialect, node),
                Words::Numbers(numbers) => match numbers.get(node) {
                    Some(number) => number,
                    None => numbers.count(node),
                },
            },
        };
        nodes.iter().map(name).collect()
    }

    pub(super) fn remove(&mut self, remove: Remove) -> Checked {
        let (seat, node) = (self.seat(remove.seat), self.node(remove.node));
        let path = self.world.path(node);
        let from = path.len().saturating_sub(remove.blocks as usize);
        let nodes = in_order(&path[from..], remove.order);
        self.tell(|me| {
            let told: Vec<_> = nodes.iter().map(|&n| me.world.tell(n)).collect();
            let noise = (remove.noise, remove.others_words);
            format!(
                "{seat} removes {}, noise, others' words {noise:?}",
                told.join(" ")
            )
        });
        let speaker = match remove.others_words {
            true => self.other_speaker(seat),
            false => seat,
        };
        let mut names = Vec::new();
        let mut expected = 0;
        for (i, &node) in nodes.iter().enumerate() {
            if remove.noise && i % 2 == 0 {
                names.push(mix(1 << 61 | u64::from(node)));
            }
            names.push(self.name(speaker, node));
            let known = self.known(speaker, node);
            let place = &mut self.seats[seat].naive;
            if known == Known::Open && place.get(node).is_some() {
                names.pop();
                continue;
            }
            let gone = known == Known::Yes && place.remove(self.world, node);
            expected += usize::from(gone);
        }
        let removed = self.index.remove(self.seats[seat].id, &names);
        self.carry(seat);
        self.anomalies.not_held += (names.len() - expected) as u64;
        same!(removed, expected, "removed");
        Ok(())
    }

    /// The host's copy is stored below a parent that is still on the device, then the device's goes.
    pub(super) fn move_to_host(&mut self, node: u32, blocks: u32) -> Checked {
        let fault = Fault::Nothing;
        self.store(Store {
            seat: 2,
            node,
            blocks,
            fault,
        })?;
        let order = Order::TailFirst;
        let (noise, others_words) = (false, false);
        self.remove(Remove {
            seat: 0,
            node,
            blocks,
            order,
            noise,
            others_words,
        })
    }
}

fn in_order(nodes: &[Node], order: Order) -> Vec<Node> {
    let mut nodes = nodes.to_vec();
    match order {
        Order::HeadFirst => {}
        Order::TailFirst => nodes.reverse(),
        Order::Shuffled => nodes.sort_unstable_by_key(|&n| mix(n.into())),
        Order::Doubled => nodes = nodes.iter().flat_map(|&n| [n, n]).collect(),
        Order::First => nodes.truncate(1),
    }
    nodes
}
