//! A session with a process, over a stream of bytes: how clients of older revisions ask, and are asked.

use std::future::pending;

use longhaul::driver;
use longhaul::proto::dialect::Revision;
use longhaul::server::{Dispatcher, Principal};
use longhaul::transport::memory;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// One of ann's, which ends with its process.
pub(crate) struct Session {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    /// The id of the last request.
    last: u64,
}

impl Session {
    /// Opens one, in the runtime of the process.
    pub(crate) async fn open(dispatcher: &Dispatcher, revision: Revision) -> Self {
        let (ours, theirs) = memory::pair();
        let (reader, writer) = tokio::io::split(theirs);
        let (ann, options) = (Principal::new("ann").unwrap(), driver::Options::default());
        tokio::spawn(driver::serve(dispatcher.clone(), ann, reader, writer, options, pending()));
        let (reader, writer) = tokio::io::split(ours);
        let mut this = Self { reader: BufReader::new(reader), writer, last: 0 };
        let params = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "explorer", "version": "1"},
        });
        this.ask("initialize", &params, None).await;
        this.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        this
    }

    /// The answer to a request. What is asked meanwhile, or was asked since the last, is accepted with `content`, or left.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value, content: Option<&Value>) -> Value {
        self.last += 1;
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let message = self.read().await;
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            if let (true, Some(content)) = (message["method"] == "elicitation/create", content) {
                let accept = json!({"action": "accept", "content": content});
                self.write(&json!({"jsonrpc": "2.0", "id": message["id"], "result": accept})).await;
            }
        }
    }

    async fn write(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}
