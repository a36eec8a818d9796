//! HTTP with SSE, as 2024-11-05 has it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul::proto::model::Progress;
use longhaul::server::{Caller, Grant, Principal, Scopes};
use longhaul::transport::http::server::{HttpService, Options, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower_service::Service;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

struct Host {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
}

impl Host {
    async fn start(options: Options) -> Self {
        let steps = |cx: Cx, NoArguments {}| async move {
            cx.progress(Progress::new(1.0)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            "done"
        };
        let server = Server::new("test", "1.0.0").tool(Tool::typed("steps", "Go", steps));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(serve(server.dispatcher().unwrap(), listener, options, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop) }
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = request.header("host", "localhost").header("content-type", "application/json");
        sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    async fn open(&self) -> Events {
        let response = self.send(stream(), String::new()).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), read: String::new() }
    }

    async fn post(&self, address: &str, message: &str) -> u16 {
        self.send(Request::post(address), message.to_owned()).await.status().as_u16()
    }
}

/// The request that opens a stream.
fn stream() -> http::request::Builder {
    Request::get("/sse").header("accept", "text/event-stream")
}

struct Events<B = Incoming> {
    body: B,
    read: String,
}

impl<B> Events<B>
where
    B: Body<Data = Bytes, Error: std::fmt::Debug> + Unpin,
{
    /// The kind and the data of the next event; `None` at the end.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
                };
                return Some((field("event: "), field("data: ")));
            }
            let frame = tokio::time::timeout(Duration::from_secs(30), self.body.frame()).await.unwrap()?;
            self.read.push_str(std::str::from_utf8(&frame.ok()?.into_data().unwrap()).unwrap());
        }
    }

    async fn message(&mut self) -> Value {
        self.next().await.unwrap().1.parse().unwrap()
    }

    async fn address(&mut self) -> String {
        let (kind, address) = self.next().await.unwrap();
        assert_eq!(kind, "endpoint");
        address
    }

    /// The same of a service that does not know where it is: relative to the stream.
    async fn address_beside(&mut self) -> String {
        let address = self.address().await;
        assert!(address.starts_with("messages?"), "{address}");
        format!("/{address}")
    }
}

fn initialize() -> String {
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    format!("{:#}", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
}

#[tokio::test]
async fn a_stream_names_its_address_and_brings_the_answers() {
    let mut host = Host::start(Options::default().legacy_sse(true)).await;
    let (mut stream, mut other) = (host.open().await, host.open().await);
    let (address, elsewhere) = (stream.address().await, other.address().await);
    assert_ne!(address, elsewhere);
    assert!(initialize().contains('\n'), "a message may have lines");
    assert_eq!(host.post(&address, &initialize()).await, 202);
    assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "steps", "arguments": {}, "_meta": {"progressToken": 7}}});
    assert_eq!(host.post(&address, &call.to_string()).await, 202);
    assert_eq!(stream.message().await["params"]["progressToken"], 7);
    assert_eq!(stream.message().await["result"]["content"][0]["text"], "done");
    assert_eq!(host.post("/messages?session=guessed", &call.to_string()).await, 404);
    assert_eq!(host.post("/messages", &call.to_string()).await, 404);
    drop(other);
    let mut status = 202;
    for _ in 0..100 {
        status = host.post(&elsewhere, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        if status == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 404, "a stream ends with its connection");
    host.stop.take().unwrap().send(()).unwrap();
    assert_eq!(stream.next().await, None, "and with the server");
}

#[tokio::test]
async fn it_is_not_there_unless_it_is_asked_for_and_is_bounded() {
    let host = Host::start(Options::default()).await;
    assert_eq!(host.send(stream(), String::new()).await.status().as_u16(), 404);
    let host = Host::start(Options::default().legacy_sse(true).max_sessions(1)).await;
    let _stream = host.open().await;
    assert_eq!(host.send(stream(), String::new()).await.status().as_u16(), 503);
    let foreign = stream().header("origin", "https://evil.example");
    assert_eq!(host.send(foreign, String::new()).await.status().as_u16(), 403);
}

#[tokio::test]
async fn it_says_which_methods_it_takes_and_opens_for_who_accepts_events() {
    let host = Host::start(Options::default().legacy_sse(true)).await;
    for (request, allow) in [(Request::post("/sse"), "GET"), (Request::get("/messages"), "POST")] {
        let refused = host.send(request, String::new()).await;
        assert_eq!(refused.status(), 405);
        assert_eq!(refused.headers()["allow"], allow);
    }
    for (header, value) in [("accept", "text/html"), ("sec-fetch-mode", "navigate")] {
        let refused = host.send(Request::get("/sse").header(header, value), String::new()).await;
        assert_eq!(refused.status(), 406, "{header}");
    }
}

