//! From path and method to who answers.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body::Body as HttpBody;
use longhaul_proto::dialect::Revision;
use longhaul_proto::http::{AllowList, accepts};
use longhaul_proto::jsonrpc::clip;

use super::answer::{Body, Reply, only, text};
use super::head::{Head, Header, READY};
use super::peer::Known;
use super::{Endpoint, callback, cors, door, legacy, pages, pair, post, ready, shared};
use crate::server::Caller;

// As the header map has it: a name given as text is read anew each time.
pub(super) static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The body of a request, whoever carries it.
pub(super) trait RequestBody:
    HttpBody<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send
{
}

pub(super) async fn route(
    endpoint: &Arc<Endpoint>,
    known: Known,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    if let Err(refusal) = may_come_in(&endpoint.options.allow, head) {
        return text(StatusCode::FORBIDDEN, refusal);
    }
    let page = reading_page(endpoint, head);
    let mut response = if page.is_some() && cors::is_preflight(head.method, head.headers) {
        cors::preflight(head.headers)
    } else {
        answer(endpoint, known, head, body).await
    };
    if let Some(origin) = page {
        cors::let_read(&mut response, origin);
    }
    response
}

/// Answers a request that is for one of our names. What is rarely asked for is boxed, so that a call has no place for it.
async fn answer(
    endpoint: &Arc<Endpoint>,
    known: Known,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    let path = head.path();
    if let Err(refusal) = is_clear(head) {
        return text(StatusCode::BAD_REQUEST, refusal);
    }
    if head.asks_for_health() {
        if path == READY {
            return Box::pin(ready::answer(endpoint)).await;
        }
        return text(StatusCode::OK, "ok".into());
    }
    if !endpoint.options.endpoint {
        return match pages::at(endpoint, head) {
            Some(pages) => Box::pin(pages::answer(pages, endpoint, known, head, body)).await,
            None => text(StatusCode::NOT_FOUND, "nothing here: this server has no MCP endpoint".into()),
        };
    }
    if let Some(called) = callback::called(endpoint, path) {
        return Box::pin(callback::answer(endpoint, called, head, body)).await;
    }
    if let Some(response) = door::public(endpoint, head) {
        return response;
    }
    if let Some(grantor) = door::grantor(endpoint, path) {
        return Box::pin(door::granted(grantor, endpoint, head, body)).await;
    }
    if let Some(pages) = pages::at(endpoint, head) {
        return Box::pin(pages::answer(pages, endpoint, known, head, body)).await;
    }
    let origin = known.origin;
    // Before anything is told of what is where.
    let caller = match door::admit(endpoint, head, known).await {
        Ok(caller) => Caller { origin, ..caller },
        Err(response) => return *response,
    };
    if pair::serves(endpoint, path) {
        return Box::pin(pair::answer(endpoint, &caller, head, body)).await;
    }
    if !endpoint.mounted && path != endpoint.options.path {
        let path = &endpoint.options.path;
        return text(StatusCode::NOT_FOUND, format!("nothing here: the MCP endpoint is {path}"));
    }
    // What a POST says of its message decides how it is refused.
    if *head.method != Method::POST
        && let Some(version) = head.version.text()
        && Revision::from_date(version).is_none()
    {
        return text(StatusCode::BAD_REQUEST, format!("unsupported MCP-Protocol-Version: {}", clip(version)));
    }
    if let Some(id) = head.session_id.text()
        && endpoint.options.sessions
        // Who names a revision without sessions is in none.
        && head.version.text().is_none_or(post::names_legacy)
        && let Some(shared) = endpoint.sessions.shared()
    {
        let recalled = Box::pin(shared::recall(endpoint, shared, id, &caller)).await;
        if let Err(refusal) = recalled {
            return *refusal;
        }
    }
    match *head.method {
        Method::POST => {
            let (accept, body) = match post::receive(endpoint, head, body).await {
                Ok(received) => received,
                Err(response) => return *response,
            };
            match post::answer(endpoint, caller, head, accept, &body) {
                Reply::Now(response) => response,
                Reply::Later(response) => response.await,
            }
        }
        Method::GET => {
            if !accepts(head.accept.text()).events {
                return text(
                    StatusCode::NOT_ACCEPTABLE,
                    "a GET opens a stream: accept text/event-stream".into(),
                );
            }
            let (session, last) = (head.session_id.text(), head.last_event_id.text());
            Box::pin(legacy::open_stream(endpoint, &caller, session, last)).await
        }
        Method::DELETE => Box::pin(legacy::close(endpoint, &caller, head.session_id.text())).await,
        _ => not_allowed(),
    }
}

