//! Who comes in: what the guard says of a request, as an answer of HTTP. Without one everybody does, and is
//! nobody in particular.

use http::{HeaderMap, Request, Response, StatusCode};
use longhaul_proto::jsonrpc::{ErrorObject, RequestId};

use super::answer::{Body, refusal};
use super::route::RequestBody;
use super::{Endpoint, Peer};
use crate::server::{Caller, Scopes};

#[cfg(feature = "auth")]
use guarded as on;
#[cfg(not(feature = "auth"))]
use open as on;

/// The answer to a request for what everybody may read, signed in or not. Nothing else is public.
pub(super) fn public<B>(endpoint: &Endpoint, request: &Request<B>) -> Option<Response<Body>> {
    on::public(endpoint, request)
}

/// The answer to a request for a token, or to what leads to one; whoever asks has none yet. Any other request is given
/// back.
pub(super) async fn granting<B: RequestBody>(
    endpoint: &Endpoint,
    request: Request<B>,
) -> Result<Request<B>, Box<Response<Body>>> {
    on::granting(endpoint, request).await
}

/// Who asks, as its credential proves; where none is asked for, who it is `known` to be without.
///
/// # Errors
///
/// The answer to a request without a credential that counts here.
pub(super) async fn admit(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    query: Option<&str>,
    known: Option<Caller>,
    peer: Option<Peer>,
) -> Result<Caller, Box<Response<Body>>> {
    on::admit(endpoint, headers, query, known.unwrap_or_default(), peer).await
}

/// `403`: the caller's credential lacks some of the scopes `needed`.
pub(super) fn forbidden(endpoint: &Endpoint, id: &RequestId, needed: &Scopes) -> Response<Body> {
    let response = refusal(StatusCode::FORBIDDEN, Some(id), &ErrorObject::forbidden(needed));
    on::with_step_up(endpoint, response, needed)
}

#[cfg(feature = "auth")]
mod guarded {
    use std::time::Duration;

    use http::header::{
        ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_TYPE,
        ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    };
    use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

    use super::super::answer::{Body, empty, text};
    use super::super::route::RequestBody;
    use super::super::{Endpoint, Peer, post};
    use crate::auth::{Guard, LONGEST_BODY, Refusal};
    use crate::server::{Caller, Scopes};

    pub(super) fn public<B>(endpoint: &Endpoint, request: &Request<B>) -> Option<Response<Body>> {
        let document = endpoint.options.guard.as_ref()?.metadata(request.uri().path())?;
        let mut response = match *request.method() {
            Method::GET => Response::new(Body::Whole(Some(document.clone()))),
            Method::OPTIONS => empty(StatusCode::NO_CONTENT),
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET this document".into()),
        };
        let status = response.status();
        let headers = response.headers_mut();
        if status == StatusCode::OK {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        } else {
            headers.insert(ALLOW, READS);
        }
        // A page that came this far is of an origin that is allowed.
        if let Some(origin) = request.headers().get(ORIGIN) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, READS);
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
        Some(response)
    }

    const READS: HeaderValue = HeaderValue::from_static("GET, OPTIONS");

    pub(super) async fn granting<B: RequestBody>(
        endpoint: &Endpoint,
        request: Request<B>,
    ) -> Result<Request<B>, Box<Response<Body>>> {
        let found = endpoint.options.guard.as_ref().and_then(|guard| {
            let place = guard.endpoint(request.uri().path())?;
            Some((guard, place))
        });
        let Some((guard, place)) = found else { return Ok(request) };
        let (head, body) = request.into_parts();
        if head.method != place.method() {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, format!("{} this", place.method()));
            let allowed = if place.method() == Method::GET { "GET" } else { "POST" };
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Err(Box::new(refusal));
        }
        let body = post::read(endpoint, &head.headers, body, LONGEST_BODY).await?;
        let query = head.uri.query().unwrap_or_default();
        let answer = guard.grant(place, &head.headers, query, &body).await;
        Err(Box::new(answer.unwrap_or_default().map(|body| Body::Whole(Some(body)))))
    }

    pub(super) async fn admit(
        endpoint: &Endpoint,
        headers: &HeaderMap,
        query: Option<&str>,
        known: Caller,
        peer: Option<Peer>,
    ) -> Result<Caller, Box<Response<Body>>> {
        let Some(guard) = &endpoint.options.guard else { return Ok(known) };
        guard.admit(headers, query).await.map_err(|refusal| {
            tracing::debug!(%refusal, "a request was not let in");
            let wait = peer.and_then(|Peer(peer)| guard.refused(peer, &refusal));
            Box::new(wait.map_or_else(|| turned_away(guard, &refusal), too_often))
        })
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
        endpoint: &Endpoint,
        mut response: Response<Body>,
        needed: &Scopes,
    ) -> Response<Body> {
        let refusal = Refusal::Scope(needed.clone());
        if let Some(challenge) = endpoint.options.guard.as_ref().and_then(|guard| guard.challenge(&refusal)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(not(feature = "auth"))]
mod open {
    use http::{HeaderMap, Request, Response};

    use super::super::answer::Body;
    use super::super::{Endpoint, Peer};
    use crate::server::{Caller, Scopes};

    pub(super) fn public<B>(_: &Endpoint, _: &Request<B>) -> Option<Response<Body>> {
        None
    }

    pub(super) async fn granting<B>(
        _: &Endpoint,
        request: Request<B>,
    ) -> Result<Request<B>, Box<Response<Body>>> {
        Ok(request)
    }

    pub(super) async fn admit(
        _: &Endpoint,
        _: &HeaderMap,
        _: Option<&str>,
        known: Caller,
        _: Option<Peer>,
    ) -> Result<Caller, Box<Response<Body>>> {
        Ok(known)
    }

    pub(super) fn with_step_up(_: &Endpoint, response: Response<Body>, _: &Scopes) -> Response<Body> {
        response
    }
}