fn asked(request: http::request::Builder, body: String) -> Request<Full<Bytes>> {
    let request = request.header("host", "localhost").header("content-type", "application/json");
    request.body(Full::new(Bytes::from(body))).unwrap()
}

/// What is written is polled once here, with nothing else running: so what does not fit waits, and is given up.
#[tokio::test]
async fn a_message_whose_request_is_given_up_spoils_no_other() {
    let server = Server::new("test", "1.0.0");
    let options = Options::default().legacy_sse(true);
    let mut service = HttpService::new(server.dispatcher().unwrap(), options);
    let body = service.call(asked(stream(), String::new())).await.unwrap().into_body();
    let mut stream = Events { body, read: String::new() };
    let address = stream.address_beside().await;
    let params = json!({"_meta": {"padding": "x".repeat(256 << 10)}});
    let large = json!({"jsonrpc": "2.0", "id": 9, "method": "ping", "params": params}).to_string();
    let mut taken = 0;
    loop {
        let post = service.call(asked(Request::post(&address), large.clone()));
        let answer = tokio::select! { biased; answer = post => answer, () = std::future::ready(()) => break };
        assert_eq!(answer.unwrap().status(), 202);
        taken += 1;
        assert!(taken < 100, "what waits is bounded");
    }
    let answer = service.call(asked(Request::post(&address), initialize())).await.unwrap();
    assert_eq!(answer.status(), 202);
    for _ in 0..taken {
        assert_eq!(stream.message().await["id"], 9);
    }
    assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
}

#[tokio::test]
async fn what_is_sent_has_the_scopes_it_was_sent_with() {
    let deploy = Tool::typed("deploy", "Deploy", |_, NoArguments {}| async { "deployed" });
    let deploy = deploy.scopes(Scopes::parse("deploy").unwrap());
    let mut service = HttpService::new(
        Server::new("test", "1.0.0").tool(deploy).dispatcher().unwrap(),
        Options::default().legacy_sse(true),
    );
    let known = |mut request: Request<Full<Bytes>>, who: &str, scopes: &str| {
        let mut caller = Caller::new(Some(Principal::new(who).unwrap()));
        let scopes = Some(Scopes::parse(scopes).unwrap());
        caller.grant = Some(Arc::new(Grant::new(scopes, serde_json::Map::new())));
        request.extensions_mut().insert(caller);
        request
    };
    let opened = service.call(known(asked(stream(), String::new()), "ann", "mcp")).await.unwrap();
    let mut stream = Events { body: opened.into_body(), read: String::new() };
    let address = stream.address_beside().await;
    let hello = known(asked(Request::post(&address), initialize()), "ann", "mcp");
    assert_eq!(service.call(hello).await.unwrap().status(), 202);
    assert_eq!(stream.message().await["id"], 0);
    for (id, scopes, may) in
        [(1, "mcp", false), (2, "mcp deploy", true), (3, "mcp", false), (4, "deploy", true)]
    {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "deploy", "arguments": {}}});
        let post = known(asked(Request::post(&address), call.to_string()), "ann", scopes);
        assert_eq!(service.call(post).await.unwrap().status(), 202, "{scopes}");
        let answer = stream.message().await;
        let code = if may { Value::Null } else { json!(-31003) };
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &code), "{answer}");
    }
    let others = known(asked(Request::post(&address), initialize()), "bob", "mcp deploy");
    assert_eq!(service.call(others).await.unwrap().status(), 404);
}

#[tokio::test]
async fn what_is_no_json_is_refused_where_it_is_sent() {
    let host = Host::start(Options::default().legacy_sse(true)).await;
    let mut stream = host.open().await;
    let address = stream.address().await;
    for broken in ["{", "", " ", "{}}", "\u{1}"] {
        let refused = host.send(Request::post(&address), broken.to_owned()).await;
        assert_eq!(refused.status(), 400, "{broken:?}");
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["error"]["code"], -32700);
    }
    // What is JSON is answered in the stream, an error as well.
    assert_eq!(host.post(&address, "{}").await, 202);
    assert_eq!(stream.message().await["error"]["code"], -32600);
}
