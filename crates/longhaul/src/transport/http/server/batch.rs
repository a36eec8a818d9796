//! Several messages in one POST, in a session of a revision that has batches.

use std::sync::Arc;

use http::{Response, StatusCode};
use longhaul_proto::http::Accept;
use longhaul_proto::jsonrpc::{
    Code, ErrorObject, MAX_BATCH, Message, Request, RequestId, join_batch, split_batch,
};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;

use super::Endpoint;
use super::answer::{Body, empty, json, refusal};
use super::legacy::{Started, answered, noticed, start, stream, wish};
use super::session::Session;
use super::stream::{Begun, Stream};
use crate::server::{Answered, Caller, Outgoing, StreamReceiver, own_stream};
use crate::wire::{self, By};

/// Answers a batch: in one array, or in a stream if that is accepted and an answer takes longer.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: &Caller,
    accept: Accept,
    body: &[u8],
) -> Response<Body> {
    let messages = match split_batch(body, &endpoint.options.limits) {
        Ok(messages) => messages,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, None, &error.to_error_object()),
    };
    let (mut answers, mut running, mut refused_answer) = (Vec::new(), Vec::new(), None);
    let mut wishes = Vec::new();
    for message in messages {
        match Message::decode(message, &endpoint.options.limits) {
            Ok(Message::Request(request)) => {
                wishes.extend(wish(session, &request));
                match begin(endpoint, session, caller, &request) {
                    Ok(Started::Answered(_, answer)) => answers.push(answer),
                    Ok(Started::Running(receiver, _)) => running.extend(receiver),
                    Err(error) => answers.push(refused(Some(&request.id), &error)),
                }
            }
            Ok(Message::Notification(notification)) => noticed(endpoint, caller, session, &notification),
            Ok(Message::Response(response)) => {
                let response = Box::pin(answered(endpoint, caller, session, response)).await;
                if !response.status().is_success() {
                    refused_answer = Some(response);
                }
            }
            Err(error) => answers.push(refused(error.id(), &error.to_error_object())),
        }
    }
    if !wishes.is_empty()
        && endpoint.options.sessions
        && let Some(shared) = endpoint.sessions.shared()
    {
        shared.renew(&endpoint.sessions, session, Some(caller)).await;
    }
    drop(wishes);
    if answers.is_empty() && running.is_empty() {
        // What was accepted of it may come again. Beside answers there is no saying that something was not.
        return refused_answer.unwrap_or_else(|| empty(StatusCode::ACCEPTED));
    }
    if running.is_empty() {
        return json(&endpoint.options, Answered::Result, join_batch(&answers));
    }
    if accept.events && endpoint.options.sessions {
        return stream(endpoint, session, Stream::for_batch(), Begun::of(joined(answers, running))).await;
    }
    let mut rest = joined(Vec::new(), running);
    while let Some(message) = rest.recv().await {
        if let Outgoing::Answer { message, .. } = message {
            answers.push(message);
        }
    }
    json(&endpoint.options, Answered::Result, join_batch(&answers))
}

/// One stream of the answers that are there and of everything that comes of the rest.
fn joined(answers: Vec<Vec<u8>>, running: Vec<StreamReceiver>) -> StreamReceiver {
    let (sender, receiver) = own_stream(MAX_BATCH);
    for answer in answers {
        if !sender.try_send(Outgoing::pushed(answer)) {
            tracing::error!("a batch has more answers than messages");
        }
    }
    for mut one in running {
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(message) = one.recv().await {
                if !sender.send(message).await {
                    return;
                }
            }
        });
    }
    receiver
}

/// One request of a batch.
fn begin(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: &Caller,
    request: &Request<'_>,
) -> Result<Started, ErrorObject> {
    let meta = request.params.read::<RequestMeta<'_>>("_meta")?.unwrap_or_default();
    if meta.protocol_version.is_some() {
        let what = "invalid request: a request that names its revision cannot be part of a batch";
        return Err(ErrorObject::new(Code::INVALID_REQUEST, what));
    }
    let dialect = session.lock().exchanges.dialect();
    if dialect.and_then(|dialect| dialect.request(&request.method)) == Some(Method::Initialize) {
        let what = "invalid request: `initialize` cannot be part of a batch";
        return Err(ErrorObject::new(Code::INVALID_REQUEST, what));
    }
    start(endpoint, session, caller.clone(), request, meta)
}

fn refused(id: Option<&RequestId>, error: &ErrorObject) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    wire::refuse(By::Server, &mut out, id, error);
    out
}
