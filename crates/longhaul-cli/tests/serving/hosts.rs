//! Servers with a state folder each on one store: a command is its host's, whichever is asked.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::{Fleet, Node};

const CONFIG: &str = r#"
[auth]
tokens.ann = { from = "file:ann" }
tokens.bob = { from = "file:bob" }

[tools.work]
description = "Work until a file is there, or another is not"
command = ["sh", "-c", "trap 'echo >> ended; exit 1' TERM; echo >> begun; echo working; while [ -e longhaul.toml ] && [ ! -e go ]; do sleep 0.02; done; echo done"]
task = "after 50ms"

[tools.count]
description = "Count far"
command = ["seq", "400000"]
task = "always"

[servers.asks]
command = ["sh", "asks.sh"]
task = "always"
"#;

/// One server on each of two hosts. Both have the tool; which folder holds the run says where it runs.
fn two(fleet: &Fleet) -> (Node, Node) {
    (fleet.node_on("one", &[]), fleet.node_on("two", &[]))
}

/// Waits until it is so.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}");
}

/// How often something was noted in a file.
fn times(fleet: &Fleet, file: &str) -> usize {
    fs::read_to_string(fleet.path().join(file)).map_or(0, |lines| lines.lines().count())
}

/// How many runs there are in a state folder.
fn runs(fleet: &Fleet, state: &str) -> usize {
    let is_run = |path: &Path| path.is_dir() && path.join("spec.json").is_file();
    let entries = fs::read_dir(fleet.path().join(state).join("runs")).unwrap();
    entries.filter(|entry| is_run(&entry.as_ref().unwrap().path())).count()
}

