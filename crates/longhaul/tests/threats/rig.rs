//! A server, and bytes sent to it that no client of ours would send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{TaskMode, TaskPolicy};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nap {
    millis: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A server that counts how often its tools have run.
pub(crate) fn server(runs: &Arc<AtomicUsize>) -> Server {
    let (echoes, naps) = (Arc::clone(runs), Arc::clone(runs));
    let echo = move |_: Cx, Echo { message }: Echo| {
        echoes.fetch_add(1, Ordering::SeqCst);
        async move { message }
    };
    let nap = move |cx: Cx, Nap { millis }: Nap| {
        naps.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.progress(Progress::new(1.0)).await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            "rested"
        }
    };
    let panics = |_: Cx, Nothing {}: Nothing| async {
        assert!(std::hint::black_box(false), "on purpose");
        "never"
    };
    let after = TaskPolicy::new(TaskMode::After(Duration::from_millis(1)));
    Server::new("threatened", "1.0.0")
        .tool(Tool::typed("echo", "Echo", echo))
        .tool(Tool::typed("nap", "Nap", nap.clone()))
        .tool(Tool::typed("long_nap", "Nap as a task", nap).task(after))
        .tool(Tool::typed("panic", "Panic", panics))
}

pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) runs: Arc<AtomicUsize>,
}

/// What came back: the status, or 0 if the connection was closed without a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .map(|(key, value)| (key, value.trim()))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }

    /// Each message in it: a body, or the data of events.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object).collect()
    }

    /// The answer of the last message.
    pub(crate) fn json(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self:?}"))
    }

    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::of(|server| server, options).await
    }

    /// Of a server that `change` has changed.
    pub(crate) async fn of(change: impl FnOnce(Server) -> Server, options: Options) -> Self {
        let runs = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dispatcher = change(server(&runs)).dispatcher().unwrap();
        tokio::spawn(serve(dispatcher, listener, options, std::future::pending()));
        Self { address, runs }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The same of a client that has room for little of what it is sent.
    pub(crate) async fn connect_narrowly(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are, and reads until the connection ends or nothing has come for a while.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect().await;
        // It may have been closed by what the first bytes said.
        let _ = stream.write_all(bytes.as_ref()).await;
        hear(&mut stream, Duration::from_secs(2)).await
    }

    /// A request of this method and path with these headers, of which a `host` replaces ours.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await
    }

    /// A POST to the endpoint with these headers, beside those that every client sends.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.retain(|(name, _)| !headers.iter().any(|(own, _)| own == name));
        all.extend_from_slice(headers);
        self.request("POST", "/mcp", &all, body).await
    }

    /// A request of the modern era, with its headers.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Answer {
        let named = ["name", "uri", "taskId"].into_iter().find_map(|member| params[member].as_str());
        let body = modern(method, params.clone()).to_string();
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend(named.map(|named| ("mcp-name", named)));
        self.post(&headers, &body).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.modern("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Opens a stream of the session, which is open when this returns.
    pub(crate) async fn listen(&self, session: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let get = format!(
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
        );
        stream.write_all(get.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    }

    /// Opens a session and gives its id.
    pub(crate) async fn initialize(&self) -> String {
        let answer = self.post(&[], &hello()).await;
        answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    pub(crate) async fn in_session(&self, session: &str, message: &Value) -> Answer {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        self.post(&headers, &message.to_string()).await
    }
}

pub(crate) async fn hear(stream: &mut TcpStream, patience: Duration) -> Answer {
    let mut heard = Vec::new();
    let mut part = [0; 4096];
    while let Ok(Ok(length @ 1..)) = tokio::time::timeout(patience, stream.read(&mut part)).await {
        heard.extend_from_slice(&part[..length]);
    }
    let text = String::from_utf8_lossy(&heard).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn hello() -> String {
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    request("initialize", params).to_string()
}

pub(crate) fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(crate) fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    request(method, params)
}
