//! Tokens that only their issuer can read: it is asked about each (RFC 7662).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Client, Url};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::basic::{basic, encoded};
use super::fetch::{self, FetchError, InvalidUrl};
use super::jwt::Jwt;
use super::refusal::Refusal;
use super::rules::{Lifetime, Rules};
use super::static_tokens::digest;
use super::verify::{Verified, Verify, VerifyFuture};

/// An endpoint that vouches for the tokens of an authorization server.
///
/// What it says of a good token holds for 10 s, so that one that is taken back counts no longer than that.
#[derive(Clone)]
pub struct Introspection {
    issuer: String,
    endpoint: Url,
    client_id: String,
    secret: HeaderValue,
}

impl Introspection {
    /// The endpoint of `issuer`, which knows this server as `client_id` with `secret`.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] when either is none of `https`, or of `http` on this machine.
    pub fn new(
        issuer: impl Into<String>,
        endpoint: &str,
        client_id: &str,
        secret: &str,
    ) -> Result<Self, InvalidUrl> {
        let issuer = issuer.into();
        fetch::url(&issuer)?;
        let endpoint = fetch::url(endpoint)?;
        Ok(Self { issuer, endpoint, client_id: client_id.to_owned(), secret: basic(client_id, secret) })
    }

    /// The authorization server it speaks for.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(super) fn verifier(self) -> Result<IntrospectionVerifier, FetchError> {
        let http = fetch::client(&self.endpoint)?;
        let places = Semaphore::new(MAX_ASKED);
        Ok(IntrospectionVerifier { of: self, http, places, known: Mutex::default() })
    }
}

/// Without the secret.
impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("issuer", &self.issuer)
            .field("endpoint", &self.endpoint.as_str())
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// How many tokens are asked about at once; more wait.
const MAX_ASKED: usize = 32;

/// How long an answer about a good token holds.
const HOLDS: Duration = Duration::from_secs(10);

/// How many answers are kept.
const MAX_KNOWN: usize = 4096;

/// Asks about tokens.
#[derive(Debug)]
pub(super) struct IntrospectionVerifier {
    of: Introspection,
    http: Client,
    places: Semaphore,
    known: Mutex<HashMap<[u8; 32], Answer>>,
}

/// What was said of a good token, and until when it holds.
#[derive(Debug)]
struct Answer {
    claims: Map<String, Value>,
    until: Instant,
}

impl IntrospectionVerifier {
    async fn check(&self, token: &str, rules: &Rules) -> Result<Option<Verified>, Refusal> {
        if Jwt::take_apart(token)
            .is_some_and(|jwt| jwt.issuer().is_some_and(|issuer| issuer != self.of.issuer))
        {
            // It says itself that it is somebody else's, who alone should see it.
            return Ok(None);
        }
        let digest = digest(token);
        let claims = match self.recall(&digest) {
            Some(claims) => claims,
            None => {
                let Some(claims) = self.ask(token).await? else { return Ok(None) };
                self.remember(digest, &claims);
                claims
            }
        };
        // Also what is remembered may have ended meanwhile.
        rules.verified(claims, &self.of.issuer, Lifetime::Asked).map(Some)
    }

    /// What the endpoint says of a token; `None` if it does not count.
    async fn ask(&self, token: &str) -> Result<Option<Map<String, Value>>, Refusal> {
        // It is never closed.
        let _place = self.places.acquire().await.map_err(|_| Refusal::Unavailable)?;
        let url = &self.of.endpoint;
        let form = format!("token={}&token_type_hint=access_token", encoded(token));
        let request = self.http.post(url.clone()).header("authorization", self.of.secret.clone());
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        let mut claims = match fetch::json::<Map<String, Value>>(request, url).await {
            Ok(claims) => claims,
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, "a token could not be asked about");
                // Some will not even look at a token that is of no kind of theirs.
                let refused = matches!(error, FetchError::Status { status: 400, .. });
                return if refused { Ok(None) } else { Err(Refusal::Unavailable) };
            }
        };
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Ok(None);
        }
        // What may be left out says: of whoever is asked, and about the client itself.
        claims.entry("iss").or_insert_with(|| self.of.issuer.clone().into());
        if let (None, Some(client)) = (claims.get("sub"), claims.get("client_id").cloned()) {
            claims.insert("sub".to_owned(), client);
        }
        Ok(Some(claims))
    }

    fn recall(&self, digest: &[u8; 32]) -> Option<Map<String, Value>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = known.get(digest).filter(|answer| Instant::now() < answer.until);
        answer.map(|answer| answer.claims.clone())
    }

    fn remember(&self, digest: [u8; 32], claims: &Map<String, Value>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, answer| now < answer.until);
        }
        if known.len() < MAX_KNOWN {
            known.insert(digest, Answer { claims: claims.clone(), until: now + HOLDS });
        }
    }
}

impl Verify for IntrospectionVerifier {
    fn verify<'a>(&'a self, token: &'a str, rules: &'a Rules) -> VerifyFuture<'a> {
        Box::pin(self.check(token, rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_as_forms_write_it_and_never_shown() {
        let introspection =
            Introspection::new("https://login.example", "https://login.example/introspect", "me:1", "s é");
        let introspection = introspection.unwrap();
        // `me%3A1:s%20%C3%A9`
        assert_eq!(introspection.secret, "Basic bWUlM0ExOnMlMjAlQzMlQTk=");
        assert!(!format!("{introspection:?}").contains("bWU"));
    }
}
