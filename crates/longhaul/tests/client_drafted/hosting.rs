//! What a server asks, as tasks that it names and the client hosts.

use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{Client, Hosting, Options};
use longhaul::proto::dialect::Revision;
use longhaul::store::{Memory, Overlay as _, Settings, SystemClock};
use longhaul_test::Lasting;
use serde_json::{Value, json};

use super::peer::Peer;
use super::related;
use super::user::{self, User, code_of, connected};

fn options() -> (Options, Arc<User>) {
    hosting(Hosting::default().ttl(Duration::from_secs(60), Duration::from_secs(600)))
}

fn hosting(hosting: Hosting) -> (Options, Arc<User>) {
    let (options, user) = user::hosting(hosting);
    (options.drafted_tasks(true), user)
}

fn named(id: impl Into<Value>) -> Value {
    json!({ "modelcontextprotocol.io/task": { "taskId": id.into(), "keepAlive": 5_000 } })
}

fn kept(id: &str, keep: Value) -> Value {
    json!({ "modelcontextprotocol.io/task": { "taskId": id, "keepAlive": keep } })
}

fn form(message: &str, meta: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "go": { "type": "boolean" } } });
    json!({ "mode": "form", "message": message, "requestedSchema": schema, "_meta": meta })
}

fn sample(tokens: u64, meta: Value) -> Value {
    let asks = json!({ "role": "user", "content": { "type": "text", "text": "What is it?" } });
    json!({ "messages": [asks], "maxTokens": tokens, "_meta": meta })
}

async fn send(peer: &mut Peer, id: i64, method: &str, params: Value) {
    peer.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
}

async fn withdraw(peer: &mut Peer, id: i64) {
    let params = json!({ "requestId": id });
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
}

/// Makes a request, and hears that there is its task.
async fn create(peer: &mut Peer, id: i64, method: &str, params: Value) {
    let task = params["_meta"]["modelcontextprotocol.io/task"]["taskId"].clone();
    send(peer, id, method, params).await;
    let created = peer.expect("notifications/tasks/created").await;
    assert_eq!(created["params"], json!({ "_meta": related(task.as_str().unwrap()) }));
}

/// What is answered to the next of its requests that is. Of tasks that are none of the draft's it is told besides.
async fn answer(peer: &mut Peer, id: i64) -> Value {
    let mut answer = peer.message().await.unwrap();
    while answer["method"] == "notifications/tasks/status" {
        answer = peer.message().await.unwrap();
    }
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

/// What is answered to a request that is no task.
async fn ask(peer: &mut Peer, id: i64, method: &str, params: Value) -> Value {
    send(peer, id, method, params).await;
    answer(peer, id).await
}

/// What is answered about a task, which is asked by its draft's words.
async fn about(peer: &mut Peer, id: i64, method: &str, task: &str) -> Value {
    ask(peer, id, method, json!({ "taskId": task, "_meta": related(task) })).await
}

fn accepted(task: &str) -> Value {
    json!({ "action": "accept", "content": { "go": true }, "_meta": related(task) })
}

#[tokio::test]
async fn a_question_that_its_server_names_is_a_task_and_is_answered_all_the_same() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options).await;
    let declared = &peer.declared["tasks"];
    assert_eq!(declared["elicitation"], json!({ "create": true }));
    assert_eq!(declared["sampling"], json!({ "createMessage": true }));
    assert!(declared["requests"].is_object(), "what is newer is declared beside it: {declared}");

    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    let got = about(&mut peer, 2, "tasks/get", "ask").await["result"].clone();
    assert_eq!(
        (&got["taskId"], &got["status"], &got["keepAlive"], &got["pollFrequency"], &got["_meta"]),
        (&json!("ask"), &json!("working"), &json!(5_000), &json!(1_000), &related("ask"))
    );
    assert_eq!(code_of(&about(&mut peer, 3, "tasks/result", "ask").await), -32602);
    assert_eq!(code_of(&about(&mut peer, 4, "tasks/delete", "ask").await), -32602);
    user.answers.notify_one();
    assert_eq!(answer(&mut peer, 1).await["result"], accepted("ask"));

    for id in [5, 6] {
        assert_eq!(about(&mut peer, id, "tasks/result", "ask").await["result"], accepted("ask"));
    }
    let listed = ask(&mut peer, 7, "tasks/list", json!({})).await["result"]["tasks"].clone();
    assert_eq!((&listed[0]["taskId"], &listed[0]["status"]), (&json!("ask"), &json!("completed")));
    let deleted = about(&mut peer, 8, "tasks/delete", "ask").await;
    assert_eq!(deleted["result"], json!({ "_meta": related("ask") }));
    for (id, method) in [(9, "tasks/get"), (10, "tasks/result"), (11, "tasks/delete")] {
        assert_eq!(code_of(&about(&mut peer, id, method, "ask").await), -32602, "{method}");
    }
    assert_eq!(ask(&mut peer, 12, "tasks/list", json!({})).await["result"]["tasks"], json!([]));
}

