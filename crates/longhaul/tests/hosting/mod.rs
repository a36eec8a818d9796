//! What a server asks, as tasks that the client hosts (2025-11-25, Tasks).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{CallOptions, Client, Command, Hosting, Options, Target};
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitResult, Progress, SamplingMessage,
};
use longhaul::server::{Elicited, ToolError, local_user};
use longhaul::store::{Memory, Outcome, Overlay as _};
use longhaul::{Cx, Server, Tool, driver};
use longhaul_test::Lasting;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::peer::Peer;
use super::user::{code_of, connected, hosting, is_answered, outcomes};

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn form(task: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "go": { "type": "boolean" } } });
    json!({ "mode": "form", "message": "Go on?", "requestedSchema": schema, "task": task })
}

fn sample(tokens: u64) -> Value {
    let asks = json!({ "role": "user", "content": { "type": "text", "text": "What is it?" } });
    json!({ "messages": [asks], "maxTokens": tokens, "task": {} })
}

/// Makes a request of the server, and gives what is answered to it and what was notified before.
async fn ask(peer: &mut Peer, id: i64, method: &str, params: Value) -> (Value, Vec<Value>) {
    peer.send(request(id, method, params)).await;
    let mut told = Vec::new();
    loop {
        let message = peer.message().await.unwrap();
        if message["id"] == id {
            return (message, told);
        }
        told.push(message);
    }
}

async fn create(peer: &mut Peer, id: i64, method: &str, params: Value) -> Value {
    let (created, told) = ask(peer, id, method, params).await;
    assert!(told.is_empty(), "nothing is told of a task before it is known: {told:?}");
    created["result"]["task"].clone()
}

