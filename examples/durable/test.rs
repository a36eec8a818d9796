//! What the example promises.

#[path = "../host.rs"]
mod host;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host::{Answer, Host, REVISIONS, nothing};
use serde_json::{Value, json};

fn start(folder: &Path, revision: &'static str, answer: Answer) -> Host {
    let able = json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut command = Command::new(env!("CARGO_BIN_EXE_durable"));
    command.arg(folder.join("tasks.db")).arg(folder.join("ledger"));
    Host::start(&mut command, revision, able, answer)
}

/// The task, once it is no longer only working.
fn settled(host: &mut Host, id: &Value) -> Value {
    for _ in 0..600 {
        let task = host.ask("tasks/get", json!({"taskId": id}));
        if task["status"] != "working" {
            return task;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it does not settle");
}

#[test]
fn a_killed_server_charges_once_and_asks_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path(), REVISIONS[1], nothing);
    let order = json!({"name": "order", "arguments": {"item": "a lamp", "amount": 40}});
    let id = server.ask("tools/call", order)["taskId"].clone();
    let asked = settled(&mut server, &id);
    assert_eq!(asked["status"], "input_required", "{asked}");
    let parts = json!({"uri": asked["_meta"]["dev.longhaul/parts"]["uri"]});
    let receipt = |server: &mut Host| {
        let read = server.ask("resources/read", parts.clone());
        let texts = read["contents"].as_array().unwrap().iter().map(|part| part["text"].clone());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(receipt(&mut server), ["receipt for 40"], "before the task has ended");
    let question = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    // Its process is killed.
    drop(server);

    let mut server = start(folder.path(), REVISIONS[1], nothing);
    let still = settled(&mut server, &id);
    assert_eq!(still["inputRequests"], asked["inputRequests"], "the same question under the same name");
    assert_eq!(receipt(&mut server), ["receipt for 40"], "given once");
    let answer = json!({"action": "accept", "content": {"now": true}});
    server.ask("tasks/update", json!({"taskId": id, "inputResponses": {question: answer}}));
    let done = settled(&mut server, &id);
    assert_eq!(done["result"]["content"][0]["text"], "receipt for 40; a lamp is on its way", "{done}");
    let ledger = std::fs::read_to_string(folder.path().join("ledger")).unwrap();
    assert_eq!(ledger.lines().count(), 1, "{ledger}");
}

#[test]
fn a_host_without_tasks_is_asked_while_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let yes: Answer = |_, _| json!({"action": "accept", "content": {"now": true}});
    let mut server = start(folder.path(), REVISIONS[0], yes);
    let (text, failed) = server.call("order", json!({"item": "a lamp", "amount": 40}));
    assert_eq!((text.as_str(), failed), ("receipt for 40; a lamp is on its way", false));
}
