//! The addon. It converts arguments, takes a lock, calls the core and converts the answer; it
//! decides nothing. Hot calls are free functions on a handle, because a class method of napi-rs
//! keeps a process-wide borrow record that costs several times the call itself.
mod body;
mod choice;
mod error;
mod feed;
mod fleet;
mod frame;
mod handle;
mod journal;
mod models;
mod options;
mod out;
mod pool;
mod queue;
mod replay;
mod report;
mod scheduler;
mod simulation;
mod snapshot;
mod trace;

/// Silences the default panic printer of this library: a panic becomes a JS error instead.
#[napi_derive::module_init]
fn init() {
    std::panic::set_hook(Box::new(|_| {}));
}