#[tokio::test]
async fn r2_68_a_question_becomes_a_task_that_its_server_follows_to_its_result() {
    let (options, user) = hosting(Hosting::default());
    let (client, mut peer) = connected(options).await;
    let declared = json!({
        "list": {}, "cancel": {}, "requests": { "sampling": { "createMessage": {} }, "elicitation": { "create": {} } }
    });
    assert_eq!(peer.declared["tasks"], declared);

    let task = create(&mut peer, 1, "elicitation/create", form(json!({ "ttl": 60_000 }))).await;
    assert_eq!(
        (&task["status"], &task["ttl"], &task["pollInterval"]),
        (&json!("working"), &Value::Null, &json!(1000))
    );
    let id = task["taskId"].clone();
    let (got, _) = ask(&mut peer, 2, "tasks/get", json!({ "taskId": id })).await;
    assert_eq!((&got["result"]["taskId"], &got["result"]["status"]), (&id, &json!("working")));
    let (listed, _) = ask(&mut peer, 3, "tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id);

    peer.send(request(4, "tasks/result", json!({ "taskId": id }))).await;
    user.answers.notify_one();
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(peer.message().await.unwrap());
    }
    let result = told.iter().find(|message| message["id"] == 4).unwrap();
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
    let said = json!({ "action": "accept", "content": { "go": true }, "_meta": related });
    assert_eq!(result["result"], said);
    let news = told.iter().find(|message| message["method"] == "notifications/tasks/status").unwrap();
    assert_eq!((&news["params"]["taskId"], &news["params"]["status"]), (&id, &json!("completed")));
    assert_eq!(news["params"].get("_meta"), None, "{news}");

    let (got, _) = ask(&mut peer, 5, "tasks/get", json!({ "taskId": id })).await;
    // At least five minutes, however soon its server wants it forgotten.
    assert!(got["result"]["ttl"].as_u64().unwrap() >= 300_000, "{got}");
    let (again, _) = ask(&mut peer, 6, "tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(code_of(&again), -32602);
    assert_eq!(*user.asked.lock().unwrap(), ["Go on?"]);
    client.close().await;
}

#[tokio::test]
async fn a_question_without_a_task_is_answered_in_place_and_one_to_who_hosts_none_too() {
    let (options, user) = hosting(Hosting::default());
    let (_client, mut peer) = connected(options).await;
    user.answers.notify_one();
    let mut plain = form(Value::Null);
    plain.as_object_mut().unwrap().remove("task");
    let (answer, _) = ask(&mut peer, 1, "elicitation/create", plain).await;
    assert_eq!(answer["result"]["action"], "accept");

    let options = Options::default().on_form(|_| async { ElicitResult::declined() });
    let (_client, mut peer) = connected(options).await;
    assert_eq!(peer.declared.get("tasks"), None);
    let (answer, _) = ask(&mut peer, 1, "elicitation/create", form(json!({}))).await;
    assert_eq!(answer["result"], json!({ "action": "decline" }));
    let (answer, _) = ask(&mut peer, 2, "tasks/list", json!({})).await;
    assert_eq!(code_of(&answer), -32601);
}

#[tokio::test]
async fn what_the_model_says_and_what_is_refused_is_fetched_as_it_was_said() {
    let (options, _) = hosting(Hosting::default());
    let (_client, mut peer) = connected(options).await;
    for (id, tokens, status) in [(1, 10, "completed"), (2, 0, "failed")] {
        let task = create(&mut peer, 10 * id, "sampling/createMessage", sample(tokens)).await;
        let about = json!({ "taskId": task["taskId"] });
        let (result, _) = ask(&mut peer, 10 * id + 1, "tasks/result", about.clone()).await;
        match tokens {
            0 => {
                assert_eq!((code_of(&result), &result["error"]["message"]), (-1, &json!("the user says no")))
            }
            _ => assert_eq!(result["result"]["content"]["text"], "Forty-two.", "{result}"),
        }
        let (got, _) = ask(&mut peer, 10 * id + 2, "tasks/get", about).await;
        assert_eq!(got["result"]["status"], status);
    }
    for (id, method, odd) in [
        (50, "tasks/get", json!({ "taskId": "nobody" })),
        (51, "tasks/result", json!({ "taskId": "nobody" })),
        (52, "tasks/cancel", json!({ "taskId": "nobody" })),
        (53, "tasks/get", json!({})),
        (54, "tasks/list", json!({ "cursor": "nowhere" })),
        (55, "elicitation/create", json!({ "task": {} })),
        (56, "elicitation/create", form(json!(1))),
    ] {
        let (refused, _) = ask(&mut peer, id, method, odd).await;
        assert_eq!(code_of(&refused), -32602, "{method}");
    }
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_at_once_and_nobody_waits_for_the_user() {
    let (options, user) = hosting(Hosting::default());
    let (_client, mut peer) = connected(options).await;
    let task = create(&mut peer, 1, "elicitation/create", form(json!({}))).await;
    let about = json!({ "taskId": task["taskId"] });
    let (cancelled, _) = ask(&mut peer, 2, "tasks/cancel", about.clone()).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
    user.left.notified().await;
    let (result, _) = ask(&mut peer, 3, "tasks/result", about).await;
    assert_eq!(code_of(&result), -32603);
}

#[tokio::test]
async fn no_server_sees_the_tasks_of_another_and_too_many_are_refused() {
    let (options, user) = hosting(Hosting::default().max_waiting(1));
    let options = options.max_questions(1);
    let (_client, mut one) = connected(options.clone()).await;
    let (_other, mut two) = connected(options).await;
    let task = create(&mut one, 1, "elicitation/create", form(json!({}))).await;
    let about = json!({ "taskId": task["taskId"] });
    for (id, method) in [(2, "tasks/get"), (3, "tasks/result"), (4, "tasks/cancel")] {
        let (refused, _) = ask(&mut two, id, method, about.clone()).await;
        assert_eq!(code_of(&refused), -32602, "{method}");
    }
    let (listed, _) = ask(&mut two, 5, "tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]));

    let (refused, _) = ask(&mut one, 6, "elicitation/create", form(json!({}))).await;
    assert_eq!(code_of(&refused), -32603, "one question waits already");
    one.send(request(7, "tasks/result", about)).await;
    let (refused, _) = ask(&mut one, 8, "tasks/list", json!({})).await;
    assert!(refused["error"]["data"]["retryAfterMs"].is_u64(), "one request waits already: {refused}");
    // One that is withdrawn makes room, and is not answered.
    one.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }))
        .await;
    for id in 9.. {
        let (listed, told) = ask(&mut one, id, "tasks/list", json!({})).await;
        assert!(told.is_empty(), "{told:?}");
        if listed.get("result").is_some() {
            break;
        }
    }
    user.answers.notify_one();
}

#[tokio::test]
async fn what_is_kept_in_memory_ends_with_its_connection() {
    for closes in [true, false] {
        let (options, user) = hosting(Hosting::default());
        let (client, mut peer) = connected(options).await;
        create(&mut peer, 1, "elicitation/create", form(json!({}))).await;
        if closes {
            drop(peer);
        } else {
            drop(client);
        }
        user.left.notified().await;
    }
}

#[tokio::test]
async fn what_is_kept_on_a_disk_outlives_its_connection() {
    let store = Arc::new(Lasting::default());
    let (options, user) = hosting(Hosting::in_store(Arc::clone(&store)));
    let (client, mut peer) = connected(options).await;
    create(&mut peer, 1, "elicitation/create", form(json!({}))).await;
    drop((client, peer));
    user.answers.notify_one();
    user.left.notified().await;
    is_answered(store.below()).await;
}