#[tokio::test]
async fn what_the_model_says_and_what_is_refused_is_answered_and_told_of_its_task() {
    let (options, _) = options();
    let (_client, mut peer) = connected(options).await;
    create(&mut peer, 1, "sampling/createMessage", sample(10, kept("think", Value::Null))).await;
    let said = answer(&mut peer, 1).await["result"].clone();
    assert_eq!((&said["content"]["text"], &said["_meta"]), (&json!("Forty-two."), &related("think")));
    assert_eq!(about(&mut peer, 2, "tasks/result", "think").await["result"], said);
    let got = about(&mut peer, 3, "tasks/get", "think").await["result"].clone();
    let longest = (&json!("completed"), &json!(600_000));
    assert_eq!((&got["status"], &got["keepAlive"]), longest, "as long as the client lets it be");

    create(&mut peer, 4, "sampling/createMessage", sample(0, named("no"))).await;
    assert_eq!(code_of(&answer(&mut peer, 4).await), -1);
    create(&mut peer, 5, "elicitation/create", form("Panic?", named("broken"))).await;
    assert_eq!(code_of(&answer(&mut peer, 5).await), -32603);
    for (id, task, why) in
        [(6, "no", "the user says no"), (8, "broken", "internal error: answering the request panicked")]
    {
        let got = about(&mut peer, id, "tasks/get", task).await["result"].clone();
        assert_eq!((&got["status"], &got["error"]), (&json!("failed"), &json!(why)));
        let refused = about(&mut peer, id + 1, "tasks/result", task).await;
        assert_eq!(
            (code_of(&refused), &refused["error"]["data"]["status"]),
            (-32602, &json!("failed")),
            "only what is completed has a result"
        );
    }

    // It is forgotten as soon as it has ended, and its request is answered all the same.
    create(&mut peer, 10, "sampling/createMessage", sample(10, kept("brief", json!(0)))).await;
    assert_eq!(answer(&mut peer, 10).await["result"]["content"]["text"], "Forty-two.");
    assert_eq!(code_of(&about(&mut peer, 11, "tasks/get", "brief").await), -32602);
}

#[tokio::test]
async fn a_drafted_question_that_is_no_longer_wanted_is_cancelled_and_not_answered() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options).await;
    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    withdraw(&mut peer, 1).await;
    user.left.notified().await;
    let mut id = 2;
    while about(&mut peer, id, "tasks/get", "ask").await["result"]["status"] != "cancelled" {
        id += 1;
    }
    // It is what the name stands for, and asking again changes nothing of that.
    create(&mut peer, 1000, "elicitation/create", form("Go?", named("ask"))).await;
    assert_eq!(code_of(&answer(&mut peer, 1000).await), -32603);
    assert_eq!(user.asked(), 1);
    // What has ended, or never was, is cancelled in vain.
    withdraw(&mut peer, 1).await;
    withdraw(&mut peer, 4711).await;
    assert_eq!(about(&mut peer, 1001, "tasks/get", "ask").await["result"]["status"], "cancelled");
}

