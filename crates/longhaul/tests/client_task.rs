//! Calls that become tasks, in both dialects, against a peer that plays the server.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod hosting;
mod peer;
mod user;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Error, Options, SavedTask, Started};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{CreateMessageResult, ElicitResult, Root, TaskStatus};
use peer::Peer;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A task of the extension.
fn d3(status: &str, more: Value) -> Value {
    let mut task = json!({
        "taskId": "t1", "status": status, "createdAt": "2026-11-20T10:00:00Z",
        "lastUpdatedAt": "2026-11-20T10:00:00Z", "ttlMs": null, "pollIntervalMs": 3000, "resultType": "complete",
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// A task of 2025-11-25.
fn d2(status: &str) -> Value {
    json!({
        "taskId": "t2", "status": status, "createdAt": "2026-11-20T10:00:00Z",
        "lastUpdatedAt": "2026-11-20T10:00:00Z", "ttl": 60000, "pollInterval": 2000,
    })
}

fn text(words: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": words }], "resultType": "complete" })
}

fn tasks() -> Value {
    json!({ "tools": {}, "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } } })
}

/// Lists one tool that may become a task.
async fn list_tools(peer: &mut Peer, support: &str) {
    let list = peer.expect("tools/list").await;
    let tool = json!({
        "name": "build", "inputSchema": { "type": "object" }, "execution": { "taskSupport": support }
    });
    peer.answer(&list, json!({ "tools": [tool] })).await;
}

fn spawn_call(client: &Client) -> tokio::task::JoinHandle<Result<String, Error>> {
    let client = client.clone();
    tokio::spawn(async move {
        let result = client.call("build", &json!({ "n": 1 })).await?;
        Ok(result.content[0].as_text().unwrap().to_owned())
    })
}

async fn start(client: &Client, peer: &mut Peer) -> longhaul::client::TaskHandle {
    let starting = tokio::spawn({
        let client = client.clone();
        async move { client.start("build", &(), CallOptions::default()).await }
    });
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    match starting.await.unwrap().unwrap() {
        Started::Task(task) => task,
        Started::Result(result) => panic!("{result:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_promoted_call_is_polled_no_sooner_than_its_server_says() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"].get("task"), None, "the extension has no such member");
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    let created = Instant::now();
    let get = peer.expect("tasks/get").await;
    assert_eq!(get["params"]["taskId"], "t1");
    assert!(created.elapsed() >= Duration::from_secs(3));
    let again = json!({ "pollIntervalMs": 10_000, "statusMessage": "half way" });
    peer.answer(&get, d3("working", again)).await;
    let answered = Instant::now();
    let get = peer.expect("tasks/get").await;
    assert!(answered.elapsed() >= Duration::from_secs(10), "the interval was raised");
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_had_ended_when_its_call_was_answered_is_asked_what_it_came_to() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("completed", json!({ "resultType": "task" }))).await;
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_sees_each_change_once() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let task = start(&client, &mut peer).await;
    assert_eq!(task.id(), "t1");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = tokio::spawn({
        let seen = Arc::clone(&seen);
        async move {
            task.watch(|task| seen.lock().unwrap().push((task.status, task.status_message.clone()))).await
        }
    });
    let half = json!({ "statusMessage": "half" });
    for (status, more) in [("working", half.clone()), ("working", half.clone())] {
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, d3(status, more)).await;
    }
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    watching.await.unwrap().unwrap();
    let half = Some("half".to_owned());
    assert_eq!(
        *seen.lock().unwrap(),
        [(TaskStatus::Working, None), (TaskStatus::Working, half), (TaskStatus::Completed, None)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_keeps_the_code_and_data_of_its_error() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    let get = peer.expect("tasks/get").await;
    let error = json!({ "code": -32603, "message": "gone", "data": { "reason": "worker_lost" } });
    peer.answer(&get, d3("failed", json!({ "error": error }))).await;
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(peer::code(&error), -32603);
    let Error::Answer(error) = error else { panic!() };
    assert_eq!(error.message, "gone");
    assert!(error.data.unwrap().get().contains("worker_lost"));
}

#[tokio::test(start_paused = true)]
async fn every_other_end_of_a_task_is_told_apart() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    for (status, check) in [
        ("cancelled", (|e| matches!(e, Error::Cancelled { .. })) as fn(&Error) -> bool),
        ("input_required", |e| matches!(e, Error::InputRequired { task: Some(id), .. } if id == "t1")),
        ("completed", |e| matches!(e, Error::Protocol { .. })),
    ] {
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.task("t1").wait().await }
        });
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, d3(status, json!({}))).await;
        let error = waiting.await.unwrap().unwrap_err();
        assert!(check(&error), "{status}: {error:?}");
    }
}

