//! Several servers on one PostgreSQL database, or on one Redis: whichever is asked, the answer is the same.

#[path = "../../../longhaul-store/tests/postgres/rig.rs"]
#[expect(dead_code, reason = "what befalls databases is for the tests of the store")]
pub(super) mod rig;

#[path = "../../../longhaul-store/tests/redis/rig.rs"]
#[expect(dead_code, unused_imports, reason = "what befalls servers is for the tests of the store")]
pub(super) mod redis;

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Server, run};

/// Who calls: each has a token of that name.
pub(super) const TOKENS: [(&str, &str); 2] =
    [("ann", "ann0123456789abcdef0123456789"), ("bob", "bob0123456789abcdef0123456789")];

pub(super) const CONFIG: &str = r#"
[auth]
tokens.ann = { from = "file:ann" }
tokens.bob = { from = "file:bob" }

[tools.work]
description = "Work until a file is there, or another is not"
command = ["sh", "-c", "echo begun; while [ -e longhaul.toml ] && [ ! -e \"$1\" ]; do sleep 0.02; done; echo ended", "work", "{until}"]
input.until = { description = "The file" }
task = "after 50ms"

[servers.asks]
command = ["sh", "asks.sh"]
task = "always"
"#;

/// A server that asks its caller whether to go on, or what a file says. It ends while it asks once a file is no longer there.
pub(super) const ASKS: &str = r#"
result() {
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}
while IFS= read -r line; do
    id=${line#*\"id\":} id=${id%%,*}
    case $line in *'"method":'*) method=${line#*\"method\":\"} method=${method%%\"*} ;; *) method=answer ;; esac
    case $method in
    initialize)
        result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"asks","version":"1"}}'
        ;;
    tools/list)
        result '{"tools":[{"name":"ask","description":"Ask","inputSchema":{"type":"object"}}]}'
        ;;
    tools/call)
        call=$id id='"q"' question='Go on?'
        [ -e question ] && read -r question <question
        printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"%s","requestedSchema":{"type":"object","properties":{"go":{"type":"boolean"}}}}}\n' "$question"
        if [ -e lives ]; then
            while [ -e lives ]; do sleep 0.02; done
            exit 1
        fi
        ;;
    answer)
        id=$call said=stayed
        case $line in *'"go":true'*) said='went on' ;; esac
        # Where there is no end to it, it works until it is told to.
        if [ -e endless ]; then
            : >working
        else
            result "{\"content\":[{\"type\":\"text\",\"text\":\"$said\"}]}"
        fi
        ;;
    notifications/cancelled) : >stopped ;;
    notifications/*) ;;
    *)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}\n' "$id"
        ;;
    esac
done
"#;

/// A folder with a configuration, and a store.
pub(super) struct Fleet {
    folder: TempDir,
    pub(super) store: String,
}

impl Fleet {
    pub(super) fn new(config: &str) -> Self {
        Self { store: rig::shared().database(), ..Self::in_a_folder(config) }
    }

    /// Without a store.
    fn in_a_folder(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::write(at.join("longhaul.toml"), config).unwrap();
        fs::write(at.join("asks.sh"), ASKS).unwrap();
        for (name, token) in TOKENS {
            fs::write(at.join(name), token).unwrap();
        }
        Self { folder, store: String::new() }
    }

    /// The same, on Redis.
    pub(super) fn on_redis(config: &str) -> Self {
        Self::on(config, redis::shared().store())
    }

    /// The same, in this store.
    pub(super) fn on(config: &str, store: String) -> Self {
        Self { store, ..Self::in_a_folder(config) }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The same, on a file.
    pub(super) fn in_a_file(config: &str) -> Self {
        Self::on(config, "sqlite:tasks.db".to_owned())
    }

    /// One more server.
    pub(super) fn node(&self, more: &[&str]) -> Node {
        self.node_on("state", more)
    }

    /// One more on the host that is this folder.
    pub(super) fn node_on(&self, state: &str, more: &[&str]) -> Node {
        self.started(&self.store, state, more)
    }

    /// One more, which has this way to the store.
    pub(super) fn node_by(&self, store: &str, more: &[&str]) -> Node {
        self.started(store, "state", more)
    }

    fn started(&self, store: &str, state: &str, more: &[&str]) -> Node {
        let words = ["--store", store, "--state", state, "--http", "127.0.0.1:0"];
        let server = Server::start(self.path(), &[&words, more].concat());
        Node { server, http: reqwest::Client::new() }
    }
}

pub(super) struct Node {
    pub(super) server: Server,
    pub(super) http: reqwest::Client,
}

impl Node {
    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.server.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let ended = tokio::task::spawn_blocking(move || self.server.child.wait().unwrap());
        assert!(ended.await.unwrap().success());
    }

    pub(super) fn request(&self, method: reqwest::Method, who: &str) -> reqwest::RequestBuilder {
        let token = TOKENS.iter().find(|(name, _)| *name == who).unwrap().1;
        let request = self.http.request(method, self.server.url()).bearer_auth(token);
        request.header("accept", "application/json, text/event-stream")
    }

    /// A request of the modern era.
    pub(super) async fn send(&self, who: &str, method: &str, mut params: Value) -> reqwest::Response {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let mut request = self.request(reqwest::Method::POST, who);
        for name in ["name", "uri", "taskId"] {
            if let Some(name) = params[name].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        let request = request.header("mcp-method", method).header("mcp-protocol-version", "2026-07-28");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        posted(request, &body).await
    }

    pub(super) async fn ask(&self, who: &str, method: &str, params: Value) -> Value {
        Events::of(self.send(who, method, params).await).answer().await
    }

    /// The id of the task that a call has become.
    pub(super) async fn call(&self, who: &str, tool: &str, arguments: Value) -> String {
        let answer = self.ask(who, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// How the task stands once it does so.
    pub(super) async fn until(&self, task: &str, holds: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1500 {
            let answer = self.ask("ann", "tasks/get", json!({"taskId": task})).await["result"].take();
            if holds(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "{task} does not come to that: {}",
            self.ask("ann", "tasks/get", json!({"taskId": task})).await
        )
    }

    /// Opens a session of the legacy era.
    pub(super) async fn session(&self, who: &str) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "t", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = posted(self.request(reqwest::Method::POST, who), &body).await;
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    pub(super) async fn in_session(&self, session: &str, method: &str, params: Value) -> Events {
        self.in_session_as(7, session, method, params).await
    }

    /// The same of a request with this id.
    async fn in_session_as(&self, id: u32, session: &str, method: &str, params: Value) -> Events {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self.request(reqwest::Method::POST, "ann").header("mcp-session-id", session);
        Events::of(posted(request, &body).await)
    }

    /// What a client of that session is sent that had this event last.
    pub(super) async fn resume(&self, who: &str, session: &str, last: &str) -> reqwest::Response {
        let request = self.request(reqwest::Method::GET, who).header("mcp-session-id", session);
        request.header("last-event-id", last).send().await.unwrap()
    }
}

/// What a request with this message is answered.
pub(super) async fn posted(request: reqwest::RequestBuilder, message: &Value) -> reqwest::Response {
    let request = request.header("content-type", "application/json");
    request.body(message.to_string()).send().await.unwrap()
}

/// What is answered: messages, one by one.
pub(super) struct Events {
    response: reqwest::Response,
    read: String,
}

impl Events {
    pub(super) fn of(response: reqwest::Response) -> Self {
        Self { response, read: String::new() }
    }

    /// The next event that has an id or a message, with both. `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim().to_owned())
                };
                if let Some(data) = field("data:") {
                    return Some((field("id:").unwrap_or_default(), data.parse().unwrap_or_default()));
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await;
            let chunk = chunk.expect("something is sent in time").ok().flatten()?;
            self.read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next message by this method.
    pub(super) async fn until(&mut self, method: &str) -> Value {
        loop {
            let (_, message) = self.next().await.expect("it goes on");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The messages that are left of it.
    async fn rest(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some((_, message)) = self.next().await {
            messages.push(message);
        }
        messages
    }

    /// The same of a stream that was come back to behind this event, which it begins with.
    pub(super) async fn rest_behind(mut self, last: &str) -> Vec<Value> {
        assert_eq!(self.next().await, Some((last.to_owned(), Value::Null)));
        self.rest().await
    }

    /// The answer: the one object that it is, or the last that is sent.
    pub(super) async fn answer(mut self) -> Value {
        let is_stream = self.response.headers()["content-type"] == "text/event-stream";
        if !is_stream {
            return self.response.text().await.unwrap().parse().unwrap();
        }
        let mut last = Value::Null;
        while let Some((_, message)) = self.next().await {
            last = message;
        }
        last
    }
}

/// Answers a question of a task's so that it goes on.
pub(super) async fn says_yes(node: &Node, asking: &Value) {
    let key = asking["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answers = json!({key: {"action": "accept", "content": {"go": true}}});
    let given = json!({"taskId": asking["taskId"], "inputResponses": answers});
    let given = node.ask("ann", "tasks/update", given).await;
    assert!(given["result"].is_object(), "{given}");
}

#[tokio::test]
async fn n9_whichever_node_is_asked_serves_the_task_of_any() {
    whichever_is_asked_serves(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n9_whichever_node_is_asked_serves_the_task_of_any_on_redis() {
    whichever_is_asked_serves(&Fleet::on_redis(CONFIG)).await;
}

async fn whichever_is_asked_serves(fleet: &Fleet) {
    let (one, two, three) = (fleet.node(&[]), fleet.node(&[]), fleet.node(&[]));
    let task = one.call("ann", "work", json!({"until": "go"})).await;
    let found = two.ask("ann", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
    let foreign = two.ask("bob", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    // What the command says, by any node of its machine.
    let uri = format!("longhaul://tasks/{task}/stdout");
    let mut looks = 0;
    loop {
        let output = three.ask("ann", "resources/read", json!({"uri": uri})).await;
        if output["result"]["contents"][0]["text"] == "begun\n" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
        assert!(looks < 1500, "{output}");
    }
    // A subscription at one node hears what is done at another to what a third works on.
    let listen = json!({"notifications": {"taskIds": [task]}});
    let mut told = Events::of(two.send("ann", "subscriptions/listen", listen).await);
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        let (_, message) = told.next().await.expect("it goes on");
        if message["method"] == "notifications/tasks" && statuses.is_empty() {
            let cancelled = three.ask("ann", "tasks/cancel", json!({"taskId": task})).await;
            assert!(cancelled["result"].is_object(), "{cancelled}");
        }
        if message["method"] == "notifications/tasks" {
            let status = message["params"]["status"].clone();
            // That it has said something may be told in between.
            if statuses.last() != Some(&status) {
                statuses.push(status);
            }
        }
    }
    assert_eq!(statuses, ["working", "cancelled"]);
    one.until(&task, |task| task["status"] == "cancelled").await;
}

#[tokio::test]
async fn n9_a_question_is_answered_at_another_node_than_asks_it() {
    a_question_is_answered_elsewhere(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n9_a_question_is_answered_at_another_node_than_asks_it_on_redis() {
    a_question_is_answered_elsewhere(&Fleet::on_redis(CONFIG)).await;
}

async fn a_question_is_answered_elsewhere(fleet: &Fleet) {
    let (one, two, three) = (fleet.node(&[]), fleet.node(&[]), fleet.node(&[]));
    let task = one.call("ann", "ask", json!({})).await;
    let asking = two.until(&task, |task| task["status"] == "input_required").await;
    let questions = asking["inputRequests"].as_object().unwrap();
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Go on?", "{question}");
    let answers = json!({key: {"action": "accept", "content": {"go": true}}});
    let given = three.ask("ann", "tasks/update", json!({"taskId": task, "inputResponses": answers})).await;
    assert!(given["result"].is_object(), "{given}");
    let ended = two.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "went on", "{ended}");
}

#[tokio::test]
async fn n9_a_session_goes_on_at_another_node_when_its_own_is_killed() {
    a_session_goes_on_elsewhere(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n9_a_session_goes_on_at_another_node_when_its_own_is_killed_on_redis() {
    a_session_goes_on_elsewhere(&Fleet::on_redis(CONFIG)).await;
}

async fn a_session_goes_on_elsewhere(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = one.session("ann").await;
    // One that asks for a task, and one that waits with a stream.
    let asked = json!({"name": "work", "arguments": {"until": "go"}, "task": {}});
    let created = one.in_session(&session, "tools/call", asked).await.answer().await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let mut waiting = one.in_session(&session, "tasks/result", json!({"taskId": task})).await;
    let (last, primes) = waiting.next().await.expect("it begins with an event to come back to");
    assert_eq!(primes, Value::Null);
    drop(one);
    while waiting.next().await.is_some() {}
    // Whoever is somebody else finds no session, and so no stream.
    assert_eq!(two.resume("bob", &session, &last).await.status(), 404);
    let resumed = two.resume("ann", &session, &last).await;
    assert_eq!(resumed.status(), 200);
    assert_eq!(resumed.headers()["content-type"], "text/event-stream");
    // What waited at the killed node waits at this one: on its own stream, and by another in the same session.
    let mut result = two.in_session_as(8, &session, "tasks/result", json!({"taskId": task})).await;
    assert_eq!(result.next().await.expect("it waits").1, Value::Null);
    fs::write(fleet.path().join("go"), "").unwrap();
    let (resumed, result) = tokio::join!(Events::of(resumed).rest_behind(&last), result.answer());
    assert_eq!(result["result"]["content"][0]["text"], "begun\nended\n", "{result}");
    assert_eq!(resumed.len(), 1, "{resumed:?}");
    assert_eq!((&resumed[0]["id"], &resumed[0]["result"]), (&json!(7), &result["result"]));
}

#[tokio::test]
async fn n9_who_waits_for_a_call_is_answered_at_another_node_when_its_own_is_killed() {
    whoever_waits_is_answered_elsewhere(&Fleet::new(&format!("{CONFIG}\n{NEVER}"))).await;
}

#[tokio::test]
async fn n9_who_waits_for_a_call_is_answered_at_another_node_when_its_own_is_killed_on_redis() {
    whoever_waits_is_answered_elsewhere(&Fleet::on_redis(&format!("{CONFIG}\n{NEVER}"))).await;
}

/// What is no task, and so ends with its server.
const NEVER: &str = r#"
[tools.linger]
description = "Take a minute"
command = ["sleep", "60"]
task = "never"
"#;

#[tokio::test]
async fn n9_a_cancel_of_a_call_whose_node_was_killed_cancels_its_task() {
    a_cancel_outlives_the_node(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n9_a_cancel_of_a_call_whose_node_was_killed_cancels_its_task_on_redis() {
    a_cancel_outlives_the_node(&Fleet::on_redis(CONFIG)).await;
}

async fn a_cancel_outlives_the_node(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = one.session("ann").await;
    let work = json!({"name": "work", "arguments": {"until": "go"}});
    let mut work = one.in_session_as(8, &session, "tools/call", work).await;
    work.next().await.expect("it begins with an event to come back to");
    drop(one);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}});
    let request = two.request(reqwest::Method::POST, "ann").header("mcp-session-id", &session);
    assert_eq!(posted(request, &cancelled).await.status(), 202);
    let mut listed = Value::Null;
    for _ in 0..1500 {
        listed = two.in_session(&session, "tasks/list", json!({})).await.answer().await["result"].take();
        if listed["tasks"][0]["status"] == "cancelled" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it goes on: {listed}");
}

async fn whoever_waits_is_answered_elsewhere(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = one.session("ann").await;
    // One call becomes a task by itself while its caller waits, the other never does.
    let work = json!({"name": "work", "arguments": {"until": "go"}});
    let mut work = one.in_session_as(8, &session, "tools/call", work).await;
    let linger = json!({"name": "linger", "arguments": {}});
    let mut linger = one.in_session_as(9, &session, "tools/call", linger).await;
    let (work_last, _) = work.next().await.expect("it begins with an event to come back to");
    let (linger_last, _) = linger.next().await.expect("so does this");
    drop(one);
    let resumed = two.resume("ann", &session, &linger_last).await;
    let lost = Events::of(resumed).rest_behind(&linger_last).await;
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((&lost[0]["id"], &lost[0]["error"]["data"]["reason"]), (&json!(9), &json!("worker_lost")));
    let resumed = two.resume("ann", &session, &work_last).await;
    let answered = Events::of(resumed).rest_behind(&work_last);
    let (answered, ()) = tokio::join!(answered, async {
        fs::write(fleet.path().join("go"), "").unwrap();
    });
    assert_eq!(answered.len(), 1, "{answered:?}");
    let text = &answered[0]["result"]["content"][0]["text"];
    assert_eq!((&answered[0]["id"], text), (&json!(8), &json!("begun\nended\n")), "{answered:?}");
    let again = two.resume("ann", &session, &work_last).await;
    assert_eq!(Events::of(again).rest_behind(&work_last).await, answered, "it is told again as it was");
}

#[tokio::test]
async fn n2_a_node_that_stood_still_does_not_answer_once_more() {
    who_stood_still_answers_nobody(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn n2_a_node_that_stood_still_does_not_answer_once_more_on_redis() {
    who_stood_still_answers_nobody(&Fleet::on_redis(CONFIG)).await;
}

async fn who_stood_still_answers_nobody(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = two.session("ann").await;
    let asked = json!({"name": "work", "arguments": {"until": "go"}, "task": {}});
    let created = two.in_session(&session, "tools/call", asked).await.answer().await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let mut waiting = one.in_session(&session, "tasks/result", json!({"taskId": task})).await;
    let (last, _) = waiting.next().await.expect("it begins with an event to come back to");
    one.signal(Signal::STOP);
    let resumed = Events::of(two.resume("ann", &session, &last).await);
    // It takes some seconds to know that a node is gone.
    tokio::time::sleep(Duration::from_secs(15)).await;
    fs::write(fleet.path().join("go"), "").unwrap();
    let answered = resumed.rest_behind(&last).await;
    assert_eq!(answered.len(), 1, "{answered:?}");
    assert_eq!(answered[0]["result"]["content"][0]["text"], "begun\nended\n", "{answered:?}");
    one.signal(Signal::CONT);
    assert_eq!(waiting.next().await, None, "its own stream ends without an answer");
    for node in [&one, &two] {
        let again = Events::of(node.resume("ann", &session, &last).await);
        assert_eq!(
            again.rest_behind(&last).await,
            answered,
            "wherever it is asked for, the answer is that one"
        );
    }
}

#[tokio::test]
async fn n9_what_a_client_of_a_session_sends_and_is_told_may_come_by_any_node() {
    a_session_is_heard_at_any_node(&Fleet::new(&format!("{CONFIG}\n{NEVER}"))).await;
}

#[tokio::test]
async fn n9_what_a_client_of_a_session_sends_and_is_told_may_come_by_any_node_on_redis() {
    a_session_is_heard_at_any_node(&Fleet::on_redis(&format!("{CONFIG}\n{NEVER}"))).await;
}

async fn a_session_is_heard_at_any_node(fleet: &Fleet) {
    let (one, two) = (fleet.node(&[]), fleet.node(&[]));
    let session = one.session("ann").await;
    let own = two.request(reqwest::Method::GET, "ann").header("mcp-session-id", &session);
    let mut own = Events::of(own.send().await.unwrap());
    // It is known within a moment that the other has it, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = json!({"name": "ask", "arguments": {}, "task": {}});
    let created = one.in_session(&session, "tools/call", asked).await.answer().await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let told = own.until("notifications/tasks/status").await;
    assert_eq!(told["params"]["taskId"], task, "{told}");
    let mut waiting = one.in_session(&session, "tasks/result", json!({"taskId": task})).await;
    let asked = waiting.until("elicitation/create").await;
    let given = json!({"jsonrpc": "2.0", "id": asked["id"],
        "result": {"action": "accept", "content": {"go": true}}});
    let post = |message: Value| {
        let request = two.request(reqwest::Method::POST, "ann").header("mcp-session-id", &session);
        async move { posted(request, &message).await.status().as_u16() }
    };
    assert_eq!(post(given).await, 202);
    let result = waiting.answer().await;
    assert_eq!(result["result"]["content"][0]["text"], "went on", "{result}");
    let linger = json!({"name": "linger", "arguments": {}});
    let linger = one.in_session_as(9, &session, "tools/call", linger).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(post(cancelled).await, 202);
    let rest = linger.rest().await;
    assert!(rest.iter().all(Value::is_null), "it has no answer: {rest:?}");
}

pub(super) const SAY: &str =
    "[tools.say]\ndescription = \"Say it\"\ncommand = [\"printf\", \"said\"]\ntask = \"never\"\n";

/// What a program that watches over servers is told at a path of one.
pub(super) async fn told(node: &Node, path: &str) -> (u16, String) {
    let place = node.server.url().split("//").nth(1).unwrap().split('/').next().unwrap();
    let answer = node.http.get(format!("http://{place}/{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn what_runs_goes_on_in_the_store_that_its_own_was_copied_into() {
    what_runs_goes_on_in_a_copy(Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn what_runs_goes_on_in_the_store_that_its_own_was_copied_into_on_redis() {
    what_runs_goes_on_in_a_copy(Fleet::on_redis(CONFIG)).await;
}

async fn what_runs_goes_on_in_a_copy(mut fleet: Fleet) {
    let database = std::mem::replace(&mut fleet.store, "sqlite:longhaul.db".to_owned());
    let moved = format!("has been copied to {}://", database.split(':').next().unwrap());
    let node = fleet.node(&[]);
    let task = node.call("ann", "work", json!({"until": "go"})).await;
    let copy = |to: &str| run(fleet.path(), &["store", "copy", "sqlite:longhaul.db", to]);
    let (code, _, err) = copy(&database);
    assert!(code == 1 && err.contains("is in use by 1 other"), "{code} {err}");
    drop(node);
    let (code, said, err) = copy(&database);
    assert!(code == 0 && said.contains("tasks     1 copied"), "{code} {said}{err}");
    let (code, _, err) = copy("sqlite:another.db");
    assert!(code == 1 && err.contains(&moved), "{code} {err}");

    // What still runs is of the new store: a server on the old one would have it twice.
    let (code, _, err) = run(fleet.path(), &["serve", "--store", "sqlite:longhaul.db", "--state", "state"]);
    assert!(code == 1 && err.contains(&moved), "{code} {err}");
    fleet.store = database;
    let node = fleet.node(&[]);
    fs::write(fleet.path().join("go"), "").unwrap();
    let ended = node.until(&task, |task| task["status"] == "completed").await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("begun") && text.contains("ended"), "{ended}");
}
