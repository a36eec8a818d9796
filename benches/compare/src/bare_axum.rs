//! The floor: an axum handler that parses a `tools/call` of `echo` into types, answers it with the bytes
//! that ours answers with, and checks nothing. Prints its URL as the first line.

use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Request {
    id: i64,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    arguments: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

#[derive(Serialize)]
struct Response {
    jsonrpc: &'static str,
    id: i64,
    result: Called,
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

async fn echo(Json(request): Json<Request>) -> Json<Response> {
    Json(Response {
        jsonrpc: "2.0",
        id: request.id,
        result: Called {
            content: [Block { r#type: "text", text: request.params.arguments.message }],
            meta: Meta { server_info: Implementation { name: "bench", version: "1.0.0" } },
            result_type: "complete",
        },
    })
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/mcp", post(echo))).await
}
