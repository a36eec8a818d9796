//! What a task asks in a session: on the stream for what belongs to no request, or to who waits for its result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use longhaul::server::{Elicited, TaskPolicy, ToolError};
use longhaul::store::{Memory, Operation, Overlay, StoreError, StoreFuture, TaskStore};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use crate::rig::{Host, body, read};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

async fn ask(cx: Cx, _: Nothing) -> Result<&'static str, ToolError> {
    Ok(match cx.elicit::<Approve>("Go on?").await? {
        Elicited::Accepted(Approve { go: true }) => "gone on",
        _ => "stayed",
    })
}

/// A client with a session, like that of an editor.
struct Editor {
    host: Arc<Host>,
    session: String,
}

/// The messages of a stream as they come.
pub(crate) struct Events {
    body: Incoming,
    rest: String,
}

impl Events {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), rest: String::new() }
    }

    pub(crate) async fn next(&mut self) -> Value {
        // Comments keep a stream alive that says nothing.
        tokio::time::timeout(Duration::from_secs(60), self.read()).await.unwrap()
    }

    /// It breaks off, and brings no end.
    pub(crate) async fn breaks_off(mut self) {
        let cut = async {
            loop {
                match self.body.frame().await {
                    Some(Ok(_)) => {}
                    broken => return broken.is_some(),
                }
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), cut).await.unwrap(), "its end was told");
    }

    async fn read(&mut self) -> Value {
        loop {
            while let Some((line, rest)) = self.rest.split_once('\n') {
                let message = line.strip_prefix("data: ").and_then(|data| data.parse().ok());
                self.rest = rest.to_owned();
                if let Some(message) = message {
                    return message;
                }
            }
            let frame = self.body.frame().await.unwrap().unwrap();
            self.rest.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }

    /// The next question, whatever is told before it.
    async fn question(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == "elicitation/create" {
                return message;
            }
        }
    }

    async fn asks_nothing(&mut self, within: Duration) {
        let asked = tokio::time::timeout(within, self.question()).await;
        assert!(asked.is_err(), "{asked:?}");
    }
}

impl Editor {
    async fn open() -> Self {
        Self::open_on(Arc::new(Memory::new())).await
    }

    async fn open_on(store: Arc<dyn TaskStore>) -> Self {
        let ask = Tool::typed("ask", "Ask", ask).task(TaskPolicy::always());
        let host = Host::start_with(Server::new("test", "1.0.0").tool(ask).store(store), |options| {
            options.stream_after = Duration::from_millis(20);
        })
        .await;
        Self::at(Arc::new(host)).await
    }

    /// With a session of its own at that server.
    async fn at(host: Arc<Host>) -> Self {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "Visual Studio Code", "version": "1"}});
        let response = host.send(host.post().body(body("initialize", params)).unwrap()).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        Self { host, session }
    }

    async fn listen(&self) -> Events {
        let get = Request::get("/mcp").header("host", "localhost").header("accept", "text/event-stream");
        let get = get.header("mcp-session-id", &self.session).body(Full::default()).unwrap();
        Events::of(self.host.send(get).await)
    }

    async fn post(&self, message: &Value) -> Response<Incoming> {
        self.host.in_session(&self.session, Bytes::from(message.to_string()).into()).await
    }

    async fn start(&self) -> String {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "ask", "arguments": {}, "task": {}}});
        let created = read(self.post(&call).await).await;
        created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    }

    async fn wait_for(&self, task: &str) -> Events {
        let params = json!({"taskId": task});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": params});
        Events::of(self.post(&call).await)
    }

    async fn answer(&self, question: &Value, go: bool) {
        assert_eq!(self.say(question, go).await, StatusCode::ACCEPTED);
    }

    async fn say(&self, question: &Value, go: bool) -> StatusCode {
        let answer = json!({"jsonrpc": "2.0", "id": question["id"],
            "result": {"action": "accept", "content": {"go": go}}});
        self.post(&answer).await.status()
    }

    async fn outcome(&self, task: &str) -> Value {
        let params = json!({"taskId": task});
        let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": params});
        let response = self.post(&call).await;
        let answer = if response.headers()["content-type"] == "application/json" {
            read(response).await
        } else {
            let mut events = Events::of(response);
            loop {
                let message = events.next().await;
                if message["id"] == 3 {
                    break message;
                }
            }
        };
        answer["result"]["content"][0]["text"].clone()
    }
}

