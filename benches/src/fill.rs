//! Fills a store with tasks, as many days of calls leave them: nearly all have ended, some failed.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Parser;
use longhaul::store::{Batch, Json, Limits, NewTask, Outcome, Owner, Settings, TaskId, TaskStore as _};
use longhaul_store::{Sqlite, SqliteOptions};
use tokio::task::JoinSet;

/// Fills a store with tasks.
#[derive(Parser)]
struct Arguments {
    /// The store, an SQLite file
    file: PathBuf,
    /// How many tasks
    tasks: u32,
}

/// How many are written at once, which share their commits.
const AT_ONCE: u32 = 256;

/// Every so manieth task goes on, and every so manieth has failed.
const OPEN: u32 = 200;
const FAILED: u32 = 20;

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { file, tasks } = Arguments::parse();
    let mut limits = Limits::default();
    (limits.max_open, limits.max_retained, limits.max_retained_per_owner) = (MANY, MANY, MANY);
    let mut settings = Settings::default();
    settings.limits = limits;
    let store = Arc::new(SqliteOptions::new().with_settings(settings).open(file)?);
    let mut writing = JoinSet::new();
    for number in 0..tasks {
        if writing.len() >= AT_ONCE as usize {
            writing.join_next().await.ok_or_else(|| anyhow!("nothing is written"))???;
        }
        writing.spawn(write(Arc::clone(&store), number));
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(())
}

/// More tasks than are written.
const MANY: u64 = 10_000_000;

async fn write(store: Arc<Sqlite>, number: u32) -> Result<()> {
    let tool = ["test", "build", "deploy"][number as usize % 3];
    let arguments = Json::parse(format!(
        r#"{{"crate":"crate-{}","release":{}}}"#,
        number % 97,
        number.is_multiple_of(2)
    ))?;
    let id = TaskId::new(format!("{tool}-{number:020}"))?;
    let owner = Owner::principal(["ann", "bob"][number as usize % 2])?;
    let task = store.create(NewTask::new(id, owner, tool, arguments)).await?.into_record();
    if number.is_multiple_of(OPEN) {
        return Ok(());
    }
    let text = r#"{"content":[{"type":"text","text":"test result: ok. 412 passed; 0 failed"}]}"#;
    let outcome = match number % FAILED {
        0 => Outcome::result(Json::parse(text.replace("ok", "FAILED"))?, true),
        _ => Outcome::result(Json::parse(text)?, false),
    };
    store.finish(&task.id, task.epoch, outcome, Batch::new()).await?;
    Ok(())
}
