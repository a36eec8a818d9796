//! A server that is killed while acknowledged tasks stand in line for the only place of a tool that never runs twice.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use longhaul::server::TaskPolicy;
use longhaul::store::Sqlite;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

/// What the program is told: where it keeps everything, and whether its work ends.
const FOLDER: &str = "LONGHAUL_TEST_LINE";
const ENDS: &str = "LONGHAUL_TEST_LINE_ENDS";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Job {
    name: String,
}

/// No test, but the server of one. Its tool writes down that it begins, and may never end.
#[tokio::test]
#[ignore = "it is a program that another test starts"]
async fn a_program_with_one_place() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let ends = std::env::var_os(ENDS).is_some();
    let (begun, tasks) = (folder.join("begun"), folder.join("tasks.db"));
    let tool = Tool::typed("work", "Work", move |_: Cx, Job { name }| {
        let begun = begun.clone();
        async move {
            let mut file = OpenOptions::new().create(true).append(true).open(begun).unwrap();
            file.write_all(format!("{name}\n").as_bytes()).unwrap();
            if !ends {
                std::future::pending::<()>().await;
            }
            format!("{name} is done")
        }
    });
    let mut policy = TaskPolicy::always();
    policy.limit = Some(1);
    let server = Server::new("line", "1").tool(tool.task(policy)).store(Sqlite::open(tasks).unwrap());
    server.serve_stdio().await.unwrap();
    std::process::exit(0);
}

/// A process of the server, and its client.
struct Process {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    number: u64,
}

impl Process {
    fn start(folder: &Path, ends: bool) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["a_program_with_one_place", "--exact", "--ignored", "--nocapture"]).env(FOLDER, folder);
        if ends {
            program.env(ENDS, "yes");
        }
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = program.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut this = Self { child, input, lines, number: 0 };
        let client = json!({"name": "t", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        this.ask("initialize", hello);
        this
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params});
        writeln!(self.input, "{message}").unwrap();
        loop {
            let line = self.lines.next().expect("it goes on").unwrap();
            // The harness has its say as well.
            let said: Value = serde_json::from_str(&line).unwrap_or_default();
            if said["id"] == self.number {
                return said;
            }
        }
    }

    /// The id of a task of this name.
    fn begin(&mut self, name: &str) -> Value {
        let call = json!({"name": "work", "arguments": {"name": name}, "task": {}});
        self.ask("tools/call", call)["result"]["task"]["taskId"].clone()
    }

    /// Ends it with SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begun(folder: &Path) -> Vec<String> {
    let begun = fs::read_to_string(folder.join("begun")).unwrap_or_default();
    begun.lines().map(str::to_owned).collect()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "it does not become so");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_was_acknowledged_and_had_not_begun_is_begun_once_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = Process::start(folder, false);
    let [one, two, three] = ["one", "two", "three"].map(|name| server.begin(name));
    until(|| begun(folder) == ["one"]);
    server.kill();

    // One of the two that are left begins, and its process is killed as well.
    let server = Process::start(folder, false);
    until(|| begun(folder).len() == 2);
    server.kill();
    let second = begun(folder).pop().unwrap();

    let mut server = Process::start(folder, true);
    until(|| {
        let tasks = [&one, &two, &three].map(|id| server.ask("tasks/get", json!({"taskId": id})));
        tasks.iter().all(|task| task["result"]["status"] != "working")
    });
    for (name, id) in [("one", one), ("two", two), ("three", three)] {
        let result = server.ask("tasks/result", json!({"taskId": id}));
        if name == "one" || name == second {
            assert_eq!(result["error"]["data"]["reason"], "worker_lost", "{name}: {result}");
        } else {
            assert_eq!(result["result"]["content"][0]["text"], format!("{name} is done"), "{result}");
        }
    }
    let mut begun = begun(folder);
    begun.sort();
    assert_eq!(begun, ["one", "three", "two"], "each has begun once");
}
