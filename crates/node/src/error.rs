//! Errors that cross into JS: a stable code that becomes `err.code`, and a message.
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::bindgen_prelude::{Error, Result};

/// The stable code of an error: its text is what JS sees as `err.code`.
#[derive(Clone, Debug)]
pub(crate) struct Code(String);

impl Code {
    /// An argument that the addon itself could not read.
    pub(crate) fn invalid_argument() -> Self {
        Self("WARMPATH_INVALID_ARGUMENT".to_owned())
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Refuses an argument; `detail` names it and what is allowed.
pub(crate) fn invalid(detail: impl Into<String>) -> Error<Code> {
    Error::new(Code::invalid_argument(), detail.into())
}

/// Runs `f`; a panic inside becomes an error, and whatever lock it held is free again.
pub(crate) fn guard<T>(f: impl FnOnce() -> Result<T, Code>) -> Result<T, Code> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Error::new(Code("WARMPATH_PANIC".to_owned()), text))
    })
}
