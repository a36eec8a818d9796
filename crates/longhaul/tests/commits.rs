//! How often a task writes to the disk, on SQLite: a flush is most of what it costs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use longhaul::client::{CallOptions, Client, Started};
use longhaul::server::{TaskPolicy, ToolError, local_user};
use longhaul::store::Sqlite;
use longhaul::transport::memory;
use longhaul::{Cx, Server, Tool};

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Steps {
    steps: usize,
}

async fn work(cx: Cx, Steps { steps }: Steps) -> Result<String, ToolError> {
    for nth in 0..steps {
        cx.step("step", || async move { Ok::<_, ToolError>(nth) }).await?;
    }
    Ok(format!("{steps} taken"))
}

/// Bytes of the log's header, of a frame's, and of a page.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const PAGE: usize = 4096;

/// How many commits are in a log that has not been begun anew.
fn commits(log: &Path) -> usize {
    let log = fs::read(log).unwrap();
    let frames = log[HEADER..].chunks_exact(FRAME_HEADER + PAGE);
    // The last frame of a commit says how large the file is then.
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn an_instant_task_is_two_commits_and_a_step_is_one_more_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path().join("tasks.db")).unwrap();
    let log = folder.path().join("tasks.db-wal");
    let work = Tool::typed("work", "Take some steps", work).task(TaskPolicy::always());
    let dispatcher = Server::new("test", "1").tool(work).store(store).dispatcher().unwrap();
    let client = Client::connect(memory::serve(dispatcher, local_user())).await.unwrap();
    for steps in [0, 0, 1, 10, 0] {
        let before = commits(&log);
        let Started::Task(task) =
            client.start("work", &Steps { steps }, CallOptions::default()).await.unwrap()
        else {
            panic!("not a task")
        };
        let result = task.wait().await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap(), format!("{steps} taken"));
        // What it learns while it is created goes with its creation, or with its end.
        let commits = commits(&log) - before;
        assert!(
            (2..=2 + steps).contains(&commits),
            "{commits} commits: its creation, its end, and {steps} steps"
        );
    }
}
