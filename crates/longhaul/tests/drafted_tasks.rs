//! Tasks as SEP-1686 drafted them, between callers, and beyond the connection that began one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::driver;
use longhaul::server::{Dispatcher, Elicited, Principal, TaskPolicy, ToolError};
use longhaul::store::Rerun;
use longhaul::transport::memory;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    seconds: u64,
}

/// A server with one tool, and how often that has run.
fn server() -> (Dispatcher, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = Tool::typed("wait", "Wait", move |_, Wait { seconds }| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            "waited"
        }
    });
    let server = Server::new("test", "1").tool(tool.task(TaskPolicy::always())).drafted_tasks(true);
    (server.dispatcher().unwrap(), runs)
}

struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Client {
    async fn connect(dispatcher: &Dispatcher, principal: &str) -> Self {
        Self::able(dispatcher, principal, json!({})).await
    }

    /// The same of a client that can do more.
    async fn able(dispatcher: &Dispatcher, principal: &str, capabilities: Value) -> Self {
        let (ours, theirs) = memory::pair();
        let (reader, writer) = tokio::io::split(theirs);
        let principal = Principal::new(principal).unwrap();
        let options = driver::Options::default();
        let never = std::future::pending();
        tokio::spawn(driver::serve(dispatcher.clone(), principal, reader, writer, options, never));
        let (reader, writer) = tokio::io::split(ours);
        let mut this = Self { reader: BufReader::new(reader), writer };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"}});
        this.ask(0, "initialize", params).await;
        this
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next message, for which a test waits an hour of its own time.
    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(3600), self.reader.read_line(&mut line)).await;
        read.unwrap_or_else(|_| panic!("the server has said nothing for an hour")).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The answer to a request, whatever else comes before it.
    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls the tool as a task, and hears that there is one.
    async fn begin(&mut self, id: u64, task: &str, seconds: u64) {
        self.send(id, "tools/call", call(task, seconds)).await;
        let created = self.receive().await;
        assert_eq!(created["method"], "notifications/tasks/created", "{created}");
        assert_eq!(created["params"], related(task));
    }

    /// Answers what the server asks.
    async fn reply(&mut self, asked: &Value, result: Value) {
        let line = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn status(&mut self, id: u64, task: &str) -> Value {
        self.ask(id, "tasks/get", json!({"taskId": task})).await["result"]["status"].clone()
    }
}

fn call(task: &str, seconds: u64) -> Value {
    let meta = json!({"modelcontextprotocol.io/task": {"taskId": task}});
    json!({"name": "wait", "arguments": {"seconds": seconds}, "_meta": meta})
}

fn related(task: &str) -> Value {
    json!({"_meta": {"modelcontextprotocol.io/related-task": {"taskId": task}}})
}

#[tokio::test(start_paused = true)]
async fn a5_an_id_that_another_caller_has_taken_is_free_and_tells_nothing() {
    let (dispatcher, runs) = server();
    let mut ann = Client::connect(&dispatcher, "ann").await;
    let mut bob = Client::connect(&dispatcher, "bob").await;
    ann.begin(1, "deploy", 10).await;
    let unknown = bob.ask(1, "tasks/get", json!({"taskId": "never"})).await;
    for method in ["tasks/get", "tasks/result", "tasks/delete"] {
        let foreign = bob.ask(1, method, json!({"taskId": "deploy"})).await;
        assert_eq!(foreign["error"], unknown["error"], "{method}");
    }
    assert_eq!(bob.ask(2, "tasks/list", json!({})).await["result"]["tasks"], json!([]));
    bob.begin(3, "deploy", 20).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(ann.status(2, "deploy").await, "completed");
    assert_eq!((bob.status(4, "deploy").await, runs.load(Ordering::SeqCst)), (json!("working"), 2));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_found_again_by_its_id_after_its_connection_is_lost() {
    let (dispatcher, runs) = server();
    let mut first = Client::connect(&dispatcher, "ann").await;
    first.begin(1, "deploy", 10).await;
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut next = Client::connect(&dispatcher, "ann").await;
    assert_eq!(next.status(1, "deploy").await, "working");
    next.begin(2, "deploy", 10).await;
    let answer = next.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "waited", "{answer}");
    assert_eq!(answer["result"]["_meta"], related("deploy")["_meta"]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let other = next.ask(3, "tools/call", call("deploy", 11)).await;
    assert_eq!((&other["error"]["code"], runs.load(Ordering::SeqCst)), (&json!(-32602), 1), "{other}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

#[tokio::test(start_paused = true)]
async fn r1_10_a_drafted_task_asks_its_caller_and_needs_an_answer_meanwhile() {
    let work = |cx: Cx, _: Wait| async move {
        let approved = |answer: Elicited<Approve>| answer.accepted().is_some_and(|it| it.go);
        let first = approved(cx.elicit::<Approve>("Go?").await?);
        let second = approved(cx.elicit::<Approve>("Really?").await?);
        Ok::<_, ToolError>(format!("{first}, {second}"))
    };
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let server = Server::new("test", "1").tool(Tool::typed("wait", "Wait", work).task(policy));
    let dispatcher = server.drafted_tasks(true).dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let can = json!({"elicitation": {}});
    let mut first = Client::able(&dispatcher, "ann", can.clone()).await;
    first.begin(1, "deploy", 0).await;
    let asked = first.receive().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("Go?"))
    );
    assert_eq!(asked["params"]["_meta"], related("deploy")["_meta"], "{asked}");
    assert_eq!(first.status(2, "deploy").await, "input_required");
    first.reply(&asked, json!({"action": "accept", "content": {"go": true}})).await;
    let second = first.receive().await;
    assert_eq!(second["params"]["message"], "Really?", "{second}");
    // Its caller is gone, and its work put aside. Whoever makes the request again is asked what is asked still.
    drop(first);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut next = Client::able(&dispatcher, "ann", can).await;
    next.begin(1, "deploy", 0).await;
    let again = next.receive().await;
    assert_eq!(again["params"]["message"], "Really?", "{again}");
    assert_eq!(again["params"]["_meta"], related("deploy")["_meta"], "{again}");
    next.reply(&again, json!({"action": "decline"})).await;
    let answer = next.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "true, false", "{answer}");
    assert_eq!(next.status(2, "deploy").await, "completed");
}

#[tokio::test(start_paused = true)]
async fn r1_19_a_task_is_kept_for_a_week_after_its_end_at_most() {
    let (dispatcher, _) = server();
    let mut client = Client::connect(&dispatcher, "ann").await;
    for (id, keep) in [(1, json!(null)), (2, json!(1e18)), (3, json!(8 * 24 * 3_600_000_u64))] {
        let task = format!("deploy-{id}");
        let mut params = call(&task, 0);
        params["_meta"]["modelcontextprotocol.io/task"]["keepAlive"] = keep;
        client.ask(id, "tools/call", params).await;
        let kept = client.ask(10 + id, "tasks/get", json!({"taskId": task})).await;
        assert_eq!(kept["result"]["keepAlive"], 7 * 24 * 3_600_000_u64, "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_still_to_be_undone_is_deleted_at_once_and_undone_all_the_same() {
    let undone = Arc::new(AtomicUsize::new(0));
    let (counted, mut policy) = (Arc::clone(&undone), TaskPolicy::always());
    policy.rerun = Rerun::Resumable;
    let work = move |cx: Cx, _: Wait| {
        let counted = Arc::clone(&counted);
        async move {
            let undo = move |_: u32, _: String| {
                let counted = Arc::clone(&counted);
                async move {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    counted.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, ToolError>(())
                }
            };
            cx.step("charge", || async { Ok::<_, ToolError>(1) }).compensate(undo).await?;
            Err::<String, _>(ToolError::new("broke"))
        }
    };
    let server = Server::new("test", "1").tool(Tool::typed("wait", "Wait", work).task(policy));
    let dispatcher = server.drafted_tasks(true).dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let mut client = Client::connect(&dispatcher, "ann").await;
    client.begin(1, "deploy", 0).await;
    let ended = client.receive().await;
    assert_eq!(ended["result"]["isError"], true, "{ended}");
    let deleted = client.ask(2, "tasks/delete", json!({"taskId": "deploy"})).await;
    assert_eq!(deleted["result"]["_meta"], related("deploy")["_meta"], "{deleted}");
    let gone = client.ask(3, "tasks/get", json!({"taskId": "deploy"})).await;
    assert_eq!((&gone["error"]["code"], undone.load(Ordering::SeqCst)), (&json!(-32602), 0), "{gone}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(undone.load(Ordering::SeqCst), 1);
}
