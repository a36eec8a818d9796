//! Where tokens are kept between requests, or between runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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

    /// Waits until nobody else holds this name, and holds it until what is given is dropped. Who does not ask for this
    /// can read and change what is under the name all the while.
    ///
    /// A token that gets others gets one, once: a server that sees it twice takes back all that came of it. So of all
    /// that share a store, other processes too, one renews a token at a time, and holds its name meanwhile. A store
    /// that is nobody else's needs nothing of this: without it nothing is held. Dropping the future gives up waiting.
    ///
    /// # Errors
    ///
    /// When it cannot be known whether somebody else does.
    fn hold<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Held, AuthError>> {
        let _ = name;
        Box::pin(async { Ok(Box::new(()) as Held) })
    }
}

/// A name that is [held](TokenStore::hold), until this is dropped.
pub type Held = Box<dyn Any + Send + Sync>;

/// Keeps tokens for as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryTokens {
    texts: Mutex<BTreeMap<String, Secret>>,
    /// By name: who renews a token has the turn.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryTokens {
    /// Keeps nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryTokens {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        let kept = self.texts.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        Box::pin(async { Ok(kept) })
    }

    fn save<'a>(&'a self, name: &'a str, text: Secret) -> BoxFuture<'a, Result<(), AuthError>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text);
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Box::pin(async { Ok(()) })
    }

    fn hold<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Held, AuthError>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = Arc::clone(turns.entry(name.to_owned()).or_default());
        Box::pin(async move { Ok(Box::new(turn.lock_owned().await) as Held) })
    }
}
