//! From path and method to who answers.

use std::sync::Arc;

use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use longhaul_proto::http::accepts;

use super::answer::{Body, text};
use super::{Endpoint, legacy, post};

pub(super) const SESSION_ID: &str = "mcp-session-id";

pub(super) async fn route(endpoint: &Arc<Endpoint>, request: Request<Incoming>) -> Response<Body> {
    let headers = request.headers();
    let allowed =
        endpoint.options.allow.check(value(headers, HOST.as_str()), value(headers, ORIGIN.as_str()));
    if let Err(refused) = allowed {
        return text(StatusCode::FORBIDDEN, refused.to_string());
    }
    if request.uri().path() != endpoint.options.path {
        let path = &endpoint.options.path;
        return text(StatusCode::NOT_FOUND, format!("nothing here: the MCP endpoint is {path}"));
    }
    match *request.method() {
        Method::POST => post::answer(endpoint, request).await,
        Method::GET => {
            if !accepts(value(headers, ACCEPT.as_str())).events {
                return text(
                    StatusCode::NOT_ACCEPTABLE,
                    "a GET opens a stream: accept text/event-stream".into(),
                );
            }
            legacy::open_stream(endpoint, value(headers, SESSION_ID))
        }
        Method::DELETE => legacy::close(endpoint, value(headers, SESSION_ID)),
        _ => not_allowed(),
    }
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
pub(super) fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether the body claims to be JSON.
pub(super) fn has_json(headers: &HeaderMap) -> bool {
    value(headers, CONTENT_TYPE.as_str()).is_some_and(longhaul_proto::http::is_json)
}
