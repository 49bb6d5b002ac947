//! Engines' event sockets and their one thread: subscribes, replays, queues.
//!
//! A [`Feed`] is a thread that listens to any number of publishers. Each rank of each worker is a stream,
//! and so is each store that engines share:
//! messages of it are put in order, gaps are filled from the publisher's replay socket, and what is
//! decoded waits in an [`Inbox`] until whoever owns the index takes a bounded slice of it. The thread
//! never sees the index and never waits for it.
//!
//! `zmtp` (what the bytes of a connection say), `pulse` (who is still there), `stream` (what is missing) and `inbox` (what is waiting)
//! do no I/O and know no clock but the times they are given; `socket` and `thread` do.
#![forbid(unsafe_code)]

mod endpoint;
mod inbox;
mod link;
mod message;
mod newcomers;
mod objects;
mod pulled;
mod pulse;
mod reader;
mod replay;
mod socket;
mod status;
mod stream;
mod thread;
mod zmtp;

pub use endpoint::{Endpoint, EndpointError};
pub use inbox::{Delivery, Inbox, MAX_PENDING, Parcel};
pub use message::Message;
pub use objects::{ObjectChange, ObjectRules, Sample};
pub use pulled::Pulled;
pub use reader::Contents;
pub use status::StreamStatus;
pub use stream::{Ask, Stream};
pub use thread::{Feed, StreamKey, Subscription, Whose};
pub use zmtp::{MAX_MESSAGE, Parts, Peer, Role, ZmtpError};