/// D8 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn an_unknown_task_and_a_running_one_are_no_results() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let ask = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move { client.task("t1").result().await })
    };
    let asking = ask(&client);
    let get = peer.expect("tasks/get").await;
    peer.refuse(&get, -32602, "unknown task").await;
    let gone = asking.await.unwrap().unwrap_err();
    assert!(gone.is_gone() && gone.to_string().contains("t1"), "{gone:?}");
    assert_eq!(gone.answer().map(|answer| answer.code.0), Some(-32602));
    let asking = ask(&client);
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("working", json!({}))).await;
    assert!(matches!(asking.await.unwrap(), Err(Error::StillRunning { .. })));
    let asking = ask(&client);
    let get = peer.expect("tasks/get").await;
    let other = json!({ "taskId": "t9" });
    peer.answer(&get, d3("working", other)).await;
    assert!(matches!(asking.await.unwrap(), Err(Error::Protocol { .. })), "an answer about another task");
}

#[tokio::test]
async fn r3_06_a_task_in_answer_to_anything_but_a_call_is_no_answer() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let listing = tokio::spawn(async move { client.list_tools().await });
    let list = peer.expect("tools/list").await;
    peer.answer(&list, d3("working", json!({ "resultType": "task", "tools": [] }))).await;
    let error = listing.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }), "{error:?}");
    assert!(error.to_string().contains("task"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_left_alone_as_long_as_it_asks() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let waiting = tokio::spawn(async move { client.task("t1").wait().await });
    let get = peer.expect("tasks/get").await;
    let error = json!({ "code": -31001, "message": "too fast", "data": { "retryAfterMs": 30000 } });
    peer.send(json!({ "jsonrpc": "2.0", "id": get["id"], "error": error })).await;
    let refused = Instant::now();
    let get = peer.expect("tasks/get").await;
    assert!(refused.elapsed() >= Duration::from_secs(30));
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_wait_leaves_the_task_alone() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    peer.expect("tasks/get").await;
    calling.abort();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_ne!(cancelled["params"]["requestId"], call["id"], "the question is given up, not the call");
    let ping = tokio::spawn(async move { client.ping().await });
    let next = peer.expect("server/discover").await;
    peer.answer(&next, peer::discovered()).await;
    ping.await.unwrap().unwrap();
}

#[tokio::test]
async fn cancelling_a_task_of_the_extension_is_an_acknowledgement() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let cancelling = tokio::spawn(async move { client.task("t1").cancel().await });
    let cancel = peer.expect("tasks/cancel").await;
    assert_eq!(cancel["params"]["taskId"], "t1");
    peer.answer(&cancel, json!({ "resultType": "complete" })).await;
    cancelling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_asked_for_polled_and_fetched() {
    let (client, mut peer) = peer::legacy(Options::default(), tasks()).await;
    let calling = spawn_call(&client);
    list_tools(&mut peer, "optional").await;
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"]["task"], json!({}));
    assert_eq!(call["params"]["arguments"], json!({ "n": 1 }));
    peer.answer(&call, json!({ "task": d2("working") })).await;
    let created = Instant::now();
    let get = peer.expect("tasks/get").await;
    assert!(created.elapsed() >= Duration::from_secs(2));
    peer.answer(&get, d2("completed")).await;
    let result = peer.expect("tasks/result").await;
    assert_eq!(result["params"]["taskId"], "t2");
    peer.answer(&result, json!({ "content": [{ "type": "text", "text": "built" }] })).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
}

#[tokio::test(start_paused = true)]
async fn r2_67_what_becomes_of_a_task_is_logged_with_the_tool_that_was_called() {
    let log = longhaul_test::Log::of_this_thread();
    let (client, mut peer) = peer::legacy(Options::default(), tasks()).await;
    let calling = spawn_call(&client);
    list_tools(&mut peer, "optional").await;
    let call = peer.expect("tools/call").await;
    peer.answer(&call, json!({ "task": d2("working") })).await;
    let cancelling = {
        let client = client.clone();
        tokio::spawn(async move { client.task("t2").cancel().await })
    };
    let cancel = peer.expect("tasks/cancel").await;
    peer.answer(&cancel, d2("cancelled")).await;
    cancelling.await.unwrap().unwrap();
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d2("cancelled")).await;
    assert!(matches!(calling.await.unwrap(), Err(Error::Cancelled { .. })));
    let text = log.text();
    for (event, tool) in
        [("a call has become a task", "build"), ("a task is told to end", ""), ("a task has ended", "build")]
    {
        let is_told = |line: &str| [event, "t2", tool].iter().all(|word| line.contains(word));
        assert!(text.lines().any(is_told), "{event}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_legacy_task_goes_on_under_the_token_of_its_call() {
    let (client, mut peer) = peer::legacy(Options::default(), tasks()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let calling = tokio::spawn(async move {
        let options = CallOptions::default()
            .ttl(Duration::from_secs(7))
            .on_progress(move |point| progress.lock().unwrap().push(point.value));
        client.call_with("build", &(), options).await
    });
    list_tools(&mut peer, "required").await;
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"]["task"], json!({ "ttl": 7000 }));
    let token = &call["params"]["_meta"]["progressToken"];
    let report = |value: u32| {
        let params = json!({ "progressToken": token, "progress": value });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    peer.send(report(1)).await;
    peer.answer(&call, json!({ "task": d2("working") })).await;
    peer.send(report(2)).await;
    let get = peer.expect("tasks/get").await;
    peer.send(report(2)).await;
    peer.send(report(3)).await;
    peer.answer(&get, d2("failed")).await;
    let result = peer.expect("tasks/result").await;
    peer.answer(&result, json!({ "content": [], "isError": true })).await;
    assert!(calling.await.unwrap().unwrap().is_error);
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn a_legacy_call_is_no_task_where_server_tool_or_caller_say_no() {
    for (capabilities, support, as_task) in [
        (json!({ "tools": {} }), None, AsTask::Allowed),
        (tasks(), Some("forbidden"), AsTask::Allowed),
        (tasks(), None, AsTask::Never),
    ] {
        let (client, mut peer) = peer::legacy(Options::default(), capabilities).await;
        let options = CallOptions::default().as_task(as_task);
        let calling = tokio::spawn(async move { client.call_with("build", &(), options).await });
        if let Some(support) = support {
            list_tools(&mut peer, support).await;
        }
        let call = peer.expect("tools/call").await;
        assert_eq!(call["params"].get("task"), None);
        peer.answer(&call, json!({ "content": [] })).await;
        calling.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_legacy_task_dropped_before_its_id_is_known_is_cancelled_by_it() {
    let (client, mut peer) = peer::legacy(Options::default(), tasks()).await;
    let calling = spawn_call(&client);
    list_tools(&mut peer, "optional").await;
    let call = peer.expect("tools/call").await;
    calling.abort();
    assert!(calling.await.is_err());
    peer.answer(&call, json!({ "task": d2("working") })).await;
    let cancel = peer.expect("tasks/cancel").await;
    assert_eq!(cancel["params"]["taskId"], "t2");
    peer.answer(&cancel, d2("cancelled")).await;
}

#[tokio::test]
async fn a_legacy_server_that_does_not_cancel_tasks_is_not_asked_to() {
    let capabilities = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } });
    let (client, _peer) = peer::legacy(Options::default(), capabilities).await;
    assert!(matches!(client.task("t2").cancel().await, Err(Error::NotOffered { .. })));
}

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"go": {"type": "boolean"}}, "required": ["go"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn waits_for(questions: Value) -> Value {
    d3("input_required", json!({ "inputRequests": questions }))
}

/// Options whose forms are filled in, and what was asked.
fn answering() -> (Options, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let (forms, samples) = (Arc::clone(&asked), Arc::clone(&asked));
    let options = Options::default()
        .on_form(move |form| {
            forms.lock().unwrap().push(form.message);
            let content = serde_json::value::to_raw_value(&json!({"go": true})).unwrap();
            async move { ElicitResult::accepted(content) }
        })
        .on_sample(move |params| {
            samples.lock().unwrap().push(format!("sample {}", params.max_tokens));
            let result = match params.max_tokens {
                0 => Err(ErrorObject::internal("no model")),
                _ => Ok(CreateMessageResult::new("m", "because")),
            };
            async move { result }
        })
        .on_roots(|| async { vec![Root::new("file:///work")] });
    (options, asked)
}

/// RP-05 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn what_a_task_asks_is_answered_and_nobody_is_asked_twice() {
    let (options, asked) = answering();
    let (client, mut peer) = peer::modern(options).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    let able = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(able["elicitation"], json!({"form": {}}), "{able}");
    assert_eq!((&able["sampling"], &able["roots"]), (&json!({}), &json!({})), "{able}");
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 7}});
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, waits_for(json!({"a": form("Go?"), "r": {"method": "roots/list"}, "s": sample}))).await;
    let update = peer.expect("tasks/update").await;
    assert_eq!(update["params"]["taskId"], "t1");
    let answers = &update["params"]["inputResponses"];
    assert_eq!(answers["a"], json!({"action": "accept", "content": {"go": true}}), "{answers}");
    assert_eq!(answers["r"]["roots"][0]["uri"], "file:///work", "{answers}");
    assert_eq!(answers["s"]["content"]["text"], "because", "{answers}");
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    // The server is slow to show that it has it; then it asks something more.
    for questions in [json!({"a": form("Go?")}), json!({"a": form("Go?"), "b": form("Sure?")})] {
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, waits_for(questions)).await;
    }
    let update = peer.expect("tasks/update").await;
    let keys: Vec<_> = update["params"]["inputResponses"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["b"]);
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
    assert_eq!(*asked.lock().unwrap(), ["Go?", "sample 7", "Sure?"]);
}

