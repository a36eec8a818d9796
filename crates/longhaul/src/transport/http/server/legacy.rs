//! What belongs to a session: its handshake, its requests, its push stream and its end.

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode};
use longhaul_proto::dialect::Dialect;
use longhaul_proto::http::Accept;
use longhaul_proto::jsonrpc::{
    self, Code, ErrorObject, Limits, Message, Notification, ObjectWriter, Request, RequestId, Text,
};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;

use super::answer::{
    Body, Reply, Source, answer_with, empty, events, json, no_room, of_session, refusal, status_for, text,
};
use super::board::Word;
use super::head::Head;
use super::notes::Note;
use super::route::{SESSION_ID, not_allowed};
use super::session::{Session, StreamCarrier, Watch, Wish};
use super::shared::too_often;
use super::stream::{Begun, GoOn, Opened, Stream};
use super::{Endpoint, RETRY_AFTER};
use crate::driver::Exchanges;
use crate::server::{
    Again, Answered, Caller, Cx, Dispatched, Dispatcher, Exchange, Follow, Outgoing, Outlet, Party,
    StreamReceiver,
};
use crate::wire::{self, By};

/// How many messages may wait in a session's own stream; more are lost.
const STREAM_BOUND: usize = 64;

pub(super) fn answer<'a>(
    endpoint: &'a Arc<Endpoint>,
    caller: Caller,
    session_id: Option<&str>,
    version: Option<&str>,
    accept: Accept,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Reply<'a> {
    let session = match (session_id, endpoint.options.sessions) {
        (Some(id), true) => match endpoint.sessions.find(id, caller.principal.as_ref()) {
            Some(session) => session,
            None => return Reply::Now(unknown_session(Some(&request.id))),
        },
        (_, false) if Dialect::newest_legacy().request(&request.method) != Some(Method::Initialize) => {
            endpoint.sessions.apart(
                Exchanges::of_header(&endpoint.dispatcher, endpoint.options.max_open, version),
                Party::of(&caller),
            )
        }
        _ => {
            let (response, opened) = without_session(endpoint, caller, request, meta);
            return match (opened, endpoint.sessions.shared()) {
                // Its next request may come to another node.
                (Some(session), Some(shared)) => Reply::later(async move {
                    match shared.open(&endpoint.sessions, &session).await {
                        Ok(()) => response,
                        Err(refusal) => *refusal,
                    }
                }),
                _ => Reply::Now(response),
            };
        }
    };
    let method = Dialect::newest_legacy().request(&request.method);
    // A poll is answered by one object, however long it takes (2025-11-25, Tasks, Getting Tasks), and so is what other nodes have
    // to know before it is answered.
    let watches = matches!(method, Some(Method::Subscribe | Method::Unsubscribe));
    let streams = accept.events && endpoint.options.sessions && !watches && method != Some(Method::GetTask);
    if watches
        && endpoint.options.sessions
        && let Some(shared) = endpoint.sessions.shared()
    {
        let (asks, id) = (caller.clone(), request.id.clone());
        let wish = wish(&session, request);
        let started = start(endpoint, &session, caller, request, meta);
        return Reply::later(async move {
            let response = whole(endpoint, accept, &id, started).await;
            shared.renew(&endpoint.sessions, &session, Some(&asks)).await;
            drop(wish);
            response
        });
    }
    match start(endpoint, &session, caller, request, meta) {
        Ok(Started::Answered(Answered::Result, out)) if streams && endpoint.options.always_stream => {
            let first = Some(Outgoing::pushed(out));
            Reply::later(async move {
                let begun = Begun { first, ..Begun::nothing() };
                stream(endpoint, &session, Stream::new(), begun).await
            })
        }
        Ok(Started::Answered(answered, out)) => Reply::Now(json(&endpoint.options, answered, out)),
        Ok(Started::Running(Some(receiver), call)) if streams => {
            let id = request.id.clone();
            Reply::later(async move { stream_later(endpoint, &session, id, receiver, call).await })
        }
        Ok(Started::Running(receiver, _)) => {
            let mut accept = accept;
            accept.events = false;
            Reply::later(answer_with(&endpoint.options, accept, Source::Apart(receiver)))
        }
        Err(error) => Reply::Now(refusal(StatusCode::OK, Some(&request.id), &error)),
    }
}

