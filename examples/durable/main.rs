//! A tool whose work outlives its process: what it has done is not done again, and what it asked is not asked again.
//! See README.md.

mod orders;

use anyhow::Context;
use longhaul::store::Sqlite;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "say where to keep tasks and charges: durable TASKS.db LEDGER";
    let (tasks, ledger) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    Ok(orders::server(ledger.into()).store(Sqlite::open(tasks)?).serve_stdio().await?)
}
