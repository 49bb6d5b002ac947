//! Work on a thread of the pool, as a promise.
//!
//! An error keeps its code across the boundary, and a panic in the work is an error.
use napi::bindgen_prelude::{AsyncTask, Error, Result, ToNapiValue, TypeName};
use napi::{Env, JsError, Task, ValueType, sys};

use crate::error::{Code, guard};

type Work<T> = Box<dyn FnOnce() -> Result<T, Code> + Send>;

/// Work that is done once.
pub(crate) struct Background<T>(Option<Work<T>>);

/// Lets `work` run on another thread.
pub(crate) fn background<T: Send + ToNapiValue + 'static>(
    work: impl FnOnce() -> Result<T, Code> + Send + 'static,
) -> AsyncTask<Background<T>> {
    AsyncTask::new(Background(Some(Box::new(work))))
}

impl<T: Send + ToNapiValue + 'static> Task for Background<T> {
    type Output = Result<T, Code>;
    type JsValue = Given<T>;

    fn compute(&mut self) -> Result<Self::Output> {
        match self.0.take() {
            Some(work) => Ok(guard(work)),
            None => Err(Error::from_reason("this work was done before")),
        }
    }

    fn resolve(&mut self, env: Env, output: Self::Output) -> Result<Given<T>> {
        output
            .map(Given)
            .map_err(|error| Error::from(JsError::from(error).into_unknown(env)))
    }
}

/// What the promise is fulfilled with: a handle has no name of its own among the glue's types.
pub(crate) struct Given<T>(T);

impl<T> TypeName for Given<T> {
    fn type_name() -> &'static str {
        "Given"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl<T: ToNapiValue> ToNapiValue for Given<T> {
    unsafe fn to_napi_value(env: sys::napi_env, given: Self) -> Result<sys::napi_value> {
        // SAFETY: the caller's promise about `env` is passed on as it is.
        unsafe { T::to_napi_value(env, given.0) }
    }
}
