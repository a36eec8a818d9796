//! Durable creates without us: hyper, a request parsed into types, and one thread that inserts what has come together in a
//! commit and lets its callers be answered. It checks nothing, runs nothing, and knows nothing of what it has written:
//! `bench-bare-creates --like STORE FILE`.
//!
//! It listens on a free port of this machine and prints its URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]
#![expect(clippy::print_stderr, reason = "and from there why nothing can be measured")]

mod rows;

use std::convert::Infallible;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use self::rows::Rows;

/// As ours has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most rows of one commit, and how many may wait in line: as with us.
const LARGEST_GROUP: usize = 512;
const QUEUE: usize = 1024;

/// Durable creates without us.
#[derive(Parser)]
struct Arguments {
    /// A store with at least one task, which nobody has open
    #[arg(long)]
    like: PathBuf,
    /// The new file
    file: PathBuf,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: u32,
    #[serde(borrow, rename = "params")]
    _params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "name")]
    _name: &'a str,
    #[serde(borrow, rename = "arguments")]
    _arguments: Message<'a>,
    #[serde(rename = "_meta")]
    _meta: IgnoredAny,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "message")]
    _message: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: u32,
    result: Created<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Created<'a> {
    result_type: &'static str,
    task_id: &'a str,
    status: &'static str,
    created_at: &'static str,
    last_updated_at: &'static str,
    ttl_ms: u64,
    poll_interval_ms: u64,
}

/// Whoever waits for a row of theirs to be on disk, and is told its id.
type Caller = oneshot::Sender<String>;

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { like, file } = Arguments::parse();
    let rows = Rows::like(&like)?;
    let conn = rows::create(&file)?;
    let (callers, queue) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        if let Err(error) = write(rows, &conn, queue) {
            eprintln!("{error:#}");
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let callers = callers.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let callers = callers.clone();
                async move { Ok::<_, Infallible>(respond(request, callers).await) }
            });
            // A client that goes away is none of ours to measure.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn respond(request: Request<Incoming>, callers: mpsc::Sender<Caller>) -> Response<Full<Bytes>> {
    match create(request, callers).await {
        Ok(body) => {
            let mut response = Response::new(Full::new(body.into()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => {
            let mut response = Response::new(Full::new(format!("{error:#}").into()));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

async fn create(request: Request<Incoming>, callers: mpsc::Sender<Caller>) -> Result<Vec<u8>> {
    let body = request.into_body().collect().await?.to_bytes();
    let Call { id, .. } = serde_json::from_slice(&body)?;
    let (caller, written) = oneshot::channel();
    callers.send(caller).await.ok().context("nothing can be written any more")?;
    let task = written.await.context("it could not be written")?;
    let result = Created {
        result_type: "task",
        task_id: &task,
        status: "working",
        created_at: "2026-07-28T12:00:00.000Z",
        last_updated_at: "2026-07-28T12:00:00.000Z",
        ttl_ms: 86_400_000,
        poll_interval_ms: 1_000,
    };
    Ok(serde_json::to_vec(&Answer { jsonrpc: "2.0", id, result })?)
}

/// Inserts a row for each caller: all that have come together in one commit.
fn write(mut rows: Rows, conn: &Connection, mut queue: mpsc::Receiver<Caller>) -> Result<()> {
    let mut insert = conn.prepare(&rows.insert())?;
    let mut begin = conn.prepare("BEGIN IMMEDIATE")?;
    let mut commit = conn.prepare("COMMIT")?;
    let mut written = Vec::new();
    while let Some(first) = queue.blocking_recv() {
        thread::yield_now();
        begin.execute([])?;
        let mut next = Some(first);
        while let Some(caller) = next {
            let mut row = rows.next();
            insert.execute(rusqlite::params_from_iter(&row))?;
            if let Value::Text(id) = std::mem::replace(&mut row[rows.id], Value::Null) {
                written.push((caller, id));
            }
            next = if written.len() < LARGEST_GROUP { queue.try_recv().ok() } else { None };
        }
        commit.execute([])?;
        for (caller, id) in written.drain(..) {
            // A caller that has gone away does not want to know.
            drop(caller.send(id));
        }
    }
    Ok(())
}
