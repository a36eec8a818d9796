//! The user's way to an authorization server and back.

use std::fmt;

use longhaul_tasks::environment::BoxFuture;

use super::error::AuthError;

/// Shows a user where to sign in, and brings back the answer.
///
/// [`Loopback`](super::Loopback) does that with the browser of this machine. A program with pages of its own sends its
/// user there and waits for them at one of its addresses.
pub trait Browser: fmt::Debug + Send + Sync {
    /// Where users are sent back to: `https`, or `http` on this machine. It stays the same, for clients are registered
    /// with it.
    fn redirect_uri(&self) -> &str;

    /// Sends the user to `address`, which is `http` or `https`, and waits for the query with which they come back to the
    /// redirect URI, as it came. Whether it is the answer to this is checked by who asked.
    ///
    /// `address` has come from strangers: open it as one argument of a program, never through a shell. Dropping the future
    /// gives up waiting.
    ///
    /// # Errors
    ///
    /// [`AuthError::Browser`] when the user cannot be sent there, or does not come back ([`AuthError::browser`]).
    fn visit<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Result<String, AuthError>>;
}
