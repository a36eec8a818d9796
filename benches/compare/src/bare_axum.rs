//! The floor: an axum handler that parses a request into types, answers it with the bytes that ours answers with, and
//! checks nothing. It makes the answers of calls itself; of other requests it is told them: `bare-axum tools/list=FILE`. It
//! says what it is to clients that ask. Prints its URL as the first line.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: i64,
    method: Method,
    #[serde(default)]
    params: Params,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
enum Method {
    #[serde(rename = "tools/call")]
    Call,
    #[serde(rename = "server/discover")]
    Discover,
    #[serde(rename = "tools/list")]
    List,
    #[serde(rename = "resources/read")]
    Read,
    #[serde(rename = "prompts/get")]
    Prompt,
    #[serde(rename = "initialize")]
    Initialize,
    #[serde(rename = "notifications/initialized")]
    Initialized,
}

#[derive(Default, Deserialize)]
struct Params {
    #[serde(default)]
    arguments: Message,
    #[serde(rename = "_meta")]
    meta: Option<RequestMeta>,
    uri: Option<String>,
}

#[derive(Deserialize)]
struct RequestMeta {
    #[serde(rename = "progressToken")]
    progress_token: Option<i64>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    _version: String,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    _capabilities: IgnoredAny,
}

#[derive(Default, Deserialize)]
struct Message {
    message: String,
}

#[derive(Serialize)]
struct Answer<R> {
    jsonrpc: &'static str,
    id: i64,
    result: R,
}

#[derive(Serialize)]
struct Told {
    jsonrpc: &'static str,
    method: &'static str,
    params: Further,
}

#[derive(Serialize)]
struct Further {
    #[serde(rename = "progressToken")]
    token: i64,
    progress: f64,
}

#[derive(Serialize)]
struct Called {
    content: [Block; 1],
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
    #[serde(rename = "resultType", skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
}

#[derive(Serialize)]
struct Block {
    r#type: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Implementation,
}

#[derive(Serialize)]
struct Implementation {
    name: &'static str,
    version: &'static str,
}

/// What is answered to requests of which it was told that.
type Results = HashMap<Method, Box<RawValue>>;

async fn answer(State(results): State<Arc<Results>>, Json(request): Json<Request>) -> Response {
    let Request { id, method, params } = request;
    if let Some(result) = results.get(&method) {
        drop(params.uri);
        return respond(id, result);
    }
    match method {
        Method::Call => match params.meta {
            Some(RequestMeta { progress_token: Some(token), .. }) => told(id, token, params.arguments),
            meta => respond(id, echo(params.arguments, meta.is_some())),
        },
        Method::Discover => respond(id, discovered()),
        Method::List => respond(id, tools()),
        Method::Initialize => respond(id, initialized()),
        Method::Initialized => StatusCode::ACCEPTED.into_response(),
        Method::Read | Method::Prompt => StatusCode::NOT_FOUND.into_response(),
    }
}

fn respond(id: i64, result: impl Serialize) -> Response {
    Json(Answer { jsonrpc: "2.0", id, result }).into_response()
}

/// How far it is, and then the answer.
fn told(id: i64, token: i64, message: Message) -> Response {
    let further = Further { token, progress: 1.0 };
    let told = Told { jsonrpc: "2.0", method: "notifications/progress", params: further };
    let answer = Answer { jsonrpc: "2.0", id, result: echo(message, true) };
    let events = [Event::default().json_data(told), Event::default().json_data(answer)];
    Sse::new(stream::iter(events.into_iter().flatten().map(Ok::<_, Infallible>))).into_response()
}

fn echo(Message { message }: Message, is_modern: bool) -> Called {
    let meta = Meta { server_info: Implementation { name: "bench", version: "1.0.0" } };
    Called {
        content: [Block { r#type: "text", text: message }],
        meta: is_modern.then_some(meta),
        result_type: is_modern.then_some("complete"),
    }
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1.0.0"},
    })
}

fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "1.0.0"}},
        "resultType": "complete",
        "ttlMs": 3_600_000,
        "cacheScope": "public",
    })
}

fn tools() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    });
    json!({
        "tools": [{"name": "echo", "description": "Say the message back", "inputSchema": schema}],
        "resultType": "complete",
        "ttlMs": 3_600_000,
        "cacheScope": "public",
    })
}

/// What each argument names: `METHOD=FILE`.
fn results() -> Result<Results, Box<dyn Error>> {
    let told = std::env::args().skip(1).map(|argument| {
        let (method, file) = argument.split_once('=').ok_or("say METHOD=FILE")?;
        let result = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        Ok((serde_json::from_value(method.into())?, result))
    });
    told.collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let results = Arc::new(results()?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().route("/mcp", post(answer)).with_state(results)).await?)
}
