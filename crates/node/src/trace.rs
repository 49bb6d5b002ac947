//! What a trace needs to know of a turn: its blocks, as they may leave the process.
use std::num::NonZeroU32;

use napi::bindgen_prelude::{BigUint64Array, External, Result};
use napi_derive::napi;

use warmpath_core::block::text_ends;
use warmpath_trace::{Key, even_blocks, keyed};

use crate::error::{Code, guard, invalid};
use crate::handle::Handle;
use crate::scheduler::reservation_id;

/// Writes the block hashes of a turn in flight into `out`, as many as have room, and returns how
/// many there are in it; 0 for a turn that has ended. `cuts`: bytes of text that make a block, then
/// the byte length of each segment of the text. Without segments the turn's own blocks count. What
/// sets equal blocks of two models or salts apart is not in them. `key`:
/// 16 bytes that the hashes are keyed with, or nothing.
#[napi]
pub(crate) fn turn_hashes(
    #[napi(ts_arg_type = "SchedulerHandle")] handle: &External<Handle>,
    reservation: f64,
    cuts: &[u32],
    key: &[u8],
    mut out: BigUint64Array,
) -> Result<u32, Code> {
    guard(|| {
        let id = reservation_id(reservation)?;
        let key = match key {
            [] => None,
            key => Some(Key::new(
                key.try_into().map_err(|_| invalid("a key has 16 bytes"))?,
            )),
        };
        let hide = |hash| key.as_ref().map_or(hash, |key| keyed(hash, key));
        // SAFETY: JS is single-threaded and waits for this synchronous call, and no JS runs before
        // the slice is dropped, so nothing else views these bytes.
        let out = unsafe { out.as_mut() };
        handle.look(|state| {
            let Some(chain) = state.core.chain(id) else {
                return Ok(0);
            };
            match cuts {
                [] | [_] => Ok(fill(out, chain.common_hashes().map(hide))),
                [stride, segments @ ..] => {
                    let stride = NonZeroU32::new(*stride)
                        .ok_or_else(|| invalid("a block has at least one byte"))?;
                    let hashes: Vec<u64> = chain.common_hashes().collect();
                    let even = even_blocks(&hashes, text_ends(segments), stride);
                    Ok(fill(out, even.map(hide)))
                }
            }
        })
    })
}

fn fill(out: &mut [u64], hashes: impl Iterator<Item = u64>) -> u32 {
    let mut written = 0;
    for (slot, hash) in out.iter_mut().zip(hashes) {
        *slot = hash;
        written += 1;
    }
    written
}
