//! The floor: an axum handler that parses a `tools/call` of `echo` into types, answers it with the bytes
//! that ours answers with, and checks nothing. It says what it is to clients that ask. Prints its URL as the first line.

use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Request {
    id: i64,
    method: Method,
    params: Params,
}

#[derive(Deserialize)]
enum Method {
    #[serde(rename = "tools/call")]
    Call,
    #[serde(rename = "server/discover")]
    Discover,
    #[serde(rename = "tools/list")]
    List,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    arguments: Message,
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
struct Called {
    content: [Block; 1],
    #[serde(rename = "_meta")]
    meta: Meta,
    #[serde(rename = "resultType")]
    result_type: &'static str,
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

async fn answer(Json(Request { id, method, params }): Json<Request>) -> Response {
    match method {
        Method::Call => respond(id, echo(params.arguments)),
        Method::Discover => respond(id, discovered()),
        Method::List => respond(id, tools()),
    }
}

fn respond(id: i64, result: impl Serialize) -> Response {
    Json(Answer { jsonrpc: "2.0", id, result }).into_response()
}

fn echo(Message { message }: Message) -> Called {
    Called {
        content: [Block { r#type: "text", text: message }],
        meta: Meta { server_info: Implementation { name: "bench", version: "1.0.0" } },
        result_type: "complete",
    }
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

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/mcp", post(answer))).await
}