/// The origin of the page that asks, if it may read the answer.
fn reading_page(endpoint: &Endpoint, head: &Head<'_>) -> Option<HeaderValue> {
    let origin = head.origin.first()?;
    let listed = endpoint.options.allow.shares_with(origin.to_str().ok()?);
    (listed || door::is_public(endpoint, head.path())).then(|| origin.clone())
}

/// Whether the headers that decide how a message is understood say one thing.
///
/// # Errors
///
/// Why they do not. Of what is given twice, who reads the first and who reads the last would understand it differently;
/// what names something that is there already must not pass for absent.
fn is_clear(head: &Head<'_>) -> Result<(), String> {
    let once = [
        (CONTENT_TYPE.as_str(), head.content_type),
        ("mcp-protocol-version", head.version),
        ("mcp-method", head.mcp_method),
        ("mcp-name", head.mcp_name),
        ("last-event-id", head.last_event_id),
        (SESSION_ID.as_str(), head.session_id),
    ];
    if let Some((name, _)) = once.iter().find(|(_, header)| header.is_given_again()) {
        return Err(format!("send the {name} header once"));
    }
    let names = [(SESSION_ID.as_str(), head.session_id), ("last-event-id", head.last_event_id)];
    match names.iter().find(|(_, header)| header.is_unreadable()) {
        Some((name, _)) => Err(format!("the {name} header is not plain text")),
        None => Ok(()),
    }
}

/// Whether the request is for one of our names and from no foreign web page.
///
/// # Errors
///
/// Why it is not. What is given twice or cannot be read as text is foreign: it must not pass for absent.
fn may_come_in(allow: &AllowList, head: &Head<'_>) -> Result<(), String> {
    let single = |name: &str, header: Header<'_>| {
        if header.is_given_again() {
            Err(format!("forbidden: the {name} header is given twice"))
        } else if header.is_unreadable() {
            Err(format!("forbidden: the {name} header is not plain text"))
        } else {
            Ok(())
        }
    };
    single("host", head.host)?;
    single("origin", head.origin)?;
    let (host, origin) = (head.host.text(), head.origin.text());
    // A request that names its host itself overrules the header (RFC 9112, 3.2.2), which HTTP/2 has no need of.
    let named = head.uri.authority().map(|authority| authority.as_str());
    let check = |host| allow.check(host, origin).map_err(|refused| refused.to_string());
    check(named.or(host))?;
    if named.is_some() && host.is_some() {
        check(host)?;
    }
    // A browser leaves `Origin` out of some requests that a page makes of another site; this it does not. That its user
    // goes there is something else: so somebody comes to sign in.
    if origin.is_some() {
        return Ok(());
    }
    single("sec-fetch-site", head.fetch_site)?;
    if head.fetch_site.text() != Some("cross-site") {
        return Ok(());
    }
    single("sec-fetch-mode", head.fetch_mode)?;
    if head.fetch_mode.text() != Some("navigate") {
        return Err("forbidden: the request comes from a page of another site".to_owned());
    }
    Ok(())
}

/// `405`, for what the endpoint never takes or takes only within a session.
pub(super) fn not_allowed() -> Response<Body> {
    only("POST", "POST a message; GET and DELETE belong to a session (send its Mcp-Session-Id)".into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Empty;

    use super::*;
    use crate::Server;
    use crate::transport::http::server::Options;

    #[test]
    fn a_request_has_no_place_for_what_is_rarely_asked_for() {
        let dispatcher = Server::new("bench", "1.0.0").dispatcher().unwrap();
        let endpoint = Arc::new(Endpoint::new(dispatcher, Options::default()));
        let (parts, ()) = http::Request::new(()).into_parts();
        let size = size_of_val(&route(&endpoint, Known::default(), &Head::of(&parts), Empty::<Bytes>::new()));
        // It is copied from hand to hand some times on its way to where it is polled.
        assert!(size <= 1024, "{size}");
    }
}