/// D8 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn d8_an_old_answer_that_comes_again_asks_nobody_and_ends_nothing() {
    let (options, asked) = answering();
    let (client, mut peer) = peer::modern(options).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    let (working, asking) = (d3("working", json!({})), waits_for(json!({"a": form("Go?")})));
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, asking.clone()).await;
    let update = peer.expect("tasks/update").await;
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    // Something on the way has kept them.
    for old in [working.clone(), asking, working.clone(), working] {
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, old).await;
    }
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
    assert_eq!(*asked.lock().unwrap(), ["Go?"]);
}

/// RP-05 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_and_asks_nothing_new_is_stuck_and_cancelled() {
    let (options, asked) = answering();
    let (client, mut peer) = peer::modern(options.stuck_after(3)).await;
    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, d3("working", json!({ "resultType": "task" }))).await;
    let waiting = || waits_for(json!({"a": form("Go?")}));
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, waiting()).await;
    let update = peer.expect("tasks/update").await;
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    // Twice with nothing new, a sign of life, and then three times.
    let said = [waiting(), waiting(), d3("working", json!({})), waiting(), waiting(), waiting()];
    for said in said {
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, said).await;
    }
    let cancel = peer.expect("tasks/cancel").await;
    assert_eq!(cancel["params"]["taskId"], "t1");
    peer.answer(&cancel, json!({ "resultType": "complete" })).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Stuck { task: Some(id), times: 3, .. } if id == "t1"), "{error:?}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

