//! Where tokens are kept between requests, or between runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use longhaul_tasks::environment::BoxFuture;

use super::error::AuthError;
use super::secret::Secret;

/// Keeps tokens, and what clients were registered with: texts under names, which say whose they are.
///
/// A name is `tokens URL` with the address of a server, or `client ISSUER`. Whoever can read what is kept can act as the
/// user, so keep it where nobody else reads: [`MemoryTokens`] forgets it with the process,
/// [`FileTokens`](super::FileTokens) has a file of its user's alone, and a key ring of the system is a few lines.
pub trait TokenStore: fmt::Debug + Send + Sync {
    /// What is kept under a name.
    ///
    /// # Errors
    ///
    /// When that cannot be known ([`AuthError::store`]).
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Secret>, AuthError>>;

    /// Keeps a text under a name, instead of what was there.
    ///
    /// # Errors
    ///
    /// When it may not have been kept.
    fn save<'a>(&'a self, name: &'a str, text: Secret) -> BoxFuture<'a, Result<(), AuthError>>;

    /// Forgets what is under a name, if there is anything.
    ///
    /// # Errors
    ///
    /// When it may still be there.
    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), AuthError>>;
}

/// Keeps tokens for as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryTokens(Mutex<BTreeMap<String, Secret>>);

impl MemoryTokens {
    /// Keeps nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryTokens {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        Box::pin(async { Ok(kept) })
    }

    fn save<'a>(&'a self, name: &'a str, text: Secret) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text);
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Box::pin(async { Ok(()) })
    }
}