#[tokio::test]
async fn a_command_outlives_its_node_and_no_other_host_begins_or_loses_it() {
    its_own_host_goes_on_with_it(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn a_command_outlives_its_node_and_no_other_host_begins_or_loses_it_on_redis() {
    its_own_host_goes_on_with_it(&Fleet::on_redis(CONFIG)).await;
}

#[tokio::test]
async fn a_command_outlives_its_node_and_no_other_host_begins_or_loses_it_in_a_file() {
    its_own_host_goes_on_with_it(&Fleet::in_a_file(CONFIG)).await;
}

async fn its_own_host_goes_on_with_it(fleet: &Fleet) {
    let (one, two) = two(fleet);
    let task = one.call("ann", "work", json!({})).await;
    // A task of another kind is lost with its process: whoever says so has looked for all that this one has left.
    let lost = one.call("ann", "ask", json!({})).await;
    until("it does not begin", || times(fleet, "begun") == 1).await;
    drop(one);
    two.until(&lost, |task| task["status"] == "failed").await;
    let found = two.ask("ann", "tasks/get", json!({"taskId": task})).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
    assert_eq!((times(fleet, "begun"), runs(fleet, "one"), runs(fleet, "two")), (1, 1, 0));

    let _back = fleet.node_on("one", &[]);
    fs::write(fleet.path().join("go"), "").unwrap();
    let ended = two.until(&task, |task| task["status"] == "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "working\ndone\n", "{ended}");
    assert_eq!((times(fleet, "begun"), runs(fleet, "two")), (1, 0));
}

#[tokio::test]
async fn a_cancel_at_another_host_ends_the_command_where_it_runs() {
    a_cancel_reaches_it(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn a_cancel_at_another_host_ends_the_command_where_it_runs_on_redis() {
    a_cancel_reaches_it(&Fleet::on_redis(CONFIG)).await;
}

#[tokio::test]
async fn a_cancel_at_another_host_ends_the_command_where_it_runs_in_a_file() {
    a_cancel_reaches_it(&Fleet::in_a_file(CONFIG)).await;
}

async fn a_cancel_reaches_it(fleet: &Fleet) {
    let (one, two) = two(fleet);
    let begin = async |number: usize| {
        let task = one.call("ann", "work", json!({})).await;
        until("it does not begin", || times(fleet, "begun") == number).await;
        task
    };
    let cancel = async |task: String| {
        let cancelled = two.ask("ann", "tasks/cancel", json!({"taskId": task})).await;
        assert!(cancelled["result"].is_object(), "{cancelled}");
        let found: Value = two.ask("ann", "tasks/get", json!({"taskId": task})).await;
        assert_eq!(found["result"]["status"], "cancelled", "whoever asks is told at once: {found}");
    };
    cancel(begin(1).await).await;
    until("its node does not hear of it", || times(fleet, "ended") == 1).await;
    // While no node of its host is there it runs on, until one comes back.
    let task = begin(2).await;
    drop(one);
    cancel(task).await;
    assert_eq!(times(fleet, "ended"), 1);
    let _back = fleet.node_on("one", &[]);
    until("who comes back does not end it", || times(fleet, "ended") == 2).await;
}

#[tokio::test]
async fn what_a_command_writes_is_read_at_another_host() {
    its_output_is_read_elsewhere(&Fleet::new(CONFIG)).await;
}

#[tokio::test]
async fn what_a_command_writes_is_read_at_another_host_on_redis() {
    its_output_is_read_elsewhere(&Fleet::on_redis(CONFIG)).await;
}

#[tokio::test]
async fn what_a_command_writes_is_read_at_another_host_in_a_file() {
    its_output_is_read_elsewhere(&Fleet::in_a_file(CONFIG)).await;
}

/// What is read of a task's stdout behind `after`, and where that ends.
async fn output(node: &Node, who: &str, task: &str, after: u64) -> Value {
    let uri = format!("longhaul://tasks/{task}/stdout?after={after}");
    let read = node.ask(who, "resources/read", json!({"uri": uri})).await;
    read.pointer("/result/contents/0").cloned().unwrap_or_default()
}

/// Where it ends once it is that, and is done or not.
async fn written(node: &Node, task: &str, after: u64, (text, is_done): (&str, bool)) -> u64 {
    for _ in 0..1500 {
        let read = output(node, "ann", task, after).await;
        let position = &read["_meta"]["dev.longhaul/output"];
        if read["text"] == text && position["done"] == is_done {
            return position["next"].as_u64().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{text:?} is not read behind {after}: {}", output(node, "ann", task, after).await)
}

async fn its_output_is_read_elsewhere(fleet: &Fleet) {
    let (one, two) = two(fleet);
    let task = one.call("ann", "work", json!({})).await;
    assert_eq!(written(&two, &task, 0, ("working\n", false)).await, 8);
    assert_eq!(output(&two, "bob", &task, 0).await, Value::Null, "it is its owner's alone");
    // Its host is gone, and what it has said is not.
    drop(one);
    written(&two, &task, 0, ("working\n", false)).await;
    let _back = fleet.node_on("one", &[]);
    fs::write(fleet.path().join("go"), "").unwrap();
    two.until(&task, |task| task["status"] == "completed").await;
    // Whoever is told that it has ended finds all of it, at once.
    let end = output(&two, "ann", &task, 8).await;
    assert_eq!(end["text"], "done\n", "{end}");
    let position = &end["_meta"]["dev.longhaul/output"];
    assert_eq!((&position["total"], &position["done"]), (&json!(13), &json!(true)), "{end}");
}

#[tokio::test]
async fn of_much_the_newest_is_read_at_another_host_and_what_is_before_it_is_named() {
    let fleet = Fleet::in_a_file(CONFIG);
    let (one, two) = two(&fleet);
    let task = one.call("ann", "count", json!({})).await;
    let all: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    two.until(&task, |task| task["status"] == "completed").await;
    let (mut at, mut missing, mut text, mut is_done) = (0, 0, String::new(), false);
    while !is_done {
        let read = output(&two, "ann", &task, at).await;
        let position = &read["_meta"]["dev.longhaul/output"];
        let gap = |end: &str| position["gap"][end].as_u64().unwrap_or(0);
        missing += gap("to") - gap("from");
        text.push_str(read["text"].as_str().unwrap());
        let next = position["next"].as_u64().unwrap();
        is_done = position["done"] == true;
        assert!(is_done || next > at, "{read}");
        at = next;
    }
    assert_eq!(at, all.len() as u64);
    assert!(text.len() >= 1000 << 10, "{} bytes are kept", text.len());
    assert_eq!(missing, (all.len() - text.len()) as u64);
    assert!(all.ends_with(&text));
}

#[tokio::test]
async fn a_verb_reads_of_the_store_what_another_host_has_written() {
    let fleet = Fleet::in_a_file(CONFIG);
    let (one, two) = two(&fleet);
    let task = one.call("ann", "work", json!({})).await;
    written(&two, &task, 0, ("working\n", false)).await;
    for state in [&["--state", "one"][..], &["--state", "two"], &[]] {
        let words = ["tasks", "log", &task, "--store", "sqlite:tasks.db"];
        let (code, said, why) = super::run(fleet.path(), &[&words, state].concat());
        assert_eq!((code, said.as_str()), (0, "working\n"), "{why}");
    }
}
