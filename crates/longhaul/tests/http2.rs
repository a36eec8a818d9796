//! HTTP/2 beside HTTP/1.1, where it is asked for.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2::{Builder, SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul::proto::jsonrpc::Limits;
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Client, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Calls that end together, when as many have come.
const AT_ONCE: usize = 20;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    millis: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Long {
    bytes: usize,
}

async fn host(options: Options) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let wait = Tool::typed("wait", "Wait", |_, Wait { millis }| async move {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        millis
    });
    let all = Arc::new(Barrier::new(AT_ONCE));
    let meet = Tool::typed("meet", "Wait for the others", move |_, Wait { millis }| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            millis
        }
    });
    let long = Tool::typed("long", "Say much", |_, Long { bytes }: Long| async move { "x".repeat(bytes) });
    let dispatcher = Server::new("test", "1.0.0").tool(wait).tool(meet).tool(long).dispatcher().unwrap();
    tokio::spawn(serve(dispatcher, listener, options, std::future::pending()));
    address
}

async fn connect<B>(address: SocketAddr) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn call(host: &str, millis: u64) -> Request<Full<Bytes>> {
    call_of(host, "wait", &json!({"millis": millis}))
}

fn call_of(host: &str, tool: &str, arguments: &Value) -> Request<Full<Bytes>> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    Request::post(format!("http://{host}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(body.into())
        .unwrap()
}

#[tokio::test]
async fn calls_share_a_connection_of_http2_and_older_clients_have_theirs() {
    let address = host(Options::default().http2(true)).await;
    let sender = connect::<Full<Bytes>>(address).await;
    // Not one after the other: none is answered before all of them run.
    let meet = |_| sender.clone().send_request(call_of("localhost", "meet", &json!({"millis": 300})));
    let calls = (0..AT_ONCE).map(meet).collect::<Vec<_>>();
    for answer in calls {
        let answer = answer.await.unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, http::Version::HTTP_2));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["result"]["content"][0]["text"], "300", "{body}");
    }

    // The name is in `:authority`, and guarded there.
    let foreign = sender.clone().send_request(call("evil.example", 0)).await.unwrap();
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    let client = Client::connect(format!("http://{address}/mcp").as_str()).await.unwrap();
    assert_eq!(client.call("wait", &json!({"millis": 1})).await.unwrap().content[0].as_text(), Some("1"));
}

