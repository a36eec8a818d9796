//! A POST: reading its message and choosing its era.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use longhaul_proto::dialect::{Dialect, Era, Revision};
use longhaul_proto::http::{Accept, accepts};
use longhaul_proto::jsonrpc::{ErrorObject, Message, is_batch};
use longhaul_proto::model::RequestMeta;

use super::answer::{Body, Reply, empty, no_room, refusal, text};
use super::gather::{Lacking, gather};
use super::head::Head;
use super::route::RequestBody;
use super::{Endpoint, batch, legacy, modern};
use crate::server::Caller;
use crate::trace;

/// What a POST has for a message, and what its client can take for an answer.
///
/// # Errors
///
/// The answer to one that has none.
pub(super) async fn receive(
    endpoint: &Endpoint,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Result<(Accept, Bytes), Box<Response<Body>>> {
    let accept = accepts(head.accept.text());
    if !head.has_json() {
        let advice = "send Content-Type: application/json";
        return Err(Box::new(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, advice.into())));
    }
    if !accept.json {
        let advice = "send Accept: application/json, text/event-stream";
        return Err(Box::new(text(StatusCode::NOT_ACCEPTABLE, advice.into())));
    }
    let body = read(endpoint, head, body, endpoint.options.limits.max_bytes).await?;
    trace::received(&body);
    Ok((accept, body))
}

pub(super) fn answer<'a>(
    endpoint: &'a Arc<Endpoint>,
    caller: Caller,
    head: &'a Head<'a>,
    accept: Accept,
    body: &'a Bytes,
) -> Reply<'a> {
    if is_batch(body)
        && let Some(session) = legacy::session_with_batches(endpoint, &caller, head)
    {
        return Reply::later(async move { batch::answer(endpoint, &session, &caller, accept, body).await });
    }
    match Message::decode(body, &endpoint.options.limits) {
        Ok(message) => choose(endpoint, caller, head, accept, message),
        Err(error) => Reply::Now(refusal(StatusCode::BAD_REQUEST, error.id(), &error.to_error_object())),
    }
}

/// The whole body, within the limits of size and time.
pub(super) async fn read(
    endpoint: &Endpoint,
    head: &Head<'_>,
    body: impl RequestBody,
    limit: usize,
) -> Result<Bytes, Box<Response<Body>>> {
    let too_long =
        || Box::new(text(StatusCode::PAYLOAD_TOO_LARGE, format!("a message may have {limit} bytes at most")));
    let length = head.content_length.text().and_then(|length| length.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let reading = endpoint.reading.begin();
    let gathered = tokio::time::timeout(endpoint.options.body_timeout, gather(body, limit, &reading));
    let gathered = tokio::select! {
        biased;
        () = reading.given_up() => {
            return Err(Box::new(no_room("too much is being sent at once: send this again later")));
        }
        gathered = gathered => gathered,
    };
    match gathered {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(Lacking::TooLong)) => Err(too_long()),
        Ok(Err(Lacking::CutOff)) => {
            Err(Box::new(text(StatusCode::BAD_REQUEST, "the body ended early".into())))
        }
        Err(_) => Err(Box::new(text(StatusCode::REQUEST_TIMEOUT, "the body took too long".into()))),
    }
}

/// A request that says which modern revision it is in, in header or body, is modern; everything else
/// belongs to a session. `initialize` opens one.
fn choose<'a>(
    endpoint: &'a Arc<Endpoint>,
    caller: Caller,
    head: &'a Head<'a>,
    accept: Accept,
    message: Message<'a>,
) -> Reply<'a> {
    let version = head.version.text();
    let session_id = head.session_id.text();
    let claims_modern = version.is_some_and(|version| !names_legacy(version));
    let unknown = version
        .filter(|version| Revision::from_date(version).is_none())
        .and_then(|version| Dialect::named_by_request(version).err());
    if let Some(error) = &unknown
        && !matches!(message, Message::Request(_))
    {
        return Reply::Now(refusal(StatusCode::BAD_REQUEST, None, error));
    }
    match message {
        Message::Request(request) => {
            let meta = request.params.read::<RequestMeta<'_>>("_meta").map(Option::unwrap_or_default);
            let meta = match meta.and_then(|meta| keyed(meta, head)) {
                Ok(meta) => meta,
                Err(error) => return Reply::Now(refusal(StatusCode::BAD_REQUEST, Some(&request.id), &error)),
            };
            // A body that names a revision too is first held against its headers.
            if let Some(error) = unknown.filter(|_| meta.protocol_version.is_none()) {
                return Reply::Now(refusal(StatusCode::BAD_REQUEST, Some(&request.id), &error));
            }
            if claims_modern || meta.protocol_version.is_some() {
                return modern::answer(endpoint, caller, head, accept, &request, meta);
            }
            legacy::answer(endpoint, caller, session_id, version, accept, &request, meta)
        }
        Message::Notification(notification) if !claims_modern => {
            Reply::Now(legacy::notice(endpoint, &caller, session_id, &notification))
        }
        // The modern era defines no notification over HTTP: closing the stream is what cancels.
        Message::Notification(_) => Reply::Now(empty(StatusCode::ACCEPTED)),
        Message::Response(_) if claims_modern => {
            let error = ErrorObject::new(
                longhaul_proto::jsonrpc::Code::INVALID_REQUEST,
                "invalid request: this server asks nothing that a POST could answer",
            );
            Reply::Now(refusal(StatusCode::BAD_REQUEST, None, &error))
        }
        Message::Response(response) => {
            Reply::later(async move { legacy::response(endpoint, &caller, session_id, response).await })
        }
    }
}

/// The same with the key that its header says (`Idempotency-Key`, as itself or as a string of RFC 9651).
fn keyed<'m>(mut meta: RequestMeta<'m>, head: &Head<'m>) -> Result<RequestMeta<'m>, ErrorObject> {
    if head.idempotency_key.first().is_none() {
        return Ok(meta);
    }
    for key in head.headers.get_all("idempotency-key") {
        let unreadable = |_| ErrorObject::invalid_params("invalid params: Idempotency-Key is not ASCII text");
        let key = key.to_str().map_err(unreadable)?;
        let quoted = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
        meta.add_idempotency_key(quoted.unwrap_or(key))?;
    }
    Ok(meta)
}

/// Whether the version header names a revision with sessions.
pub(super) fn names_legacy(version: &str) -> bool {
    Revision::from_date(version).is_some_and(|revision| Dialect::of(revision).era() == Era::Legacy)
}
