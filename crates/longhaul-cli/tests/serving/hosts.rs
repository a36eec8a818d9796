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
