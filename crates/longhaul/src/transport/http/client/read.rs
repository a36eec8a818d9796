//! Reading answers: within a bound, and telling kinds apart.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::http::{Event, EventDecoder, is_json};
use longhaul_proto::jsonrpc::{ErrorObject, Limits, Message};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};

use super::Shared;
use crate::client::error::Error;

/// What kind of answer a response carries.
pub(super) enum Kind {
    Json,
    Events,
    Other,
}

pub(super) fn kind(response: &Response) -> Kind {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media = value.split(';').next().unwrap_or_default().trim();
    if is_json(value) {
        Kind::Json
    } else if media.eq_ignore_ascii_case("text/event-stream") {
        Kind::Events
    } else {
        Kind::Other
    }
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
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Error::Http {
        target: shared.target(),
        status: response.status().as_u16(),
        body: String::from_utf8_lossy(body).trim().chars().take(300).collect(),
        retry_after: retry_after.and_then(|value| value.parse().ok()).map(Duration::from_secs),
    }
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