#[tokio::test]
async fn one_name_is_for_one_question_and_is_asked_once() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options).await;
    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    let taken = ask(&mut peer, 2, "elicitation/create", form("Stop?", named("ask"))).await;
    assert_eq!((code_of(&taken), &taken["error"]["data"]["taskId"]), (-32602, &json!("ask")), "{taken}");
    let other = ask(&mut peer, 3, "sampling/createMessage", sample(10, named("ask"))).await;
    assert_eq!(code_of(&other), -32602);
    // The same is asked again, for longer and with a token; and once more, by who gives up.
    let mut again = form("Go?", kept("ask", json!(9_000)));
    again["_meta"]["progressToken"] = json!(7);
    create(&mut peer, 4, "elicitation/create", again).await;
    create(&mut peer, 5, "elicitation/create", form("Go?", named("ask"))).await;
    withdraw(&mut peer, 5).await;
    let got = about(&mut peer, 6, "tasks/get", "ask").await["result"].clone();
    assert_eq!((&got["status"], &got["keepAlive"]), (&json!("working"), &json!(5_000)));
    user.answers.notify_one();
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let answer = peer.message().await.unwrap();
        assert_eq!(answer["result"], accepted("ask"), "{answer}");
        answered.push(answer["id"].as_i64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 4]);

    // After its end the name stands for what was said, and once that is deleted for nothing.
    create(&mut peer, 7, "elicitation/create", form("Go?", named("ask"))).await;
    assert_eq!(answer(&mut peer, 7).await["result"], accepted("ask"));
    let taken = ask(&mut peer, 8, "elicitation/create", form("Stop?", named("ask"))).await;
    assert_eq!(code_of(&taken), -32602);
    about(&mut peer, 9, "tasks/delete", "ask").await;
    let spent = ask(&mut peer, 10, "elicitation/create", form("Go?", named("ask"))).await;
    assert_eq!(code_of(&spent), -32602, "each task has an id of its own: {spent}");
    assert_eq!(user.asked(), 1);
}

#[tokio::test]
async fn a_task_that_is_named_wrongly_is_refused_and_nobody_is_asked() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options).await;
    let long = "x".repeat(257);
    let bad = ["", "two words", "\u{e9}", "a\r\nb", &long].map(named);
    let odd = [
        named(7),
        named(Value::Null),
        kept("ask", json!(-1)),
        kept("ask", json!("1")),
        json!({ "modelcontextprotocol.io/task": {} }),
        json!({ "modelcontextprotocol.io/task": "ask" }),
        json!("ask"),
    ];
    for (id, meta) in (1..).zip(bad.into_iter().chain(odd)) {
        for (id, method, params) in [
            (id, "elicitation/create", form("Go?", meta.clone())),
            (id + 100, "sampling/createMessage", sample(10, meta.clone())),
        ] {
            let refused = ask(&mut peer, id, method, params).await;
            assert_eq!(code_of(&refused), -32602, "{meta}");
            assert!(refused["error"]["message"].as_str().unwrap().len() > 20, "it says why: {refused}");
        }
    }
    for (id, method, params) in [
        (300, "tasks/get", json!({ "taskId": "nobody" })),
        (301, "tasks/result", json!({ "taskId": "nobody" })),
        (302, "tasks/delete", json!({ "taskId": "nobody" })),
        (303, "tasks/get", json!({ "taskId": 7 })),
        (304, "tasks/delete", json!({})),
        (305, "tasks/list", json!({ "cursor": "nowhere" })),
        (306, "elicitation/create", json!({ "_meta": named("ask") })),
    ] {
        assert_eq!(code_of(&ask(&mut peer, id, method, params).await), -32602, "{id}");
    }
    assert_eq!(user.asked(), 0);
    create(&mut peer, 400, "elicitation/create", form("Go?", named("ask"))).await;
    user.answers.notify_one();
    assert_eq!(answer(&mut peer, 400).await["result"], accepted("ask"), "none of that took the name");
}

