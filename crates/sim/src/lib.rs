//! An engine model on a virtual clock: what an inference engine would do with the turns it is given.
#![forbid(unsafe_code)]
