//! The looks: what the index says of prompts and of itself, and that everything can go again.
use std::collections::BTreeSet;

use warmpath_core::PlaceId;

use super::super::naive::Held;
use super::super::world::{BLOCK, Node};
use super::{Both, Checked, PROGRAMS};

impl Both<'_> {
    /// Compares who has how much of one prompt.
    pub(crate) fn check(&mut self, probe: u32) -> Checked {
        let node = self.node(probe);
        let (world, path) = (self.world, self.world.path(node));
        let chain = world.chain(node);
        self.index.find(chain, &mut self.overlap);
        let mut stops = Vec::new();
        for (n, seat) in self.seats.iter().enumerate() {
            let expected = seat.naive.reach(path, 0) as u32;
            let told = || world.tell(node);
            same!(
                self.overlap.blocks_at(seat.id),
                expected,
                "{n} has of {}",
                told()
            );
            let tokens = self.overlap.tokens_at(seat.id);
            same!(tokens, expected * BLOCK.get(), "tokens at {n}");
            same!(
                self.index.tokens(seat.id),
                seat.naive.tokens(),
                "tokens of {n}"
            );
            if expected > 0 {
                stops.push((expected, seat.id));
            }
        }
        let asked = &self.seats[probe as usize % self.seats.len()];
        let from = (probe >> 8) as usize % (path.len() + 1);
        let reach = self.index.reach(asked.id, chain, from as u32);
        same!(
            reach as usize,
            asked.naive.reach(path, from),
            "reach from {from}"
        );
        stops.sort_unstable_by_key(|&(blocks, id)| (blocks, id.0 & 0xffff));
        let steps = self.overlap.steps();
        let steps = steps.flat_map(|s| s.places().map(move |p| (s.blocks, p)));
        same!(steps.collect::<Vec<_>>(), stops, "steps");
        Ok(())
    }

    /// Compares everything that there is.
    pub(crate) fn check_all(&mut self) -> Checked {
        for node in 0..self.world.len() {
            self.check(node)?;
        }
        self.check_sizes()
    }

    /// Compares what an operator sees.
    pub(crate) fn check_sizes(&mut self) -> Checked {
        let stats = self.index.stats();
        same!(stats.anomalies, self.anomalies, "anomalies");
        same!(stats.blocks, self.needed, "distinct blocks");
        for (n, seat) in self.seats.iter().enumerate() {
            let own = stats.places.iter().find(|p| p.place == seat.id);
            let own = own.ok_or("a place is missing")?;
            same!(own.blocks as u64, seat.naive.blocks(), "blocks of {n}");
            same!(own.tokens, seat.naive.tokens(), "tokens of {n}");
            let set = self.working_set(seat.id);
            same!(self.index.working_set(seat.id), set, "working set of {n}");
        }
        let expiries = self.seats.iter().filter_map(|s| s.naive.next_expiry());
        let next = self.index.next_expiry().map_or(u64::MAX, |at| at.0);
        match expiries.min() {
            Some(first) if next > first => Err(format!("expiry at {next}, due at {first}")),
            _ => Ok(()),
        }
    }

    fn working_set(&self, id: PlaceId) -> u64 {
        let mut union: BTreeSet<Node> = BTreeSet::new();
        for (_, at, end) in self.programs.iter().flatten() {
            if *at == id {
                union.extend(self.world.path(*end));
            }
        }
        union.len() as u64 * u64::from(BLOCK.get())
    }

    /// Lets everything go; nothing may be left.
    pub(crate) fn finish(mut self) -> Checked {
        (0..PROGRAMS).for_each(|program| self.leave(program));
        for seat in 0..self.seats.len() {
            let held: Vec<(Node, Held)> = self.seats[seat].naive.all().collect();
            let id = self.seats[seat].id;
            for (node, held) in held {
                let copies = match held {
                    Held::Exact(copies) => copies,
                    Held::Predicted(..) => continue,
                };
                let name = self.name(seat, node);
                let names = vec![name; copies as usize];
                let told = self.world.tell(node);
                same!(
                    self.index.remove(id, &names),
                    names.len(),
                    "{seat} drops {told}"
                );
            }
            self.index.set_capacity(id, Some(0));
            same!(self.index.tokens(id), 0, "left at {seat}");
        }
        let stats = self.index.stats();
        same!((stats.blocks, stats.runs, stats.anchors), (0, 0, 0), "left");
        // A place keeps room for a list of about a hundred runs.
        let most = self.seats.len() * 600;
        match stats.bytes > most {
            true => Err(format!("{} bytes left, {most} at most", stats.bytes)),
            false => Ok(()),
        }
    }
}
