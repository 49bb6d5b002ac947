//! Messages of real engines, byte for byte, against a decoder of another make; then cut and bent.
#[path = "support/naive.rs"]
mod naive;
#[path = "support/mod.rs"]
mod support;

use naive::Event;
use support::{captures, frames, payloads};
use warmpath_wire::{ErrorKind, Events, KvDecoder};

fn decoded(decoder: &mut KvDecoder, payload: &[u8]) -> (Vec<Event>, Option<u64>) {
    let mut events = Events::new();
    let batch = decoder.decode(payload, &mut events).expect("a batch");
    assert!(!batch.is_lossy && batch.at.is_some_and(|at| at > 0.0));
    let events = events.iter().map(|event| Event::of(&event)).collect();
    (events, batch.rank.map(u64::from))
}

#[test]
fn every_recorded_message_says_what_another_decoder_reads_in_it() {
    let captures = captures();
    assert_eq!(captures.len(), 18);
    let mut events = 0;
    for capture in captures {
        let mut decoder = KvDecoder::new();
        for payload in payloads(&capture) {
            let ours = decoded(&mut decoder, &payload);
            assert_eq!(ours, naive::decode(&payload), "{capture}");
            events += ours.0.len();
        }
        let odd: Vec<_> = decoder.tally().met().collect();
        assert_eq!(odd, [], "{capture}");
    }
    assert!(events > 400, "{events}");
}

/// What each stream is known to show.
#[test]
fn the_streams_show_what_they_were_recorded_for() {
    let kinds = |capture: &str| {
        let mut decoder = KvDecoder::new();
        let (mut stored, mut removed, mut cleared) = (0, 0, 0);
        for payload in payloads(capture) {
            for event in decoded(&mut decoder, &payload).0 {
                match event {
                    Event::Stored { .. } => stored += 1,
                    Event::Removed(..) => removed += 1,
                    Event::Cleared => cleared += 1,
                    Event::Copied(..) => panic!("nobody copies here"),
                }
            }
        }
        (stored > 0, removed > 0, cleared)
    };
    assert_eq!(kinds("vllm-0.32.0-map-live"), (true, true, 3));
    assert_eq!(kinds("vllm-0.23.0-array-live"), (true, true, 1));
    assert_eq!(kinds("llm-d-sim-eec055a-map-cleared").2, 1);
    assert_eq!(kinds("dynamo-mocker-1.6.1-map-live"), (true, true, 0));
}

#[test]
fn one_digest_has_one_name_as_bytes_and_as_a_number() {
    let names = |capture: &str| {
        let mut decoder = KvDecoder::new();
        let stored = payloads(capture)
            .into_iter()
            .flat_map(move |payload| decoded(&mut decoder, &payload).0);
        let first = stored.into_iter().find_map(|event| match event {
            Event::Stored {
                blocks,
                parent: None,
                ..
            } => Some(blocks),
            _ => None,
        });
        first.expect("a root")
    };
    let bytes = names("vllm-0.32.0-map-bin32-sha256cbor-live");
    let numbers = names("vllm-0.32.0-map-live");
    let locals = |blocks: &[(u64, u64)]| blocks.iter().map(|b| b.1).collect::<Vec<_>>();
    assert_eq!(
        locals(&bytes),
        locals(&numbers),
        "the same tokens, hashed twice"
    );
    assert!(bytes.iter().zip(&numbers).all(|(a, b)| a.0 != b.0));
}

/// The step makes a message of a megabyte affordable; short ones are cut everywhere.
#[test]
fn a_message_that_is_cut_anywhere_is_an_error_and_adds_nothing() {
    let mut cuts = 0;
    for capture in captures() {
        for payload in payloads(&capture).iter().take(24) {
            for end in (0..payload.len()).step_by(1 + payload.len() / 2_000) {
                let mut events = Events::new();
                let error = KvDecoder::new().decode(&payload[..end], &mut events);
                let kind = error.expect_err("it is cut").kind();
                assert_eq!(kind, ErrorKind::Truncated, "{capture} at {end}");
                assert!(events.is_empty());
                cuts += 1;
            }
        }
    }
    assert!(cuts > 10_000);
}

#[test]
fn a_message_with_something_behind_it_is_no_batch() {
    for capture in captures() {
        for mut payload in payloads(&capture).into_iter().take(2) {
            payload.push(0xc0);
            let error = KvDecoder::new().decode(&payload, &mut Events::new());
            assert_eq!(error.expect_err("too long").kind(), ErrorKind::Malformed);
        }
    }
}

/// A short deterministic run of what the fuzz target does at length.
#[test]
fn a_bent_message_is_read_or_refused_and_never_worse() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut read, mut refused) = (0, 0);
    for capture in captures() {
        for payload in payloads(&capture).into_iter().take(8) {
            for _ in 0..64 {
                let mut bent = payload.clone();
                for _ in 0..1 + next() % 4 {
                    let at = (next() % bent.len() as u64) as usize;
                    bent[at] = next() as u8;
                }
                let mut events = Events::new();
                match KvDecoder::new().decode(&bent, &mut events) {
                    Ok(_) => read += 1,
                    Err(_) => {
                        assert!(events.is_empty());
                        refused += 1;
                    }
                }
                let told: usize = events.iter().map(|event| event.blocks()).sum();
                assert!(told <= bent.len());
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} {refused}");
}

#[test]
fn the_frames_before_the_payload_are_there_in_every_generation() {
    let parts = |capture: &str| frames(capture).iter().map(Vec::len).max();
    assert_eq!(parts("vllm-0.32.0-map-live"), Some(3));
    assert_eq!(parts("vllm-0.23.0-replay-4part"), Some(3));
    assert_eq!(parts("vllm-0.32.0-replay-5part"), Some(4));
}