#[tokio::test]
async fn http2_is_not_spoken_unless_it_is_asked_for() {
    let address = host(Options::default()).await;
    let mut sender = connect::<Full<Bytes>>(address).await;
    assert!(sender.send_request(call("localhost", 0)).await.is_err());
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Whether the server has hung up within a time.
async fn hangs_up(stream: &mut TcpStream, within: Duration) -> bool {
    let end = async {
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer).await {}
    };
    tokio::time::timeout(within, end).await.is_ok()
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn s12_a_client_that_takes_its_requests_back_at_once_is_left() {
    let address = host(Options::default().http2(true)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // `:method GET`, `:scheme http`, `:path /`, `:authority localhost`.
    let headers = [&[0x82, 0x86, 0x84, 0x41, 9][..], b"localhost"].concat();
    let mut flood = Vec::new();
    for turn in 0..2_000 {
        let id = 2 * turn + 1;
        flood.extend(frame(1, 0b101, id, &headers));
        flood.extend(frame(3, 0, id, &8_u32.to_be_bytes()));
    }
    // The server may have hung up before it has all been sent.
    let _ = stream.write_all(&flood).await;
    assert!(hangs_up(&mut stream, Duration::from_secs(5)).await);
}

#[tokio::test]
async fn a_client_with_nothing_open_is_left_whichever_version_it_speaks_or_none() {
    let options = Options::default().http2(true).header_timeout(Duration::from_millis(300));
    let address = host(options).await;
    for words in [&b""[..], &PREFACE[..10], PREFACE, b"POST /mcp HT"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(words).await.unwrap();
        if words == PREFACE {
            stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        }
        assert!(hangs_up(&mut stream, Duration::from_secs(5)).await, "{}", words.escape_ascii());
    }
    // One that waits for an answer has something open.
    let mut sender = connect::<Full<Bytes>>(address).await;
    assert_eq!(sender.send_request(call("localhost", 900)).await.unwrap().status(), StatusCode::OK);
}

/// A body of which nothing more comes.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// However many bodies a connection begins, those of all connections that are half read have one bound; who sends the
/// whole of one is answered meanwhile.
#[tokio::test]
async fn s10_bodies_that_do_not_end_make_room() {
    const BODY: usize = 50_000;
    let mut limits = Limits::default();
    limits.max_bytes = BODY;
    let address = host(Options::default().http2(true).limits(limits).max_reading(4 * BODY)).await;
    let connections = [connect(address).await, connect(address).await];
    let mut answers = JoinSet::new();
    for turn in 0..10 {
        let begun = call("localhost", 0).map(|_| Unfinished(Some(vec![b' '; BODY].into())));
        let mut sender = connections[turn % 2].clone();
        answers.spawn(async move { sender.send_request(begun).await.map(|answer| answer.status()) });
    }
    // All but what there is room for.
    for _ in 0..6 {
        let answer = tokio::time::timeout(Duration::from_secs(10), answers.join_next()).await;
        let status = answer.expect("none makes room").unwrap().unwrap().unwrap();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    }
    let whole = connect::<Full<Bytes>>(address).await.send_request(call("localhost", 0)).await.unwrap();
    assert_eq!(whole.status(), StatusCode::OK);
}

/// However many answers one connection leaves unread, each of which its window holds up: those of all connections have one
/// bound.
#[tokio::test]
async fn s11_answers_that_one_connection_leaves_unread_make_room() {
    // More than a client's window has.
    const LONG: usize = 4 << 20;
    let address = host(Options::default().http2(true).max_writing(LONG * 5 / 2)).await;
    let long = || call_of("localhost", "long", &json!({"bytes": LONG}));
    let unread = connect::<Full<Bytes>>(address).await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(unread.clone().send_request(long()).await.unwrap());
    }
    // It may have ended before the head of this one came.
    let _ = unread.clone().send_request(long()).await;
    for answer in answers {
        assert!(answer.into_body().collect().await.is_err(), "its connection has made room");
    }
    let read = connect::<Full<Bytes>>(address).await.send_request(long()).await.unwrap();
    assert!(read.into_body().collect().await.unwrap().to_bytes().len() > LONG);
}

/// Nor does a client keep a connection by giving an answer no window, though it says that it is there.
#[tokio::test]
async fn s11_an_answer_that_is_held_up_ends_its_connection() {
    let address = host(Options::default().http2(true).write_timeout(Duration::from_millis(200))).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let mut client = Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(0);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(call("localhost", 0)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let read = tokio::time::timeout(Duration::from_secs(60), answer.into_body().collect()).await;
    assert!(read.expect("it ends").is_err());
    let _ = connection.await.unwrap();
    // Who reads what it is sent is not held up, however long it stays.
    let mut reads = connect::<Full<Bytes>>(address).await;
    for millis in [0, 1000, 0] {
        let answer = reads.send_request(call("localhost", millis)).await.unwrap();
        assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

/// How many requests a connection may have open, as a server says when it begins.
async fn streams_of(options: Options) -> Option<u32> {
    let mut stream = TcpStream::connect(host(options).await).await.unwrap();
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the settings come first");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let streams = settings.chunks_exact(6).find(|setting| setting[..2] == [0, 3])?;
    Some(u32::from_be_bytes(streams[2..].try_into().unwrap()))
}

#[tokio::test]
async fn a_client_is_told_how_many_requests_it_may_have_open() {
    assert_eq!(streams_of(Options::default().http2(true)).await, Some(128));
    assert_eq!(streams_of(Options::default().http2(true).max_streams(250)).await, Some(250));
}
