//! A use case's server in a process of its own, which is killed and started again. Whoever was connected stays so: it has the
//! same address.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use longhaul::Client;
use longhaul::client::{CallOptions, Options, Started, TaskHandle};
use longhaul::proto::model::Task;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct Served {
    case: &'static str,
    folder: PathBuf,
    process: Child,
}

impl Served {
    /// Serves a case from this folder. It is ready when this returns.
    pub(crate) async fn start(case: &'static str, folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_use-cases"))
            .arg(case)
            .arg(folder)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).await.unwrap();
        assert!(line.starts_with("ready"), "{line}");
        // Whatever else it says is read, so that nothing keeps it from going on.
        tokio::spawn(async move { tokio::io::copy(&mut said, &mut tokio::io::stderr()).await });
        Self { case, folder: folder.to_owned(), process }
    }

    /// Kills the process (SIGKILL), and starts another in its place.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill().await;
        *self = Self::start(self.case, &self.folder).await;
    }

    /// Kills the process (SIGKILL).
    async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    pub(crate) async fn connect(&self) -> Client {
        self.connect_with(Options::default()).await
    }

    pub(crate) async fn connect_with(&self, options: Options) -> Client {
        let address = format!("unix:{}", self.folder.join("mcp").display());
        Client::connect_with(address.as_str(), options).await.unwrap()
    }
}

/// The task that a call becomes.
pub(crate) async fn begin(client: &Client, tool: &str, arguments: Value) -> TaskHandle {
    match client.start(tool, &arguments, CallOptions::default()).await.unwrap() {
        Started::Task(task) => task,
        Started::Result(result) => panic!("no task: {result:?}"),
    }
}

/// The task, once it is as told; which is looked at now and then, until it has ended.
pub(crate) async fn until(task: &TaskHandle, is: impl AsyncFn(&Task) -> bool) -> Task {
    for _ in 0..3000 {
        let seen = task.get().await.unwrap();
        if is(&seen).await {
            return seen;
        }
        assert!(!seen.status.is_terminal(), "it has ended: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not come to that");
}

/// What a task has given so far, behind the first `after` parts.
pub(crate) async fn parts(client: &Client, task: &str, after: usize) -> Vec<String> {
    let read = client.read_resource(&format!("longhaul://tasks/{task}/parts?after={after}")).await.unwrap();
    read.contents.into_iter().filter_map(|part| part.text).filter(|text| !text.is_empty()).collect()
}

/// The text of the task's result, once it has ended.
pub(crate) async fn ends_with(task: &TaskHandle) -> String {
    let result = tokio::time::timeout(Duration::from_secs(120), task.wait()).await.expect("it ends").unwrap();
    result.content[0].as_text().unwrap().to_owned()
}
