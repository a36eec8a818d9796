//! Why a handler failed whose failures are the protocol's errors.

use std::borrow::Cow;
use std::error::Error;

use longhaul_proto::jsonrpc::ErrorObject;

/// Why a prompt, a resource, a completion or a method of one's own failed.
///
/// Any error converts into it with its sources, as an internal error (`-32603`). An [`ErrorObject`] is answered as it
/// is.
///
/// # Examples
///
/// ```
/// use longhaul::server::Failure;
///
/// fn read(path: &str) -> Result<String, Failure> {
///     if path.contains("..") {
///         return Err(Failure::invalid("`path` must stay in its folder"));
///     }
///     Ok(std::fs::read_to_string(path)?)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Failure(ErrorObject);

impl Failure {
    /// Something is wrong on this side (`-32603`).
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(ErrorObject::internal(message))
    }

    /// Something is wrong with what was asked (`-32602`).
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self(ErrorObject::invalid_params(message))
    }

    /// There is no resource of that URI. Each revision has its own code for that.
    ///
    /// ```
    /// use longhaul::proto::jsonrpc::{Code, ErrorObject};
    /// use longhaul::server::Failure;
    ///
    /// assert_eq!(ErrorObject::from(Failure::not_found("notes://7")).code, Code::RESOURCE_NOT_FOUND);
    /// ```
    pub fn not_found(uri: &str) -> Self {
        Self(super::resource::not_found(uri))
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        Self(match any.downcast_ref::<ErrorObject>() {
            Some(answer) => answer.clone(),
            None => ErrorObject::internal(in_words(&error)),
        })
    }
}

impl From<Failure> for ErrorObject {
    fn from(Failure(error): Failure) -> Self {
        error
    }
}

/// An error and what caused it, in a line.
pub(super) fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        source = cause.source();
    }
    words
}
