//! Tables that were computed already, by what they depend on, rounded.
//!
//! A table is good for one epoch of its route: while the counts have not grown by an eighth. Bounded;
//! when it is full it starts again. A look-up is O(1).

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::super::question::Row;
use super::table::{Outlook, Table};

/// Values kept, 8 bytes each.
const MAX_VALUES: usize = 1 << 20;

/// What a table depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Which route's counts.
    pub(super) route: u32,
    age: u32,
    prompt: u16,
    step: u16,
    fresh: u16,
    models: u64,
}

impl Key {
    /// The key of a session, and the session rounded to it.
    pub(super) fn new(route: u32, rows: &[Row], exact: &Outlook) -> (Self, Outlook) {
        let (prompt, prompt_tokens) = rounded(exact.prompt, 4);
        let (step, step_tokens) = rounded(exact.step, 2);
        let (fresh, fresh_tokens) = rounded(exact.fresh, 1);
        let key = Self {
            route,
            age: exact.age,
            prompt,
            step,
            fresh,
            models: fingerprint(rows),
        };
        let outlook = Outlook {
            age: exact.age,
            prompt: prompt_tokens,
            step: step_tokens,
            fresh: fresh_tokens,
        };
        (key, outlook)
    }
}

/// The bucket of a number of tokens and its middle: 2^`bits` buckets for each doubling.
fn rounded(tokens: f64, bits: u32) -> (u16, f64) {
    let tokens = tokens as u32;
    let exponent = tokens.checked_ilog2().unwrap_or(0);
    let Some(shift) = exponent.checked_sub(bits) else {
        return (tokens as u16, f64::from(tokens));
    };
    let kept = tokens >> shift;
    let middle = f64::from(kept << shift) + f64::from(1_u32 << shift) / 2.0;
    ((kept | (exponent << (bits + 1))) as u16, middle)
}

/// The models by what matters of them.
fn fingerprint(rows: &[Row]) -> u64 {
    let mut print = rows.len() as u64;
    for Row { model, .. } in rows {
        let [input, cached, write, output] = model.prices.unwrap_or_default().list();
        let parts = [
            print,
            model.grade as u64,
            model.quality.get().to_bits(),
            input.to_bits(),
            cached.to_bits(),
            write.to_bits(),
            output.to_bits(),
        ];
        print = xxh3_64(bytemuck::bytes_of(&parts));
    }
    print
}

/// The tables of all routes.
#[derive(Debug, Default)]
pub(super) struct Cache {
    tables: HashMap<Key, (u64, Table)>,
    values: usize,
}

impl Cache {
    /// The table of that key and epoch, made where there is none.
    pub(super) fn get(&mut self, key: Key, epoch: u64, make: impl FnOnce() -> Table) -> &Table {
        if self.values > MAX_VALUES {
            self.tables.clear();
            self.values = 0;
        }
        let entry = self.tables.entry(key);
        let (known, table) = match entry {
            hashbrown::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_map::Entry::Vacant(entry) => {
                let table = make();
                self.values += table.values();
                return &entry.insert((epoch, table)).1;
            }
        };
        if *known != epoch {
            (*known, *table) = (epoch, make());
        }
        table
    }
}
