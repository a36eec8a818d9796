//! A server played by a test, line by line.

use longhaul::client::{Client, Error, Options, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};

pub(crate) struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    /// What the client has declared in its session.
    pub(crate) declared: Value,
}

impl Peer {
    /// A peer, and how to connect to it.
    pub(crate) fn new() -> (Self, Target) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = split(theirs);
        let (peer_reader, peer_writer) = split(ours);
        let lines = BufReader::new(peer_reader).lines();
        let peer = Self { lines, writer: peer_writer, declared: Value::Null };
        (peer, Target::stream(reader, writer))
    }

    /// The next message of the client; `None` once it has gone.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next message, which must be of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.message().await.expect("the client is there");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.raw(&message.to_string()).await;
    }

    pub(crate) async fn raw(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// Plays the opening of a server of the modern era with tasks.
    pub(crate) async fn welcome_modern(&mut self) {
        let discover = self.expect("server/discover").await;
        let meta = &discover["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        let tasks = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        assert_eq!(tasks["io.modelcontextprotocol/tasks"], json!({}));
        self.answer(&discover, discovered()).await;
    }

    /// Plays the opening of a server of the legacy era.
    pub(crate) async fn welcome_legacy(&mut self, capabilities: Value) {
        let discover = self.expect("server/discover").await;
        self.refuse(&discover, -32601, "no such method").await;
        self.initialize(capabilities).await;
    }

    pub(crate) async fn initialize(&mut self, capabilities: Value) {
        let initialize = self.expect("initialize").await;
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
        let declared = &initialize["params"]["capabilities"];
        assert_eq!(declared.get("extensions"), None, "{declared}");
        self.declared = declared.clone();
        let info = json!({ "name": "peer", "version": "9" });
        let result =
            json!({ "protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": capabilities });
        self.answer(&initialize, result).await;
        self.expect("notifications/initialized").await;
    }
}

/// What a server of the modern era with tasks says of itself.
pub(crate) fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"], "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        "capabilities": { "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "peer", "version": "9" } },
    })
}

/// A client of a peer that has welcomed it in the modern era.
pub(crate) async fn modern(options: Options) -> (Client, Peer) {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect_with(target, options));
    peer.welcome_modern().await;
    (connect.await.unwrap().unwrap(), peer)
}

/// A client of a peer that has welcomed it in the legacy era.
pub(crate) async fn legacy(options: Options, capabilities: Value) -> (Client, Peer) {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect_with(target, options));
    peer.welcome_legacy(capabilities).await;
    (connect.await.unwrap().unwrap(), peer)
}

/// The code of an error that the server answered with.
pub(crate) fn code(error: &Error) -> i64 {
    match error {
        Error::Answer(error) => error.code.0,
        other => panic!("{other:?}"),
    }
}
