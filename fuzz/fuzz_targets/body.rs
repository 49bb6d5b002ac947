//! Does what is said of a body agree with a parser, whatever its bytes are?
//!
//! `cargo +nightly fuzz run body`; `node fuzz/seeds.mjs` makes a corpus of recorded requests. The same
//! property over a fixed walk is a test of the crate.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/body/tests/support/holds.rs"]
mod holds;

fuzz_target!(|data: &[u8]| holds::holds(data));
