//! What is pushed of tasks: to whoever follows them by a subscription, and in the session that created them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::audit::{Audit, Event, Party, What};
use longhaul::driver;
use longhaul::proto::model::{LoggingLevel, Progress};
use longhaul::server::{
    Dispatcher, Elicited, Principal, SubscriptionOptions, TaskMode, TaskPolicy, ToolError,
};
use longhaul::store::{Memory, Owner, Rerun, StoreFuture, TaskStore};
use longhaul::tasks::runner::Pace;
use longhaul::{Cx, Server, Tool};
use longhaul_store::wrap::{Faults, Operation, Wrap, Wrapped};
use longhaul_test::transcript::Book;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt as _, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Steps {
    steps: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Says every two seconds how far it is.
async fn work(cx: Cx, Steps { steps }: Steps) -> &'static str {
    for step in 0..steps {
        cx.status(format!("step {step}"));
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    "worked"
}

async fn ask(cx: Cx, _: Nothing) -> Result<&'static str, ToolError> {
    Ok(match cx.elicit::<Approve>("Go on?").await? {
        Elicited::Accepted(Approve { go: true }) => "gone on",
        _ => "stayed",
    })
}

/// Says all that can be said of a task before it first waits, and again afterwards.
async fn loud(cx: Cx, _: Nothing) -> &'static str {
    for time in 1..=2 {
        cx.log(LoggingLevel::Error, "so far").await;
        cx.pass_log(LoggingLevel::Error, Some("disk"), "so far");
        cx.elicitation_complete("page").await;
        cx.progress(Progress::new(f64::from(time))).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    "said"
}

fn server(store: &Memory) -> Server {
    server_on(store.another_node())
}

fn server_on(store: impl TaskStore + 'static) -> Server {
    Server::new("news", "1")
        .tool(Tool::typed("work", "Work", work).task(TaskPolicy::always()))
        .tool(Tool::typed("ask", "Ask", ask).task(TaskPolicy::always()))
        .tool(Tool::typed("loud", "Say all there is", loud).task(TaskPolicy::always()))
        .store(store)
}

/// The far end of a served connection.
struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    next_id: u64,
    declares: bool,
    revision: &'static str,
    book: Book,
}

impl Client {
    fn connect(dispatcher: &Dispatcher, principal: &str) -> Self {
        Self::with_room(dispatcher, principal, 1 << 16)
    }

    /// Over a connection that holds so many bytes.
    fn with_room(dispatcher: &Dispatcher, principal: &str, room: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(room);
        let (reader, writer) = tokio::io::split(theirs);
        let principal = Principal::new(principal).unwrap();
        let options = driver::Options::default();
        let until = std::future::pending();
        tokio::spawn(driver::serve(dispatcher.clone(), principal, reader, writer, options, until));
        let (reader, writer) = tokio::io::split(ours);
        Self {
            reader: BufReader::new(reader),
            writer,
            next_id: 1,
            declares: true,
            revision: "2026-07-28",
            book: Book::load().unwrap(),
        }
    }

    /// With a session of 2025-11-25 open.
    async fn in_session(dispatcher: &Dispatcher) -> Self {
        Self::in_session_of(dispatcher, "ann").await
    }

