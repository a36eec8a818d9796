//! A protected server, and requests to it.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use longhaul::auth::{Guard, Issuer, Protection, Resource};
use longhaul::server::{Scopes, TaskPolicy};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::{LocalIssuer, RESOURCE};

thread_local! {
    /// How often the tool `deploy` has run in this test, whose server is on the thread of its runtime.
    pub(crate) static TOOL_RUNS: Cell<usize> = const { Cell::new(0) };
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    millis: u64,
}

async fn whoami(cx: Cx, _: Nothing) -> String {
    let principal = cx.principal().map_or("nobody", |principal| principal.as_str()).to_owned();
    let email = cx.grant().and_then(|grant| grant.claim::<String>("email")).unwrap_or_default();
    format!("{principal} {email}")
}

async fn deploy(_: Cx, _: Nothing) -> &'static str {
    TOOL_RUNS.set(TOOL_RUNS.get() + 1);
    "deployed"
}

async fn work(_: Cx, Work { millis }: Work) -> &'static str {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    "worked"
}

/// A server whose tool `deploy` asks for the scopes `audit` and `deploy`.
pub(crate) fn server() -> Server {
    Server::new("protected", "1.0.0")
        .tool(Tool::typed("whoami", "Say who calls", whoami))
        .tool(Tool::typed("deploy", "Deploy", deploy).scopes(Scopes::parse("deploy audit").unwrap()))
        .tool(Tool::typed("work", "Work", work).task(TaskPolicy::always()))
}

/// The server, until the test ends.
pub(crate) struct Host {
    address: SocketAddr,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(header, _)| header == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(data.unwrap_or(&self.body)).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        self.json()["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// The same but for what differs between any two answers.
    pub(crate) fn without_date(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "date");
        self
    }
}

impl Host {
    /// Behind the guard that these protections make.
    pub(crate) async fn start(protection: Protection) -> Self {
        Self::guarded(protection.guard().unwrap()).await
    }

    pub(crate) async fn guarded(guard: Guard) -> Self {
        Self::with(Options::default().guard(guard)).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::of(server(), options).await
    }

    /// Of this server.
    pub(crate) async fn of(server: Server, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dispatcher = server.dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        tokio::spawn(serve(dispatcher, listener, options, std::future::pending()));
        Self { address }
    }

    /// The protection that most tests use: one issuer, whose tokens need the scope `mcp`.
    pub(crate) fn protection(issuer: &LocalIssuer) -> Protection {
        Protection::new()
            .resource(Resource::parse(RESOURCE).unwrap())
            .issuer(Issuer::new(issuer.url()).unwrap())
            .require(Scopes::parse("mcp").unwrap())
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let headers = head.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        // A stream that stays open is answered by its head.
        let streams = head.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let wait = Duration::from_millis(if streams { 2000 } else { 10_000 });
        let body = tokio::time::timeout(wait, body.collect()).await.map(Result::unwrap);
        let body = body.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        Answer { status: head.status, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Calls a tool in the modern era, with a bearer token.
    pub(crate) async fn call(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(modern(token, "tools/call", Some(tool), params)).await
    }

    pub(crate) async fn whoami(&self, token: &str) -> Answer {
        self.call(token, "whoami", json!({})).await
    }

    /// Opens a session and gives its id.
    pub(crate) async fn initialize(&self, token: &str) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.send(legacy(token, None, "initialize", params)).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.header("mcp-session-id").to_owned()
    }
}

fn post(token: &str) -> http::request::Builder {
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if token.is_empty() { request } else { request.header("authorization", format!("Bearer {token}")) }
}

fn body(method: &str, params: Value) -> Full<Bytes> {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string().into()
}

/// A request of the modern era, which takes tasks; without a token if it is empty.
pub(crate) fn modern(
    token: &str,
    method: &str,
    name: Option<&str>,
    mut params: Value,
) -> Request<Full<Bytes>> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let mut request = post(token).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    if let Some(name) = name {
        request = request.header("mcp-name", name);
    }
    request.body(body(method, params)).unwrap()
}

/// A request of a session, or the one that opens it; without a token if it is empty.
pub(crate) fn legacy(
    token: &str,
    session: Option<&str>,
    method: &str,
    params: Value,
) -> Request<Full<Bytes>> {
    let mut request = post(token);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
    }
    request.body(body(method, params)).unwrap()
}
