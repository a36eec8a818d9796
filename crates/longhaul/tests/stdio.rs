//! A server over this process's standard streams.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

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
