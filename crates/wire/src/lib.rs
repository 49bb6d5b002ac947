//! Engines' cache events: bytes in, core events out.
//!
//! [`KvDecoder`] reads what vLLM, SGLang and everything that speaks like them publish (MessagePack,
//! events as arrays or as maps, told apart event by event); [`TrtLlmDecoder`] what TensorRT-LLM hands
//! out (JSON); [`ObjectDecoder`] what a Mooncake master publishes, whose [`ObjectKey`]s name parts of
//! pages. Decodes, nothing else: no socket, no sequence numbers, no index.
//!
//! The bytes come from outside, so whatever they are, the answer is events or a [`WireError`]; never a
//! panic, and no allocation larger than the input. What is well-formed and not understood (newer
//! fields, newer events, other media) costs only itself and is counted in a [`Tally`]. Tokens are read
//! where they lie, hashed block by block, and not kept.
#![forbid(unsafe_code)]

mod batch;
mod error;
mod events;
mod fields;
mod identity;
mod mooncake;
mod object;
mod pack;
mod stored;
mod tally;
mod trtllm;

pub use batch::{Batch, KvDecoder};
pub use error::{ErrorKind, WireError};
pub use events::Events;
pub use mooncake::{Change, ObjectBatch, ObjectDecoder, ObjectEvent};
pub use object::{Cut, Half, ObjectKey, Scheme};
pub use tally::{Oddity, Tally};
pub use trtllm::{TrtBatch, TrtLlmDecoder};
