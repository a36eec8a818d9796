//! Tasks as a peer on the wire meets them: who gets one, what it is told, and how a stop ends what is open.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use longhaul::driver::{self, DriverError};
use longhaul::proto::model::{self, CallToolResult};
use longhaul::server::{
    BuildError, Dispatcher, IntoToolResult, JobTool, Principal, TaskMode, TaskPolicy, ToolError, ToolFuture,
    ToolHandler,
};
use longhaul::store::{Json, Memory, Outcome, Rerun, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul::tasks::project;
use longhaul::tasks::report::Reporter;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::Instant;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    seconds: u64,
    #[serde(default)]
    fail: bool,
}

async fn wait(_: Cx, Wait { seconds, fail }: Wait) -> Result<&'static str, ToolError> {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    if fail { Err(ToolError::new("it broke")) } else { Ok("waited") }
}

fn tool(name: &str, policy: TaskPolicy) -> Tool {
    Tool::typed(name, "Wait", wait).task(policy)
}

/// The far end of a served connection.
struct Client {
    dispatcher: Dispatcher,
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    served: JoinHandle<Result<(), DriverError>>,
}

impl Client {
    fn connect(tools: impl IntoIterator<Item = Tool>) -> Self {
        let server = Server::new("test", "1").store(Arc::new(Memory::new()));
        let dispatcher = tools.into_iter().fold(server, Server::tool).dispatcher().unwrap();
        Self::of(dispatcher, "test")
    }

    fn of(dispatcher: Dispatcher, principal: &str) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let principal = Principal::new(principal).unwrap();
        let options = driver::Options::default();
        let served = tokio::spawn(driver::serve(
            dispatcher.clone(),
            principal,
            reader,
            writer,
            options,
            std::future::pending(),
        ));
        let (reader, writer) = tokio::io::split(ours);
        Self { dispatcher, reader: BufReader::new(reader), writer, served }
    }

    /// With a session of 2025-11-25 open.
    async fn in_session(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self::connect(tools).initialized().await
    }

    async fn initialized(mut self) -> Self {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        self.ask(0, "initialize", params).await;
        self
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let mut line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        line.push('\n');
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The answer to `id`, whatever else comes before it.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        self.answer(id).await
    }
}

/// The parameters of a request of 2026-07-28.
fn modern(mut params: Value, takes_tasks: bool) -> Value {
    let extensions = if takes_tasks { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
    params["_meta"] = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
    });
    params
}

fn call(tool: &str, seconds: u64) -> Value {
    json!({"name": tool, "arguments": {"seconds": seconds}})
}

