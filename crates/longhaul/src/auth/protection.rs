//! Saying which tokens count, before there is a guard who knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::attempts::Attempts;
use super::fetch::FetchError;
use super::guard::{Guard, Inner};
use super::introspection::Introspection;
use super::issuer::Issuer;
use super::proxy::{Broker, Proxy};
use super::resource::Resource;
use super::rules::Rules;
use super::self_test::{self, Broken};
use super::static_tokens::StaticTokens;
use super::verify::Verify;
use crate::server::Scopes;

/// Which tokens count at a server, and what they must allow.
#[derive(Debug, Default)]
pub struct Protection {
    resource: Option<Resource>,
    audiences: Vec<String>,
    leeway: Option<Duration>,
    required: Scopes,
    implied: HashMap<String, Scopes>,
    tokens: StaticTokens,
    issuers: Vec<Issuer>,
    introspections: Vec<Introspection>,
    others: Vec<Arc<dyn Verify>>,
    proxy: Option<Proxy>,
}

/// Why a server cannot be protected so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectionError {
    /// No token would count.
    #[error("no token counts: nobody could ever come in")]
    Nobody,
    /// An issuer's tokens are for many servers, and this one has no name.
    #[error("the server has no URI of its own: without it tokens for other servers would count here")]
    NoResource,
    /// Two issuers have one name.
    #[error("{issuer} is trusted twice")]
    #[non_exhaustive]
    Twice {
        /// The issuer.
        issuer: String,
    },
    /// A scope that is between a client and its authorization server.
    #[error("`offline_access` is between a client and its authorization server: no server can ask for it")]
    OfflineAccess,
    /// Signatures cannot be checked.
    #[error("signatures cannot be checked: {0}")]
    Crypto(&'static str),
    /// Nothing could be fetched.
    #[error("the authorization server could not be asked")]
    Fetch(#[from] FetchError),
}

/// The longest that clocks may differ by.
const LONGEST_LEEWAY: Duration = Duration::from_secs(60);

impl Protection {
    /// Nobody comes in yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the server, as tokens do that are for it.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Names the server once more: for issuers that call it by another name than its URI.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Bears with clocks that differ by as much, 60 s at most. Default 60 s.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = Some(leeway);
        self
    }

    /// Asks every caller for these scopes, whatever it wants. A tool may
    /// [ask for more](crate::Tool::scopes).
    #[must_use]
    pub fn require(mut self, scopes: Scopes) -> Self {
        self.required = scopes;
        self
    }

    /// Says that whoever has `scope` has `others` too.
    #[must_use]
    pub fn implies(mut self, scope: impl Into<String>, others: Scopes) -> Self {
        self.implied.insert(scope.into(), others);
        self
    }

    /// Counts these tokens.
    #[must_use]
    pub fn tokens(mut self, tokens: StaticTokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Counts the JWTs of this issuer that are for this server.
    #[must_use]
    pub fn issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Counts the tokens that this endpoint vouches for and that are for this server.
    #[must_use]
    pub fn introspection(mut self, introspection: Introspection) -> Self {
        self.introspections.push(introspection);
        self
    }

    /// Is an authorization server itself, before another, and counts the tokens that it gives.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Counts what `verify` does, of the tokens that nobody else knows.
    #[must_use]
    pub fn verify(mut self, verify: Arc<dyn Verify>) -> Self {
        self.others.push(verify);
        self
    }

    /// The guard for the HTTP server. It has checked that it can tell a good signature from a bad one, and has
    /// fetched nothing yet: an authorization server may start after this one.
    ///
    /// # Errors
    ///
    /// When nobody or anybody could come in, or signatures cannot be checked.
    pub fn guard(self) -> Result<Guard, ProtectionError> {
        let own = self.proxy.as_ref().and(self.resource.as_ref()).map(Resource::origin);
        let names: Vec<&str> = own
            .into_iter()
            .chain(self.issuers.iter().map(Issuer::name))
            .chain(self.introspections.iter().map(Introspection::issuer))
            .collect();
        if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(ProtectionError::Twice { issuer: (*twice.1).to_owned() });
        }
        if (!names.is_empty() || self.proxy.is_some()) && self.resource.is_none() {
            return Err(ProtectionError::NoResource);
        }
        if self.required.contains("offline_access") {
            return Err(ProtectionError::OfflineAccess);
        }
        if !self.issuers.is_empty() || self.proxy.is_some() {
            self_test::run().map_err(|Broken(what)| ProtectionError::Crypto(what))?;
        }
        let metadata = match &self.resource {
            Some(resource) if !names.is_empty() => {
                Some((resource.clone(), resource.metadata(&names, &self.required)))
            }
            _ => None,
        };
        let mut verifiers: Vec<Arc<dyn Verify>> = Vec::new();
        if !self.tokens.is_empty() {
            verifiers.push(Arc::new(self.tokens));
        }
        let broker = match (self.proxy, &self.resource) {
            (Some(proxy), Some(resource)) => Some(Arc::new(proxy.broker(resource, &self.required)?)),
            _ => None,
        };
        if let Some(broker) = &broker {
            verifiers.push(Arc::<Broker>::clone(broker));
        }
        for issuer in self.issuers {
            verifiers.push(Arc::new(issuer.verifier()?));
        }
        for introspection in self.introspections {
            verifiers.push(Arc::new(introspection.verifier()?));
        }
        verifiers.extend(self.others);
        if verifiers.is_empty() {
            return Err(ProtectionError::Nobody);
        }
        let leeway = self.leeway.unwrap_or(LONGEST_LEEWAY).min(LONGEST_LEEWAY);
        let rules = Rules { resource: self.resource, audiences: self.audiences, leeway };
        let (required, implied) = (self.required, self.implied);
        Ok(Guard(Arc::new(Inner {
            rules,
            required,
            implied,
            verifiers,
            metadata,
            broker,
            attempts: Attempts::default(),
        })))
    }
}
