//! Streams without us: hyper, a channel a stream, and what is posted goes to all. `bench-bare-streams [STREAMS]`: with a
//! number over HTTP/2, so many streams a connection.
//!
//! It listens on a free port of this machine and prints its URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

mod files;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many messages wait for a stream whose client is slow, as with us; more are lost.
const BOUND: usize = 16;

/// What is sent when a list has changed.
const CHANGED: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

type Streams = Arc<Mutex<Vec<mpsc::Sender<Bytes>>>>;

#[tokio::main]
async fn main() -> Result<()> {
    files::open_many()?;
    let each: Option<u32> = std::env::args().nth(1).map(|streams| streams.parse()).transpose()?;
    let streams = Streams::default();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let streams = Arc::clone(&streams);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = answer(&streams, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let stream = TokioIo::new(stream);
            // A client that goes away is none of ours to measure.
            drop(match each {
                None => http1::Builder::new().serve_connection(stream, service).await,
                Some(each) => {
                    let mut builder = http2::Builder::new(TokioExecutor::new());
                    builder.max_concurrent_streams(each).serve_connection(stream, service).await
                }
            });
        });
    }
}

fn answer<B>(streams: &Streams, request: &Request<B>) -> Response<Events> {
    let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
    if *request.method() == Method::GET {
        let (sender, receiver) = mpsc::channel(BOUND);
        streams.push(sender);
        let mut response =
            Response::new(Events { first: Some(Bytes::from_static(b":\n\n")), rest: Some(receiver) });
        response
            .headers_mut()
            .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
        return response;
    }
    streams.retain(|stream| {
        !matches!(stream.try_send(Bytes::from_static(CHANGED)), Err(mpsc::error::TrySendError::Closed(_)))
    });
    Response::new(Events { first: Some(Bytes::from_static(b"{}")), rest: None })
}

/// A stream of events, or a body of one piece.
struct Events {
    first: Option<Bytes>,
    rest: Option<mpsc::Receiver<Bytes>>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match &mut this.rest {
            Some(rest) => rest.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            None => Poll::Ready(None),
        }
    }
}
