//! Who comes in: what the guard says of a request, as an answer of HTTP. Without one everybody does, and is
//! nobody in particular.

use http::Response;

use super::answer::Body;
use super::head::Head;
use super::peer::Known;
use super::{Endpoint, Options};
use crate::server::{Caller, Scopes};

#[cfg(feature = "auth")]
use guarded as on;
#[cfg(not(feature = "auth"))]
use open as on;

/// The answer to a request for what everybody may read, signed in or not. Nothing else is public.
pub(super) fn public(endpoint: &Endpoint, head: &Head<'_>) -> Option<Response<Body>> {
    on::public(endpoint, head)
}

/// Whether there is something at `path` that everybody may read, in whatever page.
pub(super) fn is_public(endpoint: &Endpoint, path: &str) -> bool {
    on::is_public(endpoint, path)
}

/// Whether callers have to show a credential.
pub(super) fn is_guarded(endpoint: &Endpoint) -> bool {
    on::is_guarded(endpoint)
}

/// Who answers a request for a token, or for what leads to one, whoever asks having none yet; and the answer.
pub(super) use on::{granted, grantor};

/// Who asks, as its credential proves; where none is asked for, who it is `known` to be without.
///
/// # Errors
///
/// The answer to a request without a credential that counts here.
pub(super) async fn admit(
    endpoint: &Endpoint,
    head: &Head<'_>,
    known: Known,
) -> Result<Caller, Box<Response<Body>>> {
    on::admit(endpoint, head, known).await
}

/// Counts a credential that was shown elsewhere than in the header, and does not count; the refusal of whoever shows such
/// ones too often.
pub(super) fn shown_in_vain(endpoint: &Endpoint, known: &Known) -> Option<Response<Body>> {
    on::shown_in_vain(endpoint, known)
}

/// The refusal of a caller whose credential lacks some of the scopes `needed`, with the way to get them.
pub(super) fn with_step_up(options: &Options, refusal: Response<Body>, needed: &Scopes) -> Response<Body> {
    on::with_step_up(options, refusal, needed)
}

#[cfg(feature = "auth")]
mod guarded {
    use std::time::Duration;

    use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
    use http::{HeaderValue, Method, Response, StatusCode};

    use super::super::answer::{Body, empty, only, text};
    use super::super::head::Head;
    use super::super::peer::Known;
    use super::super::route::RequestBody;
    use super::super::{Endpoint, Options, Peer, post};
    use crate::auth::{self, Guard, LONGEST_BODY, Refusal};
    use crate::server::{Caller, Scopes};

