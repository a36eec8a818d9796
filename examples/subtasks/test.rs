//! What the example promises.

#[expect(dead_code, reason = "nothing is called here that is no task")]
#[path = "../host.rs"]
mod host;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host::{Host, REVISIONS, nothing};
use serde_json::{Value, json};

fn start(folder: &Path) -> Host {
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut command = Command::new(env!("CARGO_BIN_EXE_subtasks"));
    command.arg(folder.join("tasks.db")).arg(folder.join("yard"));
    Host::start(&mut command, REVISIONS[1], able, nothing)
}

/// The task, once it is as told.
fn until(host: &mut Host, id: &Value, is: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1200 {
        let task = host.ask("tasks/get", json!({"taskId": id}));
        if is(&task) {
            return task;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it does not come to that");
}

fn boat(host: &mut Host, parts: &Value) -> Value {
    let call = json!({"name": "build_boat", "arguments": {"parts": parts}});
    host.ask("tools/call", call)["taskId"].clone()
}

#[test]
fn a_killed_server_builds_each_part_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let id = boat(&mut server, &json!(["hull", "mast", "sail"]));
    until(&mut server, &id, |task| {
        task["statusMessage"].as_str().is_some_and(|status| status.starts_with("waits for 3 tasks"))
    });
    // Its process is killed.
    drop(server);

    let mut server = start(folder.path());
    let done = until(&mut server, &id, |task| task["status"] != "working");
    assert_eq!(done["result"]["content"][0]["text"], "a boat of hull, mast, sail", "{done}");
    let yard = std::fs::read_to_string(folder.path().join("yard")).unwrap();
    let mut parts: Vec<&str> = yard.lines().collect();
    parts.sort_unstable();
    assert_eq!(parts, ["hull", "mast", "sail"]);
}

#[test]
fn a_part_that_fails_is_the_boats_to_judge() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let id = boat(&mut server, &json!(["hull", "anchor"]));
    let done = until(&mut server, &id, |task| task["status"] != "working");
    let said = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("no boat without anchor") && said.ends_with("there is no iron left"), "{said}");
}