/// An answer that was given is not lost with its message.
#[tokio::test(start_paused = true)]
async fn an_answer_that_may_not_have_come_is_sent_again_and_not_asked_for() {
    let (options, asked) = answering();
    let (client, mut peer) = peer::modern(options.retry_for(Duration::ZERO)).await;
    let task = Arc::new(client.task("t1"));
    let wait = || {
        let task = Arc::clone(&task);
        tokio::spawn(async move { task.wait().await })
    };
    let waiting = wait();
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, waits_for(json!({"a": form("Go?")}))).await;
    let first = peer.expect("tasks/update").await;
    let busy = json!({ "code": -31001, "message": "busy", "data": { "retryAfterMs": 10 } });
    peer.send(json!({ "jsonrpc": "2.0", "id": first["id"], "error": busy })).await;
    assert!(waiting.await.unwrap().unwrap_err().is_throttled());
    let waiting = wait();
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, waits_for(json!({"a": form("Go?")}))).await;
    let second = peer.expect("tasks/update").await;
    assert_eq!(first["params"]["inputResponses"], second["params"]["inputResponses"]);
    peer.answer(&second, json!({ "resultType": "complete" })).await;
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    waiting.await.unwrap().unwrap();
    assert_eq!(*asked.lock().unwrap(), ["Go?"]);
}