#[tokio::test]
async fn no_server_sees_the_drafted_tasks_of_another_and_too_many_are_refused() {
    let mut settings = Settings::default();
    settings.limits.max_open_per_owner = 1;
    let (options, user) = hosting(Hosting::in_store(Memory::with(settings, Arc::new(SystemClock::new()))));
    let (_client, mut one) = connected(options.clone()).await;
    let (_other, mut two) = connected(options.max_questions(1)).await;
    create(&mut one, 1, "elicitation/create", form("Go?", named("ask"))).await;
    for (id, method) in [(2, "tasks/get"), (3, "tasks/result"), (4, "tasks/delete")] {
        assert_eq!(code_of(&about(&mut two, id, method, "ask").await), -32602, "{method}");
    }
    assert_eq!(ask(&mut two, 5, "tasks/list", json!({})).await["result"]["tasks"], json!([]));
    // A name is its server's alone.
    create(&mut two, 6, "elicitation/create", form("Stop?", named("ask"))).await;
    let waits = ask(&mut two, 7, "elicitation/create", form("Go?", named("more"))).await;
    assert_eq!(code_of(&waits), -32603, "one question waits already");
    let full = ask(&mut one, 8, "elicitation/create", form("Go?", named("more"))).await;
    assert!(full["error"]["data"]["retryAfterMs"].is_u64(), "one task is open already: {full}");

    user.answers.notify_one();
    assert_eq!(answer(&mut one, 1).await["result"], accepted("ask"));
    create(&mut one, 9, "elicitation/create", form("Go?", named("more"))).await;
    user.answers.notify_one();
    answer(&mut two, 6).await;
    user.answers.notify_one();
    assert_eq!(answer(&mut one, 9).await["result"], accepted("more"), "what was refused may be asked again");
}

#[tokio::test]
async fn only_so_many_wait_for_one_answer_by_naming_its_question_again() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options.max_questions(2)).await;
    for id in [1, 2] {
        create(&mut peer, id, "elicitation/create", form("Go?", named("ask"))).await;
    }
    for id in 3.. {
        let refused = ask(&mut peer, id, "elicitation/create", form("Go?", named("ask"))).await;
        assert_eq!(code_of(&refused), -32603, "{refused}");
        // Until the second has joined the first it waits for the user itself.
        if refused["error"]["data"]["retryAfterMs"].is_u64() {
            break;
        }
    }
    user.answers.notify_one();
    let (one, other) = (peer.message().await.unwrap(), peer.message().await.unwrap());
    assert_eq!((&one["result"], &other["result"]), (&accepted("ask"), &accepted("ask")));
    create(&mut peer, 1000, "elicitation/create", form("Go?", named("ask"))).await;
    assert_eq!(answer(&mut peer, 1000).await["result"], accepted("ask"), "there is room again");
}

