//! From path and method to who answers.

use std::sync::Arc;

use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as HttpBody;
use longhaul_proto::dialect::Revision;
use longhaul_proto::http::{AllowList, accepts};
use longhaul_proto::jsonrpc::clip;

use super::answer::{Body, text};
use super::peer::Known;
use super::{Endpoint, callback, cors, door, legacy, pair, post};
use crate::server::Caller;

// As the header map has them: a name given as text is read anew each time it is looked for.
pub(super) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) static METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) static NAME: HeaderName = HeaderName::from_static("mcp-name");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(super) static FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The body of a request, whoever carries it.
pub(super) trait RequestBody:
    HttpBody<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

pub(super) async fn route(
    endpoint: &Arc<Endpoint>,
    known: Known,
    request: Request<impl RequestBody>,
) -> Response<Body> {
    let headers = request.headers();
    if let Err(refusal) = may_come_in(&endpoint.options.allow, headers, request.uri()) {
        return text(StatusCode::FORBIDDEN, refusal);
    }
    let page = reading_page(endpoint, headers, request.uri().path());
    let mut response = if page.is_some() && cors::is_preflight(request.method(), headers) {
        cors::preflight(headers)
    } else {
        answer(endpoint, known, request).await
    };
    if let Some(origin) = page {
        cors::let_read(&mut response, origin);
    }
    response
}

/// Answers a request that is for one of our names.
async fn answer(
    endpoint: &Arc<Endpoint>,
    known: Known,
    request: Request<impl RequestBody>,
) -> Response<Body> {
    let headers = request.headers();
    if let Some(name) = ONCE.into_iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return text(StatusCode::BAD_REQUEST, format!("send the {name} header once"));
    }
    if let Some(name) =
        NAMES.into_iter().find(|name| headers.contains_key(*name) && value(headers, name).is_none())
    {
        return text(StatusCode::BAD_REQUEST, format!("the {name} header is not plain text"));
    }
    if asks_for_health(&request) {
        return text(StatusCode::OK, "ok".into());
    }
    let request = match callback::answer(endpoint, request).await {
        Ok(response) => return response,
        Err(request) => request,
    };
    if let Some(response) = door::public(endpoint, &request) {
        return response;
    }
    let request = match door::granting(endpoint, request).await {
        Ok(request) => request,
        Err(response) => return *response,
    };
    // Before anything is told of what is where.
    let (headers, query) = (request.headers(), request.uri().query());
    let origin = known.origin;
    let caller = match door::admit(endpoint, headers, query, known).await {
        Ok(caller) => Caller { origin, ..caller },
        Err(response) => return *response,
    };
    let request = match pair::answer(endpoint, &caller, request).await {
        Ok(response) => return response,
        Err(request) => request,
    };
    let headers = request.headers();
    if !endpoint.mounted && request.uri().path() != endpoint.options.path {
        let path = &endpoint.options.path;
        return text(StatusCode::NOT_FOUND, format!("nothing here: the MCP endpoint is {path}"));
    }
    // What a POST says of its message decides how it is refused.
    if *request.method() != Method::POST
        && let Some(version) = value(headers, &VERSION)
        && Revision::from_date(version).is_none()
    {
        return text(StatusCode::BAD_REQUEST, format!("unsupported MCP-Protocol-Version: {}", clip(version)));
    }
    match *request.method() {
        Method::POST => post::answer(endpoint, caller, request).await,
        Method::GET => {
            if !accepts(value(headers, &ACCEPT)).events {
                return text(
                    StatusCode::NOT_ACCEPTABLE,
                    "a GET opens a stream: accept text/event-stream".into(),
                );
            }
            let (session, last) = (value(headers, &SESSION_ID), value(headers, &LAST_EVENT_ID));
            legacy::open_stream(endpoint, &caller, session, last).await
        }
        Method::DELETE => legacy::close(endpoint, &caller, value(headers, &SESSION_ID)),
        _ => not_allowed(),
    }
}

/// Whether it only asks if the server serves.
pub(super) fn asks_for_health<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/healthz" && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// The origin of the page that asks, if it may read the answer.
fn reading_page(endpoint: &Endpoint, headers: &HeaderMap, path: &str) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let listed = endpoint.options.allow.shares_with(origin.to_str().ok()?);
    (listed || door::is_public(endpoint, path)).then(|| origin.clone())
}

/// Headers that decide how a message is understood. Given twice, who reads the first and who reads the last
/// would understand it differently.
static ONCE: [&HeaderName; 6] = [&CONTENT_TYPE, &VERSION, &METHOD, &NAME, &LAST_EVENT_ID, &SESSION_ID];

/// Headers that name what is there already: one that cannot be read must not pass for absent.
static NAMES: [&HeaderName; 2] = [&SESSION_ID, &LAST_EVENT_ID];

/// Whether the request is for one of our names and from no foreign web page.
///
/// # Errors
///
/// Why it is not. What is given twice or cannot be read as text is foreign: it must not pass for absent.
fn may_come_in(allow: &AllowList, headers: &HeaderMap, uri: &Uri) -> Result<(), String> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => match value.to_str() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(format!("forbidden: the {name} header is not plain text")),
            },
            (Some(_), Some(_)) => Err(format!("forbidden: the {name} header is given twice")),
        }
    };
    let (host, origin) = (single(&HOST)?, single(&ORIGIN)?);
    // A request that names its host itself overrules the header (RFC 9112, 3.2.2), which HTTP/2 has no need of.
    let named = uri.authority().map(|authority| authority.as_str());
    let check = |host| allow.check(host, origin).map_err(|refused| refused.to_string());
    check(named.or(host))?;
    if named.is_some() && host.is_some() {
        check(host)?;
    }
    // A browser leaves `Origin` out of some requests that a page makes of another site; this it does not. That its user
    // goes there is something else: so somebody comes to sign in.
    if origin.is_none()
        && single(&FETCH_SITE)? == Some("cross-site")
        && single(&FETCH_MODE)? != Some("navigate")
    {
        return Err("forbidden: the request comes from a page of another site".to_owned());
    }
    Ok(())
}

/// `405`, for what the endpoint never takes or takes only within a session.
pub(super) fn not_allowed() -> Response<Body> {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "POST a message; GET and DELETE belong to a session (send its Mcp-Session-Id)".into(),
    );
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// A header's text, if it has one that is text.
pub(super) fn value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether the body claims to be JSON.
pub(super) fn has_json(headers: &HeaderMap) -> bool {
    value(headers, &CONTENT_TYPE).is_some_and(longhaul_proto::http::is_json)
}