    async fn in_session_of(dispatcher: &Dispatcher, principal: &str) -> Self {
        let mut client = Self::connect(dispatcher, principal);
        client.revision = "2025-11-25";
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "t", "version": "1"}});
        client.ask("initialize", params).await;
        client
    }

    async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let tasks = if self.declares { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
        if self.revision == "2026-07-28" {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.revision.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {"form": {}}, "extensions": tasks});
        }
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        id
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(120), self.reader.read_line(&mut line));
        read.await.unwrap().unwrap();
        let message = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        self.book.check(self.revision, &message, None).unwrap();
        message
    }

    /// The answer to a request, whatever else comes before it.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn start(&mut self, tool: &str, arguments: Value) -> String {
        let created = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    }

    async fn get(&mut self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id})).await["result"].clone()
    }

    /// Follows tasks; gives the id of the subscription and those that were accepted.
    async fn follow(&mut self, ids: &[&str]) -> (u64, Value) {
        let id = self.send("subscriptions/listen", json!({"notifications": {"taskIds": ids}})).await;
        let said = self.receive().await;
        assert_eq!(said["method"], "notifications/subscriptions/acknowledged", "{said}");
        assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        (id, said["params"]["notifications"]["taskIds"].clone())
    }

    /// What is told next of a task of this subscription, the `seq`th time.
    async fn told(&mut self, subscription: u64, seq: u64) -> Value {
        let mut said = self.receive().await;
        assert_eq!(said["method"], "notifications/tasks", "{said}");
        let meta = said["params"]["_meta"].take();
        let expected =
            json!({"io.modelcontextprotocol/subscriptionId": subscription, "dev.longhaul/seq": seq});
        assert_eq!(meta, expected, "{said}");
        said["params"].take()
    }

    async fn is_told_nothing(&mut self) {
        self.is_told_nothing_for(Duration::from_secs(60)).await;
    }

    async fn is_told_nothing_for(&mut self, time: Duration) {
        let said = tokio::time::timeout(time, self.receive()).await;
        assert!(said.is_err(), "{said:?}");
    }
}

/// A pushed task, and what `tasks/get` says of it, without what belongs to the message.
#[track_caller]
fn agree(pushed: &Value, polled: &Value) {
    let mut pushed = pushed.clone();
    let mut polled = polled.clone();
    pushed.as_object_mut().unwrap().remove("_meta");
    polled.as_object_mut().unwrap().retain(|key, _| key != "_meta" && key != "resultType");
    assert_eq!(pushed, polled);
}

