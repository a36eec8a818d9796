//! Tools that take their process with them: what becomes of their tasks in the next one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A process of the server `deadly`, which is killed with this.
struct Server {
    process: Child,
    writer: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Server {
    fn start(store: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transcript-server"));
        let command = command.args(["deadly", "--store"]).arg(store).stderr(Stdio::null());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (writer, reader) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, writer, lines: BufReader::new(reader) }
    }

    /// The result of a request, of a client that takes tasks.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.writer, "{request}").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{method}: {line:?}"));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].take()
    }

    /// How the process ended, which it must within a minute.
    fn ended(&mut self) -> ExitStatus {
        for _ in 0..1200 {
            if let Some(ended) = self.process.try_wait().unwrap() {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it lives");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the task of a call of `tool` comes to, whose process dies, in the next.
fn comes_to(tool: &str, how: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (store, mark) = (folder.path().join("tasks.db"), folder.path().join("begun"));
    let mut first = Server::start(&store);
    let made = first.ask("tools/call", json!({"name": tool, "arguments": {"how": how, "mark": mark}}));
    let id = made["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let ended = first.ended();
    assert!(!ended.success() && ended.code().is_none(), "a signal ends it: {ended}");
    assert!(mark.exists(), "{tool}, {how}");
    let mut next = Server::start(&store);
    for _ in 0..1200 {
        let task = next.ask("tasks/get", json!({"taskId": id}));
        if task["status"] != "working" {
            return task;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the task of {tool} is stuck, whose process went by {how}");
}

#[test]
fn k25_work_that_takes_its_process_along_is_lost_or_run_again_and_never_stuck() {
    std::thread::scope(|scope| {
        for how in ["abort", "overflow", "memory"] {
            scope.spawn(move || {
                let lost = comes_to("once", how);
                assert_eq!(
                    (&lost["status"], &lost["error"]["code"]),
                    (&json!("failed"), &json!(-32603)),
                    "{lost}"
                );
                assert_eq!(lost["error"]["data"]["reason"], "worker_lost", "{lost}");
                let again = comes_to("again", how);
                assert_eq!(again["result"]["content"][0]["text"], "lives", "{again}");
            });
        }
    });
}
