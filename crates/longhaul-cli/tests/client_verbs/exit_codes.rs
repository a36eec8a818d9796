//! Each exit code, and those that only other people's servers lead to.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    CONFIGURATION, Calling, LONGHAUL, Server, eventually, folder, longhaul, run, start_work, with_command,
};

/// What the program ended with, and said.
type Ended = (i32, String);

/// Each code that it ends with, and a way to it.
const CODES: [(i32, fn() -> Ended); 11] = [
    (0, || verb(&["schema"])),
    (1, || verb(&with_command(&["call", "fail"]))),
    (2, || verb(&["call", "say"])),
    (3, || call(&that_wants_a_sign_in())),
    (4, || verb(&["tools", "http://127.0.0.1:1/mcp"])),
    (5, || verb(&with_command(&["call", "sya"]))),
    (6, || call(&that_asks())),
    (7, || of_a_task(&[&["result"]])),
    (8, || of_a_task(&[&["cancel"], &["watch"]])),
    (130, left),
    (143, told_twice_to_stop),
];

#[test]
fn each_exit_code_is_documented_and_come_to() {
    let said = verb(&["--help"]).1;
    let (_, help) = said.split_once("Exit codes:\n").unwrap();
    let (_, manual) =
        include_str!("../../../longhaul/src/manual/from_a_terminal.md").split_once("## Exit codes").unwrap();
    let known: BTreeSet<i32> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(numbers(help), known, "a code that is documented has a way to it here");
    assert_eq!(numbers(manual.split("## ").next().unwrap()), known);
    for (code, way) in CODES {
        let (came, said) = way();
        assert_eq!(came, code, "{said}");
    }
}

/// The numbers that lines begin with, or rows of a table.
fn numbers(lines: &str) -> BTreeSet<i32> {
    let first = |line: &str| line.trim_start_matches('|').split_whitespace().next()?.parse().ok();
    lines.lines().filter_map(first).collect()
}

fn verb(words: &[&str]) -> Ended {
    let (code, out, err) = run(folder().path(), words);
    (code, out + &err)
}

/// What the last of these verbs ended with, of a task that is worked on.
fn of_a_task(verbs: &[&[&str]]) -> Ended {
    let folder = folder();
    let server = Server::start(folder.path());
    let (_calling, _out, id) = start_work(folder.path(), &server.url, &[]);
    let mut last = (-1, String::new());
    for verb in verbs {
        let (code, out, err) = run(folder.path(), &[&["tasks"], *verb, &[&id]].concat());
        last = (code, out + &err);
    }
    last
}

/// A call that its user leaves.
fn left() -> Ended {
    let folder = folder();
    let server = Server::start(folder.path());
    let (mut calling, _out, _id) = start_work(folder.path(), &server.url, &[]);
    calling.interrupt();
    (calling.code().unwrap_or(-1), String::new())
}

/// A server that is told to stop until it does, while it waits for a call.
fn told_twice_to_stop() -> Ended {
    let stay = r#"
[tools.stay]
description = "Stay until the folder is gone"
command = ["sh", "-c", "touch began; while [ -e longhaul.toml ]; do sleep 0.02; done"]
task = "never"
"#;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("longhaul.toml"), [CONFIGURATION, stay].concat()).unwrap();
    let mut server = Server::start(folder.path());
    let _calling = Calling(longhaul(folder.path(), &["call", &server.url, "stay"]).spawn().unwrap());
    eventually("the call", || folder.path().join("began").exists());
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    let mut status = None;
    eventually("it stays", || {
        kill_process(pid, Signal::TERM).unwrap();
        status = server.child.try_wait().unwrap();
        status.is_some()
    });
    (status.unwrap().code().unwrap_or(-1), String::new())
}

/// What servers start ends as what it started did; its codes are for servers, and are documented where those look.
#[test]
fn what_only_servers_start_says_by_its_code_how_that_ended() {
    let me = std::process::id().to_string();
    for (words, code) in [
        (&["supervise", "/nowhere/at/all"][..], 1),
        #[cfg(target_os = "linux")]
        (&["tend", &me, "sh", "-c", "exit 9"], 9),
        #[cfg(target_os = "linux")]
        (&["tend", &me, "/nowhere/at/all"], 127),
        #[cfg(target_os = "linux")]
        (&["tend-group", &me, "sh", "-c", "exit 9"], 9),
        #[cfg(target_os = "linux")]
        (&["tend-group", &me, "/nowhere/at/all"], 127),
    ] {
        let (came, said) = verb(words);
        assert_eq!(came, code, "{words:?}: {said}");
    }
}

