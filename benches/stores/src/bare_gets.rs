//! A `tasks/get` without us: axum, one read of a hash in Redis, and the least of an answer. `bench-bare-gets URL`.
//!
//! A call of a tool writes a hash that says that it has completed. It listens on a free port of this machine and prints its
//! URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a task is kept as: as many values as a `tasks/get` of ours reads, the record of as many bytes among them.
const FIELDS: [&str; 9] = ["v", "s", "b", "g", "l", "o", "r", "a", "c"];

/// What is answered, but for the id.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Task<'t> {
    result_type: &'t str,
    #[serde(default)]
    task_id: &'t str,
    status: &'t str,
    created_at: &'t str,
    last_updated_at: &'t str,
    ttl_ms: u64,
    poll_interval_ms: u64,
    #[serde(borrow)]
    result: &'t RawValue,
}

#[derive(Serialize)]
struct Answer<'t> {
    jsonrpc: &'t str,
    id: u64,
    result: Task<'t>,
}

/// As much of a request as is needed.
#[derive(Deserialize)]
struct Request {
    id: u64,
    method: String,
    params: Params,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    task_id: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).context("name the Redis: bench-bare-gets URL")?;
    let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let app = Router::new().route("/mcp", post(answer)).with_state(redis);
    Ok(axum::serve(listener, app).await?)
}

async fn answer(State(redis): State<MultiplexedConnection>, Json(request): Json<Request>) -> Response {
    let asked = if request.method == "tools/call" {
        made(redis, request.id).await
    } else {
        found(redis, request).await
    };
    match asked {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}

/// Writes the one task there is.
async fn made(mut redis: MultiplexedConnection, id: u64) -> Result<Vec<u8>> {
    let values = ["1", "2", "0", "", "", "", &record(), r#"{"seconds":0.0}"#, "{}"];
    let mut command = redis::cmd("HSET");
    command.arg("bare:task");
    for (field, value) in FIELDS.iter().zip(values) {
        command.arg(field).arg(value);
    }
    let _: u64 = command.query_async(&mut redis).await?;
    let result = json!({"resultType": "task", "taskId": "task", "status": "working"});
    Ok(serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?)
}

/// Reads it, and answers with what it holds.
async fn found(mut redis: MultiplexedConnection, request: Request) -> Result<Vec<u8>> {
    let task_id = request.params.task_id.context("no task is named")?;
    let values: [Vec<u8>; 9] =
        redis::cmd("HMGET").arg(format!("bare:{task_id}")).arg(&FIELDS).query_async(&mut redis).await?;
    let mut result: Task<'_> = serde_json::from_slice(&values[6])?;
    result.task_id = &task_id;
    Ok(serde_json::to_vec(&Answer { jsonrpc: "2.0", id: request.id, result })?)
}

/// Of some 500 bytes, as ours is.
fn record() -> String {
    json!({
        "resultType": "complete",
        "status": "completed",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "lastUpdatedAt": "2026-01-01T00:00:00.000Z",
        "ttlMs": 3_600_000,
        "pollIntervalMs": 1000,
        "result": {"content": [{"type": "text", "text": "worked 0"}]},
        "more": "x".repeat(280),
    })
    .to_string()
}
