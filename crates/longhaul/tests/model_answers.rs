//! Answering what a task asks in the place of a user, for callers that take no tasks.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use longhaul::driver;
use longhaul::proto::model::{CreateMessageParams, InputKind, SamplingMessage};
use longhaul::server::{Dispatcher, Elicited, Principal, TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pick {
    /// Which one.
    #[schemars(range(min = 1, max = 9))]
    number: u32,
}

async fn pick(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    Ok(match cx.elicit::<Pick>("Which one?").await? {
        Elicited::Accepted(Pick { number }) => format!("number {number}"),
        _ => "none".to_owned(),
    })
}

fn server(answer_by_model: bool) -> Dispatcher {
    let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
    policy.hold = Some(Duration::from_secs(2));
    let pick = Tool::typed("pick", "Pick", pick).task(policy).answer_by_model(answer_by_model);
    Server::new("picks", "1").tool(pick).dispatcher().unwrap()
}

/// A client that can ask nobody and takes no tasks.
struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    revision: &'static str,
    next_id: u64,
}

impl Client {
    async fn connect(dispatcher: &Dispatcher, principal: &str, revision: &'static str) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let principal = Principal::new(principal).unwrap();
        let (options, until) = (driver::Options::default(), std::future::pending());
        tokio::spawn(driver::serve(dispatcher.clone(), principal, reader, writer, options, until));
        let (reader, writer) = tokio::io::split(ours);
        let mut this = Self { reader: BufReader::new(reader), writer, revision, next_id: 1 };
        if revision != "2026-07-28" {
            let info = json!({"name": "t", "version": "1"});
            let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
            this.ask("initialize", params).await;
        }
        this
    }

    async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.revision == "2026-07-28" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).await.unwrap();
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await["result"].take()
    }

    async fn listed(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn task(handed_over: &Value) -> String {
    handed_over["structuredContent"]["taskId"].as_str().unwrap_or_else(|| panic!("{handed_over}")).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_model_answers_what_its_user_cannot_be_asked() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let dispatcher = server(true);
        let mut client = Client::connect(&dispatcher, "ann", revision).await;
        assert!(client.listed().await.contains(&"task_answer".to_owned()));
        let handed_over = client.call("pick", json!({})).await;
        let id = task(&handed_over);
        assert!(text(&handed_over).contains("Which one?"), "{handed_over}");
        assert!(text(&handed_over).contains("\"number\""), "{handed_over}");

        let wrong = client.call("task_answer", json!({"id": id, "content": {"number": 12}})).await;
        assert!(wrong["isError"] == true && text(&wrong).contains("does not fit"), "{wrong}");
        let wrong =
            client.call("task_answer", json!({"id": id, "question": "a", "content": {"number": 2}})).await;
        assert!(wrong["isError"] == true && text(&wrong).contains("no such question"), "{wrong}");
        let again = client.call("task_wait", json!({"id": id})).await;
        assert!(text(&again).contains("Which one?"), "{again}");

        // Somebody else's is not there.
        let mut other = Client::connect(&dispatcher, "bob", revision).await;
        let refused = other.call("task_answer", json!({"id": id, "content": {"number": 3}})).await;
        assert!(refused["isError"] == true && text(&refused).contains("not found"), "{refused}");

        let answered = client.call("task_answer", json!({"id": id, "content": {"number": 7}})).await;
        assert_ne!(answered["isError"], true, "{answered}");
        assert_eq!(text(&client.call("task_wait", json!({"id": id})).await), "number 7");
        let late = client.call("task_answer", json!({"id": id, "content": {"number": 8}})).await;
        assert_eq!(late["isError"], true, "{late}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_can_be_declined() {
    let mut client = Client::connect(&server(true), "ann", "2025-11-25").await;
    let id = task(&client.call("pick", json!({})).await);
    client.call("task_answer", json!({"id": id})).await;
    assert_eq!(text(&client.call("task_wait", json!({"id": id})).await), "none");
}

#[tokio::test(start_paused = true)]
async fn no_model_answers_unless_the_tool_lets_it() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut client = Client::connect(&server(false), "ann", revision).await;
        let listed = client.listed().await;
        assert!(!listed.contains(&"task_answer".to_owned()) && listed.contains(&"task_wait".to_owned()));
        let answer = client.ask("tools/call", json!({"name": "pick", "arguments": {}})).await;
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
    }
}

async fn ponder(cx: Cx, _: Nothing) -> Result<String, ToolError> {
    let can = cx.can_ask(InputKind::Sampling);
    cx.sample(CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 10)).await?;
    Ok(format!("could: {can}"))
}

#[tokio::test(start_paused = true)]
async fn what_only_a_client_answers_is_not_left_to_a_model() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
        policy.hold = Some(Duration::from_secs(2));
        let ponder = Tool::typed("ponder", "Ponder", ponder).task(policy).answer_by_model(true);
        let asking = Tool::typed("ask", "Ask", pick).asks(InputKind::Sampling).answer_by_model(true);
        let dispatcher = Server::new("picks", "1").tool(ponder).tool(asking).dispatcher().unwrap();
        let mut client = Client::connect(&dispatcher, "ann", revision).await;
        for tool in ["ponder", "ask"] {
            let answer = client.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
            assert_eq!(answer["error"]["code"], -32021, "{revision} {tool} {answer}");
        }
    }
}
