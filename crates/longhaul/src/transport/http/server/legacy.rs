//! What belongs to a session: its handshake, its requests, its push stream and its end.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use longhaul_proto::http::Accept;
use longhaul_proto::jsonrpc::{self, Code, ErrorObject, Notification, Request, RequestId};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;
use tokio::sync::mpsc;

use super::answer::{Body, Source, answer_with, empty, events, json, refusal, text};
use super::door::forbidden;
use super::route::{SESSION_ID, not_allowed};
use super::session::Session;
use super::{Endpoint, RETRY_AFTER};
use crate::driver::Exchanges;
use crate::server::{Answered, Caller, Cx, Dispatched, Outgoing, Outlet, Scopes};

/// How many messages may wait in a session's own stream; more are lost.
const STREAM_BOUND: usize = 64;

pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    caller: Caller,
    session_id: Option<&str>,
    accept: Accept,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Response<Body> {
    let Some(session_id) = session_id else {
        return without_session(endpoint, caller, request, meta);
    };
    let Some(session) = endpoint.sessions.find(session_id, caller.principal.as_ref()) else {
        return unknown_session(Some(&request.id));
    };
    match start(endpoint, &session, caller, request, meta) {
        Ok(Started::Answered(out)) => json(Answered::Result, out),
        Ok(Started::Running(receiver)) => {
            answer_with(&endpoint.options, accept, Source::Apart(receiver)).await
        }
        Ok(Started::Forbidden(needed)) => forbidden(endpoint, &request.id, &needed),
        Err(error) => refusal(StatusCode::OK, Some(&request.id), &error),
    }
}

/// A request outside any session: the handshake that opens one, or a ping.
fn without_session(
    endpoint: &Endpoint,
    caller: Caller,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Response<Body> {
    let principal = caller.principal.clone();
    let mut exchanges = Exchanges::new(endpoint.options.max_open);
    let refuse = |error: &ErrorObject| refusal(StatusCode::BAD_REQUEST, Some(&request.id), error);
    let (serial, exchange) = match exchanges.admit(request, meta, caller) {
        Ok(admitted) => admitted,
        Err(error) => return refuse(&error),
    };
    let (opens, dialect) = (exchange.method == Method::Initialize, exchange.dialect);
    let mut out = Vec::with_capacity(512);
    // Neither the handshake nor a ping takes longer than this.
    let Dispatched::Answered(_) = endpoint.dispatcher.dispatch(exchange, &mut out) else {
        return refuse(&ErrorObject::internal("internal error: the handshake did not end"));
    };
    let _ = exchanges.answered(&request.id, serial);
    let mut response = json(Answered::Result, out);
    if opens {
        match endpoint.sessions.open(exchanges, principal) {
            Ok(session) => {
                endpoint.dispatcher.attend(dialect, &session.push());
                let id = HeaderValue::from_str(session.id()).expect("a session id is hexadecimal");
                response.headers_mut().insert(HeaderName::from_static(SESSION_ID), id);
            }
            Err(limit) => {
                let error = dialect.error(ErrorObject::overloaded(limit.to_string(), RETRY_AFTER));
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
    Running(Option<mpsc::Receiver<Outgoing>>),
    /// Its caller may not have it without these scopes.
    Forbidden(Scopes),
}

fn start(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: Caller,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Result<Started, ErrorObject> {
    let (serial, mut exchange) = session.lock().exchanges.admit(request, meta, caller)?;
    let place = match endpoint.place() {
        Ok(place) => place,
        Err(full) => {
            session.answered(&request.id, serial);
            return Err(exchange.dialect.error(full));
        }
    };
    exchange.outlet = Outlet::own();
    exchange.push = Some(session.push());
    let mut out = Vec::with_capacity(512);
    match endpoint.dispatcher.dispatch(exchange, &mut out) {
        Dispatched::Answered(_) => {
            session.answered(&request.id, serial);
            Ok(Started::Answered(out))
        }
        Dispatched::Forbidden(needed) => {
            session.answered(&request.id, serial);
            Ok(Started::Forbidden(needed))
        }
        Dispatched::Pending(answer) => {
            let (canceller, delivery) = (answer.canceller(), answer.delivery());
            let stream = OpenStream(answer.cx().clone());
            let receiver = stream.0.outlet().take_stream();
            let (id, session_then) = (request.id.clone(), Arc::clone(session));
            // Held until the task is entered, so that it cannot end before.
            let mut state = session.lock();
            let running = tokio::spawn(async move {
                let (_, message) = answer.await;
                if session_then.answered(&id, serial) {
                    // A closed stream means that the connection was lost: the work was not.
                    stream.0.outlet().answer(id, serial, message).await;
                    delivery.done();
                }
                drop(place);
            });
            state.exchanges.run(&request.id, serial, running.abort_handle(), canceller);
            Ok(Started::Running(receiver))
        }
    }
}

/// The stream of a call, which ends with the call's answer or without one.
struct OpenStream(Cx);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.outlet().close();
    }
}

pub(super) fn notice(
    endpoint: &Endpoint,
    caller: &Caller,
    session_id: Option<&str>,
    notification: &Notification<'_>,
) -> Response<Body> {
    let session = match within(endpoint, caller, session_id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    session.lock().exchanges.handle_notification(notification);
    empty(StatusCode::ACCEPTED)
}

/// An answer to what the server asks in a session.
pub(super) fn response(
    endpoint: &Endpoint,
    caller: &Caller,
    session_id: Option<&str>,
    response: jsonrpc::Response<'_>,
) -> Response<Body> {
    let session = match within(endpoint, caller, session_id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    session.lock().exchanges.handle_response(response);
    empty(StatusCode::ACCEPTED)
}

/// The stream for what belongs to no request.
pub(super) fn open_stream(endpoint: &Endpoint, caller: &Caller, session_id: Option<&str>) -> Response<Body> {
    if session_id.is_none() {
        return not_allowed();
    }
    match within(endpoint, caller, session_id) {
        Ok(session) => {
            let source = Source::Apart(Some(session.open_push(STREAM_BOUND)));
            events(endpoint.options.keep_alive, source, None)
        }
        Err(response) => *response,
    }
}

/// Ends a session at its client's wish.
pub(super) fn close(endpoint: &Endpoint, caller: &Caller, session_id: Option<&str>) -> Response<Body> {
    match session_id {
        None => not_allowed(),
        Some(id) if endpoint.sessions.close(id, caller.principal.as_ref()) => empty(StatusCode::NO_CONTENT),
        Some(_) => unknown_session(None),
    }
}

fn within(
    endpoint: &Endpoint,
    caller: &Caller,
    session_id: Option<&str>,
) -> Result<Arc<Session>, Box<Response<Body>>> {
    match session_id {
        None => Err(Box::new(text(
            StatusCode::BAD_REQUEST,
            "send the Mcp-Session-Id of your session, or `initialize` to open one".into(),
        ))),
        Some(id) => {
            let session = endpoint.sessions.find(id, caller.principal.as_ref());
            session.ok_or_else(|| Box::new(unknown_session(None)))
        }
    }
}

fn unknown_session(id: Option<&RequestId>) -> Response<Body> {
    let error = ErrorObject::new(
        Code::INVALID_REQUEST,
        "invalid request: no such session; send `initialize` to open a new one",
    );
    refusal(StatusCode::NOT_FOUND, id, &error)
}
