//! One server's tokens: which to show, and what to do when it refuses. One gets a token while the others wait for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::authorization::{Authorization, Wanted};
use super::challenge::Challenge;
use super::error::AuthError;
use super::issuer::AuthorizationServer;
use super::key::SigningKey;
use super::proof::Proofs;
use super::registration::{Client, Proof, Registration};
use super::resource::{ProtectedResource, canonical};
use super::token::{self, Parameters};
use super::tokens::{Kept, Tokens};
use super::web::Web;
use super::{Browser, Grant, OAuth, now};
use crate::oauth::fetch::is_safe;
use crate::server::Scopes;

/// Gets and keeps the tokens for one server.
#[derive(Debug)]
pub(crate) struct Authorizer {
    oauth: OAuth,
    server: Url,
    /// What its tokens are kept under.
    name: String,
    current: RwLock<Option<Arc<Tokens>>>,
    /// Held by who gets a token.
    turn: Arc<Mutex<()>>,
    known: std::sync::Mutex<Known>,
    /// How often no token was to be had. Whoever waited for it meanwhile asks nobody again.
    failures: AtomicU64,
}

/// What who had the turn has learnt.
#[derive(Debug, Default)]
struct Known {
    is_loaded: bool,
    web: Option<Arc<Web>>,
    servers: BTreeMap<String, AuthorizationServer>,
    /// Who knows the client that was registered beforehand, if nobody said.
    issuer: Option<String>,
    /// Why no token was to be had, the last time.
    failed: Option<AuthError>,
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

/// At most so many authorization servers are remembered.
const MAX_SERVERS: usize = 8;

/// Who grants tokens, and for what.
struct Place {
    server: AuthorizationServer,
    resource: String,
    scopes: Scopes,
    binds: bool,
}

impl Authorizer {
    pub(crate) fn new(oauth: OAuth, server: Url) -> Self {
        let name = format!("tokens {}", canonical(&server));
        Self {
            oauth,
            server,
            name,
            current: RwLock::default(),
            turn: Arc::default(),
            known: std::sync::Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }

    /// The token to show, if there is one. One that is about to end is renewed first, once for all who ask.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<Arc<Tokens>>, AuthError> {
        // Whoever listens on the way to it could read the token.
        if !is_safe(&self.server) {
            return Ok(None);
        }
        match self.current() {
            Some(tokens) if tokens.is_fresh(now()) => return Ok(Some(tokens)),
            _ => {}
        }
        let turn = self.turn().await;
        self.load().await?;
        let Some(tokens) = self.current() else { return Ok(None) };
        if tokens.is_fresh(now()) || tokens.kept.refresh.is_none() {
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
        let current = self.current();
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
            && let Some(failed) = self.known().failed.clone()
        {
            return Err(failed);
        }
        let renewed = self.renew(&turn, round, current, &challenge).await;
        if let Err(error) = &renewed {
            self.known().failed = Some(error.clone());
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
        renewed.map(|()| true)
    }

    /// Gets another token: by the one that gets others where that can help, else from the beginning.
    async fn renew(
        self: &Arc<Self>,
        turn: &HeldTurn,
        round: &mut Round,
        current: Option<Arc<Tokens>>,
        challenge: &Challenge,
    ) -> Result<(), AuthError> {
        let widens = challenge.wants_more();
        let was_done = if widens { round.widened } else { round.granted };
        if was_done {
            return Err(refused(challenge));
        }
        // Without a user, what does not get a token at once never does.
        let can_refresh =
            !widens && !round.refreshed && current.as_ref().is_some_and(|it| it.kept.refresh.is_some());
        if matches!(self.oauth.grant, Grant::User(None)) && !can_refresh {
            return Err(AuthError::SignInNeeded);
        }
        let web = self.web()?;
        let mut place = self.place(&web, current.as_deref(), challenge).await?;
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
        if widens {
            round.widened = true;
        } else {
            round.granted = true;
        }
        let tokens = self.grant(&web, &place).await?;
        self.keep(tokens).await.map(drop)
    }

    /// Who grants tokens for the server, and what to ask for. The server is asked each time: it may have moved.
    async fn place(
        &self,
        web: &Web,
        current: Option<&Tokens>,
        challenge: &Challenge,
    ) -> Result<Place, AuthError> {
        let resource = ProtectedResource::find(web, &self.server, challenge).await?;
        let Some(resource) = resource else {
            let server = AuthorizationServer::beside(web, &self.server).await?;
            let scopes = challenge.scope.clone().unwrap_or_default();
            let binds = server.binds && challenge.dpop;
            self.bind(&server.issuer)?;
            return Ok(Place { server, resource: canonical(&self.server), scopes, binds });
        };
        let ours = self.registered_at().or_else(|| current.map(|current| current.kept.issuer.clone()));
        let issuer = ours.and_then(|ours| resource.issuers.iter().find(|issuer| **issuer == ours));
        let issuer = issuer.or_else(|| resource.issuers.first()).ok_or(AuthError::NoIssuer)?;
        self.bind(issuer)?;
        let server = self.issuer(web, issuer).await?;
        let binds = server.binds && (challenge.dpop || resource.bound);
        let scopes = challenge.scope.clone().or(resource.scopes).unwrap_or_default();
        Ok(Place { server, resource: resource.name, scopes, binds })
    }

    /// Gets a token from the beginning.
    async fn grant(&self, web: &Web, place: &Place) -> Result<Tokens, AuthError> {
        let proofs = match self.current().and_then(|current| current.proofs.clone()) {
            Some(proofs) if place.binds => Some(proofs),
            None if place.binds => Some(Arc::new(Proofs::new(SigningKey::generate()?))),
            _ => None,
        };
        let server = &place.server;
        let (client, parameters) = match &self.oauth.grant {
            Grant::User(None) => return Err(AuthError::SignInNeeded),
            Grant::User(Some(browser)) => self.sign_in(web, &**browser, place).await?,
            Grant::Client => {
                let client = self.client(web, server, None).await?;
                let mut parameters = vec![
                    ("grant_type", "client_credentials".to_owned()),
                    ("resource", place.resource.clone()),
                ];
                if !place.scopes.is_empty() {
                    parameters.push(("scope", place.scopes.to_string()));
                }
                (client, parameters)
            }
            Grant::Vouched(assertions) => {
                let client = self.client(web, server, None).await?;
                let redeem = assertions.redeem(web, &server.issuer, &place.resource, &place.scopes);
                (client, redeem.await?)
            }
        };
        let granted = token::ask(web, server, &client, parameters, proofs.as_deref()).await?;
        let asked = Kept::asked(&server.issuer, &place.resource, &client.id, &place.scopes);
        Tokens::granted(granted, asked, proofs.as_ref(), now())
    }

    /// Lets a user sign in: what then gets the token.
    async fn sign_in(
        &self,
        web: &Web,
        browser: &dyn Browser,
        place: &Place,
    ) -> Result<(Client, Parameters<'static>), AuthError> {
        let redirect = browser.redirect_uri();
        // What nobody can sign in at is found out before anything is registered there.
        place.server.authorize()?;
        let client = self.client(web, &place.server, Some(redirect)).await?;
        let mut scopes = place.scopes.clone();
        // Asked for alone it would be all that is granted.
        if place.server.offline && !scopes.is_empty() {
            scopes = scopes.union(&["offline_access"].into_iter().collect());
        }
        let wanted = Wanted { resource: &place.resource, scopes: &scopes };
        let begun = Authorization::begin(&place.server, &client.id, redirect, wanted)?;
        let query = browser.visit(begun.address.as_str()).await?;
        Ok((client, begun.redeem(&query, &place.resource)?))
    }

    /// Who we are to an authorization server (2026-07-28, Client Registration). Without `redirect`, for a token that is
    /// there already.
    async fn client(
        &self,
        web: &Web,
        server: &AuthorizationServer,
        redirect: Option<&str>,
    ) -> Result<Client, AuthError> {
        if let Some(credentials) = &self.oauth.credentials {
            self.bind(&server.issuer)?;
            return Ok(credentials.at(server));
        }
        if let Some(id) = self.oauth.document.as_ref().filter(|_| server.takes_documents) {
            return Ok(Client { id: id.clone(), proof: Proof::None });
        }
        let name = format!("client {}", server.issuer);
        let kept = self.oauth.store.load(&name).await?;
        let kept: Option<Registration> = kept.and_then(|kept| serde_json::from_str(kept.reveal()).ok());
        match (kept, redirect) {
            (Some(kept), None) => kept.client(),
            (Some(kept), Some(redirect)) if kept.serves(redirect, now()) => kept.client(),
            (_, Some(redirect)) => {
                let made = Registration::make(web, server, &self.oauth.name, redirect).await?;
                let text = serde_json::to_string(&made).map_err(AuthError::store)?;
                self.oauth.store.save(&name, text.into()).await?;
                made.client()
            }
            (None, None) => Err(AuthError::NoClient { issuer: server.issuer.clone() }),
        }
    }

    /// Gets another token by the one that gets others; `None` if it counts no more. It goes on if whoever waits for it
    /// goes away: an answer that nobody keeps would cost the user a sign-in.
    async fn refresh(
        self: &Arc<Self>,
        turn: &HeldTurn,
        tokens: Arc<Tokens>,
    ) -> Result<Option<Arc<Tokens>>, AuthError> {
        let (this, turn) = (Arc::clone(self), Arc::clone(turn));
        let refreshing = tokio::spawn(async move {
            let refreshed = this.refresh_now(&tokens).await;
            drop(turn);
            refreshed
        });
        // It ends otherwise only with the whole process.
        refreshing.await.unwrap_or_else(|error| Err(AuthError::store(error)))
    }

    async fn refresh_now(&self, tokens: &Tokens) -> Result<Option<Arc<Tokens>>, AuthError> {
        // Another process may have: then ours counts no more.
        if let Some(other) = self.kept().await?
            && other.kept.access != tokens.kept.access
        {
            return Ok(Some(self.learn(other)));
        }
        let Some(refresh) = &tokens.kept.refresh else { return Ok(None) };
        let web = self.web()?;
        let server = self.granter(&web, &tokens.kept.issuer).await?;
        let client = match self.client(&web, &server, None).await {
            Ok(client) if client.id == tokens.kept.client_id => client,
            Ok(_) | Err(AuthError::NoClient { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let parameters = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.reveal().to_owned()),
            ("resource", tokens.kept.resource.clone()),
        ];
        match token::ask(&web, &server, &client, parameters, tokens.proofs.as_deref()).await {
            Ok(granted) => {
                let renewed = Tokens::granted(granted, tokens.kept.clone(), tokens.proofs.as_ref(), now())?;
                self.keep(renewed).await.map(Some)
            }
            // What counts no more is not tried again.
            Err(AuthError::Refused { error, .. }) if GONE.contains(&error.as_str()) => {
                self.forget().await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the token, here and where it is kept, and has it taken back. Whether there was one.
    pub(crate) async fn sign_out(&self) -> Result<bool, AuthError> {
        let _turn = self.turn().await;
        self.load().await?;
        let Some(tokens) = self.current() else { return Ok(false) };
        self.forget().await?;
        if let Err(error) = self.take_back(&tokens).await {
            // It ends by itself, and nobody here has it any more.
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the authorization server was not told that a token is not used any more");
        }
        Ok(true)
    }

    async fn take_back(&self, tokens: &Tokens) -> Result<(), AuthError> {
        let web = self.web()?;
        let server = self.granter(&web, &tokens.kept.issuer).await?;
        let client = self.client(&web, &server, None).await?;
        // With the one that gets others go all that it got (RFC 7009, 2.1).
        let token = tokens.kept.refresh.as_ref().unwrap_or(&tokens.kept.access);
        token::revoke(&web, &server, &client, token).await
    }

    /// An authorization server that the server names.
    async fn issuer(&self, web: &Web, issuer: &str) -> Result<AuthorizationServer, AuthError> {
        if let Some(known) = self.known().servers.get(issuer) {
            return Ok(known.clone());
        }
        let found = AuthorizationServer::find(web, issuer).await?;
        let mut known = self.known();
        if known.servers.len() >= MAX_SERVERS {
            known.servers.clear();
        }
        known.servers.insert(issuer.to_owned(), found.clone());
        Ok(found)
    }

    /// The authorization server that granted a token. The one at the server's own origin may have no metadata.
    async fn granter(&self, web: &Web, issuer: &str) -> Result<AuthorizationServer, AuthError> {
        if issuer == self.server.origin().ascii_serialization() {
            return AuthorizationServer::beside(web, &self.server).await;
        }
        self.issuer(web, issuer).await
    }

    /// Who knows the client that was registered beforehand.
    fn registered_at(&self) -> Option<String> {
        let credentials = self.oauth.credentials.as_ref()?;
        credentials.issuer.clone().or_else(|| self.known().issuer.clone())
    }

    /// Holds a client that was registered beforehand to whoever knows it.
    fn bind(&self, issuer: &str) -> Result<(), AuthError> {
        if self.oauth.credentials.is_none() {
            return Ok(());
        }
        match self.registered_at() {
            Some(registered) if registered != issuer => {
                Err(AuthError::OtherIssuer { registered, issuer: issuer.to_owned() })
            }
            Some(_) => Ok(()),
            None => {
                self.known().issuer = Some(issuer.to_owned());
                Ok(())
            }
        }
    }

    fn web(&self) -> Result<Arc<Web>, AuthError> {
        if let Some(web) = &self.known().web {
            return Ok(Arc::clone(web));
        }
        let issuer = self.oauth.credentials.as_ref().and_then(|credentials| credentials.issuer.as_ref());
        let issuer = issuer.and_then(|issuer| Url::parse(issuer).ok());
        let provider = match &self.oauth.grant {
            Grant::Vouched(assertions) => assertions.named(),
            Grant::User(_) | Grant::Client => None,
        };
        let named: Vec<&Url> =
            [Some(&self.server), issuer.as_ref(), provider].into_iter().flatten().collect();
        let web = Arc::new(Web::new(&named, self.oauth.private)?);
        self.known().web = Some(Arc::clone(&web));
        Ok(web)
    }

    /// Takes up what was kept, once.
    async fn load(&self) -> Result<(), AuthError> {
        if !self.known().is_loaded {
            if let Some(kept) = self.kept().await? {
                let issuer = kept.kept.issuer.clone();
                self.learn(kept);
                self.known().issuer = Some(issuer);
            }
            self.known().is_loaded = true;
        }
        Ok(())
    }

    async fn turn(&self) -> HeldTurn {
        Arc::new(Arc::clone(&self.turn).lock_owned().await)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn kept(&self) -> Result<Option<Tokens>, AuthError> {
        Ok(self.oauth.store.load(&self.name).await?.as_ref().and_then(Tokens::read))
    }

    async fn keep(&self, tokens: Tokens) -> Result<Arc<Tokens>, AuthError> {
        let text = tokens.text();
        // It counts here, even if it cannot be kept.
        let tokens = self.learn(tokens);
        self.oauth.store.save(&self.name, text?).await.map(|()| tokens)
    }

    async fn forget(&self) -> Result<(), AuthError> {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.oauth.store.remove(&self.name).await
    }

    fn learn(&self, tokens: Tokens) -> Arc<Tokens> {
        let tokens = Arc::new(tokens);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tokens));
        tokens
    }

    fn current(&self) -> Option<Arc<Tokens>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What an authorization server says of a token that gets no other any more (RFC 6749, 5.2).
const GONE: [&str; 4] = ["invalid_grant", "invalid_client", "unauthorized_client", "invalid_target"];

fn refused(challenge: &Challenge) -> AuthError {
    match &challenge.scope {
        Some(scope) if challenge.wants_more() => AuthError::Scope { scope: scope.to_string() },
        _ => AuthError::TokenRefused,
    }
}
