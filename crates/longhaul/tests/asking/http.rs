//! Streamable HTTP: in a session the question comes on the stream of the call and its answer in a POST of its own; in
//! the modern era there is a POST a round.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use longhaul::transport::http::server::{Options, serve};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Counts, able, accept, asked, code, server, text};

struct Host {
    address: SocketAddr,
    counts: Counts,
}

impl Host {
    async fn start() -> Self {
        let counts = Counts::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dispatcher = server(&counts).dispatcher().unwrap();
        tokio::spawn(serve(dispatcher, listener, Options::default(), std::future::pending()));
        Self { address, counts }
    }

    async fn post(&self, headers: &[(&str, &str)], body: Value) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::post("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        sender.send_request(request.body(Full::<Bytes>::from(body.to_string())).unwrap()).await.unwrap()
    }

    async fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": able(),
            "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = self.post(&[], hello).await;
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn in_session(&self, session: &str, message: Value) -> Response<Incoming> {
        self.post(&[("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")], message).await
    }

    async fn modern(&self, capabilities: Value, mut params: Value) -> (StatusCode, Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let name = params["name"].as_str().unwrap().to_owned();
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", &*name)];
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = self.post(&headers, call).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

/// The messages of a stream, as they come.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data: String = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                self.text = rest.to_owned();
                if !data.is_empty() {
                    return serde_json::from_str(&data).unwrap();
                }
                continue;
            }
            let frame = self.body.frame().await.unwrap().unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&frame).unwrap());
        }
    }
}

fn delete() -> Value {
    json!({"name": "delete", "arguments": {"path": "a"}})
}

fn call(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": delete()})
}

#[tokio::test]
async fn a_question_comes_on_the_stream_of_its_call() {
    let host = Host::start().await;
    let session = host.session().await;
    let mut events = Events::of(host.in_session(&session, call(1)).await);
    let question = events.next().await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(json!({"go": true}))});
    let elsewhere = host.session().await;
    let nobodys = host.in_session(&elsewhere, answer.clone()).await.status();
    assert_eq!(nobodys, StatusCode::SERVICE_UNAVAILABLE, "nobody has kept it");
    assert_eq!(host.counts.now(), (1, 0), "another session's answer is nobody's");
    assert_eq!(host.in_session(&session, answer).await.status(), StatusCode::ACCEPTED);
    let mut done = events.next().await;
    while done.get("method").is_some() {
        done = events.next().await;
    }
    assert_eq!((&done["id"], text(&done)), (&json!(1), "deleted a"));
    assert_eq!(host.in_session("unknown", call(2)).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_call_that_is_cancelled_withdraws_its_question_on_its_stream() {
    let host = Host::start().await;
    let session = host.session().await;
    let mut events = Events::of(host.in_session(&session, call(1)).await);
    let question = events.next().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(host.in_session(&session, cancel).await.status(), StatusCode::ACCEPTED);
    let withdrawn = events.next().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(host.counts.now(), (1, 0));
}

#[tokio::test]
async fn a_round_is_a_post() {
    let host = Host::start().await;
    let (status, first) = host.modern(able(), delete()).await;
    assert_eq!((status, asked(&first)), (StatusCode::OK, vec!["approve"]));
    let mut again = delete();
    again["requestState"] = first["result"]["requestState"].clone();
    again["inputResponses"] = json!({"approve": accept(json!({"go": true}))});
    let (status, done) = host.modern(able(), again.clone()).await;
    assert_eq!((status, text(&done)), (StatusCode::OK, "deleted a"));
    again["requestState"] = json!(format!("{}-TAMPERED", again["requestState"].as_str().unwrap()));
    let (_, refused) = host.modern(able(), again).await;
    assert_eq!(code(&refused), -32602);
    assert_eq!(host.counts.now(), (1, 1));
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_by_the_status() {
    let host = Host::start().await;
    let (status, refused) = host.modern(json!({}), delete()).await;
    assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, -32021));
    assert_eq!(host.counts.now(), (0, 0));
}
