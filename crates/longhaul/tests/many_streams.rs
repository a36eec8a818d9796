//! Many open streams on one server: a change reaches all of them, and who does not read keeps nobody else from reading.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use longhaul::server::{Catalogue, Resource};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Server, Tool};
use memchr::memmem;
use rustix::process::{Resource as Limited, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How many streams are open at once.
const STREAMS: usize = 500;

/// How many of them are not read.
const SLOW: usize = 5;

/// How many resources those watch that are not read, and how long their URIs are.
const NOISES: usize = 16;
const NOISE: usize = 4_000;

/// How much a socket keeps, as far as it can be told: a reader that does not read is noticed soon.
const SOCKET: u32 = 4_096;

/// How long everybody may take to hear of a change, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

const LISTED: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn a_change_reaches_every_session_whoever_does_not_read() {
    let rig = Rig::start().await;
    let (mut slow, mut readers) = rig.open(session).await;
    rig.say_much_and_change(&mut readers).await;
    // What found no room is lost, and the stream goes on.
    let changing = async {
        loop {
            rig.catalogue.put(tool()).unwrap();
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = everybody_hears(&mut slow) => {}
        () = changing => {}
    }
}

/// S1 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_change_reaches_every_subscription_and_waits_for_who_does_not_read() {
    let rig = Rig::start().await;
    let (mut slow, mut readers) = rig.open(subscription).await;
    rig.say_much_and_change(&mut readers).await;
    for reader in &mut slow {
        reader.hear(LISTED).await;
        reader.hear(LISTED).await;
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool() -> Tool {
    Tool::inline("passing", "Here for a while", |_, Nothing {}| "here")
}

fn noise(nth: usize) -> String {
    format!("app://noise/{nth}/{}", "x".repeat(NOISE))
}

struct Rig {
    address: SocketAddr,
    catalogue: Catalogue,
}

impl Rig {
    async fn start() -> Self {
        // Both ends of every connection are here.
        let mut files = getrlimit(Limited::Nofile);
        files.current = files.maximum;
        setrlimit(Limited::Nofile, files).unwrap();

        let (server, catalogue) = Server::new("test", "1.0.0").dynamic();
        let noises = (0..NOISES).map(|nth| Resource::text(noise(nth), "noise", ""));
        let dispatcher = noises.fold(server, Server::resource).dispatcher().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        // What is accepted has the listener's.
        socket.set_send_buffer_size(SOCKET).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1_024).unwrap();
        let address = listener.local_addr().unwrap();
        // However busy the machine is, nobody is let go who only reads late.
        let options = Options::default().max_connections(2 * STREAMS).write_timeout(2 * PATIENCE);
        tokio::spawn(serve(dispatcher, listener, options, std::future::pending()));
        Self { address, catalogue }
    }

    /// Opens every stream; those first that will not be read.
    async fn open(&self, open: impl AsyncFn(SocketAddr, &[String]) -> Reader) -> (Vec<Reader>, Vec<Reader>) {
        let noises: Vec<String> = (0..NOISES).map(noise).collect();
        let mut readers = Vec::new();
        for nth in 0..STREAMS {
            readers.push(open(self.address, if nth < SLOW { &noises } else { &[] }).await);
        }
        let rest = readers.split_off(SLOW);
        (readers, rest)
    }

    /// A change, then more than any socket keeps for those who do not read, then another change: every reader hears
    /// both.
    async fn say_much_and_change(&self, readers: &mut Vec<Reader>) {
        self.catalogue.put(tool()).unwrap();
        everybody_hears(readers).await;
        for _ in 0..20 {
            for nth in 0..NOISES {
                self.catalogue.resource_updated(&noise(nth)).unwrap();
            }
            // Longer than changes are gathered.
            sleep(Duration::from_millis(60)).await;
        }
        assert!(self.catalogue.remove::<Tool>("passing").unwrap());
        everybody_hears(readers).await;
    }
}

async fn everybody_hears(readers: &mut Vec<Reader>) {
    let mut hearing = JoinSet::new();
    for mut reader in readers.drain(..) {
        hearing.spawn(async move {
            reader.hear(LISTED).await;
            reader
        });
    }
    readers.extend(hearing.join_all().await);
}

/// The client's end of a stream.
struct Reader {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Reader {
    async fn open(address: SocketAddr, request: String) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(SOCKET).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Reads on until this is said.
    async fn hear(&mut self, said: &str) {
        let reading = async {
            loop {
                if let Some(at) = memmem::find(&self.unread, said.as_bytes()) {
                    return drop(self.unread.drain(..at + said.len()));
                }
                let read = self.stream.read_buf(&mut self.unread).await.unwrap();
                assert_ne!(read, 0, "the stream ended before {said}");
            }
        };
        assert!(timeout(PATIENCE, reading).await.is_ok(), "nothing was heard of {said}");
    }
}

/// The stream of a new session that watches these resources.
async fn session(address: SocketAddr, watched: &[String]) -> Reader {
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let answer = post(address, "", "initialize", hello).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let session = format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    for uri in watched {
        post(address, &session, "resources/subscribe", json!({"uri": uri})).await;
    }
    let request =
        format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{session}\r\n");
    let mut reader = Reader::open(address, request).await;
    reader.hear("retry:").await;
    reader
}

/// A subscription to the list of tools and to these resources.
async fn subscription(address: SocketAddr, watched: &[String]) -> Reader {
    let params = json!({
        "notifications": {"toolsListChanged": true, "resourceSubscriptions": watched},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
    let mut reader = Reader::open(address, request(address, headers, "subscriptions/listen", &params)).await;
    reader.hear("notifications/subscriptions/acknowledged").await;
    reader
}

/// The whole answer to a request on a connection of its own.
async fn post(address: SocketAddr, headers: &str, method: &str, params: Value) -> String {
    let headers = format!("Connection: close\r\n{headers}");
    let mut reader = Reader::open(address, request(address, &headers, method, &params)).await;
    reader.stream.read_to_end(&mut reader.unread).await.unwrap();
    let answer = String::from_utf8(reader.unread).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

fn request(address: SocketAddr, headers: &str, method: &str, params: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