    pub(super) fn public(endpoint: &Endpoint, head: &Head<'_>) -> Option<Response<Body>> {
        let document = endpoint.options.guard.as_ref()?.metadata(head.path())?;
        let taken = "GET, OPTIONS";
        Some(match *head.method {
            Method::GET => {
                let mut response = Response::new(Body::Whole(Some(document.clone())));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
                response
            }
            Method::OPTIONS => {
                let mut response = empty(StatusCode::NO_CONTENT);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(taken));
                response
            }
            _ => only(taken, "GET this document".into()),
        })
    }

    pub(super) fn is_public(endpoint: &Endpoint, path: &str) -> bool {
        endpoint.options.guard.as_ref().is_some_and(|guard| guard.metadata(path).is_some())
    }

    pub(super) fn is_guarded(endpoint: &Endpoint) -> bool {
        endpoint.options.guard.is_some()
    }

    /// What answers whoever has no token yet.
    pub(in super::super) enum Grantor<'a> {
        /// An endpoint of the authorization server.
        Server(&'a Guard, auth::Endpoint),
        /// Clients look for documents that others have. A token would not make them be here.
        Nobody,
    }

    pub(in super::super) fn grantor<'a>(endpoint: &'a Endpoint, path: &str) -> Option<Grantor<'a>> {
        let guard = endpoint.options.guard.as_ref()?;
        match guard.endpoint(path) {
            Some(place) => Some(Grantor::Server(guard, place)),
            None => path.starts_with(WELL_KNOWN).then_some(Grantor::Nobody),
        }
    }

    pub(in super::super) async fn granted(
        grantor: Grantor<'_>,
        endpoint: &Endpoint,
        head: &Head<'_>,
        body: impl RequestBody,
    ) -> Response<Body> {
        let Grantor::Server(guard, place) = grantor else {
            return text(StatusCode::NOT_FOUND, "no such document is here".into());
        };
        if *head.method != place.method() {
            let taken = if place.method() == Method::GET { "GET" } else { "POST" };
            return only(taken, format!("{taken} this"));
        }
        let body = match post::read(endpoint, head, body, LONGEST_BODY).await {
            Ok(body) => body,
            Err(refusal) => return *refusal,
        };
        let query = head.uri.query().unwrap_or_default();
        let answer = guard.grant(place, head.headers, query, &body).await;
        answer.unwrap_or_default().map(|body| Body::Whole(Some(body)))
    }

    /// What clients look for before they know anything (RFC 8615).
    const WELL_KNOWN: &str = "/.well-known/";

    pub(super) async fn admit(
        endpoint: &Endpoint,
        head: &Head<'_>,
        known: Known,
    ) -> Result<Caller, Box<Response<Body>>> {
        let Some(guard) = &endpoint.options.guard else { return Ok(known.caller()) };
        // Boxed: without a guard no request has a place for it.
        Box::pin(guard.admit(head.headers, head.uri.query())).await.map_err(|refusal| {
            tracing::debug!(%refusal, "a request was not let in");
            let wait = known.peer.and_then(|Peer(peer)| guard.refused(peer, &refusal));
            Box::new(wait.map_or_else(|| turned_away(guard, &refusal), too_often))
        })
    }

    pub(super) fn shown_in_vain(endpoint: &Endpoint, known: &Known) -> Option<Response<Body>> {
        let (guard, Peer(peer)) = (endpoint.options.guard.as_ref()?, known.peer?);
        guard.refused(peer, &Refusal::Invalid("it lets nobody in")).map(too_often)
    }

    fn turned_away(guard: &Guard, refusal: &Refusal) -> Response<Body> {
        let mut response = text(refusal.status(), refusal.to_string());
        match guard.challenge(refusal) {
            Some(challenge) => response.headers_mut().insert(WWW_AUTHENTICATE, challenge),
            None => response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(TRY_AGAIN.as_secs())),
        };
        response
    }

    fn too_often(wait: Duration) -> Response<Body> {
        let what = "too many tokens from there did not count: wait, and sign in again";
        let mut response = text(StatusCode::TOO_MANY_REQUESTS, what.into());
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        response
    }

    /// When to come back once whoever vouches for callers could not be reached.
    const TRY_AGAIN: Duration = Duration::from_secs(10);

    pub(super) fn with_step_up(
        options: &Options,
        mut response: Response<Body>,
        needed: &Scopes,
    ) -> Response<Body> {
        let refusal = Refusal::Scope(needed.clone());
        if let Some(challenge) = options.guard.as_ref().and_then(|guard| guard.challenge(&refusal)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(not(feature = "auth"))]
mod open {
    use std::convert::Infallible;

    use http::Response;

    use super::super::answer::Body;
    use super::super::head::Head;
    use super::super::peer::Known;
    use super::super::route::RequestBody;
    use super::super::{Endpoint, Options};
    use crate::server::{Caller, Scopes};

    pub(super) fn public(_: &Endpoint, _: &Head<'_>) -> Option<Response<Body>> {
        None
    }

    pub(super) fn is_public(_: &Endpoint, _: &str) -> bool {
        false
    }

    pub(super) fn is_guarded(_: &Endpoint) -> bool {
        false
    }

    pub(in super::super) fn grantor(_: &Endpoint, _: &str) -> Option<Infallible> {
        None
    }

    pub(in super::super) async fn granted(
        grantor: Infallible,
        _: &Endpoint,
        _: &Head<'_>,
        _: impl RequestBody,
    ) -> Response<Body> {
        match grantor {}
    }

    pub(super) async fn admit(
        _: &Endpoint,
        _: &Head<'_>,
        known: Known,
    ) -> Result<Caller, Box<Response<Body>>> {
        Ok(known.caller())
    }

    pub(super) fn shown_in_vain(_: &Endpoint, _: &Known) -> Option<Response<Body>> {
        None
    }

    pub(super) fn with_step_up(_: &Options, response: Response<Body>, _: &Scopes) -> Response<Body> {
        response
    }
}
