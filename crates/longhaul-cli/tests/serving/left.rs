//! A server over standard input and output whose client has left: it stops as one does that is asked to.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::ASKS;
use super::upstreams::{WORK, folder, lines, over_pipes, start};
use super::{Server, longhaul, run};

/// A server that works on a call of its client, and the id of the task which that has become.
fn at_work(at: &Path, tool: &str) -> (Server, String) {
    let mut serve = longhaul(at, &["serve", "--stdio"]);
    let mut server = Server::of(serve.stdin(Stdio::piped()));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    writeln!(server.child.stdin.as_mut().unwrap(), "{call}").unwrap();
    let mut answer = String::new();
    BufReader::new(server.child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let id = answer["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (server, id)
}

/// What a server whose client has left says until it has ended.
fn ended(mut server: Server) -> String {
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
    server.later.iter().collect::<Vec<_>>().join("\n")
}

/// What is told of a task, once it says this.
fn told(at: &Path, id: &str, what: &str) -> String {
    for _ in 0..1500 {
        let (_, said, _) = run(at, &["tasks", "get", id]);
        if said.contains(what) {
            return said;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{:?}", run(at, &["tasks", "get", id]));
}

#[test]
fn what_can_go_on_elsewhere_is_given_back_when_the_client_has_left() {
    let front = "[servers.asks]\ncommand = [\"sh\", \"asks.sh\"]\ntask = \"always\"\nrerun = \"restart\"\n";
    let folder = folder(front, "");
    let at = folder.path();
    fs::write(at.join("asks.sh"), ASKS).unwrap();
    for _ in 0..5 {
        let (server, id) = at_work(at, "ask");
        told(at, &id, "input required");
        let said = ended(server);
        assert!(!said.contains("not done in time"), "{said}");
        let found = told(at, &id, "input required");
        // Neither kept to the end nor put aside meanwhile, and no attempt is charged.
        if found.contains("queued: waits for a server") && found.contains("attempt 0") {
            return;
        }
        // It was put aside before, then: that takes two seconds.
        assert!(found.contains("put aside"), "{found}");
    }
    panic!("it is always kept until it is put aside");
}

#[test]
fn whose_client_has_left_takes_up_nothing_more() {
    let folder = folder(&over_pipes("task = \"always\""), &format!("{WORK}task = \"never\"\n"));
    let (at, runs) = (folder.path(), folder.path().join("behind/runs"));
    let (mut server, id) = at_work(at, "work");
    lines(&runs, 1);
    let front = Server::start(at, &["--role", "front", "--http", "127.0.0.1:0"]);
    drop(server.child.stdin.take());
    // So that it has heard of that.
    std::thread::sleep(Duration::from_millis(500));
    let (code, _, err) = run(at, &["call", "--wait", "2500ms", "--json", front.url(), "work"]);
    assert_eq!(code, 7, "{err}");
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n", "its call is for another server");
    fs::write(at.join("behind/go"), "").unwrap();
    ended(server);
    assert_eq!(run(at, &["tasks", "result", &id]).1, "ended\n", "what it had begun could end");
    let (_, listed, _) = run(at, &["tasks", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let queued = listed["tasks"].as_array().unwrap().iter().find(|task| task["taskId"] != *id);
    let queued = queued.and_then(|task| task["taskId"].as_str()).unwrap_or_else(|| panic!("{listed}"));
    let _other = start(at);
    let (code, said, err) = run(at, &["tasks", "wait", queued]);
    assert_eq!((code, run(at, &["tasks", "result", queued]).1.as_str()), (0, "ended\n"), "{said}{err}");
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\nrun\n");
}
