//! Which blocks of one length stand for the blocks of a prompt, whose lengths differ?
//!
//! A trace has blocks of a fixed number of tokens; text is cut at its messages, and how many tokens
//! a piece has is an estimate that changes while it is learnt. So the even blocks are cut by bytes,
//! which are the same in every turn that begins with the same text: two prompts share an even block
//! exactly when they share the whole piece that it ends in. That is a little less than is really
//! shared, never more.
//!
//! It knows no tokens and no text. O(pieces + even blocks).
use std::num::NonZeroU32;

use warmpath_core::block::extend;

/// The hash of each even block of `stride` bytes, the last one perhaps of fewer. `hashes` are the
/// chain hashes of the pieces, `ends` where each ends, ascending; the shorter of both counts. Where
/// several blocks end in one piece, the first has its hash and the others one made of it.
pub fn even_blocks(
    hashes: &[u64],
    ends: impl IntoIterator<Item = u64>,
    stride: NonZeroU32,
) -> impl Iterator<Item = u64> {
    let stride = u64::from(stride.get());
    let mut pieces = hashes.iter().copied().zip(ends);
    let mut piece = pieces.next();
    let mut ahead = pieces.next();
    let (mut end, mut nth) = (stride, 0);
    std::iter::from_fn(move || {
        loop {
            let (hash, until) = piece?;
            if end <= until || (ahead.is_none() && end - stride < until) {
                let id = if nth == 0 { hash } else { extend(hash, nth) };
                end += stride;
                nth += 1;
                return Some(id);
            }
            piece = ahead;
            ahead = pieces.next();
            nth = 0;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even(hashes: &[u64], ends: &[u64], stride: u32) -> Vec<u64> {
        let stride = NonZeroU32::new(stride).expect("not zero");
        even_blocks(hashes, ends.iter().copied(), stride).collect()
    }

    #[test]
    fn a_block_has_the_piece_that_it_ends_in() {
        // Blocks end at 4, 8, 12, 16 and 18.
        let ids = even(&[10, 20, 30], &[3, 5, 18], 4);
        assert_eq!(ids, [20, 30, extend(30, 1), extend(30, 2), extend(30, 3)]);
        assert_eq!(even(&[10], &[3], 4), [10]);
        assert_eq!(even(&[10, 20], &[4, 8], 4), [10, 20]);
        assert_eq!(even(&[], &[], 4), [0_u64; 0]);
        assert_eq!(even(&[10], &[], 4), [0_u64; 0]);
    }

    proptest! {
        /// Against the words of the head: what is shared, block by block.
        #[test]
        fn what_is_shared_stays_shared_and_no_more(
            lengths in prop::collection::vec(1_u64..40, 1..30),
            tails in prop::collection::vec(prop::collection::vec(1_u64..40, 0..5), 2),
            stride in 1_u32..50,
        ) {
            let prompts: Vec<(Vec<u64>, Vec<u64>)> = (0_u64..).zip(&tails).map(|(n, tail)| {
                let common = (1..=lengths.len() as u64).chain(
                    (0..tail.len() as u64).map(|i| 1_000 * (n + 1) + i),
                );
                let ends = lengths.iter().chain(tail).scan(0, |end, length| {
                    *end += length;
                    Some(*end)
                });
                (common.collect(), ends.collect())
            }).collect();
            let ids: Vec<Vec<u64>> =
                prompts.iter().map(|(hashes, ends)| even(hashes, ends, stride)).collect();
            for ((_, ends), ids) in prompts.iter().zip(&ids) {
                let total = ends.last().copied().unwrap_or(0);
                prop_assert_eq!(ids.len() as u64, total.div_ceil(u64::from(stride)));
                let distinct: std::collections::HashSet<_> = ids.iter().collect();
                prop_assert_eq!(distinct.len(), ids.len());
            }
            let common = ids[0].iter().zip(&ids[1]).take_while(|(a, b)| a == b).count() as u64;
            let shared: u64 = lengths.iter().sum();
            let whole = shared / u64::from(stride);
            if tails.iter().all(|tail| !tail.is_empty()) {
                prop_assert_eq!(common, whole);
            } else {
                prop_assert!(common >= whole);
            }
        }
    }
}
