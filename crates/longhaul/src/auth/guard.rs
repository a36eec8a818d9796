//! The guard at the door: finds the token of a request and asks those who know it.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::attempts::Attempts;
use super::proxy::{Answer, Broker, Endpoint};
use super::refusal::Refusal;
use super::resource::Resource;
use super::rules::Rules;
use super::verify::Verify;
use crate::server::{Caller, Grant, Scopes};

/// Lets in who shows a token that counts, and tells everybody else how to get one. Clones are one guard.
#[derive(Clone)]
pub struct Guard(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) rules: Rules,
    /// What every request needs.
    pub(super) required: Scopes,
    /// Which scopes come with others.
    pub(super) implied: HashMap<String, Scopes>,
    /// Asked in this order.
    pub(super) verifiers: Vec<Arc<dyn Verify>>,
    /// Where it says who grants tokens, and what it says; `None` when nobody but the operator does.
    pub(super) metadata: Option<(Resource, Bytes)>,
    /// Grants tokens itself.
    pub(super) broker: Option<Arc<Broker>>,
    /// Who failed.
    pub(super) attempts: Attempts,
}

/// The longest token.
const LONGEST: usize = 16 << 10;

impl Guard {
    /// Who sends a request with these headers and this query.
    ///
    /// # Errors
    ///
    /// Why it is not let in.
    pub async fn admit(&self, headers: &HeaderMap, query: Option<&str>) -> Result<Caller, Refusal> {
        let token = token(headers, query)?;
        let inner = &*self.0;
        for verifier in &inner.verifiers {
            let Some(verified) = verifier.verify(token, &inner.rules).await? else { continue };
            let scopes = verified.scopes.map(|scopes| inner.with_implied(&scopes));
            let grant = Grant::new(scopes, verified.claims);
            if !grant.allows(&inner.required) {
                return Err(Refusal::Scope(inner.required.clone()));
            }
            let mut caller = Caller::new(Some(verified.principal));
            caller.grant = Some(Arc::new(grant));
            return Ok(caller);
        }
        Err(Refusal::Invalid("the token is not known here"))
    }

    /// How long whoever is at `peer` has to wait, if tokens that did not count came from there too often.
    pub(crate) fn refused(&self, peer: IpAddr, refusal: &Refusal) -> Option<Duration> {
        matches!(refusal, Refusal::Invalid(_)).then(|| self.0.attempts.failed(peer)).flatten()
    }

    /// The document for clients at this path, if it is there.
    pub(crate) fn metadata(&self, path: &str) -> Option<&Bytes> {
        let (resource, document) = self.0.metadata.as_ref()?;
        resource.has_metadata_at(path).then_some(document)
    }

    /// The endpoint of the authorization server at this path, if it is there.
    pub(crate) fn endpoint(&self, path: &str) -> Option<Endpoint> {
        self.0.broker.as_ref()?.endpoint(path)
    }

    /// Answers a request for one of them.
    pub(crate) async fn grant(
        &self,
        endpoint: Endpoint,
        headers: &HeaderMap,
        query: &str,
        body: &[u8],
    ) -> Option<Answer> {
        Some(self.0.broker.as_ref()?.answer(endpoint, headers, query, body).await)
    }

    /// Forgets what is past its time.
    pub(crate) async fn tidy(&self) {
        if let Some(broker) = &self.0.broker {
            broker.tidy().await;
        }
    }

    /// `WWW-Authenticate` for whoever is not let in; `None` where another token would not help.
    pub fn challenge(&self, refusal: &Refusal) -> Option<HeaderValue> {
        let metadata = self.0.metadata.as_ref().map(|(resource, _)| resource.metadata_url());
        refusal.challenge(&self.0.required, metadata)
    }
}

impl Inner {
    /// These scopes and all that come with them.
    fn with_implied(&self, scopes: &Scopes) -> Scopes {
        let mut all = scopes.clone();
        if self.implied.is_empty() {
            return all;
        }
        loop {
            let more = all
                .iter()
                .filter_map(|scope| self.implied.get(scope))
                .fold(all.clone(), |all, more| all.union(more));
            if more == all {
                return all;
            }
            all = more;
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("verifiers", &self.0.verifiers).finish_non_exhaustive()
    }
}

/// The token of a request: in its one `Authorization` header and nowhere else. URLs end up in logs, histories
/// and other people's `Referer`, so that one there is not even looked at.
fn token<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Result<&'h str, Refusal> {
    let in_query = query.unwrap_or_default().split('&');
    if in_query.into_iter().any(|pair| pair.split('=').next() == Some("access_token")) {
        return Err(Refusal::Malformed("a token must not be in the URL: send an Authorization header"));
    }
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err(Refusal::NoToken),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(Refusal::Malformed("send one Authorization header")),
    };
    let not_plain = Refusal::Malformed("the Authorization header is not plain text");
    let text = value.to_str().map_err(|_| not_plain)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::NoToken);
    }
    let token = token.trim_matches(' ');
    if token.len() > LONGEST || !is_bearer_token(token) {
        return Err(Refusal::Invalid("what follows `Bearer` is no token"));
    }
    Ok(token)
}

/// Whether a text has the form of a bearer token (RFC 6750, 2.1).
pub(super) fn is_bearer_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_token_is_in_one_header() {
        for good in ["Bearer abc.d-e_f~+/==", "bearer abc", "BEARER  abc "] {
            assert!(token(&headers(&[good]), Some("a=b&token=x")).is_ok(), "{good}");
        }
        for none in [&[][..], &["Basic abc"], &["Bearerabc"], &["bear abc"]] {
            assert_eq!(token(&headers(none), None), Err(Refusal::NoToken), "{none:?}");
        }
        for bad in ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer =", "Bearer a=b"] {
            assert!(matches!(token(&headers(&[bad]), None), Err(Refusal::Invalid(_))), "{bad}");
        }
        let twice = headers(&["Bearer abc", "Bearer abc"]);
        assert!(matches!(token(&twice, None), Err(Refusal::Malformed(_))));
        let once = headers(&["Bearer abc"]);
        for query in ["access_token=abc", "a=b&access_token=", "access_token"] {
            assert!(matches!(token(&once, Some(query)), Err(Refusal::Malformed(_))), "{query}");
        }
        let long = format!("Bearer {}", "a".repeat(LONGEST + 1));
        let mut map = HeaderMap::new();
        map.insert(AUTHORIZATION, HeaderValue::from_str(&long).unwrap());
        assert!(token(&map, None).is_err());
    }
}
