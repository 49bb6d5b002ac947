//! What a turn would cost on each worker: one file per cost.
pub mod kv;
pub mod softmax;
