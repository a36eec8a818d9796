//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{Extensions, HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::answer::{Body, no_room};
use super::head::Head;
use super::peer::Known;
use super::places::{Place, Places};
use super::route::route;
use super::service::AnswerBody;
use super::stalled::UntilStalled;
use super::unread::Unread;
use super::waiting::{Connection, OpenRequest, Served, Standing};
use super::writing::Answers;
use super::{Endpoint, Listen, Options};

pub(super) async fn accept(
    endpoint: Arc<Endpoint>,
    listener: impl Listen,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let places = Arc::new(Places::new(endpoint.options.max_connections));
    let (closing, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = next(&listener, &places) => accepted,
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
        let connection = Connection::new(place.waiting());
        let answers = endpoint.writing.begin(connection.dismissal());
        let spare = place.is_spare().then(|| Arc::clone(&places));
        let served = Served::new(&connection);
        connections.spawn(async move {
            tokio::select! {
                biased;
                why = connection.dismissal().wait() => tracing::debug!(why, "a connection made room"),
                () = converse(endpoint, stream, known, closing, &connection, &answers, spare) => {}
            }
            // Nobody takes it for one that waits once its place is another's.
            drop(served);
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

/// The next connection, once there is a place for it. When accepting fails it should be tried again.
async fn next<L: Listen>(listener: &L, places: &Places) -> std::io::Result<(L::Stream, Extensions, Place)> {
    match listener.accept().await {
        Ok((stream, known)) => Ok((stream, known, places.take().await?)),
        Err(error) => {
            // Out of file descriptors, or the peer was gone already: the next attempt may do.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(error)
        }
    }
}

/// Serves one connection to its end. One that has a place to spare has each request wait for a place among these.
async fn converse(
    endpoint: Arc<Endpoint>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    mut known: Extensions,
    mut closing: watch::Receiver<bool>,
    this: &Arc<Connection>,
    answers: &Arc<Answers>,
    spare: Option<Arc<Places>>,
) {
    let Options { header_timeout, write_timeout, .. } = endpoint.options;
    let stream = UntilStalled::new(stream, write_timeout, Arc::clone(this), Arc::clone(answers));
    #[cfg(feature = "http2")]
    let (either_version, streams) = (endpoint.options.http2, endpoint.options.max_streams);
    let known = Known::of_connection(&mut known);
    let answer = move |request: Request<Incoming>| {
        let answers = Arc::clone(answers);
        respond(Arc::clone(&endpoint), this.open(), answers, spare.clone(), known.clone(), request)
    };
    #[cfg(feature = "http2")]
    if either_version {
        let closing = closed(&mut closing);
        // Twice as large as one of HTTP/1.1, which would have a place for it.
        let conversing =
            Box::pin(super::http2::converse(stream, this, streams, header_timeout, closing, answer));
        let ended = tokio::select! {
            ended = conversing => ended,
            () = answers.held_up_for(write_timeout) => Err("the client gives an answer no window".into()),
        };
        if let Err(error) = ended {
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
        // It would set a timer for each request.
        .header_read_timeout(None)
        .max_buf_size(READ_AHEAD)
        .serve_connection(TokioIo::new(stream), service);
    let (mut connection, mut quiet) = (pin!(connection), pin!(this.quiet_for(header_timeout)));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => Some(ended),
        () = &mut quiet => None,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = connection => Some(ended),
                () = quiet => None,
            }
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        None => tracing::debug!("a connection ended on which nothing was asked for a while"),
    }
}

/// Answers a request, which is open as long as its answer is.
fn respond(
    endpoint: Arc<Endpoint>,
    mut open: OpenRequest,
    answers: Arc<Answers>,
    spare: Option<Arc<Places>>,
    known: Known,
    request: Request<Incoming>,
) -> impl Future<Output = Response<AnswerBody>> {
    // Out here what has been taken apart has no place in the future any more.
    let (parts, body) = request.into_parts();
    async move {
        open.in_time().await;
        let has_window = parts.version >= Version::HTTP_2;
        let ends = spare.is_some() && !has_window;
        let head = Head::of(&parts);
        let place = match spare {
            Some(places) if !head.asks_for_health() => match places.take_soon().await {
                Some(place) => Some(place),
                None => {
                    return ending(no_room(FULL), ends)
                        .map(|body| AnswerBody::of(body, answers, has_window, open, None));
                }
            },
            _ => None,
        };
        let unread = Unread::of(parts.version, &parts.headers, endpoint.options.body_timeout);
        let body = pin!(open.body(body, unread));
        let mut response = route(&endpoint, known, &head, body).await;
        if let Some(stream) = response.extensions_mut().remove::<Standing>() {
            open.stands(stream);
        }
        ending(response, ends).map(|body| AnswerBody::of(body, answers, has_window, open, place))
    }
}

/// What waits of one connection of HTTP/1.1 to be looked at, in bytes, such as a head that has not ended. What is read last
/// may go beyond, so that a head is refused for certain that has twice as many.
pub(super) const READ_AHEAD: usize = 64 << 10;

/// What is said where there is no place for a request.
const FULL: &str = "as many connections are busy as may be: come back later";

/// The same answer, after which its connection ends if it is to.
fn ending(mut response: Response<Body>, ends: bool) -> Response<Body> {
    if ends {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Completes when the server is asked to stop, or is gone.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
