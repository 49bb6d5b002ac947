//! Is any connection understood or refused, whatever comes and in whatever pieces, and nothing kept that
//! nobody has sent?
//!
//! The first byte says which side we are and how long the pieces are; the rest is what the other side sends.
//! `node fuzz/seeds.mjs` makes a corpus of recorded messages in frames.
//!
//! `cargo +nightly fuzz run zmtp`
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmpath_feed::{Parts, Peer, Role};

fuzz_target!(|data: &[u8]| {
    let Some((&how, sent)) = data.split_first() else {
        return;
    };
    let role = || match how & 1 {
        0 => Role::Subscriber,
        _ => Role::Dealer,
    };
    let (whole, is_whole_read) = read(Peer::new(role()), [sent]);
    let kept: usize = whole.iter().flatten().map(Vec::len).sum();
    assert!(kept <= sent.len());
    let pieces = sent.chunks(1 + usize::from(how >> 1));
    let (pieces, is_read) = read(Peer::new(role()), pieces);
    assert_eq!(is_read, is_whole_read);
    // Of what is refused in the end, the messages before the fault.
    assert!(pieces == whole || !is_read);
});

fn read<'a>(mut peer: Peer, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Parts>, bool) {
    let is_read = pieces.into_iter().all(|piece| peer.receive(piece).is_ok());
    (std::iter::from_fn(|| peer.next_message()).collect(), is_read)
}
