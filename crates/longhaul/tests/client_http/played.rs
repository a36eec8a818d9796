//! A server that answers as it is told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) async fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}");
}

/// A request as a played server reads it.
pub(crate) struct Heard {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Heard {
    pub(crate) fn has(&self, header: &str) -> bool {
        self.head.to_ascii_lowercase().contains(&header.to_ascii_lowercase())
    }
}

/// Plays a server: every request is answered with what `answer` writes, a whole HTTP response.
pub(crate) async fn play(
    answer: impl Fn(&Heard) -> String + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Heard>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (Arc::clone(&heard), Arc::new(answer));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut stream).await {
                    let response = answer(&request);
                    log.lock().unwrap().push(request);
                    stream.write_all(response.as_bytes()).await.unwrap();
                    if response.contains("Connection: close") {
                        break;
                    }
                }
            });
        }
    });
    (format!("http://{address}/mcp"), heard)
}

async fn read_request(stream: &mut TcpStream) -> Option<Heard> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned))
                .map_or(0, |length| length.trim().parse::<usize>().unwrap());
            while bytes.len() < end + 4 + length {
                stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
            }
            let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or(Value::Null);
            return Some(Heard { head, body });
        }
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    }
}

pub(crate) fn respond(status: &str, kind: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n{body}")
}

pub(crate) fn ok(request: &Heard, result: Value) -> String {
    let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
    respond("200 OK", "application/json", "", &answer.to_string())
}

pub(crate) fn discovery(request: &Heard) -> String {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    let result = json!({
        "supportedVersions": ["2026-07-28"], "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        "capabilities": { "tools": {}, "extensions": tasks },
    });
    ok(request, result)
}

fn initialized(request: &Heard) -> String {
    let info = json!({ "name": "old", "version": "1" });
    let capabilities = json!({ "tools": {} });
    let result = json!({ "protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": capabilities });
    let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
    respond("200 OK", "application/json", "Mcp-Session-Id: s3cret\r\n", &answer.to_string())
}

/// A legacy server that refuses what comes before its handshake in its own way.
pub(crate) fn legacy(
    refusal: &'static str,
    kind: &'static str,
    status: &'static str,
) -> impl Fn(&Heard) -> String {
    move |request| match request.body["method"].as_str() {
        Some("initialize") => initialized(request),
        Some("notifications/initialized") => respond("202 Accepted", "text/plain", "", ""),
        Some("tools/list") if request.has("mcp-session-id: s3cret") => ok(request, json!({ "tools": [] })),
        _ if request.head.starts_with("DELETE") => respond("204 No Content", "text/plain", "", ""),
        _ => respond(status, kind, "", refusal),
    }
}