#[tokio::test]
async fn a_function_is_entered_again_and_never_found_again() {
    for (rerun, may) in [(Rerun::Reattach, false), (Rerun::Resumable, true), (Rerun::Restart, true)] {
        let mut policy = TaskPolicy::always();
        policy.rerun = rerun;
        match Server::new("test", "1").tool(tool("wait", policy)).dispatcher() {
            Ok(_) => assert!(may, "{rerun:?}"),
            Err(refused) => assert!(!may && matches!(refused, BuildError::Rerun { .. }), "{refused}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_kept_for_a_week_at_most() {
    let mut policy = TaskPolicy::always();
    policy.ttl = Duration::from_secs(30 * 24 * 3600);
    let mut client = Client::connect([tool("wait", policy)]);
    let created = client.ask(1, "tools/call", modern(call("wait", 0), true)).await;
    let id = &created["result"]["taskId"];
    tokio::time::sleep(Duration::from_secs(1)).await;
    let task = client.ask(2, "tasks/get", modern(json!({"taskId": id}), true)).await;
    let week = 7 * 24 * 3_600_000;
    let ttl = task["result"]["ttlMs"].as_u64().unwrap();
    assert!((week..week + 60_000).contains(&ttl), "counted from its end, told from its beginning: {task}");
}

#[tokio::test(start_paused = true)]
async fn an_update_must_bring_responses_and_is_acknowledged_whatever_they_answer() {
    let mut client = Client::connect([tool("wait", TaskPolicy::always())]);
    let created = client.ask(1, "tools/call", modern(call("wait", 5), true)).await;
    let id = &created["result"]["taskId"];
    for wrong in [json!({"taskId": id}), json!({"taskId": id, "inputResponses": []})] {
        let answer = client.ask(2, "tasks/update", modern(wrong, true)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let unknown = json!({"taskId": id, "inputResponses": {"nobody-asked": {"action": "accept"}}});
    let acknowledged = json!({"resultType": "complete", "_meta": {
        "io.modelcontextprotocol/serverInfo": {"name": "test", "version": "1"}}});
    for (id, update) in [(3, unknown.clone()), (4, json!({"taskId": id, "inputResponses": {}}))] {
        let answer = client.ask(id, "tasks/update", modern(update, true)).await;
        assert_eq!(answer["result"], acknowledged, "{answer}");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let answer = client.ask(5, "tasks/update", modern(unknown, true)).await;
    assert_eq!(answer["result"], acknowledged, "a task that has ended ignores every key: {answer}");
}

#[tokio::test]
async fn a_tool_that_is_always_a_task_refuses_who_takes_none() {
    let required = || tool("wait", TaskPolicy::new(TaskMode::Required));
    let mut legacy = Client::in_session([required()]).await;
    let answer = legacy.ask(1, "tools/call", call("wait", 0)).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let mut client = Client::connect([required()]);
    let answer = client.ask(1, "tools/call", modern(call("wait", 0), false)).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let required = &answer["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(required, &json!({"io.modelcontextprotocol/tasks": {}}));
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_every_ten_seconds_and_real_progress_is_not_overtaken() {
    let slow = Tool::typed("slow", "Slow", |cx: Cx, Wait { .. }| async move {
        tokio::time::sleep(Duration::from_secs(25)).await;
        cx.progress(model::Progress::new(1.0)).await;
        tokio::time::sleep(Duration::from_secs(14)).await;
        "done"
    });
    let mut client = Client::connect([slow.task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2))))]);
    let began = Instant::now();
    client.send(1, "tools/call", modern(call("slow", 0), false)).await;
    let mut heard = Vec::new();
    loop {
        let message = client.receive().await;
        if message["id"] == 1 {
            assert_eq!(message["result"]["content"][0]["text"], "done");
            break;
        }
        heard.push((began.elapsed().as_secs(), message["params"]["progress"].as_f64().unwrap()));
    }
    assert_eq!(heard, [(10, 0.5), (20, 0.75), (25, 1.0), (30, 1.5)]);
}

#[tokio::test(start_paused = true)]
async fn who_is_let_go_early_is_told_how_long_it_has_waited() {
    let policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(1)));
    let mut brief = policy.clone();
    brief.hold = Some(Duration::from_secs(2));
    let mut client = Client::in_session([tool("brief", brief), tool("long", policy)]).await;
    let handed_over = client.ask(1, "tools/call", call("brief", 3600)).await;
    let text = |answer: &Value| answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text(&handed_over).starts_with("Still running after 2 s"), "{handed_over}");
    let task = &handed_over["result"]["structuredContent"]["taskId"];
    client.send(2, "tools/call", json!({"name": "task_wait", "arguments": {"id": task}})).await;
    client.send(3, "tools/call", call("long", 3600)).await;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    client.dispatcher.engine().drain(Duration::from_secs(10)).await;
    for _ in 0..2 {
        let answer = client.receive().await;
        assert!(text(&answer).starts_with("Still running after 3 s"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_ends_what_is_not_durable_and_nothing_else() {
    for (seconds, tasks) in [(1, 0), (3, 1)] {
        let policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
        let mut client = Client::in_session([tool("wait", policy)]).await;
        client.send(1, "tools/call", call("wait", 3600)).await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        client.writer.shutdown().await.unwrap();
        client.served.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let counts = client.dispatcher.engine().counts().await.unwrap();
        assert_eq!(counts.retained, tasks, "the input ended after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_stops_leaves_the_calls_of_others_alone() {
    let policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
    let mut client = Client::in_session([tool("wait", policy)]).await;
    client.send(1, "tools/call", call("wait", 30)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (_ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let (dispatcher, principal) = (client.dispatcher.clone(), Principal::new("other").unwrap());
    let stopped = std::future::ready(());
    driver::serve(dispatcher, principal, reader, writer, driver::Options::default(), stopped).await.unwrap();
    let answer = client.answer(1).await;
    assert_eq!(answer["result"]["content"][0]["text"], "waited", "it is not handed over: {answer}");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_result_is_told_to_ask_again_when_the_server_stops() {
    let mut client = Client::in_session([tool("wait", TaskPolicy::always())]).await;
    let mut asked = call("wait", 3600);
    asked["task"] = json!({});
    let created = client.ask(1, "tools/call", asked).await;
    let id = &created["result"]["task"]["taskId"];
    client.send(2, "tasks/result", json!({"taskId": id})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    client.dispatcher.engine().drain(Duration::from_secs(10)).await;
    let error = client.answer(2).await["error"].clone();
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("stopping")), "{error}");
    assert!(error["data"]["retryAfterMs"].is_u64());
    let task = client.ask(3, "tasks/get", json!({"taskId": id})).await;
    assert_eq!(task["result"]["status"], "working");
}

/// A tool that gives what its schema says.
struct Counted;

impl ToolHandler for Counted {
    fn call(&self, _: Cx, _: &str) -> Result<ToolFuture, CallToolResult> {
        Ok(Box::pin(async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            longhaul::server::Json(json!({"count": 1})).into_tool_result()
        }))
    }
}

const COUNT: &str = r#"{"type":"object","properties":{"count":{"type":"number"}},"required":["count"]}"#;

fn counted(name: &str, policy: TaskPolicy) -> Tool {
    let schema = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
    let mut definition = model::Tool::new(name, schema(r#"{"type":"object"}"#));
    definition.output_schema = Some(schema(COUNT));
    Tool::raw(definition, Counted).task(policy)
}

#[tokio::test(start_paused = true)]
async fn what_a_stop_answers_with_keeps_to_the_listed_schema() {
    let mut to_the_end = TaskPolicy::always();
    to_the_end.hold = None;
    let tools = || [counted("never", TaskPolicy::default()), counted("held", to_the_end.clone())];
    let mut client = Client::connect(tools());
    let own: Value = serde_json::from_str(COUNT).unwrap();
    let schemas = async |client: &mut Client, takes: bool| {
        let tools = client.ask(1, "tools/list", modern(json!({}), takes)).await["result"]["tools"].clone();
        let schema =
            |name| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone();
        (schema("never")["outputSchema"].clone(), schema("held")["outputSchema"].clone())
    };
    assert_eq!(
        schemas(&mut client, true).await,
        (own.clone(), own.clone()),
        "who takes tasks gets no hand-over"
    );
    let (never, held) = schemas(&mut client, false).await;
    assert_eq!((&never, &held["type"]), (&own, &json!("object")));
    let either = held["anyOf"].as_array().unwrap();
    assert_eq!((either.len(), &either[0]), (2, &own));
    assert_eq!(either[1]["required"], json!(["taskId", "status"]));

    for (id, name) in [(2, "never"), (3, "held")] {
        client.send(id, "tools/call", modern(json!({"name": name, "arguments": {}}), false)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.dispatcher.engine().drain(Duration::from_secs(10)).await;
    let held = client.answer(3).await;
    assert!(held["result"]["structuredContent"]["taskId"].is_string(), "{held}");
    let never = client.answer(2).await;
    assert_eq!(never["result"]["structuredContent"], json!({"count": 1}), "{never}");
}

/// A tool whose calls are jobs that end after five seconds, wherever they run.
#[derive(Debug)]
struct Elsewhere;

impl JobTool for Elsewhere {
    fn check(&self, arguments: &str) -> Result<Json, CallToolResult> {
        Json::parse(arguments).map_err(|error| CallToolResult::error(error.to_string()))
    }
}

impl ExternalJob for Elsewhere {
    fn start<'a>(
        &'a self,
        _: &'a TaskId,
        _: &'a Json,
        _: bool,
        _: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        let run: Arc<dyn JobRun> = Arc::new(Running(Instant::now()));
        Box::pin(std::future::ready(Ok(run)))
    }
    fn attach<'a>(&'a self, _: &'a TaskId, _: bool, _: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(std::future::ready(Attached::NeverStarted))
    }
    fn cancel<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn discard<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[derive(Debug)]
struct Running(Instant);

impl JobRun for Running {
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + Duration::from_secs(5)))
    }
    fn outcome(&self, _: bool) -> BoxFuture<'_, Outcome> {
        Box::pin(std::future::ready(project::stored(&CallToolResult::text("done elsewhere"))))
    }
}

fn elsewhere(policy: TaskPolicy) -> Tool {
    let schema = serde_json::value::RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap();
    Tool::job(model::Tool::new("elsewhere", schema), Arc::new(Elsewhere)).task(policy)
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_never_a_task_is_none_when_the_server_stops() {
    let mut client = Client::connect([elsewhere(TaskPolicy::default())]);
    client.send(1, "tools/call", modern(json!({"name": "elsewhere", "arguments": {}}), false)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    client.dispatcher.engine().drain(Duration::from_secs(10)).await;
    assert_eq!(began.elapsed().as_secs(), 4, "its caller was waited for");
    let answer = client.answer(1).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done elsewhere", "{answer}");
    assert_eq!(client.dispatcher.engine().counts().await.unwrap().retained, 0);
}

#[tokio::test]
async fn a_job_can_be_found_again_and_no_more() {
    for (rerun, may) in [(Rerun::Never, true), (Rerun::Reattach, true), (Rerun::Restart, false)] {
        let mut policy = TaskPolicy::always();
        policy.rerun = rerun;
        assert_eq!(Server::new("test", "1").tool(elsewhere(policy)).dispatcher().is_ok(), may, "{rerun:?}");
    }
}

#[tokio::test]
async fn numbers_and_truth_are_results() {
    let add = Tool::typed("add", "Add", |_, Wait { seconds, .. }| async move { seconds + 1 });
    let even = Tool::typed("even", "Even", |_, Wait { seconds, .. }| async move { seconds % 2 == 0 });
    let mut client = Client::connect([add, even]);
    for (name, text) in [("add", "8"), ("even", "false")] {
        let answer = client.ask(1, "tools/call", modern(call(name, 7), false)).await;
        assert_eq!(answer["result"]["content"][0]["text"], text);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_never_tasks_wait_for_their_turn_too() {
    let mut policy = TaskPolicy::default();
    policy.limit = Some(1);
    let mut client = Client::connect([tool("wait", policy)]);
    let began = Instant::now();
    client.send(1, "tools/call", modern(call("wait", 5), false)).await;
    client.send(2, "tools/call", modern(call("wait", 5), false)).await;
    for (id, seconds) in [(1, 5), (2, 10)] {
        assert_eq!(client.answer(id).await["result"]["content"][0]["text"], "waited");
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

#[tokio::test]
async fn a_companion_that_is_called_wrongly_says_how_it_is_called() {
    let mut client = Client::connect([tool("wait", TaskPolicy::always())]);
    for (name, arguments, problem, usage) in [
        ("task_wait", json!({}), "missing field `id`", "task_wait(id: string, up_to?: number)"),
        ("task_cancel", json!({"id": 5}), "invalid type", "task_cancel(id: string)"),
        (
            "task_output",
            json!({"id": "x", "after": -4}),
            "unknown field `after`",
            "task_output(id: string, from?",
        ),
    ] {
        let params = modern(json!({"name": name, "arguments": arguments}), false);
        let answer = client.ask(1, "tools/call", params).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(problem) && text.contains(usage), "{text}");
        assert!(!text.contains("column"), "nobody knows of what: {text}");
    }
    let answer = client.ask(1, "tools/call", modern(json!({"name": 5}), false)).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("`name`: invalid type") && !message.contains("column"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_what_it_may_know_meanwhile_where_there_is_a_word_for_it() {
    const KEY: &str = "io.modelcontextprotocol/model-immediate-response";
    let tool = || [tool("wait", TaskPolicy::always()).immediate_response("It has begun: go on.")];
    let mut session = Client::in_session(tool()).await;
    let mut asked = call("wait", 5);
    asked["task"] = json!({});
    let created = session.ask(1, "tools/call", asked).await;
    assert_eq!(created["result"]["_meta"], json!({ KEY: "It has begun: go on." }));
    assert_eq!(created["result"]["task"]["status"], "working");

    let mut modern_client = Client::connect(tool());
    let created = modern_client.ask(1, "tools/call", modern(call("wait", 5), true)).await;
    assert_eq!(created["result"]["resultType"], "task");
    assert_eq!(created["result"]["_meta"][KEY], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn r2_46_what_its_caller_can_ask_after_is_listed_and_nothing_else() {
    let mut brief = TaskPolicy::always();
    brief.hold = Some(Duration::from_secs(1));
    let mut ann = Client::in_session([tool("wait", TaskPolicy::always()), tool("held", brief)]).await;
    let mut bob = Client::of(ann.dispatcher.clone(), "bob").initialized().await;
    let mut begun = Vec::new();
    for (number, seconds) in [(1, 0), (2, 60)] {
        let mut params = call("wait", seconds);
        params["task"] = json!({});
        begun.push(ann.ask(number, "tools/call", params).await["result"]["task"]["taskId"].clone());
    }
    let handed_over = ann.ask(3, "tools/call", call("held", 60)).await;
    begun.push(handed_over["result"]["structuredContent"]["taskId"].clone());
    let newer = ann.ask(4, "tools/call", modern(call("wait", 60), true)).await;
    assert!(newer["result"]["taskId"].is_string(), "{newer}");

    let list = ann.ask(5, "tasks/list", json!({})).await;
    begun.reverse();
    let tasks = list["result"]["tasks"].as_array().unwrap();
    let ids: Vec<_> = tasks.iter().map(|task| task["taskId"].clone()).collect();
    assert_eq!(ids, begun, "the newest first, and none of a later revision: {list}");
    for (number, listed) in (10..).zip(tasks) {
        let got = ann.ask(number, "tasks/get", json!({"taskId": listed["taskId"]})).await;
        assert_eq!(&got["result"], listed);
    }
    assert_eq!(bob.ask(1, "tasks/list", json!({})).await["result"], json!({"tasks": []}));
    // Of another list, of a store's operator, and of nobody.
    for foreign in ["", "t1", "a1", "o", "o-1"] {
        let refused = ann.ask(20, "tasks/list", json!({"cursor": foreign})).await;
        assert_eq!(refused["error"]["code"], -32602, "{foreign:?}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_handed_over_reads_what_the_call_has_given() {
    let give = || {
        let work = |cx: Cx, Wait { seconds, .. }: Wait| async move {
            cx.emit("the first").await?;
            cx.emit(longhaul::server::Json(seconds)).await?;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, ToolError>("waited")
        };
        [Tool::typed("give", "Give", work).task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2))))]
    };
    for is_modern in [false, true] {
        let params = |params: Value| if is_modern { modern(params, false) } else { params };
        let mut client = if is_modern { Client::connect(give()) } else { Client::in_session(give()).await };
        let answer = client.ask(1, "tools/call", params(call("give", 100))).await;
        let told = &answer["result"]["content"];
        assert!(told[0]["text"].as_str().is_some_and(|text| text.contains("`task_output`")), "{answer}");
        let id = answer["result"]["structuredContent"]["taskId"].as_str().unwrap();
        assert_eq!(told[1]["uri"], format!("longhaul://tasks/{id}/parts"));
        let output = async |client: &mut Client, from: u64| {
            let arguments = json!({"id": id, "from": from});
            let params = params(json!({"name": "task_output", "arguments": arguments}));
            client.ask(2, "tools/call", params).await["result"].clone()
        };
        let given = output(&mut client, 0).await;
        let blocks: Vec<_> =
            given["content"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
        assert_eq!(blocks, ["the first", "100"], "{given}");
        assert_eq!(given["structuredContent"], json!({"start": 1, "next": 2, "total": 2, "done": false}));
        let waited = params(json!({"name": "task_wait", "arguments": {"id": id, "up_to": 200}}));
        let waited = client.ask(3, "tools/call", waited).await;
        assert_eq!(waited["result"]["content"][0]["text"], "waited", "{waited}");
        assert_eq!(waited["result"]["content"][1]["uri"], told[1]["uri"]);
        assert_eq!(output(&mut client, 2).await["structuredContent"]["done"], true);
    }
}
