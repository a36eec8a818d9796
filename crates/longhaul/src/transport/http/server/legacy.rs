//! What belongs to a session: its handshake, its requests, its push stream and its end.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use longhaul_proto::connection::ServerConnection;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::http::Accept;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Notification, Request, RequestId};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::RequestMeta;
use tokio::sync::mpsc;

use super::Endpoint;
use super::answer::{Body, Source, answer_with, empty, events, json, refusal, text};
use super::route::{SESSION_ID, not_allowed};
use super::session::{Session, SessionPush};
use crate::server::lifecycle::{caller, settle};
use crate::server::{Dispatched, Exchange, Outgoing, Outlet};

/// How many messages may wait in a stream before the call that sends them waits too.
const STREAM_BOUND: usize = 64;

pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    session_id: Option<&str>,
    accept: Accept,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Response<Body> {
    let Some(session_id) = session_id else {
        return without_session(endpoint, request, &meta);
    };
    let Some(session) = endpoint.sessions.find(session_id) else {
        return unknown_session(Some(&request.id));
    };
    match start(endpoint, &session, request, meta) {
        Ok(Started::Answered(out)) => json(StatusCode::OK, out),
        Ok(Started::Running(receiver)) => {
            answer_with(&endpoint.options, accept, Source::Apart(receiver)).await
        }
        Err(error) => refusal(StatusCode::OK, Some(&request.id), &error),
    }
}

/// A request outside any session: the handshake that opens one, or a ping.
fn without_session(endpoint: &Endpoint, request: &Request<'_>, meta: &RequestMeta<'_>) -> Response<Body> {
    let mut connection = ServerConnection::new(endpoint.options.max_open);
    let refuse = |error: &ErrorObject| refusal(StatusCode::BAD_REQUEST, Some(&request.id), error);
    let admitted = match connection.handle_request(&request.id, &request.method, meta) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(&error),
    };
    let dialect = match settle(&mut connection, admitted.method, admitted.dialect, &request.params) {
        Ok(dialect) => dialect,
        Err(error) => return refuse(&error),
    };
    let caller = caller(&connection, meta, None);
    let exchange = Exchange::new(request.id.clone(), dialect, admitted.method, &request.params, caller);
    let mut out = Vec::with_capacity(512);
    // Neither the handshake nor a ping takes longer than this.
    let Dispatched::Answered(_) = endpoint.dispatcher.dispatch(exchange, &mut out) else {
        return refuse(&ErrorObject::internal("internal error: the handshake did not end"));
    };
    let _ = connection.handle_answered(&request.id, admitted.serial);
    let mut response = json(StatusCode::OK, out);
    if admitted.method == Method::Initialize {
        match endpoint.sessions.open(connection) {
            Ok(session) => {
                let id = HeaderValue::from_str(session.id()).expect("a session id is hexadecimal");
                response.headers_mut().insert(HeaderName::from_static(SESSION_ID), id);
            }
            Err(limit) => {
                let error = ErrorObject::new(Code::OVERLOADED, limit.to_string());
                return refusal(StatusCode::SERVICE_UNAVAILABLE, Some(&request.id), &error);
            }
        }
    }
    response
}

/// What became of a request within a session.
enum Started {
    /// Its answer.
    Answered(Vec<u8>),
    /// It runs apart from the connection; this is where its messages come.
    Running(mpsc::Receiver<Outgoing>),
}

