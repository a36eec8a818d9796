//! Fronts that answer and workers that work, on one PostgreSQL database or one Redis: each in its role, and when it is to stop.

use std::{fs, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::fleet::{CONFIG, Events, Fleet, Node, SAY, TOKENS, says_yes, told};
use super::run;

#[tokio::test]
async fn a_front_answers_for_workers_that_have_the_tool() {
    a_front_answers_for_workers(&Fleet::new(&format!("{CONFIG}\n{SAY}"))).await;
}

#[tokio::test]
async fn a_front_answers_for_workers_that_have_the_tool_on_redis() {
    a_front_answers_for_workers(&Fleet::on_redis(&format!("{CONFIG}\n{SAY}"))).await;
}

async fn a_front_answers_for_workers(fleet: &Fleet) {
    fs::write(fleet.path().join("other.toml"), SAY).unwrap();
    let (front, other) = (fleet.node(&["--role", "front"]), fleet.node(&["other.toml", "--role", "worker"]));
    assert!(front.server.said.contains("  role     front"), "{}", front.server.said);
    // What is never a task of its caller's is worked on elsewhere all the same.
    let session = front.session("ann").await;
    let say = json!({"name": "say", "arguments": {}});
    let said = front.in_session(&session, "tools/call", say.clone()).await.answer().await;
    assert_eq!(said["result"]["content"][0]["text"], "said", "{said}");
    let said = front.ask("ann", "tools/call", say).await;
    assert_eq!(said["result"]["content"][0]["text"], "said", "{said}");
    // A worker without the tool leaves it alone; one that has it takes it.
    let task = front.call("ann", "work", json!({"until": "go"})).await;
    let begun = |output: &Value| output["result"]["contents"][0]["text"] == "begun\n";
    let uri = json!({"uri": format!("longhaul://tasks/{task}/stdout")});
    assert!(!begun(&front.ask("ann", "resources/read", uri.clone()).await), "nobody has the tool");
    let worker = fleet.node(&["--role", "worker"]);
    assert_eq!(told(&worker, "healthz").await, (200, "ok".to_owned()));
    assert_eq!(told(&worker, "readyz").await, (200, "ready".to_owned()));
    assert_eq!(told(&worker, "mcp").await.0, 404, "it answers nobody");
    assert_eq!(told(&front, "readyz").await.0, 200);
    let mut looks = 0;
    while !begun(&front.ask("ann", "resources/read", uri.clone()).await) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
        assert!(looks < 1500, "no worker begins it");
    }
    fs::write(fleet.path().join("go"), "").unwrap();
    let ended = front.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "begun\nended\n", "{ended}");
    // A question of a worker's is answered at the front.
    let task = front.call("ann", "ask", json!({})).await;
    let asking = front.until(&task, |task| task["status"] == "input_required").await;
    says_yes(&front, &asking).await;
    let ended = front.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "went on", "{ended}");
    drop((other, worker));
}

const RELEASE: &str = env!("CARGO_PKG_VERSION");

#[tokio::test]
async fn the_operator_sees_servers_that_hold_nothing() {
    let operator =
        "[auth]\ntokens.ann = { from = \"file:ann\", scope = \"ops\" }\n[page]\noperators = \"ops\"\n";
    for fleet in [Fleet::new(&format!("{operator}{SAY}")), Fleet::on_redis(&format!("{operator}{SAY}"))] {
        let (front, _worker) = (fleet.node(&["--role", "front"]), fleet.node(&["--role", "worker"]));
        let nodes = async || {
            let url = front.server.url().replace("/mcp", "/admin/api/nodes");
            let told =
                front.http.get(url).bearer_auth(TOKENS[0].1).send().await.unwrap().text().await.unwrap();
            told.parse::<Value>().unwrap()["nodes"].take()
        };
        let mut told = nodes().await;
        for _ in 0..1500 {
            if told
                .as_array()
                .is_some_and(|nodes| nodes.iter().filter(|node| node["role"].is_string()).count() == 2)
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            told = nodes().await;
        }
        let mut roles: Vec<_> =
            told.as_array().unwrap().iter().map(|node| (&node["role"], &node["isThis"])).collect();
        roles.sort_by_key(|(role, _)| role.as_str());
        assert_eq!(roles, [(&json!("front"), &json!(true)), (&json!("worker"), &json!(false))], "{told}");
        assert_eq!((&told[0]["tasks"], &told[1]["tasks"]), (&json!(0), &json!(0)), "{told}");
        assert_eq!((&told[0]["release"], &told[1]["release"]), (&RELEASE.into(), &RELEASE.into()), "{told}");
    }
}