/// D7 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn who_follows_a_task_hears_how_it_stands_and_then_of_each_change_until_it_ends() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let id = client.start("work", json!({"steps": 3})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (subscription, accepted) = client.follow(&[&id]).await;
    assert_eq!(accepted, json!([id]));
    for step in 0..3_u64 {
        let told = client.told(subscription, step + 1).await;
        assert_eq!(
            (&told["status"], &told["statusMessage"]),
            (&json!("working"), &json!(format!("step {step}")))
        );
    }
    let told = client.told(subscription, 4).await;
    assert_eq!((&told["taskId"], &told["status"]), (&json!(id), &json!("completed")));
    agree(&told, &client.get(&id).await);
    client.is_told_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_is_told_once() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let id = client.start("work", json!({"steps": 0})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (subscription, _) = client.follow(&[&id, &id]).await;
    let told = client.told(subscription, 1).await;
    agree(&told, &client.get(&id).await);
    assert_eq!(told["result"]["resultType"], "complete");
    client.is_told_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_is_pushed_as_it_is_polled() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let id = client.start("ask", json!({})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (subscription, _) = client.follow(&[&id]).await;
    let told = client.told(subscription, 1).await;
    assert_eq!(told["status"], "input_required");
    agree(&told, &client.get(&id).await);
    let (key, _) = told["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let answers = json!({ key: {"action": "accept", "content": {"go": true}} });
    client.send("tasks/update", json!({"taskId": id, "inputResponses": answers})).await;
    let mut last = Value::Null;
    while last["params"]["status"] != "completed" {
        last = client.receive().await;
    }
    assert_eq!(last["params"]["result"]["content"][0]["text"], "gone on");
}

/// A1 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn nobody_follows_what_is_not_its_own() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let (mut ann, mut bob) = (Client::connect(&dispatcher, "ann"), Client::connect(&dispatcher, "bob"));
    let hers = ann.start("work", json!({"steps": 2})).await;
    let his = bob.start("work", json!({"steps": 0})).await;
    let (subscription, accepted) = bob.follow(&[&hers, "work-unknown", "\u{7}", &his]).await;
    assert_eq!(accepted, json!([his]));
    let mut told = bob.told(subscription, 1).await;
    if told["status"] == "working" {
        told = bob.told(subscription, 2).await;
    }
    assert_eq!((&told["taskId"], &told["status"]), (&json!(his), &json!("completed")));
    bob.is_told_nothing().await;

    // Of none of them there is nothing to tell.
    let (_, accepted) = bob.follow(&[&hers]).await;
    assert_eq!(accepted, Value::Null);
    bob.is_told_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn following_tasks_takes_who_declares_them_and_is_bounded() {
    let options = SubscriptionOptions::default().max_tasks(2).max_open(3, 1);
    let dispatcher = server(&Memory::new()).subscriptions(options).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let listen = |ids: &[&str]| json!({"notifications": {"taskIds": ids}});
    client.declares = false;
    let refused = client.ask("subscriptions/listen", listen(&["a"])).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let needed = &refused["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(needed, &json!({"io.modelcontextprotocol/tasks": {}}));
    client.declares = true;

    let refused = client.ask("subscriptions/listen", listen(&["a", "b", "c"])).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["limit"]), (&json!(-32602), &json!(2)));

    let (open, _) = client.follow(&["a", "b"]).await;
    let refused = client.ask("subscriptions/listen", listen(&["a"])).await;
    assert_eq!(refused["error"]["code"], -31001, "{refused}");
    assert!(refused["error"]["data"]["retryAfterMs"].is_number(), "{refused}");
    // Somebody else has places of its own, and one that is closed is free again.
    Client::connect(&dispatcher, "bob").follow(&["a"]).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": open}});
    client.writer.write_all(format!("{cancelled}\n").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    client.follow(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_on_a_node_that_does_not_work_on_it() {
    let store = Memory::new();
    let (here, there) = (server(&store).dispatcher().unwrap(), server(&store).dispatcher().unwrap());
    let id = Client::connect(&here, "ann").start("work", json!({"steps": 2})).await;
    let mut client = Client::connect(&there, "ann");
    let (_, accepted) = client.follow(&[&id]).await;
    assert_eq!(accepted, json!([id]));
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|status| status != "completed") {
        statuses.push(client.receive().await["params"]["status"].as_str().unwrap().to_owned());
    }
    assert!(statuses.len() > 1, "{statuses:?}");
}

/// How many changes a task has that is looked at too slowly: many times what a connection holds.
const MANY: u32 = 600;

/// S1 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn who_reads_slowly_skips_what_is_past_and_never_the_end() {
    let options = SubscriptionOptions::default().slow_limit(Duration::from_secs(3600));
    let dispatcher = server(&Memory::new()).subscriptions(options).dispatcher().unwrap();
    let mut client = Client::with_room(&dispatcher, "ann", 1 << 10);
    let id = client.start("work", json!({"steps": MANY})).await;
    let (_, accepted) = client.follow(&[&id]).await;
    assert_eq!(accepted, json!([id]));
    tokio::time::sleep(Duration::from_secs(u64::from(2 * MANY + 10))).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|task: &Value| task["status"] != "completed") {
        told.push(client.receive().await["params"].clone());
    }
    assert!(told.len() < MANY as usize, "{}", told.len());
    client.is_told_nothing().await;
}

/// S1 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_not_read_ends_in_order() {
    let options = SubscriptionOptions::default().slow_limit(Duration::from_secs(10));
    let dispatcher = server(&Memory::new()).subscriptions(options).dispatcher().unwrap();
    let mut client = Client::with_room(&dispatcher, "ann", 1 << 10);
    let id = client.start("work", json!({"steps": MANY})).await;
    let (subscription, _) = client.follow(&[&id]).await;
    tokio::time::sleep(Duration::from_secs(u64::from(MANY))).await;
    let answer = loop {
        let message = client.receive().await;
        if message["id"] == subscription {
            break message;
        }
    };
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscription);
    client.is_told_nothing().await;
}

