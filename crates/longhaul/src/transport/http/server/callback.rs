//! What runs elsewhere calls back: a POST to an address that nobody can guess.
//!
//! Whoever calls signs in by the address alone, so the guard is not asked. Of what it sends nothing is believed here.

use std::fmt;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use longhaul_tasks::environment::BoxFuture;

use super::answer::{Body, empty, no_room, only, text};
use super::head::Head;
use super::route::RequestBody;
use super::{Endpoint, post};

/// The path below which callbacks come in; a token follows.
pub const CALLBACKS: &str = "/callbacks/";

/// The longest body of a callback, in bytes.
pub const LONGEST_CALLBACK: usize = 32 << 10;

/// Takes the callbacks of what runs elsewhere: each a POST to [`CALLBACKS`] and a token.
pub trait Callbacks: fmt::Debug + Send + Sync + 'static {
    /// A call with this token has come, with a body of [`LONGEST_CALLBACK`] bytes at most.
    ///
    /// Once this is well, what it says is as durable as the store: the caller will not say it again.
    ///
    /// # Errors
    ///
    /// [`NotTaken`]; nothing has changed then.
    fn called<'a>(&'a self, token: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), NotTaken>>;
}

/// Why a callback was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The token is none, or is of something else, has expired or is of what has ended: one answer for all, a 404.
    #[error("nothing waits for this call")]
    Unknown,
    /// The same, of a token that was never made here: the audit trail is told.
    #[error("nothing waits for this call")]
    Forged,
    /// It cannot be recorded now; the same call may be made again. A 503.
    #[error("the call cannot be recorded now")]
    NotNow,
}

/// Who takes the callback that a request for `path` is, and its token.
pub(super) fn called<'a>(endpoint: &'a Endpoint, path: &'a str) -> Option<(&'a dyn Callbacks, &'a str)> {
    let callbacks = endpoint.options.callbacks.as_deref()?;
    Some((callbacks, path.strip_prefix(CALLBACKS)?))
}

/// Answers a callback.
pub(super) async fn answer(
    endpoint: &Endpoint,
    (callbacks, token): (&dyn Callbacks, &str),
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    if *head.method != Method::POST {
        return only("POST", "POST this".into());
    }
    let body = match post::read(endpoint, head, body, LONGEST_CALLBACK).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    match callbacks.called(token, body).await {
        Ok(()) => empty(StatusCode::NO_CONTENT),
        Err(why @ (NotTaken::Unknown | NotTaken::Forged)) => {
            if why == NotTaken::Forged {
                endpoint.dispatcher.was_called_back_in_vain();
            }
            text(StatusCode::NOT_FOUND, why.to_string())
        }
        Err(NotTaken::NotNow) => no_room("the call cannot be recorded now: make it again later"),
    }
}