#[tokio::test]
async fn both_forms_stand_side_by_side_and_the_newer_counts_where_a_request_has_both() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options).await;
    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    let mut both = form("Go?", named("both"));
    both["task"] = json!({});
    let agreed = ask(&mut peer, 2, "elicitation/create", both).await["result"]["task"].clone();
    let id = agreed["taskId"].as_str().unwrap();
    assert_eq!((id == "both", &agreed["status"]), (false, &json!("working")));
    assert_eq!(code_of(&about(&mut peer, 3, "tasks/get", "both").await), -32602);

    let listed = ask(&mut peer, 4, "tasks/list", json!({})).await["result"]["tasks"].clone();
    let mut ids: Vec<_> = listed.as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect();
    ids.sort_by_key(|listed| listed == id);
    assert_eq!(ids, [json!("ask"), json!(id)]);
    let got = ask(&mut peer, 5, "tasks/get", json!({ "taskId": id })).await["result"].clone();
    assert!(got["createdAt"].is_string() && got.get("keepAlive").is_none(), "{got}");
    // The draft has no such request, and its own is not for the others.
    assert_eq!(code_of(&about(&mut peer, 6, "tasks/cancel", "ask").await), -32602);
    assert_eq!(code_of(&about(&mut peer, 7, "tasks/delete", id).await), -32602);
    let cancelled = ask(&mut peer, 8, "tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
    user.left.notified().await;
    user.answers.notify_one();
    assert_eq!(answer(&mut peer, 1).await["result"], accepted("ask"));
}

#[tokio::test]
async fn a_revision_without_tasks_has_those_of_the_draft_alone() {
    let (options, user) = options();
    let (mut peer, target) = Peer::new();
    let connecting = tokio::spawn(Client::connect_with(target, options.revision(Revision::V2025_06_18)));
    let initialize = peer.expect("initialize").await;
    let declared = json!({ "elicitation": { "create": true }, "sampling": { "createMessage": true } });
    assert_eq!(initialize["params"]["capabilities"]["tasks"], declared);
    let info = json!({ "name": "peer", "version": "9" });
    let welcome =
        json!({ "protocolVersion": "2025-06-18", "serverInfo": info, "capabilities": { "tools": {} } });
    peer.answer(&initialize, welcome).await;
    let _client = connecting.await.unwrap().unwrap();
    peer.expect("notifications/initialized").await;

    let mut both = form("Go?", named("ask"));
    both["task"] = json!({});
    create(&mut peer, 1, "elicitation/create", both).await;
    let listed = ask(&mut peer, 2, "tasks/list", json!({})).await["result"]["tasks"][0].clone();
    assert_eq!(
        listed,
        json!({ "taskId": "ask", "status": "working", "keepAlive": 5_000, "pollFrequency": 1_000 })
    );
    assert_eq!(code_of(&about(&mut peer, 3, "tasks/cancel", "ask").await), -32601);
    user.answers.notify_one();
    assert_eq!(answer(&mut peer, 1).await["result"], accepted("ask"));
}

#[tokio::test]
async fn without_the_switch_a_question_is_answered_as_ever() {
    let (options, user) = options();
    let (_client, mut peer) = connected(options.drafted_tasks(false)).await;
    assert!(peer.declared["tasks"].get("elicitation").is_none(), "{}", peer.declared);
    // Whatever it says of a task is passed over.
    for (id, meta) in [(1, named("ask")), (2, named(7))] {
        send(&mut peer, id, "elicitation/create", form("Go?", meta)).await;
        user.answers.notify_one();
        let answer = answer(&mut peer, id).await;
        assert_eq!(answer["result"], json!({ "action": "accept", "content": { "go": true } }));
    }
    assert_eq!(code_of(&about(&mut peer, 3, "tasks/get", "ask").await), -32602);
    assert_eq!(code_of(&ask(&mut peer, 4, "tasks/delete", json!({ "taskId": "ask" })).await), -32601);
}

#[tokio::test]
async fn a_drafted_task_in_memory_ends_with_its_connection_and_one_on_a_disk_does_not() {
    let (in_memory, user) = options();
    let (client, mut peer) = connected(in_memory).await;
    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    drop(peer);
    user.left.notified().await;
    drop(client);

    let store = Arc::new(Lasting::default());
    let (options, user) = hosting(Hosting::in_store(Arc::clone(&store)));
    let (client, mut peer) = connected(options).await;
    create(&mut peer, 1, "elicitation/create", form("Go?", named("ask"))).await;
    drop((client, peer));
    user.answers.notify_one();
    user.left.notified().await;
    user::is_answered(store.below()).await;
}
