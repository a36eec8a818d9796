//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::route::route;
use super::service::AnswerBody;
use super::stalled::UntilStalled;
use super::waiting::{Connection, OpenRequest, Waiting};
use super::{Endpoint, Listen};

pub(super) async fn accept(
    endpoint: Arc<Endpoint>,
    listener: impl Listen,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(endpoint.options.max_connections));
    let waiting = Arc::new(Waiting::default());
    let (closing, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = next(&listener, &places, &waiting) => accepted,
        };
        let (stream, known, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Said once, until it works again.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "connections cannot be accepted; trying on");
                }
                continue;
            }
        };
        failing = false;
        let (endpoint, closing) = (Arc::clone(&endpoint), closing.subscribe());
        let connection = Connection::new(&waiting);
        connections.spawn(async move {
            tokio::select! {
                biased;
                () = connection.let_go() => {
                    tracing::debug!("a connection that waited for its client made room for another");
                }
                () = converse(endpoint, stream, known, closing, &connection) => {}
            }
            connection.end();
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    closing.send_replace(true);
    if !endpoint.wind_down(ended(&mut connections)).await {
        // Dropped here, their calls would take it for their callers' cancelling.
        connections.detach_all();
    }
    Ok(())
}

/// Completes when every connection has ended.
async fn ended(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// The next connection, once there is a place for it, which one that waits for its client gives up. When accepting
/// fails it should be tried again.
async fn next<L: Listen>(
    listener: &L,
    places: &Arc<Semaphore>,
    waiting: &Waiting,
) -> std::io::Result<(L::Stream, Extensions, OwnedSemaphorePermit)> {
    match listener.accept().await {
        Ok((stream, known)) => {
            let place = match Arc::clone(places).try_acquire_owned() {
                Ok(place) => place,
                Err(_) => make_room(places, waiting).await?,
            };
            Ok((stream, known, place))
        }
        Err(error) => {
            // Out of file descriptors, or the peer was gone already: the next attempt may do.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(error)
        }
    }
}

/// The place of a connection that waits for its client, now or later, or one that becomes free by itself.
async fn make_room(places: &Arc<Semaphore>, waiting: &Waiting) -> std::io::Result<OwnedSemaphorePermit> {
    let mut free = pin!(Arc::clone(places).acquire_owned());
    let mut asked = waiting.let_longest_go();
    if !asked && waiting.may_complain() {
        tracing::warn!("every connection there may be is open and busy; the next one waits");
    }
    loop {
        tokio::select! {
            biased;
            place = &mut free => return place.map_err(std::io::Error::other),
            () = waiting.more(), if !asked => asked = waiting.let_longest_go(),
        }
    }
}

/// Serves one connection to its end.
async fn converse(
    endpoint: Arc<Endpoint>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    known: Extensions,
    mut closing: watch::Receiver<bool>,
    this: &Arc<Connection>,
) {
    let header_timeout = endpoint.options.header_timeout;
    let stream = UntilStalled::new(stream, endpoint.options.write_timeout);
    #[cfg(feature = "http2")]
    let either_version = endpoint.options.http2;
    let answer = move |mut request: Request<Incoming>| {
        request.extensions_mut().extend(known.clone());
        respond(Arc::clone(&endpoint), this.open(), request)
    };
    #[cfg(feature = "http2")]
    if either_version {
        let closing = closed(&mut closing);
        if let Err(error) = super::http2::converse(stream, this, header_timeout, closing, answer).await {
            tracing::debug!(%error, "a connection ended early");
        }
        return;
    }
    let service = service_fn(|request| {
        // Some kilobytes, which hyper would keep a place for as long as the connection is open, a stream included.
        let answer = Box::pin(answer(request));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Answers a request, which is open as long as its answer is.
async fn respond(
    endpoint: Arc<Endpoint>,
    open: OpenRequest,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    open.in_time().await;
    let request = request.map(|body| open.body(body));
    route(&endpoint, request).await.map(|body| AnswerBody::new(body).holding(open))
}

/// Completes when the server is asked to stop, or is gone.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
