//! A connection of either version of HTTP, for servers that take both.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::READ_AHEAD;
use super::service::AnswerBody;
use super::waiting::Connection;

/// The headers of one request, in bytes.
const HEADERS: u32 = 16 << 10;

/// What a client may send before it is read: of one request, and of all.
const WINDOW: u32 = 64 << 10;
const WINDOWS: u32 = 1 << 20;

/// What waits of one answer for a client that does not read, in bytes.
const WAITING: usize = 64 << 10;

/// Requests that a client has taken back and that are still being cleared away. More is how "rapid reset" works
/// (CVE-2023-44487), and ends the connection.
const TAKEN_BACK: usize = 20;

/// The same for those that we have refused (CVE-2025-8671).
const REFUSED: usize = 128;

/// How often a silent client is asked whether it is there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(20);

/// Serves one connection to its end, on which so many requests may be open at once: until its client goes, until nothing has been open for `idle`, or until what is
/// open has ended after `closing`.
pub(super) async fn converse<S, F>(
    stream: S,
    this: &Connection,
    streams: u32,
    idle: Duration,
    closing: impl Future<Output = ()>,
    answer: impl Fn(Request<Incoming>) -> F,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    let service = service_fn(|request| {
        // Some kilobytes, which hyper would keep a place for as long as the answer is open, a stream included.
        let answer = Box::pin(answer(request));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(READ_AHEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOWS)
        .max_send_buf_size(WAITING)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .max_local_error_reset_streams(REFUSED)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = closing => {
            connection.as_mut().graceful_shutdown();
            return connection.await;
        }
        () = this.quiet_for(idle) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => ended,
        // Whoever does not go although nothing is open is left. What it asked before it heard is answered first.
        () = this.quiet_for(idle) => Ok(()),
    }
}