/// RP-05 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a_task_is_watched_answered_and_come_back_to_by_hand() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let task = start(&client, &mut peer).await;
    let saved = serde_json::to_string(&task).unwrap();
    let (task, change) = {
        let looking = tokio::spawn(async move {
            let change = {
                let mut changes = task.changes();
                assert_eq!(changes.next().await.unwrap().unwrap().status, TaskStatus::Working);
                changes.next().await.unwrap().unwrap()
            };
            (task, change)
        });
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, waits_for(json!({"a": form("Go?")}))).await;
        looking.await.unwrap()
    };
    assert_eq!((change.status, change.questions[0].0.as_str()), (TaskStatus::InputRequired, "a"));
    let answering = tokio::spawn(async move {
        let content = serde_json::value::to_raw_value(&json!({"go": true})).unwrap();
        task.answer([("a", ElicitResult::accepted(content))]).await.unwrap();
        task.save()
    });
    let update = peer.expect("tasks/update").await;
    let answer = json!({"a": {"action": "accept", "content": {"go": true}}});
    assert_eq!((&update["params"]["taskId"], &update["params"]["inputResponses"]), (&json!("t1"), &answer));
    peer.answer(&update, json!({ "resultType": "complete" })).await;
    let answered = answering.await.unwrap();
    assert_eq!(answered.answered, ["a"]);

    let mut saved: SavedTask = serde_json::from_str(&saved).unwrap();
    assert_eq!((saved.server.as_str(), saved.tool.as_deref()), ("a stream to peer", Some("build")));
    saved.answered = answered.answered;
    let resumed = client.resume(&saved).unwrap();
    let waiting = tokio::spawn(async move { resumed.wait().await });
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d3("completed", json!({ "result": text("built") }))).await;
    waiting.await.unwrap().unwrap();
    saved.server = "https://another.example/mcp".to_owned();
    assert!(matches!(client.resume(&saved), Err(Error::Target { .. })), "its id is shown to nobody else");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_leaves_its_task_waiting() {
    let (options, _) = answering();
    let (client, mut peer) = peer::modern(options).await;
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 0}});
    let page = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "There", "url": "https://a.example"}});
    for question in [sample, page, json!({"method": "tools/call"})] {
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.task("t1").wait().await }
        });
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, waits_for(json!({"a": question}))).await;
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::InputRequired { task: Some(id), .. } if id == "t1"), "{error:?}");
    }
}

/// In 2025-11-25 a task's questions are requests that may come on the way of its result alone.
#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_of_a_session_is_asked_for_once_it_asks() {
    let (options, asked) = answering();
    let (client, mut peer) = peer::legacy(options.stuck_after(3), tasks()).await;
    let calling = spawn_call(&client);
    list_tools(&mut peer, "optional").await;
    let call = peer.expect("tools/call").await;
    peer.answer(&call, json!({ "task": d2("working") })).await;
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d2("input_required")).await;
    let result = peer.expect("tasks/result").await;
    let mut question = form("Go?");
    (question["jsonrpc"], question["id"]) = (json!("2.0"), json!("q1"));
    peer.send(question).await;
    let answer = peer.message().await.unwrap();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"]),
        (&json!("q1"), &json!({"go": true})),
        "{answer}"
    );
    let get = peer.expect("tasks/get").await;
    peer.answer(&get, d2("working")).await;
    peer.answer(&result, text("built")).await;
    assert_eq!(calling.await.unwrap().unwrap(), "built");
    assert_eq!(*asked.lock().unwrap(), ["Go?"]);

    let calling = spawn_call(&client);
    let call = peer.expect("tools/call").await;
    peer.answer(&call, json!({ "task": d2("input_required") })).await;
    let _unanswered = peer.expect("tasks/result").await;
    for _ in 0..3 {
        let get = peer.expect("tasks/get").await;
        peer.answer(&get, d2("input_required")).await;
    }
    let cancel = peer.expect("tasks/cancel").await;
    peer.answer(&cancel, d2("cancelled")).await;
    assert!(matches!(calling.await.unwrap(), Err(Error::Stuck { times: 3, .. })));
}