/// What a request wants of a resource, if it does, for as long as other nodes are to know.
pub(super) fn wish(session: &Arc<Session>, request: &Request<'_>) -> Option<Wish> {
    let begins = match Dialect::newest_legacy().request(&request.method)? {
        Method::Subscribe => true,
        Method::Unsubscribe => false,
        _ => return None,
    };
    let Text(uri) = request.params.require("uri").ok()?;
    Some(session.wishes(Watch { uri: uri.into_owned(), begins }))
}

/// Answers with one JSON object, however long it takes.
async fn whole(
    endpoint: &Endpoint,
    mut accept: Accept,
    id: &RequestId,
    started: Result<Started, ErrorObject>,
) -> Response<Body> {
    accept.events = false;
    match started {
        Ok(Started::Answered(answered, out)) => json(&endpoint.options, answered, out),
        Ok(Started::Running(receiver, _)) => {
            answer_with(&endpoint.options, accept, Source::Apart(receiver)).await
        }
        Err(error) => refusal(StatusCode::OK, Some(id), &error),
    }
}

/// Answers with one JSON object if the answer comes soon and before anything else does, else with a stream.
async fn stream_later(
    endpoint: &Endpoint,
    session: &Session,
    id: RequestId,
    mut receiver: StreamReceiver,
    call: Cx,
) -> Response<Body> {
    let options = &endpoint.options;
    let first = match tokio::time::timeout(options.stream_after, receiver.recv()).await {
        Ok(Some(Outgoing::Answer { answered: answered @ Answered::Forbidden(_), message, .. })) => {
            return json(options, answered, message);
        }
        Ok(Some(Outgoing::Answer { message, .. })) if !options.always_stream => {
            return json(options, Answered::Result, message);
        }
        // It was cancelled: nobody comes back for it.
        Ok(None) => return events(options, Source::Apart(None), None),
        Ok(first) => first,
        Err(_) => None,
    };
    let (stream, kept) = Stream::new();
    call.outlet().carried_by(StreamCarrier::of(&stream));
    let noting = session.streams().nodes().map(|nodes| nodes.owe(id, call.outlet().watch_again()));
    drop(call);
    let begun = Begun { first, rest: receiver, noting };
    let priming = session.streams().open(stream, session.primes_streams(), begun).await;
    events(options, Source::Kept(kept), priming)
}

/// Answers with a stream of the session, which its client can come back to.
pub(super) async fn stream(
    endpoint: &Endpoint,
    session: &Session,
    (stream, kept): Opened,
    begun: Begun,
) -> Response<Body> {
    let priming = session.streams().open(stream, session.primes_streams(), begun).await;
    events(&endpoint.options, Source::Kept(kept), priming)
}

/// Answers with a stream of what belongs to no request.
async fn push_stream(endpoint: &Endpoint, session: &Session) -> Response<Body> {
    let (stream, kept) = Stream::for_pushes();
    let pushed = session.open_push(Arc::clone(&stream), STREAM_BOUND);
    let priming = session.streams().open(stream, session.primes_streams(), Begun::of(pushed)).await;
    standing(session, events(&endpoint.options, Source::Kept(kept), priming))
}

/// The same stream, which its client can come back to if it has to make room.
fn standing(session: &Session, mut stream: Response<Body>) -> Response<Body> {
    stream.extensions_mut().insert(session.standing());
    stream
}