/// Whoever waits for it is told that it was killed, not that it ended with a code of its own.
#[cfg(target_os = "linux")]
#[test]
fn what_tends_a_program_ends_by_the_signal_that_has_ended_that() {
    let me = std::process::id().to_string();
    for verb in ["tend", "tend-group"] {
        for (name, signal) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
            let ends = format!("ulimit -c 0; kill -{name} $$");
            let mut tended = Command::new(LONGHAUL);
            let status = tended.args([verb, &me, "sh", "-c", &ends]).process_group(0).status().unwrap();
            assert_eq!(status.signal(), Some(signal), "{verb} {name}: {status}");
        }
        // One of real time, whose number is a code beside the signal's own.
        let (code, said) = self::verb(&[verb, &me, "sh", "-c", "kill -40 $$"]);
        assert_eq!(code, 168, "{said}");
    }
}

/// Whoever has too few descriptors has none for that, as anybody before Linux 5.3.
#[cfg(target_os = "linux")]
#[test]
fn a_program_ends_after_its_starter_where_no_descriptor_can_show_that() {
    // With one less it is not started, and with one more there is one for that. What this process opens beside may take one.
    for most in (4..16).cycle().take(120) {
        let script = format!(
            "ulimit -n {most}; \"$0\" tend-group $$ sh -c 'echo $PPID $$; exec sleep 60'; echo not started"
        );
        let mut starter = Command::new("sh");
        starter.args(["-c", &script, LONGHAUL]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut starter = starter.stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(starter.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let pids = said.split_whitespace().map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
        let Ok([tends, program]) = pids.as_deref() else {
            starter.wait().unwrap();
            continue;
        };
        let held = std::fs::read_dir(format!("/proc/{tends}/fd")).unwrap();
        let shows_it = held
            .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap())
            .any(|held| held.to_string_lossy().contains("pidfd"));
        starter.kill().unwrap();
        starter.wait().unwrap();
        eventually("it outlives its starter", || {
            let stat = std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
        if !shows_it {
            return;
        }
    }
    panic!("it is never started without one");
}

/// Each call of a server may leave an orphan behind, which becomes a child of what tends it.
#[cfg(target_os = "linux")]
#[test]
fn an_orphan_that_has_ended_is_reaped_while_the_program_lives() {
    let me = std::process::id().to_string();
    // Whoever has ended can be signalled until it is reaped.
    let program = "orphan=$( (sleep 0.1 >/dev/null & echo $!) ); turns=0
        while kill -0 $orphan 2>/dev/null; do
            turns=$((turns + 1)); [ $turns -lt 100 ] || exit 8; sleep 0.1
        done
        exit 7";
    let (code, said) = verb(&["tend", &me, "sh", "-c", program]);
    assert_eq!(code, 7, "the orphan is a zombie after ten seconds: {said}");
}

/// A server that answers each request with a status line and a body; its URL.
fn server(answer: fn(&Value) -> (&'static str, Value)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap(), answer));
        }
    });
    url
}

fn serve(mut stream: TcpStream, answer: fn(&Value) -> (&'static str, Value)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, body) = answer(&serde_json::from_slice(&body).unwrap_or_default());
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
    }
}

fn call(url: &str) -> Ended {
    let output = Command::new(LONGHAUL).args(["call", url, "ask"]).stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

fn that_wants_a_sign_in() -> String {
    server(|_| ("401 Unauthorized", json!({})))
}

#[test]
fn a_server_that_wants_a_sign_in_is_3() {
    let (code, err) = call(&that_wants_a_sign_in());
    assert_eq!(code, 3, "{err}");
    assert!(err.starts_with("error: "), "{err}");
}

#[test]
fn a_tool_that_would_ask_and_says_so_before_is_6() {
    let url = server(|request| match request["method"].as_str() {
        Some("tools/call") => {
            let data = json!({ "requiredCapabilities": { "elicitation": { "form": {} } } });
            let error =
                json!({ "code": -32021, "message": "missing required client capability", "data": data });
            ("400 Bad Request", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))
        }
        _ => ("200 OK", offering(request)),
    });
    let (code, err) = call(&url);
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("needs answers while it runs"), "{err}");
}

fn that_asks() -> String {
    server(|request| {
        let form = json!({ "mode": "form", "message": "how?", "requestedSchema": { "type": "object", "properties": {} } });
        let questions = json!({ "q": { "method": "elicitation/create", "params": form } });
        let asked =
            json!({ "resultType": "input_required", "requestState": "s", "inputRequests": questions });
        match request["method"].as_str() {
            Some("tools/call") => {
                ("200 OK", json!({ "jsonrpc": "2.0", "id": request["id"], "result": asked }))
            }
            _ => ("200 OK", offering(request)),
        }
    })
}

#[test]
fn a_tool_that_asks_when_nobody_can_answer_is_6() {
    let (code, err) = call(&that_asks());
    assert_eq!(code, 6, "{err}");
    assert!(err.starts_with("error: "), "{err}");
}

/// What a server says that has one tool.
fn offering(request: &Value) -> Value {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({
            "supportedVersions": ["2026-07-28"], "resultType": "complete", "ttlMs": 0,
            "cacheScope": "public", "capabilities": { "tools": {} },
        }),
        _ => json!({
            "tools": [{ "name": "ask", "inputSchema": { "type": "object" } }],
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        }),
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}
