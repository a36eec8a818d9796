//! The token of one server: the one in use, and where it is kept for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::super::error::AuthError;
use super::super::store::{Held, TokenStore};
use super::super::tokens::Tokens;

/// What is held of one server.
#[derive(Debug)]
pub(super) struct Holding {
    store: Arc<dyn TokenStore>,
    /// What it is kept under.
    name: String,
    current: RwLock<Option<Arc<Tokens>>>,
    is_loaded: AtomicBool,
    /// Whether the one in use is kept, too: if it is there no more, somebody has signed out.
    is_kept: AtomicBool,
    /// How long others may change what is kept.
    patience: Duration,
}

impl Holding {
    pub(super) fn new(store: Arc<dyn TokenStore>, name: String, patience: Duration) -> Self {
        Self {
            store,
            name,
            current: RwLock::default(),
            is_loaded: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            patience,
        }
    }

    /// The token in use.
    pub(super) fn current(&self) -> Option<Arc<Tokens>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes up what was kept, once: what that was.
    pub(super) async fn load(&self) -> Result<Option<Arc<Tokens>>, AuthError> {
        if self.is_loaded.load(Ordering::Acquire) {
            return Ok(None);
        }
        let kept = self.kept().await?.map(|kept| self.take_up(kept));
        self.is_loaded.store(true, Ordering::Release);
        Ok(kept)
    }

    /// Has what is kept to itself, of all who share it, until what is given is dropped.
    pub(super) async fn hold(&self) -> Result<Held, AuthError> {
        let held = tokio::time::timeout(self.patience, self.store.hold(&self.name)).await;
        held.unwrap_or_else(|_| Err(AuthError::Busy { after: self.patience }))
    }

    /// Uses what others have left, if they have changed it: the token in use then. Only who [holds](Self::hold) what is
    /// kept can rely on that.
    pub(super) async fn look(&self) -> Result<Option<Arc<Tokens>>, AuthError> {
        let current = self.current();
        match (self.kept().await?, &current) {
            (Some(kept), Some(current)) if kept.kept.access == current.kept.access => {}
            (Some(other), _) => return Ok(Some(self.take_up(other))),
            // Somebody has signed out.
            (None, Some(_)) if self.is_kept.load(Ordering::Acquire) => {
                self.set(None);
                return Ok(None);
            }
            (None, _) => {}
        }
        Ok(current)
    }

    /// Uses a token from now on, and keeps it. Whoever calls this holds what is kept.
    pub(super) async fn keep(&self, tokens: Tokens) -> Result<Arc<Tokens>, AuthError> {
        let text = tokens.text();
        // It counts here, even if it cannot be kept.
        let tokens = Arc::new(tokens);
        self.is_kept.store(false, Ordering::Release);
        self.set(Some(Arc::clone(&tokens)));
        self.store.save(&self.name, text?).await?;
        self.is_kept.store(true, Ordering::Release);
        Ok(tokens)
    }

    /// Forgets the token, here and where it is kept. Whoever calls this holds what is kept.
    pub(super) async fn forget(&self) -> Result<(), AuthError> {
        self.set(None);
        self.store.remove(&self.name).await
    }

    async fn kept(&self) -> Result<Option<Tokens>, AuthError> {
        Ok(self.store.load(&self.name).await?.as_ref().and_then(Tokens::read))
    }

    fn take_up(&self, tokens: Tokens) -> Arc<Tokens> {
        let tokens = Arc::new(tokens);
        self.set(Some(Arc::clone(&tokens)));
        self.is_kept.store(true, Ordering::Release);
        tokens
    }

    fn set(&self, tokens: Option<Arc<Tokens>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }
}
