//! A tool whose definition changes while its tasks wait: who begins them, and who goes on with what runs.

use std::fs;

use serde_json::{Value, json};

use super::fleet::{CONFIG, Fleet, Node};
use super::run;

/// A definition of a tool that says which it is.
fn which(says: &str, versions: &str) -> String {
    format!(
        "[tools.which]\ndescription = \"Say which\"\ncommand = [\"printf\", \"{says}\"]\ntask = \"always\"\n{versions}\n"
    )
}

#[tokio::test]
async fn a_definition_that_has_changed_begins_what_waits_only_where_it_accepts_its_version() {
    only_who_accepts_it_begins_it(&Fleet::new(&format!("{CONFIG}\n{}", which("one", "version = \"1\""))))
        .await;
}

#[tokio::test]
async fn a_definition_that_has_changed_begins_what_waits_only_where_it_accepts_its_version_on_redis() {
    let fleet = Fleet::on_redis(&format!("{CONFIG}\n{}", which("one", "version = \"1\"")));
    only_who_accepts_it_begins_it(&fleet).await;
}

async fn only_who_accepts_it_begins_it(fleet: &Fleet) {
    let worker = |file: &str, says: &str, versions: &str| {
        fs::write(fleet.path().join(file), which(says, versions)).unwrap();
        fleet.node(&[file, "--role", "worker"])
    };
    let front = fleet.node(&["--role", "front"]);
    let _newer = worker("newer.toml", "two", "version = \"2\"");
    let _plain = worker("plain.toml", "none", "");
    let task = front.call("ann", "which", json!({})).await;
    let said = "queued: no node runs version 1.0.0 of which";
    let waits = front.until(&task, |task| task["statusMessage"] == said).await;
    assert_eq!(waits["status"], "working", "{waits}");
    let words = ["tasks", "get", &task, "--store", &fleet.store, "--state", "state"];
    let (code, shown, err) = run(fleet.path(), &words);
    assert!(code == 0 && shown.contains(said), "{code} {shown}{err}");

    let _both = worker("both.toml", "both", "version = \"2.1\"\naccepts = \">=1, <3\"");
    assert_eq!(ended(&front, &task).await, "both");
}

/// What comes of a task.
async fn ended(node: &Node, task: &str) -> Value {
    let mut ended = node.until(task, |task| task["status"] == "completed").await;
    ended["result"]["content"][0]["text"].take()
}

/// A definition whose calls are worked on one after another.
fn line(says: &str, versions: &str) -> String {
    let command = format!(
        "echo {says}; while [ -e longhaul.toml ] && [ ! -e \\\"$1\\\" ]; do sleep 0.02; done; echo ended"
    );
    format!(
        "{CONFIG}\n[tools.line]\ndescription = \"Work\"\ncommand = [\"sh\", \"-c\", \"{command}\", \"line\", \"{{until}}\"]\n\
         input.until = {{ description = \"The file\" }}\ntask = \"always\"\nlimit = 1\n{versions}\n"
    )
}

#[tokio::test]
async fn what_runs_is_followed_in_any_version_and_what_has_not_begun_waits_for_its_own() {
    let fleet = Fleet::in_a_file(&line("first", "version = \"1\""));
    let is_now = |definition: String| fs::write(fleet.path().join("longhaul.toml"), definition).unwrap();
    let node = fleet.node(&[]);
    let runs = node.call("ann", "line", json!({"until": "one"})).await;
    let waits = node.call("ann", "line", json!({"until": "two"})).await;
    node.until(&waits, |task| task["statusMessage"] == "queued: 1 of line are running, its limit").await;
    // That it has a place does not say that it has begun yet.
    node.until(&runs, |task| task["statusMessage"] == "first").await;
    drop(node);

    is_now(line("second", "version = \"2\""));
    let node = fleet.node(&[]);
    fs::write(fleet.path().join("one"), "").unwrap();
    fs::write(fleet.path().join("two"), "").unwrap();
    assert_eq!(ended(&node, &runs).await, "first\nended\n", "it runs on as it was begun");
    node.until(&waits, |task| task["statusMessage"] == "queued: no node runs version 1.0.0 of line").await;
    let own = node.call("ann", "line", json!({"until": "one"})).await;
    assert_eq!(ended(&node, &own).await, "second\nended\n");
    drop(node);

    is_now(line("third", "version = \"2\"\naccepts = \">=1, <3\""));
    let node = fleet.node(&[]);
    assert_eq!(ended(&node, &waits).await, "third\nended\n");
}
