//! What is in flight on each worker.