/// A request outside any session: the handshake that opens one, or a ping.
fn without_session(
    endpoint: &Endpoint,
    caller: Caller,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> (Response<Body>, Option<Arc<Session>>) {
    let party = Party::of(&caller);
    let mut exchanges = Exchanges::new(&endpoint.dispatcher, endpoint.options.max_open);
    let refuse = |error: &ErrorObject| (refusal(StatusCode::BAD_REQUEST, Some(&request.id), error), None);
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
    let mut response = json(&endpoint.options, Answered::Result, out);
    if !opens || !endpoint.options.sessions {
        return (response, None);
    }
    match endpoint.sessions.open(exchanges, party) {
        Ok(session) => {
            endpoint.dispatcher.attend(dialect, &session.push());
            let id = HeaderValue::from_str(session.id()).expect("a session id is hexadecimal");
            response.headers_mut().insert(SESSION_ID.clone(), id);
            (response, Some(session))
        }
        Err(limit) => {
            let full = ErrorObject::overloaded(limit.to_string(), RETRY_AFTER);
            (refusal(status_for(full.code), Some(&request.id), &dialect.error(full)), None)
        }
    }
}

/// What became of a request within a session.
pub(super) enum Started {
    /// Its answer.
    Answered(Answered, Vec<u8>),
    /// It runs apart from the connection; this is where its messages come, and the call as its handler sees it.
    Running(Option<StreamReceiver>, Cx),
}

pub(super) fn start(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: Caller,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Result<Started, ErrorObject> {
    let dispatch =
        |exchange: Exchange<'_, '_>, out: &mut Vec<u8>| endpoint.dispatcher.dispatch(exchange, out);
    start_by(endpoint, session, caller, request, meta, dispatch)
}

/// The same of a request that is answered by `dispatch`.
fn start_by(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: Caller,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
    dispatch: impl FnOnce(Exchange<'_, '_>, &mut Vec<u8>) -> Dispatched,
) -> Result<Started, ErrorObject> {
    let (serial, mut exchange) = session.lock().exchanges.admit(request, meta, caller)?;
    let place = match endpoint.place(exchange.method) {
        Ok(place) => place,
        Err(full) => {
            session.answered(&request.id, serial);
            return Err(exchange.dialect.error(full));
        }
    };
    if exchange.method == Method::Unsubscribe
        && let Ok(Text(uri)) = exchange.params.require("uri")
    {
        session.is_left(&uri);
    }
    exchange.outlet = Outlet::own();
    exchange.push = Some(session.push());
    let mut out = Vec::with_capacity(512);
    match dispatch(exchange, &mut out) {
        Dispatched::Answered(answered) => {
            session.answered(&request.id, serial);
            Ok(Started::Answered(of_session(answered), out))
        }
        Dispatched::Pending(answer) => {
            let (canceller, delivery) = (answer.canceller(), answer.delivery());
            let stream = OpenStream(answer.cx().clone());
            let (receiver, call) = (stream.0.outlet().take_stream(), stream.0.clone());
            let (id, session_then) = (request.id.clone(), Arc::clone(session));
            // Held until the task is entered, so that it cannot end before.
            let mut state = session.lock();
            let running = tokio::spawn(async move {
                let (answered, message) = answer.await;
                if session_then.answered(&id, serial) {
                    // A closed stream means that the connection was lost: the work was not.
                    stream.0.outlet().answer(id, serial, answered, message).await;
                    delivery.done();
                }
                drop(place);
            });
            state.exchanges.run(&request.id, serial, running.abort_handle(), canceller);
            Ok(Started::Running(receiver, call))
        }
    }
}

/// What goes on with a request of the session whose node is gone: what was noted of it is done in its place, and if nothing
/// can be, its caller is told that it is lost. If there is no room for it now, nothing is said.
fn go_on(endpoint: &Arc<Endpoint>, session: &Arc<Session>, caller: &Caller) -> GoOn {
    let (endpoint, session, caller) = (Arc::clone(endpoint), Arc::clone(session), caller.clone());
    Box::new(move |note, stream| {
        let nodes = session.streams().nodes();
        let answer = match start_again(&endpoint, &session, caller, note) {
            Ok(Started::Running(Some(rest), call)) => {
                call.outlet().carried_by(StreamCarrier::of(stream));
                let noting = nodes.map(|nodes| nodes.owe(note.id.clone(), call.outlet().watch_again()));
                return Some(Begun { first: None, rest, noting });
            }
            // Its stream was taken, or its caller has left.
            Ok(Started::Running(None, _)) => return Some(Begun::nothing()),
            Ok(Started::Answered(_, out)) => out,
            Err(error) => {
                let mut out = Vec::with_capacity(160);
                wire::refuse(By::Server, &mut out, Some(&note.id), &error);
                out
            }
        };
        let will_pass = refused_for_now(&answer, &endpoint.options.limits);
        (!will_pass).then(|| Begun { first: Some(Outgoing::pushed(answer)), ..Begun::nothing() })
    })
}

/// Whether this node only has no room now. That is no answer to who has called: the work goes on, and a call that is made again
/// would do it twice.
fn refused_for_now(answer: &[u8], limits: &Limits) -> bool {
    match Message::decode(answer, limits) {
        Ok(Message::Response(jsonrpc::Response { outcome: Err(error), .. })) => error.retry_after().is_some(),
        _ => false,
    }
}

fn start_again(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    caller: Caller,
    note: &Note,
) -> Result<Started, ErrorObject> {
    let asked = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{params}}}"#)
    };
    let (text, followed) = match &note.again {
        Again::Lost | Again::Unwanted => return Err(lost()),
        Again::Asked { method, params } => (asked(method, params.get()), None),
        Again::Followed { task, tool, is_anothers } => {
            (asked("tools/call", "{}"), Some(Follow { task, tool, is_anothers: *is_anothers }))
        }
    };
    let Ok(Message::Request(mut request)) = Message::decode(text.as_bytes(), &endpoint.options.limits) else {
        return Err(lost());
    };
    request.id = note.id.clone();
    // This node may have been left by the one that is gone, and not know it yet.
    session.lock().exchanges.let_go(&note.id);
    let dispatch = |exchange: Exchange<'_, '_>, out: &mut Vec<u8>| match followed {
        None => endpoint.dispatcher.dispatch(exchange, out),
        Some(task) => endpoint.dispatcher.follow(exchange, task, out),
    };
    start_by(endpoint, session, caller, &request, RequestMeta::default(), dispatch)
}

