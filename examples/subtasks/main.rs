//! A tool that leaves parts of its work to others: each is a task of its own, made once. See README.md.

mod boats;

use anyhow::Context;
use longhaul::store::Sqlite;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "say where to keep tasks and what was built: subtasks TASKS.db YARD";
    let (tasks, yard) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    Ok(boats::server(yard.into()).store(Sqlite::open(tasks)?).serve_stdio().await?)
}
