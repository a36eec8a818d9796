//! Streams that stay open: how much memory the server has for each, how soon all have heard of a change, and how soon
//! when some do not read.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::http2::{Body, Connections};
use super::memory::resident;

/// What kind of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Of a server that is not ours.
    Bare,
    /// The GET stream of a session of its own each, revision 2025-11-25.
    Legacy,
    /// `subscriptions/listen`, revision 2026-07-28.
    Listen,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    /// The server's memory a stream, in kB.
    kb: f64,
    /// From a change until every stream had it, in milliseconds.
    told_ms: f64,
    /// The same while some streams are not read, and have much to read; of a server of ours.
    told_past_slow_ms: Option<f64>,
}

/// How many streams are not read.
const SLOW: usize = 8;

/// How often the resource that those watch changes meanwhile.
const NOISES: usize = 40;

/// How long its URI is: all that is said of it is more than sockets keep.
const NOISY: usize = 64 << 10;

/// Longer than a server of ours gathers changes.
const MOMENT: Duration = Duration::from_millis(60);

/// How long a moment is in which what was opened last settles.
const SETTLED: Duration = Duration::from_secs(1);

/// How many streams are opened at once.
const AT_ONCE: usize = 64;

/// How long everything may take.
const PATIENCE: Duration = Duration::from_secs(300);

const CHANGED: &str = "notifications/tools/list_changed";