/// What is said of a call that was its node's alone, which is gone.
fn lost() -> ErrorObject {
    let message = "the server that ran this call is gone, or has let go of it, and nothing says how far it came: see what it has done before calling again";
    ErrorObject::internal(message).with_data(&serde_json::json!({ "reason": "worker_lost" }))
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
    if !endpoint.options.sessions {
        return empty(StatusCode::ACCEPTED);
    }
    let session = match within(endpoint, caller, session_id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    noticed(endpoint, caller, &session, notification);
    empty(StatusCode::ACCEPTED)
}

/// A notification of the session's client, which may be for a call of another node.
pub(super) fn noticed(
    endpoint: &Endpoint,
    caller: &Caller,
    session: &Arc<Session>,
    notification: &Notification<'_>,
) {
    let is_here = session.lock().exchanges.handle_notification(notification);
    if !is_here
        && let Some(board) = session.elsewhere()
        // What is made up is not told without end.
        && endpoint.dispatcher.poll(caller, 0).is_ok()
    {
        let mut message = Vec::with_capacity(128);
        let mut object = ObjectWriter::new(&mut message);
        object.raw("jsonrpc", "\"2.0\"").field("method", &notification.method);
        object.raw("params", notification.params.as_str().unwrap_or("{}"));
        object.end();
        board.say(sent(session, &message), Some(session.standing()));
        if let Ok(Some(id)) = notification.params.read::<RequestId>("requestId") {
            tokio::spawn(cancel_left(endpoint.dispatcher.clone(), Arc::clone(session), id));
        }
    }
}

/// Cancels the task that a call has become, if its node is gone: nobody else hears that its caller cancels it.
async fn cancel_left(dispatcher: Dispatcher, session: Arc<Session>, id: RequestId) {
    if let Some(task) = session.streams().task_left_by(&id).await {
        dispatcher.cancel_left(&session.owner(), &task).await;
    }
}

/// That the client of the session has sent this, as other nodes are told.
fn sent(session: &Session, message: &[u8]) -> Word {
    let message = String::from_utf8_lossy(message).into_owned();
    Word::Sent { session: session.id().to_owned(), message }
}

/// An answer to what the server asks in a session. What a task asks is accepted once it is recorded: no crash takes it back.
pub(super) async fn response(
    endpoint: &Endpoint,
    caller: &Caller,
    session_id: Option<&str>,
    response: jsonrpc::Response<'_>,
) -> Response<Body> {
    match within(endpoint, caller, session_id) {
        Ok(session) => answered(endpoint, caller, &session, response).await,
        Err(response) => *response,
    }
}

/// The same where the session is known, whose call may be another node's.
pub(super) async fn answered(
    endpoint: &Endpoint,
    caller: &Caller,
    session: &Session,
    response: jsonrpc::Response<'_>,
) -> Response<Body> {
    if let Some(id) = &response.id
        && session.lock().exchanges.is_asked_elsewhere(id)
    {
        // What is made up is not looked for, nor told, without end.
        if let Err(refused) = endpoint.dispatcher.poll(caller, 0) {
            return too_often(ANSWERED_TOO_OFTEN, &refused);
        }
        return match Box::pin(answered_elsewhere(endpoint, session, id, &response)).await {
            true => empty(StatusCode::ACCEPTED),
            false => text(StatusCode::SERVICE_UNAVAILABLE, NOT_KEPT.into()),
        };
    }
    let stray = || endpoint.dispatcher.answered_astray(&caller.owner());
    let kept = session.lock().exchanges.handle_response(response, stray);
    if let Some(kept) = kept
        && kept.await.is_err()
    {
        return text(StatusCode::SERVICE_UNAVAILABLE, NOT_KEPT.into());
    }
    empty(StatusCode::ACCEPTED)
}

/// An answer to what another node has asked, or this one before a crash: a task has it by the store, and a call that is none is told
/// by its node. `false` if neither can be.
async fn answered_elsewhere(
    endpoint: &Endpoint,
    session: &Session,
    id: &RequestId,
    response: &jsonrpc::Response<'_>,
) -> bool {
    let outcome = response.outcome.clone().map(str::to_owned);
    if let Some(recorded) = endpoint.dispatcher.answered(&session.owner(), id, outcome).await {
        return recorded;
    }
    let Some(board) = session.elsewhere() else { return false };
    let mut message = Vec::with_capacity(256);
    let mut object = ObjectWriter::new(&mut message);
    object.raw("jsonrpc", "\"2.0\"").field("id", id);
    match &response.outcome {
        Ok(result) => object.raw("result", result),
        Err(error) => object.field("error", error),
    };
    object.end();
    board.say_now(sent(session, &message), Some(session.standing())).await
}

/// What is said to whoever has answered in vain.
const NOT_KEPT: &str =
    "the answer was not recorded: nobody waits for it here, and who still needs it asks again";

/// What is said to whoever sends too many answers that are not for this server.
const ANSWERED_TOO_OFTEN: &str =
    "too many answers came that this server has not asked for: send this one again later";

/// The stream for what belongs to no request; or, to a client that says which event it had last, the rest of the
/// stream that was in.
pub(super) async fn open_stream(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    session_id: Option<&str>,
    last_event: Option<&str>,
) -> Response<Body> {
    if session_id.is_none() || !endpoint.options.sessions {
        return not_allowed();
    }
    let session = match within(endpoint, caller, session_id) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    match last_event {
        None => push_stream(endpoint, &session).await,
        Some(last) => match session.resume(last, STREAM_BOUND, go_on(endpoint, &session, caller)).await {
            Some((priming, rest)) => {
                standing(&session, events(&endpoint.options, Source::Kept(rest), priming))
            }
            None => text(
                StatusCode::BAD_REQUEST,
                "what followed that Last-Event-ID is not known, or no longer: ask again without it".into(),
            ),
        },
    }
}

/// Ends a session at its client's wish.
pub(super) async fn close(endpoint: &Endpoint, caller: &Caller, session_id: Option<&str>) -> Response<Body> {
    let principal = caller.principal.as_ref();
    match session_id {
        None => not_allowed(),
        Some(_) if !endpoint.options.sessions => not_allowed(),
        Some(id) => {
            let Some(session) = endpoint.sessions.close(id, principal) else { return unknown_session(None) };
            if let Some(shared) = endpoint.sessions.shared()
                && !shared.forget(&session).await
            {
                return no_room(NOT_ENDED);
            }
            empty(StatusCode::NO_CONTENT)
        }
    }
}

/// What is said to whoever has ended a session that other nodes may go on with.
const NOT_ENDED: &str = "the session may go on at other servers, which could not be told: end it again later";

/// The session of a request, if its revision has batches.
pub(super) fn session_with_batches(
    endpoint: &Endpoint,
    caller: &Caller,
    head: &Head<'_>,
) -> Option<Arc<Session>> {
    let session = if endpoint.options.sessions {
        endpoint.sessions.find(head.session_id.text()?, caller.principal.as_ref())?
    } else {
        let version = head.version.text();
        endpoint.sessions.apart(
            Exchanges::of_header(&endpoint.dispatcher, endpoint.options.max_open, version),
            Party::of(caller),
        )
    };
    let batches = session.lock().exchanges.dialect().is_some_and(Dialect::batches);
    batches.then_some(session)
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
