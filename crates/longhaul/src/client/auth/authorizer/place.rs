//! Who grants tokens for a server, and for what: found out when the server refuses, and held to whoever knows a client
//! that was registered beforehand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Url;

use super::super::challenge::Challenge;
use super::super::error::AuthError;
use super::super::issuer::AuthorizationServer;
use super::super::resource::{ProtectedResource, canonical};
use super::super::tokens::Tokens;
use super::super::web::Web;
use super::super::{Grant, OAuth};
use crate::server::Scopes;

/// Who grants tokens, and for what.
pub(super) struct Place {
    pub(super) server: AuthorizationServer,
    pub(super) resource: String,
    pub(super) scopes: Scopes,
    /// Whether they are to be bound to a key.
    pub(super) binds: bool,
}

/// Finds that out for one server.
#[derive(Debug)]
pub(super) struct Places {
    oauth: OAuth,
    server: Url,
    known: Mutex<Known>,
}

/// What was found out.
#[derive(Debug, Default)]
struct Known {
    web: Option<Arc<Web>>,
    servers: BTreeMap<String, AuthorizationServer>,
    /// Who knows the client that was registered beforehand, if nobody said.
    issuer: Option<String>,
}

impl Places {
    pub(super) fn new(oauth: OAuth, server: Url) -> Self {
        Self { oauth, server, known: Mutex::default() }
    }

    /// Who grants tokens for the server, and what to ask for. The server is asked each time: it may have moved.
    pub(super) async fn find(
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

    /// The authorization server that granted a token. The one at the server's own origin may have no metadata.
    pub(super) async fn granter(&self, web: &Web, issuer: &str) -> Result<AuthorizationServer, AuthError> {
        if issuer == self.server.origin().ascii_serialization() {
            return AuthorizationServer::beside(web, &self.server).await;
        }
        self.issuer(web, issuer).await
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

    /// Holds a client that was registered beforehand to whoever knows it.
    pub(super) fn bind(&self, issuer: &str) -> Result<(), AuthError> {
        if self.oauth.credentials.is_none() {
            return Ok(());
        }
        match self.registered_at() {
            Some(registered) if registered != issuer => Err(AuthError::other_issuer(&registered, issuer)),
            Some(_) => Ok(()),
            None => {
                self.registered_with(issuer);
                Ok(())
            }
        }
    }

    /// Who has granted a token knows the client.
    pub(super) fn registered_with(&self, issuer: &str) {
        self.known().issuer = Some(issuer.to_owned());
    }

    /// Who knows the client that was registered beforehand.
    fn registered_at(&self) -> Option<String> {
        let credentials = self.oauth.credentials.as_ref()?;
        credentials.issuer.clone().or_else(|| self.known().issuer.clone())
    }

    /// What they are asked by.
    pub(super) fn web(&self) -> Result<Arc<Web>, AuthError> {
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
        let web = Arc::new(Web::new(&named, self.oauth.private, self.oauth.limits)?);
        self.known().web = Some(Arc::clone(&web));
        Ok(web)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most so many authorization servers are remembered.
const MAX_SERVERS: usize = 8;