#[tokio::test]
async fn a_question_goes_to_the_open_stream_at_once_and_to_nobody_else() {
    let editor = Editor::open().await;
    let mut stream = editor.listen().await;
    let task = editor.start().await;
    let question = stream.question().await;
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": task}});
    assert_eq!(question["params"]["_meta"], related);
    let mut waiting = editor.wait_for(&task).await;
    waiting.asks_nothing(Duration::from_millis(1500)).await;
    editor.answer(&question, true).await;
    assert_eq!(editor.outcome(&task).await, "gone on");
    stream.asks_nothing(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn without_an_open_stream_who_waits_for_the_result_is_asked() {
    let editor = Editor::open().await;
    let task = editor.start().await;
    let mut waiting = editor.wait_for(&task).await;
    let question = waiting.question().await;
    // Whoever opens a stream now finds the question put.
    let mut stream = editor.listen().await;
    stream.asks_nothing(Duration::from_millis(1500)).await;
    editor.answer(&question, false).await;
    assert_eq!(editor.outcome(&task).await, "stayed");
}

/// N8 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_question_whose_stream_is_gone_is_put_again_and_the_first_answer_counts() {
    let editor = Editor::open().await;
    let mut stream = editor.listen().await;
    let task = editor.start().await;
    let first = stream.question().await;
    drop(stream);
    let second = editor.wait_for(&task).await.question().await;
    assert_ne!(first["id"], second["id"], "no id is used twice");
    // Nobody waits for the result now, and another stream is open.
    let third = editor.listen().await.question().await;
    assert_ne!(second["id"], third["id"]);
    editor.answer(&third, true).await;
    assert_eq!(editor.outcome(&task).await, "gone on");
    assert_eq!(editor.say(&first, false).await, StatusCode::SERVICE_UNAVAILABLE, "it was withdrawn");
    assert_eq!(editor.outcome(&task).await, "gone on");
}

/// A6 of `conformance/REQUIREMENTS.md`: whoever learns the id of a question can do nothing with it, nor whether it is one.
#[tokio::test]
async fn a6_an_answer_that_comes_in_another_session_counts_for_nothing() {
    let editor = Editor::open().await;
    let other = Editor::at(Arc::clone(&editor.host)).await;
    let mut stream = editor.listen().await;
    let task = editor.start().await;
    let question = stream.question().await;
    let made_up = json!({"id": format!("{}-1", "0".repeat(24))});
    for id in [&question, &made_up] {
        assert_eq!(other.say(id, false).await, StatusCode::SERVICE_UNAVAILABLE);
    }
    editor.answer(&question, true).await;
    assert_eq!(editor.outcome(&task).await, "gone on");
}

/// A store that records an answer when it is told to, or fails to.
#[derive(Debug)]
struct Told {
    store: Memory,
    asked: mpsc::UnboundedSender<()>,
    records: Mutex<mpsc::UnboundedReceiver<bool>>,
}

impl Overlay for Told {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, it: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if it != Operation::Answer {
            return doing;
        }
        Box::pin(async move {
            self.asked.send(()).unwrap();
            if self.records.lock().await.recv().await.unwrap() {
                return doing.await;
            }
            let source = Arc::new(std::io::Error::other("the disk is gone"));
            Err(StoreError::Backend { doing: "writing", source })
        })
    }
}

#[tokio::test]
async fn an_answer_is_accepted_once_it_is_recorded() {
    let ((asked, mut asks), (tell, records)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let store = Told { store: Memory::new(), asked, records: Mutex::new(records) };
    let editor = Editor::open_on(Arc::new(store)).await;
    let mut stream = editor.listen().await;
    let task = editor.start().await;
    for is_recorded in [false, true] {
        let question = stream.question().await;
        let mut said = std::pin::pin!(editor.say(&question, true));
        // It is being recorded.
        tokio::select! {
            status = &mut said => panic!("{status} before anything is recorded"),
            asked = asks.recv() => asked.unwrap(),
        }
        let early = tokio::time::timeout(Duration::from_millis(100), &mut said).await;
        assert!(early.is_err(), "{early:?} before it is recorded");
        tell.send(is_recorded).unwrap();
        let status = if is_recorded { StatusCode::ACCEPTED } else { StatusCode::SERVICE_UNAVAILABLE };
        assert_eq!(said.await, status);
    }
    assert_eq!(editor.outcome(&task).await, "gone on");
}
