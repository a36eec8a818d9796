//! One server's tokens: which to show, and what to do when it refuses. One gets a token while the others wait for it.

mod grant;
mod holding;
mod place;
mod refresh;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::challenge::Challenge;
use super::error::AuthError;
use super::resource::stored;
use super::tokens::Tokens;
use super::{Grant, OAuth, now};
use crate::oauth::fetch::is_safe;
use holding::Holding;
use place::Places;

/// Gets and keeps the tokens for one server.
#[derive(Debug)]
pub(crate) struct Authorizer {
    oauth: OAuth,
    server: Url,
    holding: Holding,
    places: Places,
    /// Held by who gets a token.
    turn: Arc<Mutex<()>>,
    /// How often no token was to be had, and why the last time. Whoever waited for it meanwhile asks nobody again.
    failures: AtomicU64,
    failed: std::sync::Mutex<Option<AuthError>>,
}

/// What was tried for one request. It bounds what is.
#[derive(Debug, Default)]
pub(crate) struct Round {
    refreshed: bool,
    granted: bool,
    widened: bool,
    nonce: bool,
    waited: u8,
}

/// The turn, for as long as anybody has it.
type HeldTurn = Arc<OwnedMutexGuard<()>>;

/// How often a request may find that somebody else has got another token meanwhile.
const MAX_WAITED: u8 = 4;

impl Authorizer {
    pub(crate) fn new(oauth: OAuth, server: Url) -> Self {
        let name = format!("tokens {}", stored(&server));
        Self {
            holding: Holding::new(Arc::clone(&oauth.store), name, oauth.limits.patience),
            places: Places::new(oauth.clone(), server.clone()),
            oauth,
            server,
            turn: Arc::default(),
            failures: AtomicU64::new(0),
            failed: std::sync::Mutex::default(),
        }
    }

