//! Tasks in a database of one's own choice: a server that keeps them in redb. See README.md.

mod redb_tasks;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use longhaul::server::{State, ToolError};
use longhaul::store::{Settings, SystemClock};
use longhaul::{Cx, Server, tool};
use redb_tasks::RedbTasks;

/// Where the tool writes to.
struct Journal(PathBuf);

/// Write so many lines, a little apart.
#[tool(task = "always", rerun = "resumable")]
async fn write_lines(cx: Cx, journal: State<Journal>, lines: u32) -> Result<String, ToolError> {
    for line in 0..lines {
        let write = || async {
            let mut journal = OpenOptions::new().create(true).append(true).open(&journal.0)?;
            Ok::<_, ToolError>(writeln!(journal, "{line}")?)
        };
        cx.step("line", write).await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(format!("{lines} lines"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "say where to keep tasks and lines: own-store TASKS.redb JOURNAL";
    let (tasks, journal) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    let tasks = RedbTasks::open(tasks, Settings::default(), Arc::new(SystemClock::new()))?;
    let server = Server::new("writer", "1.0.0").state(Journal(journal.into())).tool(write_lines);
    Ok(server.store(tasks.node()).serve_stdio().await?)
}