fn start(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Result<Started, ErrorObject> {
    let mut state = session.lock();
    let admitted = state.connection.handle_request(&request.id, &request.method, &meta)?;
    let settled = settle(&mut state.connection, admitted.method, admitted.dialect, &request.params);
    let dialect = settled.inspect_err(|_| {
        let _ = state.connection.handle_answered(&request.id, admitted.serial);
    })?;
    let caller = caller(&state.connection, &meta, None);
    drop(state);
    let (sender, receiver) = mpsc::channel(STREAM_BOUND);
    let mut exchange = Exchange::new(request.id.clone(), dialect, admitted.method, &request.params, caller);
    exchange.progress_token = meta.progress_token;
    exchange.outlet = Outlet::shared(admitted.serial, sender.clone());
    exchange.push = Some(Arc::new(SessionPush(Arc::downgrade(session))));
    let mut out = Vec::with_capacity(512);
    match endpoint.dispatcher.dispatch(exchange, &mut out) {
        Dispatched::Answered(_) => {
            session.answered(&request.id, admitted.serial);
            Ok(Started::Answered(out))
        }
        Dispatched::Pending(answer) => {
            let (canceller, delivery) = (answer.canceller(), answer.delivery());
            let (id, serial, session_then) = (request.id.clone(), admitted.serial, Arc::clone(session));
            // Held while the task is entered, so that it cannot end before it is there to be removed.
            let mut state = session.lock();
            let running = tokio::spawn(async move {
                let message = answer.await;
                if session_then.answered(&id, serial) {
                    // A closed stream means that the connection was lost: the work was not.
                    let _ = sender.send(Outgoing::answer(id, serial, message)).await;
                    delivery.done();
                }
            });
            if state.closed {
                canceller.cancel();
                running.abort();
            }
            state.running.insert(serial, (running.abort_handle(), canceller));
            Ok(Started::Running(receiver))
        }
    }
}

pub(super) fn notice(
    endpoint: &Endpoint,
    session_id: Option<&str>,
    notification: &Notification<'_>,
) -> Response<Body> {
    let session = match within(endpoint, session_id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let mut state = session.lock();
    let dialect = state.connection.session().map_or(Dialect::newest_legacy(), |session| session.dialect);
    if dialect.notice(&notification.method) == Some(Notice::Cancelled)
        // An invalid cancellation is ignored, as the specification asks.
        && let Ok(Some(id)) = notification.params.read::<RequestId>("requestId")
        && let Some(serial) = state.connection.handle_cancelled(&id)
        && let Some((running, canceller)) = state.running.remove(&serial)
    {
        canceller.cancel();
        running.abort();
    }
    empty(StatusCode::ACCEPTED)
}

/// An answer to a request of ours, of which there are none to answer.
pub(super) fn response(endpoint: &Endpoint, session_id: Option<&str>) -> Response<Body> {
    within(endpoint, session_id).map_or_else(|response| *response, |_| empty(StatusCode::ACCEPTED))
}

/// The stream for what belongs to no request.
pub(super) fn open_stream(endpoint: &Endpoint, session_id: Option<&str>) -> Response<Body> {
    if session_id.is_none() {
        return not_allowed();
    }
    match within(endpoint, session_id) {
        Ok(session) => {
            let source = Source::Apart(session.open_push(STREAM_BOUND));
            events(endpoint.options.keep_alive, source, None)
        }
        Err(response) => *response,
    }
}

/// Ends a session at its client's wish.
pub(super) fn close(endpoint: &Endpoint, session_id: Option<&str>) -> Response<Body> {
    match session_id {
        None => not_allowed(),
        Some(id) if endpoint.sessions.close(id) => empty(StatusCode::NO_CONTENT),
        Some(_) => unknown_session(None),
    }
}

fn within(endpoint: &Endpoint, session_id: Option<&str>) -> Result<Arc<Session>, Box<Response<Body>>> {
    match session_id {
        None => Err(Box::new(text(
            StatusCode::BAD_REQUEST,
            "send the Mcp-Session-Id of your session, or `initialize` to open one".into(),
        ))),
        Some(id) => endpoint.sessions.find(id).ok_or_else(|| Box::new(unknown_session(None))),
    }
}

fn unknown_session(id: Option<&RequestId>) -> Response<Body> {
    let error = ErrorObject::new(
        Code::INVALID_REQUEST,
        "invalid request: no such session; send `initialize` to open a new one",
    );
    refusal(StatusCode::NOT_FOUND, id, &error)
}
