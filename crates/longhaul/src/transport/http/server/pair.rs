//! HTTP with SSE, the transport of 2024-11-05: a GET opens a stream, which names the address that messages are POSTed
//! to, and brings whatever is answered. Behind it stands a connection like any other over a stream of bytes, which
//! lives as long as the GET does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode};
use longhaul_proto::http::write_named_event;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, WriteHalf};
use tokio::sync::{mpsc, watch};

use super::answer::{Body, Sent, Source, empty, opened, text};
use super::route::{RequestBody, has_json};
use super::session::new_id;
use super::{Endpoint, post};
use crate::driver::{self, LAST_WORDS};
use crate::server::{Caller, Principal};
use crate::transport::message::one_line;

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
    /// Who opened it; `None` where nobody has to sign in.
    principal: Option<Principal>,
    input: tokio::sync::Mutex<WriteHalf<DuplexStream>>,
}

/// How many bytes wait between a connection and its HTTP requests, in each direction.
const BUFFER: usize = 64 << 10;

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

/// The answer to a request that is part of this transport, where it is served.
pub(super) async fn answer<B: RequestBody>(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    request: Request<B>,
) -> Result<Response<Body>, Request<B>> {
    if !endpoint.options.legacy_sse {
        return Err(request);
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, STREAM) => Ok(open(endpoint, caller)),
        (&Method::POST, MESSAGES) => Ok(take(endpoint, caller, request).await),
        (_, STREAM) => Ok(text(StatusCode::METHOD_NOT_ALLOWED, "GET opens the stream".into())),
        (_, MESSAGES) => Ok(text(StatusCode::METHOD_NOT_ALLOWED, "POST a message".into())),
        _ => Err(request),
    }
}

fn open(endpoint: &Arc<Endpoint>, caller: &Caller) -> Response<Body> {
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (reader, input) = tokio::io::split(ours);
    let pair = Arc::new(Pair { principal: caller.principal.clone(), input: input.into() });
    let id = new_id();
    {
        let mut open = endpoint.pairs.lock();
        if open.len() >= endpoint.options.max_sessions {
            return text(StatusCode::SERVICE_UNAVAILABLE, "as many streams are open as may be".into());
        }
        open.insert(id.clone(), pair);
    }
    tokio::spawn(converse(Arc::clone(endpoint), caller.clone(), theirs));
    let (sender, receiver) = mpsc::channel(BOUND);
    let mut ready = Vec::new();
    write_named_event(&mut ready, "endpoint", format!("{MESSAGES}?session={id}").as_bytes());
    tokio::spawn(carry(Arc::clone(endpoint), id, reader, sender));
    opened(&endpoint.options, Source::Kept(receiver), ready)
}

/// The connection behind the stream. It ends with its input, and drops what runs then.
async fn converse(endpoint: Arc<Endpoint>, caller: Caller, stream: DuplexStream) {
    let mut stopping = endpoint.pairs.stopping.subscribe();
    let stopped = async move {
        // A closed channel means that the server is gone.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let options = &endpoint.options;
    let limits =
        driver::Options::default().limits(options.limits).max_open(options.max_open).drain(options.drain);
    let (reader, writer) = tokio::io::split(stream);
    let dispatcher = endpoint.dispatcher.clone();
    let served = driver::serve_caller(dispatcher, caller, reader, writer, limits, stopped, LAST_WORDS).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection behind a stream ended early");
    }
}

/// Sends what the connection writes, message by message, until it or the client has gone.
async fn carry(
    endpoint: Arc<Endpoint>,
    id: String,
    reader: impl AsyncRead + Unpin,
    client: mpsc::Sender<Sent>,
) {
    let mut lines = BufReader::new(reader).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = client.closed() => break,
        };
        let Ok(Some(line)) = line else { break };
        let sent = Sent { id: None, message: line.into_bytes(), answered: None };
        if client.send(sent).await.is_err() {
            break;
        }
    }
    // Its input ends here, and with it the connection.
    endpoint.pairs.lock().remove(&id);
}

/// A message for the connection behind a stream.
async fn take(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    request: Request<impl RequestBody>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let id = head.uri.query().and_then(|query| query.strip_prefix("session="));
    let pair = id.and_then(|id| endpoint.pairs.lock().get(id).cloned());
    // Anybody else's is none.
    let Some(pair) = pair.filter(|pair| pair.principal == caller.principal) else {
        return text(StatusCode::NOT_FOUND, format!("no such stream: GET {STREAM} opens one"));
    };
    if !has_json(&head.headers) {
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json".into());
    }
    let limit = endpoint.options.limits.max_bytes;
    let message = match post::read(endpoint, &head.headers, body, limit).await {
        Ok(message) => message,
        Err(response) => return *response,
    };
    let line = one_line(message.into());
    let taken = async { pair.input.lock().await.write_all(&line).await };
    match tokio::time::timeout(endpoint.options.body_timeout, taken).await {
        Ok(Ok(())) => empty(StatusCode::ACCEPTED),
        Ok(Err(_)) => text(StatusCode::NOT_FOUND, "the stream has just ended".into()),
        Err(_) => {
            // Half a line may have been taken: nothing can follow it.
            if let Err(error) = pair.input.lock().await.shutdown().await {
                tracing::debug!(%error, "a connection behind a stream has ended already");
            }
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                "too much waits to be answered: the stream is closed".into(),
            )
        }
    }
}
