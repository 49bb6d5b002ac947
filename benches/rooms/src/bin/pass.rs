//! `pass BYTES`: how long one pass of XXH3-64 over so many bytes takes, nanoseconds: the least of many,
//! since whatever else runs on the machine only ever adds time.
use std::hint::black_box;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64_with_seed;

const PASSES: u32 = 20_000;

fn main() {
    let bytes = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let input = vec![7_u8; bytes.expect("how many bytes")];
    let once = || {
        let begun = Instant::now();
        black_box(xxh3_64_with_seed(black_box(&input), 1337));
        begun.elapsed().as_nanos()
    };
    let least = (0..PASSES).map(|_| once()).min();
    println!("{}", least.expect("there are passes"));
}
