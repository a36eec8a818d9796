//! Answers of the pages, with the headers that all of them have.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use longhaul::transport::http::server::{PageBody, WrongCredential};
use maud::Markup;
use tokio::sync::mpsc;

pub(super) type Answer = Response<PageBody>;

/// Nothing from elsewhere, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What others made does nothing at all.
const SANDBOX: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

fn with(status: StatusCode, kind: &'static str, policy: &'static str, body: PageBody) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let mut set =
        |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_TYPE, kind);
    set(CONTENT_SECURITY_POLICY, policy);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Without any, a form of ours would be sent by nobody in particular (`Origin: null`).
    set(REFERRER_POLICY, "same-origin");
    set(CACHE_CONTROL, "no-store");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

/// A page.
pub(super) fn page(status: StatusCode, markup: Markup) -> Answer {
    with(status, "text/html; charset=utf-8", POLICY, PageBody::Whole(markup.into_string().into()))
}

/// The same, to somebody who has shown what lets nobody in: it counts as a token does that does not.
pub(super) fn in_vain(mut answer: Answer) -> Answer {
    answer.extensions_mut().insert(WrongCredential);
    answer
}

/// JSON.
pub(super) fn json((status, text): (StatusCode, String)) -> Answer {
    with(status, "application/json", POLICY, PageBody::Whole(text.into()))
}

/// A file of ours, which changes with the release alone.
pub(super) fn file(kind: &'static str, text: &'static str) -> Answer {
    let mut answer = with(StatusCode::OK, kind, POLICY, PageBody::Whole(Bytes::from_static(text.as_bytes())));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=600"));
    answer
}

/// Events, as they come.
pub(super) fn events(pieces: mpsc::Receiver<Bytes>) -> Answer {
    let mut answer = with(StatusCode::OK, "text/event-stream", POLICY, PageBody::Pieces(pieces));
    answer.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    answer
}

/// Text that others wrote, as it comes.
pub(super) fn text(pieces: mpsc::Receiver<Bytes>) -> Answer {
    with(StatusCode::OK, "text/plain; charset=utf-8", SANDBOX, PageBody::Pieces(pieces))
}

/// A picture that others made.
pub(super) fn picture(kind: &'static str, bytes: Vec<u8>) -> Answer {
    with(StatusCode::OK, kind, SANDBOX, PageBody::Whole(bytes.into()))
}

/// To another page, which is asked for anew.
pub(super) fn see_other(place: &str) -> Answer {
    let mut answer =
        with(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", POLICY, PageBody::Whole(Bytes::new()));
    if let Ok(place) = HeaderValue::from_str(place) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

/// A sentence.
pub(super) fn sentence(status: StatusCode, sentence: impl Into<String>) -> Answer {
    let body = PageBody::Whole(sentence.into().into());
    with(status, "text/plain; charset=utf-8", POLICY, body)
}