/// S1 of `conformance/REQUIREMENTS.md`: a byte a second, while a task changes three thousand times; with `LONGHAUL_MANY` ten thousand
/// times, as the matrix of failures has it and `cargo xtask chaos many` tries.
#[tokio::test(start_paused = true)]
async fn s1_who_reads_a_byte_a_second_is_told_the_end_or_that_it_is_told_no_more() {
    let events = if std::env::var_os("LONGHAUL_MANY").is_some() { 10_000 } else { 3_000 };
    for (limit, is_told) in [(Duration::from_secs(30), false), (Duration::from_secs(3600), true)] {
        let options = SubscriptionOptions::default().slow_limit(limit);
        let dispatcher = server(&Memory::new()).subscriptions(options).dispatcher().unwrap();
        let mut client = Client::with_room(&dispatcher, "ann", 1 << 10);
        // It takes no more from the connection than what it reads.
        client.reader = BufReader::with_capacity(1, client.reader.into_inner());
        let id = client.start("work", json!({"steps": events})).await;
        let (subscription, _) = client.follow(&[&id]).await;
        let (mut read, mut told) = (0_usize, 0_u32);
        let ended_in_order = loop {
            let mut line = Vec::new();
            while line.last() != Some(&b'\n') {
                line.push(client.reader.read_u8().await.unwrap());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            read += line.len();
            let said: Value = serde_json::from_slice(&line).unwrap();
            if said["id"] == subscription {
                break true;
            }
            told += 1;
            if said["params"]["status"] == "completed" {
                break false;
            }
        };
        assert_eq!(ended_in_order, !is_told, "after {told} messages");
        assert!(told < 100 && read < 64 << 10, "{told} messages of {read} bytes were kept for it");
        client.reader = BufReader::new(client.reader.into_inner());
        let last = client.get(&id).await;
        assert_eq!(last["status"] == "completed", is_told, "and whoever asks hears how it stands: {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_ends_a_subscription_that_follows_tasks() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let id = client.start("work", json!({"steps": 100})).await;
    let (subscription, _) = client.follow(&[&id]).await;
    dispatcher.engine().drain(Duration::from_secs(1)).await;
    let answer = loop {
        let message = client.receive().await;
        if message["id"] == subscription {
            break message;
        }
    };
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscription);
}

/// A server whose work waits in memory for a tenth of a second.
fn put_aside(store: &Memory) -> Dispatcher {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let mut pace = Pace::default();
    (pace.hot_wait, pace.recover_every) = (Duration::from_millis(100), Duration::from_millis(20));
    let server = Server::new("news", "1").tool(Tool::typed("ask", "Ask", ask).task(policy));
    server.store(Arc::new(store.another_node())).pace(pace).dispatcher().unwrap()
}

#[tokio::test]
async fn a_session_is_told_of_its_task_though_its_work_was_put_aside_and_is_gone_on_with() {
    let dispatcher = put_aside(&Memory::new());
    dispatcher.start().await.unwrap();
    let mut client = Client::in_session(&dispatcher).await;
    let created = client.ask("tools/call", json!({"name": "ask", "arguments": {}, "task": {}})).await;
    let id = created["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let (mut statuses, mut asked) = (Vec::new(), 0);
    while statuses.last().is_none_or(|status| status != "completed") {
        let said = client.receive().await;
        match said["method"].as_str() {
            Some("notifications/tasks/status") => {
                assert_eq!(said["params"]["taskId"], id);
                assert_eq!(said["params"]["_meta"], Value::Null, "its own id is enough");
                statuses.push(said["params"]["status"].as_str().unwrap().to_owned());
            }
            Some("elicitation/create") => {
                let related = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
                assert_eq!(said["params"]["_meta"], related);
                // Longer than its work waits in memory.
                tokio::time::sleep(Duration::from_millis(400)).await;
                let answer = json!({"jsonrpc": "2.0", "id": said["id"],
                    "result": {"action": "accept", "content": {"go": true}}});
                client.writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
                asked += 1;
            }
            _ => panic!("{said}"),
        }
    }
    assert_eq!(asked, 1, "asked at once, and once");
    assert!(statuses.contains(&"input_required".to_owned()), "{statuses:?}");
    let result = client.ask("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["result"]["content"][0]["text"], "gone on");
    client.is_told_nothing_for(Duration::from_millis(200)).await;
}

/// R2-39 of `conformance/REQUIREMENTS.md`: what a tool says at once waits for the answer that tells of the task.
#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_task_before_its_call_is_answered_names_it_and_follows_the_answer() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::in_session(&dispatcher).await;
    let call = json!({"name": "loud", "arguments": {}, "task": {}, "_meta": {"progressToken": "p"}});
    let asked = client.send("tools/call", call).await;
    let created = client.receive().await;
    assert_eq!(created["id"], asked, "nothing comes before it: {created}");
    let related =
        json!({"io.modelcontextprotocol/related-task": {"taskId": created["result"]["task"]["taskId"]}});
    let mut said = Vec::new();
    while said.len() < 8 {
        let message = client.receive().await;
        let method = message["method"].as_str().unwrap().to_owned();
        if method != "notifications/tasks/status" {
            assert_eq!(message["params"]["_meta"], related, "{message}");
            said.push(method);
        }
    }
    said.sort_unstable();
    let (page, log) = ("notifications/elicitation/complete", "notifications/message");
    let progress = "notifications/progress";
    assert_eq!(said, [page, page, log, log, log, log, progress, progress]);
}

/// What a server has noted.
#[derive(Clone, Debug, Default)]
struct Noted(Arc<Mutex<Vec<Event>>>);

impl Audit for Noted {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a6_an_answer_of_somebody_else_counts_for_nothing_and_is_noted_once() {
    let noted = Noted::default();
    let dispatcher = server(&Memory::new()).audit(noted.clone()).dispatcher().unwrap();
    let mut ann = Client::in_session(&dispatcher).await;
    let mut again = Client::in_session(&dispatcher).await;
    let mut bob = Client::in_session_of(&dispatcher, "bob").await;
    let created = ann.ask("tools/call", json!({"name": "ask", "arguments": {}, "task": {}})).await;
    let id = created["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let mut question = ann.receive().await;
    while question["method"] != "elicitation/create" {
        question = ann.receive().await;
    }
    let answer = |go: bool| {
        let content = json!({"action": "accept", "content": {"go": go}});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": question["id"], "result": content}))
    };
    for client in [&mut bob, &mut again] {
        for _ in 0..3 {
            client.writer.write_all(answer(false).as_bytes()).await.unwrap();
        }
        // A line tells nothing of it, and goes on.
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    }
    let open = ann.ask("tasks/get", json!({"taskId": id})).await;
    assert_eq!(open["result"]["status"], "input_required", "{open}");
    ann.writer.write_all(answer(true).as_bytes()).await.unwrap();
    let result = ann.ask("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["result"]["content"][0]["text"], "gone on", "{result}");

    let party = |name| Some(Party::of(&Owner::principal(name).unwrap()));
    let events = noted.0.lock().unwrap().clone();
    let by = |what| events.iter().filter(move |event| event.what == what).map(|event| event.by.clone());
    let stray: Vec<_> = by(What::StrayAnswer).collect();
    assert_eq!(stray, [party("bob"), party("ann")], "once a session: {events:?}");
    assert_eq!(by(What::Answered(1)).collect::<Vec<_>>(), [party("ann")]);
    assert!(events.iter().all(|event| event.what != What::StrayAnswer || event.task.is_none()));
}

/// R3-47 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a_task_of_the_extension_is_quiet_though_its_call_is_not_answered_yet() {
    let dispatcher = server(&Memory::new()).dispatcher().unwrap();
    let mut client = Client::connect(&dispatcher, "ann");
    let wants = json!({"io.modelcontextprotocol/logLevel": "debug", "progressToken": "p"});
    let asked = client.send("tools/call", json!({"name": "loud", "arguments": {}, "_meta": wants})).await;
    let created = client.receive().await;
    assert_eq!((&created["id"], &created["result"]["resultType"]), (&json!(asked), &json!("task")));
    client.is_told_nothing().await;
}

/// Ends the process when the end of a task is committed, and nobody has heard of it.
#[derive(Debug)]
struct AtTheEnd(Faults);

impl Wrap for AtTheEnd {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        self.0.around(
            operation,
            Box::pin(async move {
                let done = doing.await;
                if operation == Operation::Finish {
                    self.0.crash();
                    std::future::pending::<()>().await;
                }
                done
            }),
        )
    }
}

#[tokio::test(start_paused = true)]
async fn k17_an_end_that_a_dead_process_told_nobody_is_told_by_the_next() {
    for follows in [true, false] {
        let (store, dies) = (Memory::new(), Faults::new());
        let first =
            server_on(Wrapped::new(store.another_node(), AtTheEnd(dies.clone()))).dispatcher().unwrap();
        let mut client = Client::connect(&first, "ann");
        let id = client.start("work", json!({"steps": 2})).await;
        let (subscription, _) = client.follow(&[&id]).await;
        assert_eq!(client.told(subscription, 1).await["status"], "working");
        dies.crashed().await;
        while let Ok(said) = tokio::time::timeout(Duration::from_secs(60), client.receive()).await {
            assert_eq!(said["params"]["status"], "working", "it is told by who is dead: {said}");
        }

        let next = server(&store).dispatcher().unwrap();
        let mut client = Client::connect(&next, "ann");
        if follows {
            let (subscription, accepted) = client.follow(&[&id]).await;
            assert_eq!(accepted, json!([id]));
            let told = client.told(subscription, 1).await;
            assert_eq!(told["status"], "completed");
            agree(&told, &client.get(&id).await);
            client.is_told_nothing().await;
        }
        assert_eq!(client.get(&id).await["result"]["content"][0]["text"], "worked");
    }
}

/// A connection that is cut right behind a request, before it is looked at or when its answer is on its way.
async fn cut_off(dispatcher: &Dispatcher, pause: Duration, method: &str, params: &Value) {
    let mut client = Client::connect(dispatcher, "ann");
    client.send(method, params.clone()).await;
    tokio::time::sleep(pause).await;
}

#[tokio::test(start_paused = true)]
async fn n7_a_client_that_is_cut_off_in_any_request_makes_it_again() {
    for pause in [0, 10].map(Duration::from_millis) {
        let store = Memory::new();
        let dispatcher = server(&store).dispatcher().unwrap();
        let call = |key: &str| {
            let meta = json!({"dev.longhaul/idempotencyKey": key});
            json!({"name": "ask", "arguments": {}, "_meta": meta})
        };
        let mut ids = Vec::new();
        for key in ["one", "two"] {
            cut_off(&dispatcher, pause, "tools/call", &call(key)).await;
            let created = Client::connect(&dispatcher, "ann").ask("tools/call", call(key)).await;
            ids.push(created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned());
        }
        assert_eq!(store.counts().await.unwrap().retained, 2, "each was made once");
        let [answered, cancelled] = [&ids[0], &ids[1]];

        let get = json!({"taskId": answered});
        cut_off(&dispatcher, pause, "tasks/get", &get).await;
        let mut client = Client::connect(&dispatcher, "ann");
        let asks = client.get(answered).await;
        let question = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();

        let accept = json!({"action": "accept", "content": {"go": true}});
        let update = json!({"taskId": answered, "inputResponses": {question: accept}});
        cut_off(&dispatcher, pause, "tasks/update", &update).await;
        assert!(client.ask("tasks/update", update).await["result"].is_object());

        let listen = json!({"notifications": {"taskIds": [answered]}});
        cut_off(&dispatcher, pause, "subscriptions/listen", &listen).await;
        let mut follower = Client::connect(&dispatcher, "ann");
        let (subscription, _) = follower.follow(&[answered]).await;
        let mut told = follower.told(subscription, 1).await;
        if told["status"] == "working" {
            told = follower.told(subscription, 2).await;
        }
        assert_eq!(told["result"]["content"][0]["text"], "gone on", "{told}");

        let cancel = json!({"taskId": cancelled});
        cut_off(&dispatcher, pause, "tasks/cancel", &cancel).await;
        assert!(client.ask("tasks/cancel", cancel).await["result"].is_object());
        assert_eq!(client.get(cancelled).await["status"], "cancelled");
    }
}

/// Asks, charges whatever the answer is, and fails; says how often the charge was taken back.
fn undone(store: &Memory) -> (Dispatcher, Arc<AtomicUsize>) {
    let undone = Arc::new(AtomicUsize::new(0));
    let (counted, mut policy) = (Arc::clone(&undone), TaskPolicy::always());
    (policy.rerun, policy.mode) = (Rerun::Resumable, TaskMode::After(Duration::from_secs(60)));
    let work = move |cx: Cx, _: Nothing| {
        let counted = Arc::clone(&counted);
        async move {
            let undo = move |_: bool, _: String| {
                let counted = Arc::clone(&counted);
                async move {
                    counted.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, ToolError>(())
                }
            };
            let refused = cx.elicit::<Approve>("Go on?").await.is_err();
            cx.step("charge", || async move { Ok::<_, ToolError>(refused) }).compensate(undo).await?;
            Err::<String, _>(ToolError::new(format!("broke, refused: {refused}")))
        }
    };
    let server = Server::new("news", "1").tool(Tool::typed("ask", "Ask", work).task(policy));
    let mut pace = Pace::default();
    pace.recover_every = Duration::from_millis(20);
    (server.store(Arc::new(store.another_node())).pace(pace).dispatcher().unwrap(), undone)
}

async fn until_undone(undone: &AtomicUsize) {
    for _ in 0..1000 {
        if undone.load(Ordering::SeqCst) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is not undone");
}

#[tokio::test]
async fn what_a_client_refused_to_answer_in_its_session_is_refused_again_when_the_call_is_undone() {
    let (dispatcher, undone) = undone(&Memory::new());
    dispatcher.start().await.unwrap();
    let mut client = Client::in_session(&dispatcher).await;
    let id = client.send("tools/call", json!({"name": "ask", "arguments": {}})).await;
    let question = client.receive().await;
    let refused = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}});
    client.writer.write_all(format!("{refused}\n").as_bytes()).await.unwrap();
    let ended = client.receive().await;
    assert_eq!((&ended["id"], &ended["result"]["isError"]), (&json!(id), &json!(true)), "{ended}");
    assert_eq!(ended["result"]["content"][0]["text"], "broke, refused: true");
    until_undone(&undone).await;
}

#[tokio::test]
async fn a_session_is_told_once_of_an_end_though_the_task_is_undone_after_it() {
    let (dispatcher, undone) = undone(&Memory::new());
    dispatcher.start().await.unwrap();
    let mut client = Client::in_session(&dispatcher).await;
    client.ask("tools/call", json!({"name": "ask", "arguments": {}, "task": {}})).await;
    let (mut statuses, mut over) = (Vec::new(), false);
    while !over {
        let said = client.receive().await;
        if said["method"] == "elicitation/create" {
            let answer = json!({"jsonrpc": "2.0", "id": said["id"], "result": {"action": "decline"}});
            client.writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            continue;
        }
        assert_eq!(said["method"], "notifications/tasks/status", "{said}");
        statuses.push(said["params"]["status"].clone());
        over = said["params"]["status"] == "failed";
    }
    until_undone(&undone).await;
    client.is_told_nothing_for(Duration::from_millis(100)).await;
}
