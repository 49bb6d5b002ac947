//! Payloads whose events say which message they are of, and what came out of an inbox, written short.
use warmpath_core::event::{CacheEvent, FeedNotice};
use warmpath_feed::{Inbox, Parcel};

/// A batch with one removal, of block `name`.
pub(crate) fn payload(name: u64) -> Vec<u8> {
    let mut bytes = vec![0x93, 0xcb];
    bytes.extend(1.5_f64.to_be_bytes());
    bytes.extend([0x91, 0x92, 0xac]);
    bytes.extend(b"BlockRemoved");
    bytes.extend([0x91, 0xcf]);
    bytes.extend(name.to_be_bytes());
    bytes.push(0);
    bytes
}

/// A message as a publisher sends it.
pub(crate) fn parts(sequence: u64, name: u64) -> Vec<Vec<u8>> {
    vec![vec![], sequence.to_be_bytes().to_vec(), payload(name)]
}

/// The end of a replay.
pub(crate) fn end() -> Vec<Vec<u8>> {
    vec![vec![], vec![], vec![0xff; 8], vec![]]
}

/// What came out of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Notice(FeedNotice),
    Event(u64),
}

/// Takes everything out.
pub(crate) fn taken(inbox: &Inbox) -> Vec<Out> {
    let mut deliveries = Vec::new();
    while inbox.take(usize::MAX, &mut deliveries) {}
    let mut out = Vec::new();
    for delivery in deliveries {
        match delivery.parcel {
            Parcel::Notice(notice) => out.push(Out::Notice(notice)),
            Parcel::Events(slice) => out.extend(slice.iter().map(|event| match event {
                CacheEvent::Removed { names, .. } => Out::Event(names[0]),
                other => panic!("{other:?}"),
            })),
            Parcel::Objects(changes) => panic!("{changes:?}"),
        }
    }
    out
}
