//! Errors that cross into JS: a stable code that becomes `err.code`, and a message.
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::bindgen_prelude::{Error, Result};

/// The stable code of an error: its text is what JS sees as `err.code`.
#[derive(Clone, Debug)]
pub(crate) struct Code(String);

impl Code {
    fn new(code: &str) -> Self {
        Self(format!("WARMPATH_{code}"))
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Refuses an argument; `detail` names it and what is allowed.
pub(crate) fn invalid(detail: impl Into<String>) -> Error<Code> {
    Error::new(Code::new("INVALID_ARGUMENT"), detail.into())
}

/// A trace that cannot be read: the file, the place in it, and what is wrong there.
pub(crate) fn unreadable(error: &warmpath_trace::TraceError) -> Error<Code> {
    Error::new(Code::new("TRACE"), error.to_string())
}

/// A file that cannot be written.
pub(crate) fn unwritable(path: &str, error: &std::io::Error) -> Error<Code> {
    Error::new(Code::new("CONFIG"), format!("{path}: {error}"))
}

/// Somebody has stopped it.
pub(crate) fn aborted(detail: &str) -> Error<Code> {
    Error::new(Code::new("ABORTED"), detail.to_owned())
}

/// The scheduler behind the handle takes no turns any more.
pub(crate) fn closed() -> Error<Code> {
    Error::new(Code::new("CLOSED"), "the scheduler is closed".to_owned())
}

/// An error of the core, under its own code.
pub(crate) fn refused(error: &warmpath_core::Error) -> Error<Code> {
    Error::new(Code::new(error.code()), error.to_string())
}

/// Runs `f`; a panic inside becomes an error, and whatever lock it held is free again.
pub(crate) fn guard<T>(f: impl FnOnce() -> Result<T, Code>) -> Result<T, Code> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Error::new(Code::new("PANIC"), text))
    })
}
