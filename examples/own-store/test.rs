//! What the example promises: all that a store of tasks must, and that what it has acknowledged survives `kill -9`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../host.rs"]
#[expect(dead_code, reason = "nothing is called here that is no task")]
mod host;
mod redb_tasks;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use host::{Host, REVISIONS, nothing};
use longhaul_store::conformance::{Backend, Deployment, run_all};
use longhaul_store::{Settings, StepClock, StoreError, SystemClock, TaskStore, Time};
use redb_tasks::RedbTasks;
use serde_json::json;
use tempfile::TempDir;

struct Redb;
struct OneFile(RedbTasks, StepClock, #[expect(dead_code, reason = "it lasts as long as the store")] TempDir);

impl Backend for Redb {
    fn deploy(&self, settings: Settings) -> Box<dyn Deployment> {
        // In memory where there is such a place: the suite kills nobody, and flushes take time.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let path = folder.path().join("tasks.redb");
        let tasks = RedbTasks::open(path, settings, Arc::new(clock.clone())).unwrap();
        Box::new(OneFile(tasks, clock, folder))
    }
}

impl Deployment for OneFile {
    fn join(&self) -> Arc<dyn TaskStore> {
        Arc::new(self.0.node())
    }

    fn advance(&self, by: Duration) {
        self.1.advance(by);
    }
}

#[tokio::test]
async fn it_keeps_every_promise_of_a_store_of_tasks() {
    run_all(&Redb).await;
}

#[test]
fn one_process_has_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let path = folder.path().join("tasks.redb");
        RedbTasks::open(path, Settings::default(), Arc::new(SystemClock::new()))
    };
    let first = open().unwrap();
    assert!(matches!(open(), Err(StoreError::Busy { .. })));
    drop(first);
}

fn start(folder: &Path) -> Host {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-store"));
    command.arg(folder.join("tasks.redb")).arg(folder.join("journal"));
    Host::start(
        &mut command,
        REVISIONS[1],
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        nothing,
    )
}

fn lines(folder: &Path) -> Vec<String> {
    let journal = std::fs::read_to_string(folder.join("journal")).unwrap_or_default();
    journal.lines().map(str::to_owned).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never: {what}");
}

#[test]
fn a_task_goes_on_after_each_kill_and_does_nothing_again_that_was_recorded() {
    const LINES: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    let call = json!({"name": "write_lines", "arguments": {"lines": LINES}});
    let id = server.ask("tools/call", call)["taskId"].clone();
    let kills = [1, 10, 20];
    for written in kills {
        wait_until("it writes on", || lines(folder.path()).len() > written);
        // Its process is killed.
        drop(server);
        server = start(folder.path());
    }
    let mut task = json!({});
    wait_until("it ends", || {
        task = server.ask("tasks/get", json!({"taskId": id}));
        task["status"] != "working"
    });
    assert_eq!(task["result"]["content"][0]["text"], format!("{LINES} lines"), "{task}");
    let lines = lines(folder.path());
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), LINES, "{lines:?}");
    // A kill between a line and its record has that one line written again.
    assert!(lines.len() <= LINES + kills.len(), "{lines:?}");
}
