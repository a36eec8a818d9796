//! A server over this process's standard streams.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::server::TaskPolicy;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// No test, but the server of one: its tool prints, and starts a program that does.
#[tokio::test]
#[ignore = "it is a program that another test starts"]
#[expect(clippy::print_stdout, reason = "that is what is tried")]
async fn a_program_that_prints() {
    if std::env::var_os("PRINTS").is_none() {
        return;
    }
    let tool = Tool::typed("print", "Print", |_: Cx, Nothing {}| async {
        println!("a word of its own");
        Command::new("echo").arg("a word of a program").status().unwrap();
        "printed"
    });
    println!("before");
    Server::new("prints", "1").tool(tool).serve_stdio().await.unwrap();
    println!("after");
    std::process::exit(0);
}

/// No test, but the server of one, with tasks as they were drafted. It prints how often its tool has run.
#[tokio::test]
#[ignore = "it is a program that another test starts"]
#[expect(clippy::print_stdout, reason = "that is what is read")]
async fn a_program_with_drafted_tasks() {
    if std::env::var_os("DRAFTS").is_none() {
        return;
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = Tool::typed("count", "Count", move |_: Cx, Nothing {}| {
        let before = counted.fetch_add(1, Ordering::SeqCst);
        async move { format!("{before} before") }
    });
    println!("before");
    Server::new("drafts", "1")
        .tool(tool.task(TaskPolicy::always()))
        .drafted_tasks(true)
        .serve_stdio()
        .await
        .unwrap();
    println!("ran {}", runs.load(Ordering::SeqCst));
    std::process::exit(0);
}

/// A5 of `conformance/REQUIREMENTS.md`.
#[test]
fn a5_an_id_of_a_megabyte_or_of_other_characters_runs_nothing() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["a_program_with_drafted_tasks", "--exact", "--ignored", "--nocapture"])
        .env("DRAFTS", "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "before"));
    let mut number = 0;
    let mut ask = |method: &str, params: Value| -> (Value, usize) {
        number += 1;
        let message = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        writeln!(input, "{message}").unwrap();
        loop {
            let line = lines.next().expect("it goes on");
            let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if said["id"] == number {
                return (said, line.len());
            }
            assert_eq!(said["method"], "notifications/tasks/created", "{said}");
        }
    };
    let client = json!({"name": "t", "version": "1"});
    ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}));
    let call = |id: &str| json!({"name": "count", "arguments": {}, "_meta": {"modelcontextprotocol.io/task": {"taskId": id}}});
    let good = "786512e2-9e0d-44bd-8f29-789f320fe840";
    for id in [
        &"x".repeat(1 << 20),
        &"\u{1}".repeat(1 << 17),
        &format!("{good}\n{{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}}"),
        &format!("{good}\r"),
        &format!("{good}\0"),
        &format!("\u{1b}[2J{good}"),
        &format!("{good}\u{85}"),
    ] {
        let ways = [
            ("tools/call", call(id)),
            ("tasks/get", json!({"taskId": id})),
            ("tasks/delete", json!({"taskId": id})),
        ];
        for (method, params) in ways {
            let (answer, length) = ask(method, params);
            assert!(length < 4096, "{method}: an id is not said again: {length} bytes");
            assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
        }
    }
    let (answer, _) = ask("tools/call", call(good));
    assert_eq!(answer["result"]["content"][0]["text"], "0 before", "any other is as good as ever: {answer}");
    drop(input);
    assert_eq!(lines.next().as_deref(), Some("ran 1"));
    assert!(server.wait().unwrap().success());
}

#[test]
fn s17_what_a_tool_prints_is_no_message() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["a_program_that_prints", "--exact", "--ignored", "--nocapture"])
        .env("PRINTS", "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    // What its harness has to say first.
    assert!(lines.any(|line| line == "before"));
    let client = json!({"name": "t", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    for (id, method, params) in
        [(0, "initialize", hello), (1, "tools/call", json!({"name": "print", "arguments": {}}))]
    {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
        let line = lines.next().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(answer["id"], id, "{answer}");
    }
    drop(input);
    assert_eq!(lines.next().as_deref(), Some("after"), "it is everybody's again");
    let mut printed = String::new();
    server.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("a word of its own") && printed.contains("a word of a program"), "{printed}");
    assert!(server.wait().unwrap().success());
}