    /// The token to show, if there is one. One that is about to end is renewed first, once for all who ask.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<Arc<Tokens>>, AuthError> {
        // Whoever listens on the way to it could read the token.
        if !is_safe(&self.server) {
            return Ok(None);
        }
        match self.usable() {
            Some(tokens) if self.is_fresh(&tokens) => return Ok(Some(tokens)),
            _ => {}
        }
        let turn = self.turn().await;
        self.load().await?;
        let Some(tokens) = self.usable() else { return Ok(None) };
        if self.is_fresh(&tokens) || tokens.kept.refresh.is_none() {
            return Ok(Some(tokens).filter(|tokens| tokens.counts(now())));
        }
        match self.refresh(&turn, Arc::clone(&tokens)).await {
            // It may still do: the server says so if not.
            Err(error) if tokens.counts(now()) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "a token could not be renewed early"
                );
                Ok(Some(tokens))
            }
            refreshed => refreshed,
        }
    }

    /// What a request with this token has in its header.
    pub(crate) fn show(&self, tokens: &Tokens, method: &str) -> Result<HeaderMap, AuthError> {
        tokens.show(method, &self.server)
    }

    /// Does what the server asks for, if it does: whether the request may be sent again.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        round: &mut Round,
        used: Option<&Arc<Tokens>>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, AuthError> {
        let proofs = used.and_then(|used| used.proofs.as_ref());
        if let Some(proofs) = proofs {
            proofs.learn(&self.server, headers);
        }
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(false);
        }
        let challenge = Challenge::of(headers);
        if status == StatusCode::FORBIDDEN && !challenge.wants_more() {
            return Ok(false);
        }
        if !is_safe(&self.server) && !matches!(self.oauth.grant, Grant::User(None)) {
            return Err(AuthError::Insecure { url: self.server.origin().ascii_serialization() });
        }
        if challenge.error.as_deref() == Some("use_dpop_nonce") && proofs.is_some() && !round.nonce {
            round.nonce = true;
            return Ok(true);
        }
        let failures = self.failures.load(Ordering::Acquire);
        let turn = self.turn().await;
        self.load().await?;
        // Whoever signs in elsewhere does so for all who share what is kept.
        self.holding.look().await?;
        let current = self.usable();
        let is_same = match (&current, used) {
            (Some(current), Some(used)) => Arc::ptr_eq(current, used),
            (current, used) => current.is_none() && used.is_none(),
        };
        // Somebody else may have got another meanwhile.
        if !is_same && current.is_some() && round.waited < MAX_WAITED {
            round.waited += 1;
            return Ok(true);
        }
        if failures != self.failures.load(Ordering::Acquire)
            && let Some(failed) = self.failed().clone()
        {
            return Err(failed);
        }
        let renewed = self.renew(&turn, round, current.is_some(), &challenge).await;
        if let Err(error) = &renewed {
            *self.failed() = Some(error.clone());
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
        renewed.map(|()| true)
    }

    /// Gets another token: by the one that gets others where that can help, else from the beginning.
    async fn renew(
        self: &Arc<Self>,
        turn: &HeldTurn,
        round: &mut Round,
        was_usable: bool,
        challenge: &Challenge,
    ) -> Result<(), AuthError> {
        let current = self.holding.current();
        let widens = challenge.wants_more();
        let was_done = if widens { round.widened } else { round.granted };
        if was_done {
            return Err(refused(challenge));
        }
        // Without a user, what does not get a token at once never does.
        let has_refresh = current.as_ref().is_some_and(|it| it.kept.refresh.is_some());
        let can_refresh = was_usable && !widens && !round.refreshed && has_refresh;
        if matches!(self.oauth.grant, Grant::User(None)) && !can_refresh {
            return Err(match &challenge.scope {
                Some(scope) if widens => AuthError::ScopeNeeded { scope: scope.to_string() },
                _ => AuthError::SignInNeeded,
            });
        }
        let web = self.places.web()?;
        let mut place = self.places.find(&web, current.as_deref(), challenge).await?;
        let of_same = current.filter(|current| current.kept.issuer == place.server.issuer);
        if can_refresh && let Some(current) = &of_same {
            round.refreshed = true;
            if self.refresh(turn, Arc::clone(current)).await?.is_some() {
                return Ok(());
            }
        }
        if let Some(current) = &of_same {
            // What was asked for before is asked for again, so that nothing that worked is lost.
            let before = current.scopes();
            if widens && before.contains_all(&place.scopes) {
                return Err(refused(challenge));
            }
            place.scopes = place.scopes.union(&before);
        }
        place.scopes = place.scopes.union(&self.oauth.scopes);
        if widens {
            round.widened = true;
        } else {
            round.granted = true;
        }
        let tokens = self.grant(&web, &place).await?;
        // Who renews the one before it at this moment keeps that first.
        let _held = self.holding.hold().await?;
        self.holding.keep(tokens).await.map(drop)
    }

    /// The token in use, if it was asked for with all that is wanted of it.
    fn usable(&self) -> Option<Arc<Tokens>> {
        self.holding.current().filter(|tokens| tokens.scopes().contains_all(&self.oauth.scopes))
    }

    /// Whether it will count for a while.
    fn is_fresh(&self, tokens: &Tokens) -> bool {
        tokens.is_fresh(now(), self.oauth.limits.early.as_secs())
    }

    /// Takes up what was kept, once.
    async fn load(&self) -> Result<(), AuthError> {
        if let Some(tokens) = self.holding.load().await? {
            self.places.registered_with(&tokens.kept.issuer);
        }
        Ok(())
    }

    async fn turn(&self) -> HeldTurn {
        Arc::new(Arc::clone(&self.turn).lock_owned().await)
    }

    fn failed(&self) -> MutexGuard<'_, Option<AuthError>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(challenge: &Challenge) -> AuthError {
    match &challenge.scope {
        Some(scope) if challenge.wants_more() => AuthError::Scope { scope: scope.to_string() },
        _ => AuthError::TokenRefused,
    }
}