#[tokio::test]
async fn each_may_be_asked_of_a_task_that_another_works_on() {
    everything_goes_by_another_node(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn each_may_be_asked_of_a_task_that_another_works_on_on_redis() {
    everything_goes_by_another_node(&Fleet::on_redis(CONFIG)).await;
}

async fn everything_goes_by_another_node(fleet: &Fleet) {
    fs::write(fleet.path().join("endless"), "").unwrap();
    let front = || fleet.node(&["--role", "front"]);
    let (creates, polls, answers, cancels) = (front(), front(), front(), front());
    let _works = fleet.node(&["--role", "worker"]);
    let task = creates.call("ann", "ask", json!({})).await;
    let listen = json!({"notifications": {"taskIds": [task]}});
    let mut hears = Events::of(polls.send("ann", "subscriptions/listen", listen).await);
    let asking = polls.until(&task, |task| task["status"] == "input_required").await;
    until_told(&mut hears, "input_required").await;
    says_yes(&answers, &asking).await;
    until_told(&mut hears, "working").await;
    until("it does not go on", || fleet.path().join("working").exists()).await;
    let cancelled = cancels.ask("ann", "tasks/cancel", json!({"taskId": task})).await;
    assert!(cancelled["result"].is_object(), "{cancelled}");
    until_told(&mut hears, "cancelled").await;
    until("its work is not ended", || fleet.path().join("stopped").exists()).await;
    for node in [&creates, &polls, &answers, &cancels] {
        let found = node.ask("ann", "tasks/get", json!({"taskId": task})).await;
        assert_eq!(found["result"]["status"], "cancelled", "{found}");
    }
}

/// Reads on until it is told that its task is in this status.
async fn until_told(stream: &mut Events, status: &str) {
    while stream.until("notifications/tasks").await["params"]["status"] != status {}
}

/// Waits until it is so.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn a_worker_that_is_to_stop_ends_what_would_end_with_it() {
    what_would_end_is_waited_for(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn a_worker_that_is_to_stop_ends_what_would_end_with_it_on_redis() {
    what_would_end_is_waited_for(&Fleet::on_redis(CONFIG)).await;
}

async fn what_would_end_is_waited_for(fleet: &Fleet) {
    let (front, mut worker) = (fleet.node(&["--role", "front"]), fleet.node(&["--role", "worker"]));
    let task = front.call("ann", "ask", json!({})).await;
    let asking = front.until(&task, |task| task["status"] == "input_required").await;
    worker.signal(Signal::TERM);
    says_yes(&front, &asking).await;
    let ended =
        front.until(&task, |task| task["status"] != "input_required" && task["status"] != "working").await;
    assert_eq!(ended["result"]["content"][0]["text"], "went on", "{ended}");
    assert!(worker.server.child.wait().unwrap().success(), "and then it exits");
}

/// What goes on elsewhere when its worker stops: a command and the next in line, and a call that may be made again.
const ELSEWHERE: &str = r#"
[tools.line]
description = "Work one after another"
command = ["sh", "-c", "echo begun; while [ -e longhaul.toml ] && [ ! -e \"$1\" ]; do sleep 0.02; done; echo ended", "line", "{until}"]
input.until = { description = "The file" }
task = "always"
limit = 1

[servers.again]
command = ["sh", "asks.sh"]
prefix = "again_"
task = "always"
rerun = "restart"
"#;

#[tokio::test]
async fn a_worker_that_is_to_stop_gives_back_what_goes_on_elsewhere_and_nothing_is_charged() {
    what_goes_on_elsewhere_is_given_back(&Fleet::new(&format!("{CONFIG}\n{ELSEWHERE}"))).await;
}

#[tokio::test]
async fn a_worker_that_is_to_stop_gives_back_what_goes_on_elsewhere_and_nothing_is_charged_on_redis() {
    what_goes_on_elsewhere_is_given_back(&Fleet::on_redis(&format!("{CONFIG}\n{ELSEWHERE}"))).await;
}

async fn what_goes_on_elsewhere_is_given_back(fleet: &Fleet) {
    let (front, worker) = (fleet.node(&["--role", "front"]), fleet.node(&["--role", "worker"]));
    let runs = front.call("ann", "line", json!({"until": "one"})).await;
    until_written(&front, &runs, "begun\n").await;
    let waits = front.call("ann", "line", json!({"until": "two"})).await;
    front.until(&waits, |task| task["statusMessage"] == "queued: 1 of line are running, its limit").await;
    let asks = front.call("ann", "again_ask", json!({})).await;
    front.until(&asks, |task| task["status"] == "input_required").await;
    worker.stop().await;

    let _next = fleet.node(&["--role", "worker"]);
    fs::write(fleet.path().join("one"), "").unwrap();
    fs::write(fleet.path().join("two"), "").unwrap();
    for task in [&runs, &waits] {
        let ended = front.until(task, |task| task["status"] == "completed").await;
        assert_eq!(ended["result"]["content"][0]["text"], "begun\nended\n", "{ended}");
    }
    let asking = front.until(&asks, |task| task["status"] == "input_required").await;
    says_yes(&front, &asking).await;
    let ended = front.until(&asks, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "went on", "{ended}");
    // A call that is made again is given up after some attempts: this was none. Of what runs outside they are only counted.
    let words = ["tasks", "get", &asks, "--store", &fleet.store, "--state", "state"];
    let (code, said, err) = run(fleet.path(), &words);
    assert!(
        code == 0 && said.lines().any(|line| line.trim_end().ends_with("attempt 1")),
        "{code} {said}{err}"
    );
}

/// A server whose calls are made again.
const AGAIN: &str = r#"
[auth]
tokens.ann = { from = "file:ann" }

[servers.asks]
command = ["sh", "asks.sh"]
task = "always"
rerun = "restart"
"#;

#[tokio::test]
async fn who_is_called_again_may_ask_what_was_asked_in_vain_or_something_else() {
    who_is_called_again_asks(&Fleet::new(AGAIN)).await;
}

#[tokio::test]
async fn who_is_called_again_may_ask_what_was_asked_in_vain_or_something_else_on_redis() {
    who_is_called_again_asks(&Fleet::on_redis(AGAIN)).await;
}

async fn who_is_called_again_asks(fleet: &Fleet) {
    let (front, mut worker) = (fleet.node(&["--role", "front"]), fleet.node(&["--role", "worker"]));
    // Its server ends while it asks, and asks the same when it is called again.
    let lives = fleet.path().join("lives");
    fs::write(&lives, "").unwrap();
    let task = front.call("ann", "ask", json!({})).await;
    let first = key(&until_asked(&front, &task, "Go on?", None).await);
    fs::remove_file(&lives).unwrap();
    let again = key(&until_asked(&front, &task, "Go on?", Some(&first)).await);
    // By another worker it is called for the first time, and its question is the one that is open.
    worker.stop().await;
    worker = fleet.node(&["--role", "worker"]);
    assert!(worker.server.said.contains("1 taken up"), "{}", worker.server.said);
    assert_eq!(key(&until_asked(&front, &task, "Go on?", None).await), again);
    // What it does not ask again nobody waits for.
    worker.stop().await;
    fs::write(fleet.path().join("question"), "Really?\n").unwrap();
    worker = fleet.node(&["--role", "worker"]);
    until_asked(&front, &task, "Really?", None).await;
    // And what nobody waited for is asked anew.
    worker.stop().await;
    fs::write(fleet.path().join("question"), "Go on?\n").unwrap();
    let _last = fleet.node(&["--role", "worker"]);
    let asking = until_asked(&front, &task, "Go on?", Some(&again)).await;
    says_yes(&front, &asking).await;
    let ended = front.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "went on", "{ended}");
}

/// The task, once it asks this and nothing else, under another key than that.
async fn until_asked(front: &Node, task: &str, what: &str, other: Option<&String>) -> Value {
    let is_it =
        |(key, question): (&String, &Value)| question["params"]["message"] == what && Some(key) != other;
    let asks = |all: &serde_json::Map<_, _>| all.len() == 1 && all.iter().all(is_it);
    front.until(task, |task| task["inputRequests"].as_object().is_some_and(asks)).await
}

/// The key of what the task asks.
fn key(asking: &Value) -> String {
    asking["inputRequests"].as_object().unwrap().keys().next().unwrap().clone()
}

async fn until_written(front: &Node, task: &str, what: &str) {
    let uri = json!({"uri": format!("longhaul://tasks/{task}/stdout")});
    for _ in 0..1500 {
        let read = front.ask("ann", "resources/read", uri.clone()).await;
        if read["result"]["contents"][0]["text"] == what {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{task} does not write {what:?}");
}

#[tokio::test]
async fn who_waits_in_a_session_at_a_front_that_stops_is_told_so_and_answered_at_another() {
    a_front_stops_while_a_session_waits(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn who_waits_in_a_session_at_a_front_that_stops_is_told_so_and_answered_at_another_on_redis() {
    a_front_stops_while_a_session_waits(&Fleet::on_redis(CONFIG)).await;
}

async fn a_front_stops_while_a_session_waits(fleet: &Fleet) {
    let front = || fleet.node(&["--role", "front"]);
    let (stops, stays, _worker) = (front(), front(), fleet.node(&["--role", "worker"]));
    let session = stops.session("ann").await;
    let asked = json!({"name": "work", "arguments": {"until": "go"}, "task": {}});
    let created = stops.in_session(&session, "tools/call", asked).await.answer().await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let waits = || json!({"taskId": task});
    let waiting = stops.in_session(&session, "tasks/result", waits()).await;
    stops.stop().await;
    let told = waiting.answer().await;
    let why = &told["error"]["data"];
    assert_eq!((&why["reason"], why["retryAfterMs"].is_u64()), (&json!("stopping"), true), "{told}");
    let again = stays.in_session(&session, "tasks/result", waits());
    let (again, ()) = tokio::join!(async { again.await.answer().await }, async {
        fs::write(fleet.path().join("go"), "").unwrap();
    });
    assert_eq!(again["result"]["content"][0]["text"], "begun\nended\n", "{again}");
}
