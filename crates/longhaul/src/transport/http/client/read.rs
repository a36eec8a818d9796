//! Reading answers: within a bound, and telling kinds apart.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::http::{Event, EventDecoder, is_json};
use longhaul_proto::jsonrpc::{ErrorObject, Limits, Message, clip};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};

use super::{Shared, redirected};
use crate::client::error::Error;

/// What kind of answer a response carries.
pub(super) enum Kind {
    Json,
    Events,
    Other,
}

pub(super) fn kind(response: &Response) -> Kind {
    if is_json(header(response, CONTENT_TYPE)) {
        Kind::Json
    } else if media(response).eq_ignore_ascii_case("text/event-stream") {
        Kind::Events
    } else {
        Kind::Other
    }
}

/// What a response says that its body is, without what more it says of that.
fn media(response: &Response) -> &str {
    header(response, CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

/// What a header says; nothing where it is not there.
fn header(response: &Response, name: HeaderName) -> &str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The whole body, if it is within `limit` bytes.
pub(super) async fn whole(response: &mut Response, limit: usize) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Error::lost)? {
        if body.len() + chunk.len() > limit {
            return Err(Error::protocol(format!("an answer longer than the limit of {limit} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error that a body carries, if it is a JSON-RPC answer that is one.
pub(super) fn error_in(body: &[u8], limits: &Limits) -> Option<ErrorObject> {
    match Message::decode(body, limits) {
        Ok(Message::Response(response)) => response.outcome.err(),
        _ => None,
    }
}

/// The failure that a status without a JSON-RPC answer means.
pub(super) fn failure(shared: &Shared, response: &Response, body: &[u8]) -> Error {
    let retry_after = header(response, RETRY_AFTER).parse().ok();
    let said = || String::from_utf8_lossy(body).trim().chars().take(300).collect();
    Error::Http {
        target: shared.target(),
        status: response.status().as_u16(),
        body: instead(response, body).unwrap_or_else(said),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

/// What a response does instead of answering, where its head says it.
fn instead(response: &Response, body: &[u8]) -> Option<String> {
    let (status, media) = (response.status(), media(response));
    if status.is_redirection() {
        return redirected(response.url().as_str(), header(response, LOCATION));
    }
    let is_no_mcp = status.is_success() && matches!(kind(response), Kind::Other) && !body.is_empty();
    let what = if media.is_empty() { "something of no media type".into() } else { clip(media) };
    is_no_mcp.then(|| format!("it answered {what}, not MCP: is this its path?"))
}

/// Why a request could not be made.
pub(super) fn unsent(shared: &Shared, error: reqwest::Error) -> Error {
    if error.is_connect() {
        Error::Unreachable { target: shared.target(), cause: Arc::new(error.without_url()) }
    } else {
        Error::lost(error.without_url())
    }
}

/// The events of one response.
pub(super) struct Events {
    response: Response,
    decoder: EventDecoder,
}

impl Events {
    pub(super) fn new(response: Response, limits: &Limits) -> Self {
        // The names of fields take room beside the message.
        Self { response, decoder: EventDecoder::new(limits.max_bytes + (1 << 10)) }
    }

    /// The next events; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Event>>, Error> {
        let Some(chunk) = self.response.chunk().await.map_err(|error| Error::lost(error.without_url()))?
        else {
            return Ok(None);
        };
        let mut events = Vec::new();
        let fed = self.decoder.feed(&chunk, |event| events.push(event));
        fed.map_err(|error| Error::protocol(error.to_string()))?;
        Ok(Some(events))
    }
}
