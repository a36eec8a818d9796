//! A server under test, asked line by line in the words of a revision; what it answers is what that revision's schema
//! says.
#![expect(dead_code, reason = "no test needs all of it")]

use std::time::Duration;

use longhaul::driver::{self, DriverError, Options};
use longhaul::proto::dialect::{Dialect, Era, Revision};
use longhaul::server::{Dispatcher, Principal};
use longhaul_test::transcript::Book;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct Host {
    pub(crate) dialect: &'static Dialect,
    book: Book,
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    pub(crate) served: JoinHandle<Result<(), DriverError>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    next_id: u64,
}

/// The newest revision of each era.
pub(crate) fn both_eras() -> [&'static Dialect; 2] {
    [Dialect::newest_legacy(), Dialect::newest_modern()]
}

/// Every revision.
pub(crate) fn all() -> [&'static Dialect; Revision::ALL.len()] {
    Revision::ALL.map(Dialect::of)
}

impl Host {
    /// Serves `dispatcher` to one client that speaks `dialect`, and opens the session if it has one.
    pub(crate) async fn new(dispatcher: Dispatcher, dialect: &'static Dialect) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let (stop, stopped) = oneshot::channel::<()>();
        let principal = Principal::new("test").unwrap();
        let options = Options::default().drain(Duration::from_secs(2));
        let stopping = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let served =
            tokio::spawn(driver::serve_only_client(dispatcher, principal, reader, writer, options, stopping));
        let (reader, writer) = tokio::io::split(ours);
        let reader = BufReader::new(reader);
        let mut host = Self {
            dialect,
            book: Book::load().unwrap(),
            reader,
            writer,
            served,
            stop: Some(stop),
            next_id: 1,
        };
        if dialect.era() == Era::Legacy {
            let revision = dialect.revision().as_str();
            let info = json!({"name": "t", "version": "1"});
            let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
            host.ask("initialize", params).await;
            host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        }
        host
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request and gives its id.
    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> u64 {
        if self.dialect.era() == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.dialect.revision().as_str(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The next message of the server; `None` once it has hung up.
    pub(crate) async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).await.unwrap() == 0 {
            return None;
        }
        Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}")))
    }

    /// The whole answer to a request; nothing else may come before it.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let answer = self.receive().await.unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The result of a request, which is what the schema's `definition` says.
    pub(crate) async fn result(&mut self, method: &str, params: Value, definition: &str) -> Value {
        let mut answer = self.ask(method, params).await;
        let result = answer["result"].take();
        assert!(!result.is_null(), "{answer}");
        self.check(definition, &result);
        result
    }

    /// The code and the message of the error a request is answered with.
    pub(crate) async fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.ask(method, params).await;
        let error = &answer["error"];
        (error["code"].as_i64().unwrap_or_else(|| panic!("{answer}")), error["message"].to_string())
    }

    #[track_caller]
    pub(crate) fn check(&self, definition: &str, value: &Value) {
        self.book.check_as(self.dialect.revision().as_str(), definition, value).unwrap();
    }
}