pub(crate) fn run(
    url: &str,
    kind: Kind,
    streams: usize,
    http2: Option<NonZeroU32>,
    pid: u32,
) -> Result<Found> {
    ensure!(streams > SLOW, "some streams must be read");
    ensure!(http2.is_none() || kind != Kind::Legacy, "sessions are opened over HTTP/1.1 alone");
    let rest = url.strip_prefix("http://").context("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').context("the URL must have a path")?;
    let (address, path) = (host.parse()?, format!("/{path}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measuring = async {
        let connections = match http2 {
            Some(connections) => Some(Rc::new(Connections::to(address, connections).await?)),
            None => None,
        };
        let server = Server { address, path, kind, pid, connections };
        timeout(PATIENCE, server.measure(streams)).await.context("the server is too slow")?
    };
    runtime.block_on(LocalSet::new().run_until(measuring))
}

#[derive(Clone)]
struct Server {
    address: SocketAddr,
    path: String,
    kind: Kind,
    pid: u32,
    /// Those of HTTP/2, if that is spoken.
    connections: Option<Rc<Connections>>,
}

impl Server {
    async fn measure(&self, streams: usize) -> Result<Found> {
        // What the first request makes the server set up is not counted.
        drop(self.open(false).await?);
        let before = resident(self.pid)?;
        let mut readers = self.open_all(streams - SLOW).await?;
        sleep(SETTLED).await;
        let kb = (resident(self.pid)? - before) / (streams - SLOW) as f64;

        let told_ms = self.tell(&mut readers).await?;
        let told_past_slow_ms = match (self.kind, &self.connections) {
            (Kind::Legacy | Kind::Listen, None) => Some(self.tell_past_slow(&mut readers).await?),
            // Whoever does not read one stream of a connection holds up its others, which is the client's doing.
            (Kind::Bare, _) | (_, Some(_)) => None,
        };
        Ok(Found { kb, told_ms, told_past_slow_ms })
    }

    /// The same as [`tell`](Self::tell), past some who have much to read and read nothing.
    async fn tell_past_slow(&self, readers: &mut Vec<Reader>) -> Result<f64> {
        let mut slow = Vec::new();
        for _ in 0..SLOW {
            slow.push(self.open(true).await?);
        }
        for _ in 0..NOISES {
            self.call("noise").await?;
            sleep(MOMENT).await;
        }
        let told = self.tell(readers).await;
        drop(slow);
        told
    }

    /// Opens so many, some at once.
    async fn open_all(&self, streams: usize) -> Result<Vec<Reader>> {
        let mut opening = JoinSet::new();
        let mut readers = Vec::with_capacity(streams);
        for _ in 0..streams {
            if opening.len() == AT_ONCE
                && let Some(opened) = opening.join_next().await
            {
                readers.push(opened??);
            }
            let server = self.clone();
            opening.spawn_local(async move { server.open(false).await });
        }
        while let Some(opened) = opening.join_next().await {
            readers.push(opened??);
        }
        Ok(readers)
    }

    /// Makes a change; in how many milliseconds every reader has heard of it.
    async fn tell(&self, readers: &mut Vec<Reader>) -> Result<f64> {
        let count = readers.len();
        let began = Instant::now();
        let mut hearing = JoinSet::new();
        for mut reader in readers.drain(..) {
            hearing.spawn_local(async move {
                reader.hear(CHANGED).await?;
                Ok::<_, anyhow::Error>(reader)
            });
        }
        self.call("change").await?;
        while let Some(heard) = hearing.join_next().await {
            readers.push(heard??);
        }
        ensure!(readers.len() == count, "{} of {count} streams heard of the change", readers.len());
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }

    /// Opens a stream; one that is not going to be read watches what changes often.
    async fn open(&self, slow: bool) -> Result<Reader> {
        let watched = if slow { vec![format!("bench://{}", "x".repeat(NOISY))] } else { Vec::new() };
        match self.kind {
            Kind::Bare => self.get("", ":\n\n").await,
            Kind::Legacy => {
                let client = json!({"name": "bench", "version": "1"});
                let hello =
                    json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
                let answer = self.ask("", "initialize", &hello).await?;
                let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
                let id = id.with_context(|| format!("no session: {answer}"))?;
                let headers = format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
                for uri in &watched {
                    self.ask(&headers, "resources/subscribe", &json!({"uri": uri})).await?;
                }
                self.get(&headers, "retry:").await
            }
            Kind::Listen => {
                let params = json!({
                    "notifications": {"toolsListChanged": true, "resourceSubscriptions": watched},
                    "_meta": modern(),
                });
                let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
                let request = self.post(headers, "subscriptions/listen", &params);
                self.connect(&request, "notifications/subscriptions/acknowledged").await
            }
        }
    }

    /// Calls a tool.
    async fn call(&self, tool: &str) -> Result<()> {
        let params = json!({"name": tool, "arguments": {}, "_meta": modern()});
        let headers =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.ask(&headers, "tools/call", &params).await.map(drop)
    }

    async fn get(&self, headers: &str, opened: &str) -> Result<Reader> {
        let (path, address) = (&self.path, self.address);
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{headers}\r\n");
        self.connect(&request, opened).await
    }

    /// The whole answer to a request, on a connection of its own if it has the choice.
    async fn ask(&self, headers: &str, method: &str, params: &Value) -> Result<String> {
        let request = self.post(&format!("Connection: close\r\n{headers}"), method, params);
        let mut reader =
            self.connect(&request, if self.connections.is_some() { "" } else { "HTTP/1.1 200 " }).await?;
        while reader.more().await? > 0 {}
        Ok(String::from_utf8(reader.unread)?)
    }

    fn post(&self, headers: &str, method: &str, params: &Value) -> String {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
    }

    /// Sends a request, and reads until this is answered.
    async fn connect(&self, request: &str, opened: &str) -> Result<Reader> {
        let from = match &self.connections {
            Some(connections) => From::Http2(connections.ask(request).await?),
            None => {
                let socket = TcpSocket::new_v4()?;
                // Whoever does not read is noticed sooner.
                socket.set_recv_buffer_size(4096)?;
                let mut stream = socket.connect(self.address).await.context("the server does not listen")?;
                stream.write_all(request.as_bytes()).await?;
                From::Http1(stream)
            }
        };
        let mut reader = Reader { from, unread: Vec::new() };
        reader.hear(opened).await?;
        Ok(reader)
    }
}

fn modern() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The client's end of a stream.
struct Reader {
    from: From,
    unread: Vec<u8>,
}

enum From {
    /// A connection of its own.
    Http1(TcpStream),
    Http2(Body),
}

impl Reader {
    /// Reads on until this is said.
    async fn hear(&mut self, said: &str) -> Result<()> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.unread, said.as_bytes()) {
                drop(self.unread.drain(..at + said.len()));
                return Ok(());
            }
            if self.more().await? == 0 {
                bail!("a stream ended before {said}: {}", String::from_utf8_lossy(&self.unread));
            }
        }
    }

    /// Reads some more; how many bytes, none at its end.
    async fn more(&mut self) -> Result<usize> {
        match &mut self.from {
            From::Http1(stream) => Ok(stream.read_buf(&mut self.unread).await?),
            From::Http2(body) => body.read(&mut self.unread).await,
        }
    }
}
