//! A `tasks/get` without us: axum, one read of a hash in Redis, and the least of an answer. `bench-bare-gets URL`.
//!
//! A call of a tool writes a hash that says that it has completed. It listens on a free port of this machine and prints its
//! URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a task is kept as: as many values as a `tasks/get` of ours reads.
const FIELDS: [&str; 6] = ["status", "created", "updated", "ttl", "owner", "result"];

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
    let id = request.id;
    match result(redis, request).await {
        Ok(result) => Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}

async fn result(mut redis: MultiplexedConnection, request: Request) -> Result<Value> {
    if request.method == "tools/call" {
        let values =
            ["completed", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "3600000", "", "worked 0"];
        let mut command = redis::cmd("HSET");
        command.arg("bare:task");
        FIELDS.iter().zip(values).for_each(|(field, value)| drop(command.arg(field).arg(value)));
        let _: u64 = command.query_async(&mut redis).await?;
        return Ok(json!({"resultType": "task", "taskId": "task", "status": "working"}));
    }
    let id = request.params.task_id.context("no task is named")?;
    let [status, created, updated, ttl, _, result]: [String; 6] =
        redis::cmd("HMGET").arg(format!("bare:{id}")).arg(FIELDS).query_async(&mut redis).await?;
    Ok(json!({
        "resultType": "complete",
        "taskId": id,
        "status": status,
        "createdAt": created,
        "lastUpdatedAt": updated,
        "ttlMs": ttl.parse::<u64>()?,
        "pollIntervalMs": 1000,
        "result": {"content": [{"type": "text", "text": result}]},
    }))
}