#[derive(Deserialize, JsonSchema)]
struct Go {
    go: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A server of ours in this process that asks so, and how to connect to it.
fn asking() -> Target {
    let tool = Tool::typed("release", "Ask first", |cx: Cx, Nothing {}| async move {
        let asked = cx.elicit::<Go>("Go on?").as_task(Duration::from_secs(60));
        match asked.await? {
            Elicited::Accepted(Go { go: true }) => Ok("released"),
            _ => Err(ToolError::new("not released")),
        }
    });
    let dispatcher = Server::new("ours", "1").tool(tool).dispatcher().unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let ((reader, writer), options) = (tokio::io::split(ours), driver::Options::default());
    tokio::spawn(driver::serve(dispatcher, local_user(), reader, writer, options, std::future::pending()));
    let (reader, writer) = tokio::io::split(theirs);
    Target::stream(reader, writer)
}

#[tokio::test]
async fn a_server_of_ours_has_its_question_made_a_task_where_its_client_hosts_some() {
    for (revision, tasks) in
        [(Revision::V2025_11_25, 1), (Revision::V2025_06_18, 0), (Dialect::newest_modern().revision(), 0)]
    {
        let store = Arc::new(Memory::new());
        let (options, user) = hosting(Hosting::in_store(Arc::clone(&store)));
        let client = Client::connect_with(asking(), options.revision(revision)).await.unwrap();
        user.answers.notify_one();
        let result = client.call("release", &json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("released"), "{revision}");
        assert_eq!(outcomes(&*store).await.len(), tasks, "{revision}");
    }
}

#[tokio::test]
async fn a_question_that_is_no_longer_wanted_is_cancelled_as_the_task_that_it_is() {
    let store = Arc::new(Memory::new());
    let (options, user) = hosting(Hosting::in_store(Arc::clone(&store)));
    let client = Client::connect_with(asking(), options.revision(Revision::V2025_11_25)).await.unwrap();
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call("release", &json!({})).await }
    });
    let asked = async {
        while user.asked() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.unwrap();
    calling.abort();
    user.left.notified().await;
    assert!(matches!(outcomes(&*store).await[..], [Some(Outcome::Cancelled { .. })]));
}

/// No test, but the server of one: it thinks aloud, with its client's model.
#[tokio::test]
#[ignore = "it is a program that another test starts"]
async fn a_program_that_asks() {
    if std::env::var_os("ASKS").is_none() {
        return;
    }
    let tool = Tool::typed("think", "Ask a model", |cx: Cx, Nothing {}| async move {
        let asks = CreateMessageParams::new(vec![SamplingMessage::user("What is it?")], 10);
        let asked = cx.sample(asks).as_task(Duration::from_secs(60));
        let (said, ()) = tokio::join!(asked, async {
            cx.progress(Progress::new(1.0)).await;
            cx.progress(Progress::new(2.0)).await;
        });
        cx.progress(Progress::new(3.0)).await;
        Ok::<_, ToolError>(said?.text())
    });
    Server::new("asks", "1").tool(tool).serve_stdio().await.unwrap();
    // Nothing more is to be said where messages were.
    std::process::exit(0);
}

#[tokio::test]
async fn a_program_has_its_question_made_a_task_and_tells_how_far_it_is_meanwhile() {
    let (halfway, heard) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let store = Arc::new(Memory::new());
    let waits = Arc::clone(&halfway);
    let hosting = Options::default().host_tasks(Hosting::in_store(Arc::clone(&store)));
    let options = hosting.revision(Revision::V2025_11_25).on_sample(move |_| {
        let waits = Arc::clone(&waits);
        async move {
            // What its server tells is heard while the question waits.
            waits.notified().await;
            Ok(CreateMessageResult::new("the model", "Forty-two."))
        }
    });
    let words = ["hosting::a_program_that_asks", "--exact", "--ignored", "--nocapture"];
    let program = Command::new(std::env::current_exe().unwrap()).args(words).env("ASKS", "yes");
    let client = Client::connect_with(program, options).await.unwrap();
    let told = Arc::clone(&heard);
    let listens = CallOptions::default().on_progress(move |progress| {
        told.lock().unwrap().push(progress.value);
        if progress.value >= 2.0 {
            halfway.notify_one();
        }
    });
    let nothing = json!({});
    let calling = client.call_with("think", &nothing, listens);
    let result = tokio::time::timeout(Duration::from_secs(60), calling).await.unwrap().unwrap();
    assert_eq!(result.content[0].as_text(), Some("Forty-two."), "{result:?}");
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
    let ended = outcomes(&*store).await;
    let [Some(Outcome::Result { value, .. })] = &ended[..] else { panic!("{ended:?}") };
    assert!(value.as_str().contains("Forty-two."), "{value:?}");
    client.close().await;
}
