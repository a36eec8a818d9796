//! HTTP with SSE, the transport of 2024-11-05: a GET opens a stream, which names the address that messages are POSTed
//! to, and brings whatever is answered. Behind it stands a connection like any other over a stream of bytes, which
//! lives as long as the GET does.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Response, StatusCode};
use longhaul_proto::http::{accepts, write_named_event};
use longhaul_proto::jsonrpc::{DecodeError, Message};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, watch};

use super::answer::{Body, Sent, Source, empty, no_room, only, opened, refusal, text};
use super::head::Head;
use super::route::RequestBody;
use super::session::new_id;
use super::{Endpoint, post};
use crate::driver::{self, Callers, LAST_WORDS};
use crate::server::{Caller, Principal};
use crate::transport::message::{Receive, Transmit, lines};

/// Where the stream is opened.
const STREAM: &str = "/sse";

/// Where messages are sent.
const MESSAGES: &str = "/messages";

/// The open streams.
#[derive(Debug)]
pub(super) struct Pairs {
    open: Mutex<HashMap<String, Arc<Pair>>>,
    stopping: watch::Sender<bool>,
}

#[derive(Debug)]
struct Pair {
    /// Who opened it, and who alone may POST for it.
    principal: Option<Principal>,
    input: mpsc::Sender<(Caller, Vec<u8>)>,
}

/// How many messages wait for a connection; others wait in their requests.
const INPUT_BOUND: usize = 1;

/// How many callers wait for their messages to be cut into lines, which are read some at a time.
const CALLERS: usize = 64;

/// How many messages wait for a stream before its connection waits too.
const BOUND: usize = 16;

impl Default for Pairs {
    fn default() -> Self {
        Self { open: Mutex::default(), stopping: watch::Sender::new(false) }
    }
}

impl Pairs {
    /// The server stops: what is held is handed over, and each stream ends once the last answer is written.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Pair>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request for `path` is part of this transport, where it is served.
pub(super) fn serves(endpoint: &Endpoint, path: &str) -> bool {
    endpoint.options.legacy_sse && [STREAM, MESSAGES].contains(&path)
}

/// The answer to a request that is.
pub(super) async fn answer(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    match (head.method, head.path()) {
        (&Method::GET, STREAM) if !takes_events(head) => {
            text(StatusCode::NOT_ACCEPTABLE, "a GET opens a stream: accept text/event-stream".into())
        }
        (&Method::GET, STREAM) => open(endpoint, caller),
        (&Method::POST, MESSAGES) => take(endpoint, caller, head, body).await,
        (_, STREAM) => only("GET", "GET opens the stream".into()),
        _ => only("POST", "POST a message".into()),
    }
}

/// Whether a stream is what is asked for. A browser that goes somewhere takes anything, but no stream: the link may be
/// of any site.
fn takes_events(head: &Head<'_>) -> bool {
    accepts(head.accept.text()).events && head.fetch_mode.text() != Some("navigate")
}

fn open(endpoint: &Arc<Endpoint>, caller: &Caller) -> Response<Body> {
    let (input, messages) = mpsc::channel(INPUT_BOUND);
    let pair = Arc::new(Pair { principal: caller.principal.clone(), input });
    let id = new_id();
    {
        let mut open = endpoint.pairs.lock();
        if open.len() >= endpoint.options.max_sessions {
            return no_room("as many streams are open as may be: come back later");
        }
        open.insert(id.clone(), pair);
    }
    let mut ready = Vec::new();
    // Where an application has put this, only what is relative to the stream is known.
    let messages_at = if endpoint.mounted { &MESSAGES[1..] } else { MESSAGES };
    write_named_event(&mut ready, "endpoint", format!("{messages_at}?session={id}").as_bytes());
    let (client, sent) = mpsc::channel(BOUND);
    let endpoint_then = Arc::clone(endpoint);
    tokio::spawn(async move {
        converse(&endpoint_then, messages, client).await;
        endpoint_then.pairs.lock().remove(&id);
    });
    opened(&endpoint.options, Source::Kept(sent), ready)
}

/// What is POSTed.
struct Posted {
    messages: mpsc::Receiver<(Caller, Vec<u8>)>,
    /// Who has POSTed each message, in their order.
    callers: mpsc::Sender<Caller>,
}

impl Receive for Posted {
    async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((caller, message)) = self.messages.recv().await else { return Ok(None) };
        self.callers.send(caller).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(Some(message))
    }
}

/// The stream.
struct Streamed(mpsc::Sender<Box<Sent>>);

impl Transmit for Streamed {
    async fn transmit(&mut self, message: Vec<u8>) -> io::Result<()> {
        let sent = Box::new(Sent { id: None, message, answered: None });
        self.0.send(sent).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The connection behind the stream. It ends with its client, and drops what runs then.
async fn converse(
    endpoint: &Endpoint,
    messages: mpsc::Receiver<(Caller, Vec<u8>)>,
    client: mpsc::Sender<Box<Sent>>,
) {
    let mut stopping = endpoint.pairs.stopping.subscribe();
    let stopped = async move {
        // A closed channel means that the server is gone.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let options = &endpoint.options;
    let limits =
        driver::Options::default().limits(options.limits).max_open(options.max_open).drain(options.drain);
    let (callers, who) = mpsc::channel(CALLERS);
    let (reader, writer) = lines(Posted { messages, callers }, Streamed(client.clone()));
    let dispatcher = endpoint.dispatcher.clone();
    tokio::select! {
        served = driver::serve_callers(dispatcher, Callers::EachLine(who), reader, writer, limits, stopped, LAST_WORDS) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection behind a stream ended early");
            }
        }
        () = client.closed() => {}
    }
}

/// A message for the connection behind a stream.
async fn take(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    let id = head.uri.query().and_then(|query| query.strip_prefix("session="));
    let pair = id.and_then(|id| endpoint.pairs.lock().get(id).cloned());
    // Anybody else's is none.
    let Some(pair) = pair.filter(|pair| pair.principal == caller.principal) else {
        return text(StatusCode::NOT_FOUND, format!("no such stream: GET {STREAM} opens one"));
    };
    if !head.has_json() {
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json".into());
    }
    let limit = endpoint.options.limits.max_bytes;
    let message = match post::read(endpoint, head, body, limit).await {
        Ok(message) => message,
        Err(response) => return *response,
    };
    // Whoever sends this learns it here: what is no JSON has no id by which the stream could say so.
    let wrong = Message::decode(&message, &endpoint.options.limits).err();
    if let Some(error @ (DecodeError::NotJson(_) | DecodeError::NotUtf8(_))) = wrong {
        return refusal(StatusCode::BAD_REQUEST, None, &error.to_error_object());
    }
    // Whole or not at all, though the request may be given up meanwhile.
    let input = (caller.clone(), message.into());
    match pair.input.send_timeout(input, endpoint.options.body_timeout).await {
        Ok(()) => empty(StatusCode::ACCEPTED),
        Err(SendTimeoutError::Closed(_)) => text(StatusCode::NOT_FOUND, "the stream has just ended".into()),
        Err(SendTimeoutError::Timeout(_)) => {
            no_room("too much waits to be answered: read the stream, then send this again")
        }
    }
}
