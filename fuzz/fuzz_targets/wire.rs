//! Is any message read or refused, whatever its bytes are, and nothing taken over of a refused one?
//!
//! The first byte says whose message it is; the rest is the message, decoded twice by one decoder, since
//! a decoder remembers what it has seen. `node fuzz/seeds.mjs` makes a corpus of the recorded messages.
//!
//! `cargo +nightly fuzz run wire`
#![no_main]

use std::num::NonZeroU32;

use libfuzzer_sys::fuzz_target;
use warmpath_wire::{Events, KvDecoder, ObjectDecoder, ObjectKey, TrtLlmDecoder};

fuzz_target!(|data: &[u8]| {
    let Some((&whose, message)) = data.split_first() else {
        return;
    };
    match whose % 3 {
        0 => {
            let mut decoder = KvDecoder::new();
            twice(message, |events| decoder.decode(message, events).is_ok());
        }
        1 => {
            let mut decoder = TrtLlmDecoder::new(NonZeroU32::new(32).unwrap());
            twice(message, |events| decoder.decode(message, events).is_ok());
        }
        _ => objects(message),
    }
});

fn twice(message: &[u8], mut decode: impl FnMut(&mut Events) -> bool) {
    for _ in 0..2 {
        let mut events = Events::new();
        assert!(decode(&mut events) || events.is_empty());
        // A removal of TensorRT-LLM is told of two tiers; a block takes a byte at least.
        let told: usize = events.iter().map(|event| event.blocks()).sum();
        assert!(told <= 2 * message.len());
    }
}

fn objects(message: &[u8]) {
    let mut events = Vec::new();
    let read = ObjectDecoder::new().decode(message, &mut events);
    assert!(read.is_ok() || events.is_empty());
    for event in events {
        if let Some(key) = ObjectKey::parse(event.key) {
            assert!(event.key.contains(key.page));
        }
    }
}
